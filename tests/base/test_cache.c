/* Programs on disk: host/base/cache.c. Kernel sources, the cache and a home are in a folder of the test's
 * own. */
#define _XOPEN_SOURCE 700
#include "support/cl_shim.h"
#include "support/harness.h"

#include "base/cache.h"
#include "base/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

static char folder[PATH_BYTES] = "clattn-cache-XXXXXX";
static char cache[PATH_BYTES];
static const char *const sources[] = { "add.cl", NULL };
static cl_shim_counts at_start;
static int warnings;
static char warning[1024];

static void keep_warning(void *user, clattn_log_level level, const char *line)
{
    (void)user;
    if (level != CLATTN_LOG_WARNING)
        return;
    ++warnings;
    snprintf(warning, sizeof warning, "%s", line);
}

static void path_in(char path[PATH_BYTES], const char *parent, const char *name)
{
    assert_true(snprintf(path, PATH_BYTES, "%s/%s", parent, name) < PATH_BYTES);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_source(const char *sum)
{
    char path[PATH_BYTES], text[256];
    path_in(path, folder, "add.cl");
    snprintf(text, sizeof text,
             "__kernel void add(__global int *out)\n{\n    out[get_global_id(0)] = %s;\n}\n", sum);
    write_file(path, text, strlen(text));
}

static void remove_all(const char *path)
{
    char inner[PATH_BYTES];
    DIR *opened = opendir(path);
    if (opened != NULL) {
        for (struct dirent *entry; (entry = readdir(opened)) != NULL;)
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                path_in(inner, path, entry->d_name);
                remove_all(inner);
            }
        closedir(opened);
    }
    remove(path);
}

/* The number of files in the cache; the last one's path goes to `path` when that is not NULL. */
static int entries(const char *parent, char path[PATH_BYTES])
{
    int count = 0;
    DIR *opened = opendir(parent);
    for (struct dirent *entry; opened != NULL && (entry = readdir(opened)) != NULL;)
        if (entry->d_name[0] != '.') {
            ++count;
            if (path != NULL)
                path_in(path, parent, entry->d_name);
        }
    if (opened != NULL)
        closedir(opened);
    return count;
}

static int before_all(void **state)
{
    char *made = mkdtemp(folder);
    char here[PATH_BYTES / 2];
    if (made == NULL || getcwd(here, sizeof here) == NULL)
        return -1;
    snprintf(cache, sizeof cache, "%s/%s", here, made);
    strcpy(folder, cache);
    return ct_setup(state);
}

static int after_all(void **state)
{
    remove_all(folder);
    return ct_teardown(state);
}

static int before(void **state)
{
    (void)state;
    path_in(cache, folder, "one/two");
    write_source("40 + ADD");
    at_start = cl_shim_count();
    warnings = 0;
    return 0;
}

static int after(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    path_in(path, folder, "one");
    remove_all(path);
    ct_home = NULL;
    cl_shim_clear_faults();
    cl_shim_counts now = cl_shim_count();
    return cl_shim_same_live(&at_start, &now) ? 0 : -1;
}

static clattn_context *open_context(const char *cache_dir)
{
    clattn_context *context = NULL;
    const clattn_context_options options = { .kernel_dir = folder,
                                             .cache_dir = cache_dir,
                                             .log = keep_warning };
    ct_ok(clattn_context_create(&options, &context));
    return context;
}

/* What the kernel computes in a new context that keeps its programs in `cache_dir`. */
static int result_with(const char *cache_dir, const char *options)
{
    cl_int error, result = 0;
    cl_kernel kernel = NULL;
    clattn_context *context = open_context(cache_dir);
    cl_mem buffer =
        clCreateBuffer(clattn_context_cl(context), CL_MEM_READ_WRITE, sizeof result, NULL, &error);
    ct_cl_ok(error);
    ct_ok(ca_kernel_create(context, sources, options, "add", &kernel));
    ct_ok(ca_kernel_arg(kernel, "add", 0, sizeof buffer, &buffer));
    ct_ok(ca_kernel_enqueue(clattn_context_queue(context), kernel, "add", (const size_t[3]){ 1, 1, 1 },
                            (const size_t[3]){ 1, 1, 1 }));
    ct_cl_ok(clEnqueueReadBuffer(clattn_context_queue(context), buffer, CL_TRUE, 0, sizeof result, &result, 0,
                                 NULL, NULL));
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    clattn_context_destroy(context);
    return result;
}

