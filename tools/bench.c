/* tools/bench.c: `clattn bench`: how fast attention is on a device, beside what the device can do.
 * Called by main.c. */
#include "bench.h"
#include "commands.h"
#include "report.h"

#include "files/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *workload, *shape, *device, *kernel;
    int dtype; /* clattn_dtype, or ALL_DTYPES */
    double seconds, tolerance;
} values;

enum { ALL_DTYPES = 3 };

/* Cases and, later, what became of them. */
typedef struct bench_list {
    bench_result *item;
    size_t count;
} bench_list;

/* ---- Which cases --------------------------------------------------------------------------------------- */

static bool add_case(bench_list *list, const bench_case *of)
{
    bench_result *grown = realloc(list->item, (list->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    list->item = grown;
    list->item[list->count++] = (bench_result){ .of = *of, .cold_s = NAN, .cached_s = NAN };
    return true;
}

/* The case in each storage type and with each kernel that is asked for. */
static bool add_variants(const values *given, bench_case of, bench_list *list)
{
    bool all_kernels = given->kernel && strcmp(given->kernel, "all") == 0;
    for (int dtype = 0; dtype < ALL_DTYPES; dtype++) {
        if (given->dtype != ALL_DTYPES && given->dtype != dtype)
            continue;
        of.dtype = (clattn_dtype)dtype;
        for (size_t index = 0; index < (all_kernels ? clattn_kernel_count() : 1); index++) {
            of.kernel = all_kernels ? clattn_kernel_name(index) : given->kernel;
            if (!add_case(list, &of))
                return false;
        }
    }
    return true;
}

/* The workload of this name, or the nearest. */
static bool find_workload(const char *name, bench_case *found)
{
    bench_case one;
    size_t best = SIZE_MAX;
    for (size_t index = 0; bench_workload(index, &one); index++) {
        size_t distance = tool_distance(name, one.name);
        if (distance < best) {
            best = distance;
            *found = one;
        }
    }
    return strcmp(name, found->name) == 0;
}

static int add_workloads(const values *given, const char *names, bench_list *list)
{
    bench_case of;
    char name[64];
    if (strcmp(names, "all") == 0) {
        for (size_t index = 0; bench_workload(index, &of); index++) {
            if (!add_variants(given, of, list))
                return tool_usage(&tool_bench_command, "no memory for the cases");
        }
        return TOOL_GO_ON;
    }
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        if (!find_workload(name, &of))
            return tool_usage(&tool_bench_command, "--workload %s: unknown; the nearest is %s", name,
                              of.name);
        if (!add_variants(given, of, list))
            return tool_usage(&tool_bench_command, "no memory for the cases");
        at += length;
        if (!*at)
            return TOOL_GO_ON;
    }
}

static int check_kernel(const char *wanted)
{
    const char *name, *nearest = "all";
    for (size_t index = 0; (name = clattn_kernel_name(index)); index++) {
        if (tool_distance(wanted, name) < tool_distance(wanted, nearest))
            nearest = name;
    }
    if (strcmp(wanted, nearest) == 0)
        return TOOL_GO_ON;
    return tool_usage(&tool_bench_command, "--kernel %s: unknown; the nearest is %s", wanted, nearest);
}

/* What the table of options cannot say, and the cases. */
static int make_list(const values *given, bench_list *list)
{
    bench_case of;
    tool_error error;
    int code = given->kernel ? check_kernel(given->kernel) : TOOL_GO_ON;
    if (code == TOOL_GO_ON && given->seconds <= 0)
        code = tool_usage(&tool_bench_command, "--seconds %g: more than 0 is wanted", given->seconds);
    if (code == TOOL_GO_ON && given->tolerance < 0)
        code = tool_usage(&tool_bench_command, "--tolerance %g: at least 0 is wanted", given->tolerance);
    if (code == TOOL_GO_ON && (given->workload || !given->shape))
        code = add_workloads(given, given->workload ? given->workload : "all", list);
    if (code != TOOL_GO_ON || !given->shape)
        return code;
    if (!bench_shape_read(given->shape, &of, &error))
        return tool_usage(&tool_bench_command, "--shape: %s", error.text);
    return add_variants(given, of, list) ? code : tool_usage(&tool_bench_command, "no memory for the cases");
}

/* ---- The table ----------------------------------------------------------------------------------------- */

static void print_head(const clattn_context *context)
{
    const clattn_device_info *device = clattn_context_device(context);
    printf("device  %s (%s): %s\n", device->name, device->platform, clattn_context_why(context));
    printf("%-13s %-4s %-13s %8s %7s %7s %6s %7s %5s %6s %5s %-4s %6s %6s\n", "workload", "type", "kernel",
           "median", "p10", "p90", "noise", "GFLOP/s", "%peak", "GB/s", "%read", "by", "cold", "cached");
    fflush(stdout);
}

/* Milliseconds in seven places. */
static const char *ms_text(double seconds, char text[32])
{
    double ms = seconds * 1e3;
    snprintf(text, 32, "%.*f", ms < 100 ? 3 : ms < 1000 ? 2 : 1, ms);
    return text;
}

static const char *short_time(double seconds, char text[32])
{
    if (isnan(seconds))
        return "-";
    snprintf(text, 32, seconds < 1 ? "%.0fms" : "%.2fs", seconds < 1 ? seconds * 1e3 : seconds);
    return text;
}

static void print_result(const bench_result *result)
{
    char text[5][32];
    const char *kernel = *result->kernel ? result->kernel : result->of.kernel ? result->of.kernel : "-";
    printf("%-13s %-4s %-13s ", result->of.name, bench_dtypes[result->of.dtype], kernel);
    if (result->verdict == BENCH_TIMED) {
        double noise = bench_noise(&result->time);
        printf("%8s %7s %7s %5.1f%c %7.1f %5.1f %6.2f %5.1f %-4s ", ms_text(result->time.median, text[0]),
               ms_text(result->time.p10, text[1]), ms_text(result->time.p90, text[2]), 100 * noise,
               noise > 0.03 ? '!' : ' ', bench_gflops(result), 100 * bench_of_peak(result), bench_gbs(result),
               100 * bench_of_band(result), bench_is_bound_by_reading(result) ? "read" : "fma");
        printf("%6s %6s\n", short_time(result->cold_s, text[3]), short_time(result->cached_s, text[4]));
    } else {
        printf("%s: %s\n", result->verdict == BENCH_WRONG ? "WRONG" : "refused", result->reason);
    }
    fflush(stdout);
}

static void print_spread(const char *name, const char *unit, const bench_series *series, const char *what)
{
    bench_spread spread;
    tool_error error;
    if (series->count && bench_spread_of(series, &spread, &error))
        printf("%-7s %.1f %s, 10th to 90th percentile %.1f to %.1f: %s\n", name, spread.median, unit,
               spread.p10, spread.p90, what);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

/* One case: plan, check, time. A refusal is a result. */
static bool run_case(clattn_context *context, bench_peak *peak, const bench_limits *limits,
                     bench_result *result, tool_error *error)
{
    bench_work work;
    if (!bench_work_create(context, &result->of, &work, error))
        return false;
    result->cost = bench_cost_of(&result->of);
    tool_progress_begin("building kernels");
    clattn_status status = bench_work_plan(&work);
    bool ok = status == CLATTN_OK;
    if (ok) {
        clattn_attention_info info = bench_work_info(&work);
        snprintf(result->kernel, sizeof result->kernel, "%s", info.kernel);
        snprintf(result->gemm, sizeof result->gemm, "%s", info.gemm ? info.gemm : "");
        ok = bench_measure(&work, peak, limits, result, error);
    } else if (status == CLATTN_UNSUPPORTED || status == CLATTN_BUILD_FAILED) {
        result->verdict = BENCH_REFUSED;
        snprintf(result->reason, sizeof result->reason, "%s", clattn_last_message());
        ok = true;
    } else {
        tool_fail_library(error, result->of.name);
    }
    tool_progress_end();
    bench_work_free(&work);
    return ok;
}

static bool run_list(const values *given, clattn_context *context, bench_peak *peak, bench_list *list,
                     tool_error *error)
{
    const bench_limits limits = { .seconds = given->seconds, .tolerance = given->tolerance };
    bench_series fma = { 0 }, read = { 0 };
    bool ok = true;
    size_t wrong = 0;
    print_head(context);
    for (size_t index = 0; index < list->count && ok; index++) {
        bench_result *result = &list->item[index];
        ok = run_case(context, peak, &limits, result, error);
        if (!ok)
            break;
        print_result(result);
        wrong += result->verdict == BENCH_WRONG;
        for (size_t at = 0; at < result->fma.count && ok; at++)
            ok = bench_series_add(&fma, result->fma.value[at], error);
        double value;
        for (int at = 0; at < 2 && ok; at++)
            ok = bench_peak_read(peak, bench_peak_bytes(peak), &value, error) &&
                 bench_series_add(&read, value, error);
    }
    if (ok) {
        char what[64];
        snprintf(what, sizeof what, "reads of %.0f MiB", bench_peak_bytes(peak) / 1024 / 1024);
        print_spread("peak", "GFLOP/s", &fma, "fused multiply-adds in registers, f32");
        print_spread("read", "GB/s", &read, what);
        if (wrong)
            ok = tool_fail(error, "%zu of %zu results are wrong", wrong, list->count);
    }
    bench_series_free(&fma);
    bench_series_free(&read);
    return ok;
}

static int bench(int argc, char **argv)
{
    values given = { .seconds = 1, .tolerance = 1e-5 };
    bench_list list = { 0 };
    clattn_context *context = NULL;
    bench_peak *peak = NULL;
    tool_error error;
    int code = tool_options_read(&tool_bench_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    code = make_list(&given, &list);
    if (code == TOOL_GO_ON) {
        bool ok = tool_open(given.device, &context, &error) && bench_peak_create(context, &peak, &error) &&
                  run_list(&given, context, peak, &list, &error);
        code = tool_finish(&tool_bench_command, ok, &error);
    }
    bench_peak_destroy(peak);
    clattn_context_destroy(context);
    for (size_t index = 0; index < list.count; index++)
        bench_result_free(&list.item[index]);
    free(list.item);
    return code;
}

#define FIELD(name) offsetof(values, name)

static const tool_option options[] = {
    { "--workload", TOOL_TEXT, FIELD(workload), "NAME,..|all",
      "workloads by name; default all, without --shape", 0 },
    { "--shape", TOOL_TEXT, FIELD(shape), "TEXT", "a shape of your own", 0 },
    { "--dtype", TOOL_WORD, FIELD(dtype), "f32|f16|bf16|all", "storage of q, k, v and out; default f32", 0 },
    { "--device", TOOL_TEXT, FIELD(device), "SELECTOR", "index of clattn probe, cpu, gpu, or part of a name",
      0 },
    { "--kernel", TOOL_TEXT, FIELD(kernel), "NAME|all", "this row of the table, or each", 0 },
    { "--seconds", TOOL_REAL, FIELD(seconds), "X", "time of each case; default 1", 0 },
    { "--tolerance", TOOL_REAL, FIELD(tolerance), "X",
      "how far a result may be off beyond rounding to its type; default 1e-5", 0 },
};

const tool_command tool_bench_command = {
    .name = "bench",
    .usage = "[options]",
    .summary = "measure attention beside what the device can do",
    .notes = "",
    .example = "  clattn bench --workload base-512,llama-decode --kernel all\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = bench,
};
