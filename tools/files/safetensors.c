/* tools/files/safetensors.c: reads .safetensors files, the header with cJSON.
 * Called by load.c and by the program's commands. */
#include "files/safetensors.h"

#include "files/input.h"
#include "files/text.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_BYTES = 8, HEADER_LIMIT = 100000000 };

typedef struct entry {
    const char *name;   /* in the JSON tree */
    const char *type;   /* the file's word for it, in the JSON tree */
    tool_type known_as; /* TOOL_TYPES: a type that the program cannot read */
    int rank;
    int64_t shape[TOOL_MAX_RANK];
    uint64_t begin, end; /* from the end of the header */
} entry;

struct tool_safetensors {
    tool_input in;
    char *path;
    cJSON *header;
    entry *entries; /* by name */
    size_t count;
    uint64_t data_offset;
};

/* A whole number from 0 to 2^53, up to which a JSON reader keeps every one apart. */
static bool whole(const cJSON *item, uint64_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 9007199254740992.0 ||
        floor(item->valuedouble) != item->valuedouble)
        return false;
    *value = (uint64_t)item->valuedouble;
    return true;
}

static bool read_shape(const char *path, const cJSON *shape, entry *out, tool_error *error)
{
    const cJSON *item;
    if (!cJSON_IsArray(shape))
        return tool_fail(error, "%s: %s: shape is not a list", path, out->name);
    cJSON_ArrayForEach(item, shape)
    {
        uint64_t size;
        if (!whole(item, &size))
            return tool_fail(error, "%s: %s: size %d of its shape is not a whole number from 0 to 2^53", path,
                             out->name, out->rank);
        if (out->rank == TOOL_MAX_RANK)
            return tool_fail(error, "%s: %s: shape has more than %d axes", path, out->name, TOOL_MAX_RANK);
        out->shape[out->rank++] = (int64_t)size;
    }
    return true;
}

static bool read_entry(const char *path, const cJSON *item, uint64_t data_bytes, entry *out,
                       tool_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    char text[TOOL_SHAPE_BYTES];
    size_t elements;

    out->name = item->string;
    out->known_as = TOOL_TYPES;
    if (!cJSON_IsObject(item) || !type || !shape || !offsets || cJSON_GetArraySize(item) != 3)
        return tool_fail(error, "%s: %s: not an object of dtype, shape and data_offsets", path, out->name);
    if (!cJSON_IsString(type))
        return tool_fail(error, "%s: %s: dtype is not a text", path, out->name);
    out->type = type->valuestring;
    for (int known = 0; known < TOOL_TYPES; known++) {
        if (strcmp(out->type, tool_types[known].safetensors) == 0)
            out->known_as = (tool_type)known;
    }
    if (!read_shape(path, shape, out, error))
        return false;
    if (cJSON_GetArraySize(offsets) != 2 || !whole(cJSON_GetArrayItem(offsets, 0), &out->begin) ||
        !whole(cJSON_GetArrayItem(offsets, 1), &out->end))
        return tool_fail(error, "%s: %s: data_offsets is not two whole numbers from 0 to 2^53", path,
                         out->name);
    if (out->begin > out->end || out->end > data_bytes)
        return tool_fail(error, "%s: %s: data_offsets [%llu, %llu] do not lie within the %llu bytes of data",
                         path, out->name, (unsigned long long)out->begin, (unsigned long long)out->end,
                         (unsigned long long)data_bytes);
    size_t bytes = out->known_as < TOOL_TYPES ? tool_types[out->known_as].bytes : 1;
    if (!tool_count(out->rank, out->shape, bytes, &elements))
        return tool_fail(error, "%s: %s: shape %s is too large to express", path, out->name,
                         tool_shape_text(out->rank, out->shape, text));
    if (out->known_as < TOOL_TYPES && out->end - out->begin != elements * bytes)
        return tool_fail(error, "%s: %s: shape %s of %s takes %zu bytes, data_offsets [%llu, %llu] hold %llu",
                         path, out->name, tool_shape_text(out->rank, out->shape, text), out->type,
                         elements * bytes, (unsigned long long)out->begin, (unsigned long long)out->end,
                         (unsigned long long)(out->end - out->begin));
    return true;
}

/* The format allows texts alone; nothing here uses them. */
static bool check_metadata(const char *path, const cJSON *metadata, tool_error *error)
{
    const cJSON *item;
    bool ok = cJSON_IsObject(metadata);
    cJSON_ArrayForEach(item, metadata) ok = ok && cJSON_IsString(item);
    return ok || tool_fail(error, "%s: __metadata__: not an object of texts", path);
}

