/* tests/support/attention_case.c: builds the arrays of a case, fills them, and asks the oracle. */
#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ct_case_init(ct_case *c, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_kv,
                  int64_t d_qk, int64_t d_v)
{
    ct_subject("%s", "");
    memset(c, 0, sizeof *c);
    clattn_attention_desc_init(&c->desc, batch, heads_q, heads_kv, len_q, len_kv, d_qk, d_v);
    c->batch = batch;
    c->len_q = len_q;
    c->len_kv = len_kv;
    c->keep_share = 0.7;
    c->spread = 1;
    c->seed = 1;
    c->number = -1;
    for (int b = 0; b < CT_MAX_BATCH; b++)
        c->rows_q[b] = c->rows_kv[b] = -1;
}

/* Strides by form for (batch, heads, rows, columns); packed tensors have batch 1. */
static void lay(ct_form form, const int64_t extent[4], int64_t stride[4])
{
    switch (form) {
    case CT_FORM_BSHD:
    case CT_FORM_FUSED:
        stride[3] = 1;
        stride[1] = extent[3];
        stride[2] = extent[1] * extent[3];
        stride[0] = extent[2] * stride[2];
        break;
    case CT_FORM_LOOSE:
        stride[3] = 1;
        stride[2] = extent[3] + 3;
        stride[1] = extent[2] * stride[2] + 5;
        stride[0] = extent[1] * stride[1] + 7;
        break;
    default:
        ct_contiguous(extent, stride);
    }
}

static size_t start(const ct_case *c, ct_type type)
{
    return c->unaligned ? 64 + 3 * ct_type_bytes(type) : 64;
}

static void make_fused(ct_case *c, const int64_t q[4], const int64_t k[4], const int64_t v[4])
{
    ct_type type = ct_type_of(c->desc.dtype);
    int64_t width = q[1] * q[3] + k[1] * k[3] + v[1] * v[3];
    int64_t rows = q[2] > k[2] ? q[2] : k[2];
    int64_t block[4] = { q[0], 1, rows, width };
    int64_t stride[4] = { rows * width, q[3], width, 1 };
    size_t at = start(c, type);
    ct_array_make(&c->q, type, block, (int64_t[4]){ rows * width, 0, width, 1 }, at);
    memcpy(c->q.extent, q, sizeof c->q.extent);
    memcpy(c->q.stride, stride, sizeof c->q.stride);
    stride[1] = k[3];
    at += (size_t)(q[1] * q[3]) * ct_type_bytes(type);
    ct_array_share(&c->k, &c->q, k, stride, at);
    stride[1] = v[3];
    at += (size_t)(k[1] * k[3]) * ct_type_bytes(type);
    ct_array_share(&c->v, &c->q, v, stride, at);
}

static void make_qkv(ct_case *c, int64_t batch, int64_t rows_q, int64_t rows_kv)
{
    const clattn_attention_desc *desc = &c->desc;
    ct_type type = ct_type_of(desc->dtype);
    int64_t q[4] = { batch, desc->heads_q, rows_q, desc->d_qk };
    int64_t k[4] = { batch, desc->heads_kv, rows_kv, desc->d_qk };
    int64_t v[4] = { batch, desc->heads_kv, rows_kv, desc->d_v };
    int64_t out[4] = { batch, desc->heads_q, rows_q, desc->d_v };
    int64_t stride[4];
    lay(c->form, out, stride);
    ct_array_make(&c->out, type, out, stride, start(c, type));
    if (c->form == CT_FORM_FUSED) {
        make_fused(c, q, k, v);
        return;
    }
    lay(c->form, q, stride);
    ct_array_make(&c->q, type, q, stride, start(c, type));
    lay(c->form, k, stride);
    if (c->form == CT_FORM_REPEATED)
        stride[0] = stride[1] = 0;
    ct_array_make(&c->k, type, k, stride, start(c, type));
    lay(c->form, v, stride);
    if (c->form == CT_FORM_REPEATED)
        stride[0] = 0;
    ct_array_make(&c->v, type, v, stride, start(c, type));
}

