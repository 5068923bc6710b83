/* tests/nn/test_mha_module.c: the multi-head attention module as an object: what it says of itself, what it
 * launches and leaves behind, and what it refuses. */
#include "support/harness.h"

#include "support/cl_shim.h"
#include "support/mha_case.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tests: the module as an object ----------------------------------------------------------------- */

static void info_names_kernel_and_gemm(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 8, 2);
    ct_mha_make_data(&m);
    clattn_mha *mha = ct_mha_create(&m);
    const clattn_attention_info info = clattn_mha_info(mha);
    assert_non_null(info.kernel);
    assert_non_null(info.gemm);
    assert_true(info.workspace_bytes >= 4 * 2 * (5 * 3 + 5) * 8);
    clattn_mha_destroy(mha);
    m.desc.kernel = clattn_kernel_name(clattn_kernel_count() - 1);
    mha = ct_mha_create(&m);
    assert_string_equal(clattn_mha_info(mha).kernel, m.desc.kernel);
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}

static void a_named_gemm_computes_the_projections(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 8, 2);
    m.desc.gemm = "plain";
    ct_mha_check(m);
    ct_mha_make_data(&m);
    clattn_mha *mha = ct_mha_create(&m);
    assert_string_equal(clattn_mha_info(mha).gemm, "plain");
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}

static void one_tensor_for_all_takes_one_product(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 6, 6, 16, 2);
    ct_mha_make_data(&m);
    clattn_mha *mha = ct_mha_create(&m);
    clattn_mha_call call = ct_mha_call_of(&m);
    long before = cl_shim_count().launches;
    ct_ok(clattn_mha_run(mha, &call));
    const long shared = cl_shim_count().launches - before;
    float *copy = ct_alloc(m.query.bytes);
    memcpy(copy, m.query.memory, m.query.bytes);
    call.key.host = call.value.host = copy;
    before = cl_shim_count().launches;
    ct_ok(clattn_mha_run(mha, &call));
    assert_true(cl_shim_count().launches - before > shared);
    free(copy);
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}

static void enqueue_makes_no_object_and_does_not_wait(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 6, 6, 16, 2);
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    ct_mha_make_data(&m);
    clattn_mha *mha = ct_mha_create(&m);
    ct_array *arrays[] = { &m.query, &m.padding, &m.mask, &m.out };
    for (int i = 0; i < 4; i++)
        ct_array_upload(arrays[i], CL_MEM_READ_WRITE);
    const clattn_mha_call call = ct_mha_call_of(&m);
    const cl_shim_counts before = cl_shim_count();
    ct_ok(clattn_mha_enqueue(mha, ct_queue(), &call, 0, NULL, NULL));
    const cl_shim_counts after = cl_shim_count();
    if (strcmp(clattn_mha_info(mha).gemm, "clblast") != 0) { /* which makes kernels and buffers of its own */
        assert_int_equal(after.made[CL_SHIM_BUFFERS], before.made[CL_SHIM_BUFFERS]);
        assert_int_equal(after.made[CL_SHIM_KERNELS], before.made[CL_SHIM_KERNELS]);
    }
    assert_int_equal(after.waits, before.waits);
    ct_cl_ok(clFinish(ct_queue()));
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}

static void leaves_no_objects_behind(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 8, 3);
    m.sizes[0] = m.sizes[1] = 3;
    m.sizes[2] = 2;
    m.desc.weights = CLATTN_WEIGHTS_MEAN;
    m.desc.key_padding = CLATTN_MASK_DROP;
    m.desc.attn_mask = CLATTN_MASK_DROP;
    m.mask_extent[0] = 2;
    m.desc.dtype = CLATTN_F16;
    ct_mha_check(m); /* the programs stay in the context */
    const cl_shim_counts before = cl_shim_count();
    ct_mha_check(m);
    const cl_shim_counts after = cl_shim_count();
    if (!cl_shim_same_live(&before, &after))
        fail_msg("left behind: %s", cl_shim_live_text(&after));
}

static void a_failed_create_leaves_nothing_behind(void **state)
{
    (void)state;
    const float numbers[4 * 8 * 8] = { 0 };
    const clattn_mha_weights w = { .in_proj_weight = numbers, .out_proj_weight = numbers };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 1, 3, 3, 8, 2);
    clattn_mha *mha = NULL;
    ct_ok(clattn_mha_create(ct_context(), &desc, &w, &mha));
    clattn_mha_destroy(mha);
    const cl_shim_counts before = cl_shim_count();
    for (long at = 1; at <= 4; at++) {
        cl_shim_fault.buffer_at = at;
        ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_OUT_OF_MEMORY, "clCreateBuffer");
        cl_shim_clear_faults();
        assert_null(mha);
        const cl_shim_counts after = cl_shim_count();
        assert_true(cl_shim_same_live(&before, &after));
    }
}

