/* Kernels from sources: reads the sources, builds each program once in a context, or takes it as an earlier
 * process kept it, and keeps it and its failure. Families, gemm and nn make and enqueue their kernels here.
 */
#include "base/program.h"

#include "base/cache.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SOURCES = 16, SLOW_BUILD_MS = 500 };

/* A program that was built, or the log of one that cannot be. */
struct ca_program {
    struct ca_program *next;
    char *key; /* paths and options */
    cl_program cl;
    char *log; /* NULL when the build succeeded */
    cl_int error;
    double build_ms;
    char *cache_key; /* not NULL: to be kept on disk */
};

static double now_ms(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void program_free(struct ca_program *program)
{
    if (program == NULL)
        return;
    if (program->cl != NULL)
        clReleaseProgram(program->cl);
    free(program->key);
    free(program->log);
    free(program->cache_key);
    free(program);
}

/* Hands the binary to the cache. A program for several devices, of a wrapped context, is not kept. */
static void keep_on_disk(clattn_context *context, struct ca_program *program)
{
    unsigned char *binary = NULL;
    size_t bytes = 0;
    cl_uint devices = 0;
    if (program->cache_key == NULL)
        return;
    if (clGetProgramInfo(program->cl, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL) == CL_SUCCESS &&
        devices == 1 &&
        clGetProgramInfo(program->cl, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) == CL_SUCCESS &&
        bytes > 0 && (binary = malloc(bytes)) != NULL &&
        clGetProgramInfo(program->cl, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        ca_cache_write(context, program->cache_key, binary, bytes);
    free(binary);
    free(program->cache_key);
    program->cache_key = NULL;
}

void ca_programs_release(clattn_context *context)
{
    while (context->programs != NULL) {
        struct ca_program *next = context->programs->next;
        keep_on_disk(context, context->programs);
        program_free(context->programs);
        context->programs = next;
    }
}

uint64_t ca_sources_sum(void)
{
    uint64_t sum = CA_HASH_START;
    for (size_t i = 0; i < ca_source_count; ++i)
        sum = ca_hash(sum, ca_sources[i].text, ca_sources[i].bytes);
    return sum;
}

static char *make_key(const char *const *sources, const char *options)
{
    size_t bytes = strlen(options) + 1;
    for (size_t i = 0; sources[i] != NULL; ++i)
        bytes += strlen(sources[i]) + 1;
    char *key = malloc(bytes);
    if (key == NULL)
        return NULL;
    char *end = key;
    for (size_t i = 0; sources[i] != NULL; ++i) {
        size_t length = strlen(sources[i]);
        memcpy(end, sources[i], length);
        end[length] = '\n';
        end += length + 1;
    }
    memcpy(end, options, strlen(options) + 1);
    return key;
}

/* One source as malloc'd text that opens with its own name, so that a log names file and line. */
static clattn_status read_source(const clattn_context *context, const char *path, char **text)
{
    clattn_status status = CLATTN_OK;
    char *from_disk = NULL, *file = NULL;
    const char *body = NULL;
    size_t body_bytes = 0;
    if (context->kernel_dir != NULL) {
        size_t room = strlen(context->kernel_dir) + strlen(path) + 2;
        file = malloc(room);
        if (file == NULL) {
            status = ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for the name of %s", path);
            goto done;
        }
        snprintf(file, room, "%s/%s", context->kernel_dir, path);
        from_disk = ca_read_file(file, SIZE_MAX, &body_bytes);
        if (from_disk == NULL) {
            status = ca_fail(CLATTN_INVALID_ARGUMENT, "kernel_dir: cannot read %s", file);
            goto done;
        }
        body = from_disk;
    } else {
        for (size_t i = 0; i < ca_source_count; ++i)
            if (strcmp(ca_sources[i].path, path) == 0) {
                body = ca_sources[i].text;
                body_bytes = ca_sources[i].bytes;
            }
        if (body == NULL) {
            status = ca_fail(CLATTN_BUILD_FAILED, "no kernel source %s is built in", path);
            goto done;
        }
    }
    size_t room = body_bytes + strlen(path) + 16;
    *text = malloc(room);
    if (*text == NULL) {
        status = ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %zu bytes of %s", room, path);
        goto done;
    }
    int opening = snprintf(*text, room, "#line 1 \"%s\"\n", path);
    memcpy(*text + opening, body, body_bytes);
    memcpy(*text + opening + body_bytes, "\n", 2);
done:
    free(file);
    free(from_disk);
    return status;
}

static char *read_log(cl_program program, cl_device_id device)
{
    size_t bytes = 0;
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    char *log = calloc(bytes + 1, 1);
    if (log != NULL && bytes > 0 &&
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) != CL_SUCCESS)
        log[0] = '\0';
    return log;
}

/* The program as an earlier process kept it; NULL when none did, or when the device no longer takes it. */
static cl_program build_kept(const clattn_context *context, const char *key, const char *options)
{
    const cl_device_id device = context->device.info.device_id;
    cl_int accepted = CL_SUCCESS, error = CL_SUCCESS;
    size_t bytes = 0;
    unsigned char *binary = key != NULL ? ca_cache_read(context, key, &bytes) : NULL;
    if (binary == NULL)
        return NULL;
    cl_program program = clCreateProgramWithBinary(context->cl, 1, &device, &bytes,
                                                   (const unsigned char **)&binary, &accepted, &error);
    free(binary);
    if (error != CL_SUCCESS)
        return NULL;
    if (accepted != CL_SUCCESS || clBuildProgram(program, 1, &device, options, NULL, NULL) != CL_SUCCESS) {
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

/* Compiles. A build that fails is a program too, with its log. */
static clattn_status build_sources(const clattn_context *context, char *const *texts, cl_uint count,
                                   const char *options, const char *name, struct ca_program *made)
{
    const cl_device_id device = context->device.info.device_id;
    cl_int error;
    made->cl = clCreateProgramWithSource(context->cl, count, (const char **)texts, NULL, &error);
    if (error != CL_SUCCESS) {
        made->cl = NULL;
        return ca_fail_cl(error, "clCreateProgramWithSource", name);
    }
    made->error = clBuildProgram(made->cl, 1, &device, options, NULL, NULL);
    if (made->error == CL_SUCCESS)
        return CLATTN_OK;
    if (made->error == CL_COMPILER_NOT_AVAILABLE)
        return ca_fail(CLATTN_NO_COMPILER, "%s cannot compile OpenCL C", context->device.info.name);
    if (made->error == CL_MEM_OBJECT_ALLOCATION_FAILURE || made->error == CL_OUT_OF_HOST_MEMORY)
        return ca_fail_cl(made->error, "clBuildProgram", name);
    made->log = read_log(made->cl, device);
    clReleaseProgram(made->cl);
    made->cl = NULL;
    if (made->log == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for the build log of %s", name);
    return CLATTN_OK;
}

/* Takes the program from disk or builds it. *program is NULL on failure, but one that does not build is
 * there, with its log. */
static clattn_status build(clattn_context *context, const char *const *sources, const char *options,
                           struct ca_program **program)
{
    clattn_status status = CLATTN_OK;
    char *texts[MAX_SOURCES + 1] = { NULL };
    char *all_options = NULL, *cache_key = NULL;
    cl_uint count = 0;
    *program = NULL;
    struct ca_program *made = calloc(1, sizeof *made);
    size_t room = strlen(options) + 32;
    all_options = malloc(room);
    if (made == NULL || all_options == NULL || (made->key = make_key(sources, options)) == NULL) {
        status = ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory to build %s", sources[0]);
        goto fail;
    }
    /* Compilers warn of loops that they leave as they are, and PoCL says so on stderr. */
    snprintf(all_options, room, "%s%s%s", strstr(options, "-cl-std=") != NULL ? "" : "-cl-std=CL1.2 ",
             context->kernel_dir ? "" : "-w ", options);
    for (; sources[count] != NULL; ++count) {
        if (count == MAX_SOURCES) {
            status =
                ca_fail(CLATTN_INVALID_ARGUMENT, "more than %d sources with %s", MAX_SOURCES, sources[0]);
            goto fail;
        }
        status = read_source(context, sources[count], &texts[count]);
        if (status != CLATTN_OK)
            goto fail;
    }
    double start = now_ms();
    cache_key = ca_cache_key(context, texts, all_options);
    made->cl = build_kept(context, cache_key, all_options);
    if (made->cl == NULL) {
        status = build_sources(context, texts, count, all_options, sources[0], made);
        if (status != CLATTN_OK)
            goto fail;
        if (made->cl != NULL) {
            made->cache_key = cache_key;
            cache_key = NULL;
        }
    }
    made->build_ms = now_ms() - start;
    if (!context->device.binary_compiles)
        keep_on_disk(context, made);
    *program = made;
    made = NULL;
fail:
    for (cl_uint i = 0; i < MAX_SOURCES; ++i)
        free(texts[i]);
    free(cache_key);
    free(all_options);
    program_free(made);
    return status;
}

/* The first line that says error, else the first line that says anything. */
static void find_error_line(const char *log, const char **line, int *length)
{
    const char *at = ca_find_text(log, "error");
    if (at == NULL)
        at = log + strspn(log, " \t\r\n");
    const char *start = at;
    while (start > log && start[-1] != '\n')
        --start;
    start += strspn(start, " \t");
    size_t bytes = strcspn(start, "\r\n");
    *line = start;
    *length = bytes > 1000 ? 1000 : (int)bytes;
}

static clattn_status fail_build(const struct ca_program *program, const char *last_source)
{
    const char *line;
    int length;
    find_error_line(program->log, &line, &length);
    ca_keep_build_log(program->log);
    if (length == 0)
        return ca_fail(CLATTN_BUILD_FAILED, "%s does not build: %s (%d)", last_source,
                       clattn_cl_error_name(program->error), (int)program->error);
    return ca_fail(CLATTN_BUILD_FAILED, "%s does not build: %.*s", last_source, length, line);
}

clattn_status ca_kernel_create(clattn_context *context, const char *const *sources, const char *options,
                               const char *name, cl_kernel *kernel)
{
    *kernel = NULL;
    if (options == NULL)
        options = "";
    const char *last_source = sources[0];
    for (size_t i = 0; sources[i] != NULL; ++i)
        last_source = sources[i];

    char *key = make_key(sources, options);
    if (key == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory to build %s", last_source);
    bool is_new = false;
    clattn_status status = CLATTN_OK;
    ca_mutex_lock(context->lock);
    struct ca_program *program = context->programs;
    while (program != NULL && strcmp(program->key, key) != 0)
        program = program->next;
    if (program == NULL) {
        status = build(context, sources, options, &program);
        if (status == CLATTN_OK) {
            is_new = true;
            program->next = context->programs;
            context->programs = program;
        }
    }
    ca_mutex_unlock(context->lock);
    free(key);
    if (status != CLATTN_OK)
        return status;
    if (program->log != NULL) {
        status = fail_build(program, last_source);
        if (is_new)
            ca_log(context, CLATTN_LOG_WARNING, "%s", clattn_last_message());
        return status;
    }
    if (is_new && program->build_ms > SLOW_BUILD_MS)
        ca_log(context, CLATTN_LOG_INFO, "%s: built in %.1f s", last_source, program->build_ms * 1e-3);

    cl_int error;
    cl_kernel made = clCreateKernel(program->cl, name, &error);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clCreateKernel", name);
    *kernel = made;
    return CLATTN_OK;
}

clattn_status ca_kernel_arg(cl_kernel kernel, const char *name, cl_uint index, size_t bytes,
                            const void *value)
{
    cl_int error = clSetKernelArg(kernel, index, bytes, value);
    if (error == CL_SUCCESS)
        return CLATTN_OK;
    char call[48];
    snprintf(call, sizeof call, "clSetKernelArg %u", (unsigned)index);
    return ca_fail_cl(error, call, name);
}

clattn_status ca_kernel_enqueue(cl_command_queue queue, cl_kernel kernel, const char *name,
                                const size_t groups[3], const size_t local[3])
{
    size_t global[3];
    for (int i = 0; i < 3; ++i) {
        if (groups[i] == 0)
            return CLATTN_OK;
    }
    for (int i = 0; i < 3; ++i) {
        if (groups[i] > SIZE_MAX / local[i])
            return ca_fail(CLATTN_SIZE_OVERFLOW, "%s: %zu groups of %zu work-items exceed size_t", name,
                           groups[i], local[i]);
        global[i] = groups[i] * local[i];
    }
    cl_int error = clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLATTN_OK : ca_fail_cl(error, "clEnqueueNDRangeKernel", name);
}
