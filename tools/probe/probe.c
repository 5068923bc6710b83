/* tools/probe/probe.c: `clattn probe`: its options, and which views they show. Called by main.c. */
#include "probe/probe.h"

#include "bench.h"
#include "files/output.h"
#include "probe/doctor.h"
#include "probe/gather.h"
#include "probe/views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

typedef struct values {
    const char *device, *shape, *report;
    bool verbose, measure, doctor, json;
    double timeout, memory;
} values;

static bool has_usable_device(const cJSON *document)
{
    const cJSON *device, *feature;
    cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(document, "devices"))
    {
        bool usable = json_true(device, "has_compiler");
        cJSON_ArrayForEach(feature, cJSON_GetObjectItemCaseSensitive(device, "features"))
        {
            const char *proof = json_text(feature, "proof");
            if (strcmp(json_text(feature, "name"), "kernel") == 0 && strcmp(proof, "ok") != 0)
                usable = false;
        }
        if (usable)
            return true;
    }
    return false;
}

/* Whether a selector was given that no device matches. */
static bool picks_nothing(const values *given, const cJSON *document)
{
    const char *variable = getenv("CLATTN_DEVICE");
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(document, "devices"), 0);
    return (given->device || (variable && *variable)) &&
           cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(first, "index")) &&
           cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(document, "pick"));
}

static bool print_json(FILE *to, const cJSON *document, tool_error *error)
{
    char *text = cJSON_Print(document);
    if (!text)
        return tool_fail(error, "no memory for the JSON text");
    fprintf(to, "%s\n", text);
    cJSON_free(text);
    return true;
}

static void print_views(const view *on, const values *given, const cJSON *document)
{
    bool all = given->report != NULL;
    if (!given->doctor || all)
        view_devices(on, document);
    if (given->verbose || all)
        view_details(on, document);
    if (given->shape)
        view_shapes(on, document);
    if (given->measure || all)
        view_measures(on, document);
    if (given->doctor || all)
        tool_doctor_print(on->to, document);
}

/* ---- The report ---------------------------------------------------------------------------------------- */

/* Writes `text` with every `private` as `instead`. */
static void print_without(FILE *to, const char *text, const char *private, const char *instead)
{
    const char *found;
    size_t length = private ? strlen(private) : 0;
    while (length > 1 && (found = strstr(text, private))) {
        fprintf(to, "%.*s%s", (int)(found - text), text, instead);
        text = found + length;
    }
    fputs(text, to);
}

/* All views in one file, without the home folder's path and the machine's name. */
static bool write_report(const values *given, const cJSON *document, tool_error *error)
{
    tool_outputs outputs = { 0 };
    char *text = NULL, *public = NULL, host[256] = "";
    size_t bytes = 0, public_bytes = 0;
    FILE *memory = open_memstream(&text, &bytes), *again = NULL;
    const view on = { .to = memory };
    const cJSON *loader = cJSON_GetObjectItemCaseSensitive(document, "loader");
    struct utsname system = { .sysname = "" };
    if (memory) {
        uname(&system);
        fprintf(memory, "clattn %s on %s %s %s\n%s %s\n\n", json_text(document, "clattn"), system.sysname,
                system.release, system.machine, json_text(loader, "name"), json_text(loader, "library"));
        print_views(&on, given, document);
        fclose(memory);
        again = open_memstream(&public, &public_bytes);
    }
    if (again) {
        print_without(again, text, getenv("HOME"), "~");
        fclose(again);
    }
    free(text);
    FILE *file = public ? tool_outputs_add(&outputs, given->report, error) : NULL;
    if (!public)
        tool_fail(error, "no memory for the report");
    gethostname(host, sizeof host - 1);
    if (file)
        print_without(file, public, strlen(host) > 2 ? host : NULL, "HOST");
    free(public);
    if (file)
        return tool_outputs_commit(&outputs, error);
    tool_outputs_discard(&outputs);
    return false;
}

/* ---- The command --------------------------------------------------------------------------------------- */

