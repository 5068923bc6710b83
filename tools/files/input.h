/* tools/files/input.h: a regular file that is read by exact amounts, so that a size a file claims can be held
 * against the size it has before memory is asked for. Called by the readers beside it. */
#ifndef TOOLS_FILES_INPUT_H
#define TOOLS_FILES_INPUT_H

#include "files/array.h"

#include <stdio.h>

typedef struct tool_input {
    const char *path; /* the caller's */
    FILE *file;
    uint64_t bytes;
} tool_input;

bool tool_input_open(const char *path, tool_input *input, tool_error *error);
void tool_input_close(tool_input *input); /* an all-zero input is allowed */

/* Reads `bytes` bytes from `offset`; false where the file ends before. */
bool tool_input_read(tool_input *input, uint64_t offset, size_t bytes, void *to, tool_error *error);

/* Unsigned number of `bytes` bytes, lowest first. */
uint64_t tool_little(const unsigned char *from, size_t bytes);

/* Reverses each element's bytes when the file's byte order is not the host's. */
void tool_swap(void *data, size_t elements, size_t element_bytes, bool file_is_little);

#endif
