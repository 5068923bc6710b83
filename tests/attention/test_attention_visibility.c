/* tests/attention/test_attention_visibility.c: which keys a query sees: causal, windows, lengths, packed
 * rows, and all of them together. */
#include "support/attention_case.h"

#include <stdlib.h>

enum { D = 8 };

/* Many lengths share one plan: calls may be smaller than the description. */
static void init(ct_case *c, int64_t most, int64_t len_q, int64_t len_kv)
{
    ct_case_init(c, 1, 2, 1, most, most, D, D);
    c->desc.lse = true;
    c->len_q = len_q;
    c->len_kv = len_kv;
}

static const int64_t PAIRS[][2] = { { 1, 1 },    { 1, 17 },  { 17, 1 },  { 5, 5 },   { 3, 20 },   { 20, 3 },
                                    { 16, 16 },  { 17, 15 }, { 15, 33 }, { 48, 48 }, { 49, 47 },  { 33, 100 },
                                    { 100, 33 }, { 64, 65 }, { 1, 128 }, { 128, 1 }, { 130, 70 }, { 63, 257 },
                                    { 70, 256 }, { 97, 97 }, { 2, 260 }, { 260, 2 }, { 129, 128 } };

static size_t pairs(void)
{
    return (size_t)ct_by_size(6, 10, sizeof PAIRS / sizeof *PAIRS);
}

static void causal_with_every_offset(void **state)
{
    (void)state;
    for (int top_left = 0; top_left < 2; top_left++)
        for (size_t n = 0; n < pairs(); n++) {
            ct_case c;
            init(&c, ct_by_size(20, 48, 260), PAIRS[n][0], PAIRS[n][1]);
            c.desc.causal = true;
            c.desc.alignment = top_left ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
            c.seed = n;
            ct_case_go(&c);
        }
}

static void window_with_every_offset(void **state)
{
    (void)state;
    const int64_t windows[][2] = { { 0, 0 },  { 1, 0 },   { 0, 1 },   { 3, 5 },   { -1, 2 },  { 2, -1 },
                                   { 16, 0 }, { 15, 15 }, { 17, -1 }, { -1, 31 }, { 47, 48 }, { 63, 64 } };
    size_t count = (size_t)ct_by_size(4, 6, 12);
    for (size_t w = 0; w < count; w++)
        for (size_t n = w % 3; n < pairs(); n += 3) {
            ct_case c;
            init(&c, ct_by_size(20, 48, 260), PAIRS[n][0], PAIRS[n][1]);
            c.desc.window_left = windows[w][0];
            c.desc.window_right = windows[w][1];
            c.desc.alignment = n % 2 ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
            c.seed = n * 100 + w;
            ct_case_go(&c);
        }
}

static void window_wider_than_any_length_is_open(void **state)
{
    (void)state;
    const int64_t wide[] = { 1000, INT32_MAX - 1, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX };
    for (int n = 0; n < 6; n++)
        for (int side = 0; side < 2; side++) {
            ct_case c;
            init(&c, 20, side ? 7 : 20, side ? 20 : 7);
            c.desc.window_left = side ? wide[n] : 2;
            c.desc.window_right = side ? 1 : wide[n];
            ct_case_go(&c);
        }
}

static void causal_and_window_both_apply(void **state)
{
    (void)state;
    const int64_t windows[][2] = { { 4, 0 }, { 4, 9 }, { 0, 5 }, { 33, -1 }, { -1, 0 }, { -1, 7 } };
    for (size_t w = 0; w < 6; w++)
        for (size_t n = w % 2; n < pairs(); n += 4) {
            ct_case c;
            init(&c, ct_by_size(20, 48, 260), PAIRS[n][0], PAIRS[n][1]);
            c.desc.causal = true;
            c.desc.window_left = windows[w][0];
            c.desc.window_right = windows[w][1];
            c.seed = n * 100 + w;
            ct_case_go(&c);
        }
}

/* A window of W and 0 differs from W + 1 and W - 1 in the oracle, so a row that is off by one fails. */
static void window_is_inclusive(void **state)
{
    (void)state;
    for (int64_t left = 14; left <= 18; left++) {
        ct_case c;
        init(&c, ct_by_size(20, 48, 260), ct_by_size(20, 40, 70), ct_by_size(20, 40, 70));
        c.desc.window_left = left;
        c.desc.window_right = 0;
        ct_case_go(&c);
    }
}

