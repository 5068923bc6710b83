/* tests/nn/test_mha_module.c: the multi-head attention module against the same in double, through both faces;
 * its masks in every kind, weights in every form, unequal heads, PyTorch's numbers for a real layer, and what
 * it refuses. */
#include "support/harness.h"

#include "files/load.h"
#include "support/array.h"
#include "support/cl_shim.h"
#include "support/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROJECTIONS = 3, MOST_HEADS = 8 };

/* How the weights come. */
typedef enum weight_form { PACKED, APART, APART_PACKED_BIAS } weight_form;

/* Which of query, key and value are one tensor. */
typedef enum sharing { SELF, CROSS, THREE, QUERY_IS_KEY } sharing;

typedef struct mha_case {
    clattn_mha_desc desc;
    int64_t sizes[MOST_HEADS];    /* of the heads; 0: equal */
    int64_t batch, len_q, len_kv; /* of the call */
    sharing sharing;
    weight_form form;
    bool no_bias, loose, hide_row; /* hide_row: a query that sees nothing */
    clattn_dtype weight_dtype;
    int64_t mask_extent[4];
    ct_array query, key, value, padding, mask, out, attention;
    ct_array w[PROJECTIONS], b[PROJECTIONS], wo, bo;
    double *want_out, *want_attention;
} mha_case;

static mha_case start(int64_t batch, int64_t len_q, int64_t len_kv, int64_t embed_dim, int64_t heads)
{
    mha_case m = { .batch = batch, .len_q = len_q, .len_kv = len_kv };
    clattn_mha_desc_init(&m.desc, batch, len_q, len_kv, embed_dim, heads);
    const int64_t full[4] = { 1, 1, len_q, len_kv };
    memcpy(m.mask_extent, full, sizeof full);
    return m;
}

/* ---- Data
 * ---------------------------------------------------------------------------------------------------- */

static void make(ct_array *array, ct_type type, int64_t b, int64_t h, int64_t r, int64_t c, bool loose)
{
    const int64_t extent[4] = { b, h, r, c };
    int64_t stride[4];
    ct_contiguous(extent, stride);
    if (loose) {
        stride[2] = c + 3;
        stride[1] = r * stride[2] + 2;
        stride[0] = h * stride[1] + 5;
    }
    ct_array_make(array, type, extent, stride, loose ? 4 * ct_type_bytes(type) : 0);
}

static void fill(ct_array *array, ct_random *random, double scale)
{
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t c = 0; c < array->extent[3]; c++)
                    ct_array_set(array, b, h, r, c, scale * ct_random_normal(random));
}

static bool attends(double value, clattn_mask_kind kind)
{
    return (value != 0) == (kind == CLATTN_MASK_KEEP);
}

/* A boolean mask with about a third hidden, any byte that is not 0 for true; column 0 stays visible. */
static void fill_mask(ct_array *array, ct_random *random, clattn_mask_kind kind)
{
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t c = 0; c < array->extent[3]; c++) {
                    const bool visible = c == 0 || ct_random_int(random, 0, 2) > 0;
                    ct_array_set(array, b, h, r, c,
                                 visible == (kind == CLATTN_MASK_KEEP) ? (double)ct_random_int(random, 1, 255)
                                                                       : 0);
                }
}

static void hide_row(mha_case *m)
{
    for (int64_t b = 0; b < m->mask.extent[0]; b++)
        for (int64_t h = 0; h < m->mask.extent[1]; h++)
            for (int64_t c = 0; c < m->mask.extent[3]; c++)
                ct_array_set(&m->mask, b, h, m->mask.extent[2] - 1, c,
                             m->desc.attn_mask == CLATTN_MASK_ADD    ? -HUGE_VAL
                             : m->desc.attn_mask == CLATTN_MASK_DROP ? 1
                                                                     : 0);
}

static int64_t width_of(const mha_case *m, int projection)
{
    return projection == 0 ? m->desc.embed_dim : projection == 1 ? m->desc.kdim : m->desc.vdim;
}

