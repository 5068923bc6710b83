/* host/gemm/plain.c: the row for any device: cl/gemm/plain.cl, tiled in local memory. Called through the
 * table of gemm.c. */
#include "gemm/row.h"

#include "base/program.h"
#include "base/tensor.h"
#include "gemm/kernels.h"

#include <stdio.h>

/* Some drivers take no more groups than this along the second and third axis. */
enum { TILE = 32, SIDE = 8, MOST_GROUPS = 65535 };
static const char kernel_name[] = "gemm_plain";

static const char *refuse(const clattn_context *context)
{
    return context->device.max_work_group < SIDE * SIDE ? "needs work-groups of 64" : NULL;
}

static void destroy(void *made)
{
    if (made)
        clReleaseKernel(made);
}

static clattn_status create(clattn_context *context, clattn_dtype a, clattn_dtype b, void **made)
{
    static const char *const sources[] = { "base/types.cl", "gemm/plain.cl", NULL };
    char options[64];
    snprintf(options, sizeof options, "-DTYPE=%s -DTYPE_B=%s", ca_type_name(a), ca_type_name(b));
    cl_kernel kernel = NULL;
    const clattn_status status = ca_kernel_create(context, sources, options, kernel_name, &kernel);
    *made = kernel;
    return status;
}

static size_t tiles(size_t size)
{
    return size / TILE + (size % TILE != 0);
}

static clattn_status enqueue_part(cl_kernel kernel, cl_command_queue queue, const ca_gemm_problem *p)
{
    cl_uint count = 0;
    const clattn_status status = ca_gemm_set_problem(kernel, kernel_name, p, &count);
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { tiles(p->m), tiles(p->n), p->batch };
    const size_t local[3] = { SIDE, SIDE, 1 };
    return ca_kernel_enqueue(queue, kernel, kernel_name, groups, local);
}

static clattn_status enqueue(void *made, cl_command_queue queue, const ca_gemm_problem *p)
{
    const size_t wide = (size_t)MOST_GROUPS * TILE;
    clattn_status status = CLATTN_OK;
    for (size_t z = 0; z < p->batch && status == CLATTN_OK; z += MOST_GROUPS) {
        for (size_t column = 0; column < p->n && status == CLATTN_OK; column += wide) {
            ca_gemm_problem part = *p;
            part.batch = p->batch - z < MOST_GROUPS ? p->batch - z : MOST_GROUPS;
            part.n = p->n - column < wide ? p->n - column : wide;
            part.a.offset += z * p->a.stride;
            part.b.offset += z * p->b.stride + (p->transpose_b ? column * p->b.ld : column);
            part.c.offset += z * p->c.stride + column;
            part.bias_offset += column;
            status = enqueue_part(made, queue, &part);
        }
    }
    return status;
}

const ca_gemm_row ca_gemm_row_plain = { "plain", true, refuse, create, enqueue, destroy };
