/* host/nn/mha_masks.c: the module's two masks in the two forms that attention takes, keep and bias. Called by
 * mha.c.
 *
 *     key_padding   attn_mask      keep                   bias
 *     any           none           padding                -
 *     none          KEEP, DROP     attention mask         -
 *     any           KEEP, DROP     attention mask         padding, 0 or -infinity
 *     any           ADD            padding                attention mask
 */
#include "nn/mha.h"

#include <string.h>

static bool is_boolean(clattn_mask_kind kind)
{
    return kind == CLATTN_MASK_KEEP || kind == CLATTN_MASK_DROP;
}

/* The mask that becomes keep. */
static clattn_mask_kind keep_kind(const clattn_mha_desc *desc)
{
    return is_boolean(desc->attn_mask) ? desc->attn_mask : desc->key_padding;
}

ca_mha_masks ca_mha_masks_of(const clattn_mha_desc *desc)
{
    const bool both = is_boolean(desc->attn_mask) && desc->key_padding != CLATTN_MASK_NONE;
    return (ca_mha_masks){ .keep = keep_kind(desc) != CLATTN_MASK_NONE,
                           .bias = both || desc->attn_mask == CLATTN_MASK_ADD,
                           .makes_keep = keep_kind(desc) == CLATTN_MASK_DROP,
                           .makes_bias = both };
}

static ca_mask_view view(const ca_tensor *tensor)
{
    ca_mask_view v = { .buffer = tensor->buffer, .offset = tensor->offset_bytes / tensor->element_bytes };
    for (int axis = 0; axis < 4; axis++)
        v.stride[axis] = (size_t)tensor->stride[axis];
    return v;
}

static clattn_input passed(const ca_tensor *tensor)
{
    clattn_input in = { .buffer = tensor->buffer, .offset_bytes = tensor->offset_bytes };
    memcpy(in.stride, tensor->stride, sizeof in.stride);
    return in;
}

/* Extents of the compact form: 1 where the mask repeats. Returns the elements, which the mask's own check
 * bounds. */
static size_t shrink(const ca_tensor *tensor, int64_t extent[4], int64_t stride[4])
{
    int64_t step = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const bool repeats = tensor->stride[axis] == 0 && tensor->extent[axis] > 0;
        extent[axis] = repeats ? 1 : tensor->extent[axis];
        stride[axis] = repeats ? 0 : step;
        step *= extent[axis];
    }
    return (size_t)step;
}

/* The module's keep buffer holds a mask of (len_q, len_kv) and of (batch, len_kv) from the start; it grows
 * for masks that differ between heads or between batches as well. What is enqueued keeps the old one alive.
 */
static clattn_status reserve_keep(clattn_mha *mha, size_t bytes)
{
    if (bytes <= mha->keep_bytes)
        return CLATTN_OK;
    cl_mem larger = NULL;
    size_t sum = 0;
    const clattn_status status = ca_mha_buffer(mha->context, "mask", bytes, 1, 1, 1, &sum, &larger);
    if (status != CLATTN_OK)
        return status;
    if (mha->keep)
        clReleaseMemObject(mha->keep);
    mha->workspace_bytes += bytes - mha->keep_bytes;
    mha->keep = larger;
    mha->keep_bytes = bytes;
    return CLATTN_OK;
}

clattn_status ca_mha_masks_enqueue(clattn_mha *mha, cl_command_queue queue, const ca_mha_call *call,
                                   clattn_attention_call *to)
{
    const ca_mha_masks masks = ca_mha_masks_of(&mha->desc);
    const ca_tensor *padding = &call->tensor[CA_MHA_KEY_PADDING], *mask = &call->tensor[CA_MHA_ATTN_MASK];
    clattn_status status = CLATTN_OK;
    if (masks.keep) {
        const ca_tensor *from = is_boolean(mha->desc.attn_mask) ? mask : padding;
        to->keep = passed(from);
        if (masks.makes_keep) {
            int64_t extent[4];
            const ca_mask_view source = view(from);
            if ((status = reserve_keep(mha, shrink(from, extent, to->keep.stride))) ||
                (status = ca_mask_keep(mha->rows, queue, extent, true, &source, mha->keep)))
                return status;
            to->keep.buffer = mha->keep;
            to->keep.offset_bytes = 0;
        }
    }
    if (masks.bias) {
        to->bias = passed(mask);
        if (masks.makes_bias) {
            const ca_mask_view source = view(padding);
            const int64_t stride[4] = { padding->extent[0] == 1 ? 0 : padding->extent[3], 0, 0, 1 };
            if ((status = ca_mask_bias(mha->rows, queue, padding->extent,
                                       mha->desc.key_padding == CLATTN_MASK_DROP, &source, mha->bias)))
                return status;
            to->bias = (clattn_input){ .buffer = mha->bias };
            memcpy(to->bias.stride, stride, sizeof stride);
        }
    }
    return CLATTN_OK;
}
