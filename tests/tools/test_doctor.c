/* tests/tools/test_doctor.c: each broken link gives its one cause and its one command: on machines that are
 * folders, with what drivers answered written by hand. Run by ctest and tests/run.sh. */
#define _XOPEN_SOURCE 700
#include "support/harness.h"

#include "support/machine.h"

#include "probe/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 512 };

/* ---- What drivers answered ----------------------------------------------------------------------------- */

#define LOADER "\"loader\": { \"library\": \"/usr/lib/libOpenCL.so.1\", \"words\": null }"
#define POCL                                                                                                 \
    "{ \"file\": \"/etc/OpenCL/vendors/pocl.icd\", \"library\": \"libpocl.so.2\", \"end\": \"answered\","    \
    " \"device_count\": 1, \"platforms\": [ { \"name\": \"PoCL\", \"devices\": 1 } ] }"
#define CPU "{ \"index\": 0, \"name\": \"A CPU\", \"type\": \"cpu\", \"has_compiler\": true }"
#define NOTHING "{ " LOADER ", \"icds\": [], \"devices\": [], \"trouble\": [] }"
#define DOCUMENT(icds, devices)                                                                              \
    "{ " LOADER ", \"icds\": [ " icds " ], \"devices\": [ " devices " ], \"trouble\": [] }"
#define ICD(file, library, more)                                                                             \
    "{ \"file\": \"/etc/OpenCL/vendors/" file "\", \"library\": \"" library "\", " more " }"
#define GPU(more) "{ \"index\": 0, \"name\": \"A GPU\", \"type\": \"gpu\", " more " }"

static cJSON *examine(const char *text)
{
    tool_icds icds;
    tool_error error;
    const char *stop;
    cJSON *document = cJSON_ParseWithOpts(text, &stop, true);
    assert_non_null(document);
    assert_true(tool_icds_find(&ct_place, &icds, &error));
    assert_true(tool_doctor(&ct_place, &icds, document, &error));
    tool_icds_free(&icds);
    return document;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    assert_non_null(text);
    return text;
}

static char *printed(const cJSON *document)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    assert_non_null(memory);
    tool_doctor_print(memory, document);
    assert_int_equal(fclose(memory), 0);
    return text;
}

/* Exactly this trouble. It names `part`, its link is the broken one of the chain, and the printed text has
 * cause and command. */
static void finds(const char *document_text, const char *cause, const char *command, const char *part)
{
    cJSON *document = examine(document_text);
    const cJSON *trouble = cJSON_GetObjectItem(document, "trouble"), *one = cJSON_GetArrayItem(trouble, 0),
                *link;
    if (cJSON_GetArraySize(trouble) != 1 || strcmp(text_of(one, "cause"), cause) != 0 ||
        strcmp(text_of(one, "command"), command) != 0 || !strstr(text_of(one, "text"), part))
        fail_msg("not %s, %s, with %s alone: %s", cause, command, part, cJSON_Print(trouble));
    int broken = 0;
    cJSON_ArrayForEach(link, cJSON_GetObjectItem(document, "chain"))
    {
        bool is_broken = strcmp(text_of(link, "state"), "broken") == 0;
        broken += is_broken;
        assert_int_equal(is_broken, strcmp(text_of(link, "link"), text_of(one, "link")) == 0);
    }
    assert_int_equal(broken, 1);
    char *text = printed(document);
    assert_non_null(strstr(text, cause));
    assert_non_null(strstr(text, command));
    free(text);
    cJSON_Delete(document);
}

static void finds_nothing(const char *document_text)
{
    cJSON *document = examine(document_text);
    const cJSON *trouble = cJSON_GetObjectItem(document, "trouble");
    if (cJSON_GetArraySize(trouble) != 0)
        fail_msg("found %s", cJSON_Print(trouble));
    cJSON_Delete(document);
}

/* ---- Healthy ------------------------------------------------------------------------------------------- */

static void a_healthy_machine_has_no_trouble(void **state)
{
    (void)state;
    ct_amd();
    ct_icd("rusticl.icd", "libRusticlOpenCL.so.1\n");
    finds_nothing(
        DOCUMENT(ICD("rusticl.icd", "libRusticlOpenCL.so.1",
                     "\"end\": \"answered\", \"device_count\": 1, \"platforms\": [ { \"name\": \"rusticl\", "
                     "\"devices\": 1 } ]"),
                 GPU("\"vendor_id\": 4098, \"pci_address\": null, \"has_compiler\": true, \"features\": [ "
                     "{ \"name\": \"kernel\", \"proof\": \"ok\" } ]")));
}

