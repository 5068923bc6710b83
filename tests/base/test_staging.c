/* Host arrays as buffers, on devices that share the host's memory and on devices that do not:
 * host/base/staging.c. */
#include "support/cl_shim.h"
#include "support/harness.h"

#include "base/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 8, GAP = 5, LOOSE = COLUMNS + GAP, POISON = -77 };

static const int64_t sizes[4] = { 1, 1, ROWS, COLUMNS };

static clattn_context *shared, *separate; /* two views of the one device */
static cl_program program;
static cl_kernel kernel;
static cl_shim_counts at_start;

/* out = in + 1, row by row. */
static const char *const source =
    "__kernel void add_one(__global const float *in, ulong in_at, ulong in_row,\n"
    "                      __global float *out, ulong out_at, ulong out_row)\n"
    "{\n"
    "    const ulong c = get_global_id(0), r = get_global_id(1);\n"
    "    out[out_at + r * out_row + c] = in[in_at + r * in_row + c] + 1.0f;\n"
    "}\n";

static int before_all(void **state)
{
    if (ct_setup(state) != 0)
        return -1;
    cl_int error;
    cl_device_id device = ct_device();
    program = clCreateProgramWithSource(ct_cl(), 1, (const char **)&source, NULL, &error);
    ct_cl_ok(error);
    ct_cl_ok(clBuildProgram(program, 1, &device, "", NULL, NULL));
    kernel = clCreateKernel(program, "add_one", &error);
    ct_cl_ok(error);
    ct_ok(clattn_context_wrap(ct_cl(), device, NULL, &shared));
    cl_shim_fault.type = CL_DEVICE_TYPE_GPU;
    cl_shim_fault.separate_memory = true;
    ct_ok(clattn_context_wrap(ct_cl(), device, NULL, &separate));
    cl_shim_clear_faults();
    return 0;
}

static int after_all(void **state)
{
    clattn_context_destroy(shared);
    clattn_context_destroy(separate);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    return ct_teardown(state);
}

static int before(void **state)
{
    (void)state;
    cl_shim_clear_faults();
    at_start = cl_shim_count();
    return 0;
}

static int after(void **state)
{
    (void)state;
    cl_shim_clear_faults();
    cl_shim_counts now = cl_shim_count();
    if (cl_shim_same_live(&at_start, &now))
        return 0;
    print_error("before: %s\n", cl_shim_live_text(&at_start));
    print_error("after:  %s\n", cl_shim_live_text(&now));
    return -1;
}

/* Aligned memory, `shift` floats past the alignment, every float poisoned. */
static float *floats(size_t count, size_t shift, float **block)
{
    *block = aligned_alloc(128, (count + shift + 64) * 4 / 128 * 128 + 128);
    assert_non_null(*block);
    for (size_t i = 0; i < count + shift; ++i)
        (*block)[i] = POISON;
    return *block + shift;
}

static ca_tensor input(const char *name, const float *host, int64_t row)
{
    return ca_tensor_in(name, &(clattn_input){ .host = host, .stride = { 0, 0, row, 1 } }, 4, sizes);
}

static ca_tensor output(const char *name, float *host, int64_t row)
{
    return ca_tensor_out(name, &(clattn_output){ .host = host, .stride = { 0, 0, row, 1 } }, 4, sizes);
}

static void set_rows(float *values, int64_t row)
{
    for (int64_t r = 0; r < ROWS; ++r)
        for (int64_t c = 0; c < COLUMNS; ++c)
            values[r * row + c] = (float)(r * 100 + c);
}

/* Runs out = in + 1 over staged tensors {in, out}. */
static void run(clattn_context *context, const ca_tensor *in, const ca_tensor *out)
{
    cl_command_queue queue = clattn_context_queue(context);
    const cl_ulong in_at = in->offset_bytes / 4, in_row = (cl_ulong)in->stride[2];
    const cl_ulong out_at = out->offset_bytes / 4, out_row = (cl_ulong)out->stride[2];
    const size_t global[2] = { COLUMNS, ROWS };
    ct_cl_ok(clSetKernelArg(kernel, 0, sizeof(cl_mem), &in->buffer));
    ct_cl_ok(clSetKernelArg(kernel, 1, sizeof in_at, &in_at));
    ct_cl_ok(clSetKernelArg(kernel, 2, sizeof in_row, &in_row));
    ct_cl_ok(clSetKernelArg(kernel, 3, sizeof(cl_mem), &out->buffer));
    ct_cl_ok(clSetKernelArg(kernel, 4, sizeof out_at, &out_at));
    ct_cl_ok(clSetKernelArg(kernel, 5, sizeof out_row, &out_row));
    ct_cl_ok(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL));
}

