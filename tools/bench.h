/* tools/bench.h: the parts of `clattn bench`: cases, the work they need, samples of time, what the device can
 * do at most, results, and where they go. Called by the files bench*.c, facts_measure.c and
 * tests/gemm/measure_gemm.c. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "session.h"

#include <cjson/cJSON.h>

#include <stdio.h>

/* ---- Cases: bench_case.c ------------------------------------------------------------------------------- */

enum { BENCH_TEXT = 192 };

/* One attention, or one multi-head attention module of heads_q * d_qk columns. */
typedef struct bench_case {
    const char *name; /* of the workload, or "shape" */
    bool is_module;
    int64_t batch, heads_q, heads_kv, len_q, len_kv, d_qk, d_v;
    bool causal;
    clattn_alignment alignment;
    int64_t window_left, window_right; /* -1: open */
    clattn_dtype dtype;
    const char *kernel; /* NULL: the table decides */
} bench_case;

extern const char *const bench_dtypes[3];

/* The workload at `index`, false from their number on. */
bool bench_workload(size_t index, bench_case *made);

/* Reads "b=1 hq=32 hkv=8 lq=1 lk=8192 d=128 dtype=f16 causal". */
bool bench_shape_read(const char *text, bench_case *made, tool_error *error);

/* The same text back, so that what it reads is this case; alignment named. */
void bench_shape_text(const bench_case *of, char text[BENCH_TEXT]);

/* What the library is told of a case that is no module. */
clattn_attention_desc bench_describe(const bench_case *of);

/* Keys [*first, *end) that query `row` sees. */
void bench_visible(const bench_case *of, int64_t row, int64_t *first, int64_t *end);

typedef struct bench_cost {
    double pairs; /* of query and key that see each other, over batches and heads */
    double flops; /* 2 (d_qk + d_v) a pair; of a module also its four projections */
    double bytes; /* q, k, v and out once; of a module x, its weights and out */
} bench_cost;

bench_cost bench_cost_of(const bench_case *of);

/* ---- Work: bench_work.c and bench_check.c -------------------------------------------------------------- */

enum { BENCH_TENSORS = 7, BENCH_OUT = BENCH_TENSORS - 1 };

/* A case with its tensors: random numbers in -1..1, those of a module's weights divided by the root of their
 * columns. All zero at first. */
typedef struct bench_work {
    bench_case of;
    clattn_context *context;         /* not owned */
    tool_array array[BENCH_TENSORS]; /* q, k, v or x, in_proj's weight and bias, out_proj's; out */
    cl_mem buffer[BENCH_TENSORS];    /* of those that a call reads or writes */
    clattn_attention_plan *plan;     /* one of these two */
    clattn_mha *mha;
} bench_work;

bool bench_work_create(clattn_context *context, const bench_case *of, bench_work *work, tool_error *error);
clattn_status bench_work_plan(bench_work *work); /* kernels built */
clattn_attention_info bench_work_info(const bench_work *work);
bool bench_work_call(bench_work *work, tool_error *error);  /* one call, waited for */
bool bench_work_fetch(bench_work *work, tool_error *error); /* the result into array[BENCH_OUT] */
void bench_work_free(bench_work *work);

typedef struct bench_check {
    int64_t rows;      /* compared */
    double difference; /* largest */
    double allowed;    /* where that was */
    bool ok;
} bench_check;

/* Compares a sample of rows with the same in double precision. A row may be off by `tolerance` and by one
 * step of the storage type. */
bool bench_check_rows(const bench_work *work, double tolerance, bench_check *check, tool_error *error);

/* ---- Samples: bench_series.c --------------------------------------------------------------------------- */

typedef struct bench_series {
    double *value;
    size_t count, room;
} bench_series;

bool bench_series_add(bench_series *series, double value, tool_error *error);
void bench_series_free(bench_series *series);

typedef struct bench_spread {
    double median, p10, p90; /* NaN of an empty series */
} bench_spread;

