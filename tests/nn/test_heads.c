/* tests/nn/test_heads.c: clattn_split_heads and clattn_merge_heads against plain loops: equal and unequal
 * heads, all types, loose strides, errors. */
#include "support/harness.h"

#include "support/array.h"
#include "support/cl_shim.h"

#include <string.h>

typedef struct heads_case {
    int64_t batch, len, heads;
    const int64_t *sizes; /* [heads] */
    clattn_dtype dtype;
    bool equal; /* described by head_size */
    bool loose; /* gaps and offsets */
} heads_case;

typedef struct arrays {
    clattn_heads_desc desc;
    int64_t width, largest;
    ct_array whole, split;
} arrays;

static arrays make_arrays(const heads_case *h)
{
    arrays a = { .desc = { h->batch, h->len, h->heads, h->equal ? h->sizes[0] : 0, h->equal ? NULL : h->sizes,
                           h->dtype } };
    for (int64_t i = 0; i < h->heads; i++) {
        a.width += h->sizes[i];
        a.largest = h->sizes[i] > a.largest ? h->sizes[i] : a.largest;
    }
    const int64_t whole[4] = { h->batch, 1, h->len, a.width },
                  split[4] = { h->batch, h->heads, h->len, a.largest };
    const int64_t gap = h->loose ? 3 : 0;
    const int64_t row = a.width + gap, head_row = a.largest + gap, head = h->len * head_row + gap;
    const int64_t whole_stride[4] = { h->len * row + gap, 0, row, 1 };
    const int64_t split_stride[4] = { h->heads * head + gap, head, head_row, 1 };
    const size_t offset = (h->loose ? 5 : 0) * clattn_dtype_bytes(h->dtype);
    ct_array_make(&a.whole, ct_type_of(h->dtype), whole, whole_stride, offset);
    ct_array_make(&a.split, ct_type_of(h->dtype), split, split_stride, offset);
    return a;
}

static void free_arrays(arrays *a)
{
    ct_array_release_buffer(&a->whole);
    ct_array_release_buffer(&a->split);
    ct_array_free(&a->whole);
    ct_array_free(&a->split);
}

static double number(int64_t b, int64_t r, int64_t c)
{
    return (double)((b * 31 + r * 7 + c) % 127 + 1);
}

static void fill_whole(arrays *a)
{
    for (int64_t b = 0; b < a->desc.batch; b++)
        for (int64_t r = 0; r < a->desc.len; r++)
            for (int64_t c = 0; c < a->width; c++)
                ct_array_set(&a->whole, b, 0, r, c, number(b, r, c));
}

static void check_split(const heads_case *h)
{
    arrays a = make_arrays(h);
    fill_whole(&a);
    ct_array_upload(&a.whole, CL_MEM_READ_ONLY);
    ct_array_upload(&a.split, CL_MEM_READ_WRITE);
    const clattn_input x = ct_array_input(&a.whole);
    const clattn_output out = ct_array_output(&a.split);
    ct_ok(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &x, &out, 0, NULL, NULL));
    ct_cl_ok(clFinish(ct_queue()));
    ct_array_download(&a.split);
    for (int64_t b = 0; b < h->batch; b++)
        for (int64_t i = 0, first = 0; i < h->heads; first += h->sizes[i++])
            for (int64_t r = 0; r < h->len; r++)
                for (int64_t c = 0; c < a.largest; c++) {
                    const double want = c < h->sizes[i] ? number(b, r, first + c) : 0;
                    assert_true(ct_array_get(&a.split, b, i, r, c) == want);
                }
    ct_array_check_canaries(&a.split, "split");

    ct_array_poison(&a.whole);
    ct_array_release_buffer(&a.whole);
    ct_array_upload(&a.whole, CL_MEM_READ_WRITE);
    const clattn_input back = ct_array_input(&a.split);
    const clattn_output merged = ct_array_output(&a.whole);
    ct_ok(clattn_merge_heads(ct_context(), ct_queue(), &a.desc, &back, &merged, 0, NULL, NULL));
    ct_cl_ok(clFinish(ct_queue()));
    ct_array_download(&a.whole);
    for (int64_t b = 0; b < h->batch; b++)
        for (int64_t r = 0; r < h->len; r++)
            for (int64_t c = 0; c < a.width; c++)
                assert_true(ct_array_get(&a.whole, b, 0, r, c) == number(b, r, c));
    ct_array_check_canaries(&a.whole, "merged");
    free_arrays(&a);
}

