/* Life of contexts, their queues and brackets: host/base/context.c. */
#define _POSIX_C_SOURCE 200809L
#include "support/cl_shim.h"
#include "support/harness.h"

#include "base/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static cl_shim_counts at_start;

/* Each test starts without faults and must leave no object behind. */
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
    clattn_default_context_release();
    cl_shim_counts now = cl_shim_count();
    if (cl_shim_same_live(&at_start, &now))
        return 0;
    print_error("before: %s\n", cl_shim_live_text(&at_start));
    print_error("after:  %s\n", cl_shim_live_text(&now));
    return -1;
}

static const char *const selector = "0";

/* ---- Create, wrap, destroy ---- */

static void create_opens_the_device_and_says_why(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    ct_ok(clattn_context_create(NULL, &context));
    assert_ptr_equal(clattn_context_device(context)->device_id, ct_device());
    assert_string_equal(clattn_context_why(context), "the only device");
    assert_non_null(clattn_context_cl(context));
    ct_ok(ca_queue_check(context, clattn_context_queue(context)));
    clattn_context_destroy(context);
}

static void create_obeys_the_selector(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    ct_ok(clattn_context_create(&(clattn_context_options){ .device = "0" }, &context));
    assert_string_equal(clattn_context_why(context), "number 0 was asked for");
    clattn_context_destroy(context);
    ct_rejects(clattn_context_create(&(clattn_context_options){ .device = "no such thing" }, &context),
               CLATTN_NO_DEVICE, "`no such thing`");
    assert_null(context);
}

static void create_needs_a_place_for_the_result(void **state)
{
    (void)state;
    ct_rejects(clattn_context_create(NULL, NULL), CLATTN_INVALID_ARGUMENT, "context is NULL");
    ct_rejects(clattn_context_wrap(ct_cl(), ct_device(), NULL, NULL), CLATTN_INVALID_ARGUMENT,
               "context is NULL");
}

static void create_without_platform_is_no_device(void **state)
{
    (void)state;
    clattn_context *context = (clattn_context *)&at_start;
    cl_shim_fault.platform_error = -1001;
    ct_rejects(clattn_context_create(NULL, &context), CLATTN_NO_DEVICE, "no OpenCL platform");
    assert_null(context);
}

static void device_without_compiler_is_refused(void **state)
{
    (void)state;
    clattn_context *context = (clattn_context *)&at_start;
    cl_shim_fault.no_compiler = true;
    ct_rejects(clattn_context_create(NULL, &context), CLATTN_NO_COMPILER, "cannot compile OpenCL C");
    assert_null(context);
    ct_rejects(clattn_context_wrap(ct_cl(), ct_device(), NULL, &context), CLATTN_NO_COMPILER,
               "cannot compile OpenCL C");
    assert_null(context);
}

static void failing_queue_leaves_nothing(void **state)
{
    (void)state;
    clattn_context *context = (clattn_context *)&at_start;
    cl_shim_fault.queue_at = 1;
    ct_rejects(clattn_context_create(NULL, &context), CLATTN_OUT_OF_MEMORY,
               "clCreateCommandQueue: CL_OUT_OF_HOST_MEMORY (-6)");
    assert_null(context);
}

static void wrap_keeps_the_caller_s_context_alive(void **state)
{
    (void)state;
    cl_device_id device = ct_device();
    cl_int error;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    ct_cl_ok(error);
    clattn_context *context = NULL;
    ct_ok(clattn_context_wrap(cl, device, NULL, &context));
    clReleaseContext(cl);
    assert_ptr_equal(clattn_context_cl(context), cl);
    assert_string_equal(clattn_context_why(context), "given by the caller");
    cl_mem buffer = clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, 64, NULL, &error);
    ct_cl_ok(error);
    clReleaseMemObject(buffer);
    clattn_context_destroy(context);
}

static void wrap_ignores_the_selector(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    ct_ok(clattn_context_wrap(ct_cl(), ct_device(), &(clattn_context_options){ .device = "no such thing" },
                              &context));
    clattn_context_destroy(context);
}

