/* host/base/device.h: the facts about a device that decide anything. Only device.c asks OpenCL for them. */
#ifndef CA_BASE_DEVICE_H
#define CA_BASE_DEVICE_H

#include <clattn/context.h>

typedef struct ca_device {
    clattn_device_info info;
    size_t max_work_group;
    size_t buffer_align_bytes; /* of the origin of a sub-buffer */
    bool shares_host_memory;
    bool binary_compiles; /* asking for a program's binary compiles its kernels anew: PoCL */
    char platform_version[CLATTN_TEXT_BYTES];
} ca_device;

/* Reads the facts of one device. */
clattn_status ca_device_read(cl_device_id id, ca_device *device);

/* clattn_device_pick, and the facts of the device that it means. */
clattn_status ca_device_open(const clattn_context_options *options, ca_device *device,
                             char why[CLATTN_TEXT_BYTES]);

#endif
