/* tools/bench.c: `clattn bench`: how fast attention is on a device, beside what the device can do.
 * Called by main.c. */
#include "bench.h"
#include "commands.h"
#include "report.h"

#include "files/output.h"
#include "files/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *workload, *shape, *device, *kernel, *json, *csv, *plot, *compare, *fail_slower;
    int dtype; /* clattn_dtype, ALL_DTYPES, or below 0: that of the shape */
    double seconds, tolerance;
    bool no_first_call;
} values;

enum { ALL_DTYPES = 3, TOOL_SLOWER = 4 };

/* ---- Which cases --------------------------------------------------------------------------------------- */

static bool add_case(bench_run *run, const bench_case *of)
{
    bench_result *grown = realloc(run->result, (run->count + 1) * sizeof *grown);
    if (!grown)
        return false;
    run->result = grown;
    run->result[run->count++] = (bench_result){ .of = *of, .cold_s = NAN, .cached_s = NAN, .driver_s = NAN };
    return true;
}

/* The case in each storage type and with each kernel that is asked for. */
static bool add_variants(const values *given, bench_case of, bench_run *run)
{
    bool all_kernels = given->kernel && strcmp(given->kernel, "all") == 0;
    const clattn_dtype own = of.dtype;
    for (int dtype = 0; dtype < ALL_DTYPES; dtype++) {
        int asked = given->dtype < 0 ? (int)own : given->dtype;
        if (asked != ALL_DTYPES && asked != dtype)
            continue;
        of.dtype = (clattn_dtype)dtype;
        for (size_t index = 0; index < (all_kernels ? clattn_kernel_count() : 1); index++) {
            of.kernel = all_kernels ? clattn_kernel_name(index) : given->kernel;
            if (!add_case(run, &of))
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

static int add_workloads(const values *given, const char *names, bench_run *run)
{
    bench_case of;
    char name[64];
    if (strcmp(names, "all") == 0) {
        for (size_t index = 0; bench_workload(index, &of); index++) {
            if (!add_variants(given, of, run))
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
        if (!add_variants(given, of, run))
            return tool_usage(&tool_bench_command, "no memory for the cases");
        at += length;
        if (!*at)
            return TOOL_GO_ON;
    }
}

/* What the table of options cannot say. */
static int check_usage(const values *given, double *limit)
{
    char *end;
    if (given->seconds <= 0)
        return tool_usage(&tool_bench_command, "--seconds %g: more than 0 is wanted", given->seconds);
    if (given->tolerance < 0)
        return tool_usage(&tool_bench_command, "--tolerance %g: at least 0 is wanted", given->tolerance);
    if (given->fail_slower && !given->compare)
        return tool_usage(&tool_bench_command, "--fail-slower needs --compare");
    if (given->fail_slower) {
        *limit = strtod(given->fail_slower, &end) / 100;
        if (end == given->fail_slower || strcmp(end, "%") != 0 || !(*limit >= 0))
            return tool_usage(&tool_bench_command, "--fail-slower %s: a share such as 5%% is wanted",
                              given->fail_slower);
    }
    return tool_kernel_check(&tool_bench_command, given->kernel, "all");
}

static int make_list(const values *given, bench_run *run)
{
    bench_case of;
    tool_error error;
    int code = TOOL_GO_ON;
    if (given->workload || !given->shape)
        code = add_workloads(given, given->workload ? given->workload : "all", run);
    if (code != TOOL_GO_ON || !given->shape)
        return code;
    if (!bench_shape_read(given->shape, &of, &error))
        return tool_usage(&tool_bench_command, "--shape: %s", error.text);
    return add_variants(given, of, run) ? code : tool_usage(&tool_bench_command, "no memory for the cases");
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
               100 * bench_of_band(result), bench_bound_by(result));
        printf("%6s %6s\n", short_time(result->cold_s, text[3]), short_time(result->cached_s, text[4]));
    } else {
        printf("%s: %s\n", result->verdict == BENCH_WRONG ? "WRONG" : "refused", result->reason);
    }
    fflush(stdout);
}

static void print_peaks(const bench_run *run)
{
    printf("fma     %.1f GFLOP/s, 10th to 90th percentile %.1f to %.1f: multiply-adds in registers, f32\n",
           run->peak.median, run->peak.p10, run->peak.p90);
    printf("read    %.1f GB/s, 10th to 90th percentile %.1f to %.1f: reads of %.0f MiB\n", run->band.median,
           run->band.p10, run->band.p90, run->read_bytes / 1024 / 1024);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static bool measure_first_calls(bench_run *run, tool_error *error)
{
    for (size_t index = 0; index < run->count; index++) {
        if (!bench_first_calls(&run->set, &run->result[index], error))
            return false;
    }
    return true;
}

/* One case: plan, check, time. A refusal is a result. */
static bool run_case(bench_run *run, bench_result *result, tool_error *error)
{
    bench_work work;
    if (!bench_work_create(run->context, &result->of, &work, error))
        return false;
    result->cost = bench_cost_of(&result->of);
    tool_progress_begin("building kernels");
    clattn_status status = bench_work_plan(&work);
    bool ok = status == CLATTN_OK;
    if (ok) {
        clattn_attention_info info = bench_work_info(&work);
        snprintf(result->kernel, sizeof result->kernel, "%s", info.kernel);
        snprintf(result->gemm, sizeof result->gemm, "%s", info.gemm ? info.gemm : "");
        ok = bench_measure(&work, run->device_peak, &run->set, result, error);
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

/* What the device did during a case counts for the run, too. */
static bool add_peaks(bench_run *run, const bench_result *result, tool_error *error)
{
    double gbs;
    for (size_t index = 0; index < result->fma.count; index++) {
        if (!bench_series_add(&run->fma, result->fma.value[index], error))
            return false;
    }
    return bench_peak_read(run->device_peak, run->read_bytes, &gbs, error) &&
           bench_series_add(&run->read, gbs, error);
}

static bool run_cases(bench_run *run, tool_error *error)
{
    if (!bench_peak_create(run->context, CLATTN_F32, &run->device_peak, error))
        return false;
    run->read_bytes = bench_peak_bytes(run->device_peak);
    print_head(run->context);
    for (size_t index = 0; index < run->count; index++) {
        bench_result *result = &run->result[index];
        if (!run_case(run, result, error) || !add_peaks(run, result, error))
            return false;
        print_result(result);
    }
    if (!bench_spread_of(&run->fma, &run->peak, error) || !bench_spread_of(&run->read, &run->band, error))
        return false;
    print_peaks(run);
    return true;
}

static bool store(const values *given, const bench_run *run, tool_error *error)
{
    tool_outputs outputs = { 0 };
    FILE *json = NULL, *csv = NULL, *plot = NULL;
    bool ok = (!given->json || ((json = tool_outputs_add(&outputs, given->json, error)) != NULL &&
                                bench_json_write(run, json, given->json, error))) &&
              (!given->csv || (csv = tool_outputs_add(&outputs, given->csv, error)) != NULL) &&
              (!given->plot || ((plot = tool_outputs_add(&outputs, given->plot, error)) != NULL &&
                                bench_plot_write(run, plot, given->plot, error)));
    if (csv)
        bench_csv_write(run, csv);
    if (ok)
        return tool_outputs_commit(&outputs, error);
    tool_outputs_discard(&outputs);
    return false;
}

static bool none_wrong(const bench_run *run, tool_error *error)
{
    size_t wrong = 0;
    for (size_t index = 0; index < run->count; index++)
        wrong += run->result[index].verdict == BENCH_WRONG;
    return wrong == 0 || tool_fail(error, "%zu of %zu results are wrong", wrong, run->count);
}

static bool outputs_possible(const values *given, tool_error *error)
{
    const char *const outputs[] = { given->json, given->csv, given->plot };
    const char *const inputs[] = { given->compare };
    return tool_outputs_check(outputs, sizeof outputs / sizeof outputs[0], inputs, 1, error);
}

static int bench(int argc, char **argv)
{
    values given = { .dtype = -1, .seconds = 1, .tolerance = 1e-5 };
    bench_run run = { .result = NULL };
    cJSON *old = NULL;
    double limit = INFINITY;
    size_t slower = 0;
    tool_error error;
    int code = tool_options_read(&tool_bench_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    code = check_usage(&given, &limit);
    if (code == TOOL_GO_ON)
        code = make_list(&given, &run);
    if (code != TOOL_GO_ON)
        goto done;
    run.set = (bench_settings){ given.seconds, given.tolerance, tool_selector(given.device) };
    bool ok = outputs_possible(&given, &error) &&
              (!given.compare || bench_old_read(given.compare, &old, &error)) &&
              (given.no_first_call || measure_first_calls(&run, &error)) &&
              tool_open(given.device, &run.context, &error) && run_cases(&run, &error) &&
              store(&given, &run, &error);
    if (ok && old)
        slower = bench_compare(&run, old, given.compare, limit);
    ok = ok && none_wrong(&run, &error);
    code = tool_finish(&tool_bench_command, ok, &error);
    if (code == TOOL_DONE && given.fail_slower && slower) {
        fprintf(stderr, "clattn bench: %zu of %zu cases are slower than in %s by more than %s\n", slower,
                run.count, given.compare, given.fail_slower);
        code = TOOL_SLOWER;
    }
done:
    bench_peak_destroy(run.device_peak);
    clattn_context_destroy(run.context);
    for (size_t index = 0; index < run.count; index++)
        bench_result_free(&run.result[index]);
    bench_series_free(&run.fma);
    bench_series_free(&run.read);
    free(run.result);
    cJSON_Delete(old);
    return code;
}

#define FIELD(name) offsetof(values, name)

static const tool_option options[] = {
    { "--workload", TOOL_TEXT, FIELD(workload), "NAME,..|all",
      "workloads by name; default all, unless --shape", 0 },
    { "--shape", TOOL_TEXT, FIELD(shape), "TEXT", "a shape of your own, see above", 0 },
    { "--dtype", TOOL_WORD, FIELD(dtype), "f32|f16|bf16|all",
      "storage of q, k, v and out; default f32, or dtype= of the shape", 0 },
    { "--device", TOOL_TEXT, FIELD(device), "SELECTOR", "index of clattn probe, cpu, gpu, or part of a name",
      0 },
    { "--kernel", TOOL_TEXT, FIELD(kernel), "NAME|all", "this row of the table, or every one", 0 },
    { "--seconds", TOOL_REAL, FIELD(seconds), "X", "time of each case; default 1", 0 },
    { "--tolerance", TOOL_REAL, FIELD(tolerance), "X",
      "how far a result may be off beyond a step of its type; default 1e-5", 0 },
    { "--no-first-call", TOOL_FLAG, FIELD(no_first_call), NULL, "leave out the columns cold and cached", 0 },
    { "--json", TOOL_TEXT, FIELD(json), "FILE", "everything, with every sample", 0 },
    { "--csv", TOOL_TEXT, FIELD(csv), "FILE", "a line a case", 0 },
    { "--plot", TOOL_TEXT, FIELD(plot), "FILE", "the roofline with the cases, SVG", 0 },
    { "--compare", TOOL_TEXT, FIELD(compare), "FILE", "an older --json: faster, same or slower", 0 },
    { "--fail-slower", TOOL_TEXT, FIELD(fail_slower), "P%",
      "exit with 4 when a case is slower by more than this, and than the noise", 0 },
};

const tool_command tool_bench_command = {
    .name = "bench",
    .usage = "[options]",
    .summary = "how fast attention is, beside what the device can do",
    .notes =
        "\n"
        "A shape is words: b=1 hq=32 hkv=8 lq=1 lk=8192 d=128 dv=128 dtype=f16 causal (or\n"
        "causal=top-left) window=W,W;\n"
        "module makes it a multi-head attention module of hq * d columns. lq and d are needed.\n"
        "\n"
        "Each case is first computed once and a sample of its rows compared with double precision: what is\n"
        "wrong gets no time. A time is that of one call, enqueued on buffers of the device and waited for;\n"
        "short calls are averaged over a thousandth of --seconds. In turn with them the device's own limits\n"
        "are measured: fused multiply-adds in registers, and reads of as many bytes as the case has.\n"
        "\n"
        "  median p10 p90  milliseconds a call; noise is half of p90 - p10, marked ! over 3 %\n"
        "  GFLOP/s %peak   useful flops, of exactly the pairs that causal (bottom-right) and window leave\n"
        "  GB/s %read      q, k, v and out once, k and v with their own heads\n"
        "  by              which of the two limits is nearer\n"
        "  cold cached     plan and first call in a new process: nothing compiled before; with what the\n"
        "                  library keeps on disk; --json also has it with what only the driver keeps\n"
        "\n"
        "Exits with 1 when a result is wrong, with 4 when --fail-slower says so.\n",
    .example =
        "  clattn bench --workload base-512,llama-decode --kernel all --json new.json --compare old.json\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = bench,
};
