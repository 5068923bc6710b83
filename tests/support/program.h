/* tests/support/program.h: runs the program `clattn` and keeps what it said; small files for it to read.
 * Called by the tests of tests/tools. */
#ifndef CT_PROGRAM_H
#define CT_PROGRAM_H

#include "files/array.h"

/* Of the last run: what it wrote to stdout and stderr, there without lines of Mesa's driver. */
extern char ct_stdout[1 << 18], ct_stderr[1 << 16];

/* Runs `program` with arguments as the shell reads them and returns the exit code, -1 when a signal ended it.
 * A redirection of stdout in the arguments wins. Environment goes before: "NAME=value -- --q q.npy". */
int ct_program(const char *program, const char *format, ...) TOOL_PRINTF(2, 3);

/* Fails the test unless the last run said nothing on stdout and, on stderr, one line with each of these
 * texts. */
#define ct_complains(...) ct_complains_of((const char *const[]){ __VA_ARGS__, NULL })
void ct_complains_of(const char *const *texts);

/* Writes an array as .npy, or fails the test. Shapes end at the first number below 0. */
void ct_store(const char *path, tool_type type, const void *data, const int64_t *shape);
#define CT_SHAPE(...) ((const int64_t[]){ __VA_ARGS__, -1 })

/* Reads an array, or fails the test; its shape must be this. */
tool_array ct_load(const char *path, tool_type type, const int64_t *shape);

/* Float arrays for a .safetensors file. */
typedef struct ct_tensor {
    const char *name;
    const float *data;
    int64_t rows, columns; /* columns 0: one axis */
} ct_tensor;
void ct_store_safetensors(const char *path, const ct_tensor *tensors, size_t count);

bool ct_is_file(const char *path);

#endif
