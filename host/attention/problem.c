/* host/attention/problem.c: descriptions and calls, judged once. Called by plan.c and by nn; below it sizes
 * are only asserted. Also the public helpers that fill descriptions, calls and mask strides. */
#include "attention/problem.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_WORKSPACE_BYTES = 64 << 20 };

void clattn_attention_desc_init(clattn_attention_desc *desc, int64_t batch, int64_t heads_q, int64_t heads_kv,
                                int64_t len_q, int64_t len_kv, int64_t d_qk, int64_t d_v)
{
    if (!desc)
        return;
    *desc = (clattn_attention_desc){ .batch = batch,
                                     .heads_q = heads_q,
                                     .heads_kv = heads_kv,
                                     .len_q = len_q,
                                     .len_kv = len_kv,
                                     .d_qk = d_qk,
                                     .d_v = d_v,
                                     .scale = NAN,
                                     .window_left = -1,
                                     .window_right = -1 };
}

static void fill_strides(int64_t stride[4], clattn_layout layout, bool packed, int64_t heads, int64_t rows,
                         int64_t columns)
{
    const bool rows_inside = layout == CLATTN_BHSD;
    stride[0] = packed ? 0 : heads * rows * columns;
    stride[1] = rows_inside ? rows * columns : columns;
    stride[2] = rows_inside ? columns : heads * columns;
    stride[3] = 1;
}

void clattn_attention_call_init(const clattn_attention_desc *desc, clattn_layout layout,
                                clattn_attention_call *call)
{
    if (!desc || !call)
        return;
    memset(call, 0, sizeof *call);
    call->batch = desc->batch;
    call->len_q = desc->len_q;
    call->len_kv = desc->len_kv;
    call->total_q = desc->packed ? desc->batch * desc->len_q : 0;
    call->total_kv = desc->packed ? desc->batch * desc->len_kv : 0;
    const int64_t rows_q = desc->packed ? call->total_q : desc->len_q;
    const int64_t rows_kv = desc->packed ? call->total_kv : desc->len_kv;
    fill_strides(call->q.stride, layout, desc->packed, desc->heads_q, rows_q, desc->d_qk);
    fill_strides(call->k.stride, layout, desc->packed, desc->heads_kv, rows_kv, desc->d_qk);
    fill_strides(call->v.stride, layout, desc->packed, desc->heads_kv, rows_kv, desc->d_v);
    fill_strides(call->out.stride, layout, desc->packed, desc->heads_q, rows_q, desc->d_v);
    fill_strides(call->lse.stride, CLATTN_BHSD, desc->packed, desc->heads_q, rows_q, 1);
    fill_strides(call->keep.stride, CLATTN_BHSD, false, desc->heads_q, desc->len_q, desc->len_kv);
    memcpy(call->bias.stride, call->keep.stride, sizeof call->bias.stride);
    fill_strides(call->weights.stride, CLATTN_BHSD, false,
                 desc->weights == CLATTN_WEIGHTS_MEAN ? 1 : desc->heads_q, desc->len_q, desc->len_kv);
}

clattn_status clattn_mask_strides(const clattn_attention_desc *desc, clattn_mask_form form,
                                  const int64_t *shape, int64_t stride[4])
{
    /* For each axis of the tensor, the axis of `shape` that it is; -1: not there, which broadcasts. */
    static const struct {
        int rank;
        int axis[4];
    } forms[] = { [CLATTN_MASK_BHQK] = { 4, { 0, 1, 2, 3 } },
                  [CLATTN_MASK_HQK] = { 3, { -1, 0, 1, 2 } },
                  [CLATTN_MASK_BHxQK] = { 3, { -1, 0, 1, 2 } },
                  [CLATTN_MASK_QK] = { 2, { -1, -1, 0, 1 } },
                  [CLATTN_MASK_BK] = { 2, { 0, -1, -1, 1 } } };
    static const char *const names[4] = { "batch", "heads_q", "len_q", "len_kv" };

    if (!desc || !shape || !stride)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "mask: desc, shape or stride is NULL");
    if ((unsigned)form >= sizeof forms / sizeof *forms)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "mask: form %d is unknown", (int)form);
    const bool merged = form == CLATTN_MASK_BHxQK;
    const int64_t full[4] = { desc->batch, merged ? desc->batch * desc->heads_q : desc->heads_q, desc->len_q,
                              desc->len_kv };
    int64_t result[4] = { 0, 0, 0, 0 }, step = 1;
    for (int axis = 3; axis >= 0; axis--) {
        const int at = forms[form].axis[axis];
        if (at < 0)
            continue;
        const int64_t extent = shape[at];
        if (extent != full[axis] && extent != 1)
            return ca_fail(CLATTN_INVALID_SHAPE, "mask: axis %d (%s) is %lld, must be 1 or %lld", at,
                           merged && axis == 1 ? "batch * heads_q" : names[axis], (long long)extent,
                           (long long)full[axis]);
        result[axis] = extent == 1 ? 0 : step;
        if (extent > 0 && step > INT64_MAX / extent)
            return ca_fail(CLATTN_SIZE_OVERFLOW, "mask: the product of its extents exceeds 64 bits");
        step *= extent;
    }
    if (merged)
        result[0] = result[1] * desc->heads_q;
    memcpy(stride, result, sizeof result);
    return CLATTN_OK;
}

