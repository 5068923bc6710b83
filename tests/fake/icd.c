/* tests/fake/icd.c: an OpenCL driver that does what a test tells it, loaded by the real loader: a healthy GPU
 * that knows the few kernels of cl/base/probe.cl by name, or one of the many ways in which drivers are
 * broken.
 *
 * CLATTN_FAKE_ICD holds words with commas between:
 *
 * - crash, hang, exit, rubbish, memory: on load, or when it is asked for platforms
 * - no-platform, not-found, no-device: 0 platforms; -1001; a platform that has no device
 * - no-compiler: CL_DEVICE_COMPILER_AVAILABLE is false
 * - build-fails: every build, with a log
 * - wrong: kernels with wrong numbers
 * - lost: every enqueued command fails with CL_DEVICE_NOT_AVAILABLE
 * - crash-late: dies when a kernel is enqueued
 * - lies-fp16: claims cl_khr_fp16, and does not build with it
 * - endless-string, bad-text: a name of 2 GiB; control characters and bad UTF-8
 * - many: 10,000 devices
 * - property-fails: half of the properties are CL_INVALID_VALUE
 * - clover: the platform's name is Clover
 * - intel: an Intel GPU, otherwise an AMD one, with an address on the PCI bus
 *
 * Built as a library of its own; used by tests/tools/test_probe.c. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl_icd.h>

#include <CL/cl.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 10000, ARGUMENTS = 16 };

/* Every object of OpenCL; the loader reads the first field. */
struct object {
    struct _cl_icd_dispatch *dispatch;
    long references;
    size_t bytes;  /* of a buffer */
    void *data;    /* of a buffer; source of a program */
    char name[64]; /* of a kernel */
    struct object *argument[ARGUMENTS];
};

static struct _cl_icd_dispatch table;
static struct object platform = { .dispatch = &table };
static struct object devices[DEVICES];

/* A copy of the library named healthy.so is told nothing. */
static bool is_healthy(void)
{
    Dl_info own;
    return dladdr((void *)&table, &own) && strstr(own.dli_fname, "healthy");
}

static bool told(const char *word)
{
    const char *words = is_healthy() ? NULL : getenv("CLATTN_FAKE_ICD");
    const size_t length = strlen(word);
    for (const char *at = words; at && *at; at += *at == ',') {
        const size_t bytes = strcspn(at, ",");
        if (bytes == length && memcmp(at, word, length) == 0)
            return true;
        at += bytes;
    }
    return false;
}

__attribute__((constructor)) static void load(void)
{
    if (told("crash")) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers would make an exit of it */
        raise(SIGSEGV);
    }
}

/* ---- Texts and numbers --------------------------------------------------------------------------------- */

static cl_int give(const void *value, size_t bytes, size_t room, void *out, size_t *told_bytes)
{
    if (told_bytes)
        *told_bytes = bytes;
    if (out && room < bytes)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, bytes);
    return CL_SUCCESS;
}

static cl_int give_text(const char *text, size_t room, void *out, size_t *bytes)
{
    return give(text, strlen(text) + 1, room, out, bytes);
}

static struct object *make(void)
{
    struct object *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->dispatch = &table;
    made->references = 1;
    return made;
}

static cl_int retain(struct object *of)
{
    of->references++;
    return CL_SUCCESS;
}

static cl_int release(struct object *of)
{
    if (--of->references == 0) {
        free(of->data);
        free(of);
    }
    return CL_SUCCESS;
}

#define OBJECT(pointer) ((struct object *)(void *)(pointer))
#define HANDLE(type, object) ((type)(void *)(object))

/* ---- Platforms and devices ----------------------------------------------------------------------------- */

