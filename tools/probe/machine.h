/* tools/probe/machine.h: the hardware and the system below OpenCL: GPUs on the PCI bus, their kernel drivers,
 * device nodes and who may open them; container, Windows, distribution. Called by doctor.c. */
#ifndef TOOLS_PROBE_MACHINE_H
#define TOOLS_PROBE_MACHINE_H

#include "probe/icds.h"

enum { MACHINE_GPUS = 16, MACHINE_TEXT = 64 };

typedef enum machine_vendor { VENDOR_AMD, VENDOR_INTEL, VENDOR_NVIDIA, VENDOR_OTHER } machine_vendor;

/* A device node: a file below /dev. */
typedef struct machine_node {
    char path[MACHINE_TEXT]; /* without the root; "" when the GPU has none */
    bool there, may_open;
    char group[MACHINE_TEXT]; /* that owns it, by name or number */
    bool user_in_group;       /* as the system's list says, whatever this process was started with */
} machine_node;

typedef struct machine_gpu {
    char address[MACHINE_TEXT]; /* "0000:03:00.0" */
    unsigned vendor_id, device_id;
    machine_vendor vendor;
    char driver[MACHINE_TEXT]; /* of the kernel, "" when there is none */
    machine_node node;
} machine_gpu;

typedef struct machine {
    machine_gpu gpu[MACHINE_GPUS];
    size_t gpus;
    bool is_container, is_wsl, has_dxg;
    char distribution[MACHINE_TEXT]; /* "debian", "fedora", "arch", "alpine", "suse" or "" */
} machine;

void machine_read(const tool_place *place, machine *made);

/* "AMD", "Intel", "NVIDIA", "other". */
const char *machine_vendor_name(machine_vendor vendor);
machine_vendor machine_vendor_of(unsigned vendor_id);

#endif
