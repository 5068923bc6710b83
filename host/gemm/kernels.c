/* host/gemm/kernels.c: sets the arguments that lanes.cl and plain.cl share. Called by lanes.c and plain.c. */
#include "gemm/kernels.h"

#include "base/program.h"

clattn_status ca_gemm_set_problem(cl_kernel kernel, const char *name, const ca_gemm_problem *problem,
                                  cl_uint *next)
{
    const ca_matrix *matrices[] = { &problem->a, &problem->b, &problem->c };
    const cl_ulong sizes[] = { problem->m, problem->n, problem->k };
    const cl_int transpose_b = problem->transpose_b;
    const float factors[] = { problem->alpha, problem->beta };
    clattn_status status = CLATTN_OK;
    cl_uint index = 0;
    for (int i = 0; i < 3 && status == CLATTN_OK; i++)
        status = ca_kernel_arg(kernel, name, index++, sizeof sizes[i], &sizes[i]);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(kernel, name, index++, sizeof transpose_b, &transpose_b);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++)
        status = ca_kernel_arg(kernel, name, index++, sizeof factors[i], &factors[i]);
    for (int i = 0; i < 3 && status == CLATTN_OK; i++) {
        const cl_ulong place[] = { matrices[i]->offset, matrices[i]->ld, matrices[i]->stride };
        status = ca_kernel_arg(kernel, name, index++, sizeof(cl_mem), &matrices[i]->buffer);
        for (int j = 0; j < 3 && status == CLATTN_OK; j++)
            status = ca_kernel_arg(kernel, name, index++, sizeof place[j], &place[j]);
    }
    const cl_ulong bias_offset = problem->bias_offset;
    const cl_int has_bias = problem->bias != NULL;
    if (status == CLATTN_OK)
        status = ca_kernel_arg(kernel, name, index++, sizeof(cl_mem), &problem->bias);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(kernel, name, index++, sizeof bias_offset, &bias_offset);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(kernel, name, index++, sizeof has_bias, &has_bias);
    *next = index;
    return status;
}