static cl_int CL_API_CALL get_platforms(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    if (told("hang"))
        for (;;)
            sleep(1000);
    if (told("exit"))
        _exit(7);
    while (told("memory")) {
        static void *volatile taken; /* so that no compiler leaves it out */
        taken = malloc(1 << 26);
        memset(taken, 1, 1 << 26);
    }
    if (told("rubbish"))
        for (int line = 0; line < 100000; line++) {
            printf("nobody wants to know that this is line %d\n", line);
            fprintf(stderr, "\033[31mnor this\001 %d\n", line);
        }
    if (told("not-found"))
        return CL_PLATFORM_NOT_FOUND_KHR;
    if (count)
        *count = told("no-platform") ? 0 : 1;
    if (ids && room > 0 && !told("no-platform"))
        ids[0] = HANDLE(cl_platform_id, &platform);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id id, cl_platform_info what, size_t room, void *out,
                                        size_t *bytes)
{
    (void)id;
    switch (what) {
    case CL_PLATFORM_NAME:
        return give_text(told("clover") ? "Clover" : "Fake Platform", room, out, bytes);
    case CL_PLATFORM_VENDOR:
        return give_text("The tests of clattn", room, out, bytes);
    case CL_PLATFORM_VERSION:
        return give_text("OpenCL 1.2 fake", room, out, bytes);
    case CL_PLATFORM_PROFILE:
        return give_text("FULL_PROFILE", room, out, bytes);
    case CL_PLATFORM_EXTENSIONS:
        return give_text("cl_khr_icd", room, out, bytes);
    case CL_PLATFORM_ICD_SUFFIX_KHR:
        return give_text("FAKE", room, out, bytes);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL get_devices(cl_platform_id id, cl_device_type type, cl_uint room, cl_device_id *ids,
                                      cl_uint *count)
{
    const cl_uint there = told("no-device") ? 0 : told("many") ? DEVICES : 1;
    (void)id;
    if (there == 0 || (type != CL_DEVICE_TYPE_ALL && !(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT))))
        return CL_DEVICE_NOT_FOUND;
    if (count)
        *count = there;
    for (cl_uint index = 0; ids && index < there && index < room; index++) {
        devices[index].dispatch = &table;
        ids[index] = HANDLE(cl_device_id, &devices[index]);
    }
    return CL_SUCCESS;
}

static cl_int device_name(size_t room, void *out, size_t *bytes)
{
    if (told("endless-string")) {
        if (bytes)
            *bytes = (size_t)1 << 31;
        if (out)
            memset(out, 'x', room);
        return CL_SUCCESS;
    }
    return give_text(told("bad-text") ? "Fake\033[31m \xff\xc0\xaf GPU\n\xed\xa0\x80" : "Fake GPU", room, out,
                     bytes);
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info what, size_t room, void *out,
                                      size_t *bytes)
{
    enum { PCI_BUS_INFO_KHR = 0x410F };
    const cl_ulong memory = (cl_ulong)8 << 30, largest = (cl_ulong)2 << 30, local = 65536;
    const cl_uint vendor = told("intel") ? 0x8086 : 0x1002;
    const cl_uint pci[4] = { 0, told("intel") ? 0 : 3, told("intel") ? 2 : 0, 0 };
    const cl_uint units = 40, zero = 0, one = 1, bits = 64, align = 1024, line = 128, clock = 2000,
                  dimensions = 3;
    const size_t group = 256, items[3] = { 256, 256, 256 }, resolution = 10;
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_platform_id owner = HANDLE(cl_platform_id, &platform);
    const cl_bool yes = CL_TRUE, no = CL_FALSE, compiler = !told("no-compiler");
    const cl_uint local_type = CL_LOCAL;
    (void)id;
    if (told("property-fails") && what % 2 == 1 && what != CL_DEVICE_PLATFORM)
        return CL_INVALID_VALUE;
    const struct {
        cl_device_info what;
        const void *value;
        size_t bytes;
    } values[] = {
        { CL_DEVICE_TYPE, &type, sizeof type },
        { CL_DEVICE_PLATFORM, &owner, sizeof owner },
        { CL_DEVICE_VENDOR_ID, &vendor, sizeof vendor },
        { CL_DEVICE_MAX_COMPUTE_UNITS, &units, sizeof units },
        { CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group },
        { CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, &dimensions, sizeof dimensions },
        { CL_DEVICE_MAX_WORK_ITEM_SIZES, items, sizeof items },
        { CL_DEVICE_MAX_CLOCK_FREQUENCY, &clock, sizeof clock },
        { CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &one, sizeof one },
        { CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, &zero, sizeof zero },
        { CL_DEVICE_ADDRESS_BITS, &bits, sizeof bits },
        { CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align, sizeof align },
        { CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory },
        { CL_DEVICE_MAX_MEM_ALLOC_SIZE, &largest, sizeof largest },
        { CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, &local, sizeof local },
        { CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, &line, sizeof line },
        { CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, &local, sizeof local },
        { CL_DEVICE_LOCAL_MEM_SIZE, &local, sizeof local },
        { CL_DEVICE_LOCAL_MEM_TYPE, &local_type, sizeof local_type },
        { CL_DEVICE_PROFILING_TIMER_RESOLUTION, &resolution, sizeof resolution },
        { CL_DEVICE_AVAILABLE, &yes, sizeof yes },
        { CL_DEVICE_ERROR_CORRECTION_SUPPORT, &no, sizeof no },
        { CL_DEVICE_HOST_UNIFIED_MEMORY, &no, sizeof no },
        { CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler },
        { CL_DEVICE_LINKER_AVAILABLE, &compiler, sizeof compiler },
        { PCI_BUS_INFO_KHR, pci, sizeof pci },
    };
    for (size_t index = 0; index < sizeof values / sizeof values[0]; index++)
        if (values[index].what == what)
            return give(values[index].value, values[index].bytes, room, out, bytes);
    switch (what) {
    case CL_DEVICE_NAME:
        return device_name(room, out, bytes);
    case CL_DEVICE_VENDOR:
        return give_text(told("intel") ? "Intel" : "AMD", room, out, bytes);
    case CL_DEVICE_VERSION:
        return give_text("OpenCL 1.2 fake", room, out, bytes);
    case CL_DRIVER_VERSION:
        return give_text(is_healthy() ? "2.0" : "1.0", room, out, bytes);
    case CL_DEVICE_PROFILE:
        return give_text("FULL_PROFILE", room, out, bytes);
    case CL_DEVICE_OPENCL_C_VERSION:
        return give_text("OpenCL C 1.2 fake", room, out, bytes);
    case CL_DEVICE_EXTENSIONS:
        return give_text(told("lies-fp16") ? "cl_khr_fp16 cl_khr_pci_bus_info" : "cl_khr_pci_bus_info", room,
                         out, bytes);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL keep_device(cl_device_id id)
{
    (void)id;
    return CL_SUCCESS;
}

/* After the first kernel and the reading of what it wrote. */
static bool is_lost(void)
{
    static int commands;
    return told("lost") && ++commands > 2;
}

/* ---- Contexts, queues, buffers ------------------------------------------------------------------------- */

static cl_context CL_API_CALL create_context(
    const cl_context_properties *properties, cl_uint count, const cl_device_id *ids,
    void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *error)
{
    (void)properties, (void)count, (void)ids, (void)notify, (void)user;
    if (error)
        *error = CL_SUCCESS;
    return HANDLE(cl_context, make());
}

static cl_int CL_API_CALL retain_context(cl_context of)
{
    return retain(OBJECT(of));
}

static cl_int CL_API_CALL release_context(cl_context of)
{
    return release(OBJECT(of));
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *error)
{
    (void)context, (void)id, (void)properties;
    if (error)
        *error = CL_SUCCESS;
    return HANDLE(cl_command_queue, make());
}

static cl_int CL_API_CALL release_queue(cl_command_queue of)
{
    return release(OBJECT(of));
}

static cl_int CL_API_CALL finish(cl_command_queue of)
{
    (void)of;
    return CL_SUCCESS;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                        cl_int *error)
{
    struct object *made = make();
    (void)context;
    made->bytes = bytes;
    made->data = calloc(bytes + 1, 1);
    if (host && (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)))
        memcpy(made->data, host, bytes);
    if (error)
        *error = CL_SUCCESS;
    return HANDLE(cl_mem, made);
}

static cl_int CL_API_CALL retain_buffer(cl_mem of)
{
    return retain(OBJECT(of));
}

static cl_int CL_API_CALL release_buffer(cl_mem of)
{
    return release(OBJECT(of));
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset,
                                      size_t bytes, void *host, cl_uint count, const cl_event *list,
                                      cl_event *event)
{
    (void)queue, (void)wait, (void)count, (void)list, (void)event;
    if (is_lost())
        return CL_DEVICE_NOT_AVAILABLE;
    memcpy(host, (char *)OBJECT(buffer)->data + offset, bytes);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset,
                                       size_t bytes, const void *host, cl_uint count, const cl_event *list,
                                       cl_event *event)
{
    (void)queue, (void)wait, (void)count, (void)list, (void)event;
    if (is_lost())
        return CL_DEVICE_NOT_AVAILABLE;
    memcpy((char *)OBJECT(buffer)->data + offset, host, bytes);
    return CL_SUCCESS;
}

/* ---- Programs and kernels ------------------------------------------------------------------------------ */

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts,
                                             const size_t *lengths, cl_int *error)
{
    (void)context, (void)count, (void)texts, (void)lengths;
    if (error)
        *error = CL_SUCCESS;
    return HANDLE(cl_program, make());
}

/* It has no binaries. */
static cl_int CL_API_CALL program_info(cl_program of, cl_program_info what, size_t room, void *out,
                                       size_t *bytes)
{
    (void)of, (void)what, (void)room, (void)out, (void)bytes;
    return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL release_program(cl_program of)
{
    return release(OBJECT(of));
}

static cl_int CL_API_CALL build(cl_program of, cl_uint count, const cl_device_id *ids, const char *options,
                                void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)of, (void)count, (void)ids, (void)notify, (void)user;
    return told("build-fails") || (told("lies-fp16") && options && strstr(options, "fp16"))
               ? CL_BUILD_PROGRAM_FAILURE
               : CL_SUCCESS;
}

static cl_int CL_API_CALL build_info(cl_program of, cl_device_id id, cl_program_build_info what, size_t room,
                                     void *out, size_t *bytes)
{
    (void)of, (void)id;
    if (what != CL_PROGRAM_BUILD_LOG)
        return CL_INVALID_VALUE;
    return give_text("a line that says little\nprobe.cl:7: error: the fake cannot do this\nmore\n", room, out,
                     bytes);
}

static cl_kernel CL_API_CALL create_kernel(cl_program of, const char *name, cl_int *error)
{
    struct object *made = make();
    (void)of;
    snprintf(made->name, sizeof made->name, "%s", name);
    if (error)
        *error = CL_SUCCESS;
    return HANDLE(cl_kernel, made);
}

static cl_int CL_API_CALL release_kernel(cl_kernel of)
{
    return release(OBJECT(of));
}

static cl_int CL_API_CALL set_argument(cl_kernel of, cl_uint index, size_t bytes, const void *value)
{
    if (index < ARGUMENTS && bytes == sizeof(cl_mem) && value)
        memcpy(&OBJECT(of)->argument[index], value, bytes);
    return CL_SUCCESS;
}

/* The kernels that it knows: in and out, one float an item. */
static float by_kernel(const float *in, int i, int items)
{
    (void)items;
    return 2 * in[i] + 1;
}

static float by_local_memory(const float *in, int i, int items)
{
    return in[items - 1 - i];
}

static float by_half_storage(const float *in, int i, int items)
{
    (void)items;
    return 1.5f * in[i];
}

static cl_int CL_API_CALL run(cl_command_queue queue, cl_kernel of, cl_uint dimensions, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint count, const cl_event *list,
                              cl_event *event)
{
    static const struct {
        const char *name;
        float (*item)(const float *in, int i, int items);
    } known[] = { { "probe_kernel", by_kernel },
                  { "probe_local_memory", by_local_memory },
                  { "probe_half_storage", by_half_storage } };
    const struct object *kernel = OBJECT(of);
    (void)queue, (void)dimensions, (void)offset, (void)local, (void)count, (void)list, (void)event;
    if (told("crash-late"))
        raise(SIGILL);
    if (is_lost())
        return CL_DEVICE_NOT_AVAILABLE;
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        if (strcmp(kernel->name, known[index].name) != 0)
            continue;
        float *out = kernel->argument[1]->data;
        for (int i = 0; i < (int)global[0]; i++)
            out[i] =
                known[index].item(kernel->argument[0]->data, i, (int)global[0]) + (told("wrong") && i == 5);
    }
    return CL_SUCCESS;
}

