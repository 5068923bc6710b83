/* tests/attention/test_attention_far.c: rows as far apart as the device's largest buffer allows, on one that
 * allows it beyond 2^31 elements and 4 GiB. Every row of the table must find them. */
#include "support/harness.h"

#include "reference/halves.h"

#include <math.h>
#include <string.h>

enum { SIZE = 4, ROWS = 2 };

/* Elements between two rows: past 2^31 where one buffer can be that large; simulators get less. */
static int64_t row_stride(void)
{
    const uint64_t largest =
        clattn_context_device(ct_context())->max_alloc_bytes / sizeof(uint16_t) - 4 * SIZE;
    const uint64_t wanted = (uint64_t)ct_by_size(1 << 20, 1 << 26, (INT64_C(1) << 31) + 16);
    return (int64_t)(largest < wanted ? largest : wanted);
}

static cl_mem far_buffer(int64_t stride)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(ct_cl(), CL_MEM_READ_WRITE, (size_t)(stride + 4 * SIZE) * sizeof(uint16_t),
                                   NULL, &error);
    ct_cl_ok(error);
    return buffer;
}

static void put(cl_mem buffer, int64_t at, const double *values)
{
    uint16_t half[SIZE];
    for (int i = 0; i < SIZE; i++)
        half[i] = ref_f16_from(values[i]);
    ct_cl_ok(clEnqueueWriteBuffer(ct_queue(), buffer, CL_TRUE, (size_t)at * sizeof half[0], sizeof half, half,
                                  0, NULL, NULL));
}

static double get(cl_mem buffer, int64_t at)
{
    uint16_t half;
    ct_cl_ok(clEnqueueReadBuffer(ct_queue(), buffer, CL_TRUE, (size_t)at * sizeof half, sizeof half, &half, 0,
                                 NULL, NULL));
    return ref_f16_to(half);
}

/* Scores ln 3 and 0, weights 3/4 and 1/4. */
static void rows_far_apart_are_found(void **state)
{
    (void)state;
    const int64_t stride = row_stride();
    cl_mem in = far_buffer(stride), out = far_buffer(stride);
    put(in, 0, (const double[SIZE]){ 1, 0, 0, 0 });
    put(in, stride, (const double[SIZE]){ 0, 0, 0, 0 });
    put(in, SIZE, (const double[SIZE]){ 0, 4, 8, -4 });
    put(in, stride + SIZE, (const double[SIZE]){ 4, 0, 8, 4 });
    const double want[SIZE] = { 1, 3, 8, -2 };

    int ran = 0;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_desc desc;
        clattn_attention_desc_init(&desc, 1, 1, 1, ROWS, ROWS, SIZE, SIZE);
        desc.dtype = CLATTN_F16;
        desc.scale = logf(3);
        desc.kernel = clattn_kernel_name(row);
        if (clattn_attention_supports(ct_context(), &desc, desc.kernel) == CLATTN_UNSUPPORTED)
            continue;
        ct_subject("%s, rows %lld elements apart", desc.kernel, (long long)stride);
        clattn_attention_plan *plan;
        clattn_attention_call call;
        ct_ok(clattn_attention_plan_create(ct_context(), &desc, &plan));
        clattn_attention_call_init(&desc, CLATTN_BHSD, &call);
        call.q.buffer = call.k.buffer = call.v.buffer = in;
        call.out.buffer = out;
        call.q.stride[2] = 0; /* both queries are the first key */
        call.k.stride[2] = call.v.stride[2] = call.out.stride[2] = stride;
        call.v.offset_bytes = SIZE * sizeof(uint16_t);
        put(out, 0, (const double[SIZE]){ NAN, NAN, NAN, NAN });
        put(out, stride, (const double[SIZE]){ NAN, NAN, NAN, NAN });
        ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL));
        for (int64_t i = 0; i < ROWS; i++)
            for (int c = 0; c < SIZE; c++)
                if (!(fabs(get(out, i * stride + c) - want[c]) < 4e-3))
                    ct_fail("row %lld, column %d is %g instead of %g", (long long)i, c,
                            get(out, i * stride + c), want[c]);
        clattn_attention_plan_destroy(plan);
        ran++;
    }
    assert_true(ran > 0);
    clReleaseMemObject(in);
    clReleaseMemObject(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_far_apart_are_found) };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
