/* host/gemm/gemm.c: batched matrix multiplication: the table of ways, best first, and the check of a problem.
 * Called by attention's steps family and by nn's projections. */
#include "gemm/gemm.h"

#include "gemm/row.h"

#include <stdlib.h>
#include <string.h>

/* The first row that does not refuse is taken. On CPUs lanes is several times as fast as CLBlast: 512 x 768 x
 * 768 on two AVX-512 cores with PoCL 3.1, 94 to 147 GFLOP/s against 7 on Skylake, and 443 to 456 on Zen 5,
 * whose peak was 515. CLBlast has its own parameters: those that a search for a CPU found (GEMMK 1, MWG 64,
 * NWG 32, VWM 16) gave it 28, and made its batched call return wrong numbers. */
static const ca_gemm_row *const rows[] = { &ca_gemm_row_lanes, &ca_gemm_row_clblast, &ca_gemm_row_plain };
enum { ROWS = sizeof rows / sizeof rows[0] };

struct ca_gemm {
    clattn_context *context;
    const ca_gemm_row *row;
    clattn_dtype a, b;
    void *state;
};

const char *ca_gemm_row_name(size_t index)
{
    return index < ROWS ? rows[index]->name : NULL;
}

static const ca_gemm_row *find_row(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

static const char *refusal_of(const ca_gemm_row *row, const clattn_context *context, clattn_dtype a,
                              clattn_dtype b)
{
    if (!row->reads_all && (a != CLATTN_F32 || b != CLATTN_F32))
        return "reads f32 only";
    return row->refuse(context);
}

const char *ca_gemm_refusal(const clattn_context *context, const char *name, clattn_dtype a, clattn_dtype b)
{
    const ca_gemm_row *row = find_row(name);
    return row ? refusal_of(row, context, a, b) : "there is no matrix multiplication of that name";
}

clattn_dtype ca_gemm_reads(const clattn_context *context, const char *name, clattn_dtype dtype)
{
    for (size_t i = 0; i < ROWS; i++)
        if (name ? strcmp(rows[i]->name, name) == 0 : !rows[i]->refuse(context))
            return rows[i]->reads_all ? dtype : CLATTN_F32;
    return CLATTN_F32;
}

clattn_status ca_gemm_create(clattn_context *context, const char *name, clattn_dtype a, clattn_dtype b,
                             ca_gemm **gemm)
{
    *gemm = NULL;
    if (name) {
        const char *refusal = ca_gemm_refusal(context, name, a, b);
        if (refusal)
            return ca_fail(CLATTN_UNSUPPORTED, "gemm %s: %s", name, refusal);
    }
    ca_gemm *made = calloc(1, sizeof *made);
    if (!made)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a matrix multiplication");
    made->context = context;
    made->a = a;
    made->b = b;
    clattn_status status = CLATTN_UNSUPPORTED;
    for (size_t i = 0; i < ROWS && !made->row; i++) {
        const ca_gemm_row *row = rows[i];
        if (name ? strcmp(row->name, name) != 0 : refusal_of(row, context, a, b) != NULL)
            continue;
        status = row->create(context, a, b, &made->state);
        if (status == CLATTN_OK) {
            made->row = row;
        } else if (name || context->strict) {
            break;
        } else {
            ca_log(context, CLATTN_LOG_WARNING, "gemm %s: %s", row->name, clattn_last_message());
        }
    }
    if (!made->row) {
        free(made);
        return status;
    }
    *gemm = made;
    return CLATTN_OK;
}

void ca_gemm_destroy(ca_gemm *gemm)
{
    if (!gemm)
        return;
    gemm->row->destroy(gemm->state);
    free(gemm);
}

const char *ca_gemm_name(const ca_gemm *gemm)
{
    return gemm->row->name;
}

static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
    if (a && b > (UINT64_MAX - *sum) / a)
        return false;
    *sum += a * b;
    return true;
}

/* Rows of a and b may overlap. */
static clattn_status check_matrix(const char *name, const ca_matrix *x, clattn_dtype dtype, size_t batch,
                                  size_t height, size_t width)
{
    if (batch == 0 || height == 0 || width == 0)
        return CLATTN_OK;
    if (!x->buffer)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "gemm: matrix %s has no buffer", name);
    const size_t element_bytes = clattn_dtype_bytes(dtype);
    uint64_t elements = width;
    if (!add_product(&elements, height - 1, x->ld) || !add_product(&elements, batch - 1, x->stride) ||
        !add_product(&elements, x->offset, 1) || elements > SIZE_MAX / element_bytes)
        return ca_fail(CLATTN_SIZE_OVERFLOW, "gemm: the size of matrix %s is too large to express", name);
    size_t bytes = 0;
    cl_int error = clGetMemObjectInfo(x->buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetMemObjectInfo", name);
    if (bytes / element_bytes < elements)
        return ca_fail(CLATTN_BUFFER_TOO_SMALL, "gemm: matrix %s reaches %llu bytes but its buffer holds %zu",
                       name, (unsigned long long)elements * element_bytes, bytes);
    return CLATTN_OK;
}

clattn_status ca_gemm_enqueue(ca_gemm *gemm, cl_command_queue queue, const ca_gemm_problem *problem)
{
    const ca_gemm_problem *p = problem;
    if (p->batch == 0 || p->m == 0 || p->n == 0)
        return CLATTN_OK;
    if (p->batch > 1 && p->c.stride == 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT,
                       "gemm: %zu results share one place: matrix c has a batch stride of 0", p->batch);
    if (p->m > 1 && p->c.ld < p->n)
        return ca_fail(CLATTN_INVALID_SHAPE,
                       "gemm: matrix c has rows of %zu elements but a row stride of %zu", p->n, p->c.ld);
    clattn_status status = check_matrix("a", &p->a, gemm->a, p->batch, p->m, p->k);
    if (status == CLATTN_OK)
        status = check_matrix("b", &p->b, gemm->b, p->batch, p->transpose_b ? p->n : p->k,
                              p->transpose_b ? p->k : p->n);
    if (status == CLATTN_OK)
        status = check_matrix("c", &p->c, CLATTN_F32, p->batch, p->m, p->n);
    const ca_matrix bias = { p->bias, p->bias_offset, 0, 0 };
    if (status == CLATTN_OK && p->bias)
        status = check_matrix("bias", &bias, CLATTN_F32, 1, 1, p->n);
    if (status != CLATTN_OK)
        return status;
    return gemm->row->enqueue(gemm->state, queue, p);
}
