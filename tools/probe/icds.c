/* tools/probe/icds.c: finds the .icd files. Called by gather.c and doctor.c. */
#include "probe/icds.h"

#include "files/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, LONGEST_NAME = 1024 };

static const char *from_environment(const char *name)
{
    return getenv(name);
}

static bool may_open(const char *path)
{
    return access(path, R_OK | W_OK) == 0;
}

const tool_place tool_here = { "", from_environment, may_open };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* malloc'd, or NULL. */
static char *join(const char *a, const char *b, const char *c)
{
    size_t room = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(room);
    if (text)
        snprintf(text, room, "%s%s%s", a, b, c);
    return text;
}

static bool no_memory(tool_error *error)
{
    return tool_fail(error, "no memory for the list of drivers");
}

static bool add(tool_icds *icds, char *file, const char *library, tool_icd_state state, tool_error *error)
{
    tool_icd *grown = realloc(icds->icd, (icds->count + 1) * sizeof *grown);
    char *name = library ? join(library, "", "") : NULL;
    if (grown)
        icds->icd = grown;
    if (!grown || (library && !name)) {
        free(file);
        free(name);
        return no_memory(error);
    }
    icds->icd[icds->count++] = (tool_icd){ file, name, state };
    return true;
}

/* Whether it could be a library's: text, and not too much of it. */
static bool is_name(const char *text)
{
    char clean[LINE_BYTES];
    snprintf(clean, sizeof clean, "%s", text);
    tool_text_clean(clean, LONGEST_NAME);
    return *text && strcmp(clean, text) == 0;
}

/* Takes `file` over. */
static bool add_file(tool_icds *icds, char *file, tool_error *error)
{
    char line[LINE_BYTES] = "";
    FILE *stream = file ? fopen(file, "r") : NULL;
    if (!file)
        return no_memory(error);
    if (!stream)
        return add(icds, file, NULL, ICD_UNREADABLE, error);
    if (!fgets(line, sizeof line, stream))
        line[0] = '\0';
    fclose(stream);
    char *name = line + strspn(line, " \t\r");
    for (size_t length = strlen(name); length > 0 && strchr(" \t\r\n", name[length - 1]); length--)
        name[length - 1] = '\0';
    return add(icds, file, is_name(name) ? name : NULL, is_name(name) ? ICD_NAMED : ICD_NO_NAME, error);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_folder(tool_icds *icds, const char *path, tool_error *error)
{
    char **names = NULL;
    size_t count = 0;
    bool ok = true;
    DIR *folder = opendir(path);
    if (!folder) {
        icds->missing = true;
        return true;
    }
    for (struct dirent *file; ok && (file = readdir(folder));) {
        if (!ends_with(file->d_name, ".icd"))
            continue;
        char **grown = realloc(names, (count + 1) * sizeof *grown);
        if (grown)
            names = grown;
        ok = grown && (names[count] = join(path, "/", file->d_name));
        count += ok;
    }
    closedir(folder);
    if (!ok)
        no_memory(error);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    for (size_t index = 0; index < count; index++) {
        if (ok)
            ok = add_file(icds, names[index], error);
        else
            free(names[index]);
    }
    free(names);
    return ok;
}

/* Libraries with ':' between. */
static bool add_libraries(tool_icds *icds, const char *names, tool_error *error)
{
    char name[LINE_BYTES];
    for (const char *at = names; *at; at += *at == ':') {
        size_t length = strcspn(at, ":");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        if (length && !add(icds, NULL, name, ICD_NAMED, error))
            return false;
        at += length;
    }
    return true;
}

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* What a variable names, under the root when it is a whole path. */
static bool add_named(const tool_place *place, const char *name, tool_icds *icds, tool_error *error)
{
    struct stat facts;
    bool file = ends_with(name, ".icd"), bare = file && !strchr(name, '/');
    icds->source = join(name[0] == '/' || bare ? place->root : "", bare ? "/etc/OpenCL/vendors/" : "", name);
    if (!icds->source)
        return no_memory(error);
    icds->missing = (file || strchr(name, '/')) && stat(icds->source, &facts) != 0;
    if (icds->missing)
        return true;
    if (is_folder(icds->source))
        return add_folder(icds, icds->source, error);
    if (file)
        return add_file(icds, join(icds->source, "", ""), error);
    return add(icds, NULL, name, ICD_NAMED, error);
}

bool tool_icds_find(const tool_place *place, tool_icds *icds, tool_error *error)
{
    const char *vendors = place->variable("OCL_ICD_VENDORS"), *path = place->variable("OPENCL_VENDOR_PATH");
    const char *files = place->variable("OCL_ICD_FILENAMES");
    bool ok;
    *icds = (tool_icds){ .icd = NULL };
    if (vendors && *vendors) {
        icds->variable = "OCL_ICD_VENDORS";
        ok = add_named(place, vendors, icds, error);
    } else if (path && *path) {
        icds->variable = "OPENCL_VENDOR_PATH";
        ok = add_named(place, path, icds, error);
    } else {
        icds->source = join(place->root, "/etc/OpenCL/vendors", "");
        ok = icds->source ? add_folder(icds, icds->source, error) : no_memory(error);
    }
    if (ok && files && *files)
        ok = add_libraries(icds, files, error);
    if (!ok)
        tool_icds_free(icds);
    return ok;
}

void tool_icds_free(tool_icds *icds)
{
    for (size_t index = 0; index < icds->count; index++) {
        free(icds->icd[index].file);
        free(icds->icd[index].library);
    }
    free(icds->icd);
    free(icds->source);
    *icds = (tool_icds){ .icd = NULL };
}