/* A mask whose axes are 1 or full; axes of 1 get stride 0. */
static void make_mask(ct_case *c, ct_array *mask, ct_type type, const int64_t asked[4])
{
    int64_t full[4] = { c->batch, c->desc.heads_q, c->len_q, c->len_kv };
    int64_t stored[4];
    int64_t stride[4];
    for (int axis = 0; axis < 4; axis++)
        stored[axis] = asked[axis] == 1 ? 1 : full[axis];
    lay(c->form == CT_FORM_LOOSE ? CT_FORM_LOOSE : CT_FORM_BHSD, stored, stride);
    for (int axis = 0; axis < 4; axis++)
        if (asked[axis] == 1)
            stride[axis] = 0;
    ct_array_make(mask, type, full, stride, start(c, type));
}

static void make_list(ct_array *list, ct_type type, int64_t count)
{
    int64_t extent[4] = { 1, 1, 1, count };
    int64_t stride[4];
    ct_contiguous(extent, stride);
    ct_array_make(list, type, extent, stride, 64);
}

/* Rows of each sequence to lists; returns their sum. */
static int64_t make_rows(ct_case *c, ct_random *random, const int32_t *rows, int64_t most, ct_array *lengths,
                         ct_array *cu)
{
    int64_t total = 0;
    assert_true(c->batch <= CT_MAX_BATCH);
    if (lengths)
        make_list(lengths, CT_I32, c->batch);
    if (cu) {
        make_list(cu, CT_I32, c->batch + 1);
        ct_array_set(cu, 0, 0, 0, 0, 0);
    }
    for (int64_t b = 0; b < c->batch; b++) {
        int64_t n = rows[b] >= 0 ? rows[b] : ct_random_int(random, 0, most);
        assert_true(n <= most);
        total += n;
        if (lengths)
            ct_array_set(lengths, 0, 0, 0, b, (double)n);
        if (cu)
            ct_array_set(cu, 0, 0, 0, b + 1, (double)total);
    }
    return total;
}

static void fill_normal(ct_array *array, ct_random *random, double spread)
{
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t d = 0; d < array->extent[3]; d++)
                    ct_array_set(array, b, h, r, d, spread * ct_random_normal(random));
}

static void fill_masks(ct_case *c, ct_random *random)
{
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->desc.heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++)
                for (int64_t j = 0; j < c->len_kv; j++) {
                    double dice = (double)ct_random_int(random, 0, 999999) * 1e-6;
                    if (c->desc.keep)
                        ct_array_set(&c->keep, b, h, i, j,
                                     dice < c->keep_share ? (double)ct_random_int(random, 1, 255) : 0);
                    dice = (double)ct_random_int(random, 0, 999999) * 1e-6;
                    if (c->desc.bias)
                        ct_array_set(&c->bias, b, h, i, j,
                                     dice < c->hidden_bias_share ? -HUGE_VAL : ct_random_normal(random));
                }
}

