/* host/gemm/gemm.h: batched matrix multiplication, one function for all callers. Behind it stands a small
 * table of ways to do it (gemm.c); attention's steps family and nn's projections call it. */
#ifndef CA_GEMM_GEMM_H
#define CA_GEMM_GEMM_H

#include "base/context.h"

#include <clattn/tensor.h>

/* A row-major matrix for each batch z, element (r, c) at offset + z * stride + r * ld + c, all in
 * elements. */
typedef struct ca_matrix {
    cl_mem buffer;
    size_t offset;
    size_t ld;
    size_t stride;
} ca_matrix;

/* C = alpha A B + beta C + bias, or A B^T when transpose_b: A is m x k, B is k x n (n x k), C is m x n, bias
 * has n numbers for each row, or a NULL buffer. A and B are stored as the multiplier was made for, C and bias
 * as f32. Sizes of 0 are legal: with k = 0, C = beta C + bias. With beta = 0, C is not read. */
typedef struct ca_gemm_problem {
    size_t batch, m, n, k;
    bool transpose_b;
    float alpha, beta;
    ca_matrix a, b, c;
    cl_mem bias;
    size_t bias_offset; /* elements */
} ca_gemm_problem;

typedef struct ca_gemm ca_gemm;

/* Rows of the table, best first; NULL from the count on. */
const char *ca_gemm_row_name(size_t index);

/* NULL when row `name` works on the context's device with operands of these types, otherwise why not. */
const char *ca_gemm_refusal(const clattn_context *context, const char *name, clattn_dtype a, clattn_dtype b);

/* How row `name`, or with NULL the best of the context's device, wants an operand that is stored as `dtype`:
 * as it is, or as f32. */
clattn_dtype ca_gemm_reads(const clattn_context *context, const char *name, clattn_dtype dtype);

/* A multiplier of row `name` (NULL: the first that does not refuse) for operands of these types, its kernels
 * built. One thread at a time. */
clattn_status ca_gemm_create(clattn_context *context, const char *name, clattn_dtype a, clattn_dtype b,
                             ca_gemm **gemm);
void ca_gemm_destroy(ca_gemm *gemm); /* NULL is allowed */
const char *ca_gemm_name(const ca_gemm *gemm);

/* Enqueues on an in-order queue. */
clattn_status ca_gemm_enqueue(ca_gemm *gemm, cl_command_queue queue, const ca_gemm_problem *problem);

#endif
