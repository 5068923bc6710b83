/* tests/attention/test_attention_masks.c: keep and bias masks: every broadcast shape, every type, together,
 * hidden rows, infinities. */
#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The head size of most cases here: few kernels to build. */
enum { D = 8 };

static void init(ct_case *c)
{
    ct_case_init(c, 2, 4, 2, ct_by_size(5, 19, 37), ct_by_size(9, 23, 67), D, D);
    c->desc.lse = true;
}

/* Axes that are 1, by bit of `shape`. */
static void broadcast(int64_t extent[4], int shape)
{
    for (int axis = 0; axis < 4; axis++)
        extent[axis] = shape & (1 << axis) ? 1 : 0;
}

static void keep_of_every_broadcast_shape(void **state)
{
    (void)state;
    for (int shape = 0; shape < 16; shape++) {
        ct_case c;
        init(&c);
        c.desc.keep = true;
        c.seed = 100 + (uint64_t)shape;
        broadcast(c.keep_extent, shape);
        ct_case_go(&c);
    }
}

static void bias_of_every_broadcast_shape(void **state)
{
    (void)state;
    for (int shape = 0; shape < 16; shape++) {
        ct_case c;
        init(&c);
        c.desc.bias = true;
        c.hidden_bias_share = shape & 8 ? 0 : 0.2;
        c.seed = 200 + (uint64_t)shape;
        broadcast(c.bias_extent, shape);
        ct_case_go(&c);
    }
}

static void bias_of_every_type(void **state)
{
    (void)state;
    for (int type = CLATTN_F32; type <= CLATTN_BF16; type++)
        for (int shape = 0; shape < 16; shape += 5) {
            ct_case c;
            init(&c);
            c.desc.bias = true;
            c.desc.bias_dtype = (clattn_dtype)type;
            c.hidden_bias_share = 0.2;
            c.form = shape & 1 ? CT_FORM_LOOSE : CT_FORM_BHSD;
            c.unaligned = shape & 1;
            broadcast(c.bias_extent, shape);
            ct_case_go(&c);
        }
}

static void keep_and_bias_together(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        ct_case c;
        init(&c);
        c.desc.keep = c.desc.bias = true;
        c.desc.causal = n & 1;
        c.desc.softcap = n & 2 ? 1.5f : 0;
        c.hidden_bias_share = 0.2;
        c.seed = 300 + (uint64_t)n;
        c.form = n & 4 ? CT_FORM_LOOSE : CT_FORM_BSHD;
        broadcast(c.keep_extent, n * 3 & 15);
        broadcast(c.bias_extent, n * 5 & 15);
        ct_case_go(&c);
    }
}

/* Almost everything hidden: many rows see nothing, many blocks of keys are hidden for all queries. */
static void sparse_keep_leaves_rows_and_blocks_empty(void **state)
{
    (void)state;
    const double shares[] = { 0, 0.002, 0.02 };
    for (int n = 0; n < 3; n++) {
        ct_case c;
        ct_case_init(&c, 1, 2, 2, ct_by_size(7, 19, 70), ct_by_size(17, 80, 600), D, D);
        c.desc.keep = c.desc.lse = true;
        c.desc.weights = CLATTN_WEIGHTS_FULL;
        c.keep_share = shares[n];
        c.seed = 400 + (uint64_t)n;
        ct_case_go(&c);
    }
}

static void visible_keys_after_hidden_blocks(void **state)
{
    (void)state;
    ct_case c;
    int64_t len_kv = ct_by_size(20, 80, 600);
    ct_case_init(&c, 1, 1, 1, 3, len_kv, D, D);
    c.desc.keep = c.desc.lse = true;
    c.keep_share = 0;
    ct_case_fill(&c);
    ct_array_set(&c.keep, 0, 0, 0, len_kv - 1, 1);
    ct_array_set(&c.keep, 0, 0, 1, 0, 1);
    ct_array_set(&c.keep, 0, 0, 2, len_kv / 2, 1);
    ct_case_check(&c);
    ct_case_free(&c);
}

