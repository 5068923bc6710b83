/* tests/attention/test_attention_errors.c: what bad descriptions and bad calls get: the status, a message
 * that names the value and the rule, and nothing half done. */
#include "support/attention_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { D = 8 };

/* ---- Descriptions
 * ------------------------------------------------------------------------------------------- */

static clattn_attention_desc valid(void)
{
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 2, 4, 2, 6, 9, D, D);
    return desc;
}

/* The same answer from plan, supports and run; no plan. */
static void refused(const clattn_attention_desc *desc, clattn_status want, const char *first,
                    const char *second)
{
    clattn_attention_plan *plan = (clattn_attention_plan *)(uintptr_t)8;
    clattn_attention_call call;
    memset(&call, 0, sizeof call);
    ct_rejects(clattn_attention_plan_create(ct_context(), desc, &plan), want, first, second);
    assert_null(plan);
    ct_rejects(clattn_attention_run(ct_context(), desc, &call), want, first, second);
    for (size_t row = 0; clattn_kernel_name(row); row++)
        ct_rejects(clattn_attention_supports(ct_context(), desc, clattn_kernel_name(row)), want, first,
                   second);
}

static void rejects_heads_that_do_not_divide(void **state)
{
    (void)state;
    const int64_t heads[][2] = { { 6, 4 }, { 3, 2 }, { 2, 4 }, { 4, 0 } };
    for (size_t n = 0; n < 4; n++) {
        char q[32], kv[32];
        clattn_attention_desc desc = valid();
        desc.heads_q = heads[n][0];
        desc.heads_kv = heads[n][1];
        snprintf(q, sizeof q, "heads_q %d", (int)heads[n][0]);
        snprintf(kv, sizeof kv, "heads_kv %d", (int)heads[n][1]);
        refused(&desc, CLATTN_INVALID_SHAPE, q, kv);
    }
}

static void rejects_sizes_out_of_range(void **state)
{
    (void)state;
    const char *const names[] = { "batch", "heads_q", "heads_kv", "len_q", "len_kv", "d_qk", "d_v" };
    for (size_t n = 0; n < 7; n++) {
        clattn_attention_desc desc = valid();
        int64_t *const sizes[] = { &desc.batch,  &desc.heads_q, &desc.heads_kv, &desc.len_q,
                                   &desc.len_kv, &desc.d_qk,    &desc.d_v };
        *sizes[n] = -3;
        refused(&desc, CLATTN_INVALID_ARGUMENT, names[n], "-3");
        *sizes[n] = INT64_MIN;
        refused(&desc, CLATTN_INVALID_ARGUMENT, names[n], "-9223372036854775808");
        *sizes[n] = (int64_t)1 << 31;
        refused(&desc, CLATTN_SIZE_OVERFLOW, names[n], "2147483648");
        *sizes[n] = INT64_MAX;
        refused(&desc, CLATTN_SIZE_OVERFLOW, names[n], "9223372036854775807");
    }
}

static void rejects_unknown_enumerators(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    desc.dtype = (clattn_dtype)17;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "dtype", "17");
    desc = valid();
    desc.bias = true;
    desc.bias_dtype = (clattn_dtype)18;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "bias_dtype", "18");
    desc = valid();
    desc.alignment = (clattn_alignment)19;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "alignment", "19");
    desc = valid();
    desc.weights = (clattn_weights)20;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "weights", "20");
}

static void rejects_scale_and_softcap_without_meaning(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    desc.scale = HUGE_VALF;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "scale", "inf");
    desc.scale = -HUGE_VALF;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "scale", "-inf");
    desc = valid();
    desc.softcap = -1.5f;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "softcap", "-1.5");
    desc.softcap = HUGE_VALF;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "softcap", "inf");
    desc.softcap = (float)NAN;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "softcap", "nan");
}

static void rejects_windows_below_open(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    desc.window_left = -2;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "window", "-2");
    desc = valid();
    desc.window_right = -7;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "window", "-7");
}

