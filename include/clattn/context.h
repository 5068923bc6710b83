/* clattn/context.h: status codes, devices and the context that everything else is made from.
 *
 * A program usually needs three things of this header: clattn_context_create, clattn_last_message and
 * clattn_context_destroy. The simple face of attention.h needs not even those.
 *
 * The library is silent: it never prints, never exits and never reads the environment. What it has to say
 * comes back as a status and a message, or through the log callback of the context.
 */
#ifndef CLATTN_CONTEXT_H
#define CLATTN_CONTEXT_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(CLATTN_STATIC)
#define CLATTN_API
#elif defined(_WIN32) && defined(CLATTN_BUILDING)
#define CLATTN_API __declspec(dllexport)
#elif defined(_WIN32)
#define CLATTN_API __declspec(dllimport)
#else
#define CLATTN_API __attribute__((visibility("default")))
#endif

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

/* "major.minor.patch" of the library that is loaded, which may differ from the header's. Never NULL. */
CLATTN_API const char *clattn_version(void);

/* ---- Status -------------------------------------------------------------------------------------------- */

/* Every call that can fail returns one of these. X(name, what it means). */
#define CLATTN_STATUS_LIST(X)                                                                                \
    X(OK, "success")                                                                                         \
    X(INVALID_ARGUMENT, "an argument breaks a rule: NULL, an unknown value, a number out of range")          \
    X(INVALID_SHAPE, "sizes that do not fit each other")                                                     \
    X(OVERLAP, "an output overlaps an input, another output or itself")                                      \
    X(BUFFER_TOO_SMALL, "a buffer does not hold what its offset, sizes and strides reach")                   \
    X(SIZE_OVERFLOW, "a size or a product of sizes is too large to express")                                 \
    X(OUT_OF_MEMORY, "the host or the device has not enough memory")                                         \
    X(UNSUPPORTED, "no kernel, or not the kernel asked for, accepts this problem on this device")            \
    X(NO_DEVICE, "no OpenCL platform, no device, or none that the selector matches")                         \
    X(NO_COMPILER, "the device cannot compile OpenCL C")                                                     \
    X(BUILD_FAILED, "a kernel did not compile: see clattn_last_build_log")                                   \
    X(CL_FAILED, "an OpenCL or CLBlast call failed for a reason that none of the others name")

typedef enum clattn_status {
#define CLATTN_STATUS_ENUM(name, text) CLATTN_##name,
    CLATTN_STATUS_LIST(CLATTN_STATUS_ENUM)
#undef CLATTN_STATUS_ENUM
} clattn_status;

/* "CLATTN_INVALID_SHAPE" and the like; "unknown status" for other numbers. Never NULL, static storage. */
CLATTN_API const char *clattn_status_name(clattn_status status);

/* One line about the last failure in this thread: the value and the rule it broke, without a newline. Empty
 * before the first failure; a success leaves it alone. The text belongs to the thread and lives until its
 * next clattn call. */
CLATTN_API const char *clattn_last_message(void);

/* The compiler's whole log behind this thread's last CLATTN_BUILD_FAILED; empty when there was none. Same
 * life as clattn_last_message. */
CLATTN_API const char *clattn_last_build_log(void);

/* "CL_INVALID_VALUE" and the like, of the extensions of loaders and vendors too; "unknown OpenCL error" for
 * other numbers. Never NULL, static storage. */
CLATTN_API const char *clattn_cl_error_name(cl_int error);

/* ---- Devices ------------------------------------------------------------------------------------------- */

enum { CLATTN_TEXT_BYTES = 256 }; /* room of every text field below, the final NUL included */

/* What a device says of itself. Texts are valid UTF-8 without control characters, cut to fit; where a driver
 * fails to give one, its error stands in its place. Sizes that it does not give are 0. */
typedef struct clattn_device_info {
    cl_platform_id platform_id;
    cl_device_id device_id;
    cl_device_type type;
    cl_uint compute_units;
    uint64_t memory_bytes;
    uint64_t max_alloc_bytes; /* largest single buffer */
    uint64_t local_bytes;     /* local memory of one work-group */
    cl_uint float_width;      /* lanes of a float vector within one work-item; 1 where items are the lanes */
    bool has_compiler;
    char platform[CLATTN_TEXT_BYTES];
    char name[CLATTN_TEXT_BYTES];
    char version[CLATTN_TEXT_BYTES]; /* "OpenCL 3.0 ..." */
    char driver[CLATTN_TEXT_BYTES];
    const char *known_bad; /* why the driver is known to be bad, static storage; NULL when it is not */
} clattn_device_info;

