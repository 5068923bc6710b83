/* tools/files/npy.c: reads and writes .npy files.
 * Called by load.c and by the program's commands. */
#include "files/npy.h"

#include "files/input.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, PREFIX_BYTES = 8, HEADER_LIMIT = 65536, HEADER_ALIGN = 64 };

typedef struct header {
    tool_type type;
    bool little;
    bool fortran;
    int rank;
    int64_t shape[TOOL_MAX_RANK];
} header;

/* A place in the header's text, a Python dictionary. */
typedef struct reader {
    const char *path;
    const char *at; /* ends in NUL */
    tool_error *error;
} reader;

static void skip_space(reader *in)
{
    while (isspace((unsigned char)*in->at))
        in->at++;
}

static bool take(reader *in, char wanted)
{
    skip_space(in);
    if (*in->at != wanted)
        return false;
    in->at++;
    return true;
}

static bool expect(reader *in, char wanted)
{
    if (take(in, wanted))
        return true;
    return tool_fail(in->error, "%s: header: '%c' wanted before \"%.20s\"", in->path, wanted, in->at);
}

static bool read_string(reader *in, char *text, size_t room)
{
    skip_space(in);
    char quote = *in->at;
    if (quote != '\'' && quote != '"')
        return tool_fail(in->error, "%s: header: a quoted name wanted before \"%.20s\"", in->path, in->at);
    const char *begin = ++in->at;
    while (*in->at && *in->at != quote)
        in->at++;
    size_t length = (size_t)(in->at - begin);
    if (!*in->at || length >= room)
        return tool_fail(in->error, "%s: header: the name '%.20s' is too long or has no end", in->path,
                         begin);
    memcpy(text, begin, length);
    text[length] = 0;
    in->at++;
    return true;
}

static bool read_type(reader *in, header *out)
{
    char text[16];
    skip_space(in);
    if (*in->at == '[')
        return tool_fail(in->error, "%s: element type is a structure; one number type is wanted", in->path);
    if (!read_string(in, text, sizeof text))
        return false;
    const uint16_t one = 1;
    out->little = text[0] == '<' || (text[0] == '=' && *(const unsigned char *)&one == 1);
    for (int type = 0; type < TOOL_TYPES; type++) {
        const tool_type_facts *facts = &tool_types[type];
        if (!facts->numpy || strlen(text) != 3 || strcmp(text + 1, facts->numpy) != 0)
            continue;
        if (!strchr(facts->bytes == 1 ? "|<>=" : "<>=", text[0]))
            break;
        out->type = (tool_type)type;
        return true;
    }
    return tool_fail(in->error, "%s: element type '%s' is not one of f2 f4 f8 i4 i8 u1 b1 with '<' or '>'",
                     in->path, text);
}

static bool read_order(reader *in, header *out)
{
    skip_space(in);
    if (strncmp(in->at, "True", 4) == 0) {
        out->fortran = true;
        in->at += 4;
        return true;
    }
    if (strncmp(in->at, "False", 5) == 0) {
        in->at += 5;
        return true;
    }
    return tool_fail(in->error, "%s: fortran_order \"%.20s\" is neither True nor False", in->path, in->at);
}

static bool read_shape(reader *in, header *out)
{
    if (!expect(in, '('))
        return false;
    bool comma = true;
    while (!take(in, ')')) {
        char *end;
        if (!comma)
            return expect(in, ',');
        if (!isdigit((unsigned char)*in->at))
            return tool_fail(in->error, "%s: shape: a size of 0 or more wanted before \"%.20s\"", in->path,
                             in->at);
        if (out->rank == TOOL_MAX_RANK)
            return tool_fail(in->error, "%s: shape has more than %d axes", in->path, TOOL_MAX_RANK);
        errno = 0;
        long long size = strtoll(in->at, &end, 10);
        if (errno)
            return tool_fail(in->error, "%s: shape: size \"%.24s\" is too large to express", in->path,
                             in->at);
        in->at = end;
        out->shape[out->rank++] = size;
        comma = take(in, ',');
    }
    if (out->rank == 1 && !comma)
        return tool_fail(in->error, "%s: shape (%lld) is not a tuple: a comma is wanted", in->path,
                         (long long)out->shape[0]);
    return true;
}