static void check_all(int64_t heads, const int64_t *sizes, bool equal)
{
    for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        for (int loose = 0; loose < 2; loose++)
            check_split(&(heads_case){ 2, 5, heads, sizes, (clattn_dtype)dtype, equal, loose });
}

static void splits_and_merges_equal_heads(void **state)
{
    (void)state;
    check_all(3, (const int64_t[]){ 4, 4, 4 }, true);
    check_all(2, (const int64_t[]){ 40, 40 }, true);
    check_all(1, (const int64_t[]){ 7 }, true);
}

static void splits_and_merges_unequal_heads(void **state)
{
    (void)state;
    check_all(3, (const int64_t[]){ 3, 3, 2 }, false);
    check_all(5, (const int64_t[]){ 1, 35, 35, 2, 1 }, false);
}

static void a_list_of_equal_sizes_is_the_same_as_one_size(void **state)
{
    (void)state;
    check_all(3, (const int64_t[]){ 4, 4, 4 }, false);
}

static void copies_bits_and_not_numbers(void **state)
{
    (void)state;
    const int64_t sizes[] = { 2, 2 };
    arrays a = make_arrays(&(heads_case){ 1, 1, 2, sizes, CLATTN_F32, true, false });
    const uint32_t bits[4] = { 0x7fa00001u, 0xffc12345u, 0x00000001u, 0x80000000u };
    memcpy(a.whole.memory, bits, sizeof bits);
    ct_array_upload(&a.whole, CL_MEM_READ_ONLY);
    ct_array_upload(&a.split, CL_MEM_READ_WRITE);
    const clattn_input x = ct_array_input(&a.whole);
    const clattn_output out = ct_array_output(&a.split);
    ct_ok(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &x, &out, 0, NULL, NULL));
    ct_cl_ok(clFinish(ct_queue()));
    ct_array_download(&a.split);
    assert_memory_equal(a.split.memory, bits, sizeof bits);
    free_arrays(&a);
}

static void gives_an_event_and_waits_for_others(void **state)
{
    (void)state;
    const int64_t sizes[] = { 2, 2 };
    arrays a = make_arrays(&(heads_case){ 1, 3, 2, sizes, CLATTN_F32, true, false });
    fill_whole(&a);
    ct_array_upload(&a.whole, CL_MEM_READ_ONLY);
    ct_array_upload(&a.split, CL_MEM_READ_WRITE);
    const clattn_input x = ct_array_input(&a.whole);
    const clattn_output out = ct_array_output(&a.split);
    cl_int error;
    cl_event gate = clCreateUserEvent(ct_cl(), &error), done = NULL;
    ct_cl_ok(error);
    ct_ok(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &x, &out, 1, &gate, &done));
    cl_int status = CL_COMPLETE;
    ct_cl_ok(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    assert_true(status != CL_COMPLETE);
    ct_cl_ok(clSetUserEventStatus(gate, CL_COMPLETE));
    ct_cl_ok(clWaitForEvents(1, &done));
    ct_array_download(&a.split);
    assert_true(ct_array_get(&a.split, 0, 1, 2, 1) == number(0, 2, 3));
    clReleaseEvent(gate);
    clReleaseEvent(done);
    free_arrays(&a);
}

static void sizes_of_zero_launch_nothing(void **state)
{
    (void)state;
    const clattn_input x = { .stride = { 0, 0, 0, 1 } };
    const clattn_output out = { .stride = { 0, 0, 0, 1 } };
    const clattn_heads_desc descs[] = { { 0, 3, 2, 4, NULL, CLATTN_F32 },
                                        { 2, 0, 2, 4, NULL, CLATTN_F32 },
                                        { 2, 3, 0, 4, NULL, CLATTN_F32 },
                                        { 2, 3, 2, 0, NULL, CLATTN_F16 } };
    const long before = cl_shim_count().launches;
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) {
        ct_ok(clattn_split_heads(ct_context(), ct_queue(), &descs[i], &x, &out, 0, NULL, NULL));
        ct_ok(clattn_merge_heads(ct_context(), ct_queue(), &descs[i], &x, &out, 0, NULL, NULL));
    }
    assert_int_equal(cl_shim_count().launches, before);
}