static void make_data(mha_case *m)
{
    const clattn_mha_desc *d = &m->desc;
    const int64_t e = d->embed_dim;
    const ct_type type = ct_type_of(d->dtype), weight_type = ct_type_of(m->weight_dtype);
    ct_random random = ct_random_from(7919);
    make(&m->query, type, m->batch, 1, m->len_q, e, m->loose);
    fill(&m->query, &random, 1);
    if (m->sharing == CROSS || m->sharing == THREE) {
        make(&m->key, type, m->batch, 1, m->len_kv, d->kdim, m->loose);
        fill(&m->key, &random, 1);
    }
    if (m->sharing == THREE || m->sharing == QUERY_IS_KEY) {
        make(&m->value, type, m->batch, 1, m->len_kv, d->vdim, m->loose);
        fill(&m->value, &random, 1);
    }
    if (d->key_padding != CLATTN_MASK_NONE) {
        make(&m->padding, CT_U8, m->batch, 1, 1, m->len_kv, m->loose);
        fill_mask(&m->padding, &random, d->key_padding);
    }
    if (d->attn_mask != CLATTN_MASK_NONE) {
        const int64_t *x = m->mask_extent;
        make(&m->mask, d->attn_mask == CLATTN_MASK_ADD ? CT_F32 : CT_U8, x[0], x[1], x[2], x[3], m->loose);
        if (d->attn_mask == CLATTN_MASK_ADD)
            fill(&m->mask, &random, 1);
        else
            fill_mask(&m->mask, &random, d->attn_mask);
        if (m->hide_row)
            hide_row(m);
    }
    make(&m->out, type, m->batch, 1, m->len_q, e, m->loose);
    if (d->weights != CLATTN_WEIGHTS_NONE)
        make(&m->attention, CT_F32, m->batch, d->weights == CLATTN_WEIGHTS_MEAN ? 1 : d->heads, m->len_q,
             m->len_kv, m->loose);
    for (int i = 0; i < PROJECTIONS; i++) {
        make(&m->w[i], weight_type, 1, 1, e, width_of(m, i), false);
        make(&m->b[i], weight_type, 1, 1, 1, e, false);
        fill(&m->w[i], &random, 1 / sqrt((double)width_of(m, i)));
        fill(&m->b[i], &random, m->no_bias ? 0 : 0.5);
    }
    make(&m->wo, weight_type, 1, 1, e, e, false);
    make(&m->bo, weight_type, 1, 1, 1, e, false);
    fill(&m->wo, &random, 1 / sqrt((double)e));
    fill(&m->bo, &random, m->no_bias ? 0 : 0.5);
}

static const ct_array *input_of(const mha_case *m, int projection)
{
    const ct_array *key = m->sharing == CROSS || m->sharing == THREE ? &m->key : &m->query;
    const ct_array *value = m->sharing == THREE || m->sharing == QUERY_IS_KEY ? &m->value : key;
    return projection == 0 ? &m->query : projection == 1 ? key : value;
}

static void free_data(mha_case *m)
{
    ct_array *arrays[] = { &m->query, &m->key,       &m->value, &m->padding, &m->mask,
                           &m->out,   &m->attention, &m->w[0],  &m->w[1],    &m->w[2],
                           &m->b[0],  &m->b[1],      &m->b[2],  &m->wo,      &m->bo };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i]->type != CT_NONE) {
            ct_array_release_buffer(arrays[i]);
            ct_array_free(arrays[i]);
        }
    free(m->want_out);
    free(m->want_attention);
}

/* ---- The same in double
 * -------------------------------------------------------------------------------------- */

static double linear(const ct_array *x, int64_t b, int64_t r, const ct_array *w, const ct_array *bias,
                     int64_t column)
{
    double sum = ct_array_get(bias, 0, 0, 0, column);
    for (int64_t c = 0; c < x->extent[3]; c++)
        sum += ct_array_get(x, b, 0, r, c) * ct_array_get(w, 0, 0, column, c);
    return sum;
}

static double *project(const mha_case *m, int i, int64_t rows)
{
    const int64_t e = m->desc.embed_dim;
    double *y = ct_alloc((size_t)(m->batch * rows * e + 1) * sizeof *y);
    for (int64_t b = 0; b < m->batch; b++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < e; c++)
                y[(b * rows + r) * e + c] = linear(input_of(m, i), b, r, &m->w[i], &m->b[i], c);
    return y;
}

static double mask_at(const ct_array *mask, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *x = mask->extent;
    return ct_array_get(mask, x[0] == 1 ? 0 : b, x[1] == 1 ? 0 : h, x[2] == 1 ? 0 : i, x[3] == 1 ? 0 : j);
}

/* The score's addition, -infinity when the key is hidden. */
static double masked(const mha_case *m, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const clattn_mha_desc *d = &m->desc;
    const int64_t level = i + (d->alignment == CLATTN_TOP_LEFT ? 0 : m->len_kv - m->len_q);
    if (d->causal && j > level)
        return -HUGE_VAL;
    if (d->key_padding != CLATTN_MASK_NONE && !attends(ct_array_get(&m->padding, b, 0, 0, j), d->key_padding))
        return -HUGE_VAL;
    if (d->attn_mask == CLATTN_MASK_NONE)
        return 0;
    const double value = mask_at(&m->mask, b, h, i, j);
    if (d->attn_mask == CLATTN_MASK_ADD)
        return value;
    return attends(value, d->attn_mask) ? 0 : -HUGE_VAL;
}

static void softmax(double *s, int64_t count)
{
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < count; j++)
        largest = fmax(largest, s[j]);
    for (int64_t j = 0; j < count; j++) {
        s[j] = largest == -HUGE_VAL ? 0 : exp(s[j] - largest);
        sum += s[j];
    }
    for (int64_t j = 0; j < count && sum > 0; j++)
        s[j] /= sum;
}