/* ---- Tests: what is refused ------------------------------------------------------------------------- */

static void rejects_bad_descriptions(void **state)
{
    (void)state;
    const float numbers[4 * 24 * 24] = { 0 };
    const int64_t short_sum[] = { 8, 8, 7 }, zero[] = { 24, 0, 0 };
    const clattn_mha_weights w = { .in_proj_weight = numbers, .out_proj_weight = numbers };
    clattn_mha_desc good, d;
    clattn_mha_desc_init(&good, 2, 5, 5, 24, 3);
    clattn_mha *mha = NULL;
#define REJECTS(change, status, ...)                                                                         \
    do {                                                                                                     \
        d = good;                                                                                            \
        change;                                                                                              \
        ct_rejects(clattn_mha_create(ct_context(), &d, &w, &mha), status, __VA_ARGS__);                      \
        assert_null(mha);                                                                                    \
    } while (0)
    REJECTS(d.heads = 5; d.embed_dim = 384, CLATTN_INVALID_SHAPE, "heads 5", "embed_dim 384");
    REJECTS(d.head_sizes = short_sum, CLATTN_INVALID_SHAPE, "23", "24");
    REJECTS(d.head_sizes = zero, CLATTN_INVALID_ARGUMENT, "head_sizes[1]", "0");
    REJECTS(d.heads = 0, CLATTN_INVALID_ARGUMENT, "heads 0");
    REJECTS(d.embed_dim = 0, CLATTN_INVALID_ARGUMENT, "embed_dim 0");
    REJECTS(d.batch = -2, CLATTN_INVALID_ARGUMENT, "batch -2");
    REJECTS(d.len_kv = (int64_t)1 << 40, CLATTN_SIZE_OVERFLOW, "len_kv");
    REJECTS(d.kdim = 10, CLATTN_INVALID_SHAPE, "in_proj_weight", "kdim 10", "24");
    REJECTS(d.vdim = 10, CLATTN_INVALID_SHAPE, "in_proj_weight", "vdim 10", "24");
    REJECTS(d.dtype = (clattn_dtype)7, CLATTN_INVALID_ARGUMENT, "dtype 7");
    REJECTS(d.key_padding = CLATTN_MASK_ADD, CLATTN_INVALID_ARGUMENT, "key_padding");
    REJECTS(d.attn_mask = (clattn_mask_kind)8, CLATTN_INVALID_ARGUMENT, "attn_mask 8");
    REJECTS(d.alignment = (clattn_alignment)8, CLATTN_INVALID_ARGUMENT, "alignment 8");
    REJECTS(d.weights = (clattn_weights)8, CLATTN_INVALID_ARGUMENT, "weights 8");
    REJECTS(d.kernel = "nothing", CLATTN_INVALID_ARGUMENT, "nothing");
    REJECTS(d.gemm = "nothing", CLATTN_UNSUPPORTED, "gemm nothing");
    REJECTS(d.batch = d.len_q = d.len_kv = INT32_MAX, CLATTN_SIZE_OVERFLOW, "projections");
    REJECTS(d.len_q = INT32_MAX, CLATTN_OUT_OF_MEMORY, "projections", "limit");
#undef REJECTS
    ct_rejects(clattn_mha_create(NULL, &good, &w, &mha), CLATTN_INVALID_ARGUMENT, "context is NULL");
    ct_rejects(clattn_mha_create(ct_context(), NULL, &w, &mha), CLATTN_INVALID_ARGUMENT, "desc is NULL");
    ct_rejects(clattn_mha_create(ct_context(), &good, NULL, &mha), CLATTN_INVALID_ARGUMENT,
               "weights is NULL");
    ct_rejects(clattn_mha_create(ct_context(), &good, &w, NULL), CLATTN_INVALID_ARGUMENT, "mha is NULL");
    clattn_mha_destroy(NULL);
}