/* Lists the devices of every platform, in the loader's order; an index into this list is what a selector's
 * number means. Writes at most `capacity` entries to `devices` (NULL is allowed when capacity is 0) and the
 * number there are to *count. CLATTN_NO_DEVICE with *count = 0 where there is no platform or no device; the
 * message says which. */
CLATTN_API clattn_status clattn_devices(size_t capacity, clattn_device_info *devices, size_t *count);

/* ---- Context ------------------------------------------------------------------------------------------- */

/* One device, the programs built for it, and a queue. Any number of threads may use one context at once. */
typedef struct clattn_context clattn_context;

typedef enum clattn_log_level { CLATTN_LOG_INFO, CLATTN_LOG_WARNING } clattn_log_level;

/* Receives one line without a newline: refusals of kernels, failed builds, slow first calls. May be called
 * from any thread that uses the context; `line` is gone when the function returns. It must not call clattn.
 */
typedef void (*clattn_log_fn)(void *user, clattn_log_level level, const char *line);

/* All zero is the default. */
typedef struct clattn_context_options {
    const char *device; /* selector, see clattn_device_pick; read by clattn_context_create only */
    const char
        *kernel_dir; /* read .cl sources from this folder (the repository's cl/) instead of those built in */
    const char *cache_dir; /* where built programs are kept from one process to the next; see below */
    bool strict; /* a kernel that fails to build is an error; otherwise the next in the table is tried */
    bool use_known_bad; /* treat drivers and kernels that are known to be bad as any others */
    clattn_log_fn log;  /* NULL: nobody listens */
    void *log_user;
} clattn_context_options;

/* cache_dir: NULL is clattn's folder in the user's cache directory, as the system's user database gives it
 * (~/.cache/clattn; on a Mac ~/Library/Caches/clattn); "" keeps nothing; anything else is that folder. It is
 * made with mode 0700 where it is missing, and not used where others may write to it: what is in it is run. A
 * kept program is taken only for the same sources, options, device, driver and library version; damaged and
 * foreign files are ignored and replaced; the oldest go beyond 256 MiB. Trouble with the folder never fails a
 * call: the log says it once.
 *
 * PoCL compiles a kernel anew when asked for its binary, and has a cache of its own. So with PoCL NULL leaves
 * the keeping to it, and a folder that is named is filled by clattn_context_destroy, once for each program
 * and in as long as building them took; elsewhere a program is kept as soon as it is built. */

/* The device that a context with these options would open, as an index of clattn_devices, and in a few words
 * why; both may be NULL but `index`. Selectors: NULL or "" the best device; "gpu", "cpu", "accelerator" the
 * best of that type; a number, that index; anything else, the first device whose name or platform contains
 * it, upper or lower case alike. Better is, in this order: one that compiles; one whose driver is not known
 * to be bad and whose simplest kernel has not given wrong numbers; GPU, then accelerator, then CPU; one whose
 * simplest kernel has been proved (clattn_device_features keeps that with the built programs); on CPUs, float
 * vectors within a work-item; more compute units; the first. CLATTN_NO_DEVICE where nothing matches. */
CLATTN_API clattn_status clattn_device_pick(const clattn_context_options *options, size_t *index,
                                            char why[CLATTN_TEXT_BYTES]);

/* Opens a device with a context and an in-order queue of the library's own. `options` may be NULL. On failure
 * *context is NULL. Errors: NO_DEVICE, NO_COMPILER, OUT_OF_MEMORY, CL_FAILED, INVALID_ARGUMENT. */
CLATTN_API clattn_status clattn_context_create(const clattn_context_options *options,
                                               clattn_context **context);

/* The same over the caller's OpenCL context and one of its devices; both are retained until destroy. */
CLATTN_API clattn_status clattn_context_wrap(cl_context cl, cl_device_id device,
                                             const clattn_context_options *options, clattn_context **context);

/* Frees the context; plans and modules made from it must be gone. NULL is allowed. */
CLATTN_API void clattn_context_destroy(clattn_context *context);

/* Facts of the context's device; why it was picked; its OpenCL objects. Owned by the context. */
CLATTN_API const clattn_device_info *clattn_context_device(const clattn_context *context);
CLATTN_API const char *clattn_context_why(const clattn_context *context);
CLATTN_API cl_context clattn_context_cl(const clattn_context *context);
CLATTN_API cl_command_queue clattn_context_queue(const clattn_context *context);

/* Calls that take a NULL context use one that the process shares, opened at first use. This releases it; no
 * other thread may be inside such a call. Nothing happens when there is none. */
CLATTN_API void clattn_default_context_release(void);

#ifdef __cplusplus
}
#endif
#endif
