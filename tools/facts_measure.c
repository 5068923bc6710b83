/* tools/facts_measure.c: what a device can do at most, a row each: arithmetic, memory, the way to the host,
 * and how long a launch and a build take. Called by facts.c. */
#include "bench.h"
#include "facts.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15 };
static const double seconds = 0.4, copied_bytes = 64 * 1024.0 * 1024.0;

/* What the rows measure with. */
typedef struct instruments {
    clattn_context *context;
    bench_peak *peak[2]; /* of f32 and f16; NULL where that cannot be */
    cl_mem from, to;
    size_t bytes;
    void *host;
    cl_kernel empty;
    unsigned builds;
} instruments;

typedef struct row {
    const char *name, *unit;
    bool (*sample)(instruments *with, double *value, tool_error *error);
} row;

static bool done(cl_int status, const char *what, tool_error *error)
{
    return status == CL_SUCCESS || tool_fail(error, "%s: %s", what, clattn_cl_error_name(status));
}

static bool sample_fma(bench_peak *peak, double *value, tool_error *error)
{
    bool ok =
        peak ? bench_peak_fma(peak, value, error) : tool_fail(error, "the device has no such arithmetic");
    *value *= 1e9;
    return ok;
}

static bool sample_fma_f32(instruments *with, double *value, tool_error *error)
{
    return sample_fma(with->peak[0], value, error);
}

static bool sample_fma_f16(instruments *with, double *value, tool_error *error)
{
    return sample_fma(with->peak[1], value, error);
}

static bool sample_read(instruments *with, double *value, tool_error *error)
{
    bool ok = with->peak[0] ? bench_peak_read(with->peak[0], bench_peak_bytes(with->peak[0]), value, error)
                            : tool_fail(error, "the kernel does not run");
    *value *= 1e9;
    return ok;
}

/* Bytes a second of a command that has been enqueued `factor` times over with->bytes. */
static bool finish(instruments *with, cl_int status, double begin, double factor, const char *what,
                   double *value, tool_error *error)
{
    if (status == CL_SUCCESS)
        status = clFinish(clattn_context_queue(with->context));
    *value = factor * (double)with->bytes / (tool_seconds() - begin);
    return done(status, what, error);
}

static bool sample_copy(instruments *with, double *value, tool_error *error)
{
    double begin = tool_seconds();
    cl_int status = clEnqueueCopyBuffer(clattn_context_queue(with->context), with->from, with->to, 0, 0,
                                        with->bytes, 0, NULL, NULL);
    return finish(with, status, begin, 2, "clEnqueueCopyBuffer", value, error);
}

static bool sample_to_device(instruments *with, double *value, tool_error *error)
{
    double begin = tool_seconds();
    cl_int status = clEnqueueWriteBuffer(clattn_context_queue(with->context), with->to, CL_TRUE, 0,
                                         with->bytes, with->host, 0, NULL, NULL);
    return finish(with, status, begin, 1, "clEnqueueWriteBuffer", value, error);
}

static bool sample_from_device(instruments *with, double *value, tool_error *error)
{
    double begin = tool_seconds();
    cl_int status = clEnqueueReadBuffer(clattn_context_queue(with->context), with->from, CL_TRUE, 0,
                                        with->bytes, with->host, 0, NULL, NULL);
    return finish(with, status, begin, 1, "clEnqueueReadBuffer", value, error);
}

/* A program that no cache has seen, with a kernel that does nothing. */
static cl_int build_empty(instruments *with, cl_kernel *kernel)
{
    char text[160];
    const char *source = text;
    cl_int status;
    snprintf(text, sizeof text,
             "kernel void empty(global float *out) { if (get_global_id(0) == %uu) out[0] = %.9ff; }",
             1000000 + with->builds++, tool_seconds());
    cl_program program =
        clCreateProgramWithSource(clattn_context_cl(with->context), 1, &source, NULL, &status);
    if (status != CL_SUCCESS)
        return status;
    status = clBuildProgram(program, 1, &clattn_context_device(with->context)->device_id, "-cl-std=CL1.2",
                            NULL, NULL);
    if (status == CL_SUCCESS)
        *kernel = clCreateKernel(program, "empty", &status);
    clReleaseProgram(program);
    return status;
}

static cl_int launch_empty(instruments *with, cl_kernel kernel)
{
    const size_t one = 1;
    cl_command_queue queue = clattn_context_queue(with->context);
    cl_int status = clSetKernelArg(kernel, 0, sizeof with->to, &with->to);
    if (status == CL_SUCCESS)
        status = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    return status == CL_SUCCESS ? clFinish(queue) : status;
}

static bool sample_launch(instruments *with, double *value, tool_error *error)
{
    if (!with->empty)
        return tool_fail(error, "the kernel does not build");
    double begin = tool_seconds();
    cl_int status = launch_empty(with, with->empty);
    *value = tool_seconds() - begin;
    return done(status, "clEnqueueNDRangeKernel", error);
}

