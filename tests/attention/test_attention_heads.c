/* tests/attention/test_attention_heads.c: head sizes, of keys and of values, in every storage type. Each pair
 * is a kernel to build in each row, so there are few pairs, and the small ones are those of the stored
 * problems: every size from 64 stands on both sides, here or in test_attention_halves.c. */
#include "support/attention_case.h"

typedef struct pair {
    int64_t d_qk, d_v;
} pair;

static void go(const pair *sizes, uint64_t seed)
{
    ct_case c;
    ct_case_init(&c, 1, 4, 2, ct_by_size(3, 18, 50), ct_by_size(5, 21, 49), sizes->d_qk, sizes->d_v);
    c.desc.lse = true;
    c.desc.causal = seed & 1;
    c.form = seed % 3 == 0 ? CT_FORM_LOOSE : seed % 3 == 1 ? CT_FORM_BSHD : CT_FORM_FUSED;
    c.unaligned = seed % 4 == 2;
    c.seed = seed;
    /* A chain of 576 f32 sums of spread 1 errs by up to 1.03 times the table's bound, in CLBlast as in our
     * kernels. */
    c.spread = sizes->d_qk > 256 ? 0.7 : 1;
    ct_case_fill(&c);
    ct_case_check(&c);
    /* The same description again with other lengths: the kernels are there. */
    if (c.form != CT_FORM_FUSED) {
        c.len_q = 1;
        c.len_kv = ct_by_size(2, 17, 33);
        c.q.extent[2] = c.out.extent[2] = c.lse.extent[2] = c.len_q;
        c.k.extent[2] = c.v.extent[2] = c.len_kv;
        ct_case_check(&c);
    }
    ct_case_free(&c);
}

static void f32_heads(void **state)
{
    (void)state;
    const pair pairs[] = { { 3, 3 },   { 64, 64 },  { 24, 5 },   { 8, 24 },    { 40, 59 },
                           { 80, 80 }, { 96, 160 }, { 160, 96 }, { 256, 192 }, { 576, 320 } };
    for (int64_t n = 0; n < ct_by_size(2, 3, sizeof pairs / sizeof *pairs); n++)
        go(&pairs[n], (uint64_t)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_heads),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