static void drivers_of_absent_gpus_are_no_trouble(void **state)
{
    (void)state;
    ct_icd("pocl.icd", "libpocl.so.2\n");
    ct_icd("rusticl.icd", "libRusticlOpenCL.so.1\n");
    finds_nothing(
        DOCUMENT(POCL ", " ICD("rusticl.icd", "libRusticlOpenCL.so.1",
                               "\"end\": \"answered\", \"device_count\": 0, \"platforms\": [ { \"name\": "
                               "\"rusticl\", \"devices\": 0 } ]"),
                 CPU));
}

static void gpus_are_listed_with_the_devices_that_they_are(void **state)
{
    (void)state;
    ct_amd();
    ct_nvidia();
    ct_icd("amd.icd", "libamdocl64.so\n");
    cJSON *document = examine(DOCUMENT(
        ICD("amd.icd", "libamdocl64.so", "\"end\": \"answered\", \"device_count\": 1"),
        "{ \"index\": 2, \"type\": \"gpu\", \"pci_address\": \"0000:03:00.0\", \"has_compiler\": true }"));
    const cJSON *list = cJSON_GetObjectItem(document, "gpus");
    const cJSON *nvidia = cJSON_GetArrayItem(list, 0), *amd = cJSON_GetArrayItem(list, 1);
    assert_int_equal(cJSON_GetArraySize(list), 2);
    assert_string_equal(text_of(nvidia, "address"), "0000:01:00.0");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(nvidia, "is_device")));
    assert_string_equal(text_of(amd, "node"), "/dev/dri/renderD128");
    assert_int_equal(cJSON_GetObjectItem(amd, "index")->valueint, 2);
    char *text = printed(document);
    assert_non_null(strstr(text,
                           "0000:03:00.0  AMD 1002:73bf, kernel driver amdgpu, node /dev/dri/renderD128, "
                           "device 2\n"));
    assert_non_null(strstr(text, "NVIDIA 10de:73bf, kernel driver nvidia, node /dev/nvidiactl, no device\n"));
    free(text);
    cJSON_Delete(document);
}

/* ---- Hardware to permission ---------------------------------------------------------------------------- */

static void a_gpu_without_kernel_driver(void **state)
{
    (void)state;
    ct_gpu("0000:03:00.0", "0x1002\n", NULL, NULL);
    finds(NOTHING, "no-kernel-driver", "sudo modprobe amdgpu", "0000:03:00.0");
}

static void a_gpu_given_to_virtual_machines(void **state)
{
    (void)state;
    ct_gpu("0000:01:00.0", "0x10de\n", "vfio-pci", NULL);
    finds(NOTHING, "given-away", "lspci -k", "vfio-pci");
}

static void a_gpu_without_device_node(void **state)
{
    ct_gpu("0000:00:02.0", "0x8086\n", "i915", NULL);
    finds(NOTHING, "no-device-node", "sudo dmesg | grep -i i915", "/dev/dri/renderD128");
    assert_int_equal(ct_machine_after(state) || ct_machine_before(state), 0);
    ct_gpu("0000:01:00.0", "0x10de\n", "nvidia", NULL);
    finds(NOTHING, "no-device-node", "sudo nvidia-modprobe -u -c 0", "/dev/nvidiactl");
}

static void a_container_without_the_device_node(void **state)
{
    (void)state;
    ct_gpu("0000:03:00.0", "0x1002\n", "amdgpu", NULL);
    ct_file("/.dockerenv", "");
    finds(NOTHING, "container-no-device-node", "docker run --device /dev/kfd --device /dev/dri ...",
          "container");
}

/* The group of the files that the test makes. */
static void group(const char *members)
{
    char line[128];
    snprintf(line, sizeof line, "first:x:65533:\nrender:x:%lu:%s\n", (unsigned long)getegid(), members);
    ct_file("/etc/group", line);
}

static void a_user_who_is_not_in_the_nodes_group(void **state)
{
    (void)state;
    ct_amd();
    group("somebody,else");
    ct_set("USER", "me");
    ct_closed = "renderD128";
    finds(NOTHING, "no-permission", "sudo usermod -aG render $USER", "group render, and you are not in it");
}

