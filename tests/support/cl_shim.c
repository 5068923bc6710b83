/* Interposed OpenCL entry points: count, fail on request, forward to the loader. Linked into every test
 * program; the library, CLBlast and the test itself all come through here.
 */
#define _GNU_SOURCE
#include "support/cl_shim.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORWARDED(X)                                                                                         \
    X(clGetPlatformIDs)                                                                                      \
    X(clGetPlatformInfo)                                                                                     \
    X(clGetDeviceIDs)                                                                                        \
    X(clGetDeviceInfo)                                                                                       \
    X(clCreateContext)                                                                                       \
    X(clRetainContext)                                                                                       \
    X(clReleaseContext)                                                                                      \
    X(clCreateCommandQueue)                                                                                  \
    X(clGetCommandQueueInfo)                                                                                 \
    X(clRetainCommandQueue)                                                                                  \
    X(clReleaseCommandQueue)                                                                                 \
    X(clCreateBuffer)                                                                                        \
    X(clCreateSubBuffer)                                                                                     \
    X(clRetainMemObject)                                                                                     \
    X(clReleaseMemObject)                                                                                    \
    X(clCreateProgramWithSource)                                                                             \
    X(clCreateProgramWithBinary)                                                                             \
    X(clRetainProgram)                                                                                       \
    X(clReleaseProgram)                                                                                      \
    X(clGetProgramInfo)                                                                                      \
    X(clGetProgramBuildInfo)                                                                                 \
    X(clBuildProgram)                                                                                        \
    X(clCreateKernel)                                                                                        \
    X(clRetainKernel)                                                                                        \
    X(clReleaseKernel)                                                                                       \
    X(clSetKernelArg)                                                                                        \
    X(clCreateUserEvent)                                                                                     \
    X(clRetainEvent)                                                                                         \
    X(clReleaseEvent)                                                                                        \
    X(clWaitForEvents)                                                                                       \
    X(clFinish)                                                                                              \
    X(clEnqueueNDRangeKernel)                                                                                \
    X(clEnqueueReadBuffer)                                                                                   \
    X(clEnqueueWriteBuffer)                                                                                  \
    X(clEnqueueCopyBuffer)                                                                                   \
    X(clEnqueueFillBuffer)                                                                                   \
    X(clEnqueueMapBuffer)                                                                                    \
    X(clEnqueueUnmapMemObject)                                                                               \
    X(clEnqueueMarkerWithWaitList)                                                                           \
    X(clEnqueueBarrierWithWaitList)

#define DECLARE(name) static __typeof__(name) *real_##name;
FORWARDED(DECLARE)
#undef DECLARE

