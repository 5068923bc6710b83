/* tools/bench_measure.c: checks a case, then takes samples of its time in turn with the device's peaks.
 * Called by bench.c. */
#include "bench.h"

#include <math.h>
#include <stdio.h>

/* A case has ROUNDS turns; after each the device's peaks have theirs. Where the samples are fewer than wanted
 * there are more turns, but not longer than PATIENCE times the seconds of the case. */
enum { ROUNDS = 10, PEAKS_A_ROUND = 3, SAMPLES_WANTED = 20, SAMPLES_LEAST = 3, PATIENCE = 8 };
static const double warm_share = 0.2, sample_share = 1e-3;

/* ---- Results ------------------------------------------------------------------------------------------- */

void bench_result_free(bench_result *result)
{
    bench_series_free(&result->seconds);
    bench_series_free(&result->fma);
    bench_series_free(&result->read);
}

double bench_gflops(const bench_result *result)
{
    return result->cost.flops / result->time.median * 1e-9;
}

double bench_gbs(const bench_result *result)
{
    return result->cost.bytes / result->time.median * 1e-9;
}

double bench_of_peak(const bench_result *result)
{
    return bench_gflops(result) / result->peak.median;
}

double bench_of_band(const bench_result *result)
{
    return bench_gbs(result) / result->band.median;
}

const char *bench_bound_by(const bench_result *result)
{
    return bench_of_band(result) > bench_of_peak(result) ? "read" : "fma";
}

/* ---- Measuring ----------------------------------------------------------------------------------------- */

static bool check(bench_work *work, double tolerance, bench_result *result, tool_error *error)
{
    tool_progress_begin("checking the result");
    if (!bench_work_call(work, error) || !bench_work_fetch(work, error) ||
        !bench_check_rows(work, tolerance, &result->check, error))
        return false;
    if (!result->check.ok) {
        result->verdict = BENCH_WRONG;
        snprintf(result->reason, sizeof result->reason,
                 "off by up to %.3g in %lld sampled rows, %.3g is allowed", result->check.difference,
                 (long long)result->check.rows, result->check.allowed);
    }
    return true;
}

/* Seconds of one call, the mean of `calls`. */
static bool sample(bench_work *work, int calls, double *seconds, tool_error *error)
{
    double begin = tool_seconds();
    for (int call = 0; call < calls; call++) {
        if (!bench_work_call(work, error))
            return false;
    }
    *seconds = (tool_seconds() - begin) / calls;
    return true;
}

/* Calls until it has been long enough; then how many calls make one sample. */
static bool warm_up(bench_work *work, double seconds, int *calls, tool_error *error)
{
    double begin = tool_seconds(), last;
    do {
        if (!sample(work, 1, &last, error))
            return false;
    } while (tool_seconds() - begin < warm_share * seconds);
    *calls = (int)fmin(fmax(ceil(sample_share * seconds / fmax(last, 1e-9)), 1), 1e6);
    return true;
}

/* The first launch, which may find cores asleep, does not count. */
static bool take_peaks(bench_peak *peak, bench_result *result, tool_error *error)
{
    double value;
    if (!bench_peak_fma(peak, &value, error))
        return false;
    for (int index = 0; index < PEAKS_A_ROUND; index++) {
        if (!bench_peak_fma(peak, &value, error) || !bench_series_add(&result->fma, value, error) ||
            !bench_peak_read(peak, result->cost.bytes, &value, error) ||
            !bench_series_add(&result->read, value, error))
            return false;
    }
    return true;
}

bool bench_measure(bench_work *work, bench_peak *peak, const bench_settings *set, bench_result *result,
                   tool_error *error)
{
    double value, begin;
    int calls;
    if (!check(work, set->tolerance, result, error))
        return false;
    if (result->verdict != BENCH_TIMED)
        return true;
    tool_progress_begin(work->of.name);
    if (!warm_up(work, set->seconds, &calls, error))
        return false;
    begin = tool_seconds();
    for (int round = 0;; round++) {
        double passed = tool_seconds() - begin, turn = tool_seconds();
        bool enough = result->seconds.count >= SAMPLES_WANTED ||
                      (passed > PATIENCE * set->seconds && result->seconds.count >= SAMPLES_LEAST);
        if (round >= ROUNDS && enough)
            break;
        do {
            if (!sample(work, calls, &value, error) || !bench_series_add(&result->seconds, value, error))
                return false;
        } while (tool_seconds() - turn < set->seconds / ROUNDS);
        if (!take_peaks(peak, result, error))
            return false;
    }
    return bench_spread_of(&result->seconds, &result->time, error) &&
           bench_spread_of(&result->fma, &result->peak, error) &&
           bench_spread_of(&result->read, &result->band, error);
}
