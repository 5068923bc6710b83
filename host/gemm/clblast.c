/* host/gemm/clblast.c: the row that calls CLBlast. Chooses calls of it that are right, and clears its cache
 * with the last context that used it. Called through the table of gemm.c. */
#include "gemm/row.h"

#include "base/program.h"

#include <clblast_c.h>

#include <stdlib.h>

/* What CLBlast cannot do, or not rightly, plain does: k = 0, rows that overlap, places beyond 32 bits. */
typedef struct state {
    clattn_context *context;
    void *plain;
    cl_kernel bias;
    bool batched_called;
} state;

enum { BIAS_ITEMS = 32 };
static const char bias_name[] = "gemm_bias";

static size_t contexts_using; /* guarded by CA_LOCK_CLBLAST, as all of CLBlast, which is not thread-safe */

static const char *refuse(const clattn_context *context)
{
    return ca_gemm_row_plain.refuse(context);
}

/* The cache holds programs, and they their OpenCL contexts. */
static void leave(clattn_context *context)
{
    (void)context;
    ca_global_lock_acquire(CA_LOCK_CLBLAST);
    if (--contexts_using == 0)
        CLBlastClearCache();
    ca_global_lock_release(CA_LOCK_CLBLAST);
}

static bool enter(clattn_context *context)
{
    ca_global_lock_acquire(CA_LOCK_CLBLAST);
    const bool first = context->on_destroy != leave;
    if (first) {
        context->on_destroy = leave;
        contexts_using++;
    }
    ca_global_lock_release(CA_LOCK_CLBLAST);
    return first;
}

static clattn_status judge(CLBlastStatusCode code, const char *call)
{
    if (code == CLBlastSuccess)
        return CLATTN_OK;
    if (code > CLBlastNotImplemented)
        return ca_fail_cl((cl_int)code, call, NULL);
    return ca_fail(CLATTN_CL_FAILED, "%s: CLBlast status %d", call, (int)code);
}

static clattn_status call_single(const ca_gemm_problem *p, size_t z, cl_command_queue queue)
{
    const CLBlastTranspose b = p->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    ca_global_lock_acquire(CA_LOCK_CLBLAST);
    const CLBlastStatusCode code =
        CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, b, p->m, p->n, p->k, p->alpha, p->a.buffer,
                     p->a.offset + z * p->a.stride, p->a.ld, p->b.buffer, p->b.offset + z * p->b.stride,
                     p->b.ld, p->beta, p->c.buffer, p->c.offset + z * p->c.stride, p->c.ld, &queue, NULL);
    ca_global_lock_release(CA_LOCK_CLBLAST);
    return judge(code, "CLBlastSgemm");
}

static clattn_status call_batched(const ca_gemm_problem *p, cl_command_queue queue)
{
    const CLBlastTranspose b = p->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    ca_global_lock_acquire(CA_LOCK_CLBLAST);
    const CLBlastStatusCode code =
        CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, b, p->m, p->n, p->k, p->alpha,
                                   p->a.buffer, 0, p->a.ld, p->a.stride, p->b.buffer, 0, p->b.ld, p->b.stride,
                                   p->beta, p->c.buffer, 0, p->c.ld, p->c.stride, p->batch, &queue, NULL);
    ca_global_lock_release(CA_LOCK_CLBLAST);
    return judge(code, "CLBlastSgemmStridedBatched");
}

/* One product of 1 x 1 x 1, which makes CLBlast compile. */
static clattn_status compile(clattn_context *context)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, 3 * sizeof(float), NULL, &error);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clCreateBuffer", "CLBlast");
    const float zeros[3] = { 0 };
    clattn_status status = CLATTN_OK;
    error = clEnqueueWriteBuffer(context->queue, buffer, CL_TRUE, 0, sizeof zeros, zeros, 0, NULL, NULL);
    if (error != CL_SUCCESS) {
        status = ca_fail_cl(error, "clEnqueueWriteBuffer", "CLBlast");
    } else {
        const ca_gemm_problem one = { .batch = 1,
                                      .m = 1,
                                      .n = 1,
                                      .k = 1,
                                      .alpha = 1,
                                      .a = { buffer, 0, 1, 1 },
                                      .b = { buffer, 1, 1, 1 },
                                      .c = { buffer, 2, 1, 1 } };
        status = call_single(&one, 0, context->queue);
    }
    clReleaseMemObject(buffer);
    return status;
}

static void destroy(void *made)
{
    state *s = made;
    if (!s)
        return;
    ca_gemm_row_plain.destroy(s->plain);
    if (s->bias)
        clReleaseKernel(s->bias);
    free(s);
}