static int check_usage(const values *given)
{
    bench_case of;
    tool_error error;
    if (given->timeout <= 0)
        return tool_usage(&tool_probe_command, "--timeout %g: more than 0 is wanted", given->timeout);
    if (given->memory <= 0)
        return tool_usage(&tool_probe_command, "--memory %g: more than 0 is wanted", given->memory);
    if (given->shape && !bench_shape_read(given->shape, &of, &error))
        return tool_usage(&tool_probe_command, "--shape: %s", error.text);
    if (given->shape && of.is_module)
        return tool_usage(&tool_probe_command, "--shape: module is for clattn bench");
    if (given->json && given->report)
        return tool_usage(&tool_probe_command, "--json and --report exclude each other");
    return TOOL_GO_ON;
}

static bool probe_machine(const values *given, cJSON **document, tool_error *error)
{
    tool_icds icds = { 0 };
    bool all = given->report != NULL;
    const gather_wish wish = { .details = given->verbose || given->doctor || all,
                               .measure = given->measure || all,
                               .shape = given->shape,
                               .device = given->device,
                               .limits = { given->timeout, given->memory * 0x1p30 } };
    bool ok = (!given->report || tool_output_check(given->report, error)) &&
              tool_icds_find(&tool_here, &icds, error) && gather(&icds, &wish, document, error) &&
              tool_doctor(&tool_here, &icds, *document, error);
    tool_icds_free(&icds);
    return ok;
}

static int probe(int argc, char **argv)
{
    values given = { .timeout = 20, .memory = 4 };
    cJSON *document = NULL;
    tool_error error;
    int code = tool_options_read(&tool_probe_command, argc, argv, &given);
    if (code == TOOL_GO_ON)
        code = check_usage(&given);
    if (code != TOOL_GO_ON)
        return code;
    const char *no_colour = getenv("NO_COLOR");
    const view on = { stdout, isatty(STDOUT_FILENO) && !(no_colour && *no_colour) };
    bool ok = probe_machine(&given, &document, &error);
    if (ok && given.json)
        ok = print_json(stdout, document, &error);
    else if (ok && given.report)
        ok = write_report(&given, document, &error);
    else if (ok)
        print_views(&on, &given, document);
    code = tool_end(&tool_probe_command, ok, &error);
    if (code == TOOL_DONE && (!has_usable_device(document) || picks_nothing(&given, document)))
        code = PROBE_NO_DEVICE;
    cJSON_Delete(document);
    return code;
}

#define FIELD(name) offsetof(values, name)

static const tool_option options[] = {
    { "--verbose", TOOL_FLAG, FIELD(verbose), NULL,
      "what each device claims, what of it is true, and its kernels", 0 },
    { "-v", TOOL_FLAG, FIELD(verbose), NULL, "the same", 0 },
    { "--shape", TOOL_TEXT, FIELD(shape), "TEXT", "which kernel would run, whether it fits, an estimate", 0 },
    { "--measure", TOOL_FLAG, FIELD(measure), NULL, "peaks, bandwidths, launch and build times", 0 },
    { "--doctor", TOOL_FLAG, FIELD(doctor), NULL, "the chain from the hardware to a kernel, link by link",
      0 },
    { "--report", TOOL_TEXT, FIELD(report), "FILE", "all of it as one text to paste, without your names", 0 },
    { "--json", TOOL_FLAG, FIELD(json), NULL, "one JSON object of all that is asked", 0 },
    { "--device", TOOL_TEXT, FIELD(device), "SELECTOR",
      "index, cpu, gpu or part of a name: say what it picks", 0 },
    { "--timeout", TOOL_REAL, FIELD(timeout), "SECONDS", "for each driver to answer; default 20", 0 },
    { "--memory", TOOL_REAL, FIELD(memory), "GIB", "that each driver may take; default 4", 0 },
};

const tool_command tool_probe_command = {
    .name = "probe",
    .usage = "[options]",
    .summary = "the OpenCL devices, which one is picked and why, and what is wrong",
    .notes =
        "\n"
        "Every driver is asked in a process of its own: one that crashes, hangs or takes memory without\n"
        "end costs one line. A shape is words, as for clattn bench: b=1 hq=32 hkv=8 lq=4096 lk=4096 d=128\n"
        "dtype=f16 causal. Exits with 0 when a device can be used, with 3 when none can,\n"
        "or none is what --device asks for.\n",
    .example = "  clattn probe\n"
               "  clattn probe -v --device gpu\n"
               "  clattn probe --shape \"hq=32 hkv=8 lq=4096 d=128 dtype=f16 causal\"\n"
               "  clattn probe --doctor\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = probe,
};
