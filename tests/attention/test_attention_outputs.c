/* tests/attention/test_attention_outputs.c: log-sum-exp, weights and sinks; what must hold between two runs:
 * adding a constant, splitting and merging, repeating. */
#include "support/attention_case.h"
#include "support/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 8 };

static void init(ct_case *c)
{
    ct_case_init(c, 2, 4, 2, ct_by_size(6, 18, 50), ct_by_size(9, 25, 90), D, D);
}

/* Runs `body` for each row that takes `c`, with its plan. */
static void for_rows(ct_case *c, void (*body)(ct_case *c, clattn_attention_plan *plan))
{
    size_t taken = 0;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        char text[512];
        clattn_attention_plan *plan = ct_case_plan(c, row);
        if (!plan)
            continue;
        ct_case_describe(c, text, sizeof text);
        ct_subject("%s: %s", clattn_kernel_name(row), text);
        body(c, plan);
        taken++;
    }
    assert_true(taken > 0);
    ct_case_free(c);
}

/* ---- Sinks, lse, weights
 * ------------------------------------------------------------------------------------ */

static void sinks_with_every_mask(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        ct_case c;
        init(&c);
        c.desc.sinks = c.desc.lse = true;
        c.desc.causal = n & 1;
        c.desc.keep = n & 2;
        c.keep_share = n & 4 ? 0.03 : 0.7;
        c.desc.weights = n & 4 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
        c.seed = (uint64_t)n;
        ct_case_go(&c);
    }
}

static void sink_far_above_or_below_the_scores(void **state)
{
    (void)state;
    const double sinks[] = { 8, 50, -50, 1e4, -1e4, 0 };
    for (int n = 0; n < 6; n++) {
        ct_case c;
        init(&c);
        c.desc.sinks = c.desc.lse = true;
        ct_case_fill(&c);
        ct_array_fill(&c.sinks, sinks[n]);
        ct_case_check(&c);
        ct_case_free(&c);
    }
}

static void fully_masked_row_has_the_sink_as_lse(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    c.desc.sinks = c.desc.lse = c.desc.keep = true;
    c.keep_share = 0;
    ct_case_fill(&c);
    ct_case_expect(&c);
    for (int64_t h = 0; h < 4; h++)
        assert_true(c.want_lse[h * c.len_q] == ct_array_get(&c.sinks, 0, 0, 0, h));
    ct_case_check(&c);
    ct_case_free(&c);
}

static void weights_full_and_mean(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        ct_case c;
        init(&c);
        c.desc.weights = n & 1 ? CLATTN_WEIGHTS_MEAN : CLATTN_WEIGHTS_FULL;
        c.desc.lse = n & 2;
        c.desc.causal = n & 4;
        c.desc.keep = n >= 8;
        c.keep_share = 0.1;
        c.form = n & 2 ? CT_FORM_LOOSE : CT_FORM_BHSD;
        c.seed = (uint64_t)n;
        ct_case_go(&c);
    }
}

static void rows_sum_to_one_or_zero(ct_case *c, clattn_attention_plan *plan)
{
    ct_case_run_buffers(c, plan);
    ct_case_expect(c);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->desc.heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++) {
                double sum = 0;
                bool empty = isinf(c->want_lse[(b * c->desc.heads_q + h) * c->len_q + i]);
                for (int64_t j = 0; j < c->len_kv; j++)
                    sum += ct_array_get(&c->weights, b, h, i, j);
                if (empty ? sum != 0 : !ct_close(sum, 1))
                    ct_fail("row (%lld, %lld, %lld) sums to %.9g", (long long)b, (long long)h, (long long)i,
                            sum);
            }
}

static void weights_sum_to_one_or_zero(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    c.desc.weights = CLATTN_WEIGHTS_FULL;
    c.desc.keep = true;
    c.keep_share = 0.04;
    ct_case_fill(&c);
    for_rows(&c, rows_sum_to_one_or_zero);
}

/* Asking for lse and weights leaves every bit of out alone, on every row. */
static void asking_for_more_does_not_change_out(void **state)
{
    (void)state;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        unsigned char *first = NULL;
        for (int asked = 0; asked < 6; asked++) {
            ct_case c;
            init(&c);
            c.desc.causal = c.desc.keep = true;
            c.desc.lse = asked & 1;
            c.desc.weights = (clattn_weights)(asked / 2);
            ct_case_fill(&c);
            clattn_attention_plan *plan = ct_case_plan(&c, row);
            ct_subject("%s: outputs %d", clattn_kernel_name(row), asked);
            if (plan) {
                ct_case_run_buffers(&c, plan);
                if (!first) {
                    first = ct_alloc(c.out.bytes);
                    memcpy(first, c.out.memory, c.out.bytes);
                }
                if (memcmp(first, c.out.memory, c.out.bytes) != 0)
                    ct_fail("out differs from that without lse and weights");
            }
            ct_case_free(&c);
        }
        free(first);
    }
}