static clattn_status create(clattn_context *context, clattn_dtype a, clattn_dtype b, void **made)
{
    static const char *const sources[] = { "gemm/bias.cl", NULL };
    *made = NULL;
    state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a matrix multiplication");
    s->context = context;
    if (enter(context))
        ca_log(context, CLATTN_LOG_INFO,
               "CLBlast compiles its matrix multiplication for %s: this may take seconds",
               context->device.info.name);
    clattn_status status = ca_gemm_row_plain.create(context, a, b, &s->plain);
    if (status == CLATTN_OK)
        status = ca_kernel_create(context, sources, "", bias_name, &s->bias);
    if (status == CLATTN_OK)
        status = compile(context);
    if (status != CLATTN_OK) {
        destroy(s);
        return status;
    }
    *made = s;
    return CLATTN_OK;
}

/* CLBlast computes places in 32 bits, in copies whose sides are rounded up to its tiles, and refuses rows
 * that overlap. */
static bool takes(const ca_matrix *x, size_t batch, size_t height, size_t width)
{
    const size_t tile = 256, limit = INT32_MAX;
    if (height > limit - tile || width > limit - tile || height + tile > limit / (width + tile))
        return false;
    if (x->offset + (batch - 1) * x->stride + (height - 1) * x->ld + width > limit)
        return false;
    return height == 1 || x->ld >= width;
}

/* SgemmStridedBatched's indirect path uses operands in place, and then takes offsets and strides for those of
 * compact copies. Version 1.5.3 returns wrong numbers; tests/gemm has the cases. */
static bool is_compact(const ca_matrix *x, size_t height, size_t width)
{
    return x->offset == 0 && x->ld == width && x->stride == height * width;
}

static void widen(ca_matrix *x, size_t width)
{
    if (x->ld < width)
        x->ld = width;
}

/* C = beta C + bias. */
static clattn_status enqueue_bias(cl_kernel kernel, cl_command_queue queue, const ca_gemm_problem *p)
{
    const cl_ulong sizes[] = { p->m, p->n, p->c.offset, p->c.ld, p->c.stride, p->bias_offset };
    const cl_mem buffers[] = { p->c.buffer, p->bias };
    clattn_status status = CLATTN_OK;
    cl_uint index = 0;
    for (int i = 0; i < 2 && status == CLATTN_OK; i++)
        status = ca_kernel_arg(kernel, bias_name, index++, sizeof buffers[i], &buffers[i]);
    for (int i = 0; i < 6 && status == CLATTN_OK; i++)
        status = ca_kernel_arg(kernel, bias_name, index++, sizeof sizes[i], &sizes[i]);
    if (status == CLATTN_OK)
        status = ca_kernel_arg(kernel, bias_name, index, sizeof p->beta, &p->beta);
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { p->batch * p->m, 1, 1 }, local[3] = { BIAS_ITEMS, 1, 1 };
    return ca_kernel_enqueue(queue, kernel, bias_name, groups, local);
}

static clattn_status enqueue(void *made, cl_command_queue queue, const ca_gemm_problem *problem)
{
    state *s = made;
    ca_gemm_problem p = *problem;
    const size_t height_b = p.transpose_b ? p.n : p.k, width_b = p.transpose_b ? p.k : p.n;
    if (p.k == 0 || !takes(&p.a, p.batch, p.m, p.k) || !takes(&p.b, p.batch, height_b, width_b) ||
        !takes(&p.c, p.batch, p.m, p.n))
        return ca_gemm_row_plain.enqueue(s->plain, queue, problem);
    clattn_status status = CLATTN_OK;
    if (p.bias) {
        if ((status = enqueue_bias(s->bias, queue, &p)))
            return status;
        p.beta = 1;
    }
    widen(&p.a, p.k); /* a matrix of one row may have any row stride, but not to CLBlast */
    widen(&p.b, width_b);
    widen(&p.c, p.n);
    if (p.batch > 1 && is_compact(&p.a, p.m, p.k) && is_compact(&p.b, height_b, width_b) &&
        is_compact(&p.c, p.m, p.n)) {
        if (!s->batched_called)
            ca_log(s->context, CLATTN_LOG_INFO, "CLBlast's first batched call on %s may compile for seconds",
                   s->context->device.info.name);
        s->batched_called = true;
        return call_batched(&p, queue);
    }
    for (size_t z = 0; z < p.batch && status == CLATTN_OK; z++)
        status = call_single(&p, z, queue);
    return status;
}

const ca_gemm_row ca_gemm_row_clblast = { "clblast", false, refuse, create, enqueue, destroy };