void ct_case_fill(ct_case *c)
{
    const clattn_attention_desc *desc = &c->desc;
    ct_random random = ct_random_from(c->seed);
    bool packed = desc->packed;
    int64_t total_q = c->len_q;
    int64_t total_kv = c->len_kv;
    if (packed || desc->lengths_q)
        total_q = make_rows(c, &random, c->rows_q, c->len_q, desc->lengths_q ? &c->lengths_q : NULL,
                            packed ? &c->cu_q : NULL);
    if (packed || desc->lengths_kv)
        total_kv = make_rows(c, &random, c->rows_kv, c->len_kv, desc->lengths_kv ? &c->lengths_kv : NULL,
                             packed ? &c->cu_kv : NULL);
    make_qkv(c, packed ? 1 : c->batch, packed ? total_q : c->len_q, packed ? total_kv : c->len_kv);
    fill_normal(&c->q, &random, c->spread);
    fill_normal(&c->k, &random, c->spread);
    fill_normal(&c->v, &random, 1);
    if (desc->keep)
        make_mask(c, &c->keep, CT_U8, c->keep_extent);
    if (desc->bias)
        make_mask(c, &c->bias, ct_type_of(desc->bias_dtype), c->bias_extent);
    fill_masks(c, &random);
    if (desc->sinks) {
        make_list(&c->sinks, CT_F32, desc->heads_q);
        fill_normal(&c->sinks, &random, 1);
    }
    if (desc->lse) {
        int64_t extent[4] = { packed ? 1 : c->batch, desc->heads_q, packed ? total_q : c->len_q, 1 };
        int64_t stride[4];
        lay(c->form == CT_FORM_LOOSE ? CT_FORM_LOOSE : CT_FORM_BHSD, extent, stride);
        ct_array_make(&c->lse, CT_F32, extent, stride, start(c, CT_F32));
    }
    if (desc->weights != CLATTN_WEIGHTS_NONE) {
        int64_t heads = desc->weights == CLATTN_WEIGHTS_MEAN ? 1 : desc->heads_q;
        int64_t extent[4] = { c->batch, heads, c->len_q, c->len_kv };
        int64_t stride[4];
        lay(c->form == CT_FORM_LOOSE ? CT_FORM_LOOSE : CT_FORM_BHSD, extent, stride);
        ct_array_make(&c->weights, CT_F32, extent, stride, start(c, CT_F32));
    }
}

void ct_case_free(ct_case *c)
{
    ct_array *arrays[] = { &c->k,          &c->v,    &c->q,     &c->keep, &c->bias, &c->sinks,  &c->lengths_q,
                           &c->lengths_kv, &c->cu_q, &c->cu_kv, &c->out,  &c->lse,  &c->weights };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        ct_array_free(arrays[i]);
    free(c->want_out);
    free(c->want_lse);
    free(c->want_weights);
    c->want_out = c->want_lse = c->want_weights = NULL;
}

void ct_case_go(ct_case *c)
{
    ct_case_fill(c);
    ct_case_check(c);
    ct_case_free(c);
}

/* ---- The oracle's view: everything decoded to contiguous floats
 * -------------------------------------------- */

static ref_view decode(const ct_array *array)
{
    ref_view view = { 0 };
    if (array->type == CT_NONE)
        return view;
    float *data = ct_alloc((size_t)ct_array_elements(array) * sizeof *data);
    int64_t index = 0;
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t d = 0; d < array->extent[3]; d++)
                    data[index++] = (float)ct_array_get(array, b, h, r, d);
    ct_contiguous(array->extent, view.stride);
    view.data = data;
    return view;
}

static const int32_t *list(const ct_array *array)
{
    return array->type == CT_NONE ? NULL
                                  : (const int32_t *)(const void *)(array->memory + array->offset_bytes);
}

void ct_case_problem(const ct_case *c, ref_attention *problem)
{
    const clattn_attention_desc *desc = &c->desc;
    memset(problem, 0, sizeof *problem);
    problem->batch = c->batch;
    problem->heads_q = desc->heads_q;
    problem->heads_kv = desc->heads_kv;
    problem->len_q = c->len_q;
    problem->len_kv = c->len_kv;
    problem->d_qk = desc->d_qk;
    problem->d_v = desc->d_v;
    problem->scale = desc->scale;
    problem->softcap = desc->softcap;
    problem->causal = desc->causal;
    problem->top_left = desc->alignment == CLATTN_TOP_LEFT;
    problem->window_left = desc->window_left;
    problem->window_right = desc->window_right;
    problem->lengths_q = list(&c->lengths_q);
    problem->lengths_kv = list(&c->lengths_kv);
    problem->cu_q = list(&c->cu_q);
    problem->cu_kv = list(&c->cu_kv);
    problem->mean_weights = desc->weights == CLATTN_WEIGHTS_MEAN;
    if (desc->keep) {
        problem->keep = c->keep.memory + c->keep.offset_bytes;
        memcpy(problem->keep_stride, c->keep.stride, sizeof problem->keep_stride);
    }
    problem->q = decode(&c->q);
    problem->k = decode(&c->k);
    problem->v = decode(&c->v);
    problem->bias = decode(&c->bias);
    problem->sinks = decode(&c->sinks).data;
}