/* ---- What the loader asks for -------------------------------------------------------------------------- */

static void *CL_API_CALL extension(const char *name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void *)(uintptr_t)get_platforms : NULL;
}

static struct _cl_icd_dispatch table = {
    .clGetPlatformIDs = get_platforms,
    .clGetPlatformInfo = platform_info,
    .clGetDeviceIDs = get_devices,
    .clGetDeviceInfo = device_info,
    .clRetainDevice = keep_device,
    .clReleaseDevice = keep_device,
    .clCreateContext = create_context,
    .clRetainContext = retain_context,
    .clReleaseContext = release_context,
    .clCreateCommandQueue = create_queue,
    .clReleaseCommandQueue = release_queue,
    .clFlush = finish,
    .clFinish = finish,
    .clCreateBuffer = create_buffer,
    .clRetainMemObject = retain_buffer,
    .clReleaseMemObject = release_buffer,
    .clEnqueueReadBuffer = read_buffer,
    .clEnqueueWriteBuffer = write_buffer,
    .clCreateProgramWithSource = create_program,
    .clReleaseProgram = release_program,
    .clBuildProgram = build,
    .clGetProgramInfo = program_info,
    .clGetProgramBuildInfo = build_info,
    .clCreateKernel = create_kernel,
    .clReleaseKernel = release_kernel,
    .clSetKernelArg = set_argument,
    .clEnqueueNDRangeKernel = run,
    .clGetExtensionFunctionAddress = extension,
};

__attribute__((visibility("default"))) cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room,
                                                                                 cl_platform_id *ids,
                                                                                 cl_uint *count);
cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *ids, cl_uint *count)
{
    return get_platforms(room, ids, count);
}

__attribute__((visibility("default"))) void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    return extension(name);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id,
                                                                            cl_platform_info what,
                                                                            size_t room, void *out,
                                                                            size_t *bytes)
{
    return platform_info(id, what, room, out, bytes);
}