static bool parse_header(const char *path, const char *text, header *out, tool_error *error)
{
    static const struct {
        const char *name;
        bool (*read)(reader *, header *);
    } fields[] = { { "descr", read_type }, { "fortran_order", read_order }, { "shape", read_shape } };
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    reader in = { path, text, error };
    bool seen[FIELDS] = { false };

    if (!expect(&in, '{'))
        return false;
    while (!take(&in, '}')) {
        char name[16];
        size_t field = 0;
        if (!read_string(&in, name, sizeof name))
            return false;
        while (field < FIELDS && strcmp(name, fields[field].name) != 0)
            field++;
        if (field == FIELDS || seen[field])
            return tool_fail(error, "%s: header: field '%s' is %s", path, name,
                             field == FIELDS ? "none of descr, fortran_order and shape" : "there twice");
        seen[field] = true;
        if (!expect(&in, ':') || !fields[field].read(&in, out))
            return false;
        if (!take(&in, ',')) {
            if (!expect(&in, '}'))
                return false;
            break;
        }
    }
    skip_space(&in);
    if (*in.at)
        return tool_fail(error, "%s: header: \"%.20s\" after its end", path, in.at);
    for (size_t field = 0; field < FIELDS; field++) {
        if (!seen[field])
            return tool_fail(error, "%s: header: field '%s' is missing", path, fields[field].name);
    }
    return true;
}

/* Reads what stands before the data; *data_offset is where the data begin. */
static bool read_header(tool_input *in, header *out, uint64_t *data_offset, tool_error *error)
{
    unsigned char prefix[PREFIX_BYTES + 4] = { 0 };
    if (!tool_input_read(in, 0, PREFIX_BYTES + 2, prefix, error))
        return false;
    if (memcmp(prefix, magic, MAGIC_BYTES) != 0)
        return tool_fail(error, "%s: not an .npy file: it does not begin with \\x93NUMPY", in->path);
    unsigned version = prefix[MAGIC_BYTES];
    if (version < 1 || version > 3 || prefix[MAGIC_BYTES + 1] != 0)
        return tool_fail(error, "%s: version %u.%u is none of 1.0, 2.0 and 3.0", in->path, version,
                         prefix[MAGIC_BYTES + 1]);
    size_t size_bytes = version == 1 ? 2 : 4;
    if (!tool_input_read(in, PREFIX_BYTES, size_bytes, prefix + PREFIX_BYTES, error))
        return false;
    uint64_t bytes = tool_little(prefix + PREFIX_BYTES, size_bytes);
    if (bytes > HEADER_LIMIT)
        return tool_fail(error, "%s: header of %llu bytes is longer than %d", in->path,
                         (unsigned long long)bytes, HEADER_LIMIT);
    char *text = calloc((size_t)bytes + 1, 1);
    if (!text)
        return tool_fail(error, "%s: no memory for its header", in->path);
    bool ok = tool_input_read(in, PREFIX_BYTES + size_bytes, (size_t)bytes, text, error);
    if (ok && strlen(text) != bytes)
        ok = tool_fail(error, "%s: header: a zero byte inside", in->path);
    if (ok)
        ok = parse_header(in->path, text, out, error);
    free(text);
    *data_offset = PREFIX_BYTES + size_bytes + bytes;
    return ok;
}

/* Fills `to` in C order from `from`, whose first axis runs fastest. */
static void transpose(const tool_array *to, const unsigned char *from)
{
    size_t bytes = tool_types[to->type].bytes;
    size_t step[TOOL_MAX_RANK] = { 0 };
    int64_t at[TOOL_MAX_RANK] = { 0 };
    unsigned char *out = to->data;
    size_t product = 1;
    for (int axis = 0; axis < to->rank; axis++) {
        step[axis] = product;
        product *= (size_t)to->shape[axis];
    }
    size_t source = 0;
    for (size_t index = 0; index < to->elements; index++) {
        memcpy(out + index * bytes, from + source * bytes, bytes);
        for (int axis = to->rank - 1; axis >= 0; axis--) {
            source += step[axis];
            if (++at[axis] < to->shape[axis])
                break;
            source -= step[axis] * (size_t)to->shape[axis];
            at[axis] = 0;
        }
    }
}

