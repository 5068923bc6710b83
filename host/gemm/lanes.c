/* host/gemm/lanes.c: the row for devices whose work-items drive whole float vectors, which is to say CPUs.
 * Chooses the tile of cl/gemm/lanes.cl and enqueues it. Called through the table of gemm.c. */
#include "gemm/row.h"

#include "base/program.h"
#include "base/tensor.h"
#include "gemm/cut.h"
#include "gemm/kernels.h"

#include <stdio.h>
#include <stdlib.h>

/* 24 accumulators fill AVX-512's registers, 12 those of AVX2 and SSE. A group's copy of B is up to DEPTH x
 * MOST_COLUMNS: more depth means fewer passes over C, more columns fewer copies of A, and both 0.6 MiB of the
 * second cache. */
enum { VECTORS = 3, DEPTH = 384, MOST_COLUMNS = 384 };
static const char kernel_name[] = "gemm_lanes";

typedef struct state {
    cl_kernel kernel;
    size_t lanes, width, rows, most_panels, units;
} state;

static const char *refuse(const clattn_context *context)
{
    return context->device.info.float_width < 4 ? "needs a device with native float vectors of at least 4"
                                                : NULL;
}

static void destroy(void *made)
{
    state *s = made;
    if (!s)
        return;
    if (s->kernel)
        clReleaseKernel(s->kernel);
    free(s);
}

static clattn_status create(clattn_context *context, clattn_dtype a, clattn_dtype b, void **made)
{
    *made = NULL;
    static const char *const sources[] = { "base/types.cl", "base/vectors.cl", "gemm/lanes.cl", NULL };
    const cl_uint native = context->device.info.float_width;
    state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a matrix multiplication");
    s->lanes = native >= 16 ? 16 : native >= 8 ? 8 : 4;
    s->rows = s->lanes == 16 ? 8 : 4;
    s->width = s->lanes * VECTORS;
    s->most_panels = MOST_COLUMNS / s->width;
    s->units = context->device.info.compute_units;
    char options[160];
    snprintf(options, sizeof options,
             "-DTYPE=%s -DTYPE_B=%s -DLANES=%zu -DVECTORS=%d -DROWS=%zu -DPANELS=%zu -DDEPTH=%d",
             ca_type_name(a), ca_type_name(b), s->lanes, VECTORS, s->rows, s->most_panels, DEPTH);
    const clattn_status status = ca_kernel_create(context, sources, options, kernel_name, &s->kernel);
    if (status != CLATTN_OK) {
        destroy(s);
        return status;
    }
    *made = s;
    return CLATTN_OK;
}

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* The depth of equal blocks of k, in whole vectors. */
static cl_int step_of(size_t k, size_t lanes)
{
    const size_t blocks = k > DEPTH ? divide_up(k, DEPTH) : 1;
    return (cl_int)(divide_up(divide_up(k > 0 ? k : 1, blocks), lanes) * lanes);
}

static clattn_status enqueue(void *made, cl_command_queue queue, const ca_gemm_problem *p)
{
    const state *s = made;
    const ca_gemm_cut cut =
        ca_gemm_choose_cut(p->batch, p->m, p->n, s->rows, s->width, s->most_panels, s->units);
    const cl_ulong rows = cut.row_tiles * s->rows;
    const cl_int panels = (cl_int)cut.panels, step = step_of(p->k, s->lanes);
    cl_uint index = 0;
    clattn_status status = ca_gemm_set_problem(s->kernel, kernel_name, p, &index);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(s->kernel, kernel_name, index++, sizeof rows, &rows);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(s->kernel, kernel_name, index++, sizeof panels, &panels);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(s->kernel, kernel_name, index++, sizeof step, &step);
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { divide_up(p->n, s->width * cut.panels), divide_up(p->m, rows), p->batch };
    const size_t local[3] = { 1, 1, 1 };
    return ca_kernel_enqueue(queue, s->kernel, kernel_name, groups, local);
}

const ca_gemm_row ca_gemm_row_lanes = { "lanes", true, refuse, create, enqueue, destroy };
