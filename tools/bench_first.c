/* tools/bench_first.c: how long the first call takes in a process of its own, whose caches are empty folders.
 * Called by bench.c before it opens the device, as a process that has may not fork. */
#include "bench.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_ROOM = 512 };

/* Where the drivers that we know keep what they compiled. */
static const char *const driver_caches[] = { "POCL_CACHE_DIR", "CUDA_CACHE_PATH", "MESA_SHADER_CACHE_DIR",
                                             "NEO_CACHE_DIR" };

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    return remove(path);
}

static bool is_empty(const char *path)
{
    DIR *folder = opendir(path);
    int entries = 0;
    if (!folder)
        return true;
    while (readdir(folder))
        entries++;
    closedir(folder);
    return entries <= 2; /* itself and its parent */
}

/* In the process of its own: NaN where there is no such call. */
static double first_call(const bench_settings *set, const bench_case *of)
{
    clattn_context *context;
    bench_work work;
    tool_error error;
    double passed = NAN;
    if (!tool_open(set->device, &context, &error))
        return NAN;
    if (bench_work_create(context, of, &work, &error)) {
        tool_progress_begin("the first call, without what was compiled before");
        double begin = tool_seconds();
        if (bench_work_plan(&work) == CLATTN_OK && bench_work_call(&work, &error))
            passed = tool_seconds() - begin;
        tool_progress_end();
        bench_work_free(&work);
    }
    clattn_context_destroy(context);
    return passed;
}

/* Runs that in a child, the library's cache in `own`, none when empty, the drivers' in `driver`. */
static bool in_child(const bench_settings *set, const bench_case *of, const char *own, const char *driver,
                     double *seconds, tool_error *error)
{
    int ends[2], status = 0;
    *seconds = NAN;
    if (pipe(ends) != 0)
        return tool_fail(error, "the first call: no pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        setenv("CLATTN_CACHE_DIR", own, 1);
        for (size_t index = 0; index < sizeof driver_caches / sizeof driver_caches[0]; index++)
            setenv(driver_caches[index], driver, 1);
        double passed = first_call(set, of);
        ssize_t sent = write(ends[1], &passed, sizeof passed);
        _exit(sent == (ssize_t)sizeof passed ? 0 : 1);
    }
    close(ends[1]);
    if (child > 0 && read(ends[0], seconds, sizeof *seconds) != (ssize_t)sizeof *seconds)
        *seconds = NAN;
    close(ends[0]);
    if (child < 0)
        return tool_fail(error, "the first call: no new process");
    waitpid(child, &status, 0);
    return true;
}

bool bench_first_calls(const bench_settings *set, bench_result *result, tool_error *error)
{
    char folder[PATH_ROOM], own[PATH_ROOM], driver[2][PATH_ROOM];
    const char *home = getenv("TMPDIR");
    snprintf(folder, sizeof folder - 16, "%s/clattn-bench-XXXXXX", home && *home ? home : "/tmp");
    if (!mkdtemp(folder))
        return tool_fail(error, "%s: cannot make a folder", folder);
    snprintf(own, sizeof own, "%s/own", folder);
    snprintf(driver[0], sizeof driver[0], "%s/cold", folder);
    snprintf(driver[1], sizeof driver[1], "%s/cached", folder);
    bool ok = mkdir(own, 0700) == 0 && mkdir(driver[0], 0700) == 0 && mkdir(driver[1], 0700) == 0;
    if (!ok)
        tool_fail(error, "%s: cannot make folders in it", folder);
    ok = ok && in_child(set, &result->of, own, driver[0], &result->cold_s, error);
    if (ok && !is_empty(own))
        ok = in_child(set, &result->of, own, driver[1], &result->cached_s, error);
    if (ok && !is_empty(driver[0]))
        ok = in_child(set, &result->of, "", driver[0], &result->driver_s, error);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return ok;
}
