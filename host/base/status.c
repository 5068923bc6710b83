/* Status names, this thread's last message, and the names of OpenCL's errors. Everybody calls it.
 * The compiler's log is kept apart from the message, because it has no bound.
 */
#include "base/status.h"

#include "base/os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR (-1001) /* cl_khr_icd: the loader found no platform */
#endif

enum { MESSAGE_BYTES = 4096 };

static _Thread_local char message[MESSAGE_BYTES];

const char *clattn_status_name(clattn_status status)
{
    static const char *const names[] = {
#define STATUS_NAME(name, text) "CLATTN_" #name,
        CLATTN_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown status";
}

const char *clattn_last_message(void)
{
    return message;
}

const char *clattn_last_build_log(void)
{
    return ca_thread_text();
}

clattn_status ca_fail(clattn_status status, const char *format, ...)
{
    char line[MESSAGE_BYTES]; /* apart from `message`, which may be among the arguments */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c != '\0'; ++c)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    memcpy(message, line, sizeof message);
    return status;
}

#define CL_ERROR_LIST(X)                                                                                     \
    X(CL_DEVICE_NOT_FOUND)                                                                                   \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                               \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                             \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                                      \
    X(CL_OUT_OF_RESOURCES)                                                                                   \
    X(CL_OUT_OF_HOST_MEMORY)                                                                                 \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)                                                                       \
    X(CL_MEM_COPY_OVERLAP)                                                                                   \
    X(CL_IMAGE_FORMAT_MISMATCH)                                                                              \
    X(CL_IMAGE_FORMAT_NOT_SUPPORTED)                                                                         \
    X(CL_BUILD_PROGRAM_FAILURE)                                                                              \
    X(CL_MAP_FAILURE)                                                                                        \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET)                                                                       \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                          \
    X(CL_COMPILE_PROGRAM_FAILURE)                                                                            \
    X(CL_LINKER_NOT_AVAILABLE)                                                                               \
    X(CL_LINK_PROGRAM_FAILURE)                                                                               \
    X(CL_DEVICE_PARTITION_FAILED)                                                                            \
    X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)                                                                      \
    X(CL_INVALID_VALUE)                                                                                      \
    X(CL_INVALID_DEVICE_TYPE)                                                                                \
    X(CL_INVALID_PLATFORM)                                                                                   \
    X(CL_INVALID_DEVICE)                                                                                     \
    X(CL_INVALID_CONTEXT)                                                                                    \
    X(CL_INVALID_QUEUE_PROPERTIES)                                                                           \
    X(CL_INVALID_COMMAND_QUEUE)                                                                              \
    X(CL_INVALID_HOST_PTR)                                                                                   \
    X(CL_INVALID_MEM_OBJECT)                                                                                 \
    X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)                                                                    \
    X(CL_INVALID_IMAGE_SIZE)                                                                                 \
    X(CL_INVALID_SAMPLER)                                                                                    \
    X(CL_INVALID_BINARY)                                                                                     \
    X(CL_INVALID_BUILD_OPTIONS)                                                                              \
    X(CL_INVALID_PROGRAM)                                                                                    \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                                                                         \
    X(CL_INVALID_KERNEL_NAME)                                                                                \
    X(CL_INVALID_KERNEL_DEFINITION)                                                                          \
    X(CL_INVALID_KERNEL)                                                                                     \
    X(CL_INVALID_ARG_INDEX)                                                                                  \
    X(CL_INVALID_ARG_VALUE)                                                                                  \
    X(CL_INVALID_ARG_SIZE)                                                                                   \
    X(CL_INVALID_KERNEL_ARGS)                                                                                \
    X(CL_INVALID_WORK_DIMENSION)                                                                             \
    X(CL_INVALID_WORK_GROUP_SIZE)                                                                            \
    X(CL_INVALID_WORK_ITEM_SIZE)                                                                             \
    X(CL_INVALID_GLOBAL_OFFSET)                                                                              \
    X(CL_INVALID_EVENT_WAIT_LIST)                                                                            \
    X(CL_INVALID_EVENT)                                                                                      \
    X(CL_INVALID_OPERATION)                                                                                  \
    X(CL_INVALID_GL_OBJECT)                                                                                  \
    X(CL_INVALID_BUFFER_SIZE)                                                                                \
    X(CL_INVALID_MIP_LEVEL)                                                                                  \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                                                                           \
    X(CL_INVALID_PROPERTY)                                                                                   \
    X(CL_INVALID_IMAGE_DESCRIPTOR)                                                                           \
    X(CL_INVALID_COMPILER_OPTIONS)                                                                           \
    X(CL_INVALID_LINKER_OPTIONS)                                                                             \
    X(CL_INVALID_DEVICE_PARTITION_COUNT)                                                                     \
    X(CL_PLATFORM_NOT_FOUND_KHR)

const char *clattn_cl_error_name(cl_int error)
{
    switch (error) {
    case CL_SUCCESS:
        return "CL_SUCCESS";
#define CL_ERROR_CASE(name)                                                                                  \
    case name:                                                                                               \
        return #name;
        CL_ERROR_LIST(CL_ERROR_CASE)
#undef CL_ERROR_CASE
    default:
        return "unknown OpenCL error";
    }
}

static clattn_status status_of(cl_int error)
{
    switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
        return CLATTN_OUT_OF_MEMORY;
    case CL_PLATFORM_NOT_FOUND_KHR:
    case CL_DEVICE_NOT_FOUND:
        return CLATTN_NO_DEVICE;
    default:
        return CLATTN_CL_FAILED;
    }
}

clattn_status ca_fail_cl(cl_int error, const char *call, const char *subject)
{
    if (subject == NULL)
        return ca_fail(status_of(error), "%s: %s (%d)", call, clattn_cl_error_name(error), (int)error);
    return ca_fail(status_of(error), "%s: %s (%d) for `%s`", call, clattn_cl_error_name(error), (int)error,
                   subject);
}

void ca_keep_build_log(const char *log)
{
    size_t bytes = strlen(log) + 1;
    char *copy = malloc(bytes);
    if (copy != NULL)
        memcpy(copy, log, bytes);
    ca_thread_keep_text(copy);
}