/* ---- Lengths
 * ------------------------------------------------------------------------------------------------ */

static void init_lengths(ct_case *c)
{
    const int32_t most = (int32_t)ct_by_size(17, 40, 100);
    const int32_t rows[8][2] = { { most, most }, { 0, 5 },  { 5, 0 },     { 0, 0 },
                                 { 1, most },    { 16, 1 }, { most, 16 }, { 15, 17 } };
    ct_case_init(c, 8, 2, 1, most, most, D, D);
    c->desc.lengths_q = c->desc.lengths_kv = c->desc.lse = true;
    for (int b = 0; b < 8; b++) {
        c->rows_q[b] = rows[b][0];
        c->rows_kv[b] = rows[b][1];
    }
}

static void lengths_alone(void **state)
{
    (void)state;
    for (int which = 1; which < 4; which++) {
        ct_case c;
        init_lengths(&c);
        c.desc.lengths_q = which & 1;
        c.desc.lengths_kv = which & 2;
        c.desc.weights = which == 3 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
        ct_case_go(&c);
    }
}

static void lengths_move_the_diagonal(void **state)
{
    (void)state;
    for (int which = 1; which < 4; which++)
        for (int top_left = 0; top_left < 2; top_left++) {
            ct_case c;
            init_lengths(&c);
            c.desc.lengths_q = which & 1;
            c.desc.lengths_kv = which & 2;
            c.desc.causal = true;
            c.desc.alignment = top_left ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
            c.desc.window_left = top_left ? 7 : -1;
            ct_case_go(&c);
        }
}

static void lengths_with_masks_and_sinks(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        ct_case c;
        init_lengths(&c);
        c.desc.keep = n & 1;
        c.desc.bias = n & 2;
        c.desc.sinks = true;
        c.desc.causal = n == 3;
        c.desc.weights = n == 2 ? CLATTN_WEIGHTS_MEAN : CLATTN_WEIGHTS_NONE;
        c.form = n & 1 ? CT_FORM_BSHD : CT_FORM_LOOSE;
        ct_case_go(&c);
    }
}

/* The expert face cuts lengths that are out of range; the oracle sees them cut. */
static void lengths_out_of_range_are_cut_in_buffers(void **state)
{
    (void)state;
    ct_case c;
    init_lengths(&c);
    c.desc.causal = true;
    c.rows_q[1] = 0;
    c.rows_kv[1] = (int32_t)c.len_kv;
    c.rows_q[4] = (int32_t)c.len_q;
    c.rows_kv[4] = 0;
    ct_case_fill(&c);
    ct_case_expect(&c);
    ct_array_set(&c.lengths_q, 0, 0, 0, 1, -3);
    ct_array_set(&c.lengths_kv, 0, 0, 0, 1, 1e6);
    ct_array_set(&c.lengths_q, 0, 0, 0, 4, INT32_MAX);
    ct_array_set(&c.lengths_kv, 0, 0, 0, 4, INT32_MIN);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        if (!plan)
            continue;
        ct_subject("%s: lengths out of range", clattn_kernel_name(row));
        ct_case_run_buffers(&c, plan);
        ct_case_compare(&c);
    }
    ct_case_free(&c);
}

/* ---- Packed rows
 * -------------------------------------------------------------------------------------------- */

static void init_packed(ct_case *c)
{
    init_lengths(c);
    c->desc.lengths_q = c->desc.lengths_kv = false;
    c->desc.packed = true;
}

static void packed_in_every_form(void **state)
{
    (void)state;
    for (int form = 0; form < CT_FORMS; form++) {
        ct_case c;
        init_packed(&c);
        c.form = (ct_form)form;
        c.unaligned = form == CT_FORM_LOOSE;
        for (int b = 0; form == CT_FORM_FUSED && b < 8; b++)
            c.rows_q[b] = c.rows_kv[b];
        ct_case_go(&c);
    }
}