static void expect(mha_case *m)
{
    const clattn_mha_desc *d = &m->desc;
    const int64_t e = d->embed_dim, n = m->len_kv;
    const bool mean = d->weights == CLATTN_WEIGHTS_MEAN;
    double *q = project(m, 0, m->len_q), *k = project(m, 1, n), *v = project(m, 2, n);
    double *joined = ct_alloc((size_t)(e + 1) * sizeof *joined), *s = ct_alloc((size_t)(n + 1) * sizeof *s);
    m->want_out = ct_alloc((size_t)(m->batch * m->len_q * e + 1) * sizeof(double));
    m->want_attention = ct_alloc((size_t)(m->batch * d->heads * m->len_q * n + 1) * sizeof(double));
    for (int64_t b = 0; b < m->batch; b++)
        for (int64_t i = 0; i < m->len_q; i++) {
            for (int64_t h = 0, first = 0, size; h < d->heads; h++, first += size) {
                size = m->sizes[0] ? m->sizes[h] : e / d->heads;
                for (int64_t j = 0; j < n; j++) {
                    s[j] = 0;
                    for (int64_t c = first; c < first + size; c++)
                        s[j] += q[(b * m->len_q + i) * e + c] * k[(b * n + j) * e + c];
                    s[j] = s[j] / sqrt((double)size) + masked(m, b, h, i, j);
                }
                softmax(s, n);
                for (int64_t c = first; c < first + size; c++) {
                    joined[c] = 0;
                    for (int64_t j = 0; j < n; j++)
                        joined[c] += s[j] * v[(b * n + j) * e + c];
                }
                for (int64_t j = 0; j < n; j++)
                    m->want_attention[((b * (mean ? 1 : d->heads) + (mean ? 0 : h)) * m->len_q + i) * n +
                                      j] += mean ? s[j] / (double)d->heads : s[j];
            }
            for (int64_t c = 0; c < e; c++) {
                double sum = ct_array_get(&m->bo, 0, 0, 0, c);
                for (int64_t x = 0; x < e; x++)
                    sum += joined[x] * ct_array_get(&m->wo, 0, 0, c, x);
                m->want_out[(b * m->len_q + i) * e + c] = sum;
            }
        }
    free(q);
    free(k);
    free(v);
    free(joined);
    free(s);
}

/* ---- Runs
 * ---------------------------------------------------------------------------------------------------- */

/* One block of memory for what comes packed. */
static void *pack(const ct_array *parts, size_t bytes)
{
    unsigned char *packed = ct_alloc(PROJECTIONS * bytes + 1);
    for (int i = 0; i < PROJECTIONS; i++)
        memcpy(packed + (size_t)i * bytes, parts[i].memory, bytes);
    return packed;
}

static clattn_mha *create(mha_case *m)
{
    const size_t e = (size_t)m->desc.embed_dim, bytes = clattn_dtype_bytes(m->weight_dtype);
    clattn_mha_weights w = { .dtype = m->weight_dtype, .out_proj_weight = m->wo.memory };
    void *packed_weight = NULL, *packed_bias = NULL;
    if (m->form == PACKED) {
        w.in_proj_weight = packed_weight = pack(m->w, e * e * bytes);
    } else {
        w.q_proj_weight = m->w[0].memory;
        w.k_proj_weight = m->w[1].memory;
        w.v_proj_weight = m->w[2].memory;
    }
    if (!m->no_bias) {
        w.out_proj_bias = m->bo.memory;
        if (m->form == APART) {
            w.q_proj_bias = m->b[0].memory;
            w.k_proj_bias = m->b[1].memory;
            w.v_proj_bias = m->b[2].memory;
        } else {
            w.in_proj_bias = packed_bias = pack(m->b, e * bytes);
        }
    }
    m->desc.head_sizes = m->sizes[0] ? m->sizes : NULL;
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &m->desc, &w, &mha));
    free(packed_weight);
    free(packed_bias);
    return mha;
}

static clattn_mha_call call_of(const mha_case *m)
{
    clattn_mha_call call;
    clattn_mha_call_init(&m->desc, &call);
    call.batch = m->batch;
    call.len_q = m->len_q;
    call.len_kv = m->len_kv;
    call.query = ct_array_input(input_of(m, 0));
    call.key = ct_array_input(input_of(m, 1));
    call.value = ct_array_input(input_of(m, 2));
    call.out = ct_array_output(&m->out);
    call.key_padding = ct_array_input(&m->padding);
    call.attn_mask = ct_array_input(&m->mask);
    call.attention = ct_array_output(&m->attention);
    for (int axis = 0; axis < 4; axis++)
        if (m->mask_extent[axis] == 1)
            call.attn_mask.stride[axis] = 0;
    return call;
}

static void check_outputs(const mha_case *m, const char *face)
{
    ct_expect(&m->out, m->want_out, face);
    ct_array_check_canaries(&m->out, face);
    if (m->desc.weights != CLATTN_WEIGHTS_NONE) {
        ct_expect(&m->attention, m->want_attention, face);
        ct_array_check_canaries(&m->attention, face);
    }
}

static void poison_outputs(mha_case *m)
{
    ct_array_poison(&m->out);
    if (m->desc.weights != CLATTN_WEIGHTS_NONE)
        ct_array_poison(&m->attention);
}

