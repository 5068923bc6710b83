/* host/nn/mha.c: multi-head attention: the life of the module, and its call as projections, attention over
 * runs of equal heads, and the out-projection. Heads are never split or merged: attention reads and writes
 * blocks of columns. */
#include "nn/mha.h"

#include <stdlib.h>
#include <string.h>

/* ---- Life ---------------------------------------------------------------------------------------------- */

static bool multiply(uint64_t *product, uint64_t factor)
{
    if (factor && *product > UINT64_MAX / factor)
        return false;
    *product *= factor;
    return true;
}

clattn_status ca_mha_buffer(const clattn_context *context, const char *name, size_t element_bytes, int64_t a,
                            int64_t b, int64_t c, size_t *sum_bytes, cl_mem *buffer)
{
    uint64_t bytes = element_bytes;
    if (!multiply(&bytes, (uint64_t)a) || !multiply(&bytes, (uint64_t)b) || !multiply(&bytes, (uint64_t)c) ||
        bytes > SIZE_MAX)
        return ca_fail(CLATTN_SIZE_OVERFLOW,
                       "%s: a size of %lld x %lld x %lld elements is too large to express", name,
                       (long long)a, (long long)b, (long long)c);
    if (bytes == 0)
        return CLATTN_OK;
    const uint64_t limit = context->device.info.max_alloc_bytes;
    if (bytes > limit)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "%s: a buffer of %llu bytes is over the device's limit of %llu",
                       name, (unsigned long long)bytes, (unsigned long long)limit);
    cl_int error;
    *buffer = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, (size_t)bytes, NULL, &error);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clCreateBuffer", name);
    *sum_bytes += (size_t)bytes;
    return CLATTN_OK;
}

static clattn_status make_buffer(clattn_mha *mha, const char *name, size_t element_bytes, int64_t a,
                                 int64_t b, int64_t c, cl_mem *buffer)
{
    return ca_mha_buffer(mha->context, name, element_bytes, a, b, c, &mha->workspace_bytes, buffer);
}

static clattn_status make_workspace(clattn_mha *mha)
{
    const clattn_mha_desc *d = &mha->desc;
    const ca_mha_masks masks = ca_mha_masks_of(d);
    const int64_t e = d->embed_dim, rows = d->len_q + 2 * d->len_kv;
    clattn_status status = CLATTN_OK;
    if ((status = make_buffer(mha, "projections", sizeof(float), d->batch, rows, e, &mha->projected)) ||
        (status = make_buffer(mha, "attention output", sizeof(float), d->batch, d->len_q, e, &mha->joined)))
        return status;
    if (d->dtype != mha->input_dtype &&
        (status = make_buffer(mha, "inputs", sizeof(float), d->batch,
                              d->len_q * e + d->len_kv * (d->kdim + d->vdim), 1, &mha->inputs)))
        return status;
    if (masks.makes_keep) {
        const int64_t mask_rows = d->attn_mask == CLATTN_MASK_DROP ? d->len_q : d->batch;
        if ((status = make_buffer(mha, "mask", 1, mask_rows, d->len_kv, 1, &mha->keep)))
            return status;
        mha->keep_bytes = (size_t)(mask_rows * d->len_kv);
    }
    if (masks.makes_bias &&
        (status = make_buffer(mha, "key padding", sizeof(float), d->batch, d->len_kv, 1, &mha->bias)))
        return status;
    if (d->weights == CLATTN_WEIGHTS_MEAN && mha->run_count > 1)
        status = make_buffer(mha, "mean weights", sizeof(float), d->batch, d->len_q, d->len_kv, &mha->mean);
    return status;
}

static clattn_status make_plans(clattn_mha *mha, const char *kernel)
{
    const clattn_mha_desc *d = &mha->desc;
    const ca_mha_masks masks = ca_mha_masks_of(d);
    for (size_t i = 0; i < mha->run_count; i++) {
        ca_mha_run *run = &mha->runs[i];
        clattn_attention_desc a;
        clattn_attention_desc_init(&a, d->batch, run->heads, run->heads, d->len_q, d->len_kv, run->size,
                                   run->size);
        a.causal = d->causal;
        a.alignment = d->alignment;
        a.keep = masks.keep;
        a.bias = masks.bias;
        a.weights = d->weights;
        a.workspace_bytes = d->workspace_bytes;
        a.kernel = kernel;
        const clattn_status status = clattn_attention_plan_create(mha->context, &a, &run->plan);
        if (status != CLATTN_OK)
            return status;
        mha->workspace_bytes += clattn_attention_plan_info(run->plan).workspace_bytes;
    }
    return CLATTN_OK;
}

