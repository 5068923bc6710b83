/* tools/probe/doctor.c: the table of causes, what the rules share, and the chain. The rules are in
 * doctor_gpus.c and doctor_drivers.c. Called by probe.c and the program's main. */
#include "probe/doctor.h"

#include "files/text.h"

#include "probe/patient.h"
#include "probe/views.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN = 16 };

/* The links of the chain, first to last. */
typedef enum link_of {
    HARDWARE,
    KERNEL_DRIVER,
    NODE,
    PERMISSION,
    LOADER,
    DRIVER,
    PLATFORM,
    COMPILER,
    KERNEL,
    LINKS
} link_of;

static const char *const link_names[LINKS] = { "hardware",   "kernel driver", "device node",
                                               "permission", "loader",        "driver",
                                               "devices",    "compiler",      "kernel" };

static const struct {
    const char *key;
    link_of link;
} causes[CAUSES] = {
    [NO_KERNEL_DRIVER] = { "no-kernel-driver", KERNEL_DRIVER },
    [GIVEN_AWAY] = { "given-away", KERNEL_DRIVER },
    [NO_NODE] = { "no-device-node", NODE },
    [CONTAINER_NO_NODE] = { "container-no-device-node", NODE },
    [NO_PERMISSION] = { "no-permission", PERMISSION },
    [NEW_LOGIN] = { "new-login-needed", PERMISSION },
    [NO_LOADER] = { "no-loader", LOADER },
    [SECOND_LOADER] = { "second-loader", LOADER },
    [VARIABLE_NOWHERE] = { "variable-points-nowhere", DRIVER },
    [NO_DRIVER] = { "no-driver", DRIVER },
    [CONTAINER_NO_DRIVER] = { "container-no-driver", DRIVER },
    [WSL] = { "wsl", DRIVER },
    [ICD_UNREAD] = { "icd-unreadable", DRIVER },
    [ICD_NAMELESS] = { "icd-names-nothing", DRIVER },
    [ICD_NO_LIBRARY] = { "icd-library-missing", DRIVER },
    [ICD_NO_DEPENDENCY] = { "icd-library-does-not-load", DRIVER },
    [ICD_CRASHES] = { "driver-crashes", DRIVER },
    [ICD_HANGS] = { "driver-hangs", DRIVER },
    [ICD_SLOW] = { "driver-is-slow", DRIVER },
    [ICD_EXITS] = { "driver-exits", DRIVER },
    [ICD_ANSWERS_RUBBISH] = { "driver-answers-rubbish", DRIVER },
    [ICD_TAKES_MEMORY] = { "driver-takes-memory", DRIVER },
    [RUSTICL_OFF] = { "rusticl-off", PLATFORM },
    [NO_DEVICE] = { "platform-without-device", PLATFORM },
    [GPU_UNSEEN] = { "gpu-unseen", PLATFORM },
    [TOO_MANY] = { "too-many-devices", PLATFORM },
    [KNOWN_BAD] = { "known-bad", PLATFORM },
    [NO_COMPILER] = { "no-compiler", COMPILER },
    [KERNEL_NO_BUILD] = { "kernel-does-not-build", KERNEL },
    [KERNEL_WRONG] = { "kernel-gives-wrong-numbers", KERNEL },
    [KERNEL_FAILS] = { "kernel-fails", KERNEL },
};

bool patient_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* ---- Commands ------------------------------------------------------------------------------------------ */

void patient_install(const machine *on, package what, char command[PATIENT_TEXT])
{
    static const struct {
        const char *family, *command, *packages[PACKAGES];
    } known[] = {
        { "debian",
          "sudo apt install",
          { "ocl-icd-libopencl1", "pocl-opencl-icd", "mesa-opencl-icd", "intel-opencl-icd",
            "nvidia-opencl-icd" } },
        { "fedora",
          "sudo dnf install",
          { "ocl-icd", "pocl", "mesa-libOpenCL", "intel-compute-runtime", "xorg-x11-drv-nvidia-cuda" } },
        { "arch",
          "sudo pacman -S",
          { "ocl-icd", "pocl", "opencl-mesa", "intel-compute-runtime", "opencl-nvidia" } },
        { "alpine",
          "sudo apk add",
          { "opencl-icd-loader", "pocl", "mesa-rusticl", "mesa-rusticl", "mesa-rusticl" } },
        { "suse",
          "sudo zypper install",
          { "libOpenCL1", "pocl", "Mesa-libOpenCL", "intel-opencl", "nvidia-compute-G06" } },
    };
    static const char *const words[PACKAGES] = { "an OpenCL loader (ocl-icd)", "pocl",
                                                 "Mesa's OpenCL (rusticl)", "Intel's compute runtime",
                                                 "the OpenCL part of NVIDIA's driver" };
    snprintf(command, PATIENT_TEXT, "install %s with your system's package manager", words[what]);
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        if (strcmp(on->distribution, known[index].family) == 0)
            snprintf(command, PATIENT_TEXT, "%s %s", known[index].command, known[index].packages[what]);
    }
}