static void equal_heads_take_one_launch(void **state)
{
    (void)state;
    const int64_t sizes[] = { 3, 3, 2 };
    arrays a = make_arrays(&(heads_case){ 2, 5, 3, sizes, CLATTN_F32, false, false });
    fill_whole(&a);
    ct_array_upload(&a.whole, CL_MEM_READ_ONLY);
    ct_array_upload(&a.split, CL_MEM_READ_WRITE);
    const clattn_input x = ct_array_input(&a.whole);
    const clattn_output out = ct_array_output(&a.split);
    const long before = cl_shim_count().launches;
    ct_ok(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &x, &out, 0, NULL, NULL));
    assert_int_equal(cl_shim_count().launches, before + 2);
    ct_cl_ok(clFinish(ct_queue()));
    free_arrays(&a);
}

static void rejects_what_does_not_fit(void **state)
{
    (void)state;
    const int64_t sizes[] = { 3, 0, 2 };
    arrays a = make_arrays(&(heads_case){ 2, 5, 3, (const int64_t[]){ 3, 3, 2 }, CLATTN_F32, false, false });
    ct_array_upload(&a.whole, CL_MEM_READ_WRITE);
    ct_array_upload(&a.split, CL_MEM_READ_WRITE);
    const clattn_input x = ct_array_input(&a.whole);
    const clattn_output out = ct_array_output(&a.split);
    clattn_heads_desc bad = a.desc;
    cl_event event = NULL;
    bad.head_sizes = sizes;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &bad, &x, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "head_sizes[1]", "0");
    bad = a.desc;
    bad.len = -1;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &bad, &x, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "len", "-1");
    bad = a.desc;
    bad.dtype = (clattn_dtype)9;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &bad, &x, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "dtype 9");
    bad = a.desc;
    bad.len = 50;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &bad, &x, &out, 0, NULL, &event),
               CLATTN_BUFFER_TOO_SMALL, "x");
    clattn_input skewed = x;
    skewed.stride[3] = 2;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &skewed, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "x", "2");
    clattn_output same = out;
    same.buffer = x.buffer;
    same.stride[0] = same.stride[1] = same.stride[2] = 0;
    ct_rejects(clattn_split_heads(ct_context(), ct_queue(), &a.desc, &x, &same, 0, NULL, &event),
               CLATTN_OVERLAP, "out");
    ct_rejects(clattn_split_heads(NULL, ct_queue(), &a.desc, &x, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "context is NULL");
    ct_rejects(clattn_merge_heads(ct_context(), ct_queue(), &a.desc, NULL, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "x is NULL");
    ct_rejects(clattn_split_heads(ct_context(), NULL, &a.desc, &x, &out, 0, NULL, &event),
               CLATTN_INVALID_ARGUMENT, "queue");
    assert_null(event);
    free_arrays(&a);
}

static void leaves_no_objects_behind(void **state)
{
    (void)state;
    const int64_t sizes[] = { 3, 3, 2 };
    check_split(&(heads_case){ 2, 5, 3, sizes, CLATTN_F32, false, false });
    const cl_shim_counts before = cl_shim_count();
    check_split(&(heads_case){ 2, 5, 3, sizes, CLATTN_F32, false, false });
    const cl_shim_counts after = cl_shim_count();
    assert_true(cl_shim_same_live(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_and_merges_equal_heads),
        cmocka_unit_test(splits_and_merges_unequal_heads),
        cmocka_unit_test(a_list_of_equal_sizes_is_the_same_as_one_size),
        cmocka_unit_test(copies_bits_and_not_numbers),
        cmocka_unit_test(gives_an_event_and_waits_for_others),
        cmocka_unit_test(sizes_of_zero_launch_nothing),
        cmocka_unit_test(equal_heads_take_one_launch),
        cmocka_unit_test(rejects_what_does_not_fit),
        cmocka_unit_test(leaves_no_objects_behind),
    };
    return cmocka_run_group_tests_name("heads", tests, ct_setup, ct_teardown);
}
