/* tools/probe/gather.c: asks the drivers, each alone and all together, and puts what they answer into one
 * document. Called by probe.c. */
#include "probe/gather.h"

#include "files/text.h"

#include <clattn/context.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CLATTN_LIBEXEC
#define CLATTN_LIBEXEC "../libexec/clattn"
#endif

enum { ARGUMENTS = 12, PAIRS = 4, PATH = 512 };

typedef struct arguments {
    const char *word[ARGUMENTS + 1]; /* NULL behind the last */
    size_t count;
} arguments;

typedef struct one_icd {
    char folder[PATH]; /* where its .icd file lies alone; "" when there is none */
    const char *environment[2 * PAIRS + 1];
    arguments arguments;
} one_icd;

const char *json_text(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

double json_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

bool json_true(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* ---- The other program --------------------------------------------------------------------------------- */

bool gather_program(char *path, size_t bytes, tool_error *error)
{
    static const char *const places[] = { "clattn-cl", CLATTN_LIBEXEC "/clattn-cl" };
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length <= 0)
        return tool_fail(error, "/proc/self/exe: %s", strerror(errno));
    own[length] = '\0';
    char *end = strrchr(own, '/');
    *end = '\0';
    for (size_t index = 0; index < sizeof places / sizeof places[0]; index++) {
        int used = snprintf(path, bytes, "%s/%s", own, places[index]);
        if (used > 0 && (size_t)used < bytes && access(path, X_OK) == 0)
            return true;
    }
    return tool_fail(error, "%s is missing: install clattn again", path);
}

/* ---- Drivers alone ------------------------------------------------------------------------------------- */

/* Loaders read a folder of .icd files: one folder for each. */
static bool isolate(const tool_icd *icd, const char *folder, size_t index, one_icd *made, tool_error *error)
{
    char path[PATH + 16];
    snprintf(made->folder, sizeof made->folder, "%s/%zu", folder, index);
    if (mkdir(made->folder, 0700) != 0)
        return tool_fail(error, "%s: %s", made->folder, strerror(errno));
    snprintf(path, sizeof path, "%s/one.icd", made->folder);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%s\n", icd->library) < 0 || fclose(file) != 0)
        return tool_fail(error, "%s: %s", path, strerror(errno));
    const char *const environment[2 * PAIRS + 1] = {
        "OCL_ICD_VENDORS", made->folder, "OCL_ICD_FILENAMES", NULL, "CLATTN_VERBOSE", NULL, NULL
    };
    memcpy(made->environment, environment, sizeof made->environment);
    return true;
}

static void remove_folders(const char *folder, const one_icd *alone, size_t count)
{
    char path[PATH + 16];
    for (size_t index = 0; index < count; index++) {
        if (!alone[index].folder[0])
            continue;
        snprintf(path, sizeof path, "%s/one.icd", alone[index].folder);
        unlink(path);
        rmdir(alone[index].folder);
    }
    rmdir(folder);
}

/* ---- The document -------------------------------------------------------------------------------------- */

static void take(cJSON *from, const char *key, cJSON *to)
{
    cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(from, key);
    cJSON_AddItemToObject(to, key, item ? item : cJSON_CreateNull());
}

static void add_text(cJSON *object, const char *key, const char *text)
{
    char clean[PATH_MAX];
    snprintf(clean, sizeof clean, "%s", text ? text : "");
    tool_text_clean(clean, sizeof clean);
    if (*clean)
        cJSON_AddStringToObject(object, key, clean);
    else
        cJSON_AddNullToObject(object, key);
}

static bool same_text(const cJSON *a, const cJSON *b, const char *key)
{
    return strcmp(json_text(a, key), json_text(b, key)) == 0;
}

/* The number of a device among those of all drivers together: the first alike that is not taken yet. */
static void add_index(cJSON *device, cJSON *together)
{
    int index = 0;
    cJSON *other;
    cJSON_ArrayForEach(other, together)
    {
        if (!cJSON_HasObjectItem(other, "taken") && same_text(device, other, "platform") &&
            same_text(device, other, "name") && same_text(device, other, "driver")) {
            cJSON_AddTrueToObject(other, "taken");
            cJSON_AddNumberToObject(device, "index", index);
            return;
        }
        index++;
    }
    cJSON_AddNullToObject(device, "index");
}

/* A driver's end and platforms; its devices go to the one list. */
static void add_icd(cJSON *document, const tool_icd *icd, child *of, cJSON *together)
{
    cJSON *about = cJSON_CreateObject(), *icds = cJSON_GetObjectItem(document, "icds"), *device;
    int number = cJSON_GetArraySize(icds);
    cJSON_AddItemToArray(icds, about);
    add_text(about, "file", icd ? icd->file : NULL);
    add_text(about, "library", icd ? icd->library : NULL);
    cJSON_AddStringToObject(about, "end", child_end_name(of->end));
    add_text(about, "words", of->words[0] ? of->words : json_text(of->answer, "words"));
    cJSON_AddNumberToObject(about, "seconds", of->seconds);
    cJSON_AddNumberToObject(about, "device_count", json_number(of->answer, "device_count"));
    add_text(about, "load_error", json_text(of->answer, "load_error"));
    if (cJSON_IsArray(cJSON_GetObjectItem(of->answer, "platforms")))
        take(of->answer, "platforms", about);
    else
        cJSON_AddArrayToObject(about, "platforms");
    cJSON *devices = cJSON_GetObjectItem(of->answer, "devices");
    while (cJSON_IsArray(devices) && (device = cJSON_DetachItemFromArray(devices, 0))) {
        if (!cJSON_IsObject(device)) {
            cJSON_Delete(device);
            continue;
        }
        cJSON_AddNumberToObject(device, "icd", number);
        add_index(device, together);
        cJSON_AddItemToArray(cJSON_GetObjectItem(document, "devices"), device);
    }
}

/* What the library would do in a process that sees all drivers. */
static void add_pick(cJSON *document, child *all)
{
    char why[CHILD_WORDS + 64];
    if (all->answer) {
        take(all->answer, "pick", document);
        take(all->answer, "why", document);
        return;
    }
    snprintf(why, sizeof why, "with all drivers together a program %s: %s",
             all->end == CHILD_CRASHED ? "crashes" : "does not answer", all->words);
    cJSON_AddNullToObject(document, "pick");
    cJSON_AddStringToObject(document, "why", why);
}

static void add_loader(cJSON *document, child *all, child *alone, size_t count)
{
    child *answered = all;
    for (size_t index = 0; index < count && !answered->answer; index++)
        answered = &alone[index];
    cJSON *loader = cJSON_DetachItemFromObjectCaseSensitive(answered->answer, "loader");
    if (!cJSON_IsObject(loader)) {
        cJSON_Delete(loader);
        loader = cJSON_CreateObject();
        cJSON_AddNullToObject(loader, "library");
        cJSON_AddNullToObject(loader, "name");
        cJSON_AddFalseToObject(loader, "is_implementation");
        add_text(loader, "words", all->words);
    }
    cJSON_AddItemToObject(document, "loader", loader);
}

static int by_number(const cJSON *a, const cJSON *b)
{
    const cJSON *one = cJSON_GetObjectItem(a, "index"), *other = cJSON_GetObjectItem(b, "index");
    double first = cJSON_IsNumber(one) ? one->valuedouble : 1e9;
    double second = cJSON_IsNumber(other) ? other->valuedouble : 1e9;
    return (first > second) - (first < second);
}

/* In the order of their numbers, those without one last. */
static void sort_devices(cJSON *document)
{
    cJSON *list = cJSON_GetObjectItem(document, "devices"), *sorted = cJSON_CreateArray(), *item;
    while ((item = cJSON_DetachItemFromArray(list, 0))) {
        int at = 0;
        cJSON *other = sorted->child;
        for (; other && by_number(other, item) <= 0; other = other->next)
            at++;
        cJSON_InsertItemInArray(sorted, at, item);
    }
    cJSON_ReplaceItemInObject(document, "devices", sorted);
}

static cJSON *make_document(const tool_icds *icds, child *all, child *alone, size_t count)
{
    cJSON *document = cJSON_CreateObject();
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR,
             CLATTN_VERSION_PATCH);
    cJSON_AddNumberToObject(document, "schema", PROBE_SCHEMA);
    cJSON_AddStringToObject(document, "clattn", version);
    add_loader(document, all, alone, count);
    cJSON_AddArrayToObject(document, "icds");
    cJSON_AddArrayToObject(document, "devices");
    cJSON *together = cJSON_Duplicate(cJSON_GetObjectItem(all->answer, "devices"), true);
    if (count == 0)
        add_icd(document, NULL, all, together);
    for (size_t index = 0; index < count; index++)
        add_icd(document, &icds->icd[index], &alone[index], together);
    cJSON_Delete(together);
    sort_devices(document);
    add_pick(document, all);
    cJSON_AddArrayToObject(document, "trouble");
    return document;
}

