/* host/nn/mha_judge.c: what the multi-head attention module is given, judged once: description, weights,
 * call. Also the public helpers that fill descriptions and calls. Called by mha.c. */
#include "nn/mha.h"

#include <stdlib.h>
#include <string.h>

void clattn_mha_desc_init(clattn_mha_desc *desc, int64_t batch, int64_t len_q, int64_t len_kv,
                          int64_t embed_dim, int64_t heads)
{
    if (!desc)
        return;
    *desc = (clattn_mha_desc){ .batch = batch,
                               .len_q = len_q,
                               .len_kv = len_kv,
                               .embed_dim = embed_dim,
                               .kdim = embed_dim,
                               .vdim = embed_dim,
                               .heads = heads };
}

void clattn_mha_call_init(const clattn_mha_desc *desc, clattn_mha_call *call)
{
    if (!desc || !call)
        return;
    const int64_t weight_heads = desc->weights == CLATTN_WEIGHTS_MEAN ? 1 : desc->heads;
    const struct {
        int64_t *stride;
        int64_t value[4];
    } tensors[] = {
        { call->query.stride, { desc->len_q * desc->embed_dim, 0, desc->embed_dim, 1 } },
        { call->key.stride, { desc->len_kv * desc->kdim, 0, desc->kdim, 1 } },
        { call->value.stride, { desc->len_kv * desc->vdim, 0, desc->vdim, 1 } },
        { call->key_padding.stride, { desc->len_kv, 0, 0, 1 } },
        { call->attn_mask.stride, { 0, 0, desc->len_kv, 1 } },
        { call->out.stride, { desc->len_q * desc->embed_dim, 0, desc->embed_dim, 1 } },
        { call->attention.stride,
          { weight_heads * desc->len_q * desc->len_kv, desc->len_q * desc->len_kv, desc->len_kv, 1 } },
    };
    memset(call, 0, sizeof *call);
    call->batch = desc->batch;
    call->len_q = desc->len_q;
    call->len_kv = desc->len_kv;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        memcpy(tensors[i].stride, tensors[i].value, sizeof tensors[i].value);
}

static clattn_status judge_size(const char *name, int64_t value, int64_t least)
{
    if (value < least)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s %lld must be at least %lld", name, (long long)value,
                       (long long)least);
    if (value > INT32_MAX)
        return ca_fail(CLATTN_SIZE_OVERFLOW, "%s %lld is over the limit of %d", name, (long long)value,
                       INT32_MAX);
    return CLATTN_OK;
}

static clattn_status judge_heads(const clattn_mha_desc *desc)
{
    if (!desc->head_sizes)
        return desc->embed_dim % desc->heads == 0
                   ? CLATTN_OK
                   : ca_fail(CLATTN_INVALID_SHAPE, "heads %lld does not divide embed_dim %lld",
                             (long long)desc->heads, (long long)desc->embed_dim);
    int64_t sum = 0;
    for (int64_t h = 0; h < desc->heads; h++) {
        if (desc->head_sizes[h] < 1)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "head_sizes[%lld] is %lld, must be at least 1",
                           (long long)h, (long long)desc->head_sizes[h]);
        if (desc->head_sizes[h] > desc->embed_dim)
            return ca_fail(CLATTN_INVALID_SHAPE, "head_sizes[%lld] is %lld, more than embed_dim %lld",
                           (long long)h, (long long)desc->head_sizes[h], (long long)desc->embed_dim);
        sum += desc->head_sizes[h];
    }
    if (sum != desc->embed_dim)
        return ca_fail(CLATTN_INVALID_SHAPE, "head_sizes sum to %lld, must be embed_dim %lld", (long long)sum,
                       (long long)desc->embed_dim);
    return CLATTN_OK;
}

static clattn_status divide(const clattn_mha_desc *desc, ca_mha_run **runs, size_t *count)
{
    ca_mha_run *made = calloc((size_t)desc->heads, sizeof *made);
    if (!made)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %lld heads", (long long)desc->heads);
    size_t used = 0;
    int64_t column = 0;
    for (int64_t h = 0; h < desc->heads; h++) {
        const int64_t size = desc->head_sizes ? desc->head_sizes[h] : desc->embed_dim / desc->heads;
        if (used == 0 || made[used - 1].size != size)
            made[used++] = (ca_mha_run){ .first_head = h, .size = size, .first_column = column };
        made[used - 1].heads++;
        column += size;
    }
    *runs = made;
    *count = used;
    return CLATTN_OK;
}

clattn_status ca_mha_judge(const clattn_mha_desc *desc, ca_mha_run **runs, size_t *count)
{
    *runs = NULL;
    *count = 0;
    clattn_status status = CLATTN_OK;
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "batch", desc->batch, 0 },   { "len_q", desc->len_q, 0 },
                  { "len_kv", desc->len_kv, 0 }, { "embed_dim", desc->embed_dim, 1 },
                  { "kdim", desc->kdim, 1 },     { "vdim", desc->vdim, 1 },
                  { "heads", desc->heads, 1 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if ((status = judge_size(sizes[i].name, sizes[i].value, sizes[i].least)))
            return status;
    if (clattn_dtype_bytes(desc->dtype) == 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "dtype %d is unknown", (int)desc->dtype);
    if (desc->key_padding < CLATTN_MASK_NONE || desc->key_padding > CLATTN_MASK_DROP)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "key_padding %d must be NONE, KEEP or DROP",
                       (int)desc->key_padding);
    if (desc->attn_mask < CLATTN_MASK_NONE || desc->attn_mask > CLATTN_MASK_ADD)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "attn_mask %d must be NONE, KEEP, DROP or ADD",
                       (int)desc->attn_mask);
    if (desc->alignment != CLATTN_BOTTOM_RIGHT && desc->alignment != CLATTN_TOP_LEFT)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "alignment %d is unknown", (int)desc->alignment);
    if (desc->weights < CLATTN_WEIGHTS_NONE || desc->weights > CLATTN_WEIGHTS_MEAN)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "weights %d is unknown", (int)desc->weights);
    if ((status = judge_heads(desc)))
        return status;
    return divide(desc, runs, count);
}