static void a_user_who_is_in_the_group_since_the_login(void **state)
{
    (void)state;
    ct_amd();
    group("somebody,me");
    ct_set("USER", "me");
    ct_closed = "renderD128";
    finds(NOTHING, "new-login-needed", "newgrp render", "log in again");
}

static void amds_own_node_counts_too(void **state)
{
    (void)state;
    ct_amd();
    ct_file("/dev/kfd", "");
    group("");
    ct_set("USER", "me");
    ct_closed = "kfd";
    finds(NOTHING, "no-permission", "sudo usermod -aG render $USER", "/dev/kfd");
}

/* ---- Drivers ------------------------------------------------------------------------------------------- */

static void a_gpu_without_opencl_driver(void **state)
{
    static const struct {
        const char *id, *command;
    } known[] = { { "debian", "sudo apt install intel-opencl-icd" },
                  { "fedora", "sudo dnf install intel-compute-runtime" },
                  { "arch", "sudo pacman -S intel-compute-runtime" },
                  { "opensuse-leap", "sudo zypper install intel-opencl" },
                  { "alpine", "sudo apk add mesa-rusticl" },
                  { "haiku", "install Intel's compute runtime with your system's package manager" } };
    (void)state;
    ct_intel();
    ct_icd("pocl.icd", "libpocl.so.2\n");
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        ct_distribution(known[index].id);
        finds(DOCUMENT(POCL, CPU), "no-driver", known[index].command, "0000:00:02.0");
    }
}

static void an_nvidia_container_without_icd_file(void **state)
{
    (void)state;
    ct_nvidia();
    ct_file("/run/.containerenv", "");
    finds(NOTHING, "container-no-driver",
          "mkdir -p /etc/OpenCL/vendors && echo libnvidia-opencl.so.1 > /etc/OpenCL/vendors/nvidia.icd",
          "NVIDIA");
}

static void a_container_without_the_vendors_files(void **state)
{
    (void)state;
    ct_amd();
    ct_distribution("ubuntu");
    ct_file("/.dockerenv", "");
    finds(NOTHING, "container-no-driver", "sudo apt install mesa-opencl-icd", "AMD");
}

static void no_driver_at_all(void **state)
{
    (void)state;
    ct_distribution("fedora");
    finds(NOTHING, "no-driver", "sudo dnf install pocl", "no OpenCL driver is installed");
}

static void linux_inside_windows(void **state)
{
    (void)state;
    ct_file("/proc/sys/kernel/osrelease", "5.15.90.1-Microsoft-standard-WSL2\n");
    ct_file("/dev/dxg", "");
    finds(NOTHING, "wsl", "sudo apt install intel-opencl-icd", "Windows");
}

static void a_variable_that_names_nothing(void **state)
{
    (void)state;
    ct_set("OCL_ICD_VENDORS", "/somewhere/else");
    finds(NOTHING, "variable-points-nowhere", "unset OCL_ICD_VENDORS", "/somewhere/else");
    ct_unset_all();
    ct_set("OCL_ICD_VENDORS", "/somewhere/x.icd");
    finds(NOTHING, "variable-points-nowhere", "unset OCL_ICD_VENDORS", "/somewhere/x.icd");
    ct_unset_all();
    ct_set("OPENCL_VENDOR_PATH", "/elsewhere");
    finds(NOTHING, "variable-points-nowhere", "unset OPENCL_VENDOR_PATH", "/elsewhere");
}

static void a_variable_that_names_a_library_which_is_missing(void **state)
{
    static const char missing[] =
        DOCUMENT("{ \"file\": null, \"library\": \"/opt/libx.so\", \"end\": \"answered\", \"load_error\": "
                 "\"/opt/libx.so: cannot open shared object file\" }",
                 "");
    (void)state;
    ct_icd("pocl.icd", "libpocl.so.2\n");
    ct_set("OCL_ICD_FILENAMES", "/opt/libx.so");
    finds(missing, "variable-points-nowhere", "unset OCL_ICD_FILENAMES", "/opt/libx.so");
    ct_unset_all();
    ct_set("OCL_ICD_VENDORS", "libx.so");
    finds(missing, "variable-points-nowhere", "unset OCL_ICD_VENDORS", "/opt/libx.so");
}

