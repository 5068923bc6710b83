/* tools/bench_compare.c: an older run's JSON beside this one: faster, same or slower.
 * Called by bench.c. */
#include "bench.h"

#include "files/input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_AT_MOST = 64 << 20 };
static const double least_noise = 0.01; /* two runs differ by more than one run shows */

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

bool bench_old_read(const char *path, cJSON **old, tool_error *error)
{
    tool_input in;
    char *text = NULL;
    *old = NULL;
    if (!tool_input_open(path, &in, error))
        return false;
    bool ok = in.bytes <= BYTES_AT_MOST || tool_fail(error, "%s: %llu bytes, more than %d", path,
                                                     (unsigned long long)in.bytes, BYTES_AT_MOST);
    if (ok && !(text = calloc((size_t)in.bytes + 1, 1)))
        ok = tool_fail(error, "%s: no memory for its %llu bytes", path, (unsigned long long)in.bytes);
    ok = ok && tool_input_read(&in, 0, (size_t)in.bytes, text, error);
    tool_input_close(&in);
    cJSON *object = ok ? cJSON_Parse(text) : NULL;
    free(text);
    if (!ok)
        return false;
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(object, "schema");
    if (strcmp(text_of(object, "format"), BENCH_FORMAT) != 0 || !cJSON_IsNumber(schema))
        ok = tool_fail(error, "%s: not a JSON of clattn bench", path);
    else if (schema->valuedouble != BENCH_SCHEMA)
        ok =
            tool_fail(error, "%s: schema %g, this program reads %d", path, schema->valuedouble, BENCH_SCHEMA);
    else if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(object, "cases")))
        ok = tool_fail(error, "%s: has no cases", path);
    if (ok)
        *old = object;
    else
        cJSON_Delete(object);
    return ok;
}

/* The old case of the same shape and type for which the same kernel was asked. */
static const cJSON *find_case(const cJSON *old, const bench_case *of)
{
    const cJSON *one;
    char shape[BENCH_TEXT];
    bench_shape_text(of, shape);
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(old, "cases"))
    {
        if (strcmp(text_of(one, "shape"), shape) == 0 &&
            strcmp(text_of(one, "dtype"), bench_dtypes[of->dtype]) == 0 &&
            strcmp(text_of(one, "asked"), of->kernel ? of->kernel : "") == 0)
            return one;
    }
    return NULL;
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* One line; whether the case is slower by more than `limit`, beyond the noise. */
static bool compare_one(const bench_result *result, const cJSON *before, double limit)
{
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(before, "seconds");
    const bench_spread old = { number_of(seconds, "median"), number_of(seconds, "p10"),
                               number_of(seconds, "p90") };
    bool timed = result->verdict == BENCH_TIMED, was_timed = old.median > 0;
    printf("%-13s %-4s %-13s ", result->of.name, bench_dtypes[result->of.dtype],
           *result->kernel ? result->kernel : "-");
    if (!timed || !was_timed) {
        printf("%s\n", !before ? "not there before" : !was_timed ? "not timed before" : "no longer timed");
        return was_timed && !timed;
    }
    double ratio = result->time.median / old.median, change = ratio - 1;
    double noise = fmax(least_noise, fmax(bench_noise(&old), bench_noise(&result->time)));
    bool differs = fmax(ratio, 1 / ratio) - 1 > noise; /* alike in both directions, beyond 100 % too */
    printf("%10.3f ms, was %10.3f ms: %-6s %+6.1f %%, noise %.1f %%", result->time.median * 1e3,
           old.median * 1e3,
           !differs     ? "same"
           : change < 0 ? "faster"
                        : "slower",
           100 * change, 100 * noise);
    const char *kernel = text_of(before, "kernel");
    if (strcmp(kernel, result->kernel) != 0)
        printf(", was %s", kernel);
    printf("\n");
    return differs && change > limit;
}

size_t bench_compare(const bench_run *run, const cJSON *old, const char *path, double limit)
{
    const clattn_device_info *device = clattn_context_device(run->context);
    const cJSON *about = cJSON_GetObjectItemCaseSensitive(old, "device");
    size_t slower = 0;
    bool same = strcmp(text_of(about, "name"), device->name) == 0 &&
                strcmp(text_of(about, "driver"), device->driver) == 0;
    printf("\ncompared with %s, clattn %s", path, text_of(old, "clattn"));
    if (!same)
        printf(", ANOTHER DEVICE OR DRIVER: %s, %s", text_of(about, "name"), text_of(about, "driver"));
    printf("\n");
    for (size_t index = 0; index < run->count; index++)
        slower += compare_one(&run->result[index], find_case(old, &run->result[index].of), limit);
    return slower;
}
