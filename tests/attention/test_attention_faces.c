/* tests/attention/test_attention_faces.c: the two faces as a program uses them: NULL context, events and wait
 * lists, foreign queues and wrapped contexts, memory that no alignment favours, the table. */
#include "support/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 8 };

static void init(ct_case *c)
{
    ct_case_init(c, 2, 4, 2, ct_by_size(6, 18, 33), ct_by_size(9, 25, 65), D, D);
    c->desc.lse = true;
}

static void run_without_a_context(void **state)
{
    (void)state;
    ct_case c;
    clattn_attention_call call;
    init(&c);
    ct_case_fill(&c);
    ct_case_expect(&c);
    for (int run = 0; run < 2; run++) {
        ct_array_poison(&c.out);
        ct_array_poison(&c.lse);
        ct_case_call(&c, &call);
        ct_ok(clattn_attention_run(NULL, &c.desc, &call));
        ct_case_compare(&c);
        clattn_default_context_release();
    }
    c.desc.device = "no such device";
    ct_rejects(clattn_attention_run(NULL, &c.desc, &call), CLATTN_NO_DEVICE, "no such device");
    c.desc.device = clattn_context_device(ct_context())->name;
    ct_array_poison(&c.out);
    ct_ok(clattn_attention_run(NULL, &c.desc, &call));
    ct_case_compare(&c);
    ct_case_free(&c);
}

/* The example at the top of attention.h. */
static void run_with_the_strides_of_call_init(void **state)
{
    (void)state;
    for (int layout = CLATTN_BHSD; layout <= CLATTN_BSHD; layout++)
        for (int packed = 0; packed < 2; packed++) {
            ct_case c;
            clattn_attention_call filled, call;
            init(&c);
            c.form = layout == CLATTN_BSHD ? CT_FORM_BSHD : CT_FORM_BHSD;
            c.desc.packed = packed;
            c.desc.weights = CLATTN_WEIGHTS_FULL;
            c.desc.keep = c.desc.bias = true;
            for (int b = 0; b < 2; b++) {
                c.rows_q[b] = (int32_t)c.len_q;
                c.rows_kv[b] = (int32_t)c.len_kv;
            }
            ct_case_fill(&c);
            ct_case_call(&c, &call);
            clattn_attention_call_init(&c.desc, (clattn_layout)layout, &filled);
            assert_int_equal(filled.batch, call.batch);
            assert_int_equal(filled.len_q, call.len_q);
            assert_int_equal(filled.len_kv, call.len_kv);
            assert_int_equal(filled.total_q, call.total_q);
            assert_int_equal(filled.total_kv, call.total_kv);
            const int64_t *got[] = { filled.q.stride,    filled.k.stride,      filled.v.stride,
                                     filled.keep.stride, filled.bias.stride,   filled.out.stride,
                                     filled.lse.stride,  filled.weights.stride };
            const int64_t *want[] = {
                call.q.stride,    call.k.stride,   call.v.stride,   call.keep.stride,
                call.bias.stride, call.out.stride, call.lse.stride, call.weights.stride
            };
            for (int n = 0; n < 8; n++)
                for (int axis = packed && n != 3 && n != 4 && n != 7; axis < (n == 6 ? 3 : 4); axis++)
                    if (got[n][axis] != want[n][axis])
                        ct_fail("tensor %d axis %d: stride %lld instead of %lld", n, axis,
                                (long long)got[n][axis], (long long)want[n][axis]);
            assert_null(filled.q.host);
            assert_null(filled.out.buffer);
            assert_int_equal(filled.q.offset_bytes, 0);
            ct_case_free(&c);
        }
}

static void desc_init_gives_the_defaults(void **state)
{
    (void)state;
    clattn_attention_desc desc;
    memset(&desc, 0x55, sizeof desc);
    clattn_attention_desc_init(&desc, 1, 2, 3, 4, 5, 6, 7);
    assert_true(desc.batch == 1 && desc.heads_q == 2 && desc.heads_kv == 3 && desc.len_q == 4 &&
                desc.len_kv == 5 && desc.d_qk == 6 && desc.d_v == 7);
    assert_true(isnan(desc.scale) && desc.softcap == 0 && desc.window_left == -1 && desc.window_right == -1);
    assert_true(desc.dtype == CLATTN_F32 && desc.bias_dtype == CLATTN_F32 && !desc.causal &&
                desc.alignment == CLATTN_BOTTOM_RIGHT && !desc.keep && !desc.bias && !desc.lengths_q &&
                !desc.lengths_kv && !desc.packed && !desc.sinks && !desc.lse &&
                desc.weights == CLATTN_WEIGHTS_NONE && desc.workspace_bytes == 0);
    assert_null(desc.kernel);
    assert_null(desc.device);
}

