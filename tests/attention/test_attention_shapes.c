/* tests/attention/test_attention_shapes.c: lengths around tiles, grouped heads, every layout and storage
 * type, numbers that are large, small or equal. */
#include "support/attention_case.h"
#include "support/compare.h"

#include <math.h>
#include <string.h>

enum { D = 8 };

/* Lengths around every tile size in use, both axes, sparsely combined. One description serves them all. */
static void lengths_around_tiles(void **state)
{
    (void)state;
    const int64_t tiles[] = { 16, 32, 48, 64, 128, 256 };
    int64_t lens[19] = { 1 };
    size_t count = 1;
    for (size_t t = 0; t < (size_t)ct_by_size(1, 2, 6); t++)
        for (int64_t n = tiles[t] - 1; n <= tiles[t] + 1; n++)
            lens[count++] = n;
    for (size_t a = 0; a < count; a++)
        for (size_t step = 0; step < 4; step++) {
            ct_case c;
            ct_case_init(&c, 1, 1, 1, lens[count - 1], lens[count - 1], D, D);
            c.desc.lse = true;
            c.len_q = lens[a];
            c.len_kv = lens[(a * 5 + step * 7 + 3) % count];
            c.seed = a * 10 + step;
            ct_case_go(&c);
        }
}

/* Rows that take few queries only see descriptions with few. */
static void few_queries_many_keys(void **state)
{
    (void)state;
    const int64_t lens_q[] = { 1, 2, 8, 15, 16 };
    const int64_t lens_kv[] = { 1, 16, 255, 256, 257, 700 };
    for (int64_t a = 0; a < ct_by_size(3, 4, 5); a++)
        for (int64_t n = 0; n < ct_by_size(2, 3, 6); n++) {
            ct_case c;
            ct_case_init(&c, 2, 2, 1, lens_q[a], ct_by_size(20, 256, 700), D, D);
            c.desc.lse = true;
            c.desc.causal = n & 1;
            c.len_kv = lens_kv[n];
            ct_case_go(&c);
        }
}

static void head_ratios(void **state)
{
    (void)state;
    const int64_t heads[][2] = { { 1, 1 }, { 3, 1 }, { 4, 2 }, { 6, 3 }, { 8, 1 }, { 12, 12 } };
    for (int n = 0; n < 6; n++)
        for (int form = 0; form < CT_FORMS; form += 2) {
            ct_case c;
            ct_case_init(&c, 2, heads[n][0], heads[n][1], ct_by_size(3, 10, 20), ct_by_size(5, 17, 40), D, D);
            c.desc.lse = c.desc.causal = true;
            c.form = (ct_form)form;
            ct_case_go(&c);
        }
}

/* Copies the logical contents of one tensor to another of the same sizes; head h from head h / group. */
static void copy(ct_array *to, const ct_array *from, int64_t group)
{
    for (int64_t b = 0; b < to->extent[0]; b++)
        for (int64_t h = 0; h < to->extent[1]; h++)
            for (int64_t r = 0; r < to->extent[2]; r++)
                for (int64_t d = 0; d < to->extent[3]; d++)
                    ct_array_set(to, b, h, r, d, ct_array_get(from, b, h / group, r, d));
}

static bool equal(const ct_array *a, const ct_array *b)
{
    for (int64_t n = 0; n < a->extent[0]; n++)
        for (int64_t h = 0; h < a->extent[1]; h++)
            for (int64_t r = 0; r < a->extent[2]; r++)
                for (int64_t d = 0; d < a->extent[3]; d++)
                    if (!ct_close(ct_array_get(a, n, h, r, d), ct_array_get(b, n, h, r, d)))
                        return false;
    return true;
}

static void grouped_equals_expanded(void **state)
{
    (void)state;
    ct_case grouped, expanded;
    int64_t len = ct_by_size(9, 30, 70);
    ct_case_init(&grouped, 2, 6, 2, len, len + 3, D, D);
    ct_case_init(&expanded, 2, 6, 6, len, len + 3, D, D);
    ct_case_fill(&grouped);
    ct_case_fill(&expanded);
    copy(&expanded.q, &grouped.q, 1);
    copy(&expanded.k, &grouped.k, 3);
    copy(&expanded.v, &grouped.v, 3);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        ct_subject("%s: grouped and expanded heads", clattn_kernel_name(row));
        clattn_attention_plan *plan = ct_case_plan(&grouped, row);
        if (!plan)
            continue;
        ct_case_run_buffers(&grouped, plan);
        plan = ct_case_plan(&expanded, row);
        assert_non_null(plan);
        ct_case_run_buffers(&expanded, plan);
        if (!equal(&grouped.out, &expanded.out))
            ct_fail("outputs differ");
    }
    ct_case_free(&grouped);
    ct_case_free(&expanded);
}

