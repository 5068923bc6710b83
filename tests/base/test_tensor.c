/* The rules that every tensor of a call must keep, each with its message: host/base/tensor.c. */
#include "support/harness.h"

#include "base/tensor.h"

#include <string.h>

/* (2, 4, 16, 64) floats: 8192 of them, 32768 bytes. */
static const int64_t sizes[4] = { 2, 4, 16, 64 };
static const int64_t bhsd[4] = { 4096, 1024, 64, 1 };
static const int64_t bshd[4] = { 4096, 64, 256, 1 };
enum { BYTES = 32768 };

static float memory_a[BYTES / 4], memory_b[BYTES / 4], memory_c[3 * BYTES / 4];

static cl_mem buffer_of(size_t bytes, cl_mem_flags flags)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(ct_cl(), flags, bytes, NULL, &error);
    ct_cl_ok(error);
    return buffer;
}

static ca_tensor host_in(const char *name, const void *host, const int64_t stride[4])
{
    clattn_input in = { .host = host };
    memcpy(in.stride, stride, sizeof in.stride);
    return ca_tensor_in(name, &in, 4, sizes);
}

static ca_tensor host_out(const char *name, void *host, const int64_t stride[4])
{
    clattn_output out = { .host = host };
    memcpy(out.stride, stride, sizeof out.stride);
    return ca_tensor_out(name, &out, 4, sizes);
}

static ca_tensor device_in(const char *name, cl_mem buffer, size_t offset_bytes)
{
    clattn_input in = { .buffer = buffer, .offset_bytes = offset_bytes };
    memcpy(in.stride, bhsd, sizeof in.stride);
    return ca_tensor_in(name, &in, 4, sizes);
}

static ca_tensor device_out(const char *name, cl_mem buffer, size_t offset_bytes)
{
    clattn_output out = { .buffer = buffer, .offset_bytes = offset_bytes };
    memcpy(out.stride, bhsd, sizeof out.stride);
    return ca_tensor_out(name, &out, 4, sizes);
}

static clattn_status check_host(const ca_tensor *tensors, size_t count)
{
    return ca_tensors_check(ct_context(), CA_FACE_HOST, tensors, count);
}

static clattn_status check_buffers(const ca_tensor *tensors, size_t count)
{
    return ca_tensors_check(ct_context(), CA_FACE_BUFFERS, tensors, count);
}

/* ---- Sizes ---- */

static void axes_of_one_lose_their_stride(void **state)
{
    (void)state;
    clattn_input in = { .host = memory_a, .stride = { -5, 7, -9, 3 } };
    ca_tensor tensor = ca_tensor_in("q", &in, 4, (const int64_t[4]){ 1, 2, 1, 1 });
    assert_int_equal(tensor.stride[0], 0);
    assert_int_equal(tensor.stride[1], 7);
    assert_int_equal(tensor.stride[2], 0);
    assert_int_equal(tensor.stride[3], 0);
    ct_ok(check_host(&tensor, 1));
}

static void elements_are_counted_up_to_64_bits(void **state)
{
    (void)state;
    uint64_t elements = 0;
    ca_tensor tensor = { .extent = { INT64_C(1) << 31, INT64_C(1) << 31, 3, 1 } };
    assert_true(ca_tensor_elements(&tensor, &elements));
    assert_true(elements == (uint64_t)3 << 62);
    tensor.extent[2] = 4;
    assert_false(ca_tensor_elements(&tensor, &elements));
    tensor.extent[3] = 0;
    assert_true(ca_tensor_elements(&tensor, &elements));
    assert_true(elements == 0);
}