clattn_status clattn_mha_create(clattn_context *context, const clattn_mha_desc *desc,
                                const clattn_mha_weights *weights, clattn_mha **mha)
{
    if (!mha)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "mha is NULL");
    *mha = NULL;
    if (!context || !desc || !weights)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL",
                       !context ? "context"
                       : !desc  ? "desc"
                                : "weights");
    clattn_mha *made = calloc(1, sizeof *made);
    if (!made)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a module");
    made->context = context;
    made->desc = *desc;
    made->desc.head_sizes = NULL;
    made->desc.kernel = made->desc.gemm = NULL;
    made->input_dtype = ca_gemm_reads(context, desc->gemm, desc->dtype);
    clattn_status status = CLATTN_OK;
    if ((status = ca_mha_judge(desc, &made->runs, &made->run_count)) ||
        (status = ca_mha_judge_weights(desc, weights)) || (status = make_workspace(made)) ||
        (status = make_plans(made, desc->kernel)) ||
        (status = ca_mha_parameters_create(context, desc, weights, &made->parameters)) ||
        (status = ca_gemm_create(context, desc->gemm, made->input_dtype, made->parameters.dtype,
                                 &made->gemm_in)) ||
        (status = ca_gemm_create(context, desc->gemm, CLATTN_F32, made->parameters.dtype, &made->gemm_out)) ||
        (status = ca_rows_create(context, desc->dtype, &made->rows))) {
        clattn_mha_destroy(made);
        return status;
    }
    *mha = made;
    return CLATTN_OK;
}

void clattn_mha_destroy(clattn_mha *mha)
{
    if (!mha)
        return;
    cl_mem buffers[] = { mha->inputs, mha->projected, mha->joined, mha->keep, mha->bias, mha->mean };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i])
            clReleaseMemObject(buffers[i]);
    for (size_t i = 0; i < mha->run_count; i++)
        clattn_attention_plan_destroy(mha->runs[i].plan);
    free(mha->runs);
    ca_gemm_destroy(mha->gemm_in);
    ca_gemm_destroy(mha->gemm_out);
    ca_rows_destroy(mha->rows);
    ca_mha_parameters_destroy(&mha->parameters);
    free(mha);
}

clattn_attention_info clattn_mha_info(const clattn_mha *mha)
{
    if (!mha)
        return clattn_attention_plan_info(NULL);
    clattn_attention_info info = clattn_attention_plan_info(mha->runs[0].plan);
    info.gemm = ca_gemm_name(mha->gemm_in);
    info.workspace_bytes = mha->workspace_bytes;
    return info;
}

/* ---- Projections --------------------------------------------------------------------------------------- */

static ca_rows_view view(const ca_tensor *tensor)
{
    return (ca_rows_view){ tensor->buffer, tensor->offset_bytes / tensor->element_bytes,
                           (size_t)tensor->stride[0], (size_t)tensor->stride[2] };
}

static ca_rows_view compact(cl_mem buffer, size_t offset, size_t rows, size_t width)
{
    return (ca_rows_view){ buffer, offset, rows * width, width };
}

/* Whether all rows of all batches lie at one distance; *ld is it. */
static bool even_rows(const ca_rows_view *v, size_t batch, size_t rows, size_t *ld)
{
    *ld = rows == 1 ? v->batch_stride : v->row_stride;
    return batch == 1 || rows == 1 || v->batch_stride == rows * v->row_stride;
}

/* to = from W^T + bias, for `width` numbers a row to `outputs` ones. */
static clattn_status project(ca_gemm *gemm, cl_command_queue queue, size_t batch, size_t rows, size_t width,
                             size_t outputs, const ca_rows_view *from, cl_mem weights, size_t weights_at,
                             cl_mem biases, size_t bias_at, const ca_rows_view *to)
{
    ca_gemm_problem p = { .batch = batch,
                          .m = rows,
                          .n = outputs,
                          .k = width,
                          .transpose_b = true,
                          .alpha = 1,
                          .a = { from->buffer, from->offset, from->row_stride, from->batch_stride },
                          .b = { weights, weights_at, width, 0 },
                          .c = { to->buffer, to->offset, to->row_stride, to->batch_stride },
                          .bias = biases,
                          .bias_offset = bias_at };
    size_t ld_a, ld_c;
    if (even_rows(from, batch, rows, &ld_a) && even_rows(to, batch, rows, &ld_c)) {
        p.m = batch * rows;
        p.batch = p.m ? 1 : 0;
        p.a.ld = ld_a;
        p.c.ld = ld_c;
    }
    return ca_gemm_enqueue(gemm, queue, &p);
}

