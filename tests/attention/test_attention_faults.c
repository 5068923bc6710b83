/* tests/attention/test_attention_faults.c: OpenCL failing under the library: no memory, no build, no launch.
 * And what the counters of cl_shim.h see of a healthy call: nothing made, nothing kept, no wait. */
#include "support/attention_case.h"

#include "support/cl_shim.h"

#include <stdio.h>
#include <string.h>

enum { D = 8, MOST_FAULTS = 64 };

static void init(ct_case *c)
{
    ct_case_init(c, 1, 2, 1, 5, 9, D, D);
    c->desc.lse = true;
    c->desc.weights = CLATTN_WEIGHTS_FULL;
    c->form = CT_FORM_LOOSE;
}

static int clear_faults(void **state)
{
    (void)state;
    cl_shim_clear_faults();
    return 0;
}

static void check_live(const cl_shim_counts *before)
{
    cl_shim_counts after = cl_shim_count();
    if (!cl_shim_same_live(before, &after)) {
        char text[256];
        snprintf(text, sizeof text, "%s", cl_shim_live_text(before));
        ct_fail("objects were kept: %s before, %s after", text, cl_shim_live_text(&after));
    }
}

/* Opens a context, plans on every row, runs both faces twice, closes: everything made is released. */
static void nothing_is_kept(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    ct_case_fill(&c);
    ct_case_check(&c);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: objects", clattn_kernel_name(row));
        if (!plan)
            continue;
        cl_shim_counts before = cl_shim_count();
        ct_case_run_buffers(&c, plan);
        ct_case_run_host(&c, plan);
        check_live(&before);
        clattn_attention_desc desc = c.desc;
        clattn_attention_plan *other = NULL;
        desc.kernel = clattn_kernel_name(row);
        ct_ok(clattn_attention_plan_create(ct_context(), &desc, &other));
        clattn_attention_plan_destroy(other);
        check_live(&before);
    }
    ct_case_free(&c);
}

static void context_and_plan_release_everything(void **state)
{
    (void)state;
    cl_shim_counts before = cl_shim_count();
    clattn_context *context = NULL;
    clattn_attention_plan *plan = NULL;
    ct_case c;
    init(&c);
    ct_case_fill(&c);
    ct_ok(clattn_context_create(NULL, &context));
    ct_ok(clattn_attention_plan_create(context, &c.desc, &plan));
    ct_case_run_host(&c, plan);
    clattn_attention_plan_destroy(plan);
    clattn_context_destroy(context);
    check_live(&before);
    clattn_attention_call call;
    ct_case_call(&c, &call);
    ct_ok(clattn_attention_run(NULL, &c.desc, &call));
    clattn_default_context_release();
    check_live(&before);
    ct_case_free(&c);
}

static void enqueue_allocates_nothing_and_waits_for_nothing(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    ct_case_fill(&c);
    ct_array *arrays[] = { &c.q, &c.k, &c.v, &c.out, &c.lse, &c.weights };
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_call call;
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: enqueue", clattn_kernel_name(row));
        if (!plan)
            continue;
        for (int n = 0; n < 6; n++)
            ct_array_upload(arrays[n], CL_MEM_READ_WRITE);
        ct_case_call(&c, &call);
        ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL));
        cl_shim_counts before = cl_shim_count();
        ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL));
        cl_shim_counts after = cl_shim_count();
        assert_int_equal(after.made[CL_SHIM_BUFFERS], before.made[CL_SHIM_BUFFERS]);
        assert_int_equal(after.made[CL_SHIM_PROGRAMS], before.made[CL_SHIM_PROGRAMS]);
        assert_int_equal(after.builds, before.builds);
        assert_int_equal(after.waits, before.waits);
        assert_true(after.launches > before.launches);
        ct_cl_ok(clFinish(ct_queue()));
        for (int n = 0; n < 6; n++)
            ct_array_release_buffer(arrays[n]);
    }
    ct_case_free(&c);
}