static void range_reaches_from_first_to_last_element(void **state)
{
    (void)state;
    size_t bytes = 0;
    ca_tensor tensor = { .element_bytes = 2, .extent = { 2, 3, 4, 5 }, .stride = { 1000, 100, 10, 1 } };
    assert_true(ca_tensor_range_bytes(&tensor, &bytes));
    assert_int_equal(bytes, 2 * (1000 + 200 + 30 + 4 + 1));
    tensor.extent[1] = 0;
    assert_true(ca_tensor_range_bytes(&tensor, &bytes));
    assert_int_equal(bytes, 0);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("q", memory_a, bhsd);
    tensor.stride[0] = INT64_MAX;
    tensor.extent[0] = 4;
    ct_rejects(check_host(&tensor, 1), CLATTN_SIZE_OVERFLOW, "q: 4 x 4 x 16 x 64", "exceed size_t");
    tensor = host_in("q", memory_a, (const int64_t[4]){ INT64_MAX / 2, 1024, 64, 1 });
    ct_rejects(check_host(&tensor, 1), CLATTN_SIZE_OVERFLOW, "q: ", "exceed size_t");
    tensor = host_in("mask", memory_a, (const int64_t[4]){ 0, 0, 0, 0 });
    for (int i = 0; i < 4; ++i)
        tensor.extent[i] = INT64_C(1) << 20;
    ct_rejects(check_host(&tensor, 1), CLATTN_SIZE_OVERFLOW, "mask: ");
    tensor = host_in("q", memory_a, bhsd);
    tensor.offset_bytes = SIZE_MAX - 3;
    ct_rejects(check_host(&tensor, 1), CLATTN_SIZE_OVERFLOW, "q: ");
    tensor.offset_bytes = SIZE_MAX - BYTES - 3;
    ct_rejects(check_host(&tensor, 1), CLATTN_SIZE_OVERFLOW, "q: ", "address space");
}

/* ---- The view ---- */

static void good_layouts_pass(void **state)
{
    (void)state;
    ca_tensor tensors[] = { host_in("q", memory_a, bhsd), host_in("k", memory_a, bshd),
                            host_in("v", memory_a, (const int64_t[4]){ 0, 0, 0, 1 }),
                            host_out("out", memory_b, bshd) };
    ct_ok(check_host(tensors, 4));
}

static void offset_must_be_whole_elements(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("q", memory_a, bhsd);
    tensor.offset_bytes = 6;
    ct_rejects(check_host(&tensor, 1), CLATTN_INVALID_ARGUMENT,
               "q: offset of 6 bytes is not a multiple of the element's 4");
}

static void strides_must_not_be_negative(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("k", memory_a, (const int64_t[4]){ 4096, 1024, -1, 1 });
    ct_rejects(check_host(&tensor, 1), CLATTN_INVALID_ARGUMENT,
               "k: stride -1 along rows, must not be negative");
}

static void columns_must_be_contiguous(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("k", memory_a, (const int64_t[4]){ 4096, 1024, 64, 2 });
    ct_rejects(check_host(&tensor, 1), CLATTN_INVALID_ARGUMENT, "k: stride 2 along columns, must be 1");
}

/* ---- The face ---- */

static void buffer_face_takes_no_host_pointer(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("v", memory_a, bhsd);
    ct_rejects(check_buffers(&tensor, 1), CLATTN_INVALID_ARGUMENT,
               "v: host pointer given, this call takes buffers");
    tensor.host = NULL;
    ct_rejects(check_buffers(&tensor, 1), CLATTN_INVALID_ARGUMENT, "v: buffer is NULL");
}

static void host_face_takes_no_buffer(void **state)
{
    (void)state;
    cl_mem buffer = buffer_of(BYTES, CL_MEM_READ_WRITE);
    ca_tensor tensor = device_in("v", buffer, 0);
    ct_rejects(check_host(&tensor, 1), CLATTN_INVALID_ARGUMENT,
               "v: buffer given, this call takes host pointers");
    tensor.buffer = NULL;
    ct_rejects(check_host(&tensor, 1), CLATTN_INVALID_ARGUMENT, "v: host pointer is NULL");
    clReleaseMemObject(buffer);
}

static void tensor_without_elements_needs_no_memory(void **state)
{
    (void)state;
    ca_tensor tensors[2] = { host_in("k", NULL, bhsd), host_out("out", NULL, bhsd) };
    tensors[0].extent[2] = 0;
    tensors[1].extent[0] = 0;
    ct_ok(check_host(tensors, 2));
    ct_ok(check_buffers(tensors, 2));
}

static void absent_tensor_is_not_judged(void **state)
{
    (void)state;
    ca_tensor tensor = host_in("bias", NULL, bhsd);
    tensor.present = false;
    ct_ok(check_host(&tensor, 1));
    ct_ok(check_buffers(&tensor, 1));
}

/* ---- Buffers ---- */

static void buffer_must_hold_the_last_element(void **state)
{
    (void)state;
    cl_mem buffer = buffer_of(BYTES, CL_MEM_READ_WRITE);
    ca_tensor tensor = device_in("q", buffer, 0);
    ct_ok(check_buffers(&tensor, 1));
    tensor.offset_bytes = 4;
    ct_rejects(check_buffers(&tensor, 1), CLATTN_BUFFER_TOO_SMALL,
               "q: buffer of 32768 bytes, but element (1, 3, 15, 63) ends at byte 32772");
    clReleaseMemObject(buffer);
}