static void an_icd_file_that_names_nothing(void **state)
{
    static const char *const texts[] = { "", "  \n", "\177ELF\001\002", "\xff\xfe\n" };
    char command[PATH];
    (void)state;
    snprintf(command, sizeof command, "sudo rm %s/etc/OpenCL/vendors/a.icd", ct_root);
    for (size_t index = 0; index < sizeof texts / sizeof texts[0]; index++) {
        ct_icd("a.icd", texts[index]);
        finds(DOCUMENT(ICD("a.icd", "", "\"end\": \"not run\""), ""), "icd-names-nothing", command,
              "should name a library");
    }
}

static void an_icd_file_that_is_a_link_to_nothing(void **state)
{
    char path[PATH], command[PATH];
    (void)state;
    ct_icd("b", "");
    snprintf(path, sizeof path, "%s/etc/OpenCL/vendors/a.icd", ct_root);
    assert_int_equal(symlink("gone", path), 0);
    snprintf(command, sizeof command, "ls -lL %s", path);
    finds(DOCUMENT(ICD("a.icd", "", "\"end\": \"not run\""), ""), "icd-unreadable", command,
          "cannot be read");
}

static void a_library_that_is_missing(void **state)
{
    (void)state;
    ct_icd("x.icd", "libx.so.1\n");
    finds(
        DOCUMENT(
            ICD("x.icd", "libx.so.1",
                "\"end\": \"answered\", \"load_error\": \"libx.so.1: cannot open shared object file: No such "
                "file or directory\""),
            ""),
        "icd-library-missing", "sudo rm /etc/OpenCL/vendors/x.icd",
        "libx.so.1: cannot open shared object file");
    ct_distribution("debian");
    finds(DOCUMENT(
              ICD("x.icd", "libigdrcl.so",
                  "\"end\": \"answered\", \"load_error\": \"libigdrcl.so: cannot open shared object file\""),
              ""),
          "icd-library-missing", "sudo apt install intel-opencl-icd", "libigdrcl.so");
}

static void a_library_that_does_not_load(void **state)
{
    (void)state;
    ct_icd("x.icd", "/opt/libx.so.1\n");
    finds(
        DOCUMENT(
            ICD("x.icd", "/opt/libx.so.1",
                "\"end\": \"answered\", \"load_error\": \"libLLVM-15.so.1: cannot open shared object file\""),
            ""),
        "icd-library-does-not-load", "ldd /opt/libx.so.1 | grep 'not found'", "libLLVM-15.so.1");
}

static void no_loader(void **state)
{
    (void)state;
    ct_distribution("arch");
    ct_icd("x.icd", "libx.so.1\n");
    finds("{ \"loader\": { \"library\": null, \"words\": \"exit code 127; its last words: libOpenCL.so.1: "
          "cannot open "
          "shared object file\" }, \"icds\": [ { \"file\": \"x.icd\", \"end\": \"exited\" } ], \"devices\": "
          "[], "
          "\"trouble\": [] }",
          "no-loader", "sudo pacman -S ocl-icd", "libOpenCL.so.1: cannot open shared object file");
}

static void a_second_loader_in_front(void **state)
{
    static const struct {
        const char *library, *command;
    } known[] = { { "/opt/miniconda3/lib/libOpenCL.so.1", "conda install -c conda-forge ocl-icd-system" },
                  { "/opt/intel/oneapi/lib/libOpenCL.so.1", "env -u LD_LIBRARY_PATH clattn probe" },
                  { "/usr/local/cuda-12/lib64/libOpenCL.so.1", "env -u LD_LIBRARY_PATH clattn probe" } };
    (void)state;
    ct_icd("pocl.icd", "libpocl.so.2\n");
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "{ \"loader\": { \"library\": \"%s\", \"words\": null }, \"icds\": [ " POCL
                 " ], \"devices\": [ " CPU " ], \"trouble\": [] }",
                 known[index].library);
        finds(text, "second-loader", known[index].command, known[index].library);
    }
}

