/* tools/probe/patient.h: what the rules of the doctor share: the causes, and what they look at. doctor.c owns
 * the table; doctor_gpus.c and doctor_drivers.c are the rules. */
#ifndef TOOLS_PROBE_PATIENT_H
#define TOOLS_PROBE_PATIENT_H

#include "probe/gather.h"
#include "probe/machine.h"

enum { PATIENT_TEXT = 512 };

typedef enum cause {
    NO_KERNEL_DRIVER,
    GIVEN_AWAY,
    NO_NODE,
    CONTAINER_NO_NODE,
    NO_PERMISSION,
    NEW_LOGIN,
    NO_LOADER,
    SECOND_LOADER,
    VARIABLE_NOWHERE,
    NO_DRIVER,
    CONTAINER_NO_DRIVER,
    WSL,
    ICD_UNREAD,
    ICD_NAMELESS,
    ICD_NO_LIBRARY,
    ICD_NO_DEPENDENCY,
    ICD_CRASHES,
    ICD_HANGS,
    ICD_SLOW,
    ICD_EXITS,
    ICD_ANSWERS_RUBBISH,
    ICD_TAKES_MEMORY,
    RUSTICL_OFF,
    NO_DEVICE,
    GPU_UNSEEN,
    TOO_MANY,
    KNOWN_BAD,
    NO_COMPILER,
    KERNEL_NO_BUILD,
    KERNEL_WRONG,
    KERNEL_FAILS,
    CAUSES
} cause;

/* What all rules look at. */
typedef struct patient {
    const tool_place *place;
    const tool_icds *icds;
    machine machine;
    cJSON *document;
    cJSON *trouble;
    bool explained[MACHINE_GPUS]; /* why no device is this GPU */
} patient;

/* Adds a trouble: `about` is the file, address or name that it is about; one command mends it. */
void patient_add(patient *of, cause why, const char *about, const char *command, const char *format, ...)
    TOOL_PRINTF(5, 6);

typedef enum package {
    PACKAGE_LOADER,
    PACKAGE_CPU,
    PACKAGE_AMD,
    PACKAGE_INTEL,
    PACKAGE_NVIDIA,
    PACKAGES
} package;

/* The command that installs a package on this system, and the package for a vendor's GPUs. */
void patient_install(const machine *on, package what, char command[PATIENT_TEXT]);
package patient_package(machine_vendor vendor);

bool patient_has(const char *text, const char *part);

/* Whether a driver's library is for this vendor's GPUs. */
bool patient_is_for(const char *library, machine_vendor vendor);

/* The OpenCL device that is this GPU, by address, or, where the driver tells no address, by vendor; NULL when
 * none is. */
const cJSON *patient_device(const patient *of, const machine_gpu *gpu);

/* The rules, in their order. look_at_loader is false when nothing behind it can be seen. */
void look_at_gpu(patient *of, size_t index);
bool look_at_loader(patient *of);
void look_at_drivers(patient *of);
void look_at_unseen(patient *of);
void look_at_device(patient *of, const cJSON *device);

#endif