static void check_rows(const float *values, int64_t row, float added)
{
    for (int64_t r = 0; r < ROWS; ++r)
        for (int64_t c = 0; c < COLUMNS; ++c)
            assert_true(values[r * row + c] == (float)(r * 100 + c) + added);
}

/* Stages, runs and finishes with rows `row` floats apart and both arrays `shift` floats past alignment;
 * returns the copies that OpenCL was asked for. */
static long copies_of_run(clattn_context *context, int64_t row, size_t shift)
{
    const size_t count = ROWS * (size_t)row;
    float *in_block, *out_block;
    float *in = floats(count, shift, &in_block), *out = floats(count, shift, &out_block);
    set_rows(in, row);
    ca_tensor tensors[2] = { input("q", in, row), output("out", out, row) };
    ca_staging *staging = NULL;
    const cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_tensors_check(context, CA_FACE_HOST, tensors, 2));
    ct_ok(ca_staging_create(context, tensors, 2, &staging));
    run(context, &tensors[0], &tensors[1]);
    ct_ok(ca_staging_finish(staging));
    ca_staging_destroy(staging);
    const long copies = cl_shim_count().copies - counts.copies;
    check_rows(out, row, 1);
    check_rows(in, row, 0);
    for (int64_t r = 0; r < ROWS; ++r)
        for (int64_t c = COLUMNS; c < row; ++c)
            assert_true(out[r * row + c] == POISON);
    for (size_t i = 0; i < shift; ++i)
        assert_true(out_block[i] == POISON);
    free(in_block);
    free(out_block);
    return copies;
}

/* ---- Results and copies ---- */

static void shared_memory_is_used_in_place(void **state)
{
    (void)state;
    assert_int_equal(copies_of_run(shared, COLUMNS, 0), 0);
    assert_int_equal(copies_of_run(shared, LOOSE, 0), 0);
}

static void misaligned_arrays_are_copied(void **state)
{
    (void)state;
    assert_true(copies_of_run(shared, COLUMNS, 1) > 0);
    assert_true(copies_of_run(shared, LOOSE, 3) > 0);
}

static void separate_memory_gets_copies(void **state)
{
    (void)state;
    assert_true(copies_of_run(separate, COLUMNS, 0) > 0);
    assert_true(copies_of_run(separate, LOOSE, 5) > 0);
}

static void arrays_at_odd_addresses_work(void **state)
{
    (void)state;
    float *in_block, *out_block;
    floats(ROWS * COLUMNS, 1, &in_block);
    floats(ROWS * COLUMNS, 1, &out_block);
    float values[ROWS * COLUMNS];
    set_rows(values, COLUMNS);
    char *in = (char *)in_block + 3, *out = (char *)out_block + 1;
    memcpy(in, values, sizeof values);
    ca_tensor tensors[2] = { input("q", NULL, COLUMNS), output("out", NULL, COLUMNS) };
    tensors[0].host = in;
    tensors[1].host = out;
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 2, &staging));
    run(shared, &tensors[0], &tensors[1]);
    ct_ok(ca_staging_finish(staging));
    ca_staging_destroy(staging);
    memcpy(values, out, sizeof values);
    check_rows(values, COLUMNS, 1);
    free(in_block);
    free(out_block);
}

static void offset_bytes_count_from_the_pointer(void **state)
{
    (void)state;
    float *in_block, *out_block;
    float *in = floats(32 + ROWS * COLUMNS, 0, &in_block), *out = floats(64 + ROWS * COLUMNS, 0, &out_block);
    set_rows(in + 32, COLUMNS);
    ca_tensor tensors[2] = { input("q", in, COLUMNS), output("out", out, COLUMNS) };
    tensors[0].offset_bytes = 128;
    tensors[1].offset_bytes = 256;
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 2, &staging));
    run(shared, &tensors[0], &tensors[1]);
    ct_ok(ca_staging_finish(staging));
    ca_staging_destroy(staging);
    check_rows(out + 64, COLUMNS, 1);
    for (int i = 0; i < 64; ++i)
        assert_true(out[i] == POISON);
    free(in_block);
    free(out_block);
}