static int result(void)
{
    return result_with(cache, "-DADD=2");
}

static long binaries(void)
{
    return cl_shim_count().binaries - at_start.binaries;
}

static long builds(void)
{
    return cl_shim_count().builds - at_start.builds;
}

/* ---- Kept and taken ---- */

static void program_is_kept_for_the_next_context(void **state)
{
    (void)state;
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), 0);
    assert_int_equal(entries(cache, NULL), 1);
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), 1);
    assert_int_equal(builds(), 2);
    assert_int_equal(warnings, 0);
}

static void program_from_disk_is_not_written_again(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct stat first, second;
    result();
    assert_int_equal(entries(cache, path), 1);
    assert_int_equal(stat(path, &first), 0);
    result();
    assert_int_equal(stat(path, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino);
}

static void other_options_are_another_program(void **state)
{
    (void)state;
    assert_int_equal(result(), 42);
    assert_int_equal(result_with(cache, "-DADD=3"), 43);
    assert_int_equal(binaries(), 0);
    assert_int_equal(entries(cache, NULL), 2);
}

static void changed_source_is_another_program(void **state)
{
    (void)state;
    assert_int_equal(result(), 42);
    write_source("50 + ADD");
    assert_int_equal(result(), 52);
    assert_int_equal(binaries(), 0);
}

static void program_that_does_not_build_is_not_kept(void **state)
{
    (void)state;
    cl_kernel kernel = NULL;
    clattn_context *context = open_context(cache);
    write_source("no_such_name");
    assert_int_equal(ca_kernel_create(context, sources, "", "add", &kernel), CLATTN_BUILD_FAILED);
    clattn_context_destroy(context);
    assert_int_equal(entries(cache, NULL), 0);
}

static void key_holds_every_fact_about_the_device(void **state)
{
    (void)state;
    char *texts[] = { "text", NULL };
    clattn_context *context = open_context(cache);
    char *const facts[] = { context->device.info.platform, context->device.platform_version,
                            context->device.info.name, context->device.info.version,
                            context->device.info.driver };
    char *key = ca_cache_key(context, texts, "");
    assert_non_null(key);
    assert_ptr_equal(strstr(key, clattn_version()), key);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; ++i) {
        assert_true(facts[i][0] != '\0');
        facts[i][0] ^= 1;
        char *other = ca_cache_key(context, texts, "");
        assert_string_not_equal(key, other);
        free(other);
        facts[i][0] ^= 1;
    }
    free(key);
    clattn_context_destroy(context);
}

/* ---- Damage ---- */

/* The entry, as it is now, is ignored and replaced by one that serves. */
static void entry_is_replaced(void)
{
    const long before = binaries();
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), before);
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), before + 1);
    assert_int_equal(entries(cache, NULL), 1);
    assert_int_equal(warnings, 0);
}

static void truncated_entry_is_replaced(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct stat facts;
    result();
    assert_int_equal(entries(cache, path), 1);
    assert_int_equal(stat(path, &facts), 0);
    const off_t sizes[] = { 0, 7, 40, facts.st_size / 2, facts.st_size - 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        assert_int_equal(truncate(path, sizes[i]), 0);
        entry_is_replaced();
    }
}

static void corrupt_entry_is_replaced(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct stat facts;
    result();
    assert_int_equal(entries(cache, path), 1);
    assert_int_equal(stat(path, &facts), 0);
    const long places[] = { 0, 9, 17, 25, 40, (long)facts.st_size - 1 }; /* each field, the key, the binary */
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        fseek(file, places[i], SEEK_SET);
        const int byte = fgetc(file);
        fseek(file, places[i], SEEK_SET);
        fputc(byte ^ 4, file);
        fclose(file);
        entry_is_replaced();
    }
}

static void foreign_entry_is_replaced(void **state)
{
    (void)state;
    static const char text[] =
        "A text that somebody keeps under the name of our file, longer than its head is.";
    char path[PATH_BYTES], other[PATH_BYTES];
    assert_int_equal(result_with(cache, "-DADD=3"), 43);
    assert_int_equal(entries(cache, other), 1);
    path_in(path, folder, "one/other");
    assert_int_equal(rename(other, path), 0);
    result();
    assert_int_equal(entries(cache, other), 1);
    assert_int_equal(rename(path, other), 0); /* whole, but another program's */
    entry_is_replaced();
    write_file(other, text, sizeof text);
    entry_is_replaced();
}

