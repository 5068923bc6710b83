/* Life of a context: opened by selector, wrapped around the caller's, or shared as the default. Called by
 * programs through the public functions and by everything above base; also the checks and brackets of queues,
 * and the log.
 */
#include "base/context.h"

#include "base/program.h"
#include "base/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_LINE_BYTES = 4096 };

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *clattn_version(void)
{
    return TEXT(CLATTN_VERSION_MAJOR) "." TEXT(CLATTN_VERSION_MINOR) "." TEXT(CLATTN_VERSION_PATCH);
}

char *ca_copy_text(const char *text)
{
    if (text == NULL)
        return NULL;
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

char *ca_cache_folder(const ca_device *device, const clattn_context_options *options)
{
    const char *named = options != NULL ? options->cache_dir : NULL;
    if (named == NULL)
        return device->binary_compiles ? NULL : ca_user_cache_folder("clattn");
    return *named != '\0' ? ca_copy_text(named) : NULL;
}

/* The part that create and wrap share. Takes over one reference of `cl`, also on failure. */
static clattn_status finish_context(cl_context cl, const ca_device *device, const char *why,
                                    const clattn_context_options *options, clattn_context **context)
{
    clattn_status status = CLATTN_OK;
    cl_int error;
    clattn_context *made = calloc(1, sizeof *made);
    if (made == NULL) {
        clReleaseContext(cl);
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a context");
    }
    made->cl = cl;
    made->device = *device;
    clRetainDevice(device->info.device_id);
    snprintf(made->why, sizeof made->why, "%s", why);
    if (options != NULL) {
        made->strict = options->strict;
        made->use_known_bad = options->use_known_bad;
        made->log = options->log;
        made->log_user = options->log_user;
        made->kernel_dir = ca_copy_text(options->kernel_dir);
    }
    made->cache_dir = ca_cache_folder(device, options);
    made->lock = ca_mutex_create();
    if (made->lock == NULL || (options != NULL && options->kernel_dir != NULL && made->kernel_dir == NULL)) {
        status = ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a context");
        goto fail;
    }
    if (!device->info.has_compiler) {
        status = ca_fail(CLATTN_NO_COMPILER, "%s cannot compile OpenCL C", device->info.name);
        goto fail;
    }
    made->queue = clCreateCommandQueue(cl, device->info.device_id, 0, &error);
    if (error != CL_SUCCESS) {
        made->queue = NULL;
        status = ca_fail_cl(error, "clCreateCommandQueue", device->info.name);
        goto fail;
    }
    *context = made;
    return CLATTN_OK;
fail:
    clattn_context_destroy(made);
    return status;
}

clattn_status clattn_context_create(const clattn_context_options *options, clattn_context **context)
{
    if (context == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "context is NULL");
    *context = NULL;
    ca_device device;
    char why[CLATTN_TEXT_BYTES];
    clattn_status status = ca_device_open(options, &device, why);
    if (status != CLATTN_OK)
        return status;
    const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM,
                                                 (cl_context_properties)device.info.platform_id, 0 };
    cl_int error;
    cl_context cl = clCreateContext(properties, 1, &device.info.device_id, NULL, NULL, &error);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clCreateContext", device.info.name);
    return finish_context(cl, &device, why, options, context);
}