/* ---- Sharing ---- */

static void check_packed(clattn_context *context)
{
    float *block;
    float *packed = floats(ROWS * 3 * COLUMNS, 0, &block);
    ca_tensor tensors[3] = { input("q", packed, 3 * COLUMNS), input("k", packed + COLUMNS, 3 * COLUMNS),
                             input("v", packed + 2 * COLUMNS, 3 * COLUMNS) };
    ca_staging *staging = NULL;
    const cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_staging_create(context, tensors, 3, &staging));
    assert_int_equal(cl_shim_count().made[CL_SHIM_BUFFERS] - counts.made[CL_SHIM_BUFFERS], 1);
    for (size_t i = 0; i < 3; ++i) {
        assert_ptr_equal(tensors[i].buffer, tensors[0].buffer);
        assert_int_equal(tensors[i].offset_bytes, i * COLUMNS * 4);
    }
    size_t bytes = 0;
    ct_cl_ok(clGetMemObjectInfo(tensors[0].buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
    assert_int_equal(bytes, ROWS * 3 * COLUMNS * 4);
    ca_staging_destroy(staging);
    free(block);
}

static void packed_inputs_share_a_buffer(void **state)
{
    (void)state;
    check_packed(shared);
    check_packed(separate);
}

static void packed_inputs_are_read_at_their_own_offset(void **state)
{
    (void)state;
    clattn_context *const contexts[2] = { shared, separate };
    for (int i = 0; i < 2; ++i) {
        float *block, *out_block;
        float *packed = floats(ROWS * 2 * COLUMNS, 0, &block), *out = floats(ROWS * COLUMNS, 0, &out_block);
        set_rows(packed + COLUMNS, 2 * COLUMNS);
        ca_tensor tensors[3] = { input("q", packed, 2 * COLUMNS), input("k", packed + COLUMNS, 2 * COLUMNS),
                                 output("out", out, COLUMNS) };
        ca_staging *staging = NULL;
        ct_ok(ca_staging_create(contexts[i], tensors, 3, &staging));
        run(contexts[i], &tensors[1], &tensors[2]);
        ct_ok(ca_staging_finish(staging));
        ca_staging_destroy(staging);
        check_rows(out, COLUMNS, 1);
        free(block);
        free(out_block);
    }
}

static void ranges_that_only_touch_do_not_share(void **state)
{
    (void)state;
    float *block;
    float *pair = floats(2 * ROWS * COLUMNS, 0, &block);
    ca_tensor tensors[2] = { input("q", pair, COLUMNS), input("k", pair + ROWS * COLUMNS, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 2, &staging));
    assert_ptr_not_equal(tensors[0].buffer, tensors[1].buffer);
    assert_int_equal(tensors[1].offset_bytes, 0);
    ca_staging_destroy(staging);
    free(block);
}

/* q and v do not meet, but k meets both. */
static void sharing_reaches_through_a_third(void **state)
{
    (void)state;
    float *block;
    float *run_of_rows = floats(4 * ROWS * COLUMNS, 0, &block);
    const size_t tensor_floats = ROWS * COLUMNS;
    ca_tensor tensors[3] = { input("q", run_of_rows, COLUMNS),
                             input("v", run_of_rows + tensor_floats + 10, COLUMNS),
                             input("k", run_of_rows + tensor_floats - 10, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 3, &staging));
    assert_ptr_equal(tensors[0].buffer, tensors[1].buffer);
    assert_ptr_equal(tensors[0].buffer, tensors[2].buffer);
    assert_int_equal(tensors[1].offset_bytes, (tensor_floats + 10) * 4);
    ca_staging_destroy(staging);
    free(block);
}

static void overlapping_inputs_of_different_types_are_apart(void **state)
{
    (void)state;
    float *block, *out_block;
    float *values = floats(ROWS * COLUMNS, 0, &block), *out = floats(ROWS * COLUMNS, 0, &out_block);
    set_rows(values, COLUMNS);
    ca_tensor bytes = ca_tensor_in(
        "keep", &(clattn_input){ .host = (char *)values + 1, .stride = { 0, 0, 8, 1 } }, 1, sizes);
    ca_tensor tensors[3] = { bytes, input("q", values, COLUMNS), output("out", out, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 3, &staging));
    assert_ptr_not_equal(tensors[0].buffer, tensors[1].buffer);
    run(shared, &tensors[1], &tensors[2]);
    ct_ok(ca_staging_finish(staging));
    ca_staging_destroy(staging);
    check_rows(out, COLUMNS, 1);
    free(block);
    free(out_block);
}

/* ---- Little and nothing ---- */

static void tensors_without_elements_get_no_buffer(void **state)
{
    (void)state;
    float value = 0;
    ca_tensor tensors[3] = { input("q", &value, COLUMNS), output("out", NULL, COLUMNS),
                             input("bias", NULL, COLUMNS) };
    tensors[0].extent[2] = 0;
    tensors[1].extent[3] = 0;
    tensors[2].present = false;
    ca_staging *staging = NULL;
    const cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_staging_create(shared, tensors, 3, &staging));
    assert_null(tensors[0].buffer);
    assert_null(tensors[1].buffer);
    assert_int_equal(cl_shim_count().made[CL_SHIM_BUFFERS], counts.made[CL_SHIM_BUFFERS]);
    ct_ok(ca_staging_finish(staging));
    ca_staging_destroy(staging);
}

