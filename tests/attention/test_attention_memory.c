/* tests/attention/test_attention_memory.c: what the process holds: plans and contexts that come and go leave
 * nothing, and a call needs memory for its tensors and little else. Read from /proc, so that the
 * implementation's memory counts too. */
#include "support/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
enum { SLACK_BYTES = 20000000 }; /* it holds on to what is freed */
#else
enum { SLACK_BYTES = 1500000 };
#endif

/* "VmRSS" or "VmHWM", its highest value, in bytes. */
static double memory_bytes(const char *what)
{
    char line[256];
    double kilobytes = -1;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (kilobytes < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, what, strlen(what)) == 0)
            kilobytes = strtod(line + strlen(what) + 1, NULL);
    fclose(file);
    assert_true(kilobytes > 0);
    return kilobytes * 1024;
}

/* From now on the highest value is that since now. */
static void forget_highest(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    assert_non_null(file);
    fputs("5", file);
    assert_int_equal(fclose(file), 0);
}

/* ---- Come and gone ---- */

static void make_plan(void)
{
    clattn_attention_desc desc;
    clattn_attention_plan *plan = NULL;
    clattn_attention_desc_init(&desc, 1, 2, 2, 20, 20, 8, 8);
    ct_ok(clattn_attention_plan_create(ct_context(), &desc, &plan));
    clattn_attention_plan_destroy(plan);
}

static void make_context(void)
{
    clattn_context *context = NULL;
    ct_ok(clattn_context_wrap(ct_cl(), ct_device(), NULL, &context));
    clattn_context_destroy(context);
}

static void leaves_nothing(void (*make)(void))
{
    const int64_t count = ct_by_size(100, 300, 4000);
    for (int64_t i = 0; i < 250; i++) /* until the allocators have what they take */
        make();
    const double before = memory_bytes("VmRSS");
    for (int64_t i = 0; i < count; i++)
        make();
    const double more = memory_bytes("VmRSS") - before;
    print_message("[   INFO   ] %.0f bytes more\n", more);
    assert_true(more < SLACK_BYTES);
}

static void thousands_of_plans_leave_nothing(void **state)
{
    (void)state;
    leaves_nothing(make_plan);
}

static void thousands_of_contexts_leave_nothing(void **state)
{
    (void)state;
    leaves_nothing(make_context);
}

/* ---- One call ---- */

static void call_needs_no_memory_that_grows_with_the_square(void **state)
{
    (void)state;
    enum { D = 8 };
    const int64_t length = ct_by_size(512, 1024, 16384);
    const size_t bytes = (size_t)length * D * sizeof(float);
    const double square = (double)length * (double)length * sizeof(float);
    clattn_attention_desc desc;
    clattn_attention_call call;
    clattn_attention_plan *plan = NULL;
    clattn_attention_desc_init(&desc, 1, 1, 1, length, length, D, D);
    ct_ok(clattn_attention_plan_create(ct_context(), &desc, &plan));
    clattn_attention_call_init(&desc, CLATTN_BHSD, &call);
    float *q = ct_alloc(bytes), *k = ct_alloc(bytes), *v = ct_alloc(bytes), *out = ct_alloc(bytes);
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        q[i] = k[i] = v[i] = 1;
    call.q.host = q;
    call.k.host = k;
    call.v.host = v;
    call.out.host = out;
    call.len_q = call.len_kv = 64; /* compiles, and touches what any call touches */
    ct_ok(clattn_attention_plan_run(plan, &call));
    call.len_q = call.len_kv = length;
    forget_highest();
    const double before = memory_bytes("VmRSS");
    ct_ok(clattn_attention_plan_run(plan, &call));
    const double more = memory_bytes("VmHWM") - before;
    print_message("[   INFO   ] %s: %.1f MB beside %.1f MB of tensors; scores would be %.0f MB\n",
                  clattn_attention_plan_info(plan).kernel, more * 1e-6, (double)bytes * 4e-6, square * 1e-6);
    assert_float_equal(out[0], 1, 1e-5);
    assert_true(more < 5 * (double)bytes + 2e6);
    clattn_attention_plan_destroy(plan);
    free(q);
    free(k);
    free(v);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_plans_leave_nothing),
        cmocka_unit_test(thousands_of_contexts_leave_nothing),
        cmocka_unit_test(call_needs_no_memory_that_grows_with_the_square),
    };
    return cmocka_run_group_tests(tests, ct_setup, ct_teardown);
}