/* ---- Between two runs
 * --------------------------------------------------------------------------------------- */

static void runs_twice_bitwise_equal(ct_case *c, clattn_attention_plan *plan)
{
    ct_array *outputs[] = { &c->out, &c->lse, &c->weights };
    for (int face = 0; face < 2; face++) {
        unsigned char *first[3] = { NULL };
        for (int run = 0; run < 3; run++) {
            if (face)
                ct_case_run_host(c, plan);
            else
                ct_case_run_buffers(c, plan);
            for (int n = 0; n < 3; n++) {
                if (run == 0) {
                    first[n] = ct_alloc(outputs[n]->bytes);
                    memcpy(first[n], outputs[n]->memory, outputs[n]->bytes);
                } else if (memcmp(first[n], outputs[n]->memory, outputs[n]->bytes) != 0) {
                    ct_fail("run %d of output %d differs from the first", run, n);
                }
            }
        }
        for (int n = 0; n < 3; n++)
            free(first[n]);
    }
}

static void repeating_gives_the_same_bits(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 2, 4, 2, ct_by_size(6, 50, 130), ct_by_size(20, 60, 300), D, D);
    c.desc.lse = c.desc.causal = true;
    c.desc.weights = CLATTN_WEIGHTS_MEAN;
    ct_case_fill(&c);
    for_rows(&c, runs_twice_bitwise_equal);
}

/* The second call's contents are other ones, so anything kept from the first shows. */
static void plan_keeps_nothing_from_the_call_before(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        ct_case c;
        ct_case_init(&c, 2, 2, 2, 20, 20, D, D);
        c.desc.lse = c.desc.keep = c.desc.lengths_kv = true;
        c.desc.weights = CLATTN_WEIGHTS_FULL;
        c.batch = n % 2 ? 1 : 2;
        c.len_q = 20 - 3 * n;
        c.len_kv = n % 2 ? 20 : 6;
        c.seed = 700 + (uint64_t)n;
        c.form = (ct_form)(n % 3);
        ct_case_go(&c);
    }
}

static void constant_added_to_values_appears_in_out(ct_case *c, clattn_attention_plan *plan)
{
    const double constant = 3;
    ct_case_expect(c);
    double *before = ct_alloc((size_t)ct_array_elements(&c->out) * sizeof *before);
    int64_t n = 0;
    ct_case_run_buffers(c, plan);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->desc.heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++)
                for (int64_t d = 0; d < D; d++)
                    before[n++] = ct_array_get(&c->out, b, h, i, d);
    for (int sign = 1; sign >= -1; sign -= 2) {
        for (int64_t b = 0; b < c->batch; b++)
            for (int64_t h = 0; h < c->desc.heads_kv; h++)
                for (int64_t j = 0; j < c->len_kv; j++)
                    for (int64_t d = 0; d < D; d++)
                        ct_array_set(&c->v, b, h, j, d, ct_array_get(&c->v, b, h, j, d) + sign * constant);
        if (sign < 0)
            break;
        ct_case_run_buffers(c, plan);
        n = 0;
        for (int64_t b = 0; b < c->batch; b++)
            for (int64_t h = 0; h < c->desc.heads_q; h++)
                for (int64_t i = 0; i < c->len_q; i++) {
                    bool empty = isinf(c->want_lse[(b * c->desc.heads_q + h) * c->len_q + i]);
                    for (int64_t d = 0; d < D; d++, n++) {
                        double got = ct_array_get(&c->out, b, h, i, d) - before[n];
                        if (empty ? got != 0 : !ct_close(got, constant))
                            ct_fail("row (%lld, %lld, %lld) moves by %.9g", (long long)b, (long long)h,
                                    (long long)i, got);
                    }
                }
    }
    free(before);
}

static void constant_added_to_values(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    c.desc.keep = true;
    c.keep_share = 0.05;
    ct_case_fill(&c);
    for_rows(&c, constant_added_to_values_appears_in_out);
}

/* Attends to keys first .. first + count only, by offset and length; brings out and lse to `out` and `lse`.
 */