static void destroy_takes_null(void **state)
{
    (void)state;
    ca_staging_destroy(NULL);
}

static void destroy_without_finish_waits_for_the_queue(void **state)
{
    (void)state;
    float *in_block, *out_block;
    float *in = floats(ROWS * COLUMNS, 0, &in_block), *out = floats(ROWS * COLUMNS, 0, &out_block);
    ca_tensor tensors[2] = { input("q", in, COLUMNS), output("out", out, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(shared, tensors, 2, &staging));
    run(shared, &tensors[0], &tensors[1]);
    const cl_shim_counts counts = cl_shim_count();
    ca_staging_destroy(staging);
    assert_true(cl_shim_count().waits > counts.waits);
    free(in_block);
    free(out_block);
}

/* ---- Threads ---- */

/* Two threads write alternate rows of one array. */
typedef struct worker {
    clattn_context *context;
    const float *in;
    float *out;
    bool ok;
} worker;

static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument)
{
    worker *w = argument;
    w->ok = true;
    for (int i = 0; i < 50 && w->ok; ++i) {
        ca_tensor tensors[2] = { input("q", w->in, COLUMNS), output("out", w->out, 2 * COLUMNS) };
        ca_staging *staging = NULL;
        w->ok = ca_staging_create(w->context, tensors, 2, &staging) == CLATTN_OK;
        if (w->ok) {
            pthread_mutex_lock(&kernel_lock);
            run(w->context, &tensors[0], &tensors[1]);
            pthread_mutex_unlock(&kernel_lock);
            w->ok = ca_staging_finish(staging) == CLATTN_OK;
        }
        ca_staging_destroy(staging);
    }
    return NULL;
}

static void threads_may_write_between_each_other_s_rows(void **state)
{
    (void)state;
    float *blocks[3];
    float *in[2] = { floats(ROWS * COLUMNS, 0, &blocks[0]), floats(ROWS * COLUMNS, 0, &blocks[1]) };
    float *out = floats(2 * ROWS * COLUMNS, 1, &blocks[2]);
    set_rows(in[0], COLUMNS);
    set_rows(in[1], COLUMNS);
    worker workers[2];
    pthread_t threads[2];
    const bool has_threads = ct_suite_size() != CT_TINY; /* Oclgrind runs kernels in its first thread only */
    for (int i = 0; i < 2; ++i) {
        workers[i] = (worker){ separate, in[i], out + i * COLUMNS, false };
        if (has_threads)
            assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
        else
            work(&workers[i]);
    }
    for (int i = 0; i < 2 && has_threads; ++i)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; ++i) {
        assert_true(workers[i].ok);
        check_rows(out + i * COLUMNS, 2 * COLUMNS, 1);
    }
    for (int i = 0; i < 3; ++i)
        free(blocks[i]);
}

/* ---- What goes wrong ---- */

/* A context whose device says that it has so much memory. */
static clattn_context *small_device(cl_ulong memory_bytes, cl_ulong max_alloc_bytes)
{
    clattn_context *context = NULL;
    cl_shim_fault.memory_bytes = memory_bytes;
    cl_shim_fault.max_alloc_bytes = max_alloc_bytes;
    ct_ok(clattn_context_wrap(ct_cl(), ct_device(), NULL, &context));
    cl_shim_clear_faults();
    return context;
}