/* Makes the data, computes what is wanted, runs both faces and frees everything. */
static void check(mha_case m)
{
    make_data(&m);
    expect(&m);
    clattn_mha *mha = create(&m);
    clattn_mha_call call = call_of(&m);
    ct_ok(clattn_mha_run(mha, &call));
    check_outputs(&m, "host arrays");

    poison_outputs(&m);
    ct_array *inputs[] = { &m.query, &m.key, &m.value, &m.padding, &m.mask };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (inputs[i]->type != CT_NONE)
            ct_array_upload(inputs[i], CL_MEM_READ_ONLY);
    ct_array_upload(&m.out, CL_MEM_READ_WRITE);
    if (m.attention.type != CT_NONE)
        ct_array_upload(&m.attention, CL_MEM_READ_WRITE);
    call = call_of(&m);
    cl_event done = NULL;
    ct_ok(clattn_mha_enqueue(mha, ct_queue(), &call, 0, NULL, &done));
    ct_cl_ok(clWaitForEvents(1, &done));
    ct_cl_ok(clReleaseEvent(done));
    ct_array_download(&m.out);
    if (m.attention.type != CT_NONE)
        ct_array_download(&m.attention);
    check_outputs(&m, "buffers");
    clattn_mha_destroy(mha);
    free_data(&m);
}

/* ---- Tests: results
 * ------------------------------------------------------------------------------------------ */

static void gives_the_known_answer(void **state)
{
    (void)state;
    const float in[] = { 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 }, out[] = { 2, 0, 0, 2 }, bias[] = { 1, 1 };
    const float x[] = { 1, 0, 0, 1 };
    const double want[] = { 2.3395231, 1.6604769, 1.6604769, 2.3395231 };
    float result[4] = { 0 };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 1, 2, 2, 2, 1);
    const clattn_mha_weights w = { .in_proj_weight = in, .out_proj_weight = out, .out_proj_bias = bias };
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    clattn_mha_call call;
    clattn_mha_call_init(&desc, &call);
    call.query.host = call.key.host = call.value.host = x;
    call.out.host = result;
    ct_ok(clattn_mha_run(mha, &call));
    for (int i = 0; i < 4; i++)
        assert_true(fabs(result[i] - want[i]) < 1e-6);
    clattn_mha_destroy(mha);
}

static void self_attention(void **state)
{
    (void)state;
    check(start(2, 5, 5, 24, 3));
}

static void cross_attention_with_other_widths(void **state)
{
    (void)state;
    mha_case m = start(2, 4, 7, 16, 2);
    m.desc.kdim = 10;
    m.desc.vdim = 21;
    m.sharing = THREE;
    m.form = APART;
    check(m);
    m.form = APART_PACKED_BIAS;
    check(m);
}

static void tensors_may_be_shared_in_any_way(void **state)
{
    (void)state;
    mha_case m = start(2, 4, 7, 16, 2);
    m.sharing = CROSS;
    check(m);
    m = start(2, 6, 6, 16, 2);
    m.sharing = QUERY_IS_KEY;
    check(m);
    m.sharing = THREE;
    check(m);
}

static void weights_packed_and_apart_give_the_same(void **state)
{
    (void)state;
    mha_case m = start(2, 5, 5, 16, 4);
    m.form = PACKED;
    check(m);
    m.form = APART;
    check(m);
    m.form = APART_PACKED_BIAS;
    check(m);
}

static void biases_may_be_missing(void **state)
{
    (void)state;
    mha_case m = start(2, 5, 5, 16, 4);
    m.no_bias = true;
    check(m);
}

static void strides_and_offsets_are_free(void **state)
{
    (void)state;
    mha_case m = start(3, 5, 6, 16, 2);
    m.loose = true;
    m.sharing = THREE;
    m.desc.weights = CLATTN_WEIGHTS_FULL;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_ADD;
    check(m);
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.mask_extent[0] = 3;
    check(m);
}

static void storage_may_be_16_bits(void **state)
{
    (void)state;
    for (int dtype = CLATTN_F16; dtype <= CLATTN_BF16; dtype++) {
        mha_case m = start(2, 5, 5, 24, 3);
        m.desc.dtype = (clattn_dtype)dtype;
        m.weight_dtype = (clattn_dtype)dtype;
        m.loose = true;
        check(m);
        m.sharing = THREE;
        m.desc.weights = CLATTN_WEIGHTS_MEAN;
        check(m);
    }
}

static void a_call_may_be_smaller_than_the_description(void **state)
{
    (void)state;
    mha_case m = start(3, 6, 8, 16, 2);
    m.batch = 2;
    m.len_q = 1;
    m.len_kv = 5;
    m.sharing = CROSS;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.weights = CLATTN_WEIGHTS_FULL;
    check(m);
    m.desc.dtype = CLATTN_F16;
    check(m);
}