static void rejects_packed_with_lengths(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    desc.packed = desc.lengths_q = true;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "packed", "lengths_q");
    desc.lengths_q = false;
    desc.lengths_kv = true;
    refused(&desc, CLATTN_INVALID_ARGUMENT, "packed", "lengths_kv");
}

static void rejects_null(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    clattn_attention_plan *plan = NULL;
    clattn_attention_call call;
    memset(&call, 0, sizeof call);
    ct_rejects(clattn_attention_plan_create(NULL, &desc, &plan), CLATTN_INVALID_ARGUMENT, "context", "NULL");
    ct_rejects(clattn_attention_plan_create(ct_context(), NULL, &plan), CLATTN_INVALID_ARGUMENT, "desc",
               "NULL");
    ct_rejects(clattn_attention_plan_create(ct_context(), &desc, NULL), CLATTN_INVALID_ARGUMENT, "plan",
               "NULL");
    ct_rejects(clattn_attention_supports(NULL, &desc, clattn_kernel_name(0)), CLATTN_INVALID_ARGUMENT,
               "context");
    ct_rejects(clattn_attention_supports(ct_context(), NULL, clattn_kernel_name(0)), CLATTN_INVALID_ARGUMENT,
               "desc");
    ct_rejects(clattn_attention_supports(ct_context(), &desc, NULL), CLATTN_INVALID_ARGUMENT, "kernel");
    ct_rejects(clattn_attention_run(ct_context(), NULL, &call), CLATTN_INVALID_ARGUMENT, "desc", "NULL");
    ct_rejects(clattn_attention_run(ct_context(), &desc, NULL), CLATTN_INVALID_ARGUMENT, "call", "NULL");
    ct_rejects(clattn_attention_plan_run(NULL, &call), CLATTN_INVALID_ARGUMENT, "plan", "NULL");
    ct_rejects(clattn_attention_enqueue(NULL, ct_queue(), &call, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "plan");
    ct_ok(clattn_attention_plan_create(ct_context(), &desc, &plan));
    ct_rejects(clattn_attention_enqueue(plan, ct_queue(), NULL, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "call");
    ct_rejects(clattn_attention_plan_run(plan, NULL), CLATTN_INVALID_ARGUMENT, "call", "NULL");
    clattn_attention_plan_destroy(plan);
    clattn_attention_plan_destroy(NULL);
    assert_null(clattn_attention_plan_info(NULL).kernel);
    clattn_attention_desc_init(NULL, 1, 1, 1, 1, 1, 1, 1);
    clattn_attention_call_init(&desc, CLATTN_BHSD, NULL);
    clattn_attention_call_init(NULL, CLATTN_BHSD, &call);
}

static void unknown_kernel_lists_the_names(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    clattn_attention_plan *plan = NULL;
    desc.kernel = "warp-9";
    for (size_t row = 0; clattn_kernel_name(row); row++)
        ct_rejects(clattn_attention_plan_create(ct_context(), &desc, &plan), CLATTN_INVALID_ARGUMENT,
                   "warp-9", clattn_kernel_name(row));
    assert_null(plan);
    ct_rejects(clattn_attention_supports(ct_context(), &desc, "warp-9"), CLATTN_INVALID_ARGUMENT, "warp-9");
}

/* Some row does not take heads of 4096; forced, it gives the reason that supports gives. */
static void forced_kernel_that_refuses_gives_its_reason(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    size_t refusing = 0;
    desc.d_qk = desc.d_v = 4096;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        char reason[512];
        clattn_attention_plan *plan = NULL;
        desc.kernel = NULL;
        if (clattn_attention_supports(ct_context(), &desc, clattn_kernel_name(row)) == CLATTN_OK)
            continue;
        snprintf(reason, sizeof reason, "%s", clattn_last_message());
        desc.kernel = clattn_kernel_name(row);
        ct_rejects(clattn_attention_plan_create(ct_context(), &desc, &plan), CLATTN_UNSUPPORTED, reason,
                   desc.kernel);
        assert_null(plan);
        refusing++;
    }
    assert_true(refusing > 0);
}

/* ---- Calls
 * -------------------------------------------------------------------------------------------------- */

/* A valid call in buffers or host arrays, to be broken in one place. */
typedef struct bench {
    ct_case c;
    clattn_attention_plan *plan;
    clattn_attention_call call;
    bool host;
} bench;

static void bench_open(bench *t, bool host)
{
    ct_array *arrays[] = { &t->c.q, &t->c.k, &t->c.v, &t->c.out, &t->c.lse, &t->c.keep, &t->c.weights };
    ct_case_init(&t->c, 2, 4, 2, 6, 9, D, D);
    t->c.desc.lse = t->c.desc.keep = true;
    t->c.desc.weights = CLATTN_WEIGHTS_FULL;
    t->host = host;
    ct_case_fill(&t->c);
    ct_ok(clattn_attention_plan_create(ct_context(), &t->c.desc, &t->plan));
    for (int n = 0; n < 7 && !host; n++)
        ct_array_upload(arrays[n], CL_MEM_READ_WRITE);
    ct_case_call(&t->c, &t->call);
}

static clattn_status bench_run(bench *t)
{
    cl_event event = (cl_event)(uintptr_t)8;
    if (t->host)
        return clattn_attention_plan_run(t->plan, &t->call);
    clattn_status status = clattn_attention_enqueue(t->plan, ct_queue(), &t->call, 0, NULL, &event);
    if (status != CLATTN_OK) {
        assert_null(event);
    } else {
        ct_cl_ok(clWaitForEvents(1, &event));
        ct_cl_ok(clReleaseEvent(event));
    }
    return status;
}

/* Nothing was written, the call as it was works. */
static void bench_close(bench *t)
{
    if (!t->host) {
        ct_array_download(&t->c.out);
        ct_array_download(&t->c.weights);
    }
    int64_t extent[4] = { 0, 0, 0, 0 };
    ct_array none = t->c.out;
    memcpy(none.extent, extent, sizeof none.extent);
    ct_array_check_canaries(&none, "out of a refused call");
    none = t->c.weights;
    memcpy(none.extent, extent, sizeof none.extent);
    ct_array_check_canaries(&none, "weights of a refused call");
    ct_case_call(&t->c, &t->call);
    ct_ok(bench_run(t));
    clattn_attention_plan_destroy(t->plan);
    ct_case_free(&t->c);
}

#define broken(t, want, ...)                                                                                 \
    do {                                                                                                     \
        ct_rejects(bench_run(&(t)), (want), __VA_ARGS__);                                                    \
        ct_case_call(&(t).c, &(t).call);                                                                     \
    } while (0)

static void rejects_call_larger_than_the_plan(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        bench t = { 0 };
        bench_open(&t, host);
        t.call.batch = 3;
        broken(t, CLATTN_INVALID_SHAPE, "batch 3", "2");
        t.call.len_q = 7;
        broken(t, CLATTN_INVALID_SHAPE, "len_q 7", "6");
        t.call.len_kv = 10;
        broken(t, CLATTN_INVALID_SHAPE, "len_kv 10", "9");
        t.call.len_kv = -1;
        broken(t, CLATTN_INVALID_SHAPE, "len_kv -1");
        t.call.batch = INT64_MIN;
        broken(t, CLATTN_INVALID_SHAPE, "batch -9223372036854775808");
        bench_close(&t);
    }
}

