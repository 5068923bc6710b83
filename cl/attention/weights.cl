// cl/attention/weights.cl: the softmax weights. A work-group takes one query; its items share out the keys. The scores are
// computed three times rather than kept: for their maximum, their sum, and the weights.
//
// Needs: TYPE, BIAS, D (head size of q and k), MEAN (1: the mean over the heads), ITEMS (work-items a group).
#if !defined(D) || !defined(MEAN)
#error "D and MEAN must be defined"
#endif

static inline float score_of(const ca_params *p, const ca_rows *r, __global const STORAGE *q, __global const STORAGE *k,
                             __global const uchar *keep, __global const BIAS_STORAGE *bias, int b, int h, int i, int j)
{
    const long q_at = ca_at(&p->q, b, h, r->first_q + i), k_at = ca_at(&p->k, b, h / p->group, r->first_kv + j);
    float s = 0;
    for (int d = 0; d < D; d++)
        s = fma(LOAD(q, q_at + d) * p->scale, LOAD(k, k_at + d), s);
    return ca_score(p, keep, bias, b, h, i, j, s);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void weights(const ca_params p, __global const STORAGE *restrict q, __global const STORAGE *restrict k,
             __global float *restrict out, __global const uchar *restrict keep,
             __global const BIAS_STORAGE *restrict bias, __global const float *restrict sinks,
             __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    __local float shared[ITEMS];
    const int i = get_group_id(0), b = get_group_id(2), item = get_local_id(0);
    const int first_head = MEAN ? 0 : get_group_id(1), heads = MEAN ? p.heads_q : 1;
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    const int from = ca_first_key(&p, &r, i), to = i < r.len_q ? ca_last_key(&p, &r, i) : -1;
    const int start = from / ITEMS * ITEMS + item; // an item always meets the same keys, so that it alone writes them
    out += ca_at(&p.weights, b, first_head, i);

    for (int j = item; j < p.len_kv; j += ITEMS)
        out[j] = 0;
    for (int h = first_head; h < first_head + heads; h++) {
        const float sink = p.has_sinks ? sinks[p.sinks_offset + h] : -INFINITY;
        float top = sink;
        for (int j = start; j <= to; j += ITEMS) {
            const float s = j < from ? -INFINITY : score_of(&p, &r, q, k, keep, bias, b, h, i, j);
            top = s > top ? s : top;
        }
        top = ca_group_max(top, shared);
        const float level = top == -INFINITY ? 0 : top;
        float sum = 0;
        for (int j = start; j <= to; j += ITEMS)
            if (j >= from)
                sum += ca_exp_float(score_of(&p, &r, q, k, keep, bias, b, h, i, j) - level);
        sum = ca_group_sum(sum, shared) + ca_exp_float(sink - level);
        for (int j = start; j <= to; j += ITEMS) {
            const float s = j < from ? -INFINITY : score_of(&p, &r, q, k, keep, bias, b, h, i, j);
            if (s != -INFINITY)
                out[j] += ca_exp_float(s - level) / sum / heads;
        }
    }
}
