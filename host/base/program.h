/* host/base/program.h: OpenCL C sources and the programs built from them. Only program.c builds programs. */
#ifndef CA_BASE_PROGRAM_H
#define CA_BASE_PROGRAM_H

#include "base/context.h"

/* The sources that CMake embedded from cl/, by path below cl/ ("attention/lanes.cl"). */
typedef struct ca_source {
    const char *path;
    const char *text;
    size_t bytes;
} ca_source;
extern const ca_source ca_sources[];
extern const size_t ca_source_count;

/* Makes kernel `name` from the sources, a NULL-ended list that is compiled as one text in that order, with
 * `options` for the compiler. A program is built once in a context and kept. *kernel belongs to the caller.
 * BUILD_FAILED keeps the whole log and quotes its first line that says error. */
clattn_status ca_kernel_create(clattn_context *context, const char *const *sources, const char *options,
                               const char *name, cl_kernel *kernel);

/* Sets argument `index`, so that a failure names kernel and index. Allowed values as clSetKernelArg. */
clattn_status ca_kernel_arg(cl_kernel kernel, const char *name, cl_uint index, size_t bytes,
                            const void *value);

/* Enqueues with a fixed local size; no wait list, no event: the queue is in order. Nothing happens when a
 * global size is 0. Global sizes are numbers of work-groups. */
clattn_status ca_kernel_enqueue(cl_command_queue queue, cl_kernel kernel, const char *name,
                                const size_t groups[3], const size_t local[3]);

/* A number that changes when the sources that are built in do. */
uint64_t ca_sources_sum(void);

/* Releases the programs of a context; for clattn_context_destroy. */
void ca_programs_release(clattn_context *context);

#endif
