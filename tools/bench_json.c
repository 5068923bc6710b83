/* tools/bench_json.c: what a run found, as JSON and as CSV.
 * Called by bench.c. */
#include "bench.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdicts[] = {
    [BENCH_TIMED] = "timed", [BENCH_REFUSED] = "refused", [BENCH_WRONG] = "wrong"
};

/* ---- Writing ------------------------------------------------------------------------------------------- */

/* Six digits, so that samples stay short. */
static cJSON *short_number(double value)
{
    char text[32];
    if (!isfinite(value))
        return cJSON_CreateNull();
    snprintf(text, sizeof text, "%.6g", value);
    return cJSON_CreateNumber(strtod(text, NULL));
}

static void add_series(cJSON *object, const char *name, const bench_spread *spread,
                       const bench_series *series)
{
    cJSON *about = cJSON_AddObjectToObject(object, name);
    cJSON_AddItemToObject(about, "median", short_number(spread->median));
    cJSON_AddItemToObject(about, "p10", short_number(spread->p10));
    cJSON_AddItemToObject(about, "p90", short_number(spread->p90));
    cJSON_AddItemToObject(about, "noise", short_number(bench_noise(spread)));
    cJSON *samples = cJSON_AddArrayToObject(about, "samples");
    for (size_t index = 0; index < series->count; index++)
        cJSON_AddItemToArray(samples, short_number(series->value[index]));
}

/* A word for the shell. */
static void add_word(char *line, size_t room, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,=:/";
    bool quote = !*word || word[strspn(word, plain)];
    size_t used = strlen(line);
    used += (size_t)snprintf(line + used, room - used, quote ? " '" : " ");
    for (; *word && used + 8 < room; word++)
        used += (size_t)snprintf(line + used, room - used, *word == '\'' ? "'\\''" : "%c", *word);
    snprintf(line + used, room - used, quote ? "'" : "");
}

static void repeat_line(const bench_settings *set, const bench_case *of, char *line, size_t room)
{
    char shape[BENCH_TEXT], seconds[32], tolerance[32];
    bool named = strcmp(of->name, "shape") != 0;
    bench_shape_text(of, shape);
    snprintf(seconds, sizeof seconds, "%g", set->seconds);
    snprintf(tolerance, sizeof tolerance, "%g", set->tolerance);
    const char *const words[][2] = { { named ? "--workload" : "--shape", named ? of->name : shape },
                                     { "--dtype", bench_dtypes[of->dtype] },
                                     { "--seconds", seconds },
                                     { "--tolerance", tolerance },
                                     { "--kernel", of->kernel },
                                     { "--device", set->device } };
    snprintf(line, room, "clattn bench");
    for (size_t index = 0; index < sizeof words / sizeof words[0]; index++) {
        if (words[index][1]) {
            add_word(line, room, words[index][0]);
            add_word(line, room, words[index][1]);
        }
    }
}