static void hidden_by_bias_equals_hidden_by_keep(void **state)
{
    (void)state;
    ct_case with_keep, with_bias;
    init(&with_keep);
    with_keep.desc.keep = true;
    with_keep.keep_extent[1] = 1;
    ct_case_fill(&with_keep);
    init(&with_bias);
    with_bias.desc.bias = true;
    with_bias.bias_extent[1] = 1;
    ct_case_fill(&with_bias);
    for (int64_t b = 0; b < with_keep.batch; b++)
        for (int64_t h = 0; h < with_keep.desc.heads_q; h++)
            for (int64_t i = 0; i < with_keep.len_q; i++) {
                for (int64_t d = 0; d < D; d++)
                    ct_array_set(&with_bias.q, b, h, i, d, ct_array_get(&with_keep.q, b, h, i, d));
                for (int64_t j = 0; j < with_keep.len_kv; j++)
                    ct_array_set(&with_bias.bias, b, h, i, j,
                                 ct_array_get(&with_keep.keep, b, h, i, j) != 0 ? 0 : -HUGE_VAL);
            }
    for (int64_t b = 0; b < with_keep.batch; b++)
        for (int64_t h = 0; h < with_keep.desc.heads_kv; h++)
            for (int64_t j = 0; j < with_keep.len_kv; j++)
                for (int64_t d = 0; d < D; d++) {
                    ct_array_set(&with_bias.k, b, h, j, d, ct_array_get(&with_keep.k, b, h, j, d));
                    ct_array_set(&with_bias.v, b, h, j, d, ct_array_get(&with_keep.v, b, h, j, d));
                }
    ct_case_check(&with_keep);
    ct_case_check(&with_bias);
    for (int64_t n = 0; n < ct_array_elements(&with_keep.out); n++)
        assert_true(with_keep.want_out[n] == with_bias.want_out[n]);
    ct_case_free(&with_keep);
    ct_case_free(&with_bias);
}

static void constant_bias_leaves_out_and_moves_lse(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    c.desc.bias = true;
    memcpy(c.bias_extent, (int64_t[]){ 1, 1, 1, 1 }, sizeof c.bias_extent);
    ct_case_fill(&c);
    ct_array_fill(&c.bias, 0);
    ct_case_expect(&c);
    double lse = c.want_lse[5];
    double out = c.want_out[5 * D];
    ct_array_fill(&c.bias, -3.25);
    ct_case_check(&c);
    assert_true(fabs(c.want_lse[5] - (lse - 3.25)) < 1e-12 && fabs(c.want_out[5 * D] - out) < 1e-12);
    ct_case_free(&c);
}

/* Finite lows are numbers: a row of nothing else is an ordinary softmax. */
static void finite_lows_do_not_hide(void **state)
{
    (void)state;
    const double lows[] = { -1e9, -65504, -1e4 };
    for (int n = 0; n < 3; n++) {
        ct_case c;
        ct_case_init(&c, 1, 1, 1, 2, 3, D, D);
        c.desc.bias = c.desc.lse = true;
        c.spread = 0;
        ct_case_fill(&c);
        ct_array_fill(&c.bias, lows[n]);
        ct_array_set(&c.bias, 0, 0, 1, 2, 0);
        ct_case_check(&c);
        ct_case_free(&c);
    }
}

/* The oracle makes the row NaN by itself; lse may be NaN or infinite, so it is not asked for. */
static void plus_infinity_or_nan_in_the_bias_gives_a_nan_row(void **state)
{
    (void)state;
    const double values[] = { HUGE_VAL, (double)NAN };
    for (int n = 0; n < 2; n++)
        for (int64_t at = 0; at < 2; at++) {
            ct_case c;
            int64_t len_kv = ct_by_size(11, 50, 300);
            ct_case_init(&c, 1, 2, 1, 5, len_kv, D, D);
            c.desc.bias = true;
            ct_case_fill(&c);
            ct_array_set(&c.bias, 0, 1, 2, at ? len_kv - 1 : 0, values[n]);
            ct_case_expect(&c);
            assert_true(isnan(ct_case_want(&c, 0, 1, 2, 0)) && !isnan(ct_case_want(&c, 0, 1, 1, 0)));
            ct_case_check(&c);
            ct_case_free(&c);
        }
}

