/* tools/files/load.h: an array by what a user writes: X.npy, or X.safetensors:NAME.
 * Called by the program's commands. */
#ifndef TOOLS_FILES_LOAD_H
#define TOOLS_FILES_LOAD_H

#include "files/array.h"

/* On failure *array is all zero. */
bool tool_load(const char *where, tool_array *array, tool_error *error);

#endif