/* ---- Events
 * ------------------------------------------------------------------------------------------------- */

/* q is uploaded behind a user event: a call that starts early reads garbage. */
static void call_starts_after_its_wait_list(void **state)
{
    (void)state;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        ct_case c;
        clattn_attention_call call;
        cl_int error;
        cl_event gate, done = NULL;
        cl_int reached;
        init(&c);
        ct_case_fill(&c);
        ct_case_expect(&c);
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: wait list", clattn_kernel_name(row));
        if (plan) {
            ct_array garbage = c.q;
            garbage.memory = ct_alloc(c.q.bytes);
            ct_array_upload(&garbage, CL_MEM_READ_ONLY);
            free(garbage.memory);
            c.q.buffer = garbage.buffer;
            ct_array_upload(&c.k, CL_MEM_READ_ONLY);
            ct_array_upload(&c.v, CL_MEM_READ_ONLY);
            ct_array_upload(&c.out, CL_MEM_READ_WRITE);
            ct_array_upload(&c.lse, CL_MEM_READ_WRITE);
            ct_case_call(&c, &call);
            gate = clCreateUserEvent(ct_cl(), &error);
            ct_cl_ok(error);
            ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 1, &gate, &done));
            assert_non_null(done);
            if (ct_suite_size() != CT_TINY) /* Oclgrind spins on a flush that has to wait */
                ct_cl_ok(clFlush(ct_queue()));
            ct_cl_ok(clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof reached, &reached, NULL));
            assert_int_not_equal(reached, CL_COMPLETE);
            ct_cl_ok(clEnqueueWriteBuffer(clattn_context_queue(ct_context()), c.q.buffer, CL_TRUE, 0,
                                          c.q.bytes, c.q.memory, 0, NULL, NULL));
            ct_cl_ok(clSetUserEventStatus(gate, CL_COMPLETE));
            ct_cl_ok(clWaitForEvents(1, &done));
            ct_array_download(&c.out);
            ct_array_download(&c.lse);
            ct_case_compare(&c);
            ct_cl_ok(clReleaseEvent(done));
            ct_cl_ok(clReleaseEvent(gate));
        }
        ct_case_free(&c);
    }
}

static void event_may_be_left_out(void **state)
{
    (void)state;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        ct_case c;
        clattn_attention_call call;
        ct_array *arrays[] = { &c.q, &c.k, &c.v, &c.out, &c.lse };
        init(&c);
        ct_case_fill(&c);
        ct_case_expect(&c);
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: no event", clattn_kernel_name(row));
        for (int n = 0; plan && n < 5; n++)
            ct_array_upload(arrays[n], n < 3 ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE);
        ct_case_call(&c, &call);
        if (plan) {
            for (int run = 0; run < 3; run++)
                ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL));
            ct_cl_ok(clFinish(ct_queue()));
            ct_array_download(&c.out);
            ct_array_download(&c.lse);
            ct_case_compare(&c);
        }
        ct_case_free(&c);
    }
}

static void empty_call_gives_an_event(void **state)
{
    (void)state;
    ct_case c;
    clattn_attention_call call;
    cl_event done = NULL;
    clattn_attention_plan *plan = NULL;
    init(&c);
    ct_ok(clattn_attention_plan_create(ct_context(), &c.desc, &plan));
    clattn_attention_call_init(&c.desc, CLATTN_BHSD, &call);
    call.batch = 0;
    ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, &done));
    assert_non_null(done);
    ct_cl_ok(clWaitForEvents(1, &done));
    ct_cl_ok(clReleaseEvent(done));
    ct_ok(clattn_attention_plan_run(plan, &call));
    clattn_attention_plan_destroy(plan);
    ct_case_free(&c);
}