static void hidden_bias_garbage_is_not_read(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    c.desc.bias = c.desc.keep = c.desc.causal = true;
    c.desc.weights = CLATTN_WEIGHTS_FULL;
    ct_case_fill(&c);
    for (int64_t b = 0; b < c.batch; b++)
        for (int64_t h = 0; h < c.desc.heads_q; h++)
            for (int64_t i = 0; i < c.len_q; i++)
                for (int64_t j = 0; j < c.len_kv; j++)
                    if (ct_array_get(&c.keep, b, h, i, j) == 0)
                        ct_array_set(&c.bias, b, h, i, j, j % 2 ? HUGE_VAL : (double)NAN);
    ct_case_check(&c);
    ct_case_free(&c);
}

/* NaN in one value reaches exactly the rows that see it. */
static void nan_value_reaches_only_rows_that_see_it(void **state)
{
    (void)state;
    const int64_t len = ct_by_size(13, 40, 130);
    const int64_t at[] = { 0, 1, len / 2, len - 1 };
    for (int n = 0; n < 8; n++) {
        ct_case c;
        int64_t j = at[n % 4];
        ct_case_init(&c, 1, 2, 2, len, len, D, D);
        c.desc.causal = true;
        c.desc.window_left = n < 4 ? -1 : 3;
        ct_case_fill(&c);
        ct_array_set(&c.v, 0, 1, j, 3, (double)NAN);
        ct_case_expect(&c);
        for (int64_t i = 0; i < len; i++) {
            assert_int_equal(isnan(ct_case_want(&c, 0, 1, i, 3)) != 0, i >= j && (n < 4 || i <= j + 3));
            assert_false(isnan(ct_case_want(&c, 0, 1, i, 2)) || isnan(ct_case_want(&c, 0, 0, i, 3)));
        }
        ct_case_check(&c);
        ct_case_free(&c);
    }
}

static void nan_key_reaches_only_rows_that_see_it(void **state)
{
    (void)state;
    const int64_t len = ct_by_size(13, 40, 130);
    for (int n = 0; n < 2; n++) {
        ct_case c;
        ct_case_init(&c, 1, 2, 1, len, len, D, D);
        c.desc.causal = n == 0;
        c.desc.keep = n == 1;
        c.keep_share = 0.5;
        ct_case_fill(&c);
        ct_array_set(&c.k, 0, 0, len / 3, 3, (double)NAN);
        ct_case_check(&c);
        ct_case_free(&c);
    }
}

/* ---- clattn_mask_strides
 * ------------------------------------------------------------------------------------ */

static void strides_are(clattn_mask_form form, const int64_t *shape, int64_t b, int64_t h, int64_t q,
                        int64_t k)
{
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 2, 3, 1, 5, 7, D, D);
    int64_t stride[4] = { -1, -1, -1, -1 };
    ct_ok(clattn_mask_strides(&desc, form, shape, stride));
    assert_int_equal(stride[0], b);
    assert_int_equal(stride[1], h);
    assert_int_equal(stride[2], q);
    assert_int_equal(stride[3], k);
}
#define SHAPE(...)                                                                                           \
    (const int64_t[])                                                                                        \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static void mask_strides_of_every_form(void **state)
{
    (void)state;
    strides_are(CLATTN_MASK_BHQK, SHAPE(2, 3, 5, 7), 105, 35, 7, 1);
    strides_are(CLATTN_MASK_BHQK, SHAPE(2, 1, 1, 7), 7, 0, 0, 1);
    strides_are(CLATTN_MASK_BHQK, SHAPE(1, 3, 5, 1), 0, 5, 1, 0);
    strides_are(CLATTN_MASK_BHQK, SHAPE(1, 1, 1, 1), 0, 0, 0, 0);
    strides_are(CLATTN_MASK_HQK, SHAPE(3, 5, 7), 0, 35, 7, 1);
    strides_are(CLATTN_MASK_HQK, SHAPE(1, 5, 7), 0, 0, 7, 1);
    strides_are(CLATTN_MASK_BHxQK, SHAPE(6, 5, 7), 105, 35, 7, 1);
    strides_are(CLATTN_MASK_BHxQK, SHAPE(6, 1, 7), 21, 7, 0, 1);
    strides_are(CLATTN_MASK_BHxQK, SHAPE(1, 5, 7), 0, 0, 7, 1);
    strides_are(CLATTN_MASK_QK, SHAPE(5, 7), 0, 0, 7, 1);
    strides_are(CLATTN_MASK_QK, SHAPE(5, 1), 0, 0, 1, 0);
    strides_are(CLATTN_MASK_BK, SHAPE(2, 7), 7, 0, 0, 1);
    strides_are(CLATTN_MASK_BK, SHAPE(1, 7), 0, 0, 0, 1);
}