static void masks_of_every_kind_apply_together(void **state)
{
    (void)state;
    static const int64_t extents[][4] = { { 1, 1, 4, 6 }, { 2, 3, 4, 6 }, { 1, 3, 4, 6 }, { 2, 1, 1, 6 } };
    for (int padding = CLATTN_MASK_NONE; padding <= CLATTN_MASK_DROP; padding++)
        for (int mask = CLATTN_MASK_NONE; mask <= CLATTN_MASK_ADD; mask++)
            for (size_t i = 0; i < (size_t)ct_by_size(2, 4, 4) && (i == 0 || mask != CLATTN_MASK_NONE); i++) {
                mha_case m = start(2, 4, 6, 12, 3);
                m.sharing = CROSS;
                m.desc.key_padding = (clattn_mask_kind)padding;
                m.desc.attn_mask = (clattn_mask_kind)mask;
                m.desc.weights = CLATTN_WEIGHTS_FULL;
                m.hide_row = extents[i][2] > 1;
                memcpy(m.mask_extent, extents[i], sizeof m.mask_extent);
                check(m);
            }
}

static void causal_goes_with_the_masks(void **state)
{
    (void)state;
    for (int alignment = CLATTN_BOTTOM_RIGHT; alignment <= CLATTN_TOP_LEFT; alignment++) {
        mha_case m = start(2, 4, 6, 12, 3);
        m.sharing = CROSS;
        m.desc.causal = true;
        m.desc.alignment = (clattn_alignment)alignment;
        m.desc.key_padding = CLATTN_MASK_DROP;
        m.desc.weights = CLATTN_WEIGHTS_MEAN;
        check(m);
    }
}

static void heads_may_be_unequal(void **state)
{
    (void)state;
    static const clattn_weights weights[] = { CLATTN_WEIGHTS_NONE, CLATTN_WEIGHTS_FULL, CLATTN_WEIGHTS_MEAN };
    for (size_t i = 0; i < 3; i++) {
        mha_case m = start(2, 5, 5, 8, 3);
        m.sizes[0] = m.sizes[1] = 3;
        m.sizes[2] = 2;
        m.desc.weights = weights[i];
        check(m);
        m.desc.attn_mask = CLATTN_MASK_DROP;
        m.desc.key_padding = CLATTN_MASK_KEEP;
        const int64_t extent[4] = { 2, 3, 5, 5 };
        memcpy(m.mask_extent, extent, sizeof extent);
        m.loose = true;
        check(m);
        m.desc.attn_mask = CLATTN_MASK_ADD;
        check(m);
    }
}

static void a_row_that_sees_nothing_gives_the_bias(void **state)
{
    (void)state;
    mha_case m = start(1, 3, 4, 8, 2);
    m.sharing = CROSS;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.hide_row = true;
    make_data(&m);
    expect(&m);
    for (int64_t c = 0; c < 8; c++)
        assert_true(m.want_out[2 * 8 + c] == ct_array_get(&m.bo, 0, 0, 0, c));
    free_data(&m);
    m.want_out = m.want_attention = NULL;
    check(m);
    m = start(2, 3, 0, 8, 2);
    m.sharing = CROSS;
    check(m);
}

static void empty_sizes_launch_nothing(void **state)
{
    (void)state;
    const mha_case cases[] = { start(0, 3, 4, 8, 2), start(2, 0, 4, 8, 2) };
    for (size_t i = 0; i < 2; i++) {
        mha_case m = cases[i];
        m.sharing = CROSS;
        check(m);
    }
}

static void matches_pytorch_on_a_real_layer(void **state)
{
    (void)state;
    static const char *const names[] = { "x",
                                         "key_padding",
                                         "expected",
                                         "expected_weights",
                                         "encoder.layer.0.attention.self.query.weight",
                                         "encoder.layer.0.attention.self.query.bias",
                                         "encoder.layer.0.attention.self.key.weight",
                                         "encoder.layer.0.attention.self.key.bias",
                                         "encoder.layer.0.attention.self.value.weight",
                                         "encoder.layer.0.attention.self.value.bias",
                                         "encoder.layer.0.attention.output.dense.weight",
                                         "encoder.layer.0.attention.output.dense.bias" };
    enum { X, PADDING, EXPECTED, EXPECTED_WEIGHTS, WQ, BQ, WK, BK, WV, BV, WO, BO, ARRAYS };
    tool_array a[ARRAYS];
    tool_error error;
    char where[1024];
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(where, sizeof where, "%s/minilm.safetensors:%s", CLATTN_TEST_DATA, names[i]);
        if (!tool_load(where, &a[i], &error))
            fail_msg("%s", error.text);
    }
    const int64_t batch = a[X].shape[0], len = a[X].shape[1], width = a[X].shape[2];
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, batch, len, len, width, 12);
    desc.key_padding = CLATTN_MASK_KEEP;
    desc.weights = CLATTN_WEIGHTS_FULL;
    const clattn_mha_weights w = { .q_proj_weight = a[WQ].data,
                                   .k_proj_weight = a[WK].data,
                                   .v_proj_weight = a[WV].data,
                                   .q_proj_bias = a[BQ].data,
                                   .k_proj_bias = a[BK].data,
                                   .v_proj_bias = a[BV].data,
                                   .out_proj_weight = a[WO].data,
                                   .out_proj_bias = a[BO].data };
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    unsigned char *keep = ct_alloc(a[PADDING].elements);
    for (size_t i = 0; i < a[PADDING].elements; i++)
        keep[i] = tool_array_get(&a[PADDING], i) != 0;
    ct_array out = { 0 }, weights = { 0 };
    make(&out, CT_F32, batch, 1, len, width, false);
    make(&weights, CT_F32, batch, 12, len, len, false);
    clattn_mha_call call;
    clattn_mha_call_init(&desc, &call);
    call.query.host = call.key.host = call.value.host = a[X].data;
    call.key_padding.host = keep;
    call.out = ct_array_output(&out);
    call.attention = ct_array_output(&weights);
    ct_ok(clattn_mha_run(mha, &call));
    double *want =
        ct_alloc(a[EXPECTED_WEIGHTS].elements * sizeof *want + a[EXPECTED].elements * sizeof *want);
    for (size_t i = 0; i < a[EXPECTED].elements; i++)
        want[i] = tool_array_get(&a[EXPECTED], i);
    ct_expect(&out, want, "out");
    for (size_t i = 0; i < a[EXPECTED_WEIGHTS].elements; i++)
        want[i] = tool_array_get(&a[EXPECTED_WEIGHTS], i);
    ct_expect(&weights, want, "weights");
    free(want);
    free(keep);
    ct_array_free(&out);
    ct_array_free(&weights);
    clattn_mha_destroy(mha);
    for (int i = 0; i < ARRAYS; i++)
        tool_array_free(&a[i]);
}

