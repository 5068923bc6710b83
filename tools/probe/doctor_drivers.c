/* tools/probe/doctor_drivers.c: the rules about the loader, the drivers, their platforms and devices. Called
 * by doctor.c. */
#include "probe/patient.h"

#include <stdio.h>
#include <string.h>

/* ---- The loader ---------------------------------------------------------------------------------------- */

bool look_at_loader(patient *of)
{
    static const char *const foreign[][2] = { { "conda", "conda install -c conda-forge ocl-icd-system" },
                                              { "miniforge", "conda install -c conda-forge ocl-icd-system" },
                                              { "oneapi", "env -u LD_LIBRARY_PATH clattn probe" },
                                              { "cuda", "env -u LD_LIBRARY_PATH clattn probe" } };
    const cJSON *loader = cJSON_GetObjectItemCaseSensitive(of->document, "loader");
    const char *library = json_text(loader, "library"), *words = json_text(loader, "words");
    char command[PATIENT_TEXT];
    if (patient_has(words, "libOpenCL")) {
        patient_install(&of->machine, PACKAGE_LOADER, command);
        patient_add(of, NO_LOADER, "libOpenCL.so.1", command, "no OpenCL loader: %s", words);
        return false;
    }
    for (size_t index = 0; index < sizeof foreign / sizeof foreign[0]; index++) {
        if (patient_has(library, foreign[index][0])) {
            patient_add(of, SECOND_LOADER, library, foreign[index][1],
                        "the loader in front is %s, not the system's; it may look for drivers elsewhere",
                        library);
            break;
        }
    }
    return true;
}

/* ---- Drivers ------------------------------------------------------------------------------------------- */

static void look_at_place(patient *of)
{
    char command[PATIENT_TEXT];
    const tool_icds *icds = of->icds;
    if (icds->missing && icds->variable) {
        snprintf(command, sizeof command, "unset %s", icds->variable);
        patient_add(of, VARIABLE_NOWHERE, icds->variable, command, "%s names %s, which is not there",
                    icds->variable, icds->source);
    } else if (icds->count == 0 && cJSON_GetArraySize(cJSON_GetObjectItem(of->document, "devices")) == 0) {
        for (size_t index = 0; index < of->machine.gpus; index++) {
            if (of->machine.gpu[index].vendor != VENDOR_OTHER)
                return; /* the GPU's own trouble says it */
        }
        if (of->machine.is_wsl && of->machine.has_dxg) {
            patient_add(of, WSL, "/dev/dxg", "sudo apt install intel-opencl-icd",
                        "Linux runs inside Windows: of GPU makers, Intel has an OpenCL driver for /dev/dxg");
            return;
        }
        patient_install(&of->machine, PACKAGE_CPU, command);
        patient_add(of, NO_DRIVER, icds->source, command,
                    "no OpenCL driver is installed: there is no .icd file in %s", icds->source);
    }
}

/* The first driver that answered, so that a command can leave the broken one out. */
static const char *healthy_file(const patient *of)
{
    const cJSON *icd;
    cJSON_ArrayForEach(icd, cJSON_GetObjectItemCaseSensitive(of->document, "icds"))
    {
        if (strcmp(json_text(icd, "end"), "answered") == 0 && json_number(icd, "device_count") > 0 &&
            json_text(icd, "file")[0])
            return json_text(icd, "file");
    }
    return NULL;
}

static void look_at_file(patient *of, const tool_icd *icd)
{
    char command[PATIENT_TEXT];
    snprintf(command, sizeof command, "sudo rm %s", icd->file ? icd->file : "");
    if (icd->state == ICD_UNREADABLE) {
        snprintf(command, sizeof command, "ls -lL %s", icd->file);
        patient_add(of, ICD_UNREAD, icd->file, command, "%s cannot be read", icd->file);
    } else if (icd->state == ICD_NO_NAME) {
        patient_add(of, ICD_NAMELESS, icd->file, command, "%s should name a library, and does not",
                    icd->file);
    }
}

