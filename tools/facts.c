/* tools/facts.c: `clattn-cl facts`: what this process sees of OpenCL, as JSON objects on file descriptor 3, a
 * line each, the last of which has all. `clattn probe` runs it in processes of their own, one for each
 * driver, and outlives them. */
#include "facts.h"
#include "commands.h"
#include "report.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A driver may list any number of devices. */
enum { MOST_PLATFORMS = 64, MOST_DEVICES = 64, ANSWER = 3 };

typedef struct values {
    bool details, measure;
    const char *shape, *device, *library;
} values;

/* What is known so far, and where it goes. */
typedef struct answer {
    cJSON *object;
    FILE *file;
    const values *given;
} answer;

/* A line; the last whole one counts. */
static bool write_answer(answer *to, tool_error *error)
{
    char *text = cJSON_PrintUnformatted(to->object);
    if (!text)
        return tool_fail(error, "no memory for the JSON text");
    bool ok = fprintf(to->file, "%s\n", text) > 0 && fflush(to->file) == 0;
    cJSON_free(text);
    return ok || tool_fail(error, "cannot write the answer");
}

/* ---- The loader and the platforms ---------------------------------------------------------------------- */

/* From the loader's own call, which the headers of OpenCL 1.2 do not declare. */
static void add_loader_name(cJSON *about)
{
    enum { LOADER_VERSION = 2, LOADER_NAME = 3 };
    typedef cl_int (*info_fn)(int, size_t, void *, size_t *);
    void *symbol = clGetExtensionFunctionAddress("clGetICDLoaderInfoOCLICD");
    info_fn info;
    char name[64] = "", version[64] = "", text[CLATTN_TEXT_BYTES] = "";
    memcpy(&info, &symbol, sizeof info);
    if (symbol && info(LOADER_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS &&
        info(LOADER_VERSION, sizeof version - 1, version, NULL) == CL_SUCCESS)
        snprintf(text, sizeof text, "%s %s", name, version);
    tool_json_text(about, "name", text);
}

/* Which library answers, and whether it is an implementation itself, in the loader's place. */
static void add_loader(cJSON *object)
{
    cJSON *about = cJSON_AddObjectToObject(object, "loader");
    void *symbol = dlsym(RTLD_DEFAULT, "clGetPlatformIDs"), *own = NULL;
    Dl_info where = { 0 }, other = { 0 };
    char path[4096];
    bool found = symbol && dladdr(symbol, &where) && where.dli_fname;
    const char *file = found ? realpath(where.dli_fname, path) : NULL;
    if (found && (own = dlsym(RTLD_DEFAULT, "clIcdGetPlatformIDsKHR")))
        dladdr(own, &other);
    tool_json_text(about, "library", file);
    add_loader_name(about);
    cJSON_AddBoolToObject(about, "is_implementation", other.dli_fname && other.dli_fbase == where.dli_fbase);
    cJSON_AddNullToObject(about, "words");
}

static void add_platform_text(cJSON *about, const char *name, cl_platform_id id, cl_platform_info what)
{
    char text[CLATTN_TEXT_BYTES] = "";
    size_t bytes = 0;
    cl_int error = clGetPlatformInfo(id, what, sizeof text - 1, text, &bytes);
    tool_json_text(about, name, error == CL_SUCCESS ? text : NULL);
}

static void add_platforms(cJSON *object)
{
    cJSON *list = cJSON_AddArrayToObject(object, "platforms");
    cl_platform_id ids[MOST_PLATFORMS];
    cl_uint count = 0;
    if (clGetPlatformIDs(MOST_PLATFORMS, ids, &count) != CL_SUCCESS)
        return;
    for (cl_uint index = 0; index < count && index < MOST_PLATFORMS; index++) {
        cJSON *about = cJSON_CreateObject();
        cl_uint devices = 0;
        cl_int error = clGetDeviceIDs(ids[index], CL_DEVICE_TYPE_ALL, 0, NULL, &devices);
        cJSON_AddItemToArray(list, about);
        add_platform_text(about, "name", ids[index], CL_PLATFORM_NAME);
        add_platform_text(about, "vendor", ids[index], CL_PLATFORM_VENDOR);
        add_platform_text(about, "version", ids[index], CL_PLATFORM_VERSION);
        cJSON_AddNumberToObject(about, "devices", error == CL_SUCCESS ? devices : 0);
        tool_json_text(about, "error", error == CL_SUCCESS ? NULL : clattn_cl_error_name(error));
    }
}

/* Loaders pass over a driver that does not load; the system says why it does not. */
static void add_load_error(cJSON *object, const char *library)
{
    bool none = cJSON_GetArraySize(cJSON_GetObjectItem(object, "platforms")) == 0;
    tool_json_text(object, "load_error", library && none && !dlopen(library, RTLD_NOW) ? dlerror() : NULL);
}

/* ---- Devices ------------------------------------------------------------------------------------------- */

static const char *type_name(cl_device_type type)
{
    if (type & CL_DEVICE_TYPE_GPU)
        return "gpu";
    if (type & CL_DEVICE_TYPE_CPU)
        return "cpu";
    return type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator" : "other";
}

static void add_fact(cJSON *object, const clattn_fact *fact)
{
    if (fact->kind == CLATTN_FACT_NUMBER)
        cJSON_AddNumberToObject(object, fact->name, fact->number);
    else if (fact->kind == CLATTN_FACT_FLAG)
        cJSON_AddBoolToObject(object, fact->name, fact->number != 0);
    else if (fact->kind == CLATTN_FACT_TEXT)
        cJSON_AddStringToObject(object, fact->name, fact->text);
    else
        cJSON_AddNullToObject(object, fact->name);
}

/* All facts; those that the driver refuses are null, and beside them is why. */
static bool add_facts(cJSON *about, const clattn_device_info *device, bool details, tool_error *error)
{
    size_t count = 0;
    clattn_fact *facts = NULL;
    if (clattn_device_facts(device->device_id, 0, NULL, &count) == CLATTN_OK)
        facts = calloc(count, sizeof *facts);
    if (!facts || clattn_device_facts(device->device_id, count, facts, &count) != CLATTN_OK)
        return free(facts), tool_fail_library(error, device->name);
    cJSON *all = details ? cJSON_AddObjectToObject(about, "facts") : NULL;
    cJSON *unknown = details ? cJSON_AddObjectToObject(about, "unknown") : NULL;
    if (!details) {
        cJSON_AddNullToObject(about, "facts");
        cJSON_AddNullToObject(about, "unknown");
    }
    for (size_t index = 0; index < count; index++) {
        static const char *const always[] = { "vendor", "vendor_id", "pci_address" };
        for (size_t name = 0; name < sizeof always / sizeof always[0]; name++) {
            if (strcmp(facts[index].name, always[name]) == 0)
                add_fact(about, &facts[index]);
        }
        if (details)
            add_fact(all, &facts[index]);
        if (details && facts[index].kind == CLATTN_FACT_UNKNOWN)
            cJSON_AddStringToObject(unknown, facts[index].name, facts[index].text);
    }
    free(facts);
    return true;
}

/* 0 is what a driver did not tell. */
static void add_bytes(cJSON *about, const char *name, uint64_t bytes)
{
    tool_json_number(about, name, bytes ? (double)bytes : NAN);
}

static void add_device(cJSON *about, const clattn_device_info *device)
{
    cJSON_AddStringToObject(about, "platform", device->platform);
    cJSON_AddStringToObject(about, "name", device->name);
    cJSON_AddStringToObject(about, "type", type_name(device->type));
    cJSON_AddNumberToObject(about, "compute_units", device->compute_units);
    add_bytes(about, "memory_bytes", device->memory_bytes);
    add_bytes(about, "max_alloc_bytes", device->max_alloc_bytes);
    add_bytes(about, "local_bytes", device->local_bytes);
    cJSON_AddStringToObject(about, "version", device->version);
    cJSON_AddStringToObject(about, "driver", device->driver);
    cJSON_AddBoolToObject(about, "has_compiler", device->has_compiler);
    tool_json_text(about, "known_bad", device->known_bad);
}

static void add_feature(cJSON *list, const clattn_feature *feature)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(list, one);
    cJSON_AddStringToObject(one, "name", feature->name);
    cJSON_AddStringToObject(one, "what", feature->what);
    cJSON_AddBoolToObject(one, "claimed", feature->claimed);
    cJSON_AddStringToObject(one, "proof", clattn_proof_name(feature->proof));
    tool_json_text(one, "detail", feature->detail);
}

