/* tests/support/mha_case.c: data, oracle and runs of the multi-head attention module. Called by the tests of
 * tests/nn. */
#include "support/mha_case.h"

#include "support/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ct_mha_case ct_mha_start(int64_t batch, int64_t len_q, int64_t len_kv, int64_t embed_dim, int64_t heads)
{
    ct_mha_case m = { .batch = batch, .len_q = len_q, .len_kv = len_kv };
    clattn_mha_desc_init(&m.desc, batch, len_q, len_kv, embed_dim, heads);
    const int64_t full[4] = { 1, 1, len_q, len_kv };
    memcpy(m.mask_extent, full, sizeof full);
    return m;
}

/* ---- Data ------------------------------------------------------------------------------------------- */

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

static void hide_row(ct_mha_case *m)
{
    for (int64_t b = 0; b < m->mask.extent[0]; b++)
        for (int64_t h = 0; h < m->mask.extent[1]; h++)
            for (int64_t c = 0; c < m->mask.extent[3]; c++)
                ct_array_set(&m->mask, b, h, m->mask.extent[2] - 1, c,
                             m->desc.attn_mask == CLATTN_MASK_ADD    ? -HUGE_VAL
                             : m->desc.attn_mask == CLATTN_MASK_DROP ? 1
                                                                     : 0);
}

static int64_t width_of(const ct_mha_case *m, int projection)
{
    return projection == 0 ? m->desc.embed_dim : projection == 1 ? m->desc.kdim : m->desc.vdim;
}

void ct_mha_make_data(ct_mha_case *m)
{
    const clattn_mha_desc *d = &m->desc;
    const int64_t e = d->embed_dim;
    const ct_type type = ct_type_of(d->dtype), weight_type = ct_type_of(m->weight_dtype);
    ct_random random = ct_random_from(7919);
    make(&m->query, type, m->batch, 1, m->len_q, e, m->loose);
    fill(&m->query, &random, 1);
    if (m->sharing == CT_MHA_CROSS || m->sharing == CT_MHA_THREE) {
        make(&m->key, type, m->batch, 1, m->len_kv, d->kdim, m->loose);
        fill(&m->key, &random, 1);
    }
    if (m->sharing == CT_MHA_THREE || m->sharing == CT_MHA_QUERY_IS_KEY) {
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
    for (int i = 0; i < CT_MHA_PROJECTIONS; i++) {
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

static const ct_array *input_of(const ct_mha_case *m, int projection)
{
    const ct_array *key = m->sharing == CT_MHA_CROSS || m->sharing == CT_MHA_THREE ? &m->key : &m->query;
    const ct_array *value = m->sharing == CT_MHA_THREE || m->sharing == CT_MHA_QUERY_IS_KEY ? &m->value : key;
    return projection == 0 ? &m->query : projection == 1 ? key : value;
}

void ct_mha_free_data(ct_mha_case *m)
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

/* ---- The same in double ----------------------------------------------------------------------------- */

static double linear(const ct_array *x, int64_t b, int64_t r, const ct_array *w, const ct_array *bias,
                     int64_t column)
{
    double sum = ct_array_get(bias, 0, 0, 0, column);
    for (int64_t c = 0; c < x->extent[3]; c++)
        sum += ct_array_get(x, b, 0, r, c) * ct_array_get(w, 0, 0, column, c);
    return sum;
}

static double *project(const ct_mha_case *m, int i, int64_t rows)
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
static double masked(const ct_mha_case *m, int64_t b, int64_t h, int64_t i, int64_t j)
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

void ct_mha_expect(ct_mha_case *m)
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

/* ---- Runs ------------------------------------------------------------------------------------------- */

/* One block of memory for what comes packed. */
static void *pack(const ct_array *parts, size_t bytes)
{
    unsigned char *packed = ct_alloc(CT_MHA_PROJECTIONS * bytes + 1);
    for (int i = 0; i < CT_MHA_PROJECTIONS; i++)
        memcpy(packed + (size_t)i * bytes, parts[i].memory, bytes);
    return packed;
}

clattn_mha *ct_mha_create(ct_mha_case *m)
{
    const size_t e = (size_t)m->desc.embed_dim, bytes = clattn_dtype_bytes(m->weight_dtype);
    clattn_mha_weights w = { .dtype = m->weight_dtype, .out_proj_weight = m->wo.memory };
    void *packed_weight = NULL, *packed_bias = NULL;
    if (m->form == CT_MHA_PACKED) {
        w.in_proj_weight = packed_weight = pack(m->w, e * e * bytes);
    } else {
        w.q_proj_weight = m->w[0].memory;
        w.k_proj_weight = m->w[1].memory;
        w.v_proj_weight = m->w[2].memory;
    }
    if (!m->no_bias) {
        w.out_proj_bias = m->bo.memory;
        if (m->form == CT_MHA_APART) {
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

clattn_mha_call ct_mha_call_of(const ct_mha_case *m)
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

static void check_outputs(const ct_mha_case *m, const char *face)
{
    ct_expect(&m->out, m->want_out, face);
    ct_array_check_canaries(&m->out, face);
    if (m->desc.weights != CLATTN_WEIGHTS_NONE) {
        ct_expect(&m->attention, m->want_attention, face);
        ct_array_check_canaries(&m->attention, face);
    }
}

static void poison_outputs(ct_mha_case *m)
{
    ct_array_poison(&m->out);
    if (m->desc.weights != CLATTN_WEIGHTS_NONE)
        ct_array_poison(&m->attention);
}

/* Makes the data, computes what is wanted, runs both faces and frees everything. */
void ct_mha_check(ct_mha_case m)
{
    ct_mha_make_data(&m);
    ct_mha_expect(&m);
    clattn_mha *mha = ct_mha_create(&m);
    clattn_mha_call call = ct_mha_call_of(&m);
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
    call = ct_mha_call_of(&m);
    cl_event done = NULL;
    ct_ok(clattn_mha_enqueue(mha, ct_queue(), &call, 0, NULL, &done));
    ct_cl_ok(clWaitForEvents(1, &done));
    ct_cl_ok(clReleaseEvent(done));
    ct_array_download(&m.out);
    if (m.attention.type != CT_NONE)
        ct_array_download(&m.attention);
    check_outputs(&m, "buffers");
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}
