/* tests/support/attention_case.h: one attention problem with its data, what it should give, and a run of it
 * on every row of the kernel table through both faces. All of tests/attention stands on it.
 *
 *     ct_case c;
 *     ct_case_init(&c, batch, heads_q, heads_kv, len_q, len_kv, d_qk, d_v);
 *     c.desc.causal = true;          the description, and the fields below
 *     ct_case_fill(&c);              makes the arrays, random contents
 *     ct_array_set(&c.q, ...);       where a test wants its own
 *     ct_case_check(&c);             oracle, rows, faces
 *     ct_case_free(&c);
 */
#ifndef CT_ATTENTION_CASE_H
#define CT_ATTENTION_CASE_H

#include "reference/attention.h"
#include "support/array.h"

enum { CT_MAX_BATCH = 16, CT_MAX_ROWS = 32 };

/* How q, k, v and out lie in memory. */
typedef enum ct_form {
    CT_FORM_BHSD,
    CT_FORM_BSHD,
    CT_FORM_LOOSE,    /* BHSD with garbage between rows, heads and batches */
    CT_FORM_FUSED,    /* q, k and v side by side in the rows of one block; out as BSHD */
    CT_FORM_REPEATED, /* stride 0 along the batch and the heads of k, and along the batch of v */
    CT_FORMS
} ct_form;

typedef struct ct_case {
    clattn_attention_desc desc;
    int64_t batch, len_q, len_kv; /* of the call; as the description at first */
    ct_form form;
    bool unaligned;                         /* tensors start at odd multiples of their element */
    int64_t keep_extent[4], bias_extent[4]; /* 1: broadcast; 0, the default: full */
    double keep_share;                      /* of visible elements; 0.7 */
    double hidden_bias_share;               /* of -inf among the biases; 0 */
    double spread;                          /* of the values of q and k; 1 */
    int32_t rows_q[CT_MAX_BATCH];           /* of each sequence, with lengths or packed; -1: random */
    int32_t rows_kv[CT_MAX_BATCH];
    bool no_poison; /* leave hidden keys and values as they are */
    bool one_face;  /* the expert one */
    uint64_t seed;
    int number; /* of a random case; -1 */

    ct_array q, k, v, keep, bias, sinks, lengths_q, lengths_kv, cu_q, cu_kv, out, lse, weights;
    double *want_out, *want_lse, *want_weights; /* by (batch, head, row, column), also when packed */
    unsigned accepted;                          /* bit r: row r took the last check */
} ct_case;

void ct_case_init(ct_case *c, int64_t batch, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_kv,
                  int64_t d_qk, int64_t d_v);
void ct_case_fill(ct_case *c);
void ct_case_free(ct_case *c);

/* fill, check, free. */
void ct_case_go(ct_case *c);

/* Runs the oracle over the arrays as they are now, so that want_* can be read or changed. */
void ct_case_expect(ct_case *c);

/* The oracle's row of output: element d of want_out. */
double ct_case_want(const ct_case *c, int64_t b, int64_t h, int64_t i, int64_t d);

/* Fails the test unless the oracle gives these numbers to within 1e-6: `values` are all of out, or all of
 * lse. Call after ct_case_expect. */
void ct_case_known_out(const ct_case *c, const double *values);
void ct_case_known_lse(const ct_case *c, const double *values);

/* Runs the oracle, then every row that accepts the description through both faces: outputs as the oracle
 * says, no byte beside them touched, inputs unchanged. A row that refuses must say why. At least one row must
 * accept. */
void ct_case_check(ct_case *c);

/* The same with want_* as they stand, for numbers from elsewhere. */
void ct_case_check_wanted(ct_case *c);

/* The view of the case that the oracle has. */
void ct_case_problem(const ct_case *c, ref_attention *problem);

/* The call with every tensor of the case. */
void ct_case_call(const ct_case *c, clattn_attention_call *call);

/* One row, one face, no comparison: poisons the outputs, runs `plan`, brings the results to the arrays. */
void ct_case_run_buffers(ct_case *c, clattn_attention_plan *plan);
void ct_case_run_host(ct_case *c, clattn_attention_plan *plan);

/* The plan of row `row` for the case, kept until a case with another description comes; NULL where the row
 * refuses. */
clattn_attention_plan *ct_case_plan(ct_case *c, size_t row);

/* out, lse and weights against want_*. */
void ct_case_compare(const ct_case *c);

/* One line that tells what the case is. */
void ct_case_describe(const ct_case *c, char *text, size_t bytes);

#endif
