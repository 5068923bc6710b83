/* tools/problem.c: makes the library's description and call from the files and options of `clattn run`.
 * Called by run.c. */
#include "problem.h"

#include "files/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tool_type storage[] = {
    [CLATTN_F32] = TOOL_F32, [CLATTN_F16] = TOOL_F16, [CLATTN_BF16] = TOOL_BF16
};

/* The sizes of q, k or v. */
typedef struct sizes {
    const char *option;
    int64_t batch, heads, len, width;
} sizes;

static bool read_tensor(const char *option, const char *where, const tool_run_values *given,
                        tool_array *array, sizes *of, tool_error *error)
{
    tool_array raw;
    char text[TOOL_SHAPE_BYTES];
    bool ok = tool_load(where, &raw, error);
    if (ok && raw.type == TOOL_BOOL)
        ok = tool_fail(error, "%s: %s holds bool, numbers are wanted", option, where);
    if (ok && (raw.rank < 2 || raw.rank > 4))
        ok = tool_fail(error, "%s: %s has shape %s, 2 to 4 axes are wanted", option, where,
                       tool_shape_text(raw.rank, raw.shape, text));
    if (ok)
        ok = tool_array_convert(&raw, storage[given->dtype], where, array, error);
    tool_array_free(&raw);
    if (!ok)
        return false;
    const int64_t *last = array->shape + array->rank - 1;
    bool heads_first = given->layout == CLATTN_BHSD;
    *of = (sizes){ option, 1, 1, heads_first || array->rank == 2 ? last[-1] : last[-2], last[0] };
    if (array->rank > 2)
        of->heads = heads_first ? last[-2] : last[-1];
    if (array->rank > 3)
        of->batch = array->shape[0];
    return true;
}

static bool same(const char *what, const sizes *one, int64_t a, const sizes *other, int64_t b,
                 tool_error *error)
{
    if (a == b)
        return true;
    return tool_fail(error, "%s has %s %lld, %s has %lld", one->option, what, (long long)a, other->option,
                     (long long)b);
}

static bool sizes_fit(const sizes *q, const sizes *k, const sizes *v, tool_error *error)
{
    if (!same("batch size", k, k->batch, q, q->batch, error) ||
        !same("batch size", v, v->batch, q, q->batch, error) ||
        !same("head size", k, k->width, q, q->width, error) || !same("length", v, v->len, k, k->len, error) ||
        !same("number of heads", v, v->heads, k, k->heads, error))
        return false;
    if (k->heads > 0 && q->heads % k->heads != 0)
        return tool_fail(error, "--q has %lld heads, not a multiple of the %lld of --k", (long long)q->heads,
                         (long long)k->heads);
    return true;
}

static bool read_mask(const char *where, tool_problem *problem, tool_error *error)
{
    static const clattn_mask_form forms[] = { CLATTN_MASK_QK, CLATTN_MASK_HQK, CLATTN_MASK_BHQK };
    clattn_attention_desc *desc = &problem->desc;
    tool_array raw;
    char text[TOOL_SHAPE_BYTES];
    bool ok = tool_load(where, &raw, error);
    if (!ok)
        return false;
    if (raw.rank == 1) { /* the keys alone: one row for every query */
        raw.rank = 2;
        raw.shape[1] = raw.shape[0];
        raw.shape[0] = 1;
    }
    desc->keep = raw.type == TOOL_BOOL;
    desc->bias = tool_type_is_float(raw.type);
    clattn_input *in = desc->keep ? &problem->call.keep : &problem->call.bias;
    if (!desc->keep && !desc->bias)
        ok = tool_fail(error,
                       "--mask: %s holds %s; a mask is bool (true = attend) or float (added to the scores)",
                       where, tool_types[raw.type].text);
    else if (raw.rank < 2 || raw.rank > 4)
        ok = tool_fail(error, "--mask: %s has shape %s, 1 to 4 axes are wanted", where,
                       tool_shape_text(raw.rank, raw.shape, text));
    else if (clattn_mask_strides(desc, forms[raw.rank - 2], raw.shape, in->stride) != CLATTN_OK)
        ok = tool_fail_library(error, "--mask");
    else if (desc->bias)
        ok = tool_array_convert(&raw, TOOL_F32, where, &problem->mask, error);
    else {
        problem->mask = raw;
        raw.data = NULL;
    }
    in->host = problem->mask.data;
    tool_array_free(&raw);
    return ok;
}