static void packed_with_every_mask(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        ct_case c;
        init_packed(&c);
        c.desc.causal = n & 1;
        c.desc.keep = n & 2;
        c.desc.bias = n & 4;
        c.desc.sinks = n == 3 || n == 4;
        c.desc.window_left = n & 4 ? 6 : -1;
        c.desc.alignment = n == 5 ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
        c.desc.weights = n == 1 ? CLATTN_WEIGHTS_FULL : n == 6 ? CLATTN_WEIGHTS_MEAN : CLATTN_WEIGHTS_NONE;
        c.seed = 500 + (uint64_t)n;
        ct_case_go(&c);
    }
}

static void packed_call_with_fewer_sequences(void **state)
{
    (void)state;
    for (int64_t batch = 1; batch <= 8; batch += 3) {
        ct_case c;
        init_packed(&c);
        c.batch = batch;
        ct_case_go(&c);
    }
}

static void packed_with_every_sequence_empty(void **state)
{
    (void)state;
    for (int which = 1; which < 4; which++) {
        ct_case c;
        init_packed(&c);
        for (int b = 0; b < 8; b++) {
            c.rows_q[b] = which & 1 ? 0 : c.rows_q[b];
            c.rows_kv[b] = which & 2 ? 0 : c.rows_kv[b];
        }
        ct_case_go(&c);
    }
}

/* ---- Nothing to see, nothing to do
 * -------------------------------------------------------------------------- */

static void no_keys_at_all(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        ct_case c;
        init(&c, 20, 7, 0);
        c.desc.causal = n & 1;
        c.desc.sinks = n & 2;
        c.desc.weights = n == 3 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
        ct_case_go(&c);
    }
    ct_case c;
    ct_case_init(&c, 2, 2, 2, 5, 0, D, D);
    c.desc.lse = true;
    ct_case_go(&c);
}

static void empty_axes_succeed_and_write_nothing(void **state)
{
    (void)state;
    const int64_t sizes[][7] = { { 0, 2, 2, 3, 3, D, D },
                                 { 2, 0, 0, 3, 3, D, D },
                                 { 2, 0, 2, 3, 3, D, D },
                                 { 2, 2, 2, 0, 3, D, D },
                                 { 0, 0, 0, 0, 0, D, D } };
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        const int64_t *s = sizes[n];
        ct_case c;
        ct_case_init(&c, s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
        c.desc.lse = true;
        ct_case_go(&c);
    }
}

static void no_columns(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        ct_case c;
        ct_case_init(&c, 2, 2, 1, 5, 7, n & 1 ? 0 : D, n & 2 ? 0 : D);
        c.desc.lse = n != 2;
        c.desc.causal = n & 1;
        c.desc.weights = n == 3 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
        ct_case_go(&c);
    }
}

static void call_smaller_than_the_plan(void **state)
{
    (void)state;
    for (int64_t batch = 0; batch <= 3; batch++)
        for (int64_t len = 0; len <= 16; len += 5) {
            ct_case c;
            ct_case_init(&c, 3, 2, 2, 16, 19, D, D);
            c.desc.lse = c.desc.keep = c.desc.causal = true;
            c.desc.weights = CLATTN_WEIGHTS_MEAN;
            c.batch = batch;
            c.len_q = len;
            c.len_kv = 16 - len;
            ct_case_go(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_with_every_offset),
        cmocka_unit_test(window_with_every_offset),
        cmocka_unit_test(window_wider_than_any_length_is_open),
        cmocka_unit_test(causal_and_window_both_apply),
        cmocka_unit_test(window_is_inclusive),
        cmocka_unit_test(lengths_alone),
        cmocka_unit_test(lengths_move_the_diagonal),
        cmocka_unit_test(lengths_with_masks_and_sinks),
        cmocka_unit_test(lengths_out_of_range_are_cut_in_buffers),
        cmocka_unit_test(packed_in_every_form),
        cmocka_unit_test(packed_with_every_mask),
        cmocka_unit_test(packed_call_with_fewer_sequences),
        cmocka_unit_test(packed_with_every_sequence_empty),
        cmocka_unit_test(no_keys_at_all),
        cmocka_unit_test(empty_axes_succeed_and_write_nothing),
        cmocka_unit_test(no_columns),
        cmocka_unit_test(call_smaller_than_the_plan),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
