/* tests/nn/test_mha_results.c: the multi-head attention module against the same in double, through both
 * faces: its masks in every kind, weights in every form, unequal heads, and PyTorch's numbers for a real
 * layer. */
#include "support/harness.h"

#include "files/load.h"
#include "support/compare.h"
#include "support/mha_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void gives_the_known_answer(void **state)
{
    (void)state;
    const float in[] = { 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 }, out[] = { 2, 0, 0, 2 }, bias[] = { 1, 1 };
    const float x[] = { 1, 0, 0, 1 };
    const double want[] = { 2.3395231, 1.6604769, 1.6604769, 2.3395231 };
    float result[4] = { 0 };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 1, 2, 2, 2, 1);
    const clattn_mha_weights w = { .in_proj_weight = in, .out_proj_weight = out, .out_proj_bias = bias };
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    clattn_mha_call call;
    clattn_mha_call_init(&desc, &call);
    call.query.host = call.key.host = call.value.host = x;
    call.out.host = result;
    ct_ok(clattn_mha_run(mha, &call));
    for (int i = 0; i < 4; i++)
        assert_true(fabs(result[i] - want[i]) < 1e-6);
    clattn_mha_destroy(mha);
}

static void self_attention(void **state)
{
    (void)state;
    ct_mha_check(ct_mha_start(2, 5, 5, 24, 3));
}

static void cross_attention_with_other_widths(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 4, 7, 16, 2);
    m.desc.kdim = 10;
    m.desc.vdim = 21;
    m.sharing = CT_MHA_THREE;
    m.form = CT_MHA_APART;
    ct_mha_check(m);
    m.form = CT_MHA_APART_PACKED_BIAS;
    ct_mha_check(m);
}

static void tensors_may_be_shared_in_any_way(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 4, 7, 16, 2);
    m.sharing = CT_MHA_CROSS;
    ct_mha_check(m);
    m = ct_mha_start(2, 6, 6, 16, 2);
    m.sharing = CT_MHA_QUERY_IS_KEY;
    ct_mha_check(m);
    m.sharing = CT_MHA_THREE;
    ct_mha_check(m);
}

static void weights_packed_and_apart_give_the_same(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 16, 4);
    m.form = CT_MHA_PACKED;
    ct_mha_check(m);
    m.form = CT_MHA_APART;
    ct_mha_check(m);
    m.form = CT_MHA_APART_PACKED_BIAS;
    ct_mha_check(m);
}

static void biases_may_be_missing(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 16, 4);
    m.no_bias = true;
    ct_mha_check(m);
}

static void strides_and_offsets_are_free(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(3, 5, 6, 16, 2);
    m.loose = true;
    m.sharing = CT_MHA_THREE;
    m.desc.weights = CLATTN_WEIGHTS_FULL;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_ADD;
    ct_mha_check(m);
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.mask_extent[0] = 3;
    ct_mha_check(m);
}

static void storage_may_be_16_bits(void **state)
{
    (void)state;
    for (int dtype = CLATTN_F16; dtype <= CLATTN_BF16; dtype++) {
        ct_mha_case m = ct_mha_start(2, 5, 5, 24, 3);
        m.desc.dtype = (clattn_dtype)dtype;
        m.weight_dtype = (clattn_dtype)dtype;
        m.loose = true;
        ct_mha_check(m);
        m.sharing = CT_MHA_THREE;
        m.desc.weights = CLATTN_WEIGHTS_MEAN;
        ct_mha_check(m);
    }
}

static void a_call_may_be_smaller_than_the_description(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(3, 6, 8, 16, 2);
    m.batch = 2;
    m.len_q = 1;
    m.len_kv = 5;
    m.sharing = CT_MHA_CROSS;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.weights = CLATTN_WEIGHTS_FULL;
    ct_mha_check(m);
    m.desc.dtype = CLATTN_F16;
    ct_mha_check(m);
}

