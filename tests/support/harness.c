/* tests/support/harness.c: owns the context under test, the environment variables of the tests and the
 * user's home as they see it. */
#define _POSIX_C_SOURCE 200809L
#include "support/harness.h"

#include "support/cl_shim.h"
#include "support/clblast.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEARDOWNS = 8 };

static clattn_context *context;
static cl_command_queue queue;
static void (*teardowns[MAX_TEARDOWNS])(void);
static size_t teardown_count;
static char subject[1024];

const char *ct_home;

/* Stands before the system's, so that no test writes to the user's home. */
int getpwuid_r(uid_t id, struct passwd *user, char *text, size_t bytes, struct passwd **found)
{
    *found = NULL;
    if (!ct_home)
        return 0;
    if (strlen(ct_home) >= bytes)
        return ERANGE;
    strcpy(text, ct_home);
    memset(user, 0, sizeof *user);
    user->pw_uid = id;
    user->pw_dir = text;
    *found = user;
    return 0;
}

static void stop(const char *what, const char *message)
{
    fprintf(stderr, "[  ERROR   ] %s: %s\n", what, message);
    exit(1);
}

ct_size ct_suite_size(void)
{
    const char *text = getenv("CLATTN_TEST_SIZE");
    if (!text || !*text || strcmp(text, "full") == 0)
        return CT_FULL;
    if (strcmp(text, "small") == 0)
        return CT_SMALL;
    if (strcmp(text, "tiny") == 0)
        return CT_TINY;
    stop("CLATTN_TEST_SIZE is neither full, small nor tiny", text);
    return CT_FULL;
}

int64_t ct_by_size(int64_t tiny, int64_t small, int64_t full)
{
    ct_size size = ct_suite_size();
    return size == CT_TINY ? tiny : size == CT_SMALL ? small : full;
}

int ct_setup(void **state)
{
    (void)state;
    const char *selector = getenv("CLATTN_TEST_DEVICE");
    size_t count = 0;
    if (clattn_devices(0, NULL, &count) != CLATTN_OK)
        stop("no device to test", clattn_last_message());
    if (count != 1 && !selector)
        stop("more than one device",
             "choose one implementation with OCL_ICD_VENDORS, or set CLATTN_TEST_DEVICE");
    const char *width = getenv("CLATTN_TEST_FLOAT_WIDTH");
    if (width)
        cl_shim_fault.native_float_width = (cl_uint)atoi(width);
    const char *cache = getenv("CLATTN_CACHE_DIR");
    clattn_context_options options = { .device = selector, .cache_dir = cache ? cache : "", .strict = true };
    if (clattn_context_create(&options, &context) != CLATTN_OK)
        stop("the device does not open", clattn_last_message());
    cl_int error;
    queue = clCreateCommandQueue(ct_cl(), ct_device(), 0, &error);
    if (!queue)
        stop("clCreateCommandQueue", "no queue on the device");
    ct_clblast_small_tiles();
    const clattn_device_info *info = clattn_context_device(context);
    print_message("[   INFO   ] device: %s, %s\n", info->name, info->platform);
    return 0;
}

int ct_teardown(void **state)
{
    (void)state;
    while (teardown_count > 0)
        teardowns[--teardown_count]();
    clReleaseCommandQueue(queue);
    clattn_context_destroy(context);
    clattn_default_context_release();
    queue = NULL;
    context = NULL;
    return 0;
}

void ct_at_teardown(void (*at_teardown)(void))
{
    for (size_t i = 0; i < teardown_count; i++)
        if (teardowns[i] == at_teardown)
            return;
    assert_true(teardown_count < MAX_TEARDOWNS);
    teardowns[teardown_count++] = at_teardown;
}

clattn_context *ct_context(void)
{
    assert_non_null(context);
    return context;
}

cl_context ct_cl(void)
{
    return clattn_context_cl(ct_context());
}

cl_device_id ct_device(void)
{
    return clattn_context_device(ct_context())->device_id;
}

cl_command_queue ct_queue(void)
{
    assert_non_null(queue);
    return queue;
}

uint64_t ct_seed(void)
{
    const char *text = getenv("CLATTN_TEST_SEED");
    return text && *text ? strtoull(text, NULL, 0) : 1;
}

uint64_t ct_random_bits(ct_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

ct_random ct_random_from(uint64_t seed)
{
    ct_random random = { seed ^ (ct_seed() * 0xd1342543de82ef95u) };
    ct_random_bits(&random);
    return random;
}

double ct_random_normal(ct_random *random)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(ct_random_bits(random) >> 11) * 0x1p-53;
    return sum;
}

int64_t ct_random_int(ct_random *random, int64_t first, int64_t last)
{
    return first + (int64_t)(ct_random_bits(random) % (uint64_t)(last - first + 1));
}

void ct_subject(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(subject, sizeof subject, format, list);
    va_end(list);
}

const char *ct_subject_text(void)
{
    return subject;
}

void ct_fail(const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (*subject)
        print_error("at: %s\n", subject);
    fail_msg("%s", text);
}

static void fail_at(const char *file, int line)
{
    if (*subject)
        print_error("at: %s\n", subject);
    _fail(file, line);
}

void ct_ok_at(clattn_status status, const char *call, const char *file, int line)
{
    if (status == CLATTN_OK)
        return;
    print_error("%s\n  gives %s: %s\n%s\n", call, clattn_status_name(status), clattn_last_message(),
                status == CLATTN_BUILD_FAILED ? clattn_last_build_log() : "");
    fail_at(file, line);
}

void ct_rejects_at(clattn_status status, clattn_status want, const char *const *texts, const char *call,
                   const char *file, int line)
{
    const char *message = clattn_last_message();
    if (status != want) {
        print_error("%s\n  gives %s (\"%s\") instead of %s\n", call, clattn_status_name(status),
                    status == CLATTN_OK ? "" : message, clattn_status_name(want));
        fail_at(file, line);
    }
    if (!*message || strchr(message, '\n')) {
        print_error("%s\n  gives a message that is not one line: \"%s\"\n", call, message);
        fail_at(file, line);
    }
    for (; *texts; texts++)
        if (!strstr(message, *texts)) {
            print_error("%s\n  gives a message without \"%s\": \"%s\"\n", call, *texts, message);
            fail_at(file, line);
        }
}

void ct_cl_ok_at(cl_int error, const char *call, const char *file, int line)
{
    if (error == CL_SUCCESS)
        return;
    print_error("%s\n  gives OpenCL error %d\n", call, (int)error);
    fail_at(file, line);
}

void *ct_alloc(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    assert_non_null(memory);
    return memory;
}
