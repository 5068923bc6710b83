/* tests/support/cl_shim.h: what the OpenCL loader is seen to do. Its entry points stand before the loader's
 * in every test program: they count live objects, builds and copies, and fail or answer otherwise where a
 * test asks for it. Counting is always on; faults are off until a test sets them. */
#ifndef CT_CL_SHIM_H
#define CT_CL_SHIM_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cl_shim_kind {
    CL_SHIM_CONTEXTS,
    CL_SHIM_QUEUES,
    CL_SHIM_BUFFERS,
    CL_SHIM_PROGRAMS,
    CL_SHIM_KERNELS,
    CL_SHIM_EVENTS,
    CL_SHIM_KINDS
} cl_shim_kind;

/* Since the program began. */
typedef struct cl_shim_counts {
    long live[CL_SHIM_KINDS]; /* references: made and retained, less released */
    long made[CL_SHIM_KINDS];
    long builds;
    long binaries;  /* programs made from a binary */
    long launches;  /* of kernels */
    long commands;  /* of any kind, launches among them */
    long copies;    /* reads, writes and copies of buffers, and buffers made with COPY_HOST_PTR */
    long waits;     /* clFinish, clWaitForEvents and blocking commands */
    long arguments; /* clSetKernelArg */
} cl_shim_counts;

cl_shim_counts cl_shim_count(void);

/* "contexts 1, queues 0, ..." of what is live; the text lasts until the next call in this thread. */
const char *cl_shim_live_text(const cl_shim_counts *counts);

/* All live counts are the same. */
bool cl_shim_same_live(const cl_shim_counts *a, const cl_shim_counts *b);

/* A device that is only seen by clGetDeviceIDs and clGetDeviceInfo. */
typedef struct cl_shim_device {
    cl_device_type type;
    cl_uint compute_units;
    bool has_compiler;
    const char *name;
    cl_uint float_width;
} cl_shim_device;

/* What goes wrong. All zero: nothing. Set when no other thread is in OpenCL. */
typedef struct cl_shim_faults {
    cl_int platform_error; /* of clGetPlatformIDs, such as -1001 */
    bool zero_platforms;   /* clGetPlatformIDs succeeds and finds none */
    bool broken_platform;  /* one more platform, the first, named Broken: it fails to list its devices */
    cl_int device_error;   /* of clGetDeviceIDs, such as CL_DEVICE_NOT_FOUND */
    const cl_shim_device *devices; /* these instead of the real ones */
    size_t device_count;

    /* The n-th call from the time the number is set fails; 1 is the next, 0 is none. */
    long buffer_at, launch_at, build_at, binary_at, queue_at, map_at;
    cl_int buffer_error, launch_error, build_error; /* 0: the error that fits best */

    long build_ms; /* a build takes this much longer */

    /* What clGetDeviceInfo and clGetCommandQueueInfo say instead; 0: the truth. */
    bool no_compiler;
    cl_ulong memory_bytes, max_alloc_bytes;
    cl_device_type type;
    cl_uint native_float_width;
    bool out_of_order;    /* queues say that they are */
    bool separate_memory; /* CL_DEVICE_HOST_UNIFIED_MEMORY is false, and `type` should not be CPU */
} cl_shim_faults;

extern cl_shim_faults cl_shim_fault;
void cl_shim_clear_faults(void);

#endif
