/* tools/files/output.c: writes files under temporary names and renames them together.
 * Called by the program's commands. */
#include "files/output.h"

#include "files/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `path` up to its last slash, or "./". malloc'd, with `extra` bytes of room behind. */
static char *folder_of(const char *path, size_t extra)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 2;
    char *folder = malloc(length + extra + 1);
    if (!folder)
        return NULL;
    memcpy(folder, slash ? path : "./", length);
    folder[length] = 0;
    return folder;
}

bool tool_output_check(const char *path, tool_error *error)
{
    struct stat facts;
    bool there = stat(path, &facts) == 0;
    if (!there && lstat(path, &facts) == 0)
        return tool_fail(error, "%s: cannot write: it is a symbolic link to nothing", path);
    if (there && S_ISDIR(facts.st_mode))
        return tool_fail(error, "%s: cannot write: it is a folder", path);
    if (there && !S_ISREG(facts.st_mode)) {
        if (access(path, W_OK) != 0)
            return tool_fail(error, "%s: cannot write: %s", path, strerror(errno));
        return true;
    }
    char *folder = folder_of(path, 0);
    if (!folder)
        return tool_fail(error, "%s: no memory", path);
    bool ok = access(folder, W_OK | X_OK) == 0;
    if (!ok)
        tool_fail(error, "%s: cannot write: folder %s: %s", path, folder, strerror(errno));
    free(folder);
    return ok;
}

static bool same_file(const char *output, const char *input)
{
    struct stat out, in;
    char *path = strdup(input);
    char *tensor = path ? strstr(path, ".safetensors:") : NULL;
    if (tensor && stat(path, &in) != 0)
        tensor[strlen(".safetensors")] = 0;
    bool same = path && stat(output, &out) == 0 && S_ISREG(out.st_mode) && stat(path, &in) == 0 &&
                out.st_dev == in.st_dev && out.st_ino == in.st_ino;
    free(path);
    return same;
}

bool tool_outputs_check(const char *const *outputs, size_t output_count, const char *const *inputs,
                        size_t input_count, tool_error *error)
{
    for (size_t out = 0; out < output_count; out++) {
        if (!outputs[out])
            continue;
        if (!tool_output_check(outputs[out], error))
            return false;
        for (size_t in = 0; in < input_count; in++) {
            if (inputs[in] && same_file(outputs[out], inputs[in]))
                return tool_fail(error, "%s: an output must not replace the input %s", outputs[out],
                                 inputs[in]);
        }
    }
    return true;
}

/* The file behind symbolic links; where there is none yet, its folder behind them. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    if (real)
        return real;
    char *folder = folder_of(path, 0);
    char *real_folder = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    if (!real_folder)
        return strdup(path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *whole = realloc(real_folder, strlen(real_folder) + strlen(name) + 2);
    if (!whole) {
        free(real_folder);
        return NULL;
    }
    strcat(strcat(whole, "/"), name);
    return whole;
}

static FILE *open_temporary(struct tool_output *item)
{
    enum { NAME_BYTES = 64, TRIES = 100 };
    item->temporary = folder_of(item->path, NAME_BYTES);
    if (!item->temporary)
        return NULL;
    size_t length = strlen(item->temporary);
    for (int try = 0; try < TRIES; try++) {
        snprintf(item->temporary + length, NAME_BYTES, ".clattn-%ld-%d.tmp", (long)getpid(), try);
        int descriptor = open(item->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0) {
            FILE *file = fdopen(descriptor, "wb");
            if (!file)
                close(descriptor);
            return file;
        }
        if (errno != EEXIST)
            break;
    }
    free(item->temporary);
    item->temporary = NULL;
    return NULL;
}

FILE *tool_outputs_add(tool_outputs *outputs, const char *path, tool_error *error)
{
    struct stat facts;
    if (outputs->count == TOOL_OUTPUTS) {
        tool_fail(error, "%s: more than %d outputs", path, TOOL_OUTPUTS);
        return NULL;
    }
    if (!tool_output_check(path, error))
        return NULL;
    struct tool_output *item = &outputs->item[outputs->count];
    bool in_place = stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
    errno = 0;
    item->path = in_place ? strdup(path) : resolve(path);
    if (!item->path) {
        tool_fail(error, "%s: no memory", path);
        return NULL;
    }
    outputs->count++;
    for (size_t other = 0; other + 1 < outputs->count && !in_place; other++) {
        if (strcmp(outputs->item[other].path, item->path) == 0) {
            tool_fail(error, "%s: two outputs go to this file", path);
            return NULL;
        }
    }
    item->file = in_place ? fopen(path, "wb") : open_temporary(item);
    if (!item->file)
        tool_fail(error, "%s: cannot write: %s", path, strerror(errno));
    return item->file;
}

bool tool_outputs_add_npy(tool_outputs *outputs, const char *path, const tool_array *array, tool_error *error)
{
    tool_array wide = { .data = NULL };
    bool ok = false;
    if (array->type == TOOL_BF16 && !tool_array_convert(array, TOOL_F32, path, &wide, error))
        return false;
    FILE *file = tool_outputs_add(outputs, path, error);
    if (file)
        ok = tool_npy_write(file, path, wide.data ? &wide : array, error);
    tool_array_free(&wide);
    return ok;
}

/* Everything on the disk; devices and pipes that know no fsync are not asked twice. */
static bool finish(struct tool_output *item, tool_error *error)
{
    errno = 0;
    bool ok = fflush(item->file) == 0 && !ferror(item->file);
    if (ok && item->temporary)
        ok = fsync(fileno(item->file)) == 0;
    int reason = errno;
    if (fclose(item->file) != 0 && ok) {
        ok = false;
        reason = errno;
    }
    item->file = NULL;
    if (!ok)
        tool_fail(error, "%s: cannot write: %s", item->path,
                  reason ? strerror(reason) : "the output is incomplete");
    return ok;
}

bool tool_outputs_commit(tool_outputs *outputs, tool_error *error)
{
    bool ok = true;
    for (size_t index = 0; index < outputs->count && ok; index++)
        ok = finish(&outputs->item[index], error);
    for (size_t index = 0; index < outputs->count && ok; index++) {
        struct tool_output *item = &outputs->item[index];
        if (!item->temporary)
            continue;
        ok = rename(item->temporary, item->path) == 0;
        if (!ok) {
            tool_fail(error, "%s: cannot write: %s", item->path, strerror(errno));
            break;
        }
        free(item->temporary);
        item->temporary = NULL;
    }
    tool_outputs_discard(outputs);
    return ok;
}

void tool_outputs_discard(tool_outputs *outputs)
{
    for (size_t index = 0; index < outputs->count; index++) {
        struct tool_output *item = &outputs->item[index];
        if (item->file)
            fclose(item->file);
        if (item->temporary)
            unlink(item->temporary);
        free(item->temporary);
        free(item->path);
    }
    memset(outputs, 0, sizeof *outputs);
}