/* Whether the words of the system's loader are about the library itself, or one that it needs. */
static void look_at_load_error(patient *of, const char *about, const cJSON *icd)
{
    const char *words = json_text(icd, "load_error"), *library = json_text(icd, "library");
    char command[PATIENT_TEXT];
    if (!words[0])
        return;
    if (!json_text(icd, "file")[0]) {
        const char *variable =
            of->icds->variable && of->icds->count == 1 ? of->icds->variable : "OCL_ICD_FILENAMES";
        snprintf(command, sizeof command, "unset %s", variable);
        patient_add(of, VARIABLE_NOWHERE, variable, command, "%s names %s, which does not load: %s", variable,
                    library, words);
        return;
    }
    if (strncmp(words, library, strlen(library)) == 0 && patient_has(words, "cannot open")) {
        snprintf(command, sizeof command, "sudo rm %s", about);
        if (patient_has(library, "pocl"))
            patient_install(&of->machine, PACKAGE_CPU, command);
        for (int vendor = VENDOR_AMD; vendor < VENDOR_OTHER; vendor++) {
            if (patient_is_for(library, (machine_vendor)vendor) &&
                !patient_is_for(library, (machine_vendor)(vendor ? 0 : 1)))
                patient_install(&of->machine, patient_package((machine_vendor)vendor), command);
        }
        patient_add(of, ICD_NO_LIBRARY, about, command, "%s names %s, which is not there (%s)", about,
                    library, words);
        return;
    }
    snprintf(command, sizeof command,
             "ldd $(ldconfig -p | awk '$1 == \"%s\" { print $NF; exit }') | grep 'not found'", library);
    if (library[0] == '/')
        snprintf(command, sizeof command, "ldd %s | grep 'not found'", library);
    patient_add(of, ICD_NO_DEPENDENCY, about, command, "the library %s of %s does not load: %s", library,
                about, words);
}

static void look_at_end(patient *of, const char *about, const cJSON *icd)
{
    static const struct {
        const char *end;
        cause why;
        const char *what;
    } ends[] = { { "crashed", ICD_CRASHES, "crashes" },
                 { "timed out", ICD_HANGS, "does not answer" },
                 { "exited", ICD_EXITS, "ends the program that loads it" },
                 { "rubbish", ICD_ANSWERS_RUBBISH, "answers nonsense" },
                 { "out of memory", ICD_TAKES_MEMORY, "takes memory without end" } };
    const char *end = json_text(icd, "end"), *healthy = healthy_file(of);
    char command[PATIENT_TEXT];
    snprintf(command, sizeof command, "sudo mv %s %s.off", about, about);
    if (healthy)
        snprintf(command, sizeof command, "export OCL_ICD_VENDORS=%s", healthy);
    if (strcmp(end, "timed out") == 0 && json_number(icd, "device_count") > 0) {
        patient_add(of, ICD_SLOW, about, "clattn probe --timeout 200",
                    "the driver of %s is slower than the time it had for all that was asked: %s", about,
                    json_text(icd, "words"));
        return;
    }
    for (size_t index = 0; index < sizeof ends / sizeof ends[0]; index++) {
        if (strcmp(end, ends[index].end) == 0)
            patient_add(of, ends[index].why, about, command, "the driver of %s %s: %s", about,
                        ends[index].what, json_text(icd, "words"));
    }
}

/* ---- Platforms and devices ----------------------------------------------------------------------------- */

/* Whether a GPU's own trouble says why this library's platform has no device. */
static bool is_explained(const patient *of, const char *library)
{
    bool explained = false;
    for (size_t index = 0; index < of->machine.gpus; index++)
        explained |= of->explained[index] && patient_is_for(library, of->machine.gpu[index].vendor) &&
                     !patient_device(of, &of->machine.gpu[index]);
    return explained;
}

/* The first GPU that this library could drive, or NULL. */
static machine_gpu *gpu_for(patient *of, const char *library)
{
    for (size_t index = 0; index < of->machine.gpus; index++) {
        if (patient_is_for(library, of->machine.gpu[index].vendor) &&
            !patient_device(of, &of->machine.gpu[index])) {
            of->explained[index] = true;
            return &of->machine.gpu[index];
        }
    }
    return NULL;
}

