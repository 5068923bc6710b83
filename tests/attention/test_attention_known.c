/* tests/attention/test_attention_known.c: small cases whose answers are known on paper, and the oracle
 * itself. The numbers are first asked of the oracle, then of every row of the table. */
#include "support/attention_case.h"

#include "reference/halves.h"

#include <float.h>
#include <math.h>

#define LN2 0.69314718056
#define LN3 1.09861228867
#define LN4 1.38629436112
#define INF ((double)HUGE_VAL)

static void set_all(ct_array *array, const double *values)
{
    ct_array_set_all(array, values);
}
#define SET(array, ...) set_all(&(array), (const double[]){ __VA_ARGS__ })
#define KNOWN_OUT(c, ...) ct_case_known_out(&(c), (const double[]){ __VA_ARGS__ })
#define KNOWN_LSE(c, ...) ct_case_known_lse(&(c), (const double[]){ __VA_ARGS__ })

/* One batch, one head, scale 1, lse asked for. */
static void init(ct_case *c, int64_t len_q, int64_t len_kv, int64_t d_qk, int64_t d_v)
{
    ct_case_init(c, 1, 1, 1, len_q, len_kv, d_qk, d_v);
    c->desc.scale = 1;
    c->desc.lse = true;
}

/* Scores of zero: q is 0. */
static void init_zero(ct_case *c, int64_t len_q, int64_t len_kv)
{
    init(c, len_q, len_kv, 1, 1);
}

static void fill_zero(ct_case *c)
{
    ct_case_fill(c);
    ct_array_fill(&c->q, 0);
    ct_array_fill(&c->k, 1);
}

static void finish(ct_case *c)
{
    ct_case_check(c);
    ct_case_free(c);
}

static void identity_keys_give_the_printed_numbers(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 2, 2, 2, 2);
    c.desc.scale = NAN;
    ct_case_fill(&c);
    SET(c.q, 1, 0, 0, 1);
    SET(c.k, 1, 0, 0, 1);
    SET(c.v, 1, 2, 3, 4);
    ct_case_expect(&c);
    KNOWN_OUT(c, 1.6604769, 2.6604769, 2.3395231, 3.3395231);
    KNOWN_LSE(c, 1.1079403, 1.1079403);
    finish(&c);
}

static void three_to_one_weights(void **state)
{
    (void)state;
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        ct_case c;
        init(&c, 1, 2, 1, 1);
        c.desc.weights = CLATTN_WEIGHTS_FULL;
        c.desc.bias = with_bias;
        ct_case_fill(&c);
        SET(c.q, 1);
        SET(c.k, LN3, 0);
        SET(c.v, 0, 4);
        if (with_bias)
            ct_array_fill(&c.bias, 2.5);
        ct_case_expect(&c);
        KNOWN_OUT(c, 1);
        KNOWN_LSE(c, with_bias ? LN4 + 2.5 : LN4);
        assert_true(fabs(c.want_weights[0] - 0.75) < 1e-6 && fabs(c.want_weights[1] - 0.25) < 1e-6);
        finish(&c);
    }
}

static void keep_bits_keep(void **state)
{
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        ct_case c;
        init_zero(&c, 1, 3);
        c.desc.keep = true;
        fill_zero(&c);
        SET(c.v, 1, 2, 4);
        SET(c.keep, !drop, !drop, drop);
        ct_case_expect(&c);
        KNOWN_OUT(c, drop ? 4 : 1.5);
        KNOWN_LSE(c, drop ? 0 : LN2);
        finish(&c);
    }
}

static void causal_alignments_differ(void **state)
{
    (void)state;
    for (int top_left = 0; top_left < 2; top_left++)
        for (int64_t len_q = 1; len_q <= 2; len_q++) {
            ct_case c;
            init_zero(&c, len_q, 4);
            c.desc.causal = true;
            c.desc.alignment = top_left ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
            fill_zero(&c);
            SET(c.v, 1, 2, 3, 4);
            ct_case_expect(&c);
            if (len_q == 2 && top_left)
                KNOWN_OUT(c, 1, 1.5);
            else if (len_q == 2)
                KNOWN_OUT(c, 2, 2.5);
            else if (top_left)
                KNOWN_OUT(c, 1);
            else
                KNOWN_OUT(c, 2.5);
            finish(&c);
        }
}