static void sub_buffer_has_its_own_size(void **state)
{
    (void)state;
    cl_int error;
    cl_mem whole = buffer_of(2 * BYTES, CL_MEM_READ_WRITE);
    cl_mem part = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                    &(cl_buffer_region){ BYTES, BYTES }, &error);
    ct_cl_ok(error);
    ca_tensor tensor = device_in("q", part, 0);
    ct_ok(check_buffers(&tensor, 1));
    tensor.offset_bytes = 4;
    ct_rejects(check_buffers(&tensor, 1), CLATTN_BUFFER_TOO_SMALL, "buffer of 32768 bytes");
    clReleaseMemObject(part);
    clReleaseMemObject(whole);
}

static void buffer_of_another_context_is_refused(void **state)
{
    (void)state;
    clattn_context *other = NULL;
    ct_ok(clattn_context_create(NULL, &other));
    cl_int error;
    cl_mem buffer = clCreateBuffer(clattn_context_cl(other), CL_MEM_READ_WRITE, BYTES, NULL, &error);
    ct_cl_ok(error);
    ca_tensor tensor = device_in("q", buffer, 0);
    ct_rejects(check_buffers(&tensor, 1), CLATTN_INVALID_ARGUMENT,
               "q: buffer belongs to another OpenCL context");
    clReleaseMemObject(buffer);
    clattn_context_destroy(other);
}

static void buffer_flags_must_allow_the_use(void **state)
{
    (void)state;
    cl_mem read_only = buffer_of(BYTES, CL_MEM_READ_ONLY), write_only = buffer_of(BYTES, CL_MEM_WRITE_ONLY);
    ca_tensor good[2] = { device_in("q", read_only, 0), device_out("out", write_only, 0) };
    ct_ok(check_buffers(good, 2));
    ca_tensor in = device_in("q", write_only, 0), out = device_out("out", read_only, 0);
    ct_rejects(check_buffers(&in, 1), CLATTN_INVALID_ARGUMENT, "q: buffer is CL_MEM_WRITE_ONLY");
    ct_rejects(check_buffers(&out, 1), CLATTN_INVALID_ARGUMENT, "out: buffer is CL_MEM_READ_ONLY");
    clReleaseMemObject(read_only);
    clReleaseMemObject(write_only);
}

/* ---- Overlap ---- */

static void output_must_not_overlap_itself(void **state)
{
    (void)state;
    ca_tensor tensor = host_out("out", memory_a, (const int64_t[4]){ 4096, 1024, 0, 1 });
    ct_rejects(check_host(&tensor, 1), CLATTN_OVERLAP,
               "out overlaps itself: stride 0 along rows is less than the 1 elements within");
    tensor = host_out("out", memory_a, (const int64_t[4]){ 4096, 1024, 63, 1 });
    ct_rejects(check_host(&tensor, 1), CLATTN_OVERLAP,
               "stride 63 along rows is less than the 64 elements within");
    tensor = host_out("out", memory_a, (const int64_t[4]){ 4095, 1024, 64, 1 });
    ct_rejects(check_host(&tensor, 1), CLATTN_OVERLAP, "stride 4095 along batches");
    tensor = host_out("out", memory_a, (const int64_t[4]){ 4096, 1024, 64, 0 });
    ct_rejects(check_host(&tensor, 1), CLATTN_OVERLAP, "stride 0 along columns");
    tensor = host_out("out", memory_c, (const int64_t[4]){ 5000, 70, 280, 1 });
    ct_ok(check_host(&tensor, 1));
}