static void huge_entry_is_not_read(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    size_t bytes = 0;
    result();
    assert_int_equal(entries(cache, path), 1);
    assert_int_equal(truncate(path, 40 << 20), 0);
    entry_is_replaced();
    clattn_context *context = open_context(cache);
    unsigned char *huge = ct_alloc(40 << 20);
    ca_cache_write(context, "key", huge, 40 << 20);
    assert_null(ca_cache_read(context, "key", &bytes));
    assert_int_equal(entries(cache, NULL), 1);
    free(huge);
    clattn_context_destroy(context);
}

static void binary_that_the_device_refuses_is_replaced(void **state)
{
    (void)state;
    result();
    cl_shim_fault.binary_at = 1;
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), 0);
    cl_shim_fault.build_at = 1;
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), 1);
    assert_int_equal(builds(), 4);
    assert_int_equal(result(), 42);
    assert_int_equal(binaries(), 2);
    assert_int_equal(builds(), 5);
    assert_int_equal(warnings, 0);
}

enum { WRITES = 300, SHARED_BYTES = 50000 };

static void write_often(clattn_context *context, unsigned char letter)
{
    unsigned char *binary = malloc(SHARED_BYTES);
    memset(binary, letter, SHARED_BYTES);
    for (int i = 0; i < WRITES; ++i)
        ca_cache_write(context, "key", binary, SHARED_BYTES);
    _exit(warnings);
}

static void processes_may_write_the_same_entry_at_once(void **state)
{
    (void)state;
    char *none[] = { NULL };
    clattn_context *context = open_context(cache);
    free(ca_cache_key(context, none, "")); /* makes the folder */
    pid_t writers[2];
    for (int i = 0; i < 2; ++i)
        if ((writers[i] = fork()) == 0)
            write_often(context, (unsigned char)('A' + i));
    int running = 2, seen = 0;
    while (running > 0) {
        int status = 0;
        size_t bytes = 0;
        unsigned char *binary = ca_cache_read(context, "key", &bytes);
        assert_true(binary != NULL || seen == 0);
        if (binary != NULL) {
            ++seen;
            assert_int_equal(bytes, SHARED_BYTES);
            for (size_t i = 1; i < bytes; ++i)
                assert_true(binary[i] == binary[0]);
        }
        free(binary);
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_int_equal(status, 0);
            --running;
        }
    }
    assert_true(seen > 0);
    assert_int_equal(entries(cache, NULL), 1);
    clattn_context_destroy(context);
}

/* ---- The folder ---- */