static bool add_features(cJSON *about, clattn_context *context, tool_error *error)
{
    size_t count = 0;
    clattn_feature *features = NULL;
    if (clattn_device_features(context, 0, NULL, &count) == CLATTN_OK)
        features = calloc(count, sizeof *features);
    if (!features || clattn_device_features(context, count, features, &count) != CLATTN_OK)
        return free(features), tool_fail_library(error, NULL);
    cJSON *list = cJSON_CreateArray();
    cJSON_ReplaceItemInObjectCaseSensitive(about, "features", list);
    for (size_t index = 0; index < count; index++)
        add_feature(list, &features[index]);
    free(features);
    return true;
}

const char *facts_reason(void)
{
    const char *message = clattn_last_message(), *after = strstr(message, ": ");
    return after ? after + 2 : message;
}

/* Rows are asked about a sequence and about one new token, the two problems that rows are made for. */
static void add_rows(cJSON *about, clattn_context *context)
{
    cJSON *list = cJSON_CreateArray();
    cJSON_ReplaceItemInObjectCaseSensitive(about, "rows", list);
    for (size_t index = 0; index < clattn_kernel_count(); index++) {
        const char *name = clattn_kernel_name(index);
        clattn_attention_desc desc;
        bool open = false;
        char reason[CLATTN_TEXT_BYTES] = "";
        for (int64_t queries = 512; queries > 0 && !open; queries = queries == 1 ? 0 : 1) {
            clattn_attention_desc_init(&desc, 1, 8, 8, queries, 512, 64, 64);
            open = clattn_attention_supports(context, &desc, name) == CLATTN_OK;
            if (!open)
                snprintf(reason, sizeof reason, "%s", facts_reason());
        }
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddStringToObject(one, "name", name);
        cJSON_AddBoolToObject(one, "open", open);
        tool_json_text(one, "reason", open ? NULL : reason);
    }
}

