/* Kernels from sources: host/base/program.c. Sources are written into a folder of the test's own. */
#define _POSIX_C_SOURCE 200809L
#include "support/cl_shim.h"
#include "support/harness.h"

#include "base/os.h"
#include "base/program.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "clattn-kernels-XXXXXX";
static const char *const files[] = { "a.cl", "b.cl", "bad.cl" };
static clattn_context *context; /* reads its sources from the folder */
static cl_shim_counts at_start;

static struct {
    int lines;
    clattn_log_level level;
    char line[1024];
} logged;

static void keep_line(void *user, clattn_log_level level, const char *line)
{
    (void)user;
    ++logged.lines;
    logged.level = level;
    snprintf(logged.line, sizeof logged.line, "%s", line);
}

static void write_source(const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int before(void **state)
{
    (void)state;
    at_start = cl_shim_count();
    memset(&logged, 0, sizeof logged);
    write_source("a.cl", "#define TWICE(x) ((x) * 2)\n");
    write_source("b.cl", "__kernel void fill(__global int *out, int value)\n"
                         "{\n"
                         "    out[get_global_id(0)] = TWICE(value) + ADD;\n"
                         "}\n"
                         "__kernel void other(__global int *out)\n"
                         "{\n"
                         "    out[0] = ADD;\n"
                         "}\n");
    write_source("bad.cl", "__kernel void bad(__global int *out)\n"
                           "{\n"
                           "    out[0] = no_such_name;\n"
                           "}\n");
    ct_ok(
        clattn_context_create(&(clattn_context_options){ .kernel_dir = folder, .log = keep_line }, &context));
    return 0;
}

static int after(void **state)
{
    (void)state;
    cl_shim_clear_faults();
    clattn_context_destroy(context);
    context = NULL;
    cl_shim_counts now = cl_shim_count();
    if (cl_shim_same_live(&at_start, &now))
        return 0;
    print_error("before: %s\n", cl_shim_live_text(&at_start));
    print_error("after:  %s\n", cl_shim_live_text(&now));
    return -1;
}

static int before_all(void **state)
{
    if (mkdtemp(folder) == NULL)
        return -1;
    return ct_setup(state);
}

static int after_all(void **state)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        remove(path);
    }
    rmdir(folder);
    return ct_teardown(state);
}

static const char *const both[] = { "a.cl", "b.cl", NULL };
static const char *const bad[] = { "bad.cl", NULL };

static long builds_since(const cl_shim_counts *counts)
{
    return cl_shim_count().builds - counts->builds;
}

/* ---- Build ---- */

static void sources_are_one_text_and_run(void **state)
{
    (void)state;
    enum { ITEMS = 12 };
    cl_int error, result[ITEMS], value = 20;
    cl_kernel kernel = NULL;
    cl_command_queue queue = clattn_context_queue(context);
    cl_mem buffer =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, sizeof result, NULL, &error);
    ct_cl_ok(error);
    ct_ok(ca_kernel_create(context, both, "-DADD=2", "fill", &kernel));
    ct_ok(ca_kernel_arg(kernel, "fill", 0, sizeof buffer, &buffer));
    ct_ok(ca_kernel_arg(kernel, "fill", 1, sizeof value, &value));
    ct_ok(
        ca_kernel_enqueue(queue, kernel, "fill", (const size_t[3]){ 3, 1, 1 }, (const size_t[3]){ 4, 1, 1 }));
    ct_cl_ok(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    for (int i = 0; i < ITEMS; ++i)
        assert_int_equal(result[i], 42);
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
}

static void program_is_built_once_per_options(void **state)
{
    (void)state;
    cl_kernel kernels[4] = { NULL };
    cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernels[0]));
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernels[1]));
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "other", &kernels[2]));
    assert_int_equal(builds_since(&counts), 1);
    ct_ok(ca_kernel_create(context, both, "-DADD=3", "fill", &kernels[3]));
    assert_int_equal(builds_since(&counts), 2);
    assert_ptr_not_equal(kernels[0], kernels[1]);
    for (int i = 0; i < 4; ++i)
        clReleaseKernel(kernels[i]);
}

static void program_is_built_once_per_list_of_sources(void **state)
{
    (void)state;
    static const char *const twice[] = { "a.cl", "a.cl", "b.cl", NULL };
    cl_kernel kernels[2] = { NULL };
    cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernels[0]));
    ct_ok(ca_kernel_create(context, twice, "-DADD=1", "fill", &kernels[1]));
    assert_int_equal(builds_since(&counts), 2);
    clReleaseKernel(kernels[0]);
    clReleaseKernel(kernels[1]);
}

static void *make_kernel(void *place)
{
    if (ca_kernel_create(context, both, "-DADD=5", "fill", place) != CLATTN_OK)
        *(cl_kernel *)place = NULL;
    return NULL;
}