__attribute__((constructor)) static void find_the_loader(void)
{
#define BIND(name)                                                                                           \
    {                                                                                                        \
        void *address = dlsym(RTLD_NEXT, #name);                                                             \
        if (address == NULL) {                                                                               \
            fprintf(stderr, "cl_shim: the loader has no %s\n", #name);                                       \
            abort();                                                                                         \
        }                                                                                                    \
        memcpy(&real_##name, &address, sizeof address);                                                      \
    }
    FORWARDED(BIND)
#undef BIND
}

/* ---- Counts ---- */

/* Calls that an implementation makes of itself while it works for us are forwarded, but neither counted nor
 * failed. */
static _Thread_local int depth;

static cl_int leave(cl_int error)
{
    --depth;
    return error;
}

static void *leave_with(void *object)
{
    --depth;
    return object;
}

#define REAL(call) (++depth, leave(real_##call))
#define REAL_OBJECT(call) (++depth, leave_with(real_##call))

static atomic_long live[CL_SHIM_KINDS], made[CL_SHIM_KINDS], builds, binary_loads, launches, commands, copies,
    waits, arguments;

cl_shim_counts cl_shim_count(void)
{
    cl_shim_counts counts = { .builds = atomic_load(&builds),
                              .binaries = atomic_load(&binary_loads),
                              .launches = atomic_load(&launches),
                              .commands = atomic_load(&commands),
                              .copies = atomic_load(&copies),
                              .waits = atomic_load(&waits),
                              .arguments = atomic_load(&arguments) };
    for (int i = 0; i < CL_SHIM_KINDS; ++i) {
        counts.live[i] = atomic_load(&live[i]);
        counts.made[i] = atomic_load(&made[i]);
    }
    return counts;
}

const char *cl_shim_live_text(const cl_shim_counts *counts)
{
    static _Thread_local char text[256];
    static const char *const names[CL_SHIM_KINDS] = { "contexts", "queues",  "buffers",
                                                      "programs", "kernels", "events" };
    size_t used = 0;
    for (int i = 0; i < CL_SHIM_KINDS; ++i)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %ld", i > 0 ? ", " : "", names[i],
                                 counts->live[i]);
    return text;
}

bool cl_shim_same_live(const cl_shim_counts *a, const cl_shim_counts *b)
{
    return memcmp(a->live, b->live, sizeof a->live) == 0;
}

static void add(atomic_long *counter, long number)
{
    if (depth == 0)
        atomic_fetch_add(counter, number);
}

static void count_made(cl_shim_kind kind)
{
    add(&live[kind], 1);
    add(&made[kind], 1);
}

static cl_int count_command(cl_int error, const cl_event *event)
{
    add(&commands, 1);
    if (error == CL_SUCCESS && event != NULL)
        count_made(CL_SHIM_EVENTS);
    return error;
}

#define RETAIN_AND_RELEASE(kind, Name, type)                                                                 \
    cl_int clRetain##Name(type object)                                                                       \
    {                                                                                                        \
        cl_int error = REAL(clRetain##Name(object));                                                         \
        if (error == CL_SUCCESS)                                                                             \
            add(&live[kind], 1);                                                                             \
        return error;                                                                                        \
    }                                                                                                        \
    cl_int clRelease##Name(type object)                                                                      \
    {                                                                                                        \
        cl_int error = REAL(clRelease##Name(object));                                                        \
        if (error == CL_SUCCESS)                                                                             \
            add(&live[kind], -1);                                                                            \
        return error;                                                                                        \
    }
RETAIN_AND_RELEASE(CL_SHIM_CONTEXTS, Context, cl_context)
RETAIN_AND_RELEASE(CL_SHIM_QUEUES, CommandQueue, cl_command_queue)
RETAIN_AND_RELEASE(CL_SHIM_BUFFERS, MemObject, cl_mem)
RETAIN_AND_RELEASE(CL_SHIM_PROGRAMS, Program, cl_program)
RETAIN_AND_RELEASE(CL_SHIM_KERNELS, Kernel, cl_kernel)
RETAIN_AND_RELEASE(CL_SHIM_EVENTS, Event, cl_event)

/* ---- Faults ---- */

cl_shim_faults cl_shim_fault;

void cl_shim_clear_faults(void)
{
    memset(&cl_shim_fault, 0, sizeof cl_shim_fault);
}

/* Whether this call is the one that fails. */
static bool is_due(long *countdown)
{
    return depth == 0 && *countdown > 0 && --*countdown == 0;
}

static cl_int or_error(cl_int asked, cl_int otherwise)
{
    return asked != CL_SUCCESS ? asked : otherwise;
}

static void *fail_create(cl_int *errcode_ret, cl_int error)
{
    if (errcode_ret != NULL)
        *errcode_ret = error;
    return NULL;
}

static char broken_platform;
#define BROKEN_PLATFORM ((cl_platform_id)(void *)&broken_platform)

cl_int clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
    if (cl_shim_fault.platform_error != CL_SUCCESS)
        return cl_shim_fault.platform_error;
    if (cl_shim_fault.zero_platforms) {
        if (num_platforms != NULL)
            *num_platforms = 0;
        return CL_SUCCESS;
    }
    if (!cl_shim_fault.broken_platform)
        return REAL(clGetPlatformIDs(num_entries, platforms, num_platforms));
    if (platforms != NULL && num_entries > 0)
        platforms[0] = BROKEN_PLATFORM;
    cl_uint rest = 0;
    cl_int error = num_entries > 1 ? REAL(clGetPlatformIDs(num_entries - 1, platforms + 1, &rest))
                                   : REAL(clGetPlatformIDs(0, NULL, &rest));
    if (num_platforms != NULL)
        *num_platforms = rest + 1;
    return error;
}

static cl_int answer(const void *value, size_t bytes, size_t room, void *out, size_t *bytes_ret)
{
    if (out != NULL && room < bytes)
        return CL_INVALID_VALUE;
    if (out != NULL)
        memcpy(out, value, bytes);
    if (bytes_ret != NULL)
        *bytes_ret = bytes;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *out,
                         size_t *bytes_ret)
{
    if (platform == BROKEN_PLATFORM)
        return answer("Broken", sizeof "Broken", room, out, bytes_ret);
    return REAL(clGetPlatformInfo(platform, what, room, out, bytes_ret));
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint num_entries,
                      cl_device_id *devices, cl_uint *num_devices)
{
    if (platform == BROKEN_PLATFORM)
        return CL_OUT_OF_HOST_MEMORY;
    if (cl_shim_fault.device_error != CL_SUCCESS)
        return cl_shim_fault.device_error;
    if (cl_shim_fault.devices == NULL)
        return REAL(clGetDeviceIDs(platform, type, num_entries, devices, num_devices));
    for (size_t i = 0; devices != NULL && i < num_entries && i < cl_shim_fault.device_count; ++i)
        devices[i] = (cl_device_id)(void *)&cl_shim_fault.devices[i];
    if (num_devices != NULL)
        *num_devices = (cl_uint)cl_shim_fault.device_count;
    return CL_SUCCESS;
}

/* The fake device behind an id, or NULL. */
static const cl_shim_device *fake_device(cl_device_id device)
{
    for (size_t i = 0; i < cl_shim_fault.device_count; ++i)
        if ((const void *)device == (const void *)&cl_shim_fault.devices[i])
            return &cl_shim_fault.devices[i];
    return NULL;
}

static cl_int fake_info(const cl_shim_device *fake, cl_device_info what, size_t room, void *out,
                        size_t *bytes_ret)
{
    const cl_bool compiles = fake->has_compiler;
    cl_platform_id platform = NULL;
    switch (what) {
    case CL_DEVICE_TYPE:
        return answer(&fake->type, sizeof fake->type, room, out, bytes_ret);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer(&fake->compute_units, sizeof fake->compute_units, room, out, bytes_ret);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return answer(&fake->float_width, sizeof fake->float_width, room, out, bytes_ret);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return answer(&compiles, sizeof compiles, room, out, bytes_ret);
    case CL_DEVICE_NAME:
        return answer(fake->name, strlen(fake->name) + 1, room, out, bytes_ret);
    case CL_DEVICE_PLATFORM:
        REAL(clGetPlatformIDs(1, &platform, NULL));
        return answer(&platform, sizeof platform, room, out, bytes_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *out, size_t *bytes_ret)
{
    const cl_shim_faults *fault = &cl_shim_fault;
    const cl_bool no = CL_FALSE;
    const cl_shim_device *fake = fake_device(device);
    if (fake != NULL)
        return fake_info(fake, what, room, out, bytes_ret);
    if (what == CL_DEVICE_COMPILER_AVAILABLE && fault->no_compiler)
        return answer(&no, sizeof no, room, out, bytes_ret);
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY && fault->separate_memory)
        return answer(&no, sizeof no, room, out, bytes_ret);
    if (what == CL_DEVICE_GLOBAL_MEM_SIZE && fault->memory_bytes != 0)
        return answer(&fault->memory_bytes, sizeof fault->memory_bytes, room, out, bytes_ret);
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && fault->max_alloc_bytes != 0)
        return answer(&fault->max_alloc_bytes, sizeof fault->max_alloc_bytes, room, out, bytes_ret);
    if (what == CL_DEVICE_TYPE && fault->type != 0)
        return answer(&fault->type, sizeof fault->type, room, out, bytes_ret);
    if (what == CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT && fault->native_float_width != 0)
        return answer(&fault->native_float_width, sizeof fault->native_float_width, room, out, bytes_ret);
    return REAL(clGetDeviceInfo(device, what, room, out, bytes_ret));
}

cl_int clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what, size_t room, void *out,
                             size_t *bytes_ret)
{
    const cl_command_queue_properties out_of_order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    if (what == CL_QUEUE_PROPERTIES && cl_shim_fault.out_of_order)
        return answer(&out_of_order, sizeof out_of_order, room, out, bytes_ret);
    return REAL(clGetCommandQueueInfo(queue, what, room, out, bytes_ret));
}

/* ---- Objects ---- */

cl_context clCreateContext(const cl_context_properties *properties, cl_uint num_devices,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                           cl_int *errcode_ret)
{
    cl_context context =
        REAL_OBJECT(clCreateContext(properties, num_devices, devices, notify, user, errcode_ret));
    if (context != NULL)
        count_made(CL_SHIM_CONTEXTS);
    return context;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *errcode_ret)
{
    if (is_due(&cl_shim_fault.queue_at))
        return fail_create(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    cl_command_queue queue = REAL_OBJECT(clCreateCommandQueue(context, device, properties, errcode_ret));
    if (queue != NULL)
        count_made(CL_SHIM_QUEUES);
    return queue;
}

/* Two things that Oclgrind 21.10 gets wrong about uninitialised reads. It does not know that memory used in
 * place holds data: it is written onto itself. And it takes a buffer in the place of one that is gone for
 * unwritten beyond the old one's size: no buffer goes. */
static void tell_simulator(cl_context context, cl_mem buffer, cl_mem_flags flags, size_t size, void *host)
{
    cl_device_id device = NULL;
    char name[64] = "";
    clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    real_clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    if (strcmp(name, "Oclgrind Simulator") != 0)
        return;
    REAL(clRetainMemObject(buffer));
    if ((flags & CL_MEM_USE_HOST_PTR) == 0 || (flags & CL_MEM_READ_ONLY) == 0)
        return;
    cl_command_queue queue = REAL_OBJECT(clCreateCommandQueue(context, device, 0, NULL));
    REAL(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size, host, 0, NULL, NULL));
    REAL(clReleaseCommandQueue(queue));
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret)
{
    if (is_due(&cl_shim_fault.buffer_at))
        return fail_create(errcode_ret,
                           or_error(cl_shim_fault.buffer_error, CL_MEM_OBJECT_ALLOCATION_FAILURE));
    cl_mem buffer = REAL_OBJECT(clCreateBuffer(context, flags, size, host, errcode_ret));
    if (buffer != NULL)
        count_made(CL_SHIM_BUFFERS);
    if (buffer != NULL && depth == 0)
        tell_simulator(context, buffer, flags, size, host);
    if (buffer != NULL && (flags & CL_MEM_COPY_HOST_PTR) != 0)
        add(&copies, 1);
    return buffer;
}

cl_mem clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void *info,
                         cl_int *errcode_ret)
{
    cl_mem part = REAL_OBJECT(clCreateSubBuffer(buffer, flags, type, info, errcode_ret));
    if (part != NULL)
        count_made(CL_SHIM_BUFFERS);
    return part;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                     const size_t *lengths, cl_int *errcode_ret)
{
    cl_program program = REAL_OBJECT(clCreateProgramWithSource(context, count, texts, lengths, errcode_ret));
    if (program != NULL)
        count_made(CL_SHIM_PROGRAMS);
    return program;
}

/* CLBlast asks each program that it builds for its binary, to make it anew in another context. For that PoCL
 * compiles all kernels a second time, most of a minute in every test program, so CLBlast gets the source for
 * a binary there. */
static const char source_mark[] = "//source\n";
enum { MARK_BYTES = sizeof source_mark - 1 };

static bool is_clblast_on_pocl(cl_program program)
{
    char options[256] = "", version[256] = "";
    cl_device_id device = NULL;
    return real_clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof device, &device, NULL) == CL_SUCCESS &&
           real_clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options,
                                      NULL) == CL_SUCCESS &&
           real_clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL) == CL_SUCCESS &&
           strstr(options, "-cl-std=CL1.1") != NULL && strstr(version, "PoCL") != NULL;
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void *out, size_t *bytes_ret)
{
    const bool is_binary = what == CL_PROGRAM_BINARY_SIZES || what == CL_PROGRAM_BINARIES;
    size_t bytes = 0;
    if (depth > 0 || out == NULL || !is_binary || !is_clblast_on_pocl(program))
        return REAL(clGetProgramInfo(program, what, room, out, bytes_ret));
    real_clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes);
    if (what == CL_PROGRAM_BINARY_SIZES)
        return answer(&(size_t){ bytes + MARK_BYTES }, sizeof bytes, room, out, bytes_ret);
    char *text = *(char **)out;
    memcpy(text, source_mark, MARK_BYTES);
    return real_clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, text + MARK_BYTES, NULL);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries, cl_int *status,
                                     cl_int *errcode_ret)
{
    if (is_due(&cl_shim_fault.binary_at))
        return fail_create(errcode_ret, CL_INVALID_BINARY);
    if (lengths[0] > MARK_BYTES && memcmp(binaries[0], source_mark, MARK_BYTES) == 0)
        return clCreateProgramWithSource(context, 1, (const char **)binaries, NULL, errcode_ret);
    add(&binary_loads, 1);
    cl_program program = REAL_OBJECT(
        clCreateProgramWithBinary(context, num_devices, devices, lengths, binaries, status, errcode_ret));
    if (program != NULL)
        count_made(CL_SHIM_PROGRAMS);
    return program;
}

