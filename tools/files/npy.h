/* tools/files/npy.h: numpy's .npy files, one array each.
 * Read: versions 1.0, 2.0 and 3.0; f2 f4 f8 i4 i8 u1 b1; C and Fortran order; either byte order. Written:
 * version 1.0, C order, lowest byte first. Called by load.c and by the program's commands. */
#ifndef TOOLS_FILES_NPY_H
#define TOOLS_FILES_NPY_H

#include "files/array.h"

#include <stdio.h>

/* Refuses a file whose size is not exactly that of its header and data. The array comes in C order, bools as
 * 0 or 1. On failure *array is all zero. */
bool tool_npy_read(const char *path, tool_array *array, tool_error *error);

/* Every type but BF16, which numpy has not. `path` is for messages. */
bool tool_npy_write(FILE *file, const char *path, const tool_array *array, tool_error *error);

#endif