void tool_doctor_install(const tool_place *place, char *command, size_t bytes)
{
    machine here;
    char text[PATIENT_TEXT];
    machine_read(place, &here);
    patient_install(&here, PACKAGE_LOADER, text);
    snprintf(command, bytes, "%s", text);
}

package patient_package(machine_vendor vendor)
{
    return vendor == VENDOR_AMD      ? PACKAGE_AMD
           : vendor == VENDOR_INTEL  ? PACKAGE_INTEL
           : vendor == VENDOR_NVIDIA ? PACKAGE_NVIDIA
                                     : PACKAGE_CPU;
}

bool patient_is_for(const char *library, machine_vendor vendor)
{
    static const char *const parts[][3] = { [VENDOR_AMD] = { "amdocl", "usticl", "MesaOpenCL" },
                                            [VENDOR_INTEL] = { "igdrcl", "usticl", "MesaOpenCL" },
                                            [VENDOR_NVIDIA] = { "nvidia-opencl", "usticl", "MesaOpenCL" } };
    bool found = false;
    for (int index = 0; vendor != VENDOR_OTHER && index < 3; index++)
        found |= patient_has(library, parts[vendor][index]);
    return found;
}

const cJSON *patient_device(const patient *of, const machine_gpu *gpu)
{
    const cJSON *device;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(of->document, "devices"))
    {
        const char *address = json_text(device, "pci_address");
        bool same_vendor = strcmp(json_text(device, "type"), "gpu") == 0 &&
                           (unsigned)json_number(device, "vendor_id") == gpu->vendor_id;
        if (address[0] ? strcmp(address, gpu->address) == 0 : same_vendor)
            return device;
    }
    return NULL;
}

/* ---- Troubles ------------------------------------------------------------------------------------------ */

/* The home folder is not told, and names of files may be anything. */
static void add_private(cJSON *object, const char *key, const tool_place *place, const char *text)
{
    const char *home = place->variable("HOME"), *found;
    size_t length = home ? strlen(home) : 0;
    char out[2 * PATIENT_TEXT] = "";
    while (length > 1 && (found = strstr(text, home))) {
        size_t used = strlen(out);
        snprintf(out + used, sizeof out - used, "%.*s~", (int)(found - text), text);
        text = found + length;
    }
    snprintf(out + strlen(out), sizeof out - strlen(out), "%s", text);
    tool_text_clean(out, sizeof out);
    cJSON_AddStringToObject(object, key, out);
}

void patient_add(patient *of, cause why, const char *about, const char *command, const char *format, ...)
{
    char text[PATIENT_TEXT];
    va_list arguments;
    cJSON *one = cJSON_CreateObject();
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cJSON_AddStringToObject(one, "cause", causes[why].key);
    cJSON_AddStringToObject(one, "link", link_names[causes[why].link]);
    add_private(one, "about", of->place, about);
    add_private(one, "text", of->place, text);
    add_private(one, "command", of->place, command);
    cJSON_AddItemToArray(of->trouble, one);
}

/* ---- The chain ----------------------------------------------------------------------------------------- */

static bool is_broken(const patient *of, link_of link)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, of->trouble)
    {
        if (strcmp(json_text(one, "link"), link_names[link]) == 0)
            return true;
    }
    return false;
}

TOOL_PRINTF(3, 4)
static void add_link(patient *of, link_of link, const char *format, ...)
{
    const cJSON *devices = cJSON_GetObjectItem(of->document, "devices");
    const cJSON *first = cJSON_GetArrayItem(devices, 0);
    char text[PATIENT_TEXT];
    va_list arguments;
    bool unknown = (link == COMPILER && !first) ||
                   (link == KERNEL && !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(first, "features")));
    cJSON *one = cJSON_CreateObject();
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cJSON_AddStringToObject(one, "link", link_names[link]);
    cJSON_AddStringToObject(one, "state", is_broken(of, link) ? "broken" : unknown ? "unknown" : "ok");
    add_private(one, "text", of->place, text);
    cJSON_AddItemToArray(cJSON_GetObjectItem(of->document, "chain"), one);
}

static void add_chain(patient *of)
{
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(of->document, "devices"), *device, *feature;
    const cJSON *loader = cJSON_GetObjectItemCaseSensitive(of->document, "loader");
    const machine *here = &of->machine;
    int driven = 0, nodes = 0, open = 0, compile = 0, right = 0;
    for (size_t index = 0; index < here->gpus; index++) {
        driven += here->gpu[index].driver[0] != '\0';
        nodes += here->gpu[index].node.there;
        open += here->gpu[index].node.may_open;
    }
    cJSON_ArrayForEach(device, devices)
    {
        compile += json_true(device, "has_compiler");
        cJSON_ArrayForEach(feature, cJSON_GetObjectItemCaseSensitive(device, "features"))
        {
            bool kernel = strcmp(json_text(feature, "name"), "kernel") == 0;
            right += kernel && strcmp(json_text(feature, "proof"), "ok") == 0;
        }
    }
    cJSON_AddArrayToObject(of->document, "chain");
    add_link(of, HARDWARE, "%zu GPU%s on the PCI bus%s%s", here->gpus, here->gpus == 1 ? "" : "s",
             here->is_container ? "; in a container" : "", here->is_wsl ? "; in Windows (WSL)" : "");
    add_link(of, KERNEL_DRIVER, "%d of %zu GPUs have one", driven, here->gpus);
    add_link(of, NODE, "%d of %zu GPUs have one", nodes, here->gpus);
    add_link(of, PERMISSION, "%d of %zu GPUs may be opened", open, here->gpus);
    add_link(of, LOADER, "%s", json_text(loader, "library")[0] ? json_text(loader, "library") : "none");
    add_link(of, DRIVER, "%zu in %s", of->icds->count, of->icds->source ? of->icds->source : "no folder");
    add_link(of, PLATFORM, "%d", cJSON_GetArraySize(devices));
    add_link(of, COMPILER, "%d of %d devices have one", compile, cJSON_GetArraySize(devices));
    add_link(of, KERNEL, "%d of %d devices give right numbers", right, cJSON_GetArraySize(devices));
}

