/* tests/attention/test_attention_proof.c: a row whose kernels give wrong numbers never answers: it is found
 * before, and the next row is taken. The wrong kernels are copies of cl/ with one store changed. */
#define _XOPEN_SOURCE 700
#include "support/harness.h"

#include "support/cl_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };

static char here[PATH / 2];

/* A copy of cl/ in which `from` of base/types.cl is `to`. */
static void copy_kernels(const char *folder, const char *from, const char *to)
{
    char command[PATH];
    snprintf(command, sizeof command,
             "rm -rf '%s' && cp -r '" CLATTN_TEST_DATA
             "/../../cl' '%s' && sed -i 's|%s|%s|' '%s/base/types.cl' && "
             "! cmp -s '" CLATTN_TEST_DATA "/../../cl/base/types.cl' '%s/base/types.cl'",
             folder, folder, from, to, folder, folder);
    assert_int_equal(system(command), 0);
}

static clattn_attention_desc small(void)
{
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, 1, 2, 1, ct_by_size(5, 20, 60), ct_by_size(7, 30, 140), 16, 16);
    return desc;
}

static clattn_context *open_with(const char *kernel_dir, const char *cache_dir, bool strict)
{
    const clattn_context_options options = { .device = getenv("CLATTN_TEST_DEVICE"),
                                             .kernel_dir = kernel_dir,
                                             .cache_dir = cache_dir,
                                             .strict = strict };
    clattn_context *context = NULL;
    ct_ok(clattn_context_create(&options, &context));
    return context;
}

static int before_all(void **state)
{
    return getcwd(here, sizeof here) ? ct_setup(state) : -1;
}

#define STORE_ONE "CA_STORE_F32(value, pointer, index) ((pointer)\\[index\\] = (value))"
#define STORE_ONE_WRONG "CA_STORE_F32(value, pointer, index) ((pointer)[index] = (value) + (index == 3))"
#define STORE_LANES "CA_STORE_LANES_F32(value, pointer) CA_LANES(vstore)(value, 0, pointer)"
#define STORE_LANES_WRONG "CA_STORE_LANES_F32(value, pointer) CA_LANES(vstore)((value) * 1.01f, 0, pointer)"

static void a_named_row_with_wrong_numbers_is_refused(void **state)
{
    (void)state;
    copy_kernels("wrong", STORE_ONE, STORE_ONE_WRONG);
    clattn_context *context = open_with("wrong", "", true);
    clattn_attention_desc desc = small();
    clattn_attention_plan *plan;
    desc.kernel = "tiles-16";
    ct_ok(clattn_attention_supports(context, &desc, "tiles-16"));
    ct_rejects(clattn_attention_plan_create(context, &desc, &plan), CLATTN_UNSUPPORTED, "kernel tiles-16",
               "wrong numbers on this device", "row 0, column 3", "is right");
    assert_null(plan);
    /* From now on without a test, and with the same reason. */
    ct_rejects(clattn_attention_supports(context, &desc, "tiles-16"), CLATTN_UNSUPPORTED, "row 0, column 3");
    const cl_shim_counts before = cl_shim_count();
    ct_rejects(clattn_attention_plan_create(context, &desc, &plan), CLATTN_UNSUPPORTED, "row 0, column 3");
    assert_int_equal(cl_shim_count().launches, before.launches);
    clattn_context_destroy(context);
}

/* On a CPU that is a row less; elsewhere the rows for CPUs are closed, and the change touches none. */
static void the_next_row_is_taken(void **state)
{
    (void)state;
    copy_kernels("wrong", STORE_LANES, STORE_LANES_WRONG);
    clattn_context *right = open_with(NULL, "", false), *wrong = open_with("wrong", "", false);
    const bool lanes = clattn_context_device(right)->type & CL_DEVICE_TYPE_CPU &&
                       clattn_context_device(right)->float_width >= 4;
    clattn_attention_desc desc = small();
    clattn_attention_plan *plan;
    desc.len_q = ct_by_size(5, 20, 60) + 17; /* more than the row for few queries takes */
    ct_ok(clattn_attention_plan_create(right, &desc, &plan));
    assert_string_equal(clattn_attention_plan_info(plan).kernel, lanes ? "lanes" : "tiles-32");
    clattn_attention_plan_destroy(plan);
    ct_ok(clattn_attention_plan_create(wrong, &desc, &plan));
    assert_string_equal(clattn_attention_plan_info(plan).kernel, "tiles-32");
    clattn_attention_plan_destroy(plan);
    clattn_context_destroy(right);
    clattn_context_destroy(wrong);
}

static void a_verdict_is_kept_on_disk(void **state)
{
    char cache[PATH];
    (void)state;
    assert_int_equal(system("rm -rf verdicts"), 0);
    snprintf(cache, sizeof cache, "%s/verdicts", here);
    clattn_attention_desc desc = small();
    desc.kernel = "tiles-16";
    for (int process = 0; process < 2; process++) {
        clattn_context *context = open_with(NULL, cache, true);
        clattn_attention_plan *plan;
        const cl_shim_counts before = cl_shim_count();
        ct_ok(clattn_attention_plan_create(context, &desc, &plan));
        assert_int_equal(cl_shim_count().launches - before.launches, process == 0 ? 1 : 0);
        clattn_attention_plan_destroy(plan);
        clattn_context_destroy(context);
    }
}

static void a_row_is_tested_once_in_a_context(void **state)
{
    (void)state;
    clattn_context *context = open_with(NULL, "", true);
    clattn_attention_desc desc = small();
    clattn_attention_plan *plan;
    desc.kernel = "tiles-16";
    for (int round = 0; round < 2; round++) {
        const cl_shim_counts before = cl_shim_count();
        desc.len_kv += round;
        ct_ok(clattn_attention_plan_create(context, &desc, &plan));
        assert_int_equal(cl_shim_count().launches - before.launches, round == 0 ? 1 : 0);
        clattn_attention_plan_destroy(plan);
    }
    clattn_context_destroy(context);
}

static void a_test_that_cannot_run_is_no_verdict(void **state)
{
    (void)state;
    clattn_context *context = open_with(NULL, "", true);
    clattn_attention_desc desc = small();
    clattn_attention_plan *plan;
    desc.kernel = "tiles-16";
    for (long buffer = 1; buffer <= 4; buffer++) {
        const cl_shim_counts before = cl_shim_count();
        cl_shim_fault.buffer_at = buffer;
        ct_ok(clattn_attention_plan_create(context, &desc, &plan));
        cl_shim_clear_faults();
        assert_int_equal(cl_shim_count().launches, before.launches);
        clattn_attention_plan_destroy(plan);
        const cl_shim_counts after = cl_shim_count();
        assert_true(cl_shim_same_live(&before, &after) || buffer == 1); /* the first builds the program */
    }
    clattn_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_row_with_wrong_numbers_is_refused),
        cmocka_unit_test(the_next_row_is_taken),
        cmocka_unit_test(a_verdict_is_kept_on_disk),
        cmocka_unit_test(a_row_is_tested_once_in_a_context),
        cmocka_unit_test(a_test_that_cannot_run_is_no_verdict),
    };
    return cmocka_run_group_tests(tests, before_all, ct_teardown);
}