static void row_without_visible_key_is_zero(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        ct_case c;
        init_zero(&c, 2, 2);
        c.desc.keep = way % 2 == 0;
        c.desc.bias = way % 2 == 1;
        c.desc.weights = way >= 2 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
        fill_zero(&c);
        SET(c.v, 1, 3);
        if (c.desc.keep)
            SET(c.keep, 0, 0, 1, 1);
        else
            SET(c.bias, -INF, -INF, 0, 0);
        ct_case_expect(&c);
        KNOWN_OUT(c, 0, 2);
        KNOWN_LSE(c, -INF, LN2);
        finish(&c);
    }
}

static void masked_garbage_stays_out(void **state)
{
    (void)state;
    const double garbage[] = { (double)NAN, INF, -INF };
    for (int way = 0; way < 3; way++) {
        ct_case c;
        init_zero(&c, 3, 3);
        c.desc.keep = true;
        c.desc.causal = true;
        c.keep_extent[2] = 1;
        c.no_poison = true;
        fill_zero(&c);
        SET(c.v, garbage[way], 1, 3);
        ct_array_set(&c.k, 0, 0, 0, 0, garbage[way]);
        for (int64_t j = 0; j < 3; j++)
            ct_array_set(&c.keep, 0, 0, 0, j, j > 0);
        ct_case_expect(&c);
        assert_true(c.want_out[0] == 0 && c.want_out[1] == 1 && c.want_out[2] == 2);
        finish(&c);
    }
}

static void masked_key_loses_to_a_score_of_minus_20000(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 1, 2, 1, 1);
    c.desc.keep = true;
    c.no_poison = true;
    ct_case_fill(&c);
    SET(c.q, -20000);
    SET(c.k, 1, 0);
    SET(c.v, 1, 100);
    SET(c.keep, 1, 0);
    ct_case_expect(&c);
    KNOWN_OUT(c, 1);
    KNOWN_LSE(c, -20000);
    finish(&c);
}

static void f16_scores_pass_65504(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 1, 2, 64, 1);
    c.desc.scale = NAN;
    c.desc.dtype = CLATTN_F16;
    ct_case_fill(&c);
    ct_array_fill(&c.q, 256);
    ct_array_fill(&c.k, 256);
    SET(c.v, 1, 3);
    ct_case_expect(&c);
    KNOWN_OUT(c, 2);
    assert_true(fabs(c.want_lse[0] - 524288 - LN2) < 1e-6);
    finish(&c);
}

static void windows(void **state)
{
    (void)state;
    const struct {
        int64_t left, right;
        double out[5];
    } cases[] = { { 1, 0, { 0, .5, 1.5, 2.5, 3.5 } }, { 0, 0, { 0, 1, 2, 3, 4 } },
                  { 4, 0, { 0, .5, 1, 1.5, 2 } },     { -1, 0, { 0, .5, 1, 1.5, 2 } },
                  { 0, -1, { 2, 2.5, 3, 3.5, 4 } },   { 1, 1, { .5, 1, 2, 3, 3.5 } } };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        ct_case c;
        init_zero(&c, 5, 5);
        c.desc.window_left = cases[n].left;
        c.desc.window_right = cases[n].right;
        fill_zero(&c);
        SET(c.v, 0, 1, 2, 3, 4);
        ct_case_expect(&c);
        ct_case_known_out(&c, cases[n].out);
        finish(&c);
    }
}

static void grouped_heads_are_interleaved(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 1, 4, 2, 1, 1, 1, 1);
    ct_case_fill(&c);
    SET(c.v, 1, 2);
    ct_case_expect(&c);
    KNOWN_OUT(c, 1, 1, 2, 2);
    finish(&c);
}

static void packed_sequences_do_not_mix(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 3, 1, 1, 3, 3, 1, 1);
    c.desc.packed = true;
    c.desc.lse = true;
    for (int b = 0; b < 3; b++)
        c.rows_q[b] = c.rows_kv[b] = (int32_t[]){ 2, 0, 3 }[b];
    fill_zero(&c);
    SET(c.v, 1, 2, 3, 4, 5);
    ct_case_expect(&c);
    KNOWN_OUT(c, 1.5, 1.5, 0, 0, 0, 0, 4, 4, 4);
    finish(&c);
}

static void sink_takes_its_share(void **state)
{
    (void)state;
    ct_case c;
    init_zero(&c, 2, 2);
    c.desc.sinks = true;
    c.desc.keep = true;
    c.desc.weights = CLATTN_WEIGHTS_FULL;
    fill_zero(&c);
    SET(c.v, 1, 3);
    SET(c.keep, 1, 1, 0, 0);
    SET(c.sinks, LN2);
    ct_case_expect(&c);
    KNOWN_OUT(c, 1, 0);
    KNOWN_LSE(c, LN4, LN2);
    finish(&c);
}