static clattn_status judge_size(const char *name, int64_t value)
{
    if (value < 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s %lld is negative", name, (long long)value);
    if (value > INT32_MAX)
        return ca_fail(CLATTN_SIZE_OVERFLOW, "%s %lld is over the limit of %d", name, (long long)value,
                       INT32_MAX);
    return CLATTN_OK;
}

/* Window sides beyond any length are as good as open. */
static int32_t side(int64_t window)
{
    return window < 0 || window >= CA_OPEN ? CA_OPEN : (int32_t)window;
}

clattn_status ca_problem_judge(const clattn_attention_desc *desc, ca_problem *problem)
{
    if (!desc)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "desc is NULL");
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = { { "batch", desc->batch }, { "heads_q", desc->heads_q }, { "heads_kv", desc->heads_kv },
                  { "len_q", desc->len_q }, { "len_kv", desc->len_kv },   { "d_qk", desc->d_qk },
                  { "d_v", desc->d_v } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const clattn_status status = judge_size(sizes[i].name, sizes[i].value);
        if (status)
            return status;
    }
    if (desc->heads_kv == 0 ? desc->heads_q != 0 : desc->heads_q % desc->heads_kv != 0)
        return ca_fail(CLATTN_INVALID_SHAPE, "heads_q %lld is not a multiple of heads_kv %lld",
                       (long long)desc->heads_q, (long long)desc->heads_kv);
    if (!clattn_dtype_bytes(desc->dtype))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "dtype %d is unknown", (int)desc->dtype);
    if (desc->bias && !clattn_dtype_bytes(desc->bias_dtype))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "bias_dtype %d is unknown", (int)desc->bias_dtype);
    if (isinf(desc->scale))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "scale %g is not finite", (double)desc->scale);
    if (!isfinite(desc->softcap) || desc->softcap < 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "softcap %g must be 0 or a positive finite number",
                       (double)desc->softcap);
    if (desc->alignment != CLATTN_BOTTOM_RIGHT && desc->alignment != CLATTN_TOP_LEFT)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "alignment %d is unknown", (int)desc->alignment);
    if (desc->window_left < -1 || desc->window_right < -1)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "window (%lld, %lld): a side is -1 (open) or at least 0",
                       (long long)desc->window_left, (long long)desc->window_right);
    if (desc->weights < CLATTN_WEIGHTS_NONE || desc->weights > CLATTN_WEIGHTS_MEAN)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "weights %d is unknown", (int)desc->weights);
    if (desc->packed && (desc->lengths_q || desc->lengths_kv))
        return ca_fail(CLATTN_INVALID_ARGUMENT,
                       "packed sequences have their lengths in cu_seqlens: lengths_q and "
                       "lengths_kv must be off");

    problem->desc = *desc;
    problem->desc.kernel = NULL;
    problem->desc.device = NULL;
    if (isnan(desc->scale))
        problem->desc.scale = desc->d_qk ? (float)(1 / sqrt((double)desc->d_qk)) : 1;
    problem->group = desc->heads_kv ? desc->heads_q / desc->heads_kv : 1;
    problem->workspace_bytes = desc->workspace_bytes ? desc->workspace_bytes : DEFAULT_WORKSPACE_BYTES;
    problem->left = side(desc->window_left);
    problem->right = desc->causal ? 0 : side(desc->window_right);
    return CLATTN_OK;
}

/* Lists one tensor if the description asks for it, and refuses one that it does not ask for. */
static clattn_status list_input(ca_tensor *slot, const char *name, bool asked, const clattn_input *in,
                                size_t bytes, int64_t b, int64_t h, int64_t r, int64_t c)
{
    if (!asked)
        return ca_unasked_check(name, in->buffer || in->host);
    *slot = ca_tensor_in(name, in, bytes, (const int64_t[4]){ b, h, r, c });
    return CLATTN_OK;
}

static clattn_status list_output(ca_tensor *slot, const char *name, bool asked, const clattn_output *out,
                                 size_t bytes, int64_t b, int64_t h, int64_t r, int64_t c)
{
    if (!asked)
        return ca_unasked_check(name, out->buffer || out->host);
    *slot = ca_tensor_out(name, out, bytes, (const int64_t[4]){ b, h, r, c });
    return CLATTN_OK;
}

