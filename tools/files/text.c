/* tools/files/text.c: reads lines of tokens, measures how far words are apart.
 * Called by the program's commands and by safetensors.c. */
#include "files/text.h"

#include "files/input.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 sequence that begins here, 0 where none does. */
static size_t sequence(const unsigned char *at, const unsigned char *end)
{
    size_t bytes = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3 : 0;
    if (*at >= 0xf0 && *at < 0xf5)
        bytes = 4;
    if (bytes == 0 || bytes > (size_t)(end - at))
        return 0;
    for (size_t next = 1; next < bytes; next++) {
        if ((at[next] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
    bool surrogate = *at == 0xed && at[1] >= 0xa0;
    bool beyond = *at == 0xf4 && at[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : bytes;
}

static void clean(unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        size_t bytes = sequence(at, end);
        if (bytes == 0 || ((*at < 0x20 || *at == 0x7f) && *at != '\n')) {
            *at = '?';
            bytes = 1;
        }
        at += bytes;
    }
}

void tool_text_clean(char *text, size_t most)
{
    unsigned char *start = (unsigned char *)text, *at = start;
    const unsigned char *end = start + strlen(text);
    while (at < end) {
        size_t bytes = sequence(at, end);
        if ((size_t)(at - start) + (bytes ? bytes : 1) > most)
            break;
        if (bytes == 0 || *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
            memset(at, '?', bytes ? bytes : 1);
        at += bytes ? bytes : 1;
    }
    *at = '\0';
}

bool tool_lines_read(const char *path, tool_lines *lines, tool_error *error)
{
    enum { LIMIT = 16 << 20 };
    tool_input in;
    tool_lines made = { 0 };
    memset(lines, 0, sizeof *lines);
    if (!tool_input_open(path, &in, error))
        return false;
    if (in.bytes > LIMIT) {
        tool_fail(error, "%s: %llu bytes, a text file may have %d", path, (unsigned long long)in.bytes,
                  LIMIT);
        goto fail;
    }
    size_t bytes = (size_t)in.bytes;
    made.memory = calloc(bytes + 2, 1);
    if (!made.memory) {
        tool_fail(error, "%s: no memory for its %zu bytes", path, bytes);
        goto fail;
    }
    if (!tool_input_read(&in, 0, bytes, made.memory, error))
        goto fail;
    if (bytes > 0 && made.memory[bytes - 1] != '\n')
        made.memory[bytes++] = '\n';
    for (size_t at = 0; at < bytes; at++) {
        if (made.memory[at] == '\n')
            made.count++;
        else if (made.memory[at] == '\r' && made.memory[at + 1] == '\n')
            made.memory[at] = ' ';
    }
    clean((unsigned char *)made.memory, (unsigned char *)made.memory + bytes);
    made.line = calloc(made.count + 1, sizeof *made.line);
    if (!made.line) {
        tool_fail(error, "%s: no memory for its %zu lines", path, made.count);
        goto fail;
    }
    char *at = made.memory;
    for (size_t index = 0; index < made.count; index++) {
        char *end = strchr(at, '\n');
        made.line[index] = at;
        at = end + 1;
        while (end > made.line[index] && end[-1] == ' ')
            end--;
        *end = 0;
    }
    tool_input_close(&in);
    *lines = made;
    return true;
fail:
    tool_lines_free(&made);
    tool_input_close(&in);
    return false;
}

void tool_lines_free(tool_lines *lines)
{
    free(lines->line);
    free(lines->memory);
    memset(lines, 0, sizeof *lines);
}

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

size_t tool_distance(const char *one, const char *other)
{
    enum { LONGEST = 63 };
    size_t rows = least(strlen(one), LONGEST), columns = least(strlen(other), LONGEST);
    size_t cost[LONGEST + 1][LONGEST + 1];
    for (size_t row = 0; row <= rows; row++) {
        for (size_t column = 0; column <= columns; column++) {
            if (row == 0 || column == 0) {
                cost[row][column] = row + column;
                continue;
            }
            size_t changed = cost[row - 1][column - 1] + (one[row - 1] != other[column - 1]);
            size_t moved = least(cost[row - 1][column], cost[row][column - 1]) + 1;
            cost[row][column] = least(changed, moved);
            if (row > 1 && column > 1 && one[row - 1] == other[column - 2] &&
                one[row - 2] == other[column - 1])
                cost[row][column] = least(cost[row][column], cost[row - 2][column - 2] + 1);
        }
    }
    return cost[rows][columns];
}