clattn_status ca_mha_judge_weights(const clattn_mha_desc *desc, const clattn_mha_weights *w)
{
    const struct {
        const char *name;
        const void *weight, *bias;
        int64_t width;
    } apart[] = { { "q_proj", w->q_proj_weight, w->q_proj_bias, desc->embed_dim },
                  { "k_proj", w->k_proj_weight, w->k_proj_bias, desc->kdim },
                  { "v_proj", w->v_proj_weight, w->v_proj_bias, desc->vdim } };
    if (clattn_dtype_bytes(w->dtype) == 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "weights: dtype %d is unknown", (int)w->dtype);
    for (size_t i = 0; i < sizeof apart / sizeof apart[0]; i++) {
        if (w->in_proj_weight && apart[i].weight)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "weights: both in_proj_weight and %s_weight are given",
                           apart[i].name);
        if (!w->in_proj_weight && !apart[i].weight)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "weights: %s_weight is NULL, and so is in_proj_weight",
                           apart[i].name);
        if (w->in_proj_bias && apart[i].bias)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "weights: both in_proj_bias and %s_bias are given",
                           apart[i].name);
        if (w->in_proj_weight && apart[i].width != desc->embed_dim)
            return ca_fail(CLATTN_INVALID_SHAPE,
                           "weights: in_proj_weight needs kdim %lld and vdim %lld to be embed_dim %lld",
                           (long long)desc->kdim, (long long)desc->vdim, (long long)desc->embed_dim);
    }
    if (!w->out_proj_weight)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "weights: out_proj_weight is NULL");
    return CLATTN_OK;
}

static clattn_status list_mask(ca_tensor *slot, const char *name, clattn_mask_kind kind,
                               const clattn_input *in, const int64_t extent[4])
{
    if (kind == CLATTN_MASK_NONE)
        return ca_unasked_check(name, in->buffer || in->host);
    *slot = ca_tensor_in(name, in, kind == CLATTN_MASK_ADD ? sizeof(float) : 1, extent);
    return CLATTN_OK;
}

clattn_status ca_mha_judge_call(const clattn_mha_desc *d, const clattn_mha_call *call, ca_mha_call *judged)
{
    memset(judged, 0, sizeof *judged);
    if (!call)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "call is NULL");
    clattn_status status = CLATTN_OK;
    if ((status = ca_call_size_check("batch", call->batch, d->batch)) ||
        (status = ca_call_size_check("len_q", call->len_q, d->len_q)) ||
        (status = ca_call_size_check("len_kv", call->len_kv, d->len_kv)))
        return status;
    const int64_t b = call->batch, rows_q = call->len_q, rows_kv = call->len_kv;
    judged->batch = b;
    judged->len_q = rows_q;
    judged->len_kv = rows_kv;

    const size_t bytes = clattn_dtype_bytes(d->dtype);
    const int64_t of_query[4] = { b, 1, rows_q, d->embed_dim };
    const int64_t of_key[4] = { b, 1, rows_kv, d->kdim }, of_value[4] = { b, 1, rows_kv, d->vdim };
    const int64_t of_padding[4] = { b, 1, 1, rows_kv }, of_mask[4] = { b, d->heads, rows_q, rows_kv };
    const int64_t of_weights[4] = { b, d->weights == CLATTN_WEIGHTS_MEAN ? 1 : d->heads, rows_q, rows_kv };
    ca_tensor *t = judged->tensor;
    t[CA_MHA_QUERY] = ca_tensor_in("query", &call->query, bytes, of_query);
    t[CA_MHA_KEY] = ca_tensor_in("key", &call->key, bytes, of_key);
    t[CA_MHA_VALUE] = ca_tensor_in("value", &call->value, bytes, of_value);
    t[CA_MHA_OUT] = ca_tensor_out("out", &call->out, bytes, of_query);
    if ((status = list_mask(&t[CA_MHA_KEY_PADDING], "key_padding", d->key_padding, &call->key_padding,
                            of_padding)) ||
        (status = list_mask(&t[CA_MHA_ATTN_MASK], "attn_mask", d->attn_mask, &call->attn_mask, of_mask)))
        return status;
    if (d->weights != CLATTN_WEIGHTS_NONE)
        t[CA_MHA_ATTENTION] = ca_tensor_out("attention", &call->attention, sizeof(float), of_weights);
    else if ((status = ca_unasked_check("attention", call->attention.buffer || call->attention.host)))
        return status;
    for (int slot = 0; slot < CA_MHA_SLOTS; slot++) {
        const bool mask = slot == CA_MHA_ATTN_MASK;
        if (t[slot].present && t[slot].extent[3] > 1 && t[slot].stride[3] != 1 &&
            !(mask && t[slot].stride[3] == 0))
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: stride %lld along columns, must be 1%s",
                           t[slot].name, (long long)t[slot].stride[3], mask ? " or 0" : "");
    }
    return CLATTN_OK;
}