static void every_layout_of_every_type(void **state)
{
    (void)state;
    for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        for (int form = 0; form < CT_FORMS; form++)
            for (int unaligned = 0; unaligned < 2; unaligned++) {
                ct_case c;
                int64_t len = ct_by_size(6, 18, 35);
                ct_case_init(&c, 2, 4, 2, len, form == CT_FORM_FUSED ? len : len + 6, D, D);
                c.desc.dtype = (clattn_dtype)dtype;
                c.desc.lse = true;
                c.desc.weights = form & 1 ? CLATTN_WEIGHTS_FULL : CLATTN_WEIGHTS_NONE;
                c.form = (ct_form)form;
                c.unaligned = unaligned;
                c.seed = (uint64_t)(dtype * 100 + form);
                ct_case_go(&c);
            }
}

static void layouts_agree(void **state)
{
    (void)state;
    for (int form = CT_FORM_BSHD; form <= CT_FORM_FUSED; form++) {
        ct_case plain, other;
        int64_t len = ct_by_size(6, 18, 70);
        ct_case_init(&plain, 2, 2, 2, len, len, D, D);
        ct_case_init(&other, 2, 2, 2, len, len, D, D);
        other.form = (ct_form)form;
        ct_case_fill(&plain);
        ct_case_fill(&other);
        copy(&other.q, &plain.q, 1);
        copy(&other.k, &plain.k, 1);
        copy(&other.v, &plain.v, 1);
        for (size_t row = 0; clattn_kernel_name(row); row++) {
            clattn_attention_plan *plan = ct_case_plan(&plain, row);
            ct_subject("%s: layout %d", clattn_kernel_name(row), form);
            if (!plan)
                continue;
            ct_case_run_buffers(&plain, plan);
            ct_case_run_buffers(&other, plan);
            if (!equal(&plain.out, &other.out))
                ct_fail("outputs differ");
        }
        ct_case_free(&plain);
        ct_case_free(&other);
    }
}

/* ---- 16-bit storage
 * ----------------------------------------------------------------------------------------- */

/* ---- Numbers that are large, small, equal
 * ------------------------------------------------------------------- */

static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    const double sizes[] = { 1e4, -1e4, 3e30 };
    for (int n = 0; n < 3; n++) {
        ct_case c;
        ct_case_init(&c, 1, 1, 1, 2, 5, D, D);
        c.desc.scale = n == 2 ? 0x1p-100f : 1;
        c.spread = 0;
        ct_case_fill(&c);
        ct_array_fill(&c.q, 1);
        for (int64_t j = 0; j < 5; j++)
            ct_array_set(&c.k, 0, 0, j, 0, sizes[n] * (double)(j + 1));
        ct_case_check(&c);
        ct_case_free(&c);
    }
}

static void sharp_and_flat_softmax(void **state)
{
    (void)state;
    const double spreads[] = { 0, 1e-3, 1.4 };
    for (int n = 0; n < 3; n++) {
        ct_case c;
        ct_case_init(&c, 1, 2, 2, ct_by_size(5, 20, 60), ct_by_size(9, 30, 300), D, D);
        c.spread = spreads[n];
        c.desc.lse = true;
        ct_case_go(&c);
    }
}

static void scales_and_softcaps(void **state)
{
    (void)state;
    const float scales[] = { 0, -0.3f, 1, 1e-20f, 0.125f };
    const float caps[] = { 0, 0.5f, 20, 1e-6f, 1e30f };
    for (int n = 0; n < 10; n++) {
        ct_case c;
        ct_case_init(&c, 1, 2, 2, ct_by_size(5, 20, 40), ct_by_size(9, 30, 70), D, D);
        c.desc.scale = n < 5 ? scales[n] : (float)NAN;
        c.desc.softcap = n < 5 ? 0 : caps[n - 5];
        c.desc.lse = true;
        c.desc.causal = n & 1;
        ct_case_go(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_around_tiles),
        cmocka_unit_test(few_queries_many_keys),
        cmocka_unit_test(head_ratios),
        cmocka_unit_test(grouped_equals_expanded),
        cmocka_unit_test(every_layout_of_every_type),
        cmocka_unit_test(layouts_agree),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(sharp_and_flat_softmax),
        cmocka_unit_test(scales_and_softcaps),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
