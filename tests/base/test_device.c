/* The list of devices, their facts and the pick: host/base/device.c. Invented devices come from the shim. */
#include "support/cl_shim.h"
#include "support/harness.h"

#include "base/device.h"

#include <stdio.h>
#include <string.h>

static int clear(void **state)
{
    (void)state;
    cl_shim_clear_faults();
    return 0;
}

#define GPU CL_DEVICE_TYPE_GPU
#define CPU CL_DEVICE_TYPE_CPU
#define ACCELERATOR CL_DEVICE_TYPE_ACCELERATOR

#define INVENT(...)                                                                                          \
    static const cl_shim_device invented[] = { __VA_ARGS__ };                                                \
    cl_shim_fault.devices = invented;                                                                        \
    cl_shim_fault.device_count = sizeof invented / sizeof invented[0]

#define PICK(selector) (&(clattn_context_options){ .device = (selector), .cache_dir = "" })

static void picks(const char *selector, size_t want, const char *why_want)
{
    char why[CLATTN_TEXT_BYTES] = "";
    size_t index = 99;
    ct_ok(clattn_device_pick(PICK(selector), &index, why));
    assert_int_equal(index, want);
    assert_string_equal(why, why_want);
}

/* ---- The list ---- */

static void real_device_has_its_facts(void **state)
{
    (void)state;
    ca_device device;
    ct_ok(ca_device_read(ct_device(), &device));
    assert_ptr_equal(device.info.device_id, ct_device());
    assert_non_null(device.info.platform_id);
    assert_true(device.info.name[0] != '\0' && device.info.platform[0] != '\0' &&
                device.info.driver[0] != '\0');
    assert_memory_equal(device.info.version, "OpenCL ", 7);
    assert_true(device.info.compute_units > 0);
    assert_true(device.info.max_alloc_bytes > 0 && device.info.max_alloc_bytes <= device.info.memory_bytes);
    assert_true(device.info.local_bytes > 0);
    assert_true(device.info.has_compiler);
    assert_true(device.max_work_group > 0);
    assert_true(device.info.float_width >= 1);
    assert_true(device.buffer_align_bytes >= 1 && device.buffer_align_bytes <= 4096);
}

static void list_writes_no_more_than_its_capacity(void **state)
{
    (void)state;
    INVENT({ GPU, 1, true, "a", 1 }, { CPU, 2, true, "b", 1 }, { CPU, 3, true, "c", 1 });
    clattn_device_info infos[3];
    memset(infos, 0x5a, sizeof infos);
    size_t count = 0;
    ct_ok(clattn_devices(2, infos, &count));
    assert_int_equal(count, 3);
    assert_string_equal(infos[0].name, "a");
    assert_string_equal(infos[1].name, "b");
    const unsigned char *rest = (const unsigned char *)&infos[2];
    for (size_t i = 0; i < sizeof infos[2]; ++i)
        assert_int_equal(rest[i], 0x5a);
}

static void list_takes_null_devices_with_no_capacity_only(void **state)
{
    (void)state;
    size_t count = 0;
    ct_ok(clattn_devices(0, NULL, &count));
    assert_true(count >= 1);
    ct_rejects(clattn_devices(1, NULL, &count), CLATTN_INVALID_ARGUMENT, "devices is NULL", "1");
    ct_rejects(clattn_devices(0, NULL, NULL), CLATTN_INVALID_ARGUMENT, "count is NULL");
}

static void unknown_properties_are_no_failure(void **state)
{
    (void)state;
    INVENT({ GPU, 7, true, "  spaced out \n", 1 });
    clattn_device_info info;
    size_t count = 0;
    ct_ok(clattn_devices(1, &info, &count));
    assert_string_equal(info.name, "spaced out");
    assert_string_equal(info.version, "CL_INVALID_VALUE (-30)"); /* in the place of the text */
    assert_int_equal(info.compute_units, 7);
    assert_int_equal(info.memory_bytes, 0);
}

static void long_names_are_cut(void **state)
{
    (void)state;
    static char name[600];
    memset(name, 'n', sizeof name - 1);
    const cl_shim_device invented[] = { { GPU, 1, true, name, 1 } };
    cl_shim_fault.devices = invented;
    cl_shim_fault.device_count = 1;
    clattn_device_info info;
    size_t count = 0;
    ct_ok(clattn_devices(1, &info, &count));
    assert_int_equal(strlen(info.name), CLATTN_TEXT_BYTES - 1);
}

/* ---- What can be missing ---- */

