/* tools/files/load.c: finds the reader for a file that a user names.
 * Called by the program's commands. */
#include "files/load.h"

#include "files/npy.h"
#include "files/safetensors.h"

#include <stdlib.h>
#include <string.h>

bool tool_load(const char *where, tool_array *array, tool_error *error)
{
    static const char ending[] = ".safetensors";
    enum { ENDING = sizeof ending - 1 };
    size_t length = strlen(where);
    memset(array, 0, sizeof *array);
    if (length >= ENDING && strcmp(where + length - ENDING, ending) == 0)
        return tool_fail(error, "%s: name the tensor, as in %s:NAME", where, where);
    const char *split = strstr(where, ".safetensors:");
    if (!split)
        return tool_npy_read(where, array, error);

    size_t path_length = (size_t)(split - where) + ENDING;
    char *path = malloc(path_length + 1);
    if (!path)
        return tool_fail(error, "%s: no memory", where);
    memcpy(path, where, path_length);
    path[path_length] = 0;
    tool_safetensors *file;
    bool ok = tool_safetensors_open(path, &file, error);
    if (ok)
        ok = tool_safetensors_read(file, where + path_length + 1, array, error);
    tool_safetensors_close(file);
    free(path);
    return ok;
}