/* The last axis is contiguous; a mask may repeat one column. What has no elements may have any strides. */
static clattn_status judge_columns(const ca_tensor *t, bool mask)
{
    uint64_t elements;
    if (!t->present || (ca_tensor_elements(t, &elements) && elements == 0))
        return CLATTN_OK;
    if (t->extent[3] > 1 && t->stride[3] != 1 && !(mask && t->stride[3] == 0))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: stride %lld along columns, must be 1%s", t->name,
                       (long long)t->stride[3], mask ? " or 0" : "");
    return CLATTN_OK;
}

/* A list has no strides of its own. */
static clattn_input as_list(const clattn_input *in)
{
    clattn_input list = *in;
    memset(list.stride, 0, sizeof list.stride);
    list.stride[3] = 1;
    return list;
}

clattn_status ca_call_judge(const ca_problem *problem, const clattn_attention_call *call, ca_call *judged)
{
    const clattn_attention_desc *d = &problem->desc;
    memset(judged, 0, sizeof *judged);
    if (!call)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "call is NULL");
    clattn_status status = CLATTN_OK;
    if ((status = ca_call_size_check("batch", call->batch, d->batch)) ||
        (status = ca_call_size_check("len_q", call->len_q, d->len_q)) ||
        (status = ca_call_size_check("len_kv", call->len_kv, d->len_kv)))
        return status;
    if (d->packed && ((status = judge_size("call: total_q", call->total_q)) ||
                      (status = judge_size("call: total_kv", call->total_kv))))
        return status;
    judged->batch = call->batch;
    judged->len_q = call->len_q;
    judged->len_kv = call->len_kv;
    judged->total_q = d->packed ? call->total_q : 0;
    judged->total_kv = d->packed ? call->total_kv : 0;

    const int64_t b = call->batch, sequences = d->packed ? 1 : b;
    const int64_t rows_q = d->packed ? call->total_q : call->len_q,
                  rows_kv = d->packed ? call->total_kv : call->len_kv;
    const size_t bytes = clattn_dtype_bytes(d->dtype);
    const clattn_input sinks = as_list(&call->sinks);
    const clattn_input lengths_q = as_list(&call->lengths_q), lengths_kv = as_list(&call->lengths_kv);
    const clattn_input cu_q = as_list(&call->cu_seqlens_q), cu_kv = as_list(&call->cu_seqlens_kv);
    ca_tensor *t = judged->tensor;
    if ((status = list_input(&t[CA_Q], "q", true, &call->q, bytes, sequences, d->heads_q, rows_q, d->d_qk)) ||
        (status =
             list_input(&t[CA_K], "k", true, &call->k, bytes, sequences, d->heads_kv, rows_kv, d->d_qk)) ||
        (status =
             list_input(&t[CA_V], "v", true, &call->v, bytes, sequences, d->heads_kv, rows_kv, d->d_v)) ||
        (status = list_input(&t[CA_KEEP], "keep", d->keep, &call->keep, 1, b, d->heads_q, call->len_q,
                             call->len_kv)) ||
        (status = list_input(&t[CA_BIAS], "bias", d->bias, &call->bias, clattn_dtype_bytes(d->bias_dtype), b,
                             d->heads_q, call->len_q, call->len_kv)) ||
        (status = list_input(&t[CA_SINKS], "sinks", d->sinks, &sinks, 4, 1, 1, 1, d->heads_q)) ||
        (status = list_input(&t[CA_ROWS_Q], "lengths_q", d->lengths_q, &lengths_q, 4, 1, 1, 1, b)) ||
        (status = list_input(&t[CA_ROWS_KV], "lengths_kv", d->lengths_kv, &lengths_kv, 4, 1, 1, 1, b)) ||
        (status = list_input(&t[CA_ROWS_Q], "cu_seqlens_q", d->packed, &cu_q, 4, 1, 1, 1, b + 1)) ||
        (status = list_input(&t[CA_ROWS_KV], "cu_seqlens_kv", d->packed, &cu_kv, 4, 1, 1, 1, b + 1)) ||
        (status = list_output(&t[CA_OUT], "out", true, &call->out, bytes, sequences, d->heads_q, rows_q,
                              d->d_v)) ||
        (status = list_output(&t[CA_LSE], "lse", d->lse, &call->lse, 4, sequences, d->heads_q, rows_q, 1)) ||
        (status = list_output(&t[CA_WEIGHTS], "weights", d->weights != CLATTN_WEIGHTS_NONE, &call->weights, 4,
                              b, d->weights == CLATTN_WEIGHTS_MEAN ? d->heads_q > 0 : d->heads_q, call->len_q,
                              call->len_kv)))
        return status;
    for (int slot = 0; slot < CA_SLOTS; slot++)
        if ((status = judge_columns(&t[slot], slot == CA_KEEP || slot == CA_BIAS)))
            return status;
    return CLATTN_OK;
}

