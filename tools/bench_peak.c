/* tools/bench_peak.c: what a device can do at most: fused multiply-adds on registers, and reading memory.
 * The kernels are in bench_peak.cl. Called by bench.c and bench_measure.c. */
#include "bench.h"

#include "bench_peak_cl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FLOPS_A_ROUND = 24, ITEMS_A_UNIT_OF_VECTORS = 8, ITEMS_A_UNIT_OF_LANES = 2048 };
static const double buffer_bytes = 256 * 1024.0 * 1024.0, sample_s = 6e-3;

struct bench_peak {
    cl_command_queue queue; /* the context's */
    cl_program program;
    cl_kernel multiply_add, read_memory;
    cl_mem out, in;
    size_t items;
    double vector_bytes, element_bytes;
    bool has_vectors; /* within a work-item: it reads a stretch of its own */
    uint64_t in_vectors;
    cl_int rounds;
};

static bool done(cl_int status, const char *what, tool_error *error)
{
    return status == CL_SUCCESS || tool_fail(error, "the device's peak: %s gave %d", what, status);
}

/* Seconds that `launches` of the kernel take; the last enqueueing or waiting that failed in *status. */
static double launch(bench_peak *peak, cl_kernel kernel, int launches, cl_int *status)
{
    double begin = tool_seconds();
    *status = CL_SUCCESS;
    for (int index = 0; index < launches && *status == CL_SUCCESS; index++)
        *status = clEnqueueNDRangeKernel(peak->queue, kernel, 1, NULL, &peak->items,
                                         peak->has_vectors ? &(size_t){ 1 } : NULL, 0, NULL, NULL);
    if (*status == CL_SUCCESS)
        *status = clFinish(peak->queue);
    return tool_seconds() - begin;
}

static bool build(bench_peak *peak, clattn_context *context, clattn_dtype dtype, tool_error *error)
{
    const clattn_device_info *device = clattn_context_device(context);
    const char *text = bench_peak_cl;
    char options[128], width[8] = "";
    cl_int status;
    cl_uint lanes = device->float_width < 16 ? device->float_width : 16;
    if (lanes > 1)
        snprintf(width, sizeof width, "%u", (unsigned)lanes);
    const char *type = dtype == CLATTN_F16 ? "half" : "float";
    peak->element_bytes = (double)clattn_dtype_bytes(dtype);
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DSCALAR=%s -DVEC=%s%s%s", type, type, width,
             dtype == CLATTN_F16 ? " -DHALF" : "");
    peak->vector_bytes = lanes * peak->element_bytes;
    peak->has_vectors = lanes > 1;
    peak->items =
        device->compute_units * (peak->has_vectors ? ITEMS_A_UNIT_OF_VECTORS : ITEMS_A_UNIT_OF_LANES);
    peak->program = clCreateProgramWithSource(clattn_context_cl(context), 1, &text, NULL, &status);
    if (!done(status, "clCreateProgramWithSource", error) ||
        !done(clBuildProgram(peak->program, 1, &device->device_id, options, NULL, NULL), "clBuildProgram",
              error))
        return false;
    peak->read_memory = clCreateKernel(peak->program, "read_memory", &status);
    return done(status, "clCreateKernel", error);
}

static bool make_buffers(bench_peak *peak, clattn_context *context, tool_error *error)
{
    const clattn_device_info *device = clattn_context_device(context);
    double bytes = fmin(buffer_bytes, (double)device->max_alloc_bytes / 4);
    const float zero = 0;
    cl_int status;
    peak->in_vectors = (uint64_t)(bytes / peak->vector_bytes);
    peak->out = clCreateBuffer(clattn_context_cl(context), CL_MEM_WRITE_ONLY,
                               peak->items * (size_t)peak->vector_bytes, NULL, &status);
    if (!done(status, "clCreateBuffer", error))
        return false;
    bytes = (double)peak->in_vectors * peak->vector_bytes;
    peak->in = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, (size_t)bytes, NULL, &status);
    if (!done(status, "clCreateBuffer", error))
        return false;
    status = clEnqueueFillBuffer(peak->queue, peak->in, &zero, sizeof zero, 0, (size_t)bytes, 0, NULL, NULL);
    return done(status, "clEnqueueFillBuffer", error) && done(clFinish(peak->queue), "clFinish", error);
}

static bool set_rounds(bench_peak *peak, tool_error *error)
{
    const cl_float shrink = 0.999f, add = 1e-3f;
    cl_int status = clSetKernelArg(peak->multiply_add, 0, sizeof peak->out, &peak->out);
    status |= clSetKernelArg(peak->multiply_add, 1, sizeof peak->rounds, &peak->rounds);
    status |= clSetKernelArg(peak->multiply_add, 2, sizeof shrink, &shrink);
    status |= clSetKernelArg(peak->multiply_add, 3, sizeof add, &add);
    return done(status, "clSetKernelArg", error);
}