static void threads_build_a_program_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    cl_kernel kernels[THREADS] = { NULL };
    cl_shim_counts counts = cl_shim_count();
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, make_kernel, &kernels[i]), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(builds_since(&counts), 1);
    for (int i = 0; i < THREADS; ++i) {
        assert_non_null(kernels[i]);
        clReleaseKernel(kernels[i]);
    }
}

static void kernel_outlives_its_context(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    clattn_context_destroy(context);
    context = NULL;
    char name[16];
    ct_cl_ok(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL));
    assert_string_equal(name, "fill");
    clReleaseKernel(kernel);
}

static void build_is_opencl_c_1_2(void **state)
{
    (void)state;
    write_source("bad.cl", "#if __OPENCL_C_VERSION__ != 120\n#error another version\n#endif\n"
                           "__kernel void fine(__global int *out)\n{\n    out[0] = 1;\n}\n");
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(context, bad, NULL, "fine", &kernel));
    clReleaseKernel(kernel);
}

static void slow_build_is_told_to_the_log(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_shim_fault.build_ms = 600;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    assert_int_equal(logged.lines, 1);
    assert_int_equal(logged.level, CLATTN_LOG_INFO);
    assert_non_null(strstr(logged.line, "b.cl: built in "));
    clReleaseKernel(kernel);
}

/* ---- Build failures ---- */

static void build_failure_quotes_the_error_and_keeps_the_log(void **state)
{
    (void)state;
    cl_kernel kernel = (cl_kernel)(void *)folder;
    ct_rejects(ca_kernel_create(context, bad, "", "bad", &kernel), CLATTN_BUILD_FAILED,
               "bad.cl does not build", "error", "no_such_name");
    assert_null(kernel);
    assert_non_null(strstr(clattn_last_build_log(), "no_such_name"));
    assert_true(strlen(clattn_last_build_log()) >= 40);
}

static void build_failure_is_logged_once_and_not_built_again(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_shim_counts counts = cl_shim_count();
    assert_int_equal(ca_kernel_create(context, bad, "", "bad", &kernel), CLATTN_BUILD_FAILED);
    assert_int_equal(logged.lines, 1);
    assert_int_equal(logged.level, CLATTN_LOG_WARNING);
    assert_non_null(strstr(logged.line, "no_such_name"));
    ca_keep_build_log("");
    ct_rejects(ca_kernel_create(context, bad, "", "bad", &kernel), CLATTN_BUILD_FAILED, "no_such_name");
    assert_non_null(strstr(clattn_last_build_log(), "no_such_name"));
    assert_int_equal(logged.lines, 1);
    assert_int_equal(builds_since(&counts), 1);
}

static void missing_define_reaches_the_message(void **state)
{
    (void)state;
    write_source("bad.cl", "#ifndef LANES\n#error LANES is missing\n#endif\n");
    cl_kernel kernel = NULL;
    ct_rejects(ca_kernel_create(context, bad, "", "bad", &kernel), CLATTN_BUILD_FAILED, "LANES is missing");
}

static void build_failure_without_log_names_the_cl_error(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_shim_fault.build_at = 1;
    ct_rejects(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel), CLATTN_BUILD_FAILED,
               "b.cl does not build: CL_BUILD_PROGRAM_FAILURE (-11)");
}

static void missing_compiler_and_memory_are_not_remembered(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_shim_fault.build_at = 1;
    cl_shim_fault.build_error = CL_COMPILER_NOT_AVAILABLE;
    ct_rejects(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel), CLATTN_NO_COMPILER,
               "cannot compile");
    cl_shim_fault.build_at = 1;
    cl_shim_fault.build_error = CL_OUT_OF_HOST_MEMORY;
    ct_rejects(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel), CLATTN_OUT_OF_MEMORY,
               "clBuildProgram: CL_OUT_OF_HOST_MEMORY (-6)");
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    clReleaseKernel(kernel);
}

static void unknown_kernel_is_named(void **state)
{
    (void)state;
    cl_kernel kernel = (cl_kernel)(void *)folder;
    ct_rejects(ca_kernel_create(context, both, "-DADD=1", "absent", &kernel), CLATTN_CL_FAILED,
               "clCreateKernel: CL_INVALID_KERNEL_NAME (-46)", "`absent`");
    assert_null(kernel);
}

/* ---- Sources ---- */

static void missing_file_in_kernel_dir_is_named(void **state)
{
    (void)state;
    static const char *const absent[] = { "a.cl", "absent.cl", NULL };
    cl_kernel kernel = NULL;
    ct_rejects(ca_kernel_create(context, absent, "", "fill", &kernel), CLATTN_INVALID_ARGUMENT,
               "kernel_dir: cannot read", folder, "/absent.cl");
}

static void unknown_built_in_source_is_named(void **state)
{
    (void)state;
    static const char *const absent[] = { "no/such.cl", NULL };
    cl_kernel kernel = NULL;
    ct_rejects(ca_kernel_create(ct_context(), absent, "", "fill", &kernel), CLATTN_BUILD_FAILED,
               "no kernel source no/such.cl is built in");
}