static const int32_t *host_list(const ca_tensor *t)
{
    return (const int32_t *)((const char *)t->host + t->offset_bytes);
}

static clattn_status judge_lengths(const ca_tensor *t, int64_t batch, int64_t limit)
{
    for (int64_t b = 0; t->present && b < batch; b++)
        if (host_list(t)[b] < 0 || host_list(t)[b] > limit)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s[%lld] is %d, must be 0 to %lld", t->name,
                           (long long)b, host_list(t)[b], (long long)limit);
    return CLATTN_OK;
}

static clattn_status judge_cu_seqlens(const ca_tensor *t, int64_t batch, int64_t limit, int64_t total)
{
    const int32_t *cu = host_list(t);
    if (cu[0] != 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s[0] is %d, must be 0", t->name, cu[0]);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t step = (int64_t)cu[b + 1] - cu[b];
        if (step < 0 || step > limit)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s[%lld] is %d after %d: a step must be 0 to %lld",
                           t->name, (long long)b + 1, cu[b + 1], cu[b], (long long)limit);
    }
    if (cu[batch] > total)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s ends at %d, but there are %lld rows", t->name, cu[batch],
                       (long long)total);
    return CLATTN_OK;
}

clattn_status ca_call_judge_rows(const ca_problem *problem, const ca_call *call)
{
    const ca_tensor *q = &call->tensor[CA_ROWS_Q], *kv = &call->tensor[CA_ROWS_KV];
    clattn_status status = CLATTN_OK;
    if (problem->desc.packed) {
        if (!(status = judge_cu_seqlens(q, call->batch, call->len_q, call->total_q)))
            status = judge_cu_seqlens(kv, call->batch, call->len_kv, call->total_kv);
    } else if (!(status = judge_lengths(q, call->batch, call->len_q)))
        status = judge_lengths(kv, call->batch, call->len_kv);
    return status;
}

bool ca_call_is_empty(const ca_problem *problem, const ca_call *call)
{
    const clattn_attention_desc *d = &problem->desc;
    const bool no_rows = call->batch == 0 || d->heads_q == 0 || call->len_q == 0;
    return no_rows || (d->d_v == 0 && !d->lse && d->weights == CLATTN_WEIGHTS_NONE);
}

static ca_view view(const ca_tensor *t)
{
    if (!t->present)
        return (ca_view){ 0, 0, 0, 0 };
    return (ca_view){ (ca_i64)(t->offset_bytes / t->element_bytes), t->stride[0], t->stride[1],
                      t->stride[2] };
}

// 8 views, 7 longs, 14 ints and 2 floats: nothing at the end that one compiler counts and another does not.
_Static_assert(sizeof(ca_params) == 8 * sizeof(ca_view) + 7 * 8 + 16 * 4, "ca_params has padding");

ca_params ca_call_params(const ca_problem *problem, const ca_call *call)
{
    const clattn_attention_desc *d = &problem->desc;
    const ca_tensor *t = call->tensor;
    return (ca_params){ .q = view(&t[CA_Q]),
                        .k = view(&t[CA_K]),
                        .v = view(&t[CA_V]),
                        .out = view(&t[CA_OUT]),
                        .lse = view(&t[CA_LSE]),
                        .keep = view(&t[CA_KEEP]),
                        .bias = view(&t[CA_BIAS]),
                        .weights = view(&t[CA_WEIGHTS]),
                        .keep_column = t[CA_KEEP].stride[3],
                        .bias_column = t[CA_BIAS].stride[3],
                        .sinks_offset = view(&t[CA_SINKS]).offset,
                        .rows_q_offset = view(&t[CA_ROWS_Q]).offset,
                        .rows_kv_offset = view(&t[CA_ROWS_KV]).offset,
                        .total_q = call->total_q,
                        .total_kv = call->total_kv,
                        .heads_q = (ca_i32)d->heads_q,
                        .group = (ca_i32)problem->group,
                        .len_q = (ca_i32)call->len_q,
                        .len_kv = (ca_i32)call->len_kv,
                        .packed = d->packed,
                        .has_rows_q = t[CA_ROWS_Q].present,
                        .has_rows_kv = t[CA_ROWS_KV].present,
                        .has_keep = d->keep,
                        .has_sinks = d->sinks,
                        .has_lse = d->lse,
                        .left = problem->left,
                        .right = problem->right,
                        .top_left = d->alignment == CLATTN_TOP_LEFT,
                        .scale = d->scale,
                        .softcap = d->softcap };
}