static void no_platform_says_what_to_install(void **state)
{
    (void)state;
    size_t count = 77;
    cl_shim_fault.platform_error = -1001;
    ct_rejects(clattn_devices(0, NULL, &count), CLATTN_NO_DEVICE, "no OpenCL platform", "install",
               "pocl-opencl-icd", "CL_PLATFORM_NOT_FOUND_KHR (-1001)");
    assert_int_equal(count, 0);
    cl_shim_clear_faults();
    cl_shim_fault.zero_platforms = true;
    ct_rejects(clattn_devices(0, NULL, &count), CLATTN_NO_DEVICE, "no OpenCL platform", "0 platforms");
}

static void platform_without_device_is_named(void **state)
{
    (void)state;
    char platform[CLATTN_TEXT_BYTES];
    memcpy(platform, clattn_context_device(ct_context())->platform, sizeof platform);
    size_t count = 77;
    cl_shim_fault.device_error = CL_DEVICE_NOT_FOUND;
    ct_rejects(clattn_devices(0, NULL, &count), CLATTN_NO_DEVICE, "no OpenCL device on 1 platform", platform,
               "has none");
    assert_int_equal(count, 0);
}

static void failing_platform_hides_no_other(void **state)
{
    (void)state;
    clattn_device_info info;
    size_t count = 0;
    cl_shim_fault.broken_platform = true;
    ct_ok(clattn_devices(1, &info, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(info.device_id, ct_device());
}

static void failing_platform_alone_says_how_it_fails(void **state)
{
    (void)state;
    size_t count = 0;
    cl_shim_fault.broken_platform = true;
    cl_shim_fault.device_error = CL_DEVICE_NOT_FOUND;
    ct_rejects(clattn_devices(0, NULL, &count), CLATTN_NO_DEVICE, "on 2 platforms",
               "clGetDeviceIDs on Broken: CL_OUT_OF_HOST_MEMORY (-6)");
}

static void failing_loader_is_reported(void **state)
{
    (void)state;
    size_t count = 0;
    cl_shim_fault.platform_error = CL_OUT_OF_HOST_MEMORY;
    ct_rejects(clattn_devices(0, NULL, &count), CLATTN_OUT_OF_MEMORY,
               "clGetPlatformIDs: CL_OUT_OF_HOST_MEMORY");
}

/* ---- The pick ---- */

static void one_device_is_the_only_device(void **state)
{
    (void)state;
    INVENT({ CPU, 2, true, "a", 1 });
    picks(NULL, 0, "the only device");
    picks("", 0, "the only device");
    picks("cpu", 0, "the only device");
}

static void gpu_comes_before_accelerator_before_cpu(void **state)
{
    (void)state;
    INVENT({ CPU, 64, true, "a", 1 }, { ACCELERATOR, 4, true, "b", 1 }, { GPU, 2, true, "c", 1 });
    picks(NULL, 2, "the best of 3 devices: GPU before accelerator");
    cl_shim_fault.device_count = 2;
    picks(NULL, 1, "the best of 2 devices: accelerator before CPU");
}

static void compiler_comes_before_type(void **state)
{
    (void)state;
    INVENT({ GPU, 64, false, "a", 1 }, { CPU, 2, true, "b", 1 });
    picks(NULL, 1, "the only one of 2 devices that compiles OpenCL C");
}

static void cpu_with_float_vectors_comes_before_one_without(void **state)
{
    (void)state;
    INVENT({ CPU, 8, true, "a", 1 }, { CPU, 2, true, "b", 16 });
    picks(NULL, 1, "the best of 2 devices: float vectors of 16 lanes before single floats");
}

static void more_compute_units_win(void **state)
{
    (void)state;
    INVENT({ GPU, 20, true, "a", 1 }, { GPU, 64, true, "b", 1 }, { CPU, 96, true, "c", 1 });
    picks(NULL, 1, "the best of 3 devices: 64 compute units before 20");
    picks("gpu", 1, "the best of 2 GPUs: 64 compute units before 20");
}

static void first_of_equals_wins(void **state)
{
    (void)state;
    INVENT({ CPU, 2, true, "a", 1 }, { CPU, 2, true, "b", 1 });
    picks(NULL, 0, "the first of 2 devices: the next is no better");
}

static void selector_names_a_type(void **state)
{
    (void)state;
    INVENT({ GPU, 64, true, "cpu-like", 1 }, { CPU, 2, true, "b", 1 }, { ACCELERATOR, 2, true, "c", 1 });
    picks("cpu", 1, "the only CPU");
    picks("CPU", 1, "the only CPU");
    picks("gpu", 0, "the only GPU");
    picks("accelerator", 2, "the only accelerator");
}

static void selector_is_a_number(void **state)
{
    (void)state;
    INVENT({ GPU, 64, true, "a", 1 }, { CPU, 2, true, "b", 1 });
    picks("1", 1, "number 1 was asked for");
}

static void selector_is_part_of_a_name(void **state)
{
    (void)state;
    INVENT({ GPU, 64, true, "Fast One", 1 }, { CPU, 2, true, "Slow One", 1 });
    picks("slow", 1, "name contains 'slow'");
    picks("ONE", 0, "name contains 'ONE'");
}

static void selector_is_part_of_a_platform(void **state)
{
    (void)state;
    char why[CLATTN_TEXT_BYTES], want[2 * CLATTN_TEXT_BYTES];
    const clattn_device_info *info = clattn_context_device(ct_context());
    size_t index = 9;
    ct_ok(clattn_device_pick(PICK(info->platform), &index, why));
    assert_int_equal(index, 0);
    const bool in_name = strstr(info->name, info->platform) != NULL;
    snprintf(want, sizeof want, "%s contains '%s'", in_name ? "name" : "platform", info->platform);
    assert_string_equal(why, want);
}

static void selector_without_match_lists_what_there_is(void **state)
{
    (void)state;
    size_t index = 9;
    INVENT({ GPU, 64, true, "Fast One", 1 }, { CPU, 2, true, "Slow One", 1 });
    ct_rejects(clattn_device_pick(PICK("radeon"), &index, NULL), CLATTN_NO_DEVICE,
               "no device matches `radeon`", "0 Fast One (GPU, ", "1 Slow One (CPU, ");
    ct_rejects(clattn_device_pick(PICK("2"), &index, NULL), CLATTN_NO_DEVICE, "no device matches `2`",
               "Fast One");
    ct_rejects(clattn_device_pick(PICK("99999999999999999999999"), &index, NULL), CLATTN_NO_DEVICE,
               "no device matches");
    ct_rejects(clattn_device_pick(PICK("accelerator"), &index, NULL), CLATTN_NO_DEVICE, "`accelerator`");
    assert_int_equal(index, 9);
}

static void long_selector_is_cut_in_the_reason(void **state)
{
    (void)state;
    static char name[600];
    memset(name, 'n', 250);
    const cl_shim_device invented[] = { { GPU, 1, true, name, 1 } };
    cl_shim_fault.devices = invented;
    cl_shim_fault.device_count = 1;
    char why[CLATTN_TEXT_BYTES];
    size_t index;
    ct_ok(clattn_device_pick(PICK(name), &index, why));
    assert_int_equal(strlen(why), CLATTN_TEXT_BYTES - 1);
}

static void pick_takes_no_reason_but_needs_an_index(void **state)
{
    (void)state;
    size_t index = 9;
    ct_ok(clattn_device_pick(NULL, &index, NULL));
    assert_int_equal(index, 0);
    ct_rejects(clattn_device_pick(NULL, NULL, NULL), CLATTN_INVALID_ARGUMENT, "index is NULL");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(real_device_has_its_facts),
        TEST(list_writes_no_more_than_its_capacity),
        TEST(list_takes_null_devices_with_no_capacity_only),
        TEST(unknown_properties_are_no_failure),
        TEST(long_names_are_cut),
        TEST(no_platform_says_what_to_install),
        TEST(platform_without_device_is_named),
        TEST(failing_platform_hides_no_other),
        TEST(failing_platform_alone_says_how_it_fails),
        TEST(failing_loader_is_reported),
        TEST(one_device_is_the_only_device),
        TEST(gpu_comes_before_accelerator_before_cpu),
        TEST(compiler_comes_before_type),
        TEST(cpu_with_float_vectors_comes_before_one_without),
        TEST(more_compute_units_win),
        TEST(first_of_equals_wins),
        TEST(selector_names_a_type),
        TEST(selector_is_a_number),
        TEST(selector_is_part_of_a_name),
        TEST(selector_is_part_of_a_platform),
        TEST(selector_without_match_lists_what_there_is),
        TEST(long_selector_is_cut_in_the_reason),
        TEST(pick_takes_no_reason_but_needs_an_index),
    };
    return cmocka_run_group_tests_name("device", tests, ct_setup, ct_teardown);
}