static void softcap_bounds_the_score_before_the_bias(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 1, 2, 1, 1);
    c.desc.softcap = 2;
    c.desc.bias = true;
    ct_case_fill(&c);
    SET(c.q, 1e6);
    SET(c.k, 1, -1);
    SET(c.v, 1, 0);
    SET(c.bias, 0, 4 - LN3);
    ct_case_expect(&c);
    KNOWN_OUT(c, 0.75);
    KNOWN_LSE(c, 2 + LN4 - LN3);
    finish(&c);
}

/* torch.finfo(float32).min, the usual filling of float masks, hides nothing where it is everywhere. */
static void lowest_finite_bias_is_a_number(void **state)
{
    (void)state;
    ct_case c;
    init_zero(&c, 1, 2);
    c.desc.bias = true;
    fill_zero(&c);
    SET(c.v, 1, 3);
    SET(c.bias, -FLT_MAX, -FLT_MAX);
    ct_case_expect(&c);
    KNOWN_OUT(c, 2);
    KNOWN_LSE(c, -FLT_MAX);
    finish(&c);
}

static void scale_of_zero_gives_the_mean(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 1, 3, 4, 1);
    c.desc.scale = 0;
    ct_case_fill(&c);
    SET(c.v, 1, 2, 6);
    ct_case_expect(&c);
    KNOWN_OUT(c, 3);
    finish(&c);
}

static void negative_scale_turns_the_order(void **state)
{
    (void)state;
    ct_case c;
    init(&c, 1, 2, 1, 1);
    c.desc.scale = -1;
    ct_case_fill(&c);
    SET(c.q, 1);
    SET(c.k, LN3, 0);
    SET(c.v, 0, 4);
    ct_case_expect(&c);
    KNOWN_OUT(c, 3);
    finish(&c);
}

/* ---- The oracle's own parts
 * --------------------------------------------------------------------------------- */

static void oracle_converts_every_16_bit_pattern(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        double f16 = ref_f16_to((uint16_t)bits);
        double bf16 = ref_bf16_to((uint16_t)bits);
        if (isnan(f16))
            assert_true(isnan(ref_f16_to(ref_f16_from(f16))));
        else
            assert_int_equal(ref_f16_from(f16), bits);
        if (isnan(bf16))
            assert_true(isnan(ref_bf16_to(ref_bf16_from(bf16))));
        else
            assert_int_equal(ref_bf16_from(bf16), bits);
    }
}

static void oracle_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(ref_f16_from(1), 0x3c00);
    assert_int_equal(ref_f16_from(1 + 0x1p-11), 0x3c00);
    assert_int_equal(ref_f16_from(1 + 3 * 0x1p-11), 0x3c02);
    assert_int_equal(ref_f16_from(65504), 0x7bff);
    assert_int_equal(ref_f16_from(65519.99), 0x7bff);
    assert_int_equal(ref_f16_from(65520), 0x7c00);
    assert_int_equal(ref_f16_from(0x1p-24), 0x0001);
    assert_int_equal(ref_f16_from(0x1p-25), 0x0000);
    assert_int_equal(ref_f16_from(0x1.01p-25), 0x0001);
    assert_int_equal(ref_f16_from(-0x1p-14), 0x8400);
    assert_int_equal(ref_bf16_from(1 + 0x1p-8), 0x3f80);
    assert_int_equal(ref_bf16_from(1 + 3 * 0x1p-8), 0x3f82);
    assert_int_equal(ref_bf16_from(3.4e38), 0x7f80);
    assert_int_equal(ref_bf16_from(0x1p-133), 0x0001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_converts_every_16_bit_pattern),
        cmocka_unit_test(oracle_rounds_to_nearest_even),
        cmocka_unit_test(identity_keys_give_the_printed_numbers),
        cmocka_unit_test(three_to_one_weights),
        cmocka_unit_test(keep_bits_keep),
        cmocka_unit_test(causal_alignments_differ),
        cmocka_unit_test(row_without_visible_key_is_zero),
        cmocka_unit_test(masked_garbage_stays_out),
        cmocka_unit_test(masked_key_loses_to_a_score_of_minus_20000),
        cmocka_unit_test(f16_scores_pass_65504),
        cmocka_unit_test(windows),
        cmocka_unit_test(grouped_heads_are_interleaved),
        cmocka_unit_test(packed_sequences_do_not_mix),
        cmocka_unit_test(sink_takes_its_share),
        cmocka_unit_test(softcap_bounds_the_score_before_the_bias),
        cmocka_unit_test(lowest_finite_bias_is_a_number),
        cmocka_unit_test(scale_of_zero_gives_the_mean),
        cmocka_unit_test(negative_scale_turns_the_order),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