/* A device that does not open is listed all the same, with the reason as the first feature's. */
static void add_closed(cJSON *about, const char *words)
{
    clattn_feature kernel = { "kernel", "the simplest kernel", true, CLATTN_PROOF_FAILED, "" };
    cJSON *list = cJSON_CreateArray();
    snprintf(kernel.detail, sizeof kernel.detail, "%s", words);
    add_feature(list, &kernel);
    cJSON_ReplaceItemInObjectCaseSensitive(about, "features", list);
}

/* What needs a context. Each part is answered as soon as it is known: the next may take the process down. */
static bool add_proofs(answer *to, cJSON *about, size_t index, tool_error *error)
{
    const values *given = to->given;
    char number[24];
    tool_error trouble;
    clattn_context *context = NULL;
    snprintf(number, sizeof number, "%zu", index);
    if (!given->details && !given->shape && !given->measure)
        return true;
    if (!tool_open(number, &context, &trouble)) {
        add_closed(about, trouble.text);
        return write_answer(to, error);
    }
    bool ok = true;
    if (given->details) {
        ok = add_features(about, context, error);
        add_rows(about, context);
        ok = ok && write_answer(to, error);
    }
    if (ok && given->shape)
        ok = facts_add_shape(about, context, given->shape, error) && write_answer(to, error);
    if (ok && given->shape) {
        facts_add_estimate(about, context, given->shape);
        ok = write_answer(to, error);
    }
    if (ok && given->measure)
        ok = facts_add_measures(about, context, error) && write_answer(to, error);
    clattn_context_destroy(context);
    return ok;
}