static void masks_of_every_kind_apply_together(void **state)
{
    (void)state;
    static const int64_t extents[][4] = { { 2, 3, 4, 6 }, { 1, 1, 4, 6 }, { 1, 3, 4, 6 }, { 2, 1, 1, 6 } };
    for (int padding = CLATTN_MASK_NONE; padding <= CLATTN_MASK_DROP; padding++)
        for (int mask = CLATTN_MASK_NONE; mask <= CLATTN_MASK_ADD; mask++)
            for (size_t i = 0; i < (size_t)ct_by_size(1, 4, 4) && (i == 0 || mask != CLATTN_MASK_NONE); i++) {
                ct_mha_case m = ct_mha_start(2, 4, 6, 12, 3);
                m.sharing = CT_MHA_CROSS;
                m.desc.key_padding = (clattn_mask_kind)padding;
                m.desc.attn_mask = (clattn_mask_kind)mask;
                m.desc.weights = CLATTN_WEIGHTS_FULL;
                m.hide_row = extents[i][2] > 1;
                memcpy(m.mask_extent, extents[i], sizeof m.mask_extent);
                ct_mha_check(m);
            }
}

static void causal_goes_with_the_masks(void **state)
{
    (void)state;
    for (int alignment = CLATTN_BOTTOM_RIGHT; alignment <= CLATTN_TOP_LEFT; alignment++) {
        ct_mha_case m = ct_mha_start(2, 4, 6, 12, 3);
        m.sharing = CT_MHA_CROSS;
        m.desc.causal = true;
        m.desc.alignment = (clattn_alignment)alignment;
        m.desc.key_padding = CLATTN_MASK_DROP;
        m.desc.weights = CLATTN_WEIGHTS_MEAN;
        ct_mha_check(m);
    }
}

static void heads_may_be_unequal(void **state)
{
    (void)state;
    static const clattn_weights weights[] = { CLATTN_WEIGHTS_NONE, CLATTN_WEIGHTS_FULL, CLATTN_WEIGHTS_MEAN };
    for (size_t i = (size_t)ct_by_size(2, 0, 0); i < 3; i++) {
        ct_mha_case m = ct_mha_start(2, 5, 5, 8, 3);
        m.sizes[0] = m.sizes[1] = 3;
        m.sizes[2] = 2;
        m.desc.weights = weights[i];
        ct_mha_check(m);
        m.desc.attn_mask = CLATTN_MASK_DROP;
        m.desc.key_padding = CLATTN_MASK_KEEP;
        const int64_t extent[4] = { 2, 3, 5, 5 };
        memcpy(m.mask_extent, extent, sizeof extent);
        m.loose = true;
        ct_mha_check(m);
        m.desc.attn_mask = CLATTN_MASK_ADD;
        ct_mha_check(m);
    }
}

static void a_row_that_sees_nothing_gives_the_bias(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(1, 3, 4, 8, 2);
    m.sharing = CT_MHA_CROSS;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.hide_row = true;
    ct_mha_make_data(&m);
    ct_mha_expect(&m);
    for (int64_t c = 0; c < 8; c++)
        assert_true(m.want_out[2 * 8 + c] == ct_array_get(&m.bo, 0, 0, 0, c));
    ct_mha_free_data(&m);
    m.want_out = m.want_attention = NULL;
    ct_mha_check(m);
    m = ct_mha_start(2, 3, 0, 8, 2);
    m.sharing = CT_MHA_CROSS;
    ct_mha_check(m);
}

static void empty_sizes_launch_nothing(void **state)
{
    (void)state;
    const ct_mha_case cases[] = { ct_mha_start(0, 3, 4, 8, 2), ct_mha_start(2, 0, 4, 8, 2) };
    for (size_t i = 0; i < 2; i++) {
        ct_mha_case m = cases[i];
        m.sharing = CT_MHA_CROSS;
        ct_mha_check(m);
    }
}

static void make(ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c)
{
    const int64_t extent[4] = { b, h, r, c };
    int64_t stride[4];
    ct_contiguous(extent, stride);
    ct_array_make(array, CT_F32, extent, stride, 0);
}