static void mask_that_does_not_fit_names_the_axis(void **state)
{
    (void)state;
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 2, 3, 1, 5, 7, D, D);
    int64_t stride[4];
    const struct {
        clattn_mask_form form;
        int64_t shape[4];
        const char *axis, *number, *full;
    } cases[] = { { CLATTN_MASK_BHQK, { 4, 3, 5, 7 }, "batch", "4", "2" },
                  { CLATTN_MASK_BHQK, { 2, 2, 5, 7 }, "heads_q", "2", "3" },
                  { CLATTN_MASK_BHQK, { 2, 3, 7, 7 }, "len_q", "7", "5" },
                  { CLATTN_MASK_BHQK, { 2, 3, 5, 8 }, "len_kv", "8", "7" },
                  { CLATTN_MASK_HQK, { 2, 5, 7 }, "heads_q", "2", "3" },
                  { CLATTN_MASK_BHxQK, { 2, 5, 7 }, "batch * heads_q", "2", "6" },
                  { CLATTN_MASK_QK, { 7, 5 }, "len_kv", "5", "7" },
                  { CLATTN_MASK_BK, { 5, 7 }, "batch", "5", "2" },
                  { CLATTN_MASK_BK, { 2, 0 }, "len_kv", "0", "7" },
                  { CLATTN_MASK_BK, { 2, -7 }, "len_kv", "-7", "7" } };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        ct_rejects(clattn_mask_strides(&desc, cases[n].form, cases[n].shape, stride), CLATTN_INVALID_SHAPE,
                   cases[n].axis, cases[n].number, cases[n].full);
    ct_rejects(clattn_mask_strides(NULL, CLATTN_MASK_QK, cases[0].shape, stride), CLATTN_INVALID_ARGUMENT,
               "NULL");
    ct_rejects(clattn_mask_strides(&desc, CLATTN_MASK_QK, NULL, stride), CLATTN_INVALID_ARGUMENT, "NULL");
    ct_rejects(clattn_mask_strides(&desc, CLATTN_MASK_QK, cases[0].shape, NULL), CLATTN_INVALID_ARGUMENT,
               "NULL");
    ct_rejects(clattn_mask_strides(&desc, (clattn_mask_form)9, cases[0].shape, stride),
               CLATTN_INVALID_ARGUMENT, "9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keep_of_every_broadcast_shape),
        cmocka_unit_test(bias_of_every_broadcast_shape),
        cmocka_unit_test(bias_of_every_type),
        cmocka_unit_test(keep_and_bias_together),
        cmocka_unit_test(sparse_keep_leaves_rows_and_blocks_empty),
        cmocka_unit_test(visible_keys_after_hidden_blocks),
        cmocka_unit_test(hidden_by_bias_equals_hidden_by_keep),
        cmocka_unit_test(constant_bias_leaves_out_and_moves_lse),
        cmocka_unit_test(finite_lows_do_not_hide),
        cmocka_unit_test(plus_infinity_or_nan_in_the_bias_gives_a_nan_row),
        cmocka_unit_test(hidden_bias_garbage_is_not_read),
        cmocka_unit_test(nan_value_reaches_only_rows_that_see_it),
        cmocka_unit_test(nan_key_reaches_only_rows_that_see_it),
        cmocka_unit_test(mask_strides_of_every_form),
        cmocka_unit_test(mask_that_does_not_fit_names_the_axis),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