/* ---- Tests: the module as an object
 * -------------------------------------------------------------------------- */

static void info_names_kernel_and_gemm(void **state)
{
    (void)state;
    mha_case m = start(2, 5, 5, 8, 2);
    make_data(&m);
    clattn_mha *mha = create(&m);
    const clattn_attention_info info = clattn_mha_info(mha);
    assert_non_null(info.kernel);
    assert_non_null(info.gemm);
    assert_true(info.workspace_bytes >= 4 * 2 * (5 * 3 + 5) * 8);
    clattn_mha_destroy(mha);
    m.desc.kernel = clattn_kernel_name(clattn_kernel_count() - 1);
    mha = create(&m);
    assert_string_equal(clattn_mha_info(mha).kernel, m.desc.kernel);
    clattn_mha_destroy(mha);
    free_data(&m);
}

static void one_tensor_for_all_takes_one_product(void **state)
{
    (void)state;
    mha_case m = start(2, 6, 6, 16, 2);
    make_data(&m);
    clattn_mha *mha = create(&m);
    clattn_mha_call call = call_of(&m);
    long before = cl_shim_count().launches;
    ct_ok(clattn_mha_run(mha, &call));
    const long shared = cl_shim_count().launches - before;
    float *copy = ct_alloc(m.query.bytes);
    memcpy(copy, m.query.memory, m.query.bytes);
    call.key.host = call.value.host = copy;
    before = cl_shim_count().launches;
    ct_ok(clattn_mha_run(mha, &call));
    assert_true(cl_shim_count().launches - before > shared);
    free(copy);
    clattn_mha_destroy(mha);
    free_data(&m);
}

static void enqueue_makes_no_object_and_does_not_wait(void **state)
{
    (void)state;
    mha_case m = start(2, 6, 6, 16, 2);
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    make_data(&m);
    clattn_mha *mha = create(&m);
    ct_array *arrays[] = { &m.query, &m.padding, &m.mask, &m.out };
    for (int i = 0; i < 4; i++)
        ct_array_upload(arrays[i], CL_MEM_READ_WRITE);
    const clattn_mha_call call = call_of(&m);
    const cl_shim_counts before = cl_shim_count();
    ct_ok(clattn_mha_enqueue(mha, ct_queue(), &call, 0, NULL, NULL));
    const cl_shim_counts after = cl_shim_count();
    assert_int_equal(after.made[CL_SHIM_BUFFERS], before.made[CL_SHIM_BUFFERS]);
    assert_int_equal(after.made[CL_SHIM_KERNELS], before.made[CL_SHIM_KERNELS]);
    assert_int_equal(after.waits, before.waits);
    ct_cl_ok(clFinish(ct_queue()));
    clattn_mha_destroy(mha);
    free_data(&m);
}

static void leaves_no_objects_behind(void **state)
{
    (void)state;
    mha_case m = start(2, 5, 5, 8, 3);
    m.sizes[0] = m.sizes[1] = 3;
    m.sizes[2] = 2;
    m.desc.weights = CLATTN_WEIGHTS_MEAN;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.mask_extent[0] = 2;
    m.desc.dtype = CLATTN_F16;
    check(m); /* the programs stay in the context */
    const cl_shim_counts before = cl_shim_count();
    check(m);
    const cl_shim_counts after = cl_shim_count();
    if (!cl_shim_same_live(&before, &after))
        fail_msg("left behind: %s", cl_shim_live_text(&after));
}

