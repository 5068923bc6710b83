/* tests/attention/test_attention_random.c: random problems against the oracle, on every row and through both
 * faces. CLATTN_TEST_SEED chooses other ones; CLATTN_TEST_CASE runs a single one of them. */
#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>

/* What decides which kernels are built; cases share them. */
typedef struct build {
    int64_t d_qk, d_v;
    clattn_dtype dtype;
    bool keep, softcap, bias;
    clattn_dtype bias_dtype;
} build;

static const build BUILDS[] = {
    { 8, 8, CLATTN_F32, true, false, false, CLATTN_F32 },
    { 8, 8, CLATTN_F32, false, true, true, CLATTN_F32 },
    { 8, 8, CLATTN_F16, false, false, false, CLATTN_F32 },
    { 8, 8, CLATTN_BF16, true, true, true, CLATTN_BF16 },
    { 7, 65, CLATTN_F32, true, false, true, CLATTN_F16 },
};

static bool chance(ct_random *random, int64_t percent)
{
    return ct_random_int(random, 1, 100) <= percent;
}

/* Mostly short, sometimes past several tiles, sometimes none. */
static int64_t length(ct_random *random)
{
    if (chance(random, 3))
        return 0;
    if (chance(random, 30))
        return ct_random_int(random, 1, 4);
    if (chance(random, 50))
        return ct_random_int(random, 1, ct_by_size(18, 40, 70));
    return ct_random_int(random, 1, ct_by_size(20, 60, 300));
}

static int64_t window(ct_random *random)
{
    return chance(random, 50) ? -1 : ct_random_int(random, 0, chance(random, 50) ? 5 : 90);
}

static void broadcast(ct_random *random, int64_t extent[4])
{
    for (int axis = 0; axis < 4; axis++)
        extent[axis] = chance(random, axis == 3 ? 15 : 40);
}

static void make(ct_case *c, ct_random *random, const build *b)
{
    int64_t heads_kv = ct_random_int(random, 1, 3);
    int64_t heads_q = heads_kv * ct_random_int(random, 1, 3);
    ct_case_init(c, ct_random_int(random, 1, 3), heads_q, heads_kv, length(random), length(random), b->d_qk,
                 b->d_v);
    c->seed = ct_random_bits(random);
    c->form = (ct_form)ct_random_int(random, 0, CT_FORMS - 1);
    c->unaligned = chance(random, 50);
    c->spread = chance(random, 20) ? 0.1 : 1;
    c->desc.dtype = b->dtype;
    c->desc.bias = b->bias;
    c->desc.bias_dtype = b->bias_dtype;
    c->desc.scale =
        chance(random, 70) ? (float)NAN : (float)(ct_random_normal(random) * 0.7 / sqrt((double)b->d_qk));
    c->desc.softcap = b->softcap ? 0.5f + (float)ct_random_int(random, 0, 40) * 0.25f : 0;
    c->desc.causal = chance(random, 40);
    c->desc.alignment = chance(random, 30) ? CLATTN_TOP_LEFT : CLATTN_BOTTOM_RIGHT;
    if (chance(random, 30)) {
        c->desc.window_left = window(random);
        c->desc.window_right = window(random);
    }
    c->desc.keep = b->keep;
    c->keep_share = chance(random, 30) ? 0.05 : 0.8;
    c->hidden_bias_share = chance(random, 50) ? 0.15 : 0;
    broadcast(random, c->keep_extent);
    broadcast(random, c->bias_extent);
    c->desc.packed = chance(random, 20);
    c->desc.lengths_q = !c->desc.packed && chance(random, 25);
    c->desc.lengths_kv = !c->desc.packed && chance(random, 35);
    c->desc.sinks = chance(random, 25);
    c->desc.lse = chance(random, 70);
    c->desc.weights = chance(random, 60) ? CLATTN_WEIGHTS_NONE : (clattn_weights)ct_random_int(random, 1, 2);
    c->desc.workspace_bytes = chance(random, 25) ? (size_t)ct_random_int(random, 20000, 200000) : 0;
    if (chance(random, 30)) {
        c->desc.batch += ct_random_int(random, 0, 2);
        c->desc.len_q += ct_random_int(random, 0, 40);
        c->desc.len_kv += ct_random_int(random, 0, 40);
    }
    for (int64_t n = 0; c->form == CT_FORM_FUSED && n < c->batch; n++)
        c->rows_q[n] = c->rows_kv[n] =
            (int32_t)ct_random_int(random, 0, c->len_q < c->len_kv ? c->len_q : c->len_kv);
}

static void random_problems(void **state)
{
    (void)state;
    const char *only = getenv("CLATTN_TEST_CASE");
    int64_t builds = ct_by_size(1, 2, sizeof BUILDS / sizeof *BUILDS);
    int64_t cases = ct_by_size(6, 12, 60);
    print_message("[   INFO   ] CLATTN_TEST_SEED=%llu, cases 0 to %lld\n", (unsigned long long)ct_seed(),
                  (long long)(builds * cases - 1));
    for (int64_t n = 0; n < builds * cases; n++) {
        ct_random random = ct_random_from((uint64_t)n * 7919 + 13);
        ct_case c;
        if (only && *only && n != strtoll(only, NULL, 0))
            continue;
        make(&c, &random, &BUILDS[n / cases]);
        c.number = (int)n;
        ct_case_go(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_problems) };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