/* As many rounds as make a sample last; flops a second with them. The first launch may compile. */
static bool calibrate(bench_peak *peak, double *gflops, tool_error *error)
{
    double passed = 0;
    peak->rounds = 16;
    if (!set_rounds(peak, error) || !bench_peak_fma(peak, gflops, error))
        return false;
    while (passed < sample_s && peak->rounds < 1 << 28) {
        double begin = tool_seconds();
        peak->rounds *= 2;
        if (!set_rounds(peak, error) || !bench_peak_fma(peak, gflops, error))
            return false;
        passed = tool_seconds() - begin;
    }
    return bench_peak_fma(peak, gflops, error);
}

/* Takes the kernel that is faster. */
static bool choose_kernel(bench_peak *peak, tool_error *error)
{
    static const char *const names[] = { "by_fma", "by_mad" };
    double best = 0, gflops;
    for (int index = 0; index < 2; index++) {
        bench_peak tried = *peak;
        cl_int status;
        tried.multiply_add = clCreateKernel(peak->program, names[index], &status);
        if (!done(status, "clCreateKernel", error))
            return false;
        bool ok = calibrate(&tried, &gflops, error);
        bool better = ok && gflops > best;
        cl_kernel other = better ? peak->multiply_add : tried.multiply_add;
        if (better) {
            *peak = tried;
            best = gflops;
        }
        if (other)
            clReleaseKernel(other);
        if (!ok)
            return false;
    }
    return true;
}

bool bench_peak_create(clattn_context *context, clattn_dtype dtype, bench_peak **peak, tool_error *error)
{
    bench_peak *made = calloc(1, sizeof *made);
    *peak = NULL;
    if (!made)
        return tool_fail(error, "no memory");
    made->queue = clattn_context_queue(context);
    tool_progress_begin("the device's peak");
    bool ok = build(made, context, dtype, error) && make_buffers(made, context, error) &&
              choose_kernel(made, error);
    tool_progress_end();
    if (ok)
        *peak = made;
    else
        bench_peak_destroy(made);
    return ok;
}

void bench_peak_destroy(bench_peak *peak)
{
    if (!peak)
        return;
    if (peak->multiply_add)
        clReleaseKernel(peak->multiply_add);
    if (peak->read_memory)
        clReleaseKernel(peak->read_memory);
    if (peak->program)
        clReleaseProgram(peak->program);
    if (peak->out)
        clReleaseMemObject(peak->out);
    if (peak->in)
        clReleaseMemObject(peak->in);
    free(peak);
}

double bench_peak_bytes(const bench_peak *peak)
{
    return (double)peak->in_vectors * peak->vector_bytes;
}

bool bench_peak_fma(bench_peak *peak, double *gflops, tool_error *error)
{
    cl_int status;
    double passed = launch(peak, peak->multiply_add, 1, &status);
    double flops =
        FLOPS_A_ROUND * (double)peak->rounds * (double)peak->items * peak->vector_bytes / peak->element_bytes;
    *gflops = flops / passed * 1e-9;
    return done(status, "clEnqueueNDRangeKernel", error);
}

bool bench_peak_read(bench_peak *peak, double bytes, double *gbs, tool_error *error)
{
    cl_ulong count =
        (cl_ulong)(fmin(bytes, bench_peak_bytes(peak)) / peak->vector_bytes / (double)peak->items);
    count = count < 4 ? 4 : count / 4 * 4;
    cl_ulong item_step = peak->has_vectors ? count : 1, step = peak->has_vectors ? 1 : peak->items;
    double passed, once = (double)count * (double)peak->items * peak->vector_bytes;
    cl_int status = clSetKernelArg(peak->read_memory, 0, sizeof peak->out, &peak->out);
    status |= clSetKernelArg(peak->read_memory, 1, sizeof peak->in, &peak->in);
    status |= clSetKernelArg(peak->read_memory, 2, sizeof count, &count);
    status |= clSetKernelArg(peak->read_memory, 3, sizeof item_step, &item_step);
    status |= clSetKernelArg(peak->read_memory, 4, sizeof step, &step);
    if (!done(status, "clSetKernelArg", error))
        return false;
    passed = launch(peak, peak->read_memory, 1, &status);
    int launches = (int)fmin(fmax(sample_s / fmax(passed, 1e-9), 1), 1000);
    if (status == CL_SUCCESS)
        passed = launch(peak, peak->read_memory, launches, &status);
    *gbs = once * launches / passed * 1e-9;
    return done(status, "clEnqueueNDRangeKernel", error);
}
