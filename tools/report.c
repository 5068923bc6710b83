/* tools/report.c: measures calls, prints results for people and as JSON.
 * Called by run.c and mha.c. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_NUMBERS = 6 };

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

bool tool_measure(clattn_status (*call)(void *state), void *state, int64_t repeat, tool_times *times,
                  tool_error *error)
{
    size_t count = (size_t)repeat;
    double *taken = count <= SIZE_MAX / sizeof *taken ? malloc(count * sizeof *taken) : NULL;
    bool ok = false;
    if (!taken)
        return tool_fail(error, "no memory for the times of %lld calls", (long long)repeat);
    tool_progress_begin("first call");
    for (size_t index = 0; index <= count; index++) {
        double begin = tool_seconds();
        if (call(state) != CLATTN_OK) {
            tool_fail_library(error, NULL);
            goto done;
        }
        double passed = tool_seconds() - begin;
        if (index == 0) {
            times->first_s = passed;
            tool_progress_begin("warm calls");
        } else {
            taken[index - 1] = passed;
        }
    }
    qsort(taken, count, sizeof *taken, by_size);
    times->warm_s = (taken[(count - 1) / 2] + taken[count / 2]) / 2;
    times->warm_calls = repeat;
    ok = true;
done:
    tool_progress_end();
    free(taken);
    return ok;
}

const char *tool_time_text(double seconds, char text[32])
{
    if (seconds < 1e-3)
        snprintf(text, 32, "%.3g us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, 32, "%.3g ms", seconds * 1e3);
    else
        snprintf(text, 32, "%.3f s", seconds);
    return text;
}

void tool_print_device(const clattn_context *context, const clattn_attention_info *info)
{
    const clattn_device_info *device = clattn_context_device(context);
    printf("device  %s (%s): %s\n", device->name, device->platform, clattn_context_why(context));
    printf("kernel  %s: %s\n", info->kernel, info->why);
    if (info->gemm)
        printf("gemm    %s\n", info->gemm);
}

void tool_print_times(const tool_times *times)
{
    char build[32], first[32], warm[32];
    printf("first   %s, after %s for the plan and its kernels\n", tool_time_text(times->first_s, first),
           tool_time_text(times->build_s, build));
    printf("warm    %s", tool_time_text(times->warm_s, warm));
    if (times->warm_calls > 1)
        printf(", median of %lld calls", (long long)times->warm_calls);
    printf("\n");
}

void tool_json_number(cJSON *object, const char *name, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

void tool_json_text(cJSON *object, const char *name, const char *text)
{
    if (text && *text)
        cJSON_AddStringToObject(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

void tool_json_device(cJSON *object, const clattn_context *context, const clattn_attention_info *info)
{
    const clattn_device_info *device = clattn_context_device(context);
    cJSON *about = cJSON_AddObjectToObject(object, "device");
    cJSON_AddStringToObject(about, "name", device->name);
    cJSON_AddStringToObject(about, "platform", device->platform);
    cJSON_AddStringToObject(about, "why", clattn_context_why(context));
    about = cJSON_AddObjectToObject(object, "kernel");
    cJSON_AddStringToObject(about, "name", info->kernel);
    cJSON_AddStringToObject(about, "why", info->why);
    if (info->gemm)
        cJSON_AddStringToObject(about, "gemm", info->gemm);
    cJSON_AddNumberToObject(about, "workspace_bytes", (double)info->workspace_bytes);
}

void tool_json_times(cJSON *object, const tool_times *times)
{
    cJSON *about = cJSON_AddObjectToObject(object, "seconds");
    cJSON_AddNumberToObject(about, "build", times->build_s);
    cJSON_AddNumberToObject(about, "first", times->first_s);
    cJSON_AddNumberToObject(about, "warm", times->warm_s);
    cJSON_AddNumberToObject(about, "warm_calls", (double)times->warm_calls);
}

typedef struct summary {
    double least, greatest, mean; /* of the finite numbers */
    size_t not_finite;
} summary;

static summary summarise(const tool_array *array)
{
    summary made = { .least = INFINITY, .greatest = -INFINITY };
    double sum = 0;
    for (size_t index = 0; index < array->elements; index++) {
        double value = tool_array_get(array, index);
        if (!isfinite(value)) {
            made.not_finite++;
            continue;
        }
        made.least = fmin(made.least, value);
        made.greatest = fmax(made.greatest, value);
        sum += value;
    }
    made.mean = sum / (double)(array->elements - made.not_finite);
    return made;
}

void tool_print_array(const char *name, const tool_array *array)
{
    char shape[TOOL_SHAPE_BYTES];
    summary of = summarise(array);
    printf("%-7s %s %s", name, tool_shape_text(array->rank, array->shape, shape),
           tool_types[array->type].text);
    if (array->elements > of.not_finite)
        printf(": min %.6g, max %.6g, mean %.6g", of.least, of.greatest, of.mean);
    if (of.not_finite)
        printf(", %zu not finite", of.not_finite);
    for (size_t index = 0; index < array->elements && index < FIRST_NUMBERS; index++)
        printf("%s %.6g", index ? "" : "; first", tool_array_get(array, index));
    printf("\n");
}

void tool_json_array(cJSON *object, const char *name, const tool_array *array)
{
    summary of = summarise(array);
    cJSON *about = cJSON_AddObjectToObject(object, name);
    cJSON *shape = cJSON_AddArrayToObject(about, "shape");
    for (int axis = 0; axis < array->rank; axis++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)array->shape[axis]));
    cJSON_AddStringToObject(about, "dtype", tool_types[array->type].text);
    tool_json_number(about, "min", of.least);
    tool_json_number(about, "max", of.greatest);
    tool_json_number(about, "mean", of.mean);
    cJSON_AddNumberToObject(about, "not_finite", (double)of.not_finite);
    cJSON *first = cJSON_AddArrayToObject(about, "first");
    for (size_t index = 0; index < array->elements && index < FIRST_NUMBERS; index++) {
        double value = tool_array_get(array, index);
        cJSON_AddItemToArray(first, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
    }
}

bool tool_json_print(const cJSON *object, tool_error *error)
{
    char *text = cJSON_Print(object);
    if (!text)
        return tool_fail(error, "no memory for the JSON text");
    printf("%s\n", text);
    cJSON_free(text);
    return true;
}