/* A sub-buffer is a buffer. */
static void tensors_in_sub_buffers(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    ct_case c;
    init(&c);
    c.unaligned = true;
    ct_case_fill(&c);
    ct_case_expect(&c);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        ct_array *arrays[] = { &c.q, &c.k, &c.v, &c.out, &c.lse };
        clattn_attention_call call;
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        cl_int error;
        ct_subject("%s: sub-buffers", clattn_kernel_name(row));
        if (!plan)
            continue;
        cl_mem whole = clCreateBuffer(ct_cl(), CL_MEM_READ_WRITE, 64 * PAGE, NULL, &error);
        ct_cl_ok(error);
        size_t origin = PAGE;
        for (int n = 0; n < 5; n++) {
            cl_buffer_region region = { origin, arrays[n]->bytes };
            arrays[n]->buffer =
                clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
            ct_cl_ok(error);
            if (n >= 3)
                ct_array_poison(arrays[n]);
            ct_cl_ok(clEnqueueWriteBuffer(ct_queue(), arrays[n]->buffer, CL_TRUE, 0, arrays[n]->bytes,
                                          arrays[n]->memory, 0, NULL, NULL));
            origin += (arrays[n]->bytes + PAGE - 1) / PAGE * PAGE;
        }
        assert_true(origin <= 64 * PAGE);
        ct_case_call(&c, &call);
        ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL));
        for (int n = 3; n < 5; n++)
            ct_array_download(arrays[n]);
        ct_case_compare(&c);
        for (int n = 0; n < 5; n++)
            ct_array_release_buffer(arrays[n]);
        ct_cl_ok(clReleaseMemObject(whole));
    }
    ct_case_free(&c);
}

/* ---- Contexts and memory
 * ------------------------------------------------------------------------------------ */

static void plan_in_a_wrapped_context(void **state)
{
    (void)state;
    clattn_context *wrapped = NULL;
    clattn_attention_plan *plan = NULL;
    ct_case c;
    ct_ok(clattn_context_wrap(ct_cl(), ct_device(), NULL, &wrapped));
    init(&c);
    ct_case_fill(&c);
    ct_case_expect(&c);
    ct_ok(clattn_attention_plan_create(wrapped, &c.desc, &plan));
    ct_case_run_buffers(&c, plan);
    ct_case_compare(&c);
    ct_case_run_host(&c, plan);
    ct_case_compare(&c);
    clattn_attention_plan_destroy(plan);
    clattn_context_destroy(wrapped);
    ct_case_free(&c);
}

/* Zero-copy needs alignment; the result must not. */
static void host_arrays_at_any_address(void **state)
{
    (void)state;
    for (size_t shift = 0; shift <= 64; shift += 4) {
        ct_case c;
        clattn_attention_call call;
        unsigned char *memory[3];
        init(&c);
        ct_case_fill(&c);
        ct_case_expect(&c);
        ct_array *arrays[] = { &c.q, &c.k, &c.out };
        for (int n = 0; n < 3; n++) {
            memory[n] = arrays[n]->memory;
            arrays[n]->memory = (unsigned char *)ct_alloc(arrays[n]->bytes + 64) + shift;
            memcpy(arrays[n]->memory, memory[n], arrays[n]->bytes);
        }
        ct_case_call(&c, &call);
        ct_ok(clattn_attention_run(ct_context(), &c.desc, &call));
        ct_case_compare(&c);
        for (int n = 0; n < 3; n++) {
            free(arrays[n]->memory - shift);
            arrays[n]->memory = memory[n];
        }
        ct_case_free(&c);
    }
}

/* A workspace too small for a whole row of queries makes a row work in chunks or refuse, never go wrong. */
static void small_workspaces(void **state)
{
    (void)state;
    const size_t bytes[] = { 1, 1000, 5000, 20000 };
    for (int n = 0; n < 4; n++) {
        ct_case c;
        ct_case_init(&c, 2, 4, 2, ct_by_size(9, 25, 70), ct_by_size(17, 33, 90), D, D);
        c.desc.lse = c.desc.causal = true;
        c.desc.weights = CLATTN_WEIGHTS_FULL;
        c.desc.workspace_bytes = bytes[n];
        ct_case_go(&c);
    }
}