static void bad_call_enqueues_nothing(void **state)
{
    (void)state;
    ct_case c;
    clattn_attention_call call;
    clattn_attention_plan *plan = NULL;
    ct_array *arrays[] = { &c.q, &c.k, &c.v, &c.out, &c.lse, &c.weights };
    init(&c);
    ct_case_fill(&c);
    ct_ok(clattn_attention_plan_create(ct_context(), &c.desc, &plan));
    for (int n = 0; n < 6; n++)
        ct_array_upload(arrays[n], CL_MEM_READ_WRITE);
    ct_case_call(&c, &call);
    call.weights.buffer = NULL;
    cl_shim_counts before = cl_shim_count();
    ct_rejects(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "weights");
    cl_shim_counts after = cl_shim_count();
    assert_int_equal(after.commands, before.commands);
    check_live(&before);
    clattn_attention_plan_destroy(plan);
    ct_case_free(&c);
}

/* Lets the first, second, ... buffer fail until a plan is made without reaching the fault. */
static void plan_without_memory(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_desc desc = c.desc;
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: no memory for a plan", clattn_kernel_name(row));
        desc.kernel = clattn_kernel_name(row);
        clattn_status status = CLATTN_OUT_OF_MEMORY;
        for (long at = 1; plan && status != CLATTN_OK; at++) {
            cl_shim_counts before = cl_shim_count();
            assert_true(at < MOST_FAULTS);
            cl_shim_fault.buffer_at = at;
            status = clattn_attention_plan_create(ct_context(), &desc, &plan);
            cl_shim_clear_faults();
            if (status != CLATTN_OK) {
                ct_rejects(status, CLATTN_OUT_OF_MEMORY, "clCreate");
                assert_null(plan);
                plan = (clattn_attention_plan *)(uintptr_t)8;
            } else {
                clattn_attention_plan_destroy(plan);
            }
            check_live(&before);
        }
    }
    ct_case_free(&c);
}

static void run_without_memory(void **state)
{
    (void)state;
    ct_case c;
    clattn_attention_call call;
    clattn_attention_plan *plan = NULL;
    init(&c);
    ct_case_fill(&c);
    ct_case_call(&c, &call);
    ct_ok(clattn_attention_plan_create(ct_context(), &c.desc, &plan));
    for (long at = 1;; at++) {
        cl_shim_counts before = cl_shim_count();
        assert_true(at < MOST_FAULTS);
        cl_shim_fault.buffer_at = at;
        clattn_status status = clattn_attention_plan_run(plan, &call);
        cl_shim_clear_faults();
        if (status == CLATTN_OK)
            break;
        ct_rejects(status, CLATTN_OUT_OF_MEMORY, "clCreate");
        check_live(&before);
    }
    ct_case_expect(&c);
    ct_case_run_host(&c, plan);
    ct_case_compare(&c);
    clattn_attention_plan_destroy(plan);
    ct_case_free(&c);
}

static void failed_launch_is_an_error(void **state)
{
    (void)state;
    ct_case c;
    init(&c);
    ct_case_fill(&c);
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_call call;
        clattn_attention_plan *plan = ct_case_plan(&c, row);
        ct_subject("%s: failed launch", clattn_kernel_name(row));
        if (!plan)
            continue;
        cl_shim_counts before = cl_shim_count();
        ct_case_call(&c, &call);
        cl_shim_fault.launch_at = 1;
        clattn_status status = clattn_attention_plan_run(plan, &call);
        cl_shim_clear_faults();
        if (status == CLATTN_OK)
            ct_fail("a failed launch went unnoticed");
        ct_rejects(status, status, "");
        check_live(&before);
        ct_case_expect(&c);
        ct_case_run_host(&c, plan);
        ct_case_compare(&c);
    }
    ct_case_free(&c);
}

/* ---- Builds
 * ------------------------------------------------------------------------------------------------- */

typedef struct listener {
    char warnings[4096];
} listener;