static void rejects_missing_and_superfluous_tensors(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        bench t = { 0 };
        bench_open(&t, host);
        clattn_input *const inputs[] = { &t.call.q, &t.call.k, &t.call.v, &t.call.keep };
        const char *const input_names[] = { "q", "k", "v", "keep" };
        for (int n = 0; n < 4; n++) {
            inputs[n]->buffer = NULL;
            inputs[n]->host = NULL;
            broken(t, CLATTN_INVALID_ARGUMENT, input_names[n], "NULL");
        }
        clattn_output *const outputs[] = { &t.call.out, &t.call.lse, &t.call.weights };
        const char *const output_names[] = { "out", "lse", "weights" };
        for (int n = 0; n < 3; n++) {
            outputs[n]->buffer = NULL;
            outputs[n]->host = NULL;
            broken(t, CLATTN_INVALID_ARGUMENT, output_names[n], "NULL");
        }
        clattn_input *const extra[] = { &t.call.bias,       &t.call.sinks,        &t.call.lengths_q,
                                        &t.call.lengths_kv, &t.call.cu_seqlens_q, &t.call.cu_seqlens_kv };
        const char *const extra_names[] = { "bias",       "sinks",        "lengths_q",
                                            "lengths_kv", "cu_seqlens_q", "cu_seqlens_kv" };
        for (int n = 0; n < 6; n++) {
            *extra[n] = t.call.q;
            broken(t, CLATTN_INVALID_ARGUMENT, extra_names[n], "does not ask");
        }
        bench_close(&t);
    }
}

