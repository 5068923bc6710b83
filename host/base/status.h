/* host/base/status.h: how a failure is made. Owns this thread's last message and build log. Everybody calls
 * it. */
#ifndef CA_BASE_STATUS_H
#define CA_BASE_STATUS_H

#include <clattn/context.h>

#if defined(__GNUC__)
#define CA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CA_PRINTF(text, first)
#endif

/* Keeps the message for this thread and returns `status`: `return ca_fail(CLATTN_INVALID_SHAPE, "...", ...)`.
 */
clattn_status ca_fail(clattn_status status, const char *format, ...) CA_PRINTF(2, 3);

/* The same for an OpenCL error: the message is "clCreateBuffer: CL_INVALID_VALUE (-30)", with " for
 * `subject`" when subject is not NULL. Allocation failures give OUT_OF_MEMORY, -1001 and CL_DEVICE_NOT_FOUND
 * give NO_DEVICE, the rest CL_FAILED. */
clattn_status ca_fail_cl(cl_int error, const char *call, const char *subject);

/* Keeps a copy of a compiler's log for clattn_last_build_log. */
void ca_keep_build_log(const char *log);

#endif
