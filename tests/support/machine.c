/* tests/support/machine.c: makes the folder. Called by tests/tools/test_doctor.c. */
#define _XOPEN_SOURCE 700
#include "support/harness.h"

#include "support/machine.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 512, VARIABLES = 8 };

char ct_root[] = "doctor-XXXXXX";
static struct {
    const char *name, *value;
} variables[VARIABLES];
const char *ct_closed;

static const char *variable(const char *name)
{
    for (int index = 0; index < VARIABLES; index++) {
        if (variables[index].name && strcmp(variables[index].name, name) == 0)
            return variables[index].value;
    }
    return NULL;
}

void ct_set(const char *name, const char *value)
{
    int index = 0;
    while (variables[index].name)
        index++;
    variables[index].name = name;
    variables[index].value = value;
}

void ct_unset_all(void)
{
    memset(variables, 0, sizeof variables);
}

static bool may_open(const char *path)
{
    return !ct_closed || !strstr(path, ct_closed);
}

const tool_place ct_place = { ct_root, variable, may_open };

static void make_folders(char *path)
{
    for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
}

void ct_file(const char *name, const char *text)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s%s", ct_root, name);
    make_folders(path);
    FILE *made = fopen(path, "w");
    assert_non_null(made);
    fputs(text, made);
    assert_int_equal(fclose(made), 0);
}

void ct_gpu(const char *address, const char *vendor, const char *driver, const char *node)
{
    char path[PATH], target[PATH];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
    ct_file(path, "0x030000\n");
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
    ct_file(path, vendor);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/device", address);
    ct_file(path, "0x73bf\n");
    if (driver) {
        snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/driver", ct_root, address);
        snprintf(target, sizeof target, "../../../bus/pci/drivers/%s", driver);
        assert_int_equal(symlink(target, path), 0);
    }
    if (node)
        ct_file(node, "");
}

void ct_amd(void)
{
    ct_gpu("0000:03:00.0", "0x1002\n", "amdgpu", "/dev/dri/renderD128");
    ct_file("/sys/bus/pci/devices/0000:03:00.0/drm/renderD128/dev", "226:128\n");
}

void ct_intel(void)
{
    ct_gpu("0000:00:02.0", "0x8086\n", "i915", "/dev/dri/renderD128");
}

void ct_nvidia(void)
{
    ct_gpu("0000:01:00.0", "0x10de\n", "nvidia", "/dev/nvidiactl");
}

void ct_distribution(const char *id)
{
    char text[64];
    snprintf(text, sizeof text, "NAME=\"Some\"\nID=%s\n", id);
    ct_file("/etc/os-release", text);
}

void ct_icd(const char *name, const char *library)
{
    char path[PATH];
    snprintf(path, sizeof path, "/etc/OpenCL/vendors/%s", name);
    ct_file(path, library);
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts, (void)kind, (void)where;
    return remove(path);
}

int ct_machine_before(void **state)
{
    (void)state;
    snprintf(ct_root, sizeof ct_root, "doctor-XXXXXX");
    ct_unset_all();
    ct_closed = NULL;
    return mkdtemp(ct_root) ? 0 : -1;
}

int ct_machine_after(void **state)
{
    (void)state;
    return nftw(ct_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
