/* tools/probe/doctor_gpus.c: the rules about GPUs: from the PCI bus to an installed driver. Called by
 * doctor.c. */
#include "probe/patient.h"

#include <stdio.h>
#include <string.h>

static bool has_driver_for(const patient *of, machine_vendor vendor)
{
    bool found = false;
    for (size_t index = 0; index < of->icds->count; index++) {
        const char *library = of->icds->icd[index].library;
        found |= library && patient_is_for(library, vendor);
    }
    return found;
}

static void explain_kernel_driver(patient *of, const machine_gpu *gpu)
{
    static const char *const modules[] = {
        [VENDOR_AMD] = "amdgpu", [VENDOR_INTEL] = "i915", [VENDOR_NVIDIA] = "nvidia"
    };
    char command[PATIENT_TEXT];
    snprintf(command, sizeof command, "sudo modprobe %s", modules[gpu->vendor]);
    patient_add(of, NO_KERNEL_DRIVER, gpu->address, command, "the %s GPU at %s has no kernel driver",
                machine_vendor_name(gpu->vendor), gpu->address);
}

static void explain_node(patient *of, const machine_gpu *gpu)
{
    static const char *const options[] = { [VENDOR_AMD] = "--device /dev/kfd --device /dev/dri",
                                           [VENDOR_INTEL] = "--device /dev/dri",
                                           [VENDOR_NVIDIA] =
                                               "--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility" };
    const char *vendor = machine_vendor_name(gpu->vendor);
    char command[PATIENT_TEXT];
    if (of->machine.is_container) {
        snprintf(command, sizeof command, "docker run %s ...", options[gpu->vendor]);
        patient_add(of, CONTAINER_NO_NODE, gpu->address, command,
                    "this container was not given %s of the %s GPU at %s", gpu->node.path, vendor,
                    gpu->address);
        return;
    }
    snprintf(command, sizeof command, "sudo dmesg | grep -i %s", gpu->driver);
    if (gpu->vendor == VENDOR_NVIDIA)
        snprintf(command, sizeof command, "sudo nvidia-modprobe -u -c 0");
    patient_add(of, NO_NODE, gpu->address, command,
                "%s of the %s GPU at %s is missing, although its kernel driver %s is there", gpu->node.path,
                vendor, gpu->address, gpu->driver);
}

static void explain_permission(patient *of, const machine_gpu *gpu)
{
    const machine_node *node = &gpu->node;
    char command[PATIENT_TEXT];
    if (node->user_in_group) {
        snprintf(command, sizeof command, "newgrp %s", node->group);
        patient_add(of, NEW_LOGIN, node->path, command,
                    "%s belongs to group %s, in which you are since you last logged in: log in again",
                    node->path, node->group);
        return;
    }
    snprintf(command, sizeof command, "sudo usermod -aG %s $USER", node->group);
    patient_add(
        of, NO_PERMISSION, node->path, command,
        "you may not open %s: it belongs to group %s, and you are not in it; log in again after the command",
        node->path, node->group);
}

static void explain_no_driver(patient *of, const machine_gpu *gpu)
{
    const char *vendor = machine_vendor_name(gpu->vendor);
    char command[PATIENT_TEXT];
    if (of->machine.is_container && gpu->vendor == VENDOR_NVIDIA) {
        patient_add(
            of, CONTAINER_NO_DRIVER, gpu->address,
            "mkdir -p /etc/OpenCL/vendors && echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd",
            "this container has the NVIDIA GPU at %s, but no .icd file that names its OpenCL driver",
            gpu->address);
        return;
    }
    patient_install(&of->machine, patient_package(gpu->vendor), command);
    if (of->machine.is_container)
        patient_add(of, CONTAINER_NO_DRIVER, gpu->address, command,
                    "this container has no OpenCL driver for the %s GPU at %s", vendor, gpu->address);
    else
        patient_add(of, NO_DRIVER, gpu->address, command,
                    "no OpenCL driver for the %s GPU at %s is installed", vendor, gpu->address);
}

void look_at_gpu(patient *of, size_t index)
{
    const machine_gpu *gpu = &of->machine.gpu[index];
    of->explained[index] = true;
    if (gpu->vendor == VENDOR_OTHER || patient_device(of, gpu))
        return;
    if (!gpu->driver[0])
        explain_kernel_driver(of, gpu);
    else if (patient_has(gpu->driver, "vfio"))
        patient_add(of, GIVEN_AWAY, gpu->address, "lspci -k",
                    "the %s GPU at %s is given to virtual machines (%s)", machine_vendor_name(gpu->vendor),
                    gpu->address, gpu->driver);
    else if (!gpu->node.there)
        explain_node(of, gpu);
    else if (!gpu->node.may_open)
        explain_permission(of, gpu);
    else if (!of->icds->variable && !has_driver_for(of, gpu->vendor))
        explain_no_driver(of, gpu);
    else
        of->explained[index] = false;
}

/* GPUs that nothing above has explained. */
void look_at_unseen(patient *of)
{
    char command[PATIENT_TEXT];
    for (size_t index = 0; index < of->machine.gpus; index++) {
        const machine_gpu *gpu = &of->machine.gpu[index];
        if (of->explained[index] || patient_device(of, gpu))
            continue;
        patient_install(&of->machine, patient_package(gpu->vendor), command);
        patient_add(of, GPU_UNSEEN, gpu->address, command,
                    "no OpenCL device is the %s GPU at %s, and no driver says why",
                    machine_vendor_name(gpu->vendor), gpu->address);
    }
}