static void add_pick(cJSON *object, const char *selector)
{
    const clattn_context_options options = tool_context_options(selector);
    size_t pick = 0;
    char why[CLATTN_TEXT_BYTES] = "";
    if (clattn_device_pick(&options, &pick, why) == CLATTN_OK) {
        cJSON_AddNumberToObject(object, "pick", (double)pick);
        cJSON_AddStringToObject(object, "why", why);
    } else {
        cJSON_AddNullToObject(object, "pick");
        cJSON_AddStringToObject(object, "why", clattn_last_message());
    }
}

static bool add_devices(answer *to, tool_error *error)
{
    cJSON *object = to->object, *list = cJSON_AddArrayToObject(object, "devices");
    static const char *const late[] = { "features", "rows", "shape", "measure" };
    clattn_device_info *devices = NULL;
    size_t count = 0, room = 0;
    bool ok = true;
    clattn_status status = clattn_devices(0, NULL, &count);
    if (status == CLATTN_OK) {
        room = count < MOST_DEVICES ? count : MOST_DEVICES;
        devices = calloc(room + 1, sizeof *devices);
        status = devices ? clattn_devices(room, devices, &count) : CLATTN_OUT_OF_MEMORY;
    }
    cJSON_AddNumberToObject(object, "device_count", (double)count);
    if (status != CLATTN_OK)
        cJSON_AddStringToObject(object, "words", clattn_last_message());
    for (size_t index = 0; status == CLATTN_OK && ok && index < room && index < count; index++) {
        cJSON *about = cJSON_CreateObject();
        cJSON_AddItemToArray(list, about);
        add_device(about, &devices[index]);
        ok = add_facts(about, &devices[index], to->given->details, error);
        for (size_t name = 0; name < sizeof late / sizeof late[0]; name++)
            cJSON_AddNullToObject(about, late[name]);
    }
    add_pick(object, to->given->device);
    ok = ok && write_answer(to, error);
    for (size_t index = 0; status == CLATTN_OK && ok && index < room && index < count; index++)
        ok = add_proofs(to, cJSON_GetArrayItem(list, (int)index), index, error);
    free(devices);
    return ok;
}

static int facts(int argc, char **argv)
{
    values given = { 0 };
    tool_error error;
    int code = tool_options_read(&tool_facts_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    answer to = { .file = fdopen(ANSWER, "w"), .given = &given };
    if (!to.file)
        return tool_usage(&tool_facts_command,
                          "file descriptor %d is not open: clattn probe runs this command", ANSWER);
    to.object = cJSON_CreateObject();
    add_loader(to.object);
    add_platforms(to.object);
    add_load_error(to.object, given.library);
    bool ok = add_devices(&to, &error);
    cJSON_Delete(to.object);
    return tool_finish(&tool_facts_command, ok, &error);
}

static const tool_option options[] = {
    { "--details", TOOL_FLAG, offsetof(values, details), NULL, "facts, features proved, rows of the table",
      0 },
    { "--shape", TOOL_TEXT, offsetof(values, shape), "TEXT", "what would run for this shape", 0 },
    { "--measure", TOOL_FLAG, offsetof(values, measure), NULL, "what the device can do at most", 0 },
    { "--device", TOOL_TEXT, offsetof(values, device), "SELECTOR", "what the pick is told", 0 },
    { "--library", TOOL_TEXT, offsetof(values, library), "NAME",
      "of the one driver: say why it does not load", 0 },
};

const tool_command tool_facts_command = {
    .name = "facts",
    .usage = "[options]",
    .summary = "what this process sees of OpenCL, as JSON on file descriptor 3; clattn probe runs it",
    .notes = "",
    .example = "  clattn-cl facts 3>&1\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = facts,
};
