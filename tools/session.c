/* tools/session.c: environment, device, clock, progress on the terminal.
 * Called by every command. */
#include "session.h"

#include "files/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

bool tool_fail_library(tool_error *error, const char *about)
{
    const char *message = clattn_last_message();
    return about ? tool_fail(error, "%s: %s", about, message) : tool_fail(error, "%s", message);
}

const char *tool_selector(const char *option)
{
    return option ? option : getenv("CLATTN_DEVICE");
}

static void log_line(void *user, clattn_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "clattn: %s%s\n", level == CLATTN_LOG_WARNING ? "warning: " : "", line);
}

clattn_context_options tool_context_options(const char *device_option)
{
    return (clattn_context_options){ .device = tool_selector(device_option),
                                     .cache_dir = getenv("CLATTN_CACHE_DIR"),
                                     .use_known_bad = is_set("CLATTN_USE_KNOWN_BAD"),
                                     .log = is_set("CLATTN_VERBOSE") ? log_line : NULL };
}

bool tool_open(const char *device_option, clattn_context **context, tool_error *error)
{
    clattn_context_options options = tool_context_options(device_option);
    tool_progress_begin("opening the device");
    clattn_status status = clattn_context_create(&options, context);
    tool_progress_end();
    return status == CLATTN_OK || tool_fail_library(error, NULL);
}

int tool_finish(const tool_command *command, bool ok, const tool_error *error)
{
    tool_progress_end();
    int code = tool_end(command, ok, error);
    if (!ok && is_set("CLATTN_VERBOSE") && *clattn_last_build_log())
        fprintf(stderr, "%s\n", clattn_last_build_log());
    return code;
}

int tool_kernel_check(const tool_command *command, const char *wanted, const char *or_else)
{
    const char *name, *nearest = or_else ? or_else : clattn_kernel_name(0);
    if (!wanted)
        return TOOL_GO_ON;
    for (size_t index = 0; (name = clattn_kernel_name(index)); index++) {
        if (tool_distance(wanted, name) < tool_distance(wanted, nearest))
            nearest = name;
    }
    if (strcmp(wanted, nearest) == 0)
        return TOOL_GO_ON;
    return tool_usage(command, "--kernel %s: unknown; the nearest is %s", wanted, nearest);
}

double tool_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Progress
 * ----------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *doing; /* guarded by lock, as the two below */
static double since;
static bool shown;

static void *watch(void *unused)
{
    const struct timespec pause = { .tv_nsec = 250000000 };
    (void)unused;
    while (pthread_mutex_lock(&lock) == 0) {
        double passed = tool_seconds() - since;
        if (doing && passed >= 1) {
            fprintf(stderr, "\r\033[K%s, %.0f s", doing, passed);
            shown = true;
        }
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void say(const char *what)
{
    pthread_mutex_lock(&lock);
    if (shown)
        fprintf(stderr, "\r\033[K");
    shown = false;
    doing = what;
    since = tool_seconds();
    pthread_mutex_unlock(&lock);
}

void tool_progress_begin(const char *what)
{
    static bool started;
    if (!isatty(STDERR_FILENO))
        return;
    say(what);
    if (!started) {
        pthread_t thread;
        started = true;
        if (pthread_create(&thread, NULL, watch, NULL) == 0)
            pthread_detach(thread);
    }
}

void tool_progress_end(void)
{
    say(NULL);
}