bool bench_spread_of(const bench_series *series, bench_spread *spread, tool_error *error);

/* Half the way from the 10th to the 90th percentile, as a share of the median. */
double bench_noise(const bench_spread *spread);

/* ---- What the device can do: bench_peak.c -------------------------------------------------------------- */

typedef struct bench_peak bench_peak;

/* Multiply-adds of f32, or of f16 where the device has them. */
bool bench_peak_create(clattn_context *context, clattn_dtype dtype, bench_peak **peak, tool_error *error);
void bench_peak_destroy(bench_peak *peak); /* NULL is allowed */

/* One sample each, some milliseconds long: fused multiply-adds on registers; reading memory, of which
 * `bytes` are in turn, or the most that there is. */
bool bench_peak_fma(bench_peak *peak, double *gflops, tool_error *error);
bool bench_peak_read(bench_peak *peak, double bytes, double *gbs, tool_error *error);
double bench_peak_bytes(const bench_peak *peak); /* the most that there is */

/* ---- Results ------------------------------------------------------------------------------------------- */

typedef enum bench_verdict { BENCH_TIMED, BENCH_REFUSED, BENCH_WRONG } bench_verdict;

typedef struct bench_result {
    bench_case of;
    bench_verdict verdict;
    char reason[CLATTN_TEXT_BYTES]; /* why there is no time */
    char kernel[64], gemm[64];      /* that computed it */
    bench_cost cost;
    bench_check check;
    double cold_s, cached_s, driver_s; /* plan and first call, NaN when not measured */
    bench_series seconds, fma, read;   /* a call; GFLOP/s and GB/s of the device in between */
    bench_spread time, peak, band;     /* of these */
} bench_result;

typedef struct bench_settings {
    double seconds;     /* of each case */
    double tolerance;   /* of the check */
    const char *device; /* as the user chose it, or NULL */
} bench_settings;

typedef struct bench_run {
    bench_settings set;
    clattn_context *context;
    bench_peak *device_peak;
    bench_result *result;
    size_t count;
    bench_series fma, read; /* of the whole run, of read_bytes bytes */
    bench_spread peak, band;
    double read_bytes;
} bench_run;

/* Times plan and first call of the case in new processes: with empty caches, then with what the library kept
 * on disk, then with what the driver kept. NaN where there is no such call or nothing was kept. Before the
 * device is opened. */
bool bench_first_calls(const bench_settings *set, bench_result *result, tool_error *error);

/* Checks, warms up and times a case that bench_work_plan has accepted, its kernels in turn with the
 * device's peaks. */
bool bench_measure(bench_work *work, bench_peak *peak, const bench_settings *set, bench_result *result,
                   tool_error *error);
void bench_result_free(bench_result *result);

double bench_gflops(const bench_result *result);
double bench_gbs(const bench_result *result);
double bench_of_peak(const bench_result *result); /* shares of 1 */
double bench_of_band(const bench_result *result);
const char *bench_bound_by(const bench_result *result); /* "fma" or "read": what it is nearer to */

/* ---- Where results go: bench_json.c, bench_compare.c, bench_plot.c ---------------------------------------
 */

#define BENCH_FORMAT "clattn-bench"
enum { BENCH_SCHEMA = 1 };

bool bench_json_write(const bench_run *run, FILE *file, const char *path, tool_error *error);
void bench_csv_write(const bench_run *run, FILE *file);

/* Reads a file of bench_json_write. */
bool bench_old_read(const char *path, cJSON **old, tool_error *error);

/* Prints a line a case; returns how many are slower by more than `limit`, a share, and beyond the noise, or
 * have no time any more. */
size_t bench_compare(const bench_run *run, const cJSON *old, const char *path, double limit);

/* The roofline as SVG. */
bool bench_plot_write(const bench_run *run, FILE *file, const char *path, tool_error *error);

#endif