static void rejects_memory_of_the_other_face(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        bench t = { 0 };
        cl_int error;
        bench_open(&t, host);
        cl_mem buffer = clCreateBuffer(ct_cl(), CL_MEM_READ_WRITE, 1 << 16, NULL, &error);
        ct_cl_ok(error);
        t.call.k.host = host ? NULL : t.c.k.memory;
        t.call.k.buffer = host ? buffer : NULL;
        broken(t, CLATTN_INVALID_ARGUMENT, "k", host ? "buffer" : "host");
        t.call.out.host = t.c.out.memory;
        t.call.out.buffer = buffer;
        broken(t, CLATTN_INVALID_ARGUMENT, "out", host ? "buffer" : "host");
        ct_cl_ok(clReleaseMemObject(buffer));
        bench_close(&t);
    }
}

static void rejects_buffers_too_small(void **state)
{
    (void)state;
    bench t = { 0 };
    bench_open(&t, false);
    t.call.q.offset_bytes = t.c.q.bytes - 4;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "q");
    t.call.k.offset_bytes = t.c.k.bytes;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "k");
    t.call.v.stride[2] = 1000;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "v");
    t.call.out.stride[0] = 100000;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "out");
    t.call.weights.stride[1] = 100000;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "weights");
    t.call.keep.stride[2] = 100000;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "keep");
    t.call.lse.stride[0] = 100000;
    broken(t, CLATTN_BUFFER_TOO_SMALL, "lse");
    bench_close(&t);
}

/* One element short is too small, exactly enough is enough. */
static void accepts_a_buffer_of_exactly_the_reach(void **state)
{
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        bench t = { 0 };
        cl_int error;
        bench_open(&t, false);
        size_t bytes = (size_t)ct_array_elements(&t.c.q) * sizeof(float);
        cl_mem exact =
            clCreateBuffer(ct_cl(), CL_MEM_READ_WRITE, bytes - (missing ? sizeof(float) : 0), NULL, &error);
        ct_cl_ok(error);
        t.call.q.buffer = exact;
        t.call.q.offset_bytes = 0;
        if (missing)
            ct_rejects(bench_run(&t), CLATTN_BUFFER_TOO_SMALL, "q", "bytes");
        else
            ct_ok(bench_run(&t));
        ct_cl_ok(clReleaseMemObject(exact));
        ct_array_poison(&t.c.out);
        ct_array_poison(&t.c.weights);
        ct_cl_ok(clEnqueueWriteBuffer(ct_queue(), t.c.out.buffer, CL_TRUE, 0, t.c.out.bytes, t.c.out.memory,
                                      0, NULL, NULL));
        ct_cl_ok(clEnqueueWriteBuffer(ct_queue(), t.c.weights.buffer, CL_TRUE, 0, t.c.weights.bytes,
                                      t.c.weights.memory, 0, NULL, NULL));
        bench_close(&t);
    }
}