static void listen(void *user, clattn_log_level level, const char *line)
{
    listener *l = user;
    size_t used = strlen(l->warnings);
    if (level == CLATTN_LOG_WARNING)
        snprintf(l->warnings + used, sizeof l->warnings - used, "%s\n", line);
}

static void failed_build_is_an_error_in_a_strict_context(void **state)
{
    (void)state;
    clattn_context_options options = { .strict = true };
    clattn_context *context = NULL;
    clattn_attention_plan *plan = NULL;
    ct_case c;
    init(&c);
    ct_ok(clattn_context_create(&options, &context));
    cl_shim_counts before = cl_shim_count();
    cl_shim_fault.build_at = 1;
    ct_rejects(clattn_attention_plan_create(context, &c.desc, &plan), CLATTN_BUILD_FAILED,
               ".cl does not build");
    assert_null(plan);
    cl_shim_clear_faults();
    cl_shim_counts after = cl_shim_count();
    assert_int_equal(after.live[CL_SHIM_BUFFERS], before.live[CL_SHIM_BUFFERS]);
    assert_int_equal(after.live[CL_SHIM_KERNELS], before.live[CL_SHIM_KERNELS]);
    clattn_context_destroy(context);
    ct_case_free(&c);
}

static void failed_build_gives_the_next_row_otherwise(void **state)
{
    (void)state;
    listener heard = { "" };
    clattn_context_options options = { .log = listen, .log_user = &heard };
    clattn_context *context = NULL;
    clattn_attention_plan *plan = NULL;
    const char *first = NULL;
    ct_case c;
    init(&c);
    ct_case_fill(&c);
    ct_case_expect(&c);
    ct_ok(clattn_context_create(&options, &context));
    for (size_t row = 0; clattn_kernel_name(row) && !first; row++)
        if (clattn_attention_supports(context, &c.desc, clattn_kernel_name(row)) == CLATTN_OK)
            first = clattn_kernel_name(row);
    assert_non_null(first);
    cl_shim_fault.build_at = 1;
    ct_ok(clattn_attention_plan_create(context, &c.desc, &plan));
    cl_shim_clear_faults();
    assert_string_not_equal(clattn_attention_plan_info(plan).kernel, first);
    assert_non_null(strstr(heard.warnings, first));
    ct_case_run_host(&c, plan);
    ct_case_compare(&c);
    clattn_attention_plan_destroy(plan);
    clattn_context_destroy(context);
    ct_case_free(&c);
}

/* Forced, a row that does not build is an error even where others would be tried. */
static void failed_build_of_a_forced_row_is_an_error(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    clattn_attention_plan *plan = NULL;
    ct_case c;
    init(&c);
    ct_ok(clattn_context_create(NULL, &context));
    c.desc.kernel = clattn_attention_supports(context, &c.desc, clattn_kernel_name(0)) == CLATTN_OK
                        ? clattn_kernel_name(0)
                        : clattn_kernel_name(clattn_kernel_count() - 1);
    cl_shim_fault.build_at = 1;
    ct_rejects(clattn_attention_plan_create(context, &c.desc, &plan), CLATTN_BUILD_FAILED, "does not build");
    assert_null(plan);
    clattn_context_destroy(context);
    ct_case_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept),
        cmocka_unit_test(context_and_plan_release_everything),
        cmocka_unit_test(enqueue_allocates_nothing_and_waits_for_nothing),
        cmocka_unit_test(bad_call_enqueues_nothing),
        cmocka_unit_test_teardown(plan_without_memory, clear_faults),
        cmocka_unit_test_teardown(run_without_memory, clear_faults),
        cmocka_unit_test_teardown(failed_launch_is_an_error, clear_faults),
        cmocka_unit_test_teardown(failed_build_is_an_error_in_a_strict_context, clear_faults),
        cmocka_unit_test_teardown(failed_build_gives_the_next_row_otherwise, clear_faults),
        cmocka_unit_test_teardown(failed_build_of_a_forced_row_is_an_error, clear_faults),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