static void a_driver_that_ends_badly(void **state)
{
    static const struct {
        const char *end, *cause;
    } known[] = { { "crashed", "driver-crashes" },
                  { "timed out", "driver-hangs" },
                  { "exited", "driver-exits" },
                  { "rubbish", "driver-answers-rubbish" },
                  { "out of memory", "driver-takes-memory" } };
    (void)state;
    ct_icd("pocl.icd", "libpocl.so.2\n");
    ct_icd("x.icd", "libx.so.1\n");
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        char text[2048];
        snprintf(
            text, sizeof text,
            DOCUMENT(POCL ", " ICD("x.icd", "libx.so.1", "\"end\": \"%s\", \"words\": \"such words\""), CPU),
            known[index].end);
        finds(text, known[index].cause, "export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd", "such words");
        snprintf(text, sizeof text,
                 DOCUMENT(ICD("x.icd", "libx.so.1", "\"end\": \"%s\", \"words\": \"w\""), ""),
                 known[index].end);
        finds(text, known[index].cause, "sudo mv /etc/OpenCL/vendors/x.icd /etc/OpenCL/vendors/x.icd.off",
              "w");
    }
}

static void a_driver_that_needs_longer(void **state)
{
    (void)state;
    ct_icd("x.icd", "libx.so.1\n");
    finds(DOCUMENT(ICD("x.icd", "libx.so.1",
                       "\"end\": \"timed out\", \"words\": \"no answer within 20 s\", \"device_count\": 1"),
                   CPU),
          "driver-is-slow", "clattn probe --timeout 200", "no answer within 20 s");
}

/* ---- Platforms and devices ----------------------------------------------------------------------------- */

static const char rusticl_without_device[] =
    DOCUMENT(ICD("rusticl.icd", "libRusticlOpenCL.so.1",
                 "\"end\": \"answered\", \"device_count\": 0, \"platforms\": [ { \"name\": \"rusticl\", "
                 "\"devices\": 0 } ]"),
             "");

static void rusticl_without_its_variable(void **state)
{
    (void)state;
    ct_icd("rusticl.icd", "libRusticlOpenCL.so.1\n");
    finds(rusticl_without_device, "rusticl-off", "export RUSTICL_ENABLE=llvmpipe", "RUSTICL_ENABLE");
    ct_amd();
    finds(rusticl_without_device, "rusticl-off", "export RUSTICL_ENABLE=radeonsi", "RUSTICL_ENABLE");
}

static void a_platform_without_device(void **state)
{
    (void)state;
    ct_icd("rusticl.icd", "libRusticlOpenCL.so.1\n");
    ct_set("RUSTICL_ENABLE", "radeonsi");
    finds(rusticl_without_device, "platform-without-device", "lspci -nn | grep -iE 'vga|3d|display'",
          "rusticl");
    ct_amd();
    finds(rusticl_without_device, "platform-without-device", "sudo dmesg | grep -iE 'drm|gpu'",
          "0000:03:00.0");
}

static void a_cause_is_told_once_however_much_follows(void **state)
{
    (void)state;
    ct_amd();
    ct_icd("rusticl.icd", "libRusticlOpenCL.so.1\n");
    ct_set("RUSTICL_ENABLE", "radeonsi");
    group("");
    ct_set("USER", "me");
    ct_closed = "renderD128";
    finds(rusticl_without_device, "no-permission", "sudo usermod -aG render $USER", "/dev/dri/renderD128");
}

static void a_gpu_that_no_device_is(void **state)
{
    (void)state;
    ct_amd();
    ct_gpu("0000:04:00.0", "0x1002\n", "amdgpu", "/dev/dri/renderD129");
    ct_distribution("debian");
    ct_icd("amd.icd", "libamdocl64.so\n");
    finds(DOCUMENT(ICD("amd.icd", "libamdocl64.so",
                       "\"end\": \"answered\", \"device_count\": 1, \"platforms\": [ { \"name\": \"AMD\", "
                       "\"devices\": "
                       "1 } ]"),
                   GPU("\"vendor_id\": 4098, \"pci_address\": \"0000:03:00.0\", \"has_compiler\": true")),
          "gpu-unseen", "sudo apt install mesa-opencl-icd", "0000:04:00.0");
}

static void a_driver_with_too_many_devices(void **state)
{
    (void)state;
    ct_icd("x.icd", "libx.so.1\n");
    finds(DOCUMENT(ICD("x.icd", "libx.so.1", "\"end\": \"answered\", \"device_count\": 10000"), CPU),
          "too-many-devices", "sudo mv /etc/OpenCL/vendors/x.icd /etc/OpenCL/vendors/x.icd.off", "10000");
}

