/* host/gemm/lanes.c: the row for devices whose work-items drive whole float vectors, which is to say CPUs.
 * Chooses the tile of cl/gemm/lanes.cl and enqueues it. Called through the table of gemm.c. */
#include "gemm/row.h"

#include "base/program.h"
#include "gemm/kernels.h"

#include <stdio.h>
#include <stdlib.h>

/* 16 accumulators of 16 lanes fill half of AVX-512's registers; of 8 or 4 lanes, 8 accumulators half of the
 * rest's. */
enum { VECTORS = 2, BLOCK_K = 128, MOST_ROWS = 128, FEWEST_ROWS = 16, GROUPS_PER_UNIT = 4 };
static const char kernel_name[] = "gemm_lanes";

typedef struct state {
    cl_kernel kernel;
    size_t width; /* columns of one work-group */
    size_t wanted_groups;
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

static clattn_status create(clattn_context *context, void **made)
{
    *made = NULL;
    static const char *const sources[] = { "gemm/lanes.cl", NULL };
    const cl_uint native = context->device.info.float_width;
    const int lanes = native >= 16 ? 16 : native >= 8 ? 8 : 4;
    char options[96];
    snprintf(options, sizeof options, "-DLANES=%d -DVECTORS=%d -DROWS=%d -DBLOCK_K=%d", lanes, VECTORS,
             lanes == 16 ? 8 : 4, BLOCK_K);
    state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a matrix multiplication");
    s->width = (size_t)lanes * VECTORS;
    s->wanted_groups = (size_t)context->device.info.compute_units * GROUPS_PER_UNIT;
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

static clattn_status enqueue(void *made, cl_command_queue queue, const ca_gemm_problem *p)
{
    const state *s = made;
    const size_t columns = divide_up(p->n, s->width);
    cl_ulong rows = MOST_ROWS;
    while (rows > FEWEST_ROWS && columns < s->wanted_groups && p->batch < s->wanted_groups &&
           divide_up(p->m, rows) < s->wanted_groups &&
           columns * p->batch * divide_up(p->m, rows) < s->wanted_groups)
        rows /= 2;
    cl_uint index = 0;
    clattn_status status = ca_gemm_set_problem(s->kernel, kernel_name, p, &index);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(s->kernel, kernel_name, index, sizeof rows, &rows);
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { columns, divide_up(p->m, rows), p->batch };
    const size_t local[3] = { 1, 1, 1 };
    return ca_kernel_enqueue(queue, s->kernel, kernel_name, groups, local);
}

const ca_gemm_row ca_gemm_row_lanes = { "lanes", refuse, create, enqueue, destroy };
