/* host/base/context.h: the inside of a context: the device's facts, its OpenCL objects, the programs built so
 * far. Everything above base holds one. */
#ifndef CA_BASE_CONTEXT_H
#define CA_BASE_CONTEXT_H

#include "base/device.h"
#include "base/os.h"
#include "base/status.h"

struct ca_program;

struct clattn_context {
    ca_device device;
    cl_context cl;
    cl_command_queue queue;
    char why[CLATTN_TEXT_BYTES];
    char *kernel_dir; /* NULL: the built-in sources */
    char *cache_dir;  /* NULL: no program is kept on disk; guarded by lock */
    bool strict, use_known_bad;
    void (*on_destroy)(
        clattn_context *context); /* NULL, or called first by destroy: gemm frees what CLBlast keeps */
    clattn_log_fn log;
    void *log_user;
    ca_mutex *lock; /* guards programs and verdicts */
    struct ca_program *programs;
    struct ca_noted *verdicts;
};

/* The context that NULL stands for in the simple face, opened at first use; `selector` as in
 * clattn_device_pick. */
clattn_status ca_default_context(const char *selector, clattn_context **context);

/* The folder that a context with these options keeps programs in, malloc'd; NULL when it keeps none. */
char *ca_cache_folder(const ca_device *device, const clattn_context_options *options);

/* malloc'd copy; NULL for NULL or when there is no memory. */
char *ca_copy_text(const char *text);

/* One line to the log callback, if there is one. */
void ca_log(const clattn_context *context, clattn_log_level level, const char *format, ...) CA_PRINTF(3, 4);

/* OK when `queue` belongs to the context and its device and is in order; INVALID_ARGUMENT otherwise. */
clattn_status ca_queue_check(const clattn_context *context, cl_command_queue queue);

/* Brackets of an enqueueing call, for families that cannot hand a wait list or an event to each command: make
 * the queue wait for the list; then mark the end. `event` may be NULL. */
clattn_status ca_queue_begin(cl_command_queue queue, cl_uint num_wait, const cl_event *wait);
clattn_status ca_queue_end(cl_command_queue queue, cl_event *event);

#endif