static void plan_says_what_it_picked(void **state)
{
    (void)state;
    ct_case c;
    clattn_attention_plan *plan = NULL;
    bool found = false;
    init(&c);
    ct_ok(clattn_attention_plan_create(ct_context(), &c.desc, &plan));
    clattn_attention_info info = clattn_attention_plan_info(plan);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_status status = clattn_attention_supports(ct_context(), &c.desc, clattn_kernel_name(row));
        if (status == CLATTN_OK && !found) {
            assert_string_equal(info.kernel, clattn_kernel_name(row));
            found = true;
        }
    }
    assert_true(found);
    assert_non_null(info.why);
    assert_true(strlen(info.why) > 0);
    assert_true(info.workspace_bytes <= (size_t)64 << 20);
    clattn_attention_plan_destroy(plan);
    ct_case_free(&c);
}

/* ---- The table
 * ---------------------------------------------------------------------------------------------- */

static void names_of_rows_are_unique_and_end_in_null(void **state)
{
    (void)state;
    size_t count = clattn_kernel_count();
    assert_true(count > 0 && count <= CT_MAX_ROWS);
    for (size_t row = 0; row < count; row++) {
        assert_non_null(clattn_kernel_name(row));
        for (size_t other = 0; other < row; other++)
            assert_string_not_equal(clattn_kernel_name(row), clattn_kernel_name(other));
    }
    assert_null(clattn_kernel_name(count));
    assert_null(clattn_kernel_name(SIZE_MAX));
}

/* Each row takes one of these problems on this device; slow compilers may be refused by a row. */
static void every_row_takes_something(void **state)
{
    (void)state;
    const int64_t sizes[][3] = { { 16, 40, 64 }, { 64, 64, 64 }, { 40, 20, 200 },
                                 { 16, 16, 16 }, { 3, 5, 8 },    { 1, 40, 64 } };
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        bool taken = false;
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes && !taken; n++) {
            clattn_attention_desc desc;
            clattn_attention_desc_init(&desc, 1, 2, 1, sizes[n][0], sizes[n][1], sizes[n][2], sizes[n][2]);
            taken = clattn_attention_supports(ct_context(), &desc, clattn_kernel_name(row)) == CLATTN_OK;
        }
        if (!taken && ct_suite_size() == CT_FULL)
            ct_fail("%s takes nothing: %s", clattn_kernel_name(row), clattn_last_message());
        if (!taken)
            print_message("[   INFO   ] %s takes nothing here: %s\n", clattn_kernel_name(row),
                          clattn_last_message());
    }
}

static void last_row_takes_everything(void **state)
{
    (void)state;
    clattn_attention_desc desc;
    const char *last = clattn_kernel_name(clattn_kernel_count() - 1);
    clattn_attention_desc_init(&desc, 3, 6, 2, 70, 90, 5000, 3000);
    desc.keep = desc.bias = desc.sinks = desc.lse = desc.causal = true;
    desc.weights = CLATTN_WEIGHTS_MEAN;
    desc.softcap = 3;
    desc.window_left = 5;
    ct_ok(clattn_attention_supports(ct_context(), &desc, last));
    desc.packed = true;
    desc.dtype = CLATTN_BF16;
    ct_ok(clattn_attention_supports(ct_context(), &desc, last));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_without_a_context),
        cmocka_unit_test(run_with_the_strides_of_call_init),
        cmocka_unit_test(desc_init_gives_the_defaults),
        cmocka_unit_test(call_starts_after_its_wait_list),
        cmocka_unit_test(event_may_be_left_out),
        cmocka_unit_test(empty_call_gives_an_event),
        cmocka_unit_test(tensors_in_sub_buffers),
        cmocka_unit_test(plan_in_a_wrapped_context),
        cmocka_unit_test(host_arrays_at_any_address),
        cmocka_unit_test(small_workspaces),
        cmocka_unit_test(plan_says_what_it_picked),
        cmocka_unit_test(names_of_rows_are_unique_and_end_in_null),
        cmocka_unit_test(every_row_takes_something),
        cmocka_unit_test(last_row_takes_everything),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