static int by_place(const void *one, const void *other)
{
    const entry *a = one, *b = other;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static int by_name(const void *one, const void *other)
{
    return strcmp(((const entry *)one)->name, ((const entry *)other)->name);
}

/* Each byte of the data belongs to one tensor. Leaves the entries sorted by name. */
static bool check_cover(tool_safetensors *file, uint64_t data_bytes, tool_error *error)
{
    uint64_t at = 0;
    if (file->count > 0)
        qsort(file->entries, file->count, sizeof *file->entries, by_place);
    for (size_t index = 0; index < file->count; index++) {
        const entry *here = &file->entries[index];
        if (here->begin < at)
            return tool_fail(error, "%s: %s: begins at %llu, inside %s, which ends at %llu", file->path,
                             here->name, (unsigned long long)here->begin, file->entries[index - 1].name,
                             (unsigned long long)at);
        if (here->begin > at)
            return tool_fail(error, "%s: bytes %llu to %llu of the data belong to no tensor", file->path,
                             (unsigned long long)at, (unsigned long long)here->begin);
        at = here->end;
    }
    if (at != data_bytes)
        return tool_fail(error, "%s: the tensors take %llu bytes, %llu follow the header", file->path,
                         (unsigned long long)at, (unsigned long long)data_bytes);
    if (file->count > 0)
        qsort(file->entries, file->count, sizeof *file->entries, by_name);
    for (size_t index = 1; index < file->count; index++) {
        if (by_name(&file->entries[index - 1], &file->entries[index]) == 0)
            return tool_fail(error, "%s: tensor %s is there twice", file->path, file->entries[index].name);
    }
    return true;
}

static bool read_header(tool_safetensors *file, tool_error *error)
{
    unsigned char size[SIZE_BYTES];
    const char *path = file->path;
    char *text = NULL;
    bool ok = false;
    if (!tool_input_read(&file->in, 0, SIZE_BYTES, size, error))
        return false;
    uint64_t bytes = tool_little(size, SIZE_BYTES);
    if (bytes > HEADER_LIMIT || bytes > file->in.bytes - SIZE_BYTES)
        return tool_fail(error,
                         "%s: header of %llu bytes is longer than %s: not a .safetensors file, or truncated",
                         path, (unsigned long long)bytes, bytes > HEADER_LIMIT ? "100 MB" : "the file");
    file->data_offset = SIZE_BYTES + bytes;
    uint64_t data_bytes = file->in.bytes - file->data_offset;
    text = calloc((size_t)bytes + 1, 1);
    if (!text)
        return tool_fail(error, "%s: no memory for its header of %llu bytes", path,
                         (unsigned long long)bytes);
    if (!tool_input_read(&file->in, SIZE_BYTES, (size_t)bytes, text, error))
        goto done;
    if (strlen(text) != bytes) {
        tool_fail(error, "%s: header: a zero byte inside", path);
        goto done;
    }
    const char *end = text;
    file->header = cJSON_ParseWithOpts(text, &end, true);
    if (!file->header || !cJSON_IsObject(file->header) || text[0] != '{') {
        tool_fail(error, "%s: header is not a JSON object: see its byte %zu", path, (size_t)(end - text));
        goto done;
    }
    size_t room = (size_t)cJSON_GetArraySize(file->header);
    file->entries = calloc(room + 1, sizeof *file->entries);
    if (!file->entries) {
        tool_fail(error, "%s: no memory for %zu tensors", path, room);
        goto done;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, file->header)
    {
        if (strcmp(item->string, "__metadata__") == 0) {
            if (!check_metadata(path, item, error))
                goto done;
            continue;
        }
        if (!read_entry(path, item, data_bytes, &file->entries[file->count], error))
            goto done;
        file->count++;
    }
    ok = check_cover(file, data_bytes, error);
done:
    free(text);
    return ok;
}

bool tool_safetensors_open(const char *path, tool_safetensors **file, tool_error *error)
{
    tool_safetensors *made = calloc(1, sizeof *made);
    *file = NULL;
    if (!made || !(made->path = malloc(strlen(path) + 1))) {
        tool_fail(error, "%s: no memory", path);
        goto fail;
    }
    memcpy(made->path, path, strlen(path) + 1);
    if (!tool_input_open(made->path, &made->in, error) || !read_header(made, error))
        goto fail;
    *file = made;
    return true;
fail:
    tool_safetensors_close(made);
    return false;
}

void tool_safetensors_close(tool_safetensors *file)
{
    if (!file)
        return;
    tool_input_close(&file->in);
    cJSON_Delete(file->header);
    free(file->entries);
    free(file->path);
    free(file);
}

const char *tool_safetensors_path(const tool_safetensors *file)
{
    return file->path;
}

size_t tool_safetensors_count(const tool_safetensors *file)
{
    return file->count;
}

const char *tool_safetensors_name(const tool_safetensors *file, size_t index)
{
    return file->entries[index].name;
}

static const entry *find(const tool_safetensors *file, const char *name)
{
    entry key = { .name = name };
    if (file->count == 0)
        return NULL;
    return bsearch(&key, file->entries, file->count, sizeof *file->entries, by_name);
}

bool tool_safetensors_has(const tool_safetensors *file, const char *name)
{
    return find(file, name) != NULL;
}

bool tool_safetensors_read(tool_safetensors *file, const char *name, tool_array *array, tool_error *error)
{
    const entry *here = find(file, name);
    memset(array, 0, sizeof *array);
    if (!here && file->count == 0)
        return tool_fail(error, "%s: no tensor %s: the file is empty", file->path, name);
    if (!here) {
        size_t nearest = 0;
        for (size_t index = 1; index < file->count; index++) {
            if (tool_distance(name, file->entries[index].name) <
                tool_distance(name, file->entries[nearest].name))
                nearest = index;
        }
        return tool_fail(error, "%s: no tensor %s; the nearest of its %zu is %s", file->path, name,
                         file->count, file->entries[nearest].name);
    }
    if (here->known_as == TOOL_TYPES)
        return tool_fail(error, "%s: %s: type %s is none of F16 BF16 F32 F64 I32 I64 U8 BOOL", file->path,
                         name, here->type);
    if (!tool_array_create(here->known_as, here->rank, here->shape, name, array, error))
        return false;
    size_t bytes = tool_types[array->type].bytes;
    if (!tool_input_read(&file->in, file->data_offset + here->begin, array->elements * bytes, array->data,
                         error)) {
        tool_array_free(array);
        return false;
    }
    tool_swap(array->data, array->elements, bytes, true);
    return true;
}