static void matches_pytorch_on_a_real_layer(void **state)
{
    (void)state;
    static const char *const names[] = { "x",
                                         "key_padding",
                                         "expected",
                                         "expected_weights",
                                         "encoder.layer.0.attention.self.query.weight",
                                         "encoder.layer.0.attention.self.query.bias",
                                         "encoder.layer.0.attention.self.key.weight",
                                         "encoder.layer.0.attention.self.key.bias",
                                         "encoder.layer.0.attention.self.value.weight",
                                         "encoder.layer.0.attention.self.value.bias",
                                         "encoder.layer.0.attention.output.dense.weight",
                                         "encoder.layer.0.attention.output.dense.bias" };
    enum { X, PADDING, EXPECTED, EXPECTED_WEIGHTS, WQ, BQ, WK, BK, WV, BV, WO, BO, ARRAYS };
    tool_array a[ARRAYS];
    tool_error error;
    char where[1024];
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(where, sizeof where, "%s/minilm.safetensors:%s", CLATTN_TEST_DATA, names[i]);
        if (!tool_load(where, &a[i], &error))
            fail_msg("%s", error.text);
    }
    const int64_t batch = a[X].shape[0], len = a[X].shape[1], width = a[X].shape[2];
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, batch, len, len, width, 12);
    desc.key_padding = CLATTN_MASK_KEEP;
    desc.weights = CLATTN_WEIGHTS_FULL;
    const clattn_mha_weights w = { .q_proj_weight = a[WQ].data,
                                   .k_proj_weight = a[WK].data,
                                   .v_proj_weight = a[WV].data,
                                   .q_proj_bias = a[BQ].data,
                                   .k_proj_bias = a[BK].data,
                                   .v_proj_bias = a[BV].data,
                                   .out_proj_weight = a[WO].data,
                                   .out_proj_bias = a[BO].data };
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    unsigned char *keep = ct_alloc(a[PADDING].elements);
    for (size_t i = 0; i < a[PADDING].elements; i++)
        keep[i] = tool_array_get(&a[PADDING], i) != 0;
    ct_array out = { 0 }, weights = { 0 };
    make(&out, batch, 1, len, width);
    make(&weights, batch, 12, len, len);
    clattn_mha_call call;
    clattn_mha_call_init(&desc, &call);
    call.query.host = call.key.host = call.value.host = a[X].data;
    call.key_padding.host = keep;
    call.out = ct_array_output(&out);
    call.attention = ct_array_output(&weights);
    ct_ok(clattn_mha_run(mha, &call));
    double *want =
        ct_alloc(a[EXPECTED_WEIGHTS].elements * sizeof *want + a[EXPECTED].elements * sizeof *want);
    for (size_t i = 0; i < a[EXPECTED].elements; i++)
        want[i] = tool_array_get(&a[EXPECTED], i);
    ct_expect(&out, want, "out");
    for (size_t i = 0; i < a[EXPECTED_WEIGHTS].elements; i++)
        want[i] = tool_array_get(&a[EXPECTED_WEIGHTS], i);
    ct_expect(&weights, want, "weights");
    free(want);
    free(keep);
    ct_array_free(&out);
    ct_array_free(&weights);
    clattn_mha_destroy(mha);
    for (int i = 0; i < ARRAYS; i++)
        tool_array_free(&a[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_known_answer),
        cmocka_unit_test(self_attention),
        cmocka_unit_test(cross_attention_with_other_widths),
        cmocka_unit_test(tensors_may_be_shared_in_any_way),
        cmocka_unit_test(weights_packed_and_apart_give_the_same),
        cmocka_unit_test(biases_may_be_missing),
        cmocka_unit_test(strides_and_offsets_are_free),
        cmocka_unit_test(storage_may_be_16_bits),
        cmocka_unit_test(a_call_may_be_smaller_than_the_description),
        cmocka_unit_test(masks_of_every_kind_apply_together),
        cmocka_unit_test(causal_goes_with_the_masks),
        cmocka_unit_test(heads_may_be_unequal),
        cmocka_unit_test(a_row_that_sees_nothing_gives_the_bias),
        cmocka_unit_test(empty_sizes_launch_nothing),
    };
    const struct CMUnitTest large[] = { cmocka_unit_test(matches_pytorch_on_a_real_layer) };
    int failed = cmocka_run_group_tests_name("mha results", tests, ct_setup, ct_teardown);
    if (ct_suite_size() != CT_TINY)
        failed += cmocka_run_group_tests_name("mha, real weights", large, ct_setup, ct_teardown);
    return failed;
}