static void look_at_platform(patient *of, const char *about, const cJSON *icd, const cJSON *platform)
{
    static const char *const gallium[] = {
        [VENDOR_AMD] = "radeonsi", [VENDOR_INTEL] = "iris", [VENDOR_NVIDIA] = "nouveau"
    };
    const char *name = json_text(platform, "name"), *library = json_text(icd, "library");
    char command[PATIENT_TEXT];
    if (json_number(platform, "devices") > 0 || is_explained(of, library))
        return;
    const machine_gpu *gpu = gpu_for(of, library);
    if (!gpu && cJSON_GetArraySize(cJSON_GetObjectItem(of->document, "devices")) > 0)
        return; /* a driver for GPUs that this machine does not have */
    if (patient_has(name, "rusticl") && !of->place->variable("RUSTICL_ENABLE")) {
        snprintf(command, sizeof command, "export RUSTICL_ENABLE=%s",
                 gpu ? gallium[gpu->vendor] : "llvmpipe");
        patient_add(of, RUSTICL_OFF, about, command,
                    "rusticl shows no device unless RUSTICL_ENABLE names its drivers");
        return;
    }
    if (gpu)
        patient_add(
            of, NO_DEVICE, about, "sudo dmesg | grep -iE 'drm|gpu'",
            "%s has no device, not even the %s GPU at %s: the driver may be too old or too new for it", name,
            machine_vendor_name(gpu->vendor), gpu->address);
    else
        patient_add(of, NO_DEVICE, about, "lspci -nn | grep -iE 'vga|3d|display'",
                    "%s has no device: the machine has none that it drives", name);
}

static void look_at_icds(patient *of)
{
    const cJSON *icds = cJSON_GetObjectItemCaseSensitive(of->document, "icds"), *icd, *platform;
    size_t index = 0;
    cJSON_ArrayForEach(icd, icds)
    {
        const char *file = json_text(icd, "file"), *about = file[0] ? file : json_text(icd, "library");
        char command[PATIENT_TEXT];
        if (index < of->icds->count && of->icds->icd[index].file)
            look_at_file(of, &of->icds->icd[index]);
        index++;
        look_at_load_error(of, about, icd);
        look_at_end(of, about, icd);
        cJSON_ArrayForEach(platform, cJSON_GetObjectItemCaseSensitive(icd, "platforms"))
            look_at_platform(of, about, icd, platform);
        double shown = 64, there = json_number(icd, "device_count");
        snprintf(command, sizeof command, "sudo mv %s %s.off", about, about);
        if (there > shown)
            patient_add(of, TOO_MANY, about, command,
                        "the driver of %s lists %.0f devices; the first %.0f are shown", about, there, shown);
    }
}

void look_at_drivers(patient *of)
{
    look_at_place(of);
    look_at_icds(of);
}

void look_at_device(patient *of, const cJSON *device)
{
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(device, "index"), *feature;
    const char *name = json_text(device, "name");
    char command[PATIENT_TEXT];
    if (json_text(device, "known_bad")[0])
        patient_add(of, KNOWN_BAD, name, "export CLATTN_USE_KNOWN_BAD=1", "%s is taken last: %s", name,
                    json_text(device, "known_bad"));
    if (!json_true(device, "has_compiler")) {
        patient_add(of, NO_COMPILER, name, "clattn probe --device cpu",
                    "%s cannot compile OpenCL C: take another device", name);
        return;
    }
    cJSON_ArrayForEach(feature, cJSON_GetObjectItemCaseSensitive(device, "features"))
    {
        const char *proof = json_text(feature, "proof"), *detail = json_text(feature, "detail");
        if (strcmp(json_text(feature, "name"), "kernel") != 0)
            continue;
        snprintf(command, sizeof command, "CLATTN_VERBOSE=1 clattn bench --device %.0f --shape \"lq=8 d=16\"",
                 cJSON_IsNumber(index) ? index->valuedouble : 0);
        if (strcmp(proof, "fails to build") == 0)
            patient_add(of, KERNEL_NO_BUILD, name, command, "the simplest kernel does not build on %s: %s",
                        name, detail);
        else if (strcmp(proof, "wrong") == 0)
            patient_add(of, KERNEL_WRONG, name, "clattn probe --report report.txt",
                        "the simplest kernel gives wrong numbers on %s: %s", name, detail);
        else if (strcmp(proof, "fails") == 0)
            patient_add(of, KERNEL_FAILS, name, "sudo dmesg | tail",
                        "the simplest kernel does not run on %s: %s", name, detail);
    }
}