/* ---- Asking -------------------------------------------------------------------------------------------- */

static arguments make_arguments(const char *program, const gather_wish *wish, bool whole)
{
    arguments made = { .word = { program, "facts" }, .count = 2 };
    if (wish->device) {
        made.word[made.count++] = "--device";
        made.word[made.count++] = wish->device;
    }
    if (wish->details && whole)
        made.word[made.count++] = "--details";
    if (wish->measure && whole)
        made.word[made.count++] = "--measure";
    if (wish->shape && whole) {
        made.word[made.count++] = "--shape";
        made.word[made.count++] = wish->shape;
    }
    return made;
}

/* A driver alone, or why there is none to ask. */
static bool prepare(const tool_icd *icd, const arguments *whole, const char *folder, size_t index,
                    one_icd *alone, child *made, tool_error *error)
{
    alone->arguments = *whole;
    alone->arguments.word[alone->arguments.count++] = "--library";
    alone->arguments.word[alone->arguments.count++] = icd->library;
    *made = (child){ .name = icd->file ? icd->file : icd->library,
                     .arguments = alone->arguments.word,
                     .environment = alone->environment };
    if (icd->state == ICD_NAMED)
        return isolate(icd, folder, index, alone, error);
    made->end = CHILD_NOT_RUN;
    snprintf(made->words, CHILD_WORDS, "%s",
             icd->state == ICD_NO_NAME ? "its file names no library" : "its file cannot be read");
    return true;
}

