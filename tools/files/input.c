/* tools/files/input.c: opens and reads regular files, turns byte order.
 * Called by the readers beside it. */
#include "files/input.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

bool tool_input_open(const char *path, tool_input *input, tool_error *error)
{
    struct stat facts;
    memset(input, 0, sizeof *input);
    if (stat(path, &facts) != 0)
        return tool_fail(error, "%s: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return tool_fail(error, "%s: not a regular file", path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return tool_fail(error, "%s: %s", path, strerror(errno));
    *input = (tool_input){ .path = path, .file = file, .bytes = (uint64_t)facts.st_size };
    return true;
}

void tool_input_close(tool_input *input)
{
    if (input->file)
        fclose(input->file);
    memset(input, 0, sizeof *input);
}

bool tool_input_read(tool_input *input, uint64_t offset, size_t bytes, void *to, tool_error *error)
{
    if (offset > input->bytes || bytes > input->bytes - offset)
        return tool_fail(error, "%s: truncated: %zu bytes wanted at byte %llu, the file has %llu bytes",
                         input->path, bytes, (unsigned long long)offset, (unsigned long long)input->bytes);
    errno = 0;
    if (fseeko(input->file, (off_t)offset, SEEK_SET) != 0 || fread(to, 1, bytes, input->file) != bytes)
        return tool_fail(error, "%s: cannot read %zu bytes at byte %llu: %s", input->path, bytes,
                         (unsigned long long)offset, errno ? strerror(errno) : "the file became shorter");
    return true;
}

uint64_t tool_little(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t at = bytes; at-- > 0;)
        value = value << 8 | from[at];
    return value;
}

void tool_swap(void *data, size_t elements, size_t element_bytes, bool file_is_little)
{
    const uint16_t one = 1;
    bool host_is_little = *(const unsigned char *)&one == 1;
    if (host_is_little == file_is_little || element_bytes == 1)
        return;
    unsigned char *at = data;
    for (size_t index = 0; index < elements; index++, at += element_bytes) {
        for (size_t low = 0, high = element_bytes - 1; low < high; low++, high--) {
            unsigned char kept = at[low];
            at[low] = at[high];
            at[high] = kept;
        }
    }
}