static clattn_status check_device_of(cl_context cl, cl_device_id device)
{
    size_t bytes = 0;
    cl_int error = clGetContextInfo(cl, CL_CONTEXT_DEVICES, 0, NULL, &bytes);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetContextInfo", NULL);
    cl_device_id *ids = malloc(bytes > 0 ? bytes : 1);
    if (ids == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for the devices of a context");
    error = clGetContextInfo(cl, CL_CONTEXT_DEVICES, bytes, ids, NULL);
    bool found = false;
    for (size_t i = 0; error == CL_SUCCESS && i < bytes / sizeof *ids; ++i)
        found = found || ids[i] == device;
    free(ids);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetContextInfo", NULL);
    return found ? CLATTN_OK : ca_fail(CLATTN_INVALID_ARGUMENT, "device is not one of the OpenCL context's");
}

clattn_status clattn_context_wrap(cl_context cl, cl_device_id device, const clattn_context_options *options,
                                  clattn_context **context)
{
    if (context == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "context is NULL");
    *context = NULL;
    if (cl == NULL || device == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL", cl == NULL ? "cl" : "device");
    clattn_status status = check_device_of(cl, device);
    if (status != CLATTN_OK)
        return status;
    ca_device facts;
    status = ca_device_read(device, &facts);
    if (status != CLATTN_OK)
        return status;
    cl_int error = clRetainContext(cl);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clRetainContext", NULL);
    return finish_context(cl, &facts, "given by the caller", options, context);
}

void clattn_context_destroy(clattn_context *context)
{
    if (context == NULL)
        return;
    if (context->on_destroy != NULL)
        context->on_destroy(context);
    ca_programs_release(context);
    ca_verdicts_release(context);
    if (context->queue != NULL)
        clReleaseCommandQueue(context->queue);
    clReleaseContext(context->cl);
    clReleaseDevice(context->device.info.device_id);
    ca_mutex_destroy(context->lock);
    free(context->kernel_dir);
    free(context->cache_dir);
    free(context);
}

const clattn_device_info *clattn_context_device(const clattn_context *context)
{
    return context != NULL ? &context->device.info : NULL;
}

const char *clattn_context_why(const clattn_context *context)
{
    return context != NULL ? context->why : NULL;
}

cl_context clattn_context_cl(const clattn_context *context)
{
    return context != NULL ? context->cl : NULL;
}

cl_command_queue clattn_context_queue(const clattn_context *context)
{
    return context != NULL ? context->queue : NULL;
}

/* ---- The contexts that NULL stands for ----------------------------------------------------------------- */

struct default_context {
    struct default_context *next;
    char *selector;
    clattn_context *context;
};

static struct default_context *defaults; /* guarded by CA_LOCK_DEFAULT_CONTEXT */

static clattn_status open_default(const char *selector, clattn_context **context)
{
    clattn_context_options options = { .device = selector };
    struct default_context *made = calloc(1, sizeof *made);
    if (made == NULL || (made->selector = ca_copy_text(selector)) == NULL) {
        free(made);
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a context");
    }
    clattn_status status = clattn_context_create(&options, &made->context);
    if (status != CLATTN_OK) {
        free(made->selector);
        free(made);
        return status;
    }
    made->next = defaults;
    defaults = made;
    *context = made->context;
    return CLATTN_OK;
}

clattn_status ca_default_context(const char *selector, clattn_context **context)
{
    clattn_status status = CLATTN_OK;
    if (selector == NULL)
        selector = "";
    *context = NULL;
    ca_global_lock_acquire(CA_LOCK_DEFAULT_CONTEXT);
    for (struct default_context *at = defaults; at != NULL && *context == NULL; at = at->next)
        if (strcmp(at->selector, selector) == 0)
            *context = at->context;
    if (*context == NULL)
        status = open_default(selector, context);
    ca_global_lock_release(CA_LOCK_DEFAULT_CONTEXT);
    return status;
}

void clattn_default_context_release(void)
{
    ca_global_lock_acquire(CA_LOCK_DEFAULT_CONTEXT);
    while (defaults != NULL) {
        struct default_context *next = defaults->next;
        clattn_context_destroy(defaults->context);
        free(defaults->selector);
        free(defaults);
        defaults = next;
    }
    ca_global_lock_release(CA_LOCK_DEFAULT_CONTEXT);
}

/* ---- Log and queues ------------------------------------------------------------------------------------ */

void ca_log(const clattn_context *context, clattn_log_level level, const char *format, ...)
{
    if (context->log == NULL)
        return;
    char line[LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *c = line; *c != '\0'; ++c)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    context->log(context->log_user, level, line);
}

clattn_status ca_queue_check(const clattn_context *context, cl_command_queue queue)
{
    cl_context cl = NULL;
    cl_device_id device = NULL;
    cl_command_queue_properties properties = 0;
    if (queue == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "queue is NULL");
    cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetCommandQueueInfo", NULL);
    if (cl != context->cl)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "queue belongs to another OpenCL context");
    if (device != context->device.info.device_id)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "queue is on another device than %s",
                       context->device.info.name);
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "queue is out of order, must be in order");
    return CLATTN_OK;
}

clattn_status ca_queue_begin(cl_command_queue queue, cl_uint num_wait, const cl_event *wait)
{
    if (num_wait == 0)
        return CLATTN_OK;
    if (wait == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "wait is NULL, but num_wait is %u", (unsigned)num_wait);
    cl_int error = clEnqueueBarrierWithWaitList(queue, num_wait, wait, NULL);
    return error == CL_SUCCESS ? CLATTN_OK : ca_fail_cl(error, "clEnqueueBarrierWithWaitList", NULL);
}

clattn_status ca_queue_end(cl_command_queue queue, cl_event *event)
{
    if (event == NULL)
        return CLATTN_OK;
    *event = NULL;
    cl_int error = clEnqueueMarkerWithWaitList(queue, 0, NULL, event);
    if (error == CL_SUCCESS)
        return CLATTN_OK;
    *event = NULL;
    return ca_fail_cl(error, "clEnqueueMarkerWithWaitList", NULL);
}