static void a_failed_create_leaves_nothing_behind(void **state)
{
    (void)state;
    const float numbers[4 * 8 * 8] = { 0 };
    const clattn_mha_weights w = { .in_proj_weight = numbers, .out_proj_weight = numbers };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 1, 3, 3, 8, 2);
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    clattn_mha_destroy(mha);
    const cl_shim_counts before = cl_shim_count();
    for (long at = 1; at <= 4; at++) {
        cl_shim_fault.buffer_at = at;
        ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_OUT_OF_MEMORY, "clCreateBuffer");
        cl_shim_clear_faults();
        assert_null(mha);
        const cl_shim_counts after = cl_shim_count();
        assert_true(cl_shim_same_live(&before, &after));
    }
}

/* ---- Tests: what is refused
 * ---------------------------------------------------------------------------------- */

static void rejects_bad_descriptions(void **state)
{
    (void)state;
    const float numbers[4 * 24 * 24] = { 0 };
    const int64_t short_sum[] = { 8, 8, 7 }, zero[] = { 24, 0, 0 };
    const clattn_mha_weights w = { .in_proj_weight = numbers, .out_proj_weight = numbers };
    clattn_mha_desc good, d;
    clattn_mha_desc_init(&good, 2, 5, 5, 24, 3);
    clattn_mha *mha = NULL;
#define REJECTS(change, status, ...)                                                                         \
    do {                                                                                                     \
        d = good;                                                                                            \
        change;                                                                                              \
        ct_rejects(clattn_mha_create(ct_context(), &d, &w, &mha), status, __VA_ARGS__);                      \
        assert_null(mha);                                                                                    \
    } while (0)
    REJECTS(d.heads = 5; d.embed_dim = 384, CLATTN_INVALID_SHAPE, "heads 5", "embed_dim 384");
    REJECTS(d.head_sizes = short_sum, CLATTN_INVALID_SHAPE, "23", "24");
    REJECTS(d.head_sizes = zero, CLATTN_INVALID_ARGUMENT, "head_sizes[1]", "0");
    REJECTS(d.heads = 0, CLATTN_INVALID_ARGUMENT, "heads 0");
    REJECTS(d.embed_dim = 0, CLATTN_INVALID_ARGUMENT, "embed_dim 0");
    REJECTS(d.batch = -2, CLATTN_INVALID_ARGUMENT, "batch -2");
    REJECTS(d.len_kv = (int64_t)1 << 40, CLATTN_SIZE_OVERFLOW, "len_kv");
    REJECTS(d.kdim = 10, CLATTN_INVALID_SHAPE, "in_proj_weight", "kdim 10", "24");
    REJECTS(d.vdim = 10, CLATTN_INVALID_SHAPE, "in_proj_weight", "vdim 10", "24");
    REJECTS(d.dtype = (clattn_dtype)7, CLATTN_INVALID_ARGUMENT, "dtype 7");
    REJECTS(d.key_padding = CLATTN_MASK_ADD, CLATTN_INVALID_ARGUMENT, "key_padding");
    REJECTS(d.attn_mask = (clattn_mask_kind)8, CLATTN_INVALID_ARGUMENT, "attn_mask 8");
    REJECTS(d.alignment = (clattn_alignment)8, CLATTN_INVALID_ARGUMENT, "alignment 8");
    REJECTS(d.weights = (clattn_weights)8, CLATTN_INVALID_ARGUMENT, "weights 8");
    REJECTS(d.kernel = "nothing", CLATTN_INVALID_ARGUMENT, "nothing");
    REJECTS(d.batch = d.len_q = d.len_kv = INT32_MAX, CLATTN_SIZE_OVERFLOW, "projections");
    REJECTS(d.len_q = INT32_MAX, CLATTN_OUT_OF_MEMORY, "projections", "limit");
#undef REJECTS
    ct_rejects(clattn_mha_create(NULL, &good, &w, &mha), CLATTN_INVALID_ARGUMENT, "context is NULL");
    ct_rejects(clattn_mha_create(ct_context(), NULL, &w, &mha), CLATTN_INVALID_ARGUMENT, "desc is NULL");
    ct_rejects(clattn_mha_create(ct_context(), &good, NULL, &mha), CLATTN_INVALID_ARGUMENT,
               "weights is NULL");
    ct_rejects(clattn_mha_create(ct_context(), &good, &w, NULL), CLATTN_INVALID_ARGUMENT, "mha is NULL");
    clattn_mha_destroy(NULL);
}

static void rejects_bad_weights(void **state)
{
    (void)state;
    const float numbers[3 * 24 * 24] = { 0 };
    const clattn_mha_weights apart = { .q_proj_weight = numbers,
                                       .k_proj_weight = numbers,
                                       .v_proj_weight = numbers,
                                       .out_proj_weight = numbers };
    const clattn_mha_weights packed = { .in_proj_weight = numbers,
                                        .in_proj_bias = numbers,
                                        .out_proj_weight = numbers };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 2, 5, 5, 24, 3);
    clattn_mha *mha = NULL;
    clattn_mha_weights w = apart;
    w.v_proj_weight = NULL;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT,
               "v_proj_weight is NULL");
    w = apart;
    w.out_proj_weight = NULL;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT,
               "out_proj_weight is NULL");
    w = packed;
    w.k_proj_weight = numbers;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "in_proj_weight",
               "k_proj_weight");
    w = packed;
    w.q_proj_bias = numbers;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "in_proj_bias",
               "q_proj_bias");
    w = packed;
    w.dtype = (clattn_dtype)5;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "dtype 5");
    assert_null(mha);
}

