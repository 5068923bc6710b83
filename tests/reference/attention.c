/* tests/reference/attention.c: the formula of clattn/attention.h, one row at a time, in double. */
#include "reference/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double at(const ref_view *view, int64_t b, int64_t h, int64_t r, int64_t c)
{
    return view->data[b * view->stride[0] + h * view->stride[1] + r * view->stride[2] + c * view->stride[3]];
}

/* Element of a tensor whose rows may be packed. */
static double packed_at(const ref_view *view, const int32_t *cu, int64_t b, int64_t h, int64_t r, int64_t c)
{
    return cu ? at(view, 0, h, cu[b] + r, c) : at(view, b, h, r, c);
}

int64_t ref_rows_q(const ref_attention *a, int64_t b)
{
    if (a->cu_q)
        return a->cu_q[b + 1] - a->cu_q[b];
    return a->lengths_q ? a->lengths_q[b] : a->len_q;
}

int64_t ref_rows_kv(const ref_attention *a, int64_t b)
{
    if (a->cu_kv)
        return a->cu_kv[b + 1] - a->cu_kv[b];
    return a->lengths_kv ? a->lengths_kv[b] : a->len_kv;
}

bool ref_visible(const ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t rows_q = ref_rows_q(a, b);
    int64_t rows_kv = ref_rows_kv(a, b);
    int64_t level = i + (a->top_left ? 0 : rows_kv - rows_q);
    if (i >= rows_q || j >= rows_kv)
        return false;
    if (a->causal && j > level)
        return false;
    if (a->window_left >= 0 && level - j > a->window_left)
        return false;
    if (a->window_right >= 0 && j - level > a->window_right)
        return false;
    if (a->keep && !a->keep[b * a->keep_stride[0] + h * a->keep_stride[1] + i * a->keep_stride[2] +
                            j * a->keep_stride[3]])
        return false;
    if (a->bias.data && at(&a->bias, b, h, i, j) == -HUGE_VAL)
        return false;
    return true;
}

static double score(const ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t group = h / (a->heads_q / a->heads_kv);
    double scale = isnan(a->scale) ? (a->d_qk ? 1.0 / sqrt((double)a->d_qk) : 1.0) : a->scale;
    double sum = 0;
    for (int64_t d = 0; d < a->d_qk; d++)
        sum += packed_at(&a->q, a->cu_q, b, h, i, d) * packed_at(&a->k, a->cu_kv, b, group, j, d);
    sum *= scale;
    if (a->softcap != 0)
        sum = a->softcap * tanh(sum / a->softcap);
    if (a->bias.data)
        sum += at(&a->bias, b, h, i, j);
    return sum;
}

/* One row: weights to w[len_kv], output to out[d_v] when it is not NULL; returns the log-sum-exp. */
static double row(const ref_attention *a, int64_t b, int64_t h, int64_t i, double *w, double *out)
{
    int64_t group = a->heads_kv ? h / (a->heads_q / a->heads_kv) : 0;
    bool sink = a->sinks && i < ref_rows_q(a, b);
    double top = sink ? a->sinks[h] : -HUGE_VAL;
    double sum = 0;
    for (int64_t j = 0; j < a->len_kv; j++) {
        w[j] = 0;
        if (ref_visible(a, b, h, i, j)) {
            w[j] = score(a, b, h, i, j);
            if (isnan(w[j]) || w[j] > top)
                top = w[j];
        }
    }
    if (sink)
        sum += exp(a->sinks[h] - top);
    for (int64_t j = 0; j < a->len_kv; j++)
        if (ref_visible(a, b, h, i, j)) {
            w[j] = exp(w[j] - top);
            sum += w[j];
        }
    for (int64_t j = 0; j < a->len_kv; j++)
        if (ref_visible(a, b, h, i, j))
            w[j] /= sum;
    for (int64_t d = 0; out && d < a->d_v; d++) {
        out[d] = 0;
        for (int64_t j = 0; j < a->len_kv; j++)
            if (ref_visible(a, b, h, i, j))
                out[d] += w[j] * packed_at(&a->v, a->cu_kv, b, group, j, d);
    }
    return sum == 0 ? -HUGE_VAL : top + log(sum);
}

bool ref_attention_run(const ref_attention *a, double *out, double *lse, double *weights)
{
    double *w = calloc((size_t)a->len_kv + 1, sizeof *w);
    int64_t heads_w = a->mean_weights ? 1 : a->heads_q;
    if (!w)
        return false;
    if (weights)
        memset(weights, 0, (size_t)(a->batch * heads_w * a->len_q * a->len_kv) * sizeof *weights);
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads_q; h++)
            for (int64_t i = 0; i < a->len_q; i++) {
                int64_t r = (b * a->heads_q + h) * a->len_q + i;
                double value = row(a, b, h, i, w, out ? out + r * a->d_v : NULL);
                if (lse)
                    lse[r] = value;
                if (weights) {
                    int64_t to = ((b * heads_w + (a->mean_weights ? 0 : h)) * a->len_q + i) * a->len_kv;
                    for (int64_t j = 0; j < a->len_kv; j++)
                        weights[to + j] += w[j] / (a->mean_weights ? (double)a->heads_q : 1.0);
                }
            }
    free(w);
    return true;
}