static bool same_tensor(const ca_tensor *a, const ca_tensor *b)
{
    return a->buffer == b->buffer && a->offset_bytes == b->offset_bytes && a->stride[0] == b->stride[0] &&
           a->stride[2] == b->stride[2] && memcmp(a->extent, b->extent, sizeof a->extent) == 0;
}

/* Projects query, key and value, where one tensor stands for several of them in one product, and says where
 * the results lie. */
static clattn_status project_inputs(clattn_mha *mha, cl_command_queue queue, const ca_mha_call *call,
                                    ca_rows_view result[CA_MHA_PROJECTIONS])
{
    const ca_tensor *t = &call->tensor[CA_MHA_QUERY];
    const size_t e = (size_t)mha->desc.embed_dim, batch = (size_t)call->batch;
    size_t at = 0, input_at = 0;
    for (size_t i = 0, count; i < CA_MHA_PROJECTIONS; i += count) {
        const size_t rows = (size_t)t[i].extent[2], width = (size_t)t[i].extent[3];
        for (count = 1; i + count < CA_MHA_PROJECTIONS && same_tensor(&t[i], &t[i + count]);)
            count++;
        ca_rows_view from = view(&t[i]);
        clattn_status status = CLATTN_OK;
        if (mha->desc.dtype != mha->input_dtype) {
            const ca_rows_view floats = compact(mha->inputs, input_at, rows, width);
            const ca_rows_size size = { batch, rows, width };
            if ((status = ca_rows_load(mha->rows, queue, size, &from, mha->inputs, input_at)))
                return status;
            from = floats;
            input_at += batch * rows * width;
        }
        const ca_rows_view to = compact(mha->projected, at, rows, count * e);
        const ca_mha_parameters *p = &mha->parameters;
        if ((status = project(mha->gemm_in, queue, batch, rows, width, count * e, &from, p->in_weights,
                              p->in_weights_at[i], p->has_in_bias ? p->biases : NULL, i * e, &to)))
            return status;
        for (size_t j = 0; j < count; j++) {
            result[i + j] = to;
            result[i + j].offset += j * e;
        }
        at += batch * rows * count * e;
    }
    return CLATTN_OK;
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

/* The block of columns of one run, as (batch, head, row, column). */
static clattn_input block(const ca_rows_view *v, const ca_mha_run *run)
{
    return (clattn_input){ .buffer = v->buffer,
                           .offset_bytes = (v->offset + (size_t)run->first_column) * sizeof(float),
                           .stride = { (int64_t)v->batch_stride, run->size, (int64_t)v->row_stride, 1 } };
}

static clattn_input from_head(clattn_input mask, int64_t head, size_t element_bytes)
{
    mask.offset_bytes += (size_t)(head * mask.stride[1]) * element_bytes;
    return mask;
}

/* Where one run writes its weights. */
static clattn_output run_weights(const clattn_mha *mha, const ca_mha_call *call, const ca_mha_run *run)
{
    const ca_tensor *t = &call->tensor[CA_MHA_ATTENTION];
    if (mha->mean)
        return (clattn_output){ .buffer = mha->mean,
                                .stride = { call->len_q * call->len_kv, 0, call->len_kv, 1 } };
    clattn_output out = { .buffer = t->buffer, .offset_bytes = t->offset_bytes };
    memcpy(out.stride, t->stride, sizeof out.stride);
    if (mha->desc.weights == CLATTN_WEIGHTS_FULL)
        out.offset_bytes += (size_t)(run->first_head * t->stride[1]) * sizeof(float);
    return out;
}

static clattn_status attend(clattn_mha *mha, cl_command_queue queue, const ca_mha_call *call,
                            const ca_rows_view projected[CA_MHA_PROJECTIONS], const ca_rows_view *joined)
{
    clattn_attention_call all = { .batch = call->batch, .len_q = call->len_q, .len_kv = call->len_kv };
    clattn_status status = ca_mha_masks_enqueue(mha, queue, call, &all);
    for (size_t i = 0; i < mha->run_count && status == CLATTN_OK; i++) {
        const ca_mha_run *run = &mha->runs[i];
        clattn_attention_call one = all;
        one.q = block(&projected[0], run);
        one.k = block(&projected[1], run);
        one.v = block(&projected[2], run);
        one.keep = from_head(all.keep, run->first_head, 1);
        one.bias = from_head(all.bias, run->first_head, sizeof(float));
        const clattn_input out = block(joined, run);
        one.out.buffer = out.buffer;
        one.out.offset_bytes = out.offset_bytes;
        memcpy(one.out.stride, out.stride, sizeof one.out.stride);
        if (mha->desc.weights != CLATTN_WEIGHTS_NONE)
            one.weights = run_weights(mha, call, run);
        status = clattn_attention_enqueue(run->plan, queue, &one, 0, NULL, NULL);
        if (status == CLATTN_OK && mha->mean) {
            const ca_rows_size size = { (size_t)call->batch, (size_t)call->len_q, (size_t)call->len_kv };
            const ca_rows_view to = view(&call->tensor[CA_MHA_ATTENTION]);
            status = ca_rows_add(mha->rows, queue, size, (float)run->heads / (float)mha->desc.heads, i == 0,
                                 mha->mean, &to);
        }
    }
    return status;
}

/* ---- Call ---------------------------------------------------------------------------------------------- */

static clattn_status enqueue(clattn_mha *mha, cl_command_queue queue, const ca_mha_call *call)
{
    const size_t batch = (size_t)call->batch, rows = (size_t)call->len_q, e = (size_t)mha->desc.embed_dim;
    if (batch == 0 || rows == 0)
        return CLATTN_OK;
    const ca_rows_view joined = compact(mha->joined, 0, rows, e), out = view(&call->tensor[CA_MHA_OUT]);
    const ca_rows_view floats = compact(mha->projected, 0, rows, e);
    const bool is_f32 = mha->desc.dtype == CLATTN_F32;
    const ca_mha_parameters *p = &mha->parameters;
    ca_rows_view projected[CA_MHA_PROJECTIONS];
    clattn_status status = CLATTN_OK;
    if ((status = project_inputs(mha, queue, call, projected)) ||
        (status = attend(mha, queue, call, projected, &joined)) ||
        (status =
             project(mha->gemm_out, queue, batch, rows, e, e, &joined, p->out_weights, 0,
                     p->has_out_bias ? p->biases : NULL, CA_MHA_PROJECTIONS * e, is_f32 ? &out : &floats)))
        return status;
    const ca_rows_size size = { batch, rows, e };
    return is_f32 ? CLATTN_OK : ca_rows_store(mha->rows, queue, size, mha->projected, 0, &out);
}

clattn_status clattn_mha_enqueue(clattn_mha *mha, cl_command_queue queue, const clattn_mha_call *call,
                                 cl_uint num_wait, const cl_event *wait, cl_event *event)
{
    ca_mha_call judged;
    clattn_status status = CLATTN_OK;
    if (event)
        *event = NULL;
    if (!mha)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "mha is NULL");
    if ((status = ca_mha_judge_call(&mha->desc, call, &judged)) ||
        (status = ca_tensors_check(mha->context, CA_FACE_BUFFERS, judged.tensor, CA_MHA_SLOTS)) ||
        (status = ca_queue_check(mha->context, queue)) || (status = ca_queue_begin(queue, num_wait, wait)) ||
        (status = enqueue(mha, queue, &judged)))
        return status;
    return ca_queue_end(queue, event);
}

clattn_status clattn_mha_run(clattn_mha *mha, const clattn_mha_call *call)
{
    ca_mha_call judged;
    ca_staging *staging = NULL;
    clattn_status status = CLATTN_OK;
    if (!mha)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "mha is NULL");
    if ((status = ca_mha_judge_call(&mha->desc, call, &judged)) ||
        (status = ca_tensors_check(mha->context, CA_FACE_HOST, judged.tensor, CA_MHA_SLOTS)) ||
        (status = ca_staging_create(mha->context, judged.tensor, CA_MHA_SLOTS, &staging)))
        return status;
    status = enqueue(mha, mha->context->queue, &judged);
    const clattn_status finished = ca_staging_finish(staging);
    ca_staging_destroy(staging);
    return status ? status : finished;
}