static void rejects_bad_strides_and_offsets(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        bench t = { 0 };
        bench_open(&t, host);
        t.call.q.stride[1] = -8;
        broken(t, CLATTN_INVALID_ARGUMENT, "q", "-8");
        t.call.v.stride[3] = 2;
        broken(t, CLATTN_INVALID_ARGUMENT, "v", "2");
        t.call.out.stride[3] = 0;
        broken(t, CLATTN_INVALID_ARGUMENT, "out", "0");
        t.call.k.offset_bytes += 2;
        broken(t, CLATTN_INVALID_ARGUMENT, "k", "multiple");
        t.call.k.stride[0] = INT64_MAX;
        t.call.k.stride[1] = INT64_MAX;
        broken(t, CLATTN_SIZE_OVERFLOW, "k");
        t.call.q.stride[0] = INT64_MAX / 2;
        broken(t, CLATTN_SIZE_OVERFLOW, "q");
        bench_close(&t);
    }
}

static void rejects_outputs_that_overlap(void **state)
{
    (void)state;
    for (int host = 0; host < 2; host++) {
        bench t = { 0 };
        bench_open(&t, host);
        memcpy(&t.call.out, &t.call.q, sizeof t.call.out);
        broken(t, CLATTN_OVERLAP, "out", "q");
        t.call.lse.buffer = t.call.k.buffer;
        t.call.lse.host = host ? t.c.k.memory : NULL;
        broken(t, CLATTN_OVERLAP, "lse", "k");
        t.call.lse.buffer = t.call.weights.buffer;
        t.call.lse.host = t.call.weights.host;
        broken(t, CLATTN_OVERLAP, "lse", "weights");
        t.call.out.stride[2] = 0;
        broken(t, CLATTN_OVERLAP, "out", "itself");
        t.call.out.stride[1] = 4;
        broken(t, CLATTN_OVERLAP, "out", "itself");
        t.call.out.stride[0] = 0;
        broken(t, CLATTN_OVERLAP, "out", "itself");
        t.call.weights.stride[1] = 0;
        broken(t, CLATTN_OVERLAP, "weights", "itself");
        bench_close(&t);
    }
}

static void rejects_buffers_of_another_context(void **state)
{
    (void)state;
    bench t = { 0 };
    cl_int error;
    cl_device_id device = ct_device();
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    ct_cl_ok(error);
    cl_mem buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 1 << 16, NULL, &error);
    ct_cl_ok(error);
    bench_open(&t, false);
    t.call.v.buffer = buffer;
    broken(t, CLATTN_INVALID_ARGUMENT, "v", "context");
    bench_close(&t);
    ct_cl_ok(clReleaseMemObject(buffer));
    ct_cl_ok(clReleaseContext(other));
}