static void rejects_bad_calls_and_enqueues_nothing(void **state)
{
    (void)state;
    mha_case m = start(2, 5, 5, 8, 2);
    m.desc.attn_mask = CLATTN_MASK_DROP;
    make_data(&m);
    clattn_mha *mha = create(&m);
    ct_array_upload(&m.query, CL_MEM_READ_WRITE);
    ct_array_upload(&m.mask, CL_MEM_READ_WRITE);
    ct_array_upload(&m.out, CL_MEM_READ_WRITE);
    const clattn_mha_call good = call_of(&m);
    const long before = cl_shim_count().commands;
    clattn_mha_call c;
    cl_event event = NULL;
#define REJECTS(change, status, ...)                                                                         \
    do {                                                                                                     \
        c = good;                                                                                            \
        change;                                                                                              \
        ct_rejects(clattn_mha_enqueue(mha, ct_queue(), &c, 0, NULL, &event), status, __VA_ARGS__);           \
    } while (0)
    REJECTS(c.batch = 3, CLATTN_INVALID_SHAPE, "batch 3", "2");
    REJECTS(c.len_kv = -1, CLATTN_INVALID_SHAPE, "len_kv -1");
    REJECTS(c.query.buffer = NULL, CLATTN_INVALID_ARGUMENT, "query");
    REJECTS(c.attn_mask.buffer = NULL, CLATTN_INVALID_ARGUMENT, "attn_mask");
    REJECTS(c.key_padding = c.attn_mask, CLATTN_INVALID_ARGUMENT, "key_padding", "does not ask");
    REJECTS(c.attention = c.out, CLATTN_INVALID_ARGUMENT, "attention", "does not ask");
    REJECTS(c.query.stride[2] = 1000, CLATTN_BUFFER_TOO_SMALL, "query");
    REJECTS(c.query.stride[3] = 2, CLATTN_INVALID_ARGUMENT, "query", "stride 2");
    REJECTS(c.out.buffer = c.query.buffer, CLATTN_OVERLAP, "out");
    REJECTS(c.out.stride[2] = 0, CLATTN_OVERLAP, "out");
    REJECTS(c.value.offset_bytes = 2, CLATTN_INVALID_ARGUMENT, "value");
#undef REJECTS
    ct_rejects(clattn_mha_enqueue(mha, NULL, &good, 0, NULL, &event), CLATTN_INVALID_ARGUMENT, "queue");
    ct_rejects(clattn_mha_enqueue(mha, ct_queue(), NULL, 0, NULL, &event), CLATTN_INVALID_ARGUMENT,
               "call is NULL");
    ct_rejects(clattn_mha_enqueue(NULL, ct_queue(), &good, 0, NULL, &event), CLATTN_INVALID_ARGUMENT,
               "mha is NULL");
    ct_rejects(clattn_mha_run(mha, &good), CLATTN_INVALID_ARGUMENT, "query");
    assert_null(event);
    assert_int_equal(cl_shim_count().commands, before);
    clattn_mha_destroy(mha);
    free_data(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_known_answer),
        cmocka_unit_test(self_attention),
        cmocka_unit_test(cross_attention_with_other_widths),
        cmocka_unit_test(tensors_may_be_shared_in_any_way),
        cmocka_unit_test(weights_packed_and_apart_give_the_same),
        cmocka_unit_test(biases_may_be_missing),
        cmocka_unit_test(strides_and_offsets_are_free),
        cmocka_unit_test(storage_may_be_16_bits),
        cmocka_unit_test(a_call_may_be_smaller_than_the_description),
        cmocka_unit_test(masks_of_every_kind_apply_together),
        cmocka_unit_test(causal_goes_with_the_masks),
        cmocka_unit_test(heads_may_be_unequal),
        cmocka_unit_test(a_row_that_sees_nothing_gives_the_bias),
        cmocka_unit_test(empty_sizes_launch_nothing),
        cmocka_unit_test(matches_pytorch_on_a_real_layer),
        cmocka_unit_test(info_names_kernel_and_gemm),
        cmocka_unit_test(one_tensor_for_all_takes_one_product),
        cmocka_unit_test(enqueue_makes_no_object_and_does_not_wait),
        cmocka_unit_test(leaves_no_objects_behind),
        cmocka_unit_test(a_failed_create_leaves_nothing_behind),
        cmocka_unit_test(rejects_bad_descriptions),
        cmocka_unit_test(rejects_bad_weights),
        cmocka_unit_test(rejects_bad_calls_and_enqueues_nothing),
    };
    return cmocka_run_group_tests_name("mha", tests, ct_setup, ct_teardown);
}