static void wrap_rejects_null(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    ct_rejects(clattn_context_wrap(NULL, ct_device(), NULL, &context), CLATTN_INVALID_ARGUMENT, "cl is NULL");
    ct_rejects(clattn_context_wrap(ct_cl(), NULL, NULL, &context), CLATTN_INVALID_ARGUMENT, "device is NULL");
}

static void wrap_rejects_a_device_of_another_context(void **state)
{
    (void)state;
    static const cl_shim_device stranger = { CL_DEVICE_TYPE_GPU, 1, true, "stranger", 1 };
    clattn_context *context = (clattn_context *)&at_start;
    ct_rejects(clattn_context_wrap(ct_cl(), (cl_device_id)(void *)&stranger, NULL, &context),
               CLATTN_INVALID_ARGUMENT, "device is not one of the OpenCL context's");
    assert_null(context);
}

static void destroy_takes_null(void **state)
{
    (void)state;
    clattn_context_destroy(NULL);
    assert_null(clattn_context_device(NULL));
    assert_null(clattn_context_why(NULL));
    assert_null(clattn_context_cl(NULL));
    assert_null(clattn_context_queue(NULL));
}

static int hook_calls;

static void count_hook(clattn_context *context)
{
    assert_non_null(clattn_context_queue(context));
    ++hook_calls;
}

static void destroy_calls_the_hook_once(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    ct_ok(clattn_context_create(NULL, &context));
    context->on_destroy = count_hook;
    hook_calls = 0;
    clattn_context_destroy(context);
    assert_int_equal(hook_calls, 1);
}

/* ---- Default contexts ---- */

static void default_context_is_kept_by_selector(void **state)
{
    (void)state;
    clattn_context *first = NULL, *again = NULL, *empty = NULL, *other = NULL;
    ct_ok(ca_default_context(NULL, &first));
    ct_ok(ca_default_context(NULL, &again));
    ct_ok(ca_default_context("", &empty));
    ct_ok(ca_default_context(selector, &other));
    assert_ptr_equal(first, again);
    assert_ptr_equal(first, empty);
    assert_ptr_not_equal(first, other);
}

static void default_context_can_be_released_twice_and_reopened(void **state)
{
    (void)state;
    clattn_context *context = NULL;
    clattn_default_context_release();
    ct_ok(ca_default_context(NULL, &context));
    clattn_default_context_release();
    clattn_default_context_release();
    ct_ok(ca_default_context(NULL, &context));
    assert_non_null(context);
}

static void failed_default_context_is_tried_again(void **state)
{
    (void)state;
    clattn_context *context = (clattn_context *)&at_start;
    cl_shim_fault.platform_error = -1001;
    assert_int_equal(ca_default_context(NULL, &context), CLATTN_NO_DEVICE);
    assert_null(context);
    cl_shim_clear_faults();
    ct_ok(ca_default_context(NULL, &context));
}

static void *open_default(void *place)
{
    clattn_context **context = place;
    if (ca_default_context(NULL, context) != CLATTN_OK)
        *context = NULL;
    return NULL;
}

static void threads_share_one_default_context(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    clattn_context *seen[THREADS];
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, open_default, &seen[i]), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; ++i) {
        assert_non_null(seen[i]);
        assert_ptr_equal(seen[i], seen[0]);
    }
}

/* ---- Log ---- */

static char logged[64];
static clattn_log_level logged_level;

static void keep_line(void *user, clattn_log_level level, const char *line)
{
    ++*(int *)user;
    logged_level = level;
    snprintf(logged, sizeof logged, "%s", line);
}

static void log_gets_level_and_one_line(void **state)
{
    (void)state;
    int lines = 0;
    clattn_context *context = NULL;
    ct_ok(clattn_context_create(&(clattn_context_options){ .log = keep_line, .log_user = &lines }, &context));
    ca_log(context, CLATTN_LOG_WARNING, "row %s\nfailed", "lanes");
    assert_int_equal(lines, 1);
    assert_int_equal(logged_level, CLATTN_LOG_WARNING);
    assert_string_equal(logged, "row lanes failed");
    clattn_context_destroy(context);
}

static void log_without_listener_is_silent(void **state)
{
    (void)state;
    logged[0] = '\0';
    ca_log(ct_context(), CLATTN_LOG_INFO, "nobody hears");
    assert_string_equal(logged, "");
}

