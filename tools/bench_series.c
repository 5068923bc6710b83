/* tools/bench_series.c: samples, their median, and how far they spread.
 * Called by the other bench files, facts_measure.c and tests/gemm/measure_gemm.c. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool bench_series_add(bench_series *series, double value, tool_error *error)
{
    if (series->count == series->room) {
        size_t room = series->room ? 2 * series->room : 64;
        double *grown = realloc(series->value, room * sizeof *grown);
        if (!grown)
            return tool_fail(error, "no memory for %zu samples", room);
        series->value = grown;
        series->room = room;
    }
    series->value[series->count++] = value;
    return true;
}

void bench_series_free(bench_series *series)
{
    free(series->value);
    memset(series, 0, sizeof *series);
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Between two neighbours in proportion. */
static double quantile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

bool bench_spread_of(const bench_series *series, bench_spread *spread, tool_error *error)
{
    *spread = (bench_spread){ NAN, NAN, NAN };
    if (series->count == 0)
        return true;
    double *sorted = malloc(series->count * sizeof *sorted);
    if (!sorted)
        return tool_fail(error, "no memory for %zu samples", series->count);
    memcpy(sorted, series->value, series->count * sizeof *sorted);
    qsort(sorted, series->count, sizeof *sorted, by_size);
    *spread = (bench_spread){ quantile(sorted, series->count, 0.5), quantile(sorted, series->count, 0.1),
                              quantile(sorted, series->count, 0.9) };
    free(sorted);
    return true;
}

double bench_noise(const bench_spread *spread)
{
    return (spread->p90 - spread->p10) / 2 / spread->median;
}
