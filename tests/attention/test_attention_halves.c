/* tests/attention/test_attention_halves.c: f16 and bf16 storage: masks, head sizes, the largest and smallest
 * values, what must pass unchanged. */
#include "support/attention_case.h"

enum { D = 8 };

static void half_types_with_masks(void **state)
{
    (void)state;
    for (int dtype = CLATTN_F16; dtype <= CLATTN_BF16; dtype++)
        for (int n = 0; n < 4; n++) {
            ct_case c;
            ct_case_init(&c, 2, 4, 2, ct_by_size(7, 20, 50), ct_by_size(9, 30, 70), D, D);
            c.desc.dtype = (clattn_dtype)dtype;
            c.desc.causal = n & 1;
            c.desc.keep = n & 2;
            c.desc.lse = true;
            c.desc.sinks = n == 3;
            c.seed = (uint64_t)(dtype * 10 + n);
            ct_case_go(&c);
        }
}

/* Inputs near the largest f16: the scores and the sums pass 65504, the output does not. */
static void values_near_the_largest_f16(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 1, 1, 1, 3, 5, D, D);
    c.desc.dtype = CLATTN_F16;
    c.desc.lse = true;
    ct_case_fill(&c);
    ct_array_fill(&c.q, 60000);
    ct_array_fill(&c.k, 65504);
    ct_array_fill(&c.v, 65504);
    ct_case_check(&c);
    for (int64_t d = 0; d < D; d++)
        ct_array_set(&c.v, 0, 0, 2, d, -65504);
    ct_case_check(&c);
    ct_case_free(&c);
}

/* The smallest f16 values are normal f32 numbers: they are not flushed to zero on the way in or out. */
static void subnormal_f16_survives(void **state)
{
    (void)state;
    ct_case c;
    ct_case_init(&c, 1, 1, 1, 1, 1, D, D);
    c.desc.dtype = CLATTN_F16;
    ct_case_fill(&c);
    for (int64_t d = 0; d < D; d++)
        ct_array_set(&c.v, 0, 0, 0, d, (double)(d + 1) * 0x1p-24);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        if (!plan)
            continue;
        ct_subject("%s: subnormal f16", clattn_kernel_name(row));
        ct_case_run_buffers(&c, plan);
        for (int64_t d = 0; d < D; d++)
            if (ct_array_get(&c.out, 0, 0, 0, d) != (double)(d + 1) * 0x1p-24)
                ct_fail("%g became %g", (double)(d + 1) * 0x1p-24, ct_array_get(&c.out, 0, 0, 0, d));
    }
    ct_case_free(&c);
}

/* One visible key hands its value through, so the storage rounds nothing. */
static void single_key_passes_the_value_unchanged(void **state)
{
    (void)state;
    for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++) {
        ct_case c;
        ct_case_init(&c, 1, 2, 1, 4, 1, D, D);
        c.desc.dtype = (clattn_dtype)dtype;
        ct_case_fill(&c);
        for (size_t row = 0; clattn_kernel_name(row); row++) {
            clattn_attention_plan *plan = ct_case_plan(&c, row);
            if (!plan)
                continue;
            ct_subject("%s: one key, type %d", clattn_kernel_name(row), dtype);
            ct_case_run_buffers(&c, plan);
            for (int64_t i = 0; i < 4; i++)
                for (int64_t d = 0; d < D; d++)
                    if (ct_array_get(&c.out, 0, 1, i, d) != ct_array_get(&c.v, 0, 0, 0, d))
                        ct_fail("%.9g became %.9g", ct_array_get(&c.v, 0, 0, 0, d),
                                ct_array_get(&c.out, 0, 1, i, d));
        }
        ct_case_free(&c);
    }
}

static void go(int64_t d_qk, int64_t d_v, clattn_dtype dtype, uint64_t seed)
{
    ct_case c;
    ct_case_init(&c, 1, 4, 2, ct_by_size(3, 18, 50), ct_by_size(5, 21, 49), d_qk, d_v);
    c.desc.dtype = dtype;
    c.desc.causal = c.desc.lse = true;
    c.form = (ct_form)(seed % 3);
    c.unaligned = seed & 1;
    c.seed = seed;
    ct_case_go(&c);
}

static void f16_heads(void **state)
{
    (void)state;
    const int64_t pairs[][2] = { { 59, 64 }, { 128, 40 }, { 320, 256 } };
    for (int64_t n = 0; n < ct_by_size(1, 1, 3); n++)
        go(pairs[n][0], pairs[n][1], CLATTN_F16, (uint64_t)n);
}

static void bf16_heads(void **state)
{
    (void)state;
    const int64_t pairs[][2] = { { 5, 1 }, { 64, 128 }, { 192, 576 } };
    for (int64_t n = 0; n < ct_by_size(1, 1, 3); n++)
        go(pairs[n][0], pairs[n][1], CLATTN_BF16, (uint64_t)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_types_with_masks),
        cmocka_unit_test(f16_heads),
        cmocka_unit_test(bf16_heads),
        cmocka_unit_test(values_near_the_largest_f16),
        cmocka_unit_test(subnormal_f16_survives),
        cmocka_unit_test(single_key_passes_the_value_unchanged),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