/* Each driver alone, and last all together. What proves something comes before the pick, which knows it; what
 * is timed runs alone. */
static bool ask(child *children, size_t count, const gather_wish *wish, tool_error *error)
{
    const bool together = !wish->shape && !wish->measure;
    if (!wish->details)
        return children_run(children, count + 1, together, &wish->limits, error);
    return children_run(children, count, together, &wish->limits, error) &&
           children_run(children + count, 1, true, &wish->limits, error);
}

bool gather(const tool_icds *icds, const gather_wish *wish, cJSON **document, tool_error *error)
{
    static const char *const untouched[] = { "CLATTN_VERBOSE", NULL, NULL };
    char program[PATH_MAX], folder[PATH / 2];
    const char *temporary = getenv("TMPDIR");
    size_t count = icds->count, made = 0;
    *document = NULL;
    if (!gather_program(program, sizeof program, error))
        return false;
    snprintf(folder, sizeof folder, "%s/clattn-probe-XXXXXX",
             temporary && *temporary && strlen(temporary) < PATH / 4 ? temporary : "/tmp");
    const arguments whole = make_arguments(program, wish, true), brief = make_arguments(program, wish, false);
    one_icd *alone = calloc(count + 1, sizeof *alone);
    child *children = calloc(count + 1, sizeof *children), *all = children + count;
    bool ok = alone && children;
    if (!ok)
        tool_fail(error, "no memory for %zu drivers", count);
    else if (!mkdtemp(folder))
        ok = tool_fail(error, "%s: %s", folder, strerror(errno));
    for (; ok && made < count; made++)
        ok = prepare(&icds->icd[made], &whole, folder, made, &alone[made], &children[made], error);
    if (ok) {
        *all = (child){ .name = "all drivers together",
                        .arguments = count ? brief.word : whole.word,
                        .environment = untouched };
        ok = ask(children, count, wish, error);
    }
    /* Where an implementation stands in the loader's place, drivers alone are all the same one. */
    if (ok && count && json_true(cJSON_GetObjectItem(all->answer, "loader"), "is_implementation")) {
        cJSON_Delete(all->answer);
        *all = (child){ .name = "OpenCL", .arguments = whole.word, .environment = untouched };
        ok = children_run(all, 1, true, &wish->limits, error);
        count = 0;
    }
    if (ok)
        *document = make_document(icds, all, children, count);
    for (size_t index = 0; children && index <= icds->count; index++)
        cJSON_Delete(children[index].answer);
    if (alone)
        remove_folders(folder, alone, made);
    free(alone);
    free(children);
    return ok;
}
