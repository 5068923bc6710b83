/* tools/files/safetensors.h: .safetensors files: named tensors behind a JSON header. The header is judged
 * whole when the file is opened; tensors are read one by one. Called by load.c and by the program's commands.
 */
#ifndef TOOLS_FILES_SAFETENSORS_H
#define TOOLS_FILES_SAFETENSORS_H

#include "files/array.h"

typedef struct tool_safetensors tool_safetensors;

/* Refuses a header that is longer than the file, is not a JSON object of tensors, names a tensor twice, or
 * whose offsets do not cover the data exactly, each byte once. On failure *file is NULL. */
bool tool_safetensors_open(const char *path, tool_safetensors **file, tool_error *error);
void tool_safetensors_close(tool_safetensors *file); /* NULL is allowed */

const char *tool_safetensors_path(const tool_safetensors *file);
size_t tool_safetensors_count(const tool_safetensors *file);
/* Names in rising order; they belong to the file. */
const char *tool_safetensors_name(const tool_safetensors *file, size_t index);
bool tool_safetensors_has(const tool_safetensors *file, const char *name);

/* Reads F16, BF16, F32, F64, I32, I64, U8 and BOOL; other types may stand in the file but are refused here. A
 * name that is not there is an error that gives the nearest one. On failure *array is all zero. */
bool tool_safetensors_read(tool_safetensors *file, const char *name, tool_array *array, tool_error *error);

#endif