/* The GPUs that the machine has, each with the device that it is. */
static void add_gpus(patient *of)
{
    cJSON *list = cJSON_AddArrayToObject(of->document, "gpus");
    for (size_t index = 0; index < of->machine.gpus; index++) {
        const machine_gpu *gpu = &of->machine.gpu[index];
        const cJSON *device = patient_device(of, gpu);
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(device, "index");
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddStringToObject(one, "address", gpu->address);
        cJSON_AddStringToObject(one, "vendor", machine_vendor_name(gpu->vendor));
        cJSON_AddNumberToObject(one, "vendor_id", gpu->vendor_id);
        cJSON_AddNumberToObject(one, "device_id", gpu->device_id);
        cJSON_AddStringToObject(one, "kernel_driver", gpu->driver[0] ? gpu->driver : "none");
        cJSON_AddStringToObject(one, "node", gpu->node.there ? gpu->node.path : "none");
        cJSON_AddBoolToObject(one, "is_device", device != NULL);
        cJSON_AddItemToObject(one, "index", number ? cJSON_Duplicate(number, true) : cJSON_CreateNull());
    }
}

/* Earliest link first, otherwise as they were found. */
static void sort_troubles(patient *of)
{
    cJSON *sorted = cJSON_CreateArray(), *one;
    for (int link = 0; link < LINKS; link++) {
        for (int index = 0; (one = cJSON_GetArrayItem(of->trouble, index));) {
            if (strcmp(json_text(one, "link"), link_names[link]) == 0)
                cJSON_AddItemToArray(sorted, cJSON_DetachItemFromArray(of->trouble, index));
            else
                index++;
        }
    }
    cJSON_ReplaceItemInObjectCaseSensitive(of->document, "trouble", sorted);
    of->trouble = sorted;
}

bool tool_doctor(const tool_place *place, const tool_icds *icds, cJSON *document, tool_error *error)
{
    patient *of = calloc(1, sizeof *of);
    const cJSON *device;
    if (!of)
        return tool_fail(error, "no memory for the doctor");
    of->place = place;
    of->icds = icds;
    of->document = document;
    of->trouble = cJSON_GetObjectItemCaseSensitive(document, "trouble");
    machine_read(place, &of->machine);
    for (size_t index = 0; index < of->machine.gpus; index++)
        look_at_gpu(of, index);
    if (look_at_loader(of)) {
        look_at_drivers(of);
        look_at_unseen(of);
    }
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(document, "devices"))
        look_at_device(of, device);
    sort_troubles(of);
    add_chain(of);
    add_gpus(of);
    free(of);
    return true;
}

void tool_doctor_print(FILE *to, const cJSON *document)
{
    const cJSON *chain = cJSON_GetObjectItemCaseSensitive(document, "chain"), *one;
    const cJSON *trouble = cJSON_GetObjectItemCaseSensitive(document, "trouble");
    cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(document, "gpus"))
    {
        fprintf(to, "%s  %s %04x:%04x, kernel driver %s, node %s, ", json_text(one, "address"),
                json_text(one, "vendor"), (unsigned)json_number(one, "vendor_id"),
                (unsigned)json_number(one, "device_id"), json_text(one, "kernel_driver"),
                json_text(one, "node"));
        if (json_true(one, "is_device"))
            fprintf(to, "device %.0f\n", json_number(one, "index"));
        else
            fprintf(to, "no device\n");
    }
    cJSON_ArrayForEach(one, chain)
    {
        fprintf(to, "%-*s%-10s%s\n", COLUMN, json_text(one, "link"), json_text(one, "state"),
                json_text(one, "text"));
    }
    if (cJSON_GetArraySize(trouble) == 0) {
        fprintf(to, "no trouble found\n");
        return;
    }
    cJSON_ArrayForEach(one, trouble)
    {
        fprintf(to, "\n%s: %s\n    ", json_text(one, "link"), json_text(one, "cause"));
        view_wrapped(to, 4, 4, json_text(one, "text"));
        fprintf(to, "    %s\n", json_text(one, "command"));
    }
}
