/* tools/probe.c: `clattn probe`: the devices there are, a line each, and the one that the library picks.
 * Called by main.c. */
#include "commands.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct values {
    const char *device;
    bool json;
} values;

static const char *type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return "gpu";
    if (type & CL_DEVICE_TYPE_CPU)
        return "cpu";
    return type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : "other";
}

static bool list_devices(clattn_device_info **devices, size_t *count, tool_error *error)
{
    *devices = NULL;
    if (clattn_devices(0, NULL, count) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    *devices = calloc(*count + 1, sizeof **devices);
    if (!*devices)
        return tool_fail(error, "no memory for %zu devices", *count);
    size_t room = *count;
    if (clattn_devices(room, *devices, count) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    if (*count > room)
        *count = room;
    return true;
}

static void print_lines(const clattn_device_info *devices, size_t count, size_t pick, const char *why)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    for (size_t index = 0; index < count; index++) {
        const clattn_device_info *device = &devices[index];
        printf("%c %zu  %s  %s  %s  %u units  %.1f GiB  largest %.1f GiB  %s  driver %s%s\n",
               index == pick ? '*' : ' ', index, device->platform, device->name, type_name(device->type),
               device->compute_units, (double)device->memory_bytes / gib,
               (double)device->max_alloc_bytes / gib, device->version, device->driver,
               device->has_compiler ? "" : "  cannot compile OpenCL C");
    }
    printf("pick %zu: %s\n", pick, why);
}

static bool print_json(const clattn_device_info *devices, size_t count, size_t pick, const char *why,
                       tool_error *error)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(object, "devices");
    for (size_t index = 0; index < count; index++) {
        const clattn_device_info *device = &devices[index];
        cJSON *about = cJSON_CreateObject();
        cJSON_AddItemToArray(list, about);
        cJSON_AddNumberToObject(about, "index", (double)index);
        cJSON_AddStringToObject(about, "platform", device->platform);
        cJSON_AddStringToObject(about, "name", device->name);
        cJSON_AddStringToObject(about, "type", type_name(device->type));
        cJSON_AddNumberToObject(about, "compute_units", device->compute_units);
        cJSON_AddNumberToObject(about, "memory_bytes", (double)device->memory_bytes);
        cJSON_AddNumberToObject(about, "max_alloc_bytes", (double)device->max_alloc_bytes);
        cJSON_AddNumberToObject(about, "local_bytes", (double)device->local_bytes);
        cJSON_AddStringToObject(about, "version", device->version);
        cJSON_AddStringToObject(about, "driver", device->driver);
        cJSON_AddBoolToObject(about, "has_compiler", device->has_compiler);
    }
    cJSON_AddNumberToObject(object, "pick", (double)pick);
    cJSON_AddStringToObject(object, "why", why);
    bool ok = tool_json_print(object, error);
    cJSON_Delete(object);
    return ok;
}

static int probe(int argc, char **argv)
{
    values given = { 0 };
    clattn_device_info *devices = NULL;
    size_t count = 0, pick = 0;
    char why[CLATTN_TEXT_BYTES] = "";
    tool_error error;
    int code = tool_options_read(&tool_probe_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    tool_progress_begin("asking for devices");
    bool ok = list_devices(&devices, &count, &error);
    if (ok && clattn_device_pick(tool_selector(given.device), &pick, why) != CLATTN_OK)
        ok = tool_fail_library(&error, NULL);
    tool_progress_end();
    if (ok && given.json)
        ok = print_json(devices, count, pick, why, &error);
    else if (ok)
        print_lines(devices, count, pick, why);
    free(devices);
    return tool_finish(&tool_probe_command, ok, &error);
}

static const tool_option options[] = {
    { "--device", TOOL_TEXT, offsetof(values, device), "SELECTOR",
      "index, cpu, gpu or part of a name: say what it picks", 0 },
    { "--json", TOOL_FLAG, offsetof(values, json), NULL, "one JSON object", 0 },
};

const tool_command tool_probe_command = {
    .name = "probe",
    .usage = "[options]",
    .summary = "list the OpenCL devices and say which one is picked, and why",
    .notes = "",
    .example = "  clattn probe --device gpu\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = probe,
};