static void rejects_bad_weights(void **state)
{
    (void)state;
    const float numbers[3 * 24 * 24] = { 0 };
    const clattn_mha_weights apart = { .q_proj_weight = numbers,
                                       .k_proj_weight = numbers,
                                       .v_proj_weight = numbers,
                                       .out_proj_weight = numbers };
    const clattn_mha_weights packed = { .in_proj_weight = numbers,
                                        .in_proj_bias = numbers,
                                        .out_proj_weight = numbers };
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, 2, 5, 5, 24, 3);
    clattn_mha *mha = NULL;
    clattn_mha_weights w = apart;
    w.v_proj_weight = NULL;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT,
               "v_proj_weight is NULL");
    w = apart;
    w.out_proj_weight = NULL;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT,
               "out_proj_weight is NULL");
    w = packed;
    w.k_proj_weight = numbers;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "in_proj_weight",
               "k_proj_weight");
    w = packed;
    w.q_proj_bias = numbers;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "in_proj_bias",
               "q_proj_bias");
    w = packed;
    w.dtype = (clattn_dtype)5;
    ct_rejects(clattn_mha_create(ct_context(), &desc, &w, &mha), CLATTN_INVALID_ARGUMENT, "dtype 5");
    assert_null(mha);
}

static void rejects_bad_calls_and_enqueues_nothing(void **state)
{
    (void)state;
    ct_mha_case m = ct_mha_start(2, 5, 5, 8, 2);
    m.desc.attn_mask = CLATTN_MASK_DROP;
    ct_mha_make_data(&m);
    clattn_mha *mha = ct_mha_create(&m);
    ct_array_upload(&m.query, CL_MEM_READ_WRITE);
    ct_array_upload(&m.mask, CL_MEM_READ_WRITE);
    ct_array_upload(&m.out, CL_MEM_READ_WRITE);
    const clattn_mha_call good = ct_mha_call_of(&m);
    const long before = cl_shim_count().commands;
    clattn_mha_call c;
    cl_event event = NULL;
#define REJECTS(change, status, ...)                                                                         \
    do {                                                                                                     \
        c = good;                                                                                            \
        change;                                                                                              \
        ct_rejects(clattn_mha_enqueue(mha, ct_queue(), &c, 0, NULL, &event), status, __VA_ARGS__);           \
    } while (0)
    REJECTS(c.batch = 3, CLATTN_INVALID_SHAPE, "batch 3", "2");
    REJECTS(c.len_kv = -1, CLATTN_INVALID_SHAPE, "len_kv -1");
    REJECTS(c.query.buffer = NULL, CLATTN_INVALID_ARGUMENT, "query");
    REJECTS(c.attn_mask.buffer = NULL, CLATTN_INVALID_ARGUMENT, "attn_mask");
    REJECTS(c.key_padding = c.attn_mask, CLATTN_INVALID_ARGUMENT, "key_padding", "does not ask");
    REJECTS(c.attention = c.out, CLATTN_INVALID_ARGUMENT, "attention", "does not ask");
    REJECTS(c.query.stride[2] = 1000, CLATTN_BUFFER_TOO_SMALL, "query");
    REJECTS(c.query.stride[3] = 2, CLATTN_INVALID_ARGUMENT, "query", "stride 2");
    REJECTS(c.out.buffer = c.query.buffer, CLATTN_OVERLAP, "out");
    REJECTS(c.out.stride[2] = 0, CLATTN_OVERLAP, "out");
    REJECTS(c.value.offset_bytes = 2, CLATTN_INVALID_ARGUMENT, "value");
#undef REJECTS
    ct_rejects(clattn_mha_enqueue(mha, NULL, &good, 0, NULL, &event), CLATTN_INVALID_ARGUMENT, "queue");
    ct_rejects(clattn_mha_enqueue(mha, ct_queue(), NULL, 0, NULL, &event), CLATTN_INVALID_ARGUMENT,
               "call is NULL");
    ct_rejects(clattn_mha_enqueue(NULL, ct_queue(), &good, 0, NULL, &event), CLATTN_INVALID_ARGUMENT,
               "mha is NULL");
    ct_rejects(clattn_mha_run(mha, &good), CLATTN_INVALID_ARGUMENT, "query");
    assert_null(event);
    assert_int_equal(cl_shim_count().commands, before);
    clattn_mha_destroy(mha);
    ct_mha_free_data(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_names_kernel_and_gemm),
        cmocka_unit_test(a_named_gemm_computes_the_projections),
        cmocka_unit_test(one_tensor_for_all_takes_one_product),
        cmocka_unit_test(enqueue_makes_no_object_and_does_not_wait),
        cmocka_unit_test(leaves_no_objects_behind),
        cmocka_unit_test(a_failed_create_leaves_nothing_behind),
        cmocka_unit_test(rejects_bad_descriptions),
        cmocka_unit_test(rejects_bad_weights),
        cmocka_unit_test(rejects_bad_calls_and_enqueues_nothing),
    };
    return cmocka_run_group_tests_name("mha module", tests, ct_setup, ct_teardown);
}