static void drop_problem(ref_attention *problem)
{
    const float *decoded[] = { problem->q.data, problem->k.data, problem->v.data, problem->bias.data,
                               problem->sinks };
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++)
        free((void *)(uintptr_t)decoded[i]);
}

/* Hidden keys, values and biases, and queries that are padding, become NaN: nothing may read them into a
 * result. */
static void poison_hidden(ct_case *c, const ref_attention *problem)
{
    const clattn_attention_desc *desc = &c->desc;
    bool full_bias =
        desc->bias && c->bias.stride[0] && c->bias.stride[1] && c->bias.stride[2] && c->bias.stride[3];
    int64_t group = desc->heads_kv ? desc->heads_q / desc->heads_kv : 1;
    ref_attention predicates = *problem;
    predicates.bias.data = NULL;
    if (c->form == CT_FORM_REPEATED || desc->packed)
        return;
    for (int64_t b = 0; b < c->batch; b++) {
        for (int64_t h = 0; h < desc->heads_kv; h++)
            for (int64_t j = 0; j < c->len_kv; j++) {
                bool seen = false;
                for (int64_t n = 0; n < group && !seen; n++)
                    for (int64_t i = 0; i < c->len_q && !seen; i++)
                        seen = ref_visible(problem, b, h * group + n, i, j);
                for (int64_t d = 0; !seen && d < desc->d_qk; d++)
                    ct_array_set(&c->k, b, h, j, d, (double)NAN);
                for (int64_t d = 0; !seen && d < desc->d_v; d++)
                    ct_array_set(&c->v, b, h, j, d, (double)NAN);
            }
        for (int64_t h = 0; h < desc->heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++) {
                for (int64_t d = 0; i >= ref_rows_q(problem, b) && d < desc->d_qk; d++)
                    ct_array_set(&c->q, b, h, i, d, (double)NAN);
                for (int64_t j = 0; full_bias && j < c->len_kv; j++)
                    if (!ref_visible(&predicates, b, h, i, j))
                        ct_array_set(&c->bias, b, h, i, j, (double)NAN);
            }
    }
}

void ct_case_expect(ct_case *c)
{
    ref_attention problem;
    size_t rows = (size_t)(c->batch * c->desc.heads_q * c->len_q);
    free(c->want_out);
    free(c->want_lse);
    free(c->want_weights);
    c->want_out = ct_alloc(rows * (size_t)c->desc.d_v * sizeof(double));
    c->want_lse = ct_alloc(rows * sizeof(double));
    c->want_weights = ct_alloc(rows * (size_t)c->len_kv * sizeof(double));
    ct_case_problem(c, &problem);
    if (!c->no_poison) {
        poison_hidden(c, &problem);
        drop_problem(&problem);
        ct_case_problem(c, &problem);
    }
    assert_true(ref_attention_run(&problem, c->want_out, c->want_lse,
                                  c->desc.weights == CLATTN_WEIGHTS_NONE ? NULL : c->want_weights));
    drop_problem(&problem);
}

double ct_case_want(const ct_case *c, int64_t b, int64_t h, int64_t i, int64_t d)
{
    return c->want_out[((b * c->desc.heads_q + h) * c->len_q + i) * c->desc.d_v + d];
}

static void known(const char *name, const double *got, const double *want, int64_t count)
{
    for (int64_t n = 0; n < count; n++)
        if (!(got[n] == want[n] || fabs(got[n] - want[n]) <= 1e-6))
            ct_fail("the oracle's %s[%lld] is %.9g instead of %.9g", name, (long long)n, got[n], want[n]);
}

void ct_case_known_out(const ct_case *c, const double *values)
{
    known("out", c->want_out, values, c->batch * c->desc.heads_q * c->len_q * c->desc.d_v);
}

void ct_case_known_lse(const ct_case *c, const double *values)
{
    known("lse", c->want_lse, values, c->batch * c->desc.heads_q * c->len_q);
}