bool tool_npy_read(const char *path, tool_array *array, tool_error *error)
{
    tool_input in;
    header head = { .type = TOOL_F32 };
    uint64_t offset = 0;
    size_t elements = 0;
    tool_array made = { .data = NULL }, turned = { .data = NULL };
    char text[TOOL_SHAPE_BYTES];

    memset(array, 0, sizeof *array);
    if (!tool_input_open(path, &in, error) || !read_header(&in, &head, &offset, error))
        goto fail;
    const tool_type_facts *facts = &tool_types[head.type];
    tool_shape_text(head.rank, head.shape, text);
    if (!tool_count(head.rank, head.shape, facts->bytes, &elements)) {
        tool_fail(error, "%s: shape %s of %s is too large to express", path, text, facts->text);
        goto fail;
    }
    uint64_t wanted = (uint64_t)elements * facts->bytes;
    uint64_t found = in.bytes - offset;
    if (found != wanted) {
        tool_fail(error, "%s: shape %s of %s takes %llu bytes, %llu follow the header: %s", path, text,
                  facts->text, (unsigned long long)wanted, (unsigned long long)found,
                  found < wanted ? "the file is truncated" : "a file holds one array and nothing after it");
        goto fail;
    }
    if (!tool_array_create(head.type, head.rank, head.shape, path, &made, error) ||
        !tool_input_read(&in, offset, (size_t)wanted, made.data, error))
        goto fail;
    tool_swap(made.data, elements, facts->bytes, head.little);
    if (head.type == TOOL_BOOL) {
        for (size_t index = 0; index < elements; index++)
            ((uint8_t *)made.data)[index] = ((uint8_t *)made.data)[index] != 0;
    }
    if (head.fortran && head.rank > 1) {
        if (!tool_array_create(head.type, head.rank, head.shape, path, &turned, error))
            goto fail;
        transpose(&turned, made.data);
        tool_array_free(&made);
        made = turned;
    }
    tool_input_close(&in);
    *array = made;
    return true;
fail:
    tool_array_free(&made);
    tool_input_close(&in);
    return false;
}

bool tool_npy_write(FILE *file, const char *path, const tool_array *array, tool_error *error)
{
    const tool_type_facts *facts = &tool_types[array->type];
    const uint16_t one = 1;
    const char *order = facts->bytes == 1 ? "|" : *(const unsigned char *)&one == 1 ? "<" : ">";
    char shape[TOOL_SHAPE_BYTES], text[TOOL_SHAPE_BYTES + 128];
    if (!facts->numpy)
        return tool_fail(error, "%s: an .npy file cannot hold %s", path, facts->text);
    size_t used =
        (size_t)snprintf(text, sizeof text, "{'descr': '%s%s', 'fortran_order': False, 'shape': %s, }", order,
                         facts->numpy, tool_shape_text(array->rank, array->shape, shape));
    size_t total = (PREFIX_BYTES + 2 + used + 1 + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    size_t bytes = total - PREFIX_BYTES - 2;
    memset(text + used, ' ', bytes - used - 1);
    text[bytes - 1] = '\n';
    unsigned char prefix[PREFIX_BYTES + 2] = { [MAGIC_BYTES] = 1 };
    memcpy(prefix, magic, MAGIC_BYTES);
    prefix[PREFIX_BYTES] = (unsigned char)(bytes & 0xff);
    prefix[PREFIX_BYTES + 1] = (unsigned char)(bytes >> 8);
    errno = 0;
    if (fwrite(prefix, 1, sizeof prefix, file) != sizeof prefix || fwrite(text, 1, bytes, file) != bytes ||
        fwrite(array->data, facts->bytes, array->elements, file) != array->elements)
        return tool_fail(error, "%s: cannot write: %s", path, strerror(errno));
    return true;
}