cl_int clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    add(&builds, 1);
    if (is_due(&cl_shim_fault.build_at))
        return or_error(cl_shim_fault.build_error, CL_BUILD_PROGRAM_FAILURE);
    const struct timespec delay = { cl_shim_fault.build_ms / 1000, cl_shim_fault.build_ms % 1000 * 1000000 };
    nanosleep(&delay, NULL);
    return REAL(clBuildProgram(program, num_devices, devices, options, notify, user));
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    cl_kernel kernel = REAL_OBJECT(clCreateKernel(program, name, errcode_ret));
    if (kernel != NULL)
        count_made(CL_SHIM_KERNELS);
    return kernel;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
    add(&arguments, 1);
    return REAL(clSetKernelArg(kernel, index, bytes, value));
}

cl_event clCreateUserEvent(cl_context context, cl_int *errcode_ret)
{
    cl_event event = REAL_OBJECT(clCreateUserEvent(context, errcode_ret));
    if (event != NULL)
        count_made(CL_SHIM_EVENTS);
    return event;
}

/* ---- Commands ---- */

cl_int clWaitForEvents(cl_uint count, const cl_event *events)
{
    add(&waits, 1);
    return REAL(clWaitForEvents(count, events));
}

cl_int clFinish(cl_command_queue queue)
{
    add(&waits, 1);
    return REAL(clFinish(queue));
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint num_wait, const cl_event *wait, cl_event *event)
{
    if (is_due(&cl_shim_fault.launch_at))
        return or_error(cl_shim_fault.launch_error, CL_OUT_OF_RESOURCES);
    add(&launches, 1);
    return count_command(
        REAL(clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, num_wait, wait, event)),
        event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *host, cl_uint num_wait, const cl_event *wait, cl_event *event)
{
    add(&copies, 1);
    add(&waits, blocking ? 1 : 0);
    return count_command(
        REAL(clEnqueueReadBuffer(queue, buffer, blocking, offset, size, host, num_wait, wait, event)), event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *host, cl_uint num_wait, const cl_event *wait,
                            cl_event *event)
{
    add(&copies, 1);
    add(&waits, blocking ? 1 : 0);
    return count_command(
        REAL(clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, host, num_wait, wait, event)),
        event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                           size_t to_offset, size_t size, cl_uint num_wait, const cl_event *wait,
                           cl_event *event)
{
    add(&copies, 1);
    return count_command(
        REAL(clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, num_wait, wait, event)),
        event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size,
                           size_t offset, size_t size, cl_uint num_wait, const cl_event *wait,
                           cl_event *event)
{
    return count_command(
        REAL(clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, num_wait, wait, event)),
        event);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint num_wait, const cl_event *wait, cl_event *event,
                         cl_int *errcode_ret)
{
    cl_int error = CL_SUCCESS;
    if (is_due(&cl_shim_fault.map_at))
        return fail_create(errcode_ret, CL_MAP_FAILURE);
    add(&waits, blocking ? 1 : 0);
    void *mapped = REAL_OBJECT(
        clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, num_wait, wait, event, &error));
    count_command(error, event);
    if (errcode_ret != NULL)
        *errcode_ret = error;
    return mapped;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *mapped, cl_uint num_wait,
                               const cl_event *wait, cl_event *event)
{
    return count_command(REAL(clEnqueueUnmapMemObject(queue, buffer, mapped, num_wait, wait, event)), event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint num_wait, const cl_event *wait,
                                   cl_event *event)
{
    return count_command(REAL(clEnqueueMarkerWithWaitList(queue, num_wait, wait, event)), event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint num_wait, const cl_event *wait,
                                    cl_event *event)
{
    return count_command(REAL(clEnqueueBarrierWithWaitList(queue, num_wait, wait, event)), event);
}