static void folder_is_for_the_user_alone(void **state)
{
    (void)state;
    char parent[PATH_BYTES], path[PATH_BYTES];
    struct stat facts;
    result();
    path_in(parent, folder, "one");
    assert_int_equal(stat(parent, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_int_equal(stat(cache, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_int_equal(entries(cache, path), 1);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

/* The kernels work, the log says once that nothing is kept. */
static void folder_is_not_used(const char *path, const char *reason)
{
    cl_kernel kernels[2] = { NULL };
    clattn_context *context = open_context(path);
    ct_ok(ca_kernel_create(context, sources, "-DADD=2", "add", &kernels[0]));
    ct_ok(ca_kernel_create(context, sources, "-DADD=3", "add", &kernels[1]));
    clReleaseKernel(kernels[0]);
    clReleaseKernel(kernels[1]);
    clattn_context_destroy(context);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, path));
    assert_non_null(strstr(warning, reason));
}

static void folder_that_others_may_write_to_is_not_used(void **state)
{
    (void)state;
    result();
    assert_int_equal(chmod(cache, 0770), 0);
    folder_is_not_used(cache, "others may write");
    assert_int_equal(binaries(), 0);
    assert_int_equal(entries(cache, NULL), 1);
}

static void folder_that_cannot_be_made_is_no_error(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    path_in(path, folder, "add.cl/cache");
    folder_is_not_used(path, "Not a directory");
}

static void file_in_the_place_of_the_folder_is_no_error(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    path_in(path, folder, "add.cl");
    folder_is_not_used(path, "not a folder");
}

static void full_disk_is_no_error(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    char *none[] = { NULL };
    struct rlimit limit, small;
    unsigned char *binary = ct_alloc(BYTES);
    clattn_context *context = open_context(cache);
    char *key = ca_cache_key(context, none, "");
    assert_non_null(key);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = BYTES / 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ca_cache_write(context, key, binary, BYTES);
    ca_cache_write(context, key, binary, BYTES);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(warnings, 1);
    assert_int_equal(entries(cache, NULL), 0);
    clattn_context_destroy(context);
    free(key);
    free(binary);
}

static void empty_name_keeps_nothing(void **state)
{
    (void)state;
    ct_home = folder;
    assert_int_equal(result_with("", "-DADD=2"), 42);
    assert_int_equal(result_with("", "-DADD=2"), 42);
    assert_int_equal(binaries(), 0);
    assert_int_equal(entries(folder, NULL), 1);
}

/* PoCL keeps its own, and a binary of it costs a compilation that nobody asked for. */
static void null_is_the_user_s_cache_directory_but_with_pocl(void **state)
{
    (void)state;
    char home[PATH_BYTES], path[PATH_BYTES];
    path_in(home, folder, "one");
    path_in(path, home, ".cache/clattn");
    ct_home = home;
    assert_int_equal(result_with(NULL, "-DADD=2"), 42);
    assert_int_equal(entries(path, NULL), ct_context()->device.binary_compiles ? 0 : 1);
    assert_int_equal(warnings, 0);
}

static void user_without_home_keeps_nothing(void **state)
{
    (void)state;
    ct_home = NULL;
    assert_int_equal(result_with(NULL, "-DADD=2"), 42);
    assert_int_equal(result_with(NULL, "-DADD=2"), 42);
    assert_int_equal(binaries(), 0);
    assert_int_equal(warnings, 0);
}

static void oldest_files_go_first_and_foreign_ones_stay(void **state)
{
    (void)state;
    static const char *const names[] = { "c.program", "a.program", "b.program.draft", "foreign" };
    static const char bytes[100];
    char paths[4][PATH_BYTES];
    assert_null(ca_make_private_folder(cache));
    for (int i = 0; i < 4; ++i) {
        const struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 1000 + i } };
        path_in(paths[i], cache, names[i]);
        write_file(paths[i], bytes, sizeof bytes);
        assert_int_equal(utimensat(AT_FDCWD, paths[i], times, 0), 0);
    }
    ca_trim_folder(cache, ".program", 300);
    assert_int_equal(entries(cache, NULL), 4);
    ca_trim_folder(cache, ".program", 299);
    assert_int_equal(access(paths[0], F_OK), -1);
    assert_int_equal(entries(cache, NULL), 3);
    ca_trim_folder(cache, ".program", 0);
    assert_int_equal(access(paths[3], F_OK), 0);
    assert_int_equal(entries(cache, NULL), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(program_is_kept_for_the_next_context),
        TEST(program_from_disk_is_not_written_again),
        TEST(other_options_are_another_program),
        TEST(changed_source_is_another_program),
        TEST(program_that_does_not_build_is_not_kept),
        TEST(key_holds_every_fact_about_the_device),
        TEST(truncated_entry_is_replaced),
        TEST(corrupt_entry_is_replaced),
        TEST(foreign_entry_is_replaced),
        TEST(huge_entry_is_not_read),
        TEST(binary_that_the_device_refuses_is_replaced),
        TEST(processes_may_write_the_same_entry_at_once),
        TEST(folder_is_for_the_user_alone),
        TEST(folder_that_others_may_write_to_is_not_used),
        TEST(folder_that_cannot_be_made_is_no_error),
        TEST(file_in_the_place_of_the_folder_is_no_error),
        TEST(full_disk_is_no_error),
        TEST(empty_name_keeps_nothing),
        TEST(null_is_the_user_s_cache_directory_but_with_pocl),
        TEST(user_without_home_keeps_nothing),
        TEST(oldest_files_go_first_and_foreign_ones_stay),
    };
    return cmocka_run_group_tests_name("cache", tests, before_all, after_all);
}
