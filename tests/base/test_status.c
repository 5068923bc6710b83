/* Status names, messages and OpenCL error names: host/base/status.c. */
#define _POSIX_C_SOURCE 200809L
#include "support/harness.h"

#include "base/os.h"
#include "base/status.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void names_every_status(void **state)
{
    (void)state;
#define CHECK(name, text) assert_string_equal(clattn_status_name(CLATTN_##name), "CLATTN_" #name);
    CLATTN_STATUS_LIST(CHECK)
#undef CHECK
}

static void names_no_unknown_status(void **state)
{
    (void)state;
    assert_string_equal(clattn_status_name((clattn_status)1000), "unknown status");
    assert_string_equal(clattn_status_name((clattn_status)-1), "unknown status");
}

static void version_is_that_of_the_header(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH);
    assert_string_equal(clattn_version(), text);
}

static void dtype_bytes_are_4_2_2_and_0(void **state)
{
    (void)state;
    assert_int_equal(clattn_dtype_bytes(CLATTN_F32), 4);
    assert_int_equal(clattn_dtype_bytes(CLATTN_F16), 2);
    assert_int_equal(clattn_dtype_bytes(CLATTN_BF16), 2);
    assert_int_equal(clattn_dtype_bytes((clattn_dtype)3), 0);
}

static void fail_keeps_the_message_and_returns_the_status(void **state)
{
    (void)state;
    assert_int_equal(ca_fail(CLATTN_INVALID_SHAPE, "heads_q %d is not a multiple of heads_kv %d", 6, 4),
                     CLATTN_INVALID_SHAPE);
    assert_string_equal(clattn_last_message(), "heads_q 6 is not a multiple of heads_kv 4");
}

static void message_is_one_line(void **state)
{
    (void)state;
    ca_fail(CLATTN_CL_FAILED, "first\nsecond\r\nthird");
    assert_string_equal(clattn_last_message(), "first second  third");
}

static void message_may_quote_the_message_before(void **state)
{
    (void)state;
    ca_fail(CLATTN_CL_FAILED, "inner");
    ca_fail(CLATTN_CL_FAILED, "outer, because %s", clattn_last_message());
    assert_string_equal(clattn_last_message(), "outer, because inner");
}

static void long_message_is_cut_and_ended(void **state)
{
    (void)state;
    char *text = test_malloc(20001);
    memset(text, 'x', 20000);
    text[20000] = '\0';
    ca_fail(CLATTN_CL_FAILED, "%s", text);
    size_t length = strlen(clattn_last_message());
    assert_true(length > 1000 && length < 20000);
    test_free(text);
}

static void cl_failure_names_call_number_and_subject(void **state)
{
    (void)state;
    assert_int_equal(ca_fail_cl(CL_INVALID_VALUE, "clCreateBuffer", NULL), CLATTN_CL_FAILED);
    assert_string_equal(clattn_last_message(), "clCreateBuffer: CL_INVALID_VALUE (-30)");
    ca_fail_cl(CL_INVALID_KERNEL_NAME, "clCreateKernel", "lanes");
    assert_string_equal(clattn_last_message(), "clCreateKernel: CL_INVALID_KERNEL_NAME (-46) for `lanes`");
}

static void cl_failures_map_to_status(void **state)
{
    (void)state;
    assert_int_equal(ca_fail_cl(CL_MEM_OBJECT_ALLOCATION_FAILURE, "f", NULL), CLATTN_OUT_OF_MEMORY);
    assert_int_equal(ca_fail_cl(CL_OUT_OF_HOST_MEMORY, "f", NULL), CLATTN_OUT_OF_MEMORY);
    assert_int_equal(ca_fail_cl(CL_INVALID_BUFFER_SIZE, "f", NULL), CLATTN_OUT_OF_MEMORY);
    assert_int_equal(ca_fail_cl(-1001, "f", NULL), CLATTN_NO_DEVICE);
    assert_int_equal(ca_fail_cl(CL_DEVICE_NOT_FOUND, "f", NULL), CLATTN_NO_DEVICE);
    assert_int_equal(ca_fail_cl(CL_OUT_OF_RESOURCES, "f", NULL), CLATTN_CL_FAILED);
}