static bool read_sinks(const char *where, tool_problem *problem, tool_error *error)
{
    tool_array raw;
    char text[TOOL_SHAPE_BYTES];
    bool ok = tool_load(where, &raw, error);
    if (ok && (raw.rank != 1 || raw.shape[0] != problem->desc.heads_q))
        ok = tool_fail(error, "--sinks: %s has shape %s, --q has %lld heads", where,
                       tool_shape_text(raw.rank, raw.shape, text), (long long)problem->desc.heads_q);
    if (ok)
        ok = tool_array_convert(&raw, TOOL_F32, where, &problem->sinks, error);
    tool_array_free(&raw);
    problem->desc.sinks = ok;
    problem->call.sinks.host = problem->sinks.data;
    return ok;
}

static bool read_lengths(const char *option, const tool_list *list, int64_t batch, int64_t longest,
                         int32_t **lengths, tool_error *error)
{
    if (list->count != (size_t)batch)
        return tool_fail_usage(error, "%s has %zu numbers, the batch size is %lld", option, list->count,
                               (long long)batch);
    *lengths = calloc(list->count, sizeof **lengths);
    if (!*lengths)
        return tool_fail(error, "%s: no memory", option);
    for (size_t index = 0; index < list->count; index++) {
        if (list->value[index] > longest || list->value[index] > INT32_MAX)
            return tool_fail_usage(error, "%s: length %lld of batch %zu is more than the tensor's %lld",
                                   option, (long long)list->value[index], index, (long long)longest);
        (*lengths)[index] = (int32_t)list->value[index];
    }
    return true;
}

/* Makes the outputs: that of the attention with q's axes, the others without those of size one that q leaves
 * out. */
static bool make_outputs(const tool_run_values *given, tool_problem *problem, tool_error *error)
{
    const clattn_attention_desc *desc = &problem->desc;
    const int64_t weights[] = { desc->batch, desc->heads_q, desc->len_q, desc->len_kv };
    int rank = problem->q.rank;
    int64_t out[4];
    memcpy(out, problem->q.shape, (size_t)rank * sizeof *out);
    out[rank - 1] = desc->d_v;
    if (!tool_array_create(problem->q.type, rank, out, "the output", &problem->out, error))
        return false;
    if (given->lse &&
        !tool_array_create(TOOL_F32, rank - 1, weights + 4 - rank, given->lse, &problem->lse, error))
        return false;
    return !given->weights ||
           tool_array_create(TOOL_F32, rank, weights + 4 - rank, given->weights, &problem->weights, error);
}

bool tool_problem_create(const tool_run_values *given, tool_problem *problem, tool_error *error)
{
    sizes q, k, v;
    tool_problem *made = problem;
    clattn_attention_desc *desc = &made->desc;
    clattn_attention_call *call = &made->call;
    memset(made, 0, sizeof *made);
    if (!read_tensor("--q", given->q, given, &made->q, &q, error) ||
        !read_tensor("--k", given->k, given, &made->k, &k, error) ||
        !read_tensor("--v", given->v, given, &made->v, &v, error) || !sizes_fit(&q, &k, &v, error))
        goto fail;
    clattn_attention_desc_init(desc, q.batch, q.heads, k.heads, q.len, k.len, q.width, v.width);
    desc->dtype = (clattn_dtype)given->dtype;
    desc->scale = (float)given->scale;
    desc->softcap = (float)given->softcap;
    desc->causal = given->causal >= 0;
    desc->alignment = given->causal >= 0 ? (clattn_alignment)given->causal : CLATTN_BOTTOM_RIGHT;
    if (given->window.value) {
        desc->window_left = given->window.value[0];
        desc->window_right = given->window.value[1];
    }
    desc->lengths_q = given->lengths_q.value != NULL;
    desc->lengths_kv = given->lengths_kv.value != NULL;
    desc->lse = given->lse != NULL;
    desc->weights = given->weights ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
    desc->kernel = given->kernel;
    clattn_attention_call_init(desc, (clattn_layout)given->layout, call);
    if ((given->mask && !read_mask(given->mask, made, error)) ||
        (given->sinks && !read_sinks(given->sinks, made, error)))
        goto fail;
    if ((desc->lengths_q &&
         !read_lengths("--lengths-q", &given->lengths_q, q.batch, q.len, &made->lengths_q, error)) ||
        (desc->lengths_kv &&
         !read_lengths("--lengths-kv", &given->lengths_kv, q.batch, k.len, &made->lengths_kv, error)) ||
        !make_outputs(given, made, error))
        goto fail;
    call->q.host = made->q.data;
    call->k.host = made->k.data;
    call->v.host = made->v.data;
    call->lengths_q.host = made->lengths_q;
    call->lengths_kv.host = made->lengths_kv;
    call->out.host = made->out.data;
    call->lse.host = made->lse.data;
    call->weights.host = made->weights.data;
    return true;
fail:
    tool_problem_free(made);
    return false;
}

