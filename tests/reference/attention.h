/* tests/reference/attention.h: attention in double precision, written as the formula reads. Shares no code
 * with the library. Every attention test compares against it. */
#ifndef REF_ATTENTION_H
#define REF_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Element (b, h, r, c) lies at b * stride[0] + h * stride[1] + r * stride[2] + c * stride[3]. */
typedef struct ref_view {
    const float *data;
    int64_t stride[4];
} ref_view;

/* The problem. Pointers that are NULL stand for what is not asked for. */
typedef struct ref_attention {
    int64_t batch, heads_q, heads_kv, len_q, len_kv, d_qk, d_v;
    ref_view q, k, v;
    double scale; /* NaN: 1 / sqrt(d_qk) */
    double softcap;
    bool causal, top_left;
    int64_t window_left, window_right; /* -1: open */
    const uint8_t *keep;
    int64_t keep_stride[4];
    ref_view bias;
    const float *sinks;        /* [heads_q] */
    const int32_t *lengths_q;  /* [batch] */
    const int32_t *lengths_kv; /* [batch] */
    const int32_t *cu_q,
        *cu_kv; /* [batch + 1]: then row i of batch b is row cu[b] + i, and stride[0] is unused */
    bool mean_weights;
} ref_attention;

/* Queries and keys that batch b has. */
int64_t ref_rows_q(const ref_attention *a, int64_t b);
int64_t ref_rows_kv(const ref_attention *a, int64_t b);

/* Whether query i of head h sees key j. */
bool ref_visible(const ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j);

/* out (batch, heads_q, len_q, d_v), lse (batch, heads_q, len_q), weights (batch, heads_q or 1, len_q,
 * len_kv), all contiguous, also when rows are packed; any may be NULL. False when there is no memory. */
bool ref_attention_run(const ref_attention *a, double *out, double *lse, double *weights);

#endif