static void cl_error_names_include_the_loader_s(void **state)
{
    (void)state;
    assert_string_equal(clattn_cl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(clattn_cl_error_name(CL_SUCCESS), "CL_SUCCESS");
    assert_string_equal(clattn_cl_error_name(-11), "CL_BUILD_PROGRAM_FAILURE");
    assert_string_equal(clattn_cl_error_name(-9999), "unknown OpenCL error");
}

static void *fail_elsewhere(void *seen)
{
    *(bool *)seen = clattn_last_message()[0] == '\0' && clattn_last_build_log()[0] == '\0';
    ca_fail(CLATTN_CL_FAILED, "elsewhere");
    ca_keep_build_log("log elsewhere");
    return NULL;
}

static void message_and_log_belong_to_the_thread(void **state)
{
    (void)state;
    bool empty_at_first = false;
    ca_fail(CLATTN_CL_FAILED, "here");
    ca_keep_build_log("log here");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty_at_first), 0);
    pthread_join(thread, NULL);
    assert_true(empty_at_first);
    assert_string_equal(clattn_last_message(), "here");
    assert_string_equal(clattn_last_build_log(), "log here");
}

static void build_log_has_no_bound(void **state)
{
    (void)state;
    const size_t bytes = 1000000;
    char *log = test_malloc(bytes + 1);
    memset(log, 'l', bytes);
    log[bytes] = '\0';
    ca_keep_build_log(log);
    assert_int_equal(strlen(clattn_last_build_log()), bytes);
    ca_keep_build_log("");
    assert_string_equal(clattn_last_build_log(), "");
    test_free(log);
}

static void finds_text_whatever_the_case(void **state)
{
    (void)state;
    const char *text = "Portable Computing Language";
    assert_ptr_equal(ca_find_text(text, "portABLE"), text);
    assert_ptr_equal(ca_find_text(text, "language"), text + 19);
    assert_ptr_equal(ca_find_text(text, ""), text);
    assert_null(ca_find_text(text, "languages"));
    assert_null(ca_find_text("", "x"));
}

static void reads_a_whole_file_and_no_folder(void **state)
{
    (void)state;
    char path[] = "clattn-file-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "wb");
    for (int i = 0; i < 100000; ++i)
        fputc('a' + i % 26, stream);
    fclose(stream);
    size_t bytes = 0;
    char *text = ca_read_file(path, SIZE_MAX, &bytes);
    remove(path);
    assert_non_null(text);
    assert_int_equal(bytes, 100000);
    assert_int_equal(text[99999], 'a' + 99999 % 26);
    assert_int_equal(text[100000], '\0');
    free(text);
    assert_null(ca_read_file(path, SIZE_MAX, &bytes));
    assert_null(ca_read_file("/", SIZE_MAX, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_every_status),
        cmocka_unit_test(names_no_unknown_status),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(dtype_bytes_are_4_2_2_and_0),
        cmocka_unit_test(fail_keeps_the_message_and_returns_the_status),
        cmocka_unit_test(message_is_one_line),
        cmocka_unit_test(message_may_quote_the_message_before),
        cmocka_unit_test(long_message_is_cut_and_ended),
        cmocka_unit_test(cl_failure_names_call_number_and_subject),
        cmocka_unit_test(cl_failures_map_to_status),
        cmocka_unit_test(cl_error_names_include_the_loader_s),
        cmocka_unit_test(message_and_log_belong_to_the_thread),
        cmocka_unit_test(build_log_has_no_bound),
        cmocka_unit_test(finds_text_whatever_the_case),
        cmocka_unit_test(reads_a_whole_file_and_no_folder),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