static void a_device_of(const char *more, const char *cause, const char *command, const char *part)
{
    char text[2048];
    ct_icd("pocl.icd", "libpocl.so.2\n");
    snprintf(text, sizeof text,
             DOCUMENT(POCL, "{ \"index\": 0, \"name\": \"A CPU\", \"type\": \"cpu\", %s }"), more);
    finds(text, cause, command, part);
}

static void a_device_without_compiler(void **state)
{
    (void)state;
    a_device_of("\"has_compiler\": false", "no-compiler", "clattn probe --device cpu",
                "A CPU cannot compile");
}

static void a_driver_known_to_be_bad(void **state)
{
    (void)state;
    a_device_of("\"has_compiler\": true, \"known_bad\": \"it is\"", "known-bad",
                "export CLATTN_USE_KNOWN_BAD=1", "it is");
}

static void a_kernel_that_does_not_build_or_run_or_is_wrong(void **state)
{
    static const struct {
        const char *proof, *cause, *command;
    } known[] = { { "fails to build", "kernel-does-not-build",
                    "CLATTN_VERBOSE=1 clattn bench --device 0 --shape \"lq=8 d=16\"" },
                  { "wrong", "kernel-gives-wrong-numbers", "clattn probe --report report.txt" },
                  { "fails", "kernel-fails", "sudo dmesg | tail" } };
    (void)state;
    for (size_t index = 0; index < sizeof known / sizeof known[0]; index++) {
        char more[256];
        snprintf(
            more, sizeof more,
            "\"has_compiler\": true, \"features\": [ { \"name\": \"kernel\", \"proof\": \"%s\", \"detail\": "
            "\"item 5\" } ]",
            known[index].proof);
        a_device_of(more, known[index].cause, known[index].command, "item 5");
    }
}

static void the_home_folder_is_not_told(void **state)
{
    (void)state;
    ct_set("HOME", "/home/me");
    ct_set("OCL_ICD_VENDORS", "/home/me/vendors");
    finds(NOTHING, "variable-points-nowhere", "unset OCL_ICD_VENDORS", "~/vendors, which");
}

static void all_zero_bytes_of_documents_are_survived(void **state)
{
    (void)state;
    ct_icd("pocl.icd", "libpocl.so.2\n");
    cJSON_Delete(examine("{ \"trouble\": [] }"));
    cJSON_Delete(
        examine("{ \"loader\": 3, \"icds\": [ 1, null, {} ], \"devices\": [ \"x\", {} ], \"trouble\": [] }"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ct_machine_before, ct_machine_after)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_healthy_machine_has_no_trouble),
        TEST(drivers_of_absent_gpus_are_no_trouble),
        TEST(gpus_are_listed_with_the_devices_that_they_are),
        TEST(a_gpu_without_kernel_driver),
        TEST(a_gpu_given_to_virtual_machines),
        TEST(a_gpu_without_device_node),
        TEST(a_container_without_the_device_node),
        TEST(a_user_who_is_not_in_the_nodes_group),
        TEST(a_user_who_is_in_the_group_since_the_login),
        TEST(amds_own_node_counts_too),
        TEST(a_gpu_without_opencl_driver),
        TEST(an_nvidia_container_without_icd_file),
        TEST(a_container_without_the_vendors_files),
        TEST(no_driver_at_all),
        TEST(linux_inside_windows),
        TEST(a_variable_that_names_nothing),
        TEST(a_variable_that_names_a_library_which_is_missing),
        TEST(an_icd_file_that_names_nothing),
        TEST(an_icd_file_that_is_a_link_to_nothing),
        TEST(a_library_that_is_missing),
        TEST(a_library_that_does_not_load),
        TEST(no_loader),
        TEST(a_second_loader_in_front),
        TEST(a_driver_that_ends_badly),
        TEST(a_driver_that_needs_longer),
        TEST(rusticl_without_its_variable),
        TEST(a_platform_without_device),
        TEST(a_cause_is_told_once_however_much_follows),
        TEST(a_gpu_that_no_device_is),
        TEST(a_driver_with_too_many_devices),
        TEST(a_device_without_compiler),
        TEST(a_driver_known_to_be_bad),
        TEST(a_kernel_that_does_not_build_or_run_or_is_wrong),
        TEST(the_home_folder_is_not_told),
        TEST(all_zero_bytes_of_documents_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