static void output_must_not_overlap_an_input(void **state)
{
    (void)state;
    ca_tensor tensors[2] = { host_in("q", memory_c, bhsd), host_out("out", memory_c + BYTES / 4, bhsd) };
    ct_ok(check_host(tensors, 2));
    tensors[1].host = memory_c + BYTES / 4 - 1;
    ct_rejects(check_host(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    tensors[0].host = memory_c + BYTES / 4;
    tensors[1].host = memory_c + 1;
    ct_rejects(check_host(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    tensors[1].host = memory_c;
    ct_ok(check_host(tensors, 2));
}

static void outputs_must_not_overlap_each_other(void **state)
{
    (void)state;
    ca_tensor tensors[2] = { host_out("out", memory_c, bhsd), host_out("lse", memory_c + 100, bhsd) };
    ct_rejects(check_host(tensors, 2), CLATTN_OVERLAP, "out overlaps lse");
}

static void inputs_may_overlap(void **state)
{
    (void)state;
    ca_tensor tensors[2] = { host_in("q", memory_a, bhsd), host_in("k", memory_a, bhsd) };
    ct_ok(check_host(tensors, 2));
}

static void overlap_is_found_in_one_buffer(void **state)
{
    (void)state;
    cl_mem buffer = buffer_of(2 * BYTES, CL_MEM_READ_WRITE), other = buffer_of(BYTES, CL_MEM_READ_WRITE);
    ca_tensor tensors[2] = { device_in("q", buffer, 0), device_out("out", buffer, BYTES) };
    ct_ok(check_buffers(tensors, 2));
    tensors[1].offset_bytes = BYTES - 4;
    ct_rejects(check_buffers(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    tensors[1].buffer = other;
    tensors[1].offset_bytes = 0;
    ct_ok(check_buffers(tensors, 2));
    clReleaseMemObject(buffer);
    clReleaseMemObject(other);
}

static void overlap_is_found_through_sub_buffers(void **state)
{
    (void)state;
    cl_int error;
    cl_mem whole = buffer_of(3 * BYTES, CL_MEM_READ_WRITE);
    cl_mem second = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                      &(cl_buffer_region){ BYTES, BYTES }, &error);
    ct_cl_ok(error);
    cl_mem late = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION,
                                    &(cl_buffer_region){ BYTES + BYTES / 2, BYTES }, &error);
    ct_cl_ok(error);
    ca_tensor tensors[2] = { device_in("q", whole, 0), device_out("out", second, 0) };
    ct_ok(check_buffers(tensors, 2));
    tensors[0].offset_bytes = 4;
    ct_rejects(check_buffers(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    tensors[0] = device_in("q", late, 0);
    ct_rejects(check_buffers(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    clReleaseMemObject(late);
    clReleaseMemObject(second);
    clReleaseMemObject(whole);
}

static void overlap_is_found_through_one_host_array(void **state)
{
    (void)state;
    cl_int error;
    const cl_mem_flags over = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    cl_mem first = clCreateBuffer(ct_cl(), over, 2 * BYTES, memory_c, &error);
    ct_cl_ok(error);
    cl_mem second = clCreateBuffer(ct_cl(), over, 2 * BYTES, memory_c + BYTES / 4, &error);
    ct_cl_ok(error);
    const ca_tensor tensors[] = { device_in("q", first, BYTES), device_out("out", second, 0) };
    ct_rejects(check_buffers(tensors, 2), CLATTN_OVERLAP, "out overlaps q");
    const ca_tensor apart[] = { device_in("q", first, BYTES), device_out("out", second, BYTES) };
    ct_ok(check_buffers(apart, 2));
    clReleaseMemObject(second);
    clReleaseMemObject(first);
}

static void output_without_elements_overlaps_nothing(void **state)
{
    (void)state;
    ca_tensor tensors[2] = { host_in("q", memory_a, bhsd), host_out("out", memory_a, bhsd) };
    tensors[1].extent[3] = 0;
    ct_ok(check_host(tensors, 2));
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(axes_of_one_lose_their_stride),
        TEST(elements_are_counted_up_to_64_bits),
        TEST(range_reaches_from_first_to_last_element),
        TEST(sizes_that_overflow_are_refused),
        TEST(good_layouts_pass),
        TEST(offset_must_be_whole_elements),
        TEST(strides_must_not_be_negative),
        TEST(columns_must_be_contiguous),
        TEST(buffer_face_takes_no_host_pointer),
        TEST(host_face_takes_no_buffer),
        TEST(tensor_without_elements_needs_no_memory),
        TEST(absent_tensor_is_not_judged),
        TEST(buffer_must_hold_the_last_element),
        TEST(sub_buffer_has_its_own_size),
        TEST(buffer_of_another_context_is_refused),
        TEST(buffer_flags_must_allow_the_use),
        TEST(output_must_not_overlap_itself),
        TEST(output_must_not_overlap_an_input),
        TEST(outputs_must_not_overlap_each_other),
        TEST(inputs_may_overlap),
        TEST(overlap_is_found_in_one_buffer),
        TEST(overlap_is_found_through_sub_buffers),
        TEST(overlap_is_found_through_one_host_array),
        TEST(output_without_elements_overlaps_nothing),
    };
    return cmocka_run_group_tests_name("tensor", tests, ct_setup, ct_teardown);
}
