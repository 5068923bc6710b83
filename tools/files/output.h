/* tools/files/output.h: output files that appear whole or not at all. All files of one command appear
 * together: each is written under a temporary name in its folder, and renamed when every one is complete and
 * on the disk. Called by the program's commands. */
#ifndef TOOLS_FILES_OUTPUT_H
#define TOOLS_FILES_OUTPUT_H

#include "files/array.h"

#include <stdio.h>

enum { TOOL_OUTPUTS = 8 };

/* All zero at first. */
typedef struct tool_outputs {
    size_t count;
    struct tool_output {
        char *path;      /* where it shall appear */
        char *temporary; /* NULL: written in place, because the path is a device or a pipe */
        FILE *file;
    } item[TOOL_OUTPUTS];
} tool_outputs;

/* Whether `path` could be written, asked before the work is done: its folder is there and lets us, and it is
 * no folder itself, nor a symbolic link to nothing. Behind another link, the file is what is written. */
bool tool_output_check(const char *path, tool_error *error);

/* The same for all of a command's outputs, NULL where not asked for; and none of them is one of its inputs,
 * each FILE or FILE.safetensors:NAME, or NULL. */
bool tool_outputs_check(const char *const *outputs, size_t output_count, const char *const *inputs,
                        size_t input_count, tool_error *error);

/* A new file to write into, NULL on failure. It belongs to `outputs`. */
FILE *tool_outputs_add(tool_outputs *outputs, const char *path, tool_error *error);

/* The same with an array in it as .npy; BF16 is written as F32. */
bool tool_outputs_add_npy(tool_outputs *outputs, const char *path, const tool_array *array,
                          tool_error *error);

/* Makes all files appear; on failure none. Either way `outputs` is all zero afterwards. */
bool tool_outputs_commit(tool_outputs *outputs, tool_error *error);

/* Removes what was written. All zero is allowed. */
void tool_outputs_discard(tool_outputs *outputs);

#endif