static void attend_to_part(ct_case *c, clattn_attention_plan *plan, int64_t first, int64_t count, double *out,
                           double *lse)
{
    ct_case part = *c;
    part.len_kv = count;
    part.k.offset_bytes += (size_t)(first * part.k.stride[2]) * ct_type_bytes(part.k.type);
    part.v.offset_bytes += (size_t)(first * part.v.stride[2]) * ct_type_bytes(part.v.type);
    part.k.extent[2] = part.v.extent[2] = count;
    ct_case_run_buffers(&part, plan);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->desc.heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++) {
                *lse++ = ct_array_get(&part.lse, b, h, i, 0);
                for (int64_t d = 0; d < D; d++)
                    *out++ = ct_array_get(&part.out, b, h, i, d);
            }
}

static void parts_merge_to_the_whole(ct_case *c, clattn_attention_plan *plan)
{
    const int64_t rows = c->batch * c->desc.heads_q * c->len_q;
    const int64_t cuts[] = { 0, 1, 16, c->len_kv / 2, c->len_kv - 1, c->len_kv };
    double *out[3], *lse[3];
    for (int n = 0; n < 3; n++) {
        out[n] = ct_alloc((size_t)(rows * D) * sizeof(double));
        lse[n] = ct_alloc((size_t)rows * sizeof(double));
    }
    attend_to_part(c, plan, 0, c->len_kv, out[2], lse[2]);
    for (size_t cut = 0; cut < sizeof cuts / sizeof *cuts; cut++) {
        attend_to_part(c, plan, 0, cuts[cut], out[0], lse[0]);
        attend_to_part(c, plan, cuts[cut], c->len_kv - cuts[cut], out[1], lse[1]);
        for (int64_t r = 0; r < rows; r++) {
            double share = 1 / (1 + exp(lse[1][r] - lse[0][r]));
            double merged = lse[0][r] > lse[1][r] ? lse[0][r] - log(share) : lse[1][r] - log(1 - share);
            if (!ct_close(merged, lse[2][r]))
                ct_fail("lse of row %lld: %.9g from parts, %.9g", (long long)r, merged, lse[2][r]);
            for (int64_t d = 0; d < D; d++) {
                double value = share * out[0][r * D + d] + (1 - share) * out[1][r * D + d];
                if (!ct_close(value, out[2][r * D + d]))
                    ct_fail("row %lld: %.9g from parts, %.9g", (long long)r, value, out[2][r * D + d]);
            }
        }
    }
    for (int n = 0; n < 3; n++) {
        free(out[n]);
        free(lse[n]);
    }
}

static void keys_split_and_merged_by_lse(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 2, 2, 1, ct_by_size(3, 9, 50), ct_by_size(20, 40, 300), D, D);
    c.desc.lse = true;
    ct_case_fill(&c);
    for_rows(&c, parts_merge_to_the_whole);
}

/* Permuting the keys with their values changes nothing but rounding. */
static void order_of_keys_does_not_matter(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 1, 2, 2, ct_by_size(3, 9, 50), ct_by_size(20, 40, 300), D, D);
    c.desc.lse = true;
    ct_case_fill(&c);
    ct_case_expect(&c);
    double before = c.want_out[0];
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < c.len_kv / 2; j++)
            for (int64_t d = 0; d < D; d++) {
                ct_array *both[] = { &c.k, &c.v };
                for (int n = 0; n < 2; n++) {
                    double low = ct_array_get(both[n], 0, h, j, d);
                    ct_array_set(both[n], 0, h, j, d, ct_array_get(both[n], 0, h, c.len_kv - 1 - j, d));
                    ct_array_set(both[n], 0, h, c.len_kv - 1 - j, d, low);
                }
            }
    ct_case_check(&c);
    assert_true(fabs(before - c.want_out[0]) < 1e-12);
    ct_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_with_every_mask),
        cmocka_unit_test(sink_far_above_or_below_the_scores),
        cmocka_unit_test(fully_masked_row_has_the_sink_as_lse),
        cmocka_unit_test(weights_full_and_mean),
        cmocka_unit_test(weights_sum_to_one_or_zero),
        cmocka_unit_test(asking_for_more_does_not_change_out),
        cmocka_unit_test(repeating_gives_the_same_bits),
        cmocka_unit_test(plan_keeps_nothing_from_the_call_before),
        cmocka_unit_test(constant_added_to_values),
        cmocka_unit_test(keys_split_and_merged_by_lse),
        cmocka_unit_test(order_of_keys_does_not_matter),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