/* Until the first launch has ended: some drivers compile no sooner. */
static bool sample_build(instruments *with, double *value, tool_error *error)
{
    cl_kernel kernel = NULL;
    double begin = tool_seconds();
    cl_int status = build_empty(with, &kernel);
    if (status == CL_SUCCESS)
        status = launch_empty(with, kernel);
    *value = tool_seconds() - begin;
    if (kernel)
        clReleaseKernel(kernel);
    return done(status, "clBuildProgram", error);
}

static const row rows[] = {
    { "fma_f32", "FLOP/s", sample_fma_f32 },
    { "fma_f16", "FLOP/s", sample_fma_f16 },
    { "read", "B/s", sample_read },
    { "copy", "B/s", sample_copy },
    { "host_to_device", "B/s", sample_to_device },
    { "device_to_host", "B/s", sample_from_device },
    { "launch", "s", sample_launch },
    { "build", "s", sample_build },
};

static bool has_halves(const clattn_device_info *device)
{
    char extensions[16384] = "";
    return clGetDeviceInfo(device->device_id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions,
                           NULL) == CL_SUCCESS &&
           strstr(extensions, "cl_khr_fp16");
}

/* What cannot be had stays NULL, and its row says so. */
static bool prepare(instruments *with, clattn_context *context, tool_error *error)
{
    const clattn_device_info *device = clattn_context_device(context);
    const float zero = 0;
    tool_error trouble;
    cl_int status;
    *with = (instruments){ .context = context };
    bench_peak_create(context, CLATTN_F32, &with->peak[0], &trouble);
    if (has_halves(device))
        bench_peak_create(context, CLATTN_F16, &with->peak[1], &trouble);
    with->bytes = (size_t)fmin(copied_bytes, (double)device->max_alloc_bytes / 4);
    with->host = calloc(with->bytes + 1, 1);
    if (!with->host)
        return tool_fail(error, "no memory for %zu bytes", with->bytes);
    with->from = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, with->bytes, NULL, &status);
    if (!done(status, "clCreateBuffer", error))
        return false;
    with->to = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, with->bytes, NULL, &status);
    if (!done(status, "clCreateBuffer", error))
        return false;
    status = clEnqueueFillBuffer(clattn_context_queue(context), with->from, &zero, sizeof zero, 0,
                                 with->bytes / sizeof zero * sizeof zero, 0, NULL, NULL);
    if (build_empty(with, &with->empty) != CL_SUCCESS || launch_empty(with, with->empty) != CL_SUCCESS) {
        if (with->empty)
            clReleaseKernel(with->empty);
        with->empty = NULL;
    }
    return done(status, "clEnqueueFillBuffer", error);
}

static void release(instruments *with)
{
    for (int index = 0; index < 2; index++)
        bench_peak_destroy(with->peak[index]);
    if (with->from)
        clReleaseMemObject(with->from);
    if (with->to)
        clReleaseMemObject(with->to);
    if (with->empty)
        clReleaseKernel(with->empty);
    free(with->host);
}

/* The first sample warms up. */
static bool measure(instruments *with, const row *of, cJSON *about, tool_error *error)
{
    bench_series series = { 0 };
    bench_spread spread = { NAN, NAN, NAN };
    tool_error trouble = { .text = "" };
    double value = 0, begin = tool_seconds();
    bool ok = of->sample(with, &value, &trouble), kept = true;
    while (ok && kept && series.count < SAMPLES && (series.count < 3 || tool_seconds() - begin < seconds)) {
        ok = of->sample(with, &value, &trouble);
        kept = !ok || bench_series_add(&series, value, error);
    }
    kept = kept && (!ok || bench_spread_of(&series, &spread, error));
    cJSON_AddStringToObject(about, "name", of->name);
    cJSON_AddStringToObject(about, "unit", of->unit);
    tool_json_number(about, "median", spread.median);
    tool_json_number(about, "p10", spread.p10);
    tool_json_number(about, "p90", spread.p90);
    cJSON_AddNumberToObject(about, "samples", (double)series.count);
    tool_json_text(about, "words", ok ? NULL : trouble.text);
    bench_series_free(&series);
    return kept;
}

bool facts_add_measures(cJSON *about, clattn_context *context, tool_error *error)
{
    instruments with;
    bool ok = prepare(&with, context, error);
    cJSON *list = cJSON_CreateArray();
    cJSON_ReplaceItemInObjectCaseSensitive(about, "measure", list);
    for (size_t index = 0; ok && index < sizeof rows / sizeof rows[0]; index++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        ok = measure(&with, &rows[index], one, error);
    }
    release(&with);
    return ok;
}
