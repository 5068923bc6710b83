/* host/gemm/gemm.h: batched matrix multiplication, one function for all callers. Behind it stands a small
 * table of ways to do it (gemm.c); attention's steps family and nn's projections call it. */
#ifndef CA_GEMM_GEMM_H
#define CA_GEMM_GEMM_H

#include "base/context.h"

/* A row-major f32 matrix for each batch z, element (r, c) at offset + z * stride + r * ld + c, all in
 * elements. */
typedef struct ca_matrix {
    cl_mem buffer;
    size_t offset;
    size_t ld;
    size_t stride;
} ca_matrix;

/* C = alpha A B + beta C, or A B^T when transpose_b: A is m x k, B is k x n (n x k), C is m x n. Sizes of 0
 * are legal: with k = 0, C = beta C. With beta = 0, C is not read. */
typedef struct ca_gemm_problem {
    size_t batch, m, n, k;
    bool transpose_b;
    float alpha, beta;
    ca_matrix a, b, c;
} ca_gemm_problem;

typedef struct ca_gemm ca_gemm;

/* Rows of the table, best first; NULL from the count on. */
const char *ca_gemm_row_name(size_t index);

/* NULL when row `name` works on the context's device, otherwise why not. */
const char *ca_gemm_refusal(const clattn_context *context, const char *name);

/* A multiplier of row `name` (NULL: the first that does not refuse), its kernels built. One thread at a time.
 */
clattn_status ca_gemm_create(clattn_context *context, const char *name, ca_gemm **gemm);
void ca_gemm_destroy(ca_gemm *gemm); /* NULL is allowed */
const char *ca_gemm_name(const ca_gemm *gemm);

/* Enqueues on an in-order queue. */
clattn_status ca_gemm_enqueue(ca_gemm *gemm, cl_command_queue queue, const ca_gemm_problem *problem);

#endif
