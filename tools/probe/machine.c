/* tools/probe/machine.c: reads /sys, /dev, /etc and /proc under a root. Called by doctor.c. */
#include "probe/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 512, LINE = 512 };

static const struct {
    unsigned id;
    const char *name;
} vendors[] = { [VENDOR_AMD] = { 0x1002, "AMD" },
                [VENDOR_INTEL] = { 0x8086, "Intel" },
                [VENDOR_NVIDIA] = { 0x10de, "NVIDIA" },
                [VENDOR_OTHER] = { 0, "other" } };

const char *machine_vendor_name(machine_vendor vendor)
{
    return vendors[vendor].name;
}

machine_vendor machine_vendor_of(unsigned vendor_id)
{
    int vendor = VENDOR_AMD;
    while (vendor < VENDOR_OTHER && vendors[vendor].id != vendor_id)
        vendor++;
    return (machine_vendor)vendor;
}

/* First line of root/path without its end; "" when there is none. */
static const char *first_line(const tool_place *place, const char *path, char line[LINE])
{
    char whole[PATH];
    snprintf(whole, sizeof whole, "%s%s", place->root, path);
    FILE *file = fopen(whole, "r");
    line[0] = '\0';
    if (file) {
        if (!fgets(line, LINE, file))
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static bool exists(const tool_place *place, const char *path)
{
    char whole[PATH];
    struct stat facts;
    snprintf(whole, sizeof whole, "%s%s", place->root, path);
    return stat(whole, &facts) == 0;
}

/* ---- Who may open a node ------------------------------------------------------------------------------- */

/* The line of /etc/group for this number: its name, and whether the user is among its members. */
static void find_group(const tool_place *place, unsigned long number, machine_node *node)
{
    char path[PATH], line[4096];
    const char *user = place->variable("USER");
    snprintf(node->group, sizeof node->group, "%lu", number);
    snprintf(path, sizeof path, "%s/etc/group", place->root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *password = strchr(line, ':'), *id = password ? strchr(password + 1, ':') : NULL;
        char *members = id ? strchr(id + 1, ':') : NULL;
        if (!members || strtoul(id + 1, NULL, 10) != number)
            continue;
        *password = '\0';
        snprintf(node->group, sizeof node->group, "%s", line);
        for (char *member = strtok(members + 1, ","); member; member = strtok(NULL, ","))
            node->user_in_group |= user && strcmp(member, user) == 0;
        break;
    }
    if (file)
        fclose(file);
}

static void read_node(const tool_place *place, const char *path, machine_node *node)
{
    char whole[PATH];
    struct stat facts;
    *node = (machine_node){ .there = false };
    snprintf(node->path, sizeof node->path, "%s", path);
    snprintf(whole, sizeof whole, "%s%s", place->root, path);
    node->there = stat(whole, &facts) == 0;
    if (!node->there)
        return;
    node->may_open = place->may_open(whole);
    find_group(place, (unsigned long)facts.st_gid, node);
}

/* ---- GPUs ---------------------------------------------------------------------------------------------- */

static unsigned read_hex(const tool_place *place, const char *address, const char *name)
{
    char path[PATH], line[LINE];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", address, name);
    return (unsigned)strtoul(first_line(place, path, line), NULL, 16);
}

/* The name of what a link below the GPU's folder points to. */
static void read_link(const tool_place *place, const char *address, const char *name, char text[MACHINE_TEXT])
{
    char path[PATH], target[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", place->root, address, name);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    const char *end = strrchr(target, '/');
    snprintf(text, MACHINE_TEXT, "%s", end ? end + 1 : target);
}

/* "/dev/dri/renderD128" of a GPU, from the name below its folder drm; the first there could be when the
 * kernel names none. */
static void find_render_node(const tool_place *place, const char *address, char node[MACHINE_TEXT])
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/drm", place->root, address);
    DIR *folder = opendir(path);
    snprintf(node, MACHINE_TEXT, "/dev/dri/renderD128");
    for (struct dirent *file; folder && (file = readdir(folder));) {
        if (strncmp(file->d_name, "renderD", 7) == 0)
            snprintf(node, MACHINE_TEXT, "/dev/dri/%s", file->d_name);
    }
    if (folder)
        closedir(folder);
}

/* The node that OpenCL opens. AMD's own runtime also needs /dev/kfd; where that is there, it is what counts,
 * as both have the same group. */
static void find_node(const tool_place *place, machine_gpu *gpu)
{
    char render[MACHINE_TEXT];
    find_render_node(place, gpu->address, render);
    if (gpu->vendor == VENDOR_NVIDIA && strcmp(gpu->driver, "nouveau") != 0) {
        read_node(place, "/dev/nvidiactl", &gpu->node);
        return;
    }
    read_node(place, render, &gpu->node);
    if (gpu->vendor == VENDOR_AMD && gpu->node.may_open && exists(place, "/dev/kfd"))
        read_node(place, "/dev/kfd", &gpu->node);
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const machine_gpu *)a)->address, ((const machine_gpu *)b)->address);
}

static void read_gpus(const tool_place *place, machine *made)
{
    enum { DISPLAY = 0x03 };
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", place->root);
    DIR *folder = opendir(path);
    for (struct dirent *file; folder && made->gpus < MACHINE_GPUS && (file = readdir(folder));) {
        machine_gpu *gpu = &made->gpu[made->gpus];
        if (file->d_name[0] == '.' || strlen(file->d_name) >= MACHINE_TEXT ||
            read_hex(place, file->d_name, "class") >> 16 != DISPLAY)
            continue;
        snprintf(gpu->address, sizeof gpu->address, "%s", file->d_name);
        gpu->vendor_id = read_hex(place, gpu->address, "vendor");
        gpu->device_id = read_hex(place, gpu->address, "device");
        gpu->vendor = machine_vendor_of(gpu->vendor_id);
        read_link(place, gpu->address, "driver", gpu->driver);
        find_node(place, gpu);
        made->gpus++;
    }
    if (folder)
        closedir(folder);
    if (made->gpus)
        qsort(made->gpu, made->gpus, sizeof made->gpu[0], by_address);
}

/* ---- The system ---------------------------------------------------------------------------------------- */

/* The family of distributions, by ID and ID_LIKE of os-release. */
static void read_distribution(const tool_place *place, machine *made)
{
    static const struct {
        const char *word, *family;
    } known[] = { { "debian", "debian" }, { "ubuntu", "debian" }, { "fedora", "fedora" },
                  { "rhel", "fedora" },   { "arch", "arch" },     { "alpine", "alpine" },
                  { "suse", "suse" } };
    char path[PATH], line[LINE];
    snprintf(path, sizeof path, "%s/etc/os-release", place->root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "ID=", 3) != 0 && strncmp(line, "ID_LIKE=", 8) != 0)
            continue;
        for (size_t index = 0; !made->distribution[0] && index < sizeof known / sizeof known[0]; index++) {
            if (strstr(line, known[index].word))
                snprintf(made->distribution, sizeof made->distribution, "%s", known[index].family);
        }
    }
    if (file)
        fclose(file);
}

void machine_read(const tool_place *place, machine *made)
{
    char line[LINE];
    *made = (machine){ .gpus = 0 };
    made->is_container = exists(place, "/.dockerenv") || exists(place, "/run/.containerenv") ||
                         exists(place, "/run/systemd/container");
    first_line(place, "/proc/sys/kernel/osrelease", line);
    for (char *at = line; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    made->is_wsl = strstr(line, "microsoft") != NULL;
    made->has_dxg = exists(place, "/dev/dxg");
    read_distribution(place, made);
    read_gpus(place, made);
}