static void built_in_sources_are_the_files(void **state)
{
    (void)state;
    assert_true(ca_source_count > 0);
    for (size_t i = 0; i < ca_source_count; ++i) {
        char path[1024];
        size_t bytes = 0;
        snprintf(path, sizeof path, "%s/../../cl/%s", CLATTN_TEST_DATA, ca_sources[i].path);
        char *text = ca_read_file(path, SIZE_MAX, &bytes);
        assert_non_null(text);
        assert_int_equal(bytes, ca_sources[i].bytes);
        assert_memory_equal(text, ca_sources[i].text, bytes);
        free(text);
    }
}

static void built_in_source_builds_from_a_folder_too(void **state)
{
    (void)state;
    static const char *const plain[] = { "gemm/bias.cl", NULL };
    clattn_context *reading = NULL;
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(ct_context(), plain, "", "gemm_bias", &kernel));
    clReleaseKernel(kernel);
    ct_ok(clattn_context_create(&(clattn_context_options){ .kernel_dir = CLATTN_TEST_DATA "/../../cl" },
                                &reading));
    ct_ok(ca_kernel_create(reading, plain, "", "gemm_bias", &kernel));
    clReleaseKernel(kernel);
    clattn_context_destroy(reading);
}

/* The test's context keeps what it built: count that as there before. */
static int before_shared(void **state)
{
    static const char *const plain[] = { "gemm/bias.cl", NULL };
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(ct_context(), plain, "", "gemm_bias", &kernel));
    clReleaseKernel(kernel);
    return before(state);
}

/* ---- Arguments and launches ---- */

static void wrong_argument_names_kernel_and_index(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_int value = 1;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    ct_rejects(ca_kernel_arg(kernel, "fill", 7, sizeof value, &value), CLATTN_CL_FAILED,
               "clSetKernelArg 7: CL_INVALID_ARG_INDEX (-49)", "`fill`");
    clReleaseKernel(kernel);
}

static void buffer_argument_may_be_null(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    cl_mem none = NULL;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    ct_ok(ca_kernel_arg(kernel, "fill", 0, sizeof none, &none));
    clReleaseKernel(kernel);
}

static void empty_launch_does_nothing(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    cl_shim_counts counts = cl_shim_count();
    ct_ok(ca_kernel_enqueue(clattn_context_queue(context), kernel, "fill",
                            (const size_t[3]){ SIZE_MAX, 0, 1 }, (const size_t[3]){ 4, 1, 1 }));
    assert_int_equal(cl_shim_count().commands, counts.commands);
    clReleaseKernel(kernel);
}

static void launch_beyond_size_t_is_refused(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    ct_rejects(ca_kernel_enqueue(clattn_context_queue(context), kernel, "fill",
                                 (const size_t[3]){ 1, SIZE_MAX / 2, 1 }, (const size_t[3]){ 1, 4, 1 }),
               CLATTN_SIZE_OVERFLOW, "fill", "groups of 4 work-items");
    clReleaseKernel(kernel);
}

static void failing_launch_names_the_kernel(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    ct_ok(ca_kernel_create(context, both, "-DADD=1", "fill", &kernel));
    cl_shim_fault.launch_at = 1;
    ct_rejects(ca_kernel_enqueue(clattn_context_queue(context), kernel, "fill", (const size_t[3]){ 1, 1, 1 },
                                 (const size_t[3]){ 4, 1, 1 }),
               CLATTN_CL_FAILED, "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES (-5) for `fill`");
    clReleaseKernel(kernel);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sources_are_one_text_and_run),
        TEST(program_is_built_once_per_options),
        TEST(program_is_built_once_per_list_of_sources),
        TEST(threads_build_a_program_once),
        TEST(kernel_outlives_its_context),
        TEST(build_is_opencl_c_1_2),
        TEST(slow_build_is_told_to_the_log),
        TEST(build_failure_quotes_the_error_and_keeps_the_log),
        TEST(build_failure_is_logged_once_and_not_built_again),
        TEST(missing_define_reaches_the_message),
        TEST(build_failure_without_log_names_the_cl_error),
        TEST(missing_compiler_and_memory_are_not_remembered),
        TEST(unknown_kernel_is_named),
        TEST(missing_file_in_kernel_dir_is_named),
        TEST(unknown_built_in_source_is_named),
        TEST(built_in_sources_are_the_files),
        cmocka_unit_test_setup_teardown(built_in_source_builds_from_a_folder_too, before_shared, after),
        TEST(wrong_argument_names_kernel_and_index),
        TEST(buffer_argument_may_be_null),
        TEST(empty_launch_does_nothing),
        TEST(launch_beyond_size_t_is_refused),
        TEST(failing_launch_names_the_kernel),
    };
    return cmocka_run_group_tests_name("program", tests, before_all, after_all);
}