static void rejects_queues_that_do_not_fit(void **state)
{
    (void)state;
    bench t = { 0 };
    cl_int error;
    cl_device_id device = ct_device();
    cl_command_queue_properties properties = 0;
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    ct_cl_ok(error);
    cl_command_queue foreign = clCreateCommandQueue(other, device, 0, &error);
    ct_cl_ok(error);
    bench_open(&t, false);
    ct_rejects(clattn_attention_enqueue(t.plan, foreign, &t.call, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "queue", "context");
    ct_rejects(clattn_attention_enqueue(t.plan, NULL, &t.call, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "queue", "NULL");
    ct_rejects(clattn_attention_enqueue(t.plan, ct_queue(), &t.call, 2, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "num_wait", "2");
    ct_cl_ok(clGetDeviceInfo(device, CL_DEVICE_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    cl_command_queue loose =
        clCreateCommandQueue(ct_cl(), device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        ct_cl_ok(error);
    if (loose) {
        ct_rejects(clattn_attention_enqueue(t.plan, loose, &t.call, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                   "queue", "order");
        ct_cl_ok(clReleaseCommandQueue(loose));
    }
    bench_close(&t);
    ct_cl_ok(clReleaseCommandQueue(foreign));
    ct_cl_ok(clReleaseContext(other));
}

/* ---- Contents that the host face can see
 * -------------------------------------------------------------------- */

static void lists_get(bool packed, const char *name, int32_t a, int32_t b, int32_t last, const char *number)
{
    ct_case c;
    clattn_attention_call call;
    ct_case_init(&c, 2, 2, 2, 6, 6, D, D);
    c.desc.packed = packed;
    c.desc.lengths_q = c.desc.lengths_kv = !packed;
    for (int n = 0; n < 2; n++)
        c.rows_q[n] = c.rows_kv[n] = 3;
    ct_case_fill(&c);
    ct_array *list = strcmp(name, "lengths_q") == 0      ? &c.lengths_q
                     : strcmp(name, "lengths_kv") == 0   ? &c.lengths_kv
                     : strcmp(name, "cu_seqlens_q") == 0 ? &c.cu_q
                                                         : &c.cu_kv;
    ct_array_set(list, 0, 0, 0, 0, a);
    ct_array_set(list, 0, 0, 0, 1, b);
    if (packed)
        ct_array_set(list, 0, 0, 0, 2, last);
    ct_case_call(&c, &call);
    ct_rejects(clattn_attention_run(ct_context(), &c.desc, &call), CLATTN_INVALID_ARGUMENT, name, number);
    ct_case_free(&c);
}

static void rejects_lengths_out_of_range_on_the_host(void **state)
{
    (void)state;
    lists_get(false, "lengths_q", 7, 0, 0, "7");
    lists_get(false, "lengths_q", 6, -1, 0, "-1");
    lists_get(false, "lengths_kv", -5, 0, 0, "-5");
    lists_get(false, "lengths_kv", 0, INT32_MAX, 0, "2147483647");
}

static void rejects_cu_seqlens_that_do_not_rise(void **state)
{
    (void)state;
    lists_get(true, "cu_seqlens_q", 0, 4, 3, "3");
    lists_get(true, "cu_seqlens_q", 1, 3, 6, "1");
    lists_get(true, "cu_seqlens_kv", 0, -2, 6, "-2");
    lists_get(true, "cu_seqlens_kv", 0, 3, 8, "8");
    lists_get(true, "cu_seqlens_kv", 0, 0, 7, "7");
}

static void message_stays_until_the_next_failure(void **state)
{
    (void)state;
    clattn_attention_desc desc = valid();
    char first[512];
    desc.heads_kv = 3;
    ct_rejects(clattn_attention_supports(ct_context(), &desc, clattn_kernel_name(0)), CLATTN_INVALID_SHAPE,
               "heads_q 4 is not a multiple of heads_kv 3");
    snprintf(first, sizeof first, "%s", clattn_last_message());
    clattn_attention_desc good = valid();
    ct_ok(clattn_attention_supports(ct_context(), &good, clattn_kernel_name(clattn_kernel_count() - 1)));
    assert_string_equal(first, clattn_last_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejects_heads_that_do_not_divide),
        cmocka_unit_test(rejects_sizes_out_of_range),
        cmocka_unit_test(rejects_unknown_enumerators),
        cmocka_unit_test(rejects_scale_and_softcap_without_meaning),
        cmocka_unit_test(rejects_windows_below_open),
        cmocka_unit_test(rejects_packed_with_lengths),
        cmocka_unit_test(rejects_null),
        cmocka_unit_test(unknown_kernel_lists_the_names),
        cmocka_unit_test(forced_kernel_that_refuses_gives_its_reason),
        cmocka_unit_test(rejects_call_larger_than_the_plan),
        cmocka_unit_test(rejects_missing_and_superfluous_tensors),
        cmocka_unit_test(rejects_memory_of_the_other_face),
        cmocka_unit_test(rejects_buffers_too_small),
        cmocka_unit_test(accepts_a_buffer_of_exactly_the_reach),
        cmocka_unit_test(rejects_bad_strides_and_offsets),
        cmocka_unit_test(rejects_outputs_that_overlap),
        cmocka_unit_test(rejects_buffers_of_another_context),
        cmocka_unit_test(rejects_queues_that_do_not_fit),
        cmocka_unit_test(rejects_lengths_out_of_range_on_the_host),
        cmocka_unit_test(rejects_cu_seqlens_that_do_not_rise),
        cmocka_unit_test(message_stays_until_the_next_failure),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