static void tensor_over_the_largest_buffer_names_both_numbers(void **state)
{
    (void)state;
    float *block;
    float *in = floats(ROWS * COLUMNS, 0, &block);
    clattn_context *context = small_device(4096, 191);
    ca_tensor tensor = input("q", in, COLUMNS);
    ca_staging *staging = (ca_staging *)(void *)block;
    ct_rejects(ca_staging_create(context, &tensor, 1, &staging), CLATTN_OUT_OF_MEMORY, "q: 192 bytes",
               "the largest buffer of", "191");
    assert_null(staging);
    assert_null(tensor.buffer);
    clattn_context_destroy(context);
    free(block);
}

static void tensors_over_the_memory_name_both_numbers(void **state)
{
    (void)state;
    float *block;
    float *in = floats(2 * ROWS * COLUMNS, 0, &block);
    clattn_context *context = small_device(383, 192);
    ca_tensor tensors[2] = { input("q", in, COLUMNS), input("k", in + ROWS * COLUMNS, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(context, tensors, 1, &staging));
    ca_staging_destroy(staging);
    tensors[0] = input("q", in, COLUMNS);
    ct_rejects(ca_staging_create(context, tensors, 2, &staging), CLATTN_OUT_OF_MEMORY,
               "k: tensors of 384 bytes so far", "383");
    clattn_context_destroy(context);
    free(block);
}

static void failing_buffer_leaves_nothing(void **state)
{
    (void)state;
    float *block;
    float *in = floats(3 * ROWS * COLUMNS, 0, &block);
    for (long at = 1; at <= 3; ++at) {
        ca_tensor tensors[3] = { input("q", in, COLUMNS), input("k", in + ROWS * COLUMNS, COLUMNS),
                                 output("out", in + 2 * ROWS * COLUMNS, COLUMNS) };
        ca_staging *staging = (ca_staging *)(void *)block;
        cl_shim_fault.buffer_at = at;
        ct_rejects(ca_staging_create(separate, tensors, 3, &staging), CLATTN_OUT_OF_MEMORY,
                   "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)",
                   at == 1   ? "`q`"
                   : at == 2 ? "`k`"
                             : "`out`");
        assert_null(staging);
        for (int i = 0; i < 3; ++i)
            assert_null(tensors[i].buffer);
    }
    free(block);
}

static void failing_map_names_the_output(void **state)
{
    (void)state;
    float *in_block, *out_block;
    float *in = floats(ROWS * COLUMNS, 0, &in_block), *out = floats(ROWS * COLUMNS, 0, &out_block);
    ca_tensor tensors[2] = { input("q", in, COLUMNS), output("out", out, COLUMNS) };
    ca_staging *staging = NULL;
    ct_ok(ca_staging_create(separate, tensors, 2, &staging));
    run(separate, &tensors[0], &tensors[1]);
    cl_shim_fault.map_at = 1;
    ct_rejects(ca_staging_finish(staging), CLATTN_CL_FAILED,
               "clEnqueueMapBuffer: CL_MAP_FAILURE (-12) for `out`");
    ca_staging_destroy(staging);
    free(in_block);
    free(out_block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shared_memory_is_used_in_place),
        TEST(misaligned_arrays_are_copied),
        TEST(separate_memory_gets_copies),
        TEST(arrays_at_odd_addresses_work),
        TEST(offset_bytes_count_from_the_pointer),
        TEST(packed_inputs_share_a_buffer),
        TEST(packed_inputs_are_read_at_their_own_offset),
        TEST(ranges_that_only_touch_do_not_share),
        TEST(sharing_reaches_through_a_third),
        TEST(overlapping_inputs_of_different_types_are_apart),
        TEST(tensors_without_elements_get_no_buffer),
        TEST(destroy_takes_null),
        TEST(destroy_without_finish_waits_for_the_queue),
        TEST(threads_may_write_between_each_other_s_rows),
        TEST(tensor_over_the_largest_buffer_names_both_numbers),
        TEST(tensors_over_the_memory_name_both_numbers),
        TEST(failing_buffer_leaves_nothing),
        TEST(failing_map_names_the_output),
    };
    return cmocka_run_group_tests_name("staging", tests, before_all, after_all);
}
