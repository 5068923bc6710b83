/* tests/support/program.c: runs the program through the shell, writes and reads small files.
 * Called by the tests of tests/tools. */
#define _XOPEN_SOURCE 700

#include "support/harness.h"

#include "support/program.h"

#include "files/load.h"
#include "files/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char ct_stdout[1 << 18], ct_stderr[1 << 16];

static void read_text(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t bytes = fread(text, 1, room - 1, file);
    text[bytes] = 0;
    fclose(file);
    assert_true(bytes < room - 1);
}

/* Takes out what Mesa's driver prints of its own accord. */
static void drop_driver_lines(char *text)
{
    static const char driver[] = "MESA: ";
    while (*text) {
        char *next = strchr(text, '\n');
        next = next ? next + 1 : text + strlen(text);
        if (strncmp(text, driver, sizeof driver - 1) == 0)
            memmove(text, next, strlen(next) + 1);
        else
            text = next;
    }
}

int ct_program(const char *program, const char *format, ...)
{
    char arguments[4096], command[16384], *split;
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    const char *environment = "", *rest = arguments;
    if ((split = strstr(arguments, " -- ")) != NULL) {
        *split = 0;
        environment = arguments;
        rest = split + 4;
    }
    const char *cache = getenv("CLATTN_CACHE_DIR");
    snprintf(
        command, sizeof command,
        "env -u CLATTN_DEVICE -u CLATTN_VERBOSE CLATTN_CACHE_DIR='%s' %s '%s' >program.out 2>program.err %s",
        cache ? cache : "", environment, program, rest);
    int status = system(command);
    read_text("program.out", ct_stdout, sizeof ct_stdout);
    read_text("program.err", ct_stderr, sizeof ct_stderr);
    drop_driver_lines(ct_stderr);
    return WIFEXITED(status) && WEXITSTATUS(status) < 126 ? WEXITSTATUS(status) : -1;
}

void ct_complains_of(const char *const *texts)
{
    size_t length = strlen(ct_stderr);
    if (*ct_stdout)
        fail_msg("stdout is not empty: %s", ct_stdout);
    if (length < 2 || strchr(ct_stderr, '\n') != ct_stderr + length - 1)
        fail_msg("stderr is not one line: %s", ct_stderr);
    for (; *texts; texts++) {
        if (!strstr(ct_stderr, *texts))
            fail_msg("no \"%s\" in: %s", *texts, ct_stderr);
    }
}

static int rank_of(const int64_t *shape)
{
    int rank = 0;
    while (shape[rank] >= 0)
        rank++;
    return rank;
}

void ct_store(const char *path, tool_type type, const void *data, const int64_t *shape)
{
    tool_array array;
    tool_error error;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(tool_array_create(type, rank_of(shape), shape, path, &array, &error));
    memcpy(array.data, data, array.elements * tool_types[type].bytes);
    assert_true(tool_npy_write(file, path, &array, &error));
    assert_int_equal(fclose(file), 0);
    tool_array_free(&array);
}

tool_array ct_load(const char *path, tool_type type, const int64_t *shape)
{
    tool_array array;
    tool_error error;
    char found[TOOL_SHAPE_BYTES];
    if (!tool_load(path, &array, &error))
        fail_msg("%s", error.text);
    tool_shape_text(array.rank, array.shape, found);
    bool same = array.type == type && array.rank == rank_of(shape);
    if (!same || memcmp(array.shape, shape, (size_t)array.rank * sizeof *shape) != 0)
        fail_msg("%s holds %s of shape %s", path, tool_types[array.type].text, found);
    return array;
}

void ct_store_safetensors(const char *path, const ct_tensor *tensors, size_t count)
{
    char header[8192] = "{";
    unsigned char size[8];
    size_t used = 1, offset = 0;
    for (size_t index = 0; index < count; index++) {
        const ct_tensor *tensor = &tensors[index];
        size_t bytes = 4 * (size_t)tensor->rows * (size_t)(tensor->columns ? tensor->columns : 1);
        char columns[32] = "";
        if (tensor->columns)
            snprintf(columns, sizeof columns, ",%lld", (long long)tensor->columns);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld%s],\"data_offsets\":[%zu,%zu]}",
                                 index ? "," : "", tensor->name, (long long)tensor->rows, columns, offset,
                                 offset + bytes);
        assert_true(used < sizeof header);
        offset += bytes;
    }
    header[used++] = '}';
    for (size_t byte = 0; byte < sizeof size; byte++)
        size[byte] = (unsigned char)(used >> (8 * byte));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(size, 1, sizeof size, file), sizeof size);
    assert_int_equal(fwrite(header, 1, used, file), used);
    for (size_t index = 0; index < count; index++) {
        const ct_tensor *tensor = &tensors[index];
        size_t elements = (size_t)tensor->rows * (size_t)(tensor->columns ? tensor->columns : 1);
        assert_int_equal(fwrite(tensor->data, 4, elements, file), elements);
    }
    assert_int_equal(fclose(file), 0);
}

bool ct_is_file(const char *path)
{
    return access(path, F_OK) == 0;
}
