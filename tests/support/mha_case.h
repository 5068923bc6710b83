/* tests/support/mha_case.h: one problem for the multi-head attention module with its data and weights, the
 * same computed in double, and a run of it through both faces. The tests of tests/nn stand on it. */
#ifndef CT_MHA_CASE_H
#define CT_MHA_CASE_H

#include "support/array.h"

enum { CT_MHA_PROJECTIONS = 3, CT_MHA_MOST_HEADS = 8 };

/* How the weights come. */
typedef enum ct_mha_form { CT_MHA_PACKED, CT_MHA_APART, CT_MHA_APART_PACKED_BIAS } ct_mha_form;

/* Which of query, key and value are one tensor. */
typedef enum ct_mha_sharing { CT_MHA_SELF, CT_MHA_CROSS, CT_MHA_THREE, CT_MHA_QUERY_IS_KEY } ct_mha_sharing;

typedef struct ct_mha_case {
    clattn_mha_desc desc;
    int64_t sizes[CT_MHA_MOST_HEADS]; /* of the heads; 0: equal */
    int64_t batch, len_q, len_kv;     /* of the call */
    ct_mha_sharing sharing;
    ct_mha_form form;
    bool no_bias, loose, hide_row; /* hide_row: a query that sees nothing */
    clattn_dtype weight_dtype;
    int64_t mask_extent[4];
    ct_array query, key, value, padding, mask, out, attention;
    ct_array w[CT_MHA_PROJECTIONS], b[CT_MHA_PROJECTIONS], wo, bo;
    double *want_out, *want_attention;
} ct_mha_case;

/* The description's sizes and the call's, f32, packed weights, self-attention; a test changes what differs.
 */
ct_mha_case ct_mha_start(int64_t batch, int64_t len_q, int64_t len_kv, int64_t embed_dim, int64_t heads);

/* Random inputs, masks and weights; outputs are poisoned. */
void ct_mha_make_data(ct_mha_case *m);
void ct_mha_free_data(ct_mha_case *m);

/* Computes want_out and want_attention. */
void ct_mha_expect(ct_mha_case *m);

/* The module, and a call with the buffers that the arrays have, or else their memory. */
clattn_mha *ct_mha_create(ct_mha_case *m);
clattn_mha_call ct_mha_call_of(const ct_mha_case *m);

/* Makes the data, computes what is wanted, runs both faces and frees everything. */
void ct_mha_check(ct_mha_case m);

#endif