static void add_text(cJSON *object, const char *name, const char *text)
{
    if (text && *text)
        cJSON_AddStringToObject(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

static void add_times(cJSON *about, const bench_result *result)
{
    cJSON_AddItemToObject(about, "gflops", short_number(bench_gflops(result)));
    cJSON_AddItemToObject(about, "gbs", short_number(bench_gbs(result)));
    cJSON_AddItemToObject(about, "share_of_peak", short_number(bench_of_peak(result)));
    cJSON_AddItemToObject(about, "share_of_read", short_number(bench_of_band(result)));
    cJSON_AddStringToObject(about, "bound_by", bench_bound_by(result));
    add_series(about, "seconds", &result->time, &result->seconds);
    add_series(about, "peak_gflops", &result->peak, &result->fma);
    add_series(about, "read_gbs", &result->band, &result->read);
}

static cJSON *case_object(const bench_run *run, const bench_result *result)
{
    const bench_case *of = &result->of;
    char text[1024];
    cJSON *about = cJSON_CreateObject();
    bench_shape_text(of, text);
    cJSON_AddStringToObject(about, "name", of->name);
    cJSON_AddStringToObject(about, "shape", text);
    cJSON_AddStringToObject(about, "dtype", bench_dtypes[of->dtype]);
    add_text(about, "asked", of->kernel);
    add_text(about, "kernel", result->kernel);
    add_text(about, "gemm", result->gemm);
    cJSON_AddStringToObject(about, "verdict", verdicts[result->verdict]);
    add_text(about, "reason", result->reason);
    cJSON_AddNumberToObject(about, "visible_pairs", result->cost.pairs);
    cJSON_AddNumberToObject(about, "flops", result->cost.flops);
    cJSON_AddNumberToObject(about, "bytes", result->cost.bytes);
    cJSON *check = cJSON_AddObjectToObject(about, "check");
    cJSON_AddNumberToObject(check, "rows", (double)result->check.rows);
    tool_json_number(check, "largest_difference", result->check.difference);
    tool_json_number(check, "allowed", result->check.allowed);
    cJSON *first = cJSON_AddObjectToObject(about, "first_call_s");
    cJSON_AddItemToObject(first, "cold", short_number(result->cold_s));
    cJSON_AddItemToObject(first, "cached", short_number(result->cached_s));
    cJSON_AddItemToObject(first, "cached_by_driver", short_number(result->driver_s));
    if (result->verdict == BENCH_TIMED)
        add_times(about, result);
    repeat_line(&run->set, of, text, sizeof text);
    cJSON_AddStringToObject(about, "repeat", text);
    return about;
}

bool bench_json_write(const bench_run *run, FILE *file, const char *path, tool_error *error)
{
    const clattn_device_info *device = clattn_context_device(run->context);
    cJSON *object = cJSON_CreateObject(), *about;
    cJSON_AddStringToObject(object, "format", BENCH_FORMAT);
    cJSON_AddNumberToObject(object, "schema", BENCH_SCHEMA);
    cJSON_AddStringToObject(object, "clattn", clattn_version());
    about = cJSON_AddObjectToObject(object, "device");
    cJSON_AddStringToObject(about, "name", device->name);
    cJSON_AddStringToObject(about, "platform", device->platform);
    cJSON_AddStringToObject(about, "version", device->version);
    cJSON_AddStringToObject(about, "driver", device->driver);
    cJSON_AddNumberToObject(about, "compute_units", device->compute_units);
    cJSON_AddNumberToObject(about, "float_width", device->float_width);
    about = cJSON_AddObjectToObject(object, "options");
    cJSON_AddNumberToObject(about, "seconds", run->set.seconds);
    cJSON_AddNumberToObject(about, "tolerance", run->set.tolerance);
    add_text(about, "device", run->set.device);
    add_series(object, "peak_gflops", &run->peak, &run->fma);
    add_series(object, "read_gbs", &run->band, &run->read);
    cJSON_AddNumberToObject(object, "read_bytes", run->read_bytes);
    about = cJSON_AddArrayToObject(object, "cases");
    for (size_t index = 0; index < run->count; index++)
        cJSON_AddItemToArray(about, case_object(run, &run->result[index]));
    char *text = cJSON_Print(object);
    cJSON_Delete(object);
    if (!text)
        return tool_fail(error, "%s: no memory for its text", path);
    fprintf(file, "%s\n", text);
    cJSON_free(text);
    return true;
}

/* A field of a CSV line. */
static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++)
        fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputs("\",", file);
}

static void put_numbers(FILE *file, const double *numbers, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        if (isfinite(numbers[index]))
            fprintf(file, numbers[index] == floor(numbers[index]) ? "%.0f" : "%.6g", numbers[index]);
        fputc(index + 1 < count ? ',' : '\n', file);
    }
}

void bench_csv_write(const bench_run *run, FILE *file)
{
    fputs("name,shape,dtype,asked,kernel,gemm,verdict,reason,bound_by,visible_pairs,flops,bytes,samples,"
          "median_s,"
          "p10_s,p90_s,noise,gflops,share_of_peak,gbs,share_of_read,peak_gflops,read_gbs,cold_s,"
          "cached_s,cached_by_driver_s\n",
          file);
    for (size_t index = 0; index < run->count; index++) {
        const bench_result *result = &run->result[index];
        bool timed = result->verdict == BENCH_TIMED;
        char shape[BENCH_TEXT];
        bench_shape_text(&result->of, shape);
        const char *const texts[] = { result->of.name,
                                      shape,
                                      bench_dtypes[result->of.dtype],
                                      result->of.kernel ? result->of.kernel : "",
                                      result->kernel,
                                      result->gemm,
                                      verdicts[result->verdict],
                                      result->reason,
                                      timed ? bench_bound_by(result) : "" };
        const double numbers[] = {
            result->cost.pairs,   result->cost.flops,    result->cost.bytes, (double)result->seconds.count,
            result->time.median,  result->time.p10,      result->time.p90,   bench_noise(&result->time),
            bench_gflops(result), bench_of_peak(result), bench_gbs(result),  bench_of_band(result),
            result->peak.median,  result->band.median,   result->cold_s,     result->cached_s,
            result->driver_s
        };
        for (size_t at = 0; at < sizeof texts / sizeof texts[0]; at++)
            put_text(file, texts[at]);
        put_numbers(file, numbers, sizeof numbers / sizeof numbers[0]);
    }
}