void tool_problem_free(tool_problem *problem)
{
    tool_array *arrays[] = { &problem->q,     &problem->k,   &problem->v,   &problem->mask,
                             &problem->sinks, &problem->out, &problem->lse, &problem->weights };
    for (size_t index = 0; index < sizeof arrays / sizeof arrays[0]; index++)
        tool_array_free(arrays[index]);
    free(problem->lengths_q);
    free(problem->lengths_kv);
    memset(problem, 0, sizeof *problem);
}

/* Keys [*first, *end) that causal, window and lengths leave to query `row`. Reaches are cut so that sums fit.
 */
static void visible_range(const tool_problem *problem, int64_t batch, int64_t row, int64_t *first,
                          int64_t *end)
{
    const clattn_attention_desc *desc = &problem->desc;
    int64_t len_q = problem->lengths_q ? problem->lengths_q[batch] : desc->len_q;
    int64_t len_kv = problem->lengths_kv ? problem->lengths_kv[batch] : desc->len_kv;
    int64_t level = row + (desc->alignment == CLATTN_BOTTOM_RIGHT ? len_kv - len_q : 0);
    *first = 0;
    *end = row < len_q ? len_kv : 0;
    if (desc->causal && level + 1 < *end)
        *end = level + 1;
    if (desc->window_left >= 0 && desc->window_left < INT32_MAX && level - desc->window_left > 0)
        *first = level - desc->window_left;
    if (desc->window_right >= 0 && desc->window_right < INT32_MAX && level + desc->window_right + 1 < *end)
        *end = level + desc->window_right + 1;
}

/* Those of the keys that the mask leaves to this row. */
static int64_t visible_in_mask(const tool_problem *problem, int64_t batch, int64_t head, int64_t row,
                               int64_t first, int64_t end)
{
    const clattn_attention_desc *desc = &problem->desc;
    const int64_t *stride = desc->keep ? problem->call.keep.stride : problem->call.bias.stride;
    int64_t begin = batch * stride[0] + head * stride[1] + row * stride[2], count = 0;
    for (int64_t key = first; key < end; key++) {
        int64_t at = begin + key * stride[3];
        count += desc->keep ? ((const uint8_t *)problem->mask.data)[at] != 0
                            : ((const float *)problem->mask.data)[at] != -INFINITY;
    }
    return count;
}

double tool_problem_visible_pairs(const tool_problem *problem)
{
    const clattn_attention_desc *desc = &problem->desc;
    bool masked = problem->mask.data != NULL;
    int64_t head_stride = desc->keep ? problem->call.keep.stride[1] : problem->call.bias.stride[1];
    double pairs = 0;
    if (desc->heads_q == 0)
        return 0;
    int64_t heads = masked && head_stride ? desc->heads_q : 1, alike = desc->heads_q / heads;
    for (int64_t batch = 0; batch < desc->batch; batch++) {
        for (int64_t row = 0; row < desc->len_q; row++) {
            int64_t first, end;
            visible_range(problem, batch, row, &first, &end);
            for (int64_t head = 0; head < heads && first < end; head++)
                pairs +=
                    (double)(masked ? visible_in_mask(problem, batch, head, row, first, end) : end - first);
        }
    }
    return pairs * (double)alike;
}