/* ---- Queues ---- */

static void queue_must_not_be_null(void **state)
{
    (void)state;
    ct_rejects(ca_queue_check(ct_context(), NULL), CLATTN_INVALID_ARGUMENT, "queue is NULL");
}

static void queue_of_another_context_is_refused(void **state)
{
    (void)state;
    clattn_context *other = NULL;
    ct_ok(clattn_context_create(NULL, &other));
    ct_rejects(ca_queue_check(ct_context(), clattn_context_queue(other)), CLATTN_INVALID_ARGUMENT,
               "another OpenCL context");
    clattn_context_destroy(other);
}

static void out_of_order_queue_is_refused(void **state)
{
    (void)state;
    cl_shim_fault.out_of_order = true;
    ct_rejects(ca_queue_check(ct_context(), ct_queue()), CLATTN_INVALID_ARGUMENT, "out of order");
}

static atomic_bool gate_is_open;

static void *open_gate(void *gate)
{
    const struct timespec delay = { .tv_nsec = 50000000 };
    nanosleep(&delay, NULL);
    atomic_store(&gate_is_open, true);
    clSetUserEventStatus(gate, CL_COMPLETE);
    return NULL;
}

static void brackets_wait_for_the_list_and_mark_the_end(void **state)
{
    (void)state;
    cl_int error;
    cl_event gate = clCreateUserEvent(ct_cl(), &error), end = NULL;
    ct_cl_ok(error);
    pthread_t thread;
    atomic_store(&gate_is_open, false);
    ct_ok(ca_queue_begin(ct_queue(), 1, &gate));
    ct_ok(ca_queue_end(ct_queue(), &end));
    assert_non_null(end);
    assert_int_equal(pthread_create(&thread, NULL, open_gate, gate), 0);
    ct_cl_ok(clWaitForEvents(1, &end));
    assert_true(atomic_load(&gate_is_open));
    pthread_join(thread, NULL);
    clReleaseEvent(end);
    clReleaseEvent(gate);
    ct_cl_ok(clFinish(ct_queue()));
}

static void brackets_without_events_enqueue_nothing(void **state)
{
    (void)state;
    cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_queue_begin(ct_queue(), 0, NULL));
    ct_ok(ca_queue_end(ct_queue(), NULL));
    cl_shim_counts now = cl_shim_count();
    assert_int_equal(now.made[CL_SHIM_EVENTS], counts.made[CL_SHIM_EVENTS]);
    assert_int_equal(now.commands, counts.commands);
}

static void bracket_rejects_a_missing_wait_list(void **state)
{
    (void)state;
    ct_rejects(ca_queue_begin(ct_queue(), 2, NULL), CLATTN_INVALID_ARGUMENT,
               "wait is NULL, but num_wait is 2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(create_opens_the_device_and_says_why),
        TEST(create_obeys_the_selector),
        TEST(create_needs_a_place_for_the_result),
        TEST(create_without_platform_is_no_device),
        TEST(device_without_compiler_is_refused),
        TEST(failing_queue_leaves_nothing),
        TEST(wrap_keeps_the_caller_s_context_alive),
        TEST(wrap_ignores_the_selector),
        TEST(wrap_rejects_null),
        TEST(wrap_rejects_a_device_of_another_context),
        TEST(destroy_takes_null),
        TEST(destroy_calls_the_hook_once),
        TEST(default_context_is_kept_by_selector),
        TEST(default_context_can_be_released_twice_and_reopened),
        TEST(failed_default_context_is_tried_again),
        TEST(threads_share_one_default_context),
        TEST(log_gets_level_and_one_line),
        TEST(log_without_listener_is_silent),
        TEST(queue_must_not_be_null),
        TEST(queue_of_another_context_is_refused),
        TEST(out_of_order_queue_is_refused),
        TEST(brackets_wait_for_the_list_and_mark_the_end),
        TEST(brackets_without_events_enqueue_nothing),
        TEST(bracket_rejects_a_missing_wait_list),
    };
    return cmocka_run_group_tests_name("context", tests, ct_setup, ct_teardown);
}
