/* Built programs on disk: one file an entry, named by a hash of its key, which it holds whole. Called by
 * program.c.
 *
 *     entry_head | key | binary
 *
 * Numbers are as they lie in memory: a file of another kind of machine is a foreign file.
 */
#include "base/cache.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDING ".program"

enum { ENTRY_MOST_BYTES = 32 << 20, FOLDER_MOST_BYTES = 256 << 20 };

typedef struct entry_head {
    char magic[8];
    uint64_t key_bytes, binary_bytes;
    uint64_t sum; /* of key and binary */
} entry_head;

static const char magic[8] = "clattn1";

uint64_t ca_hash(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; ++i)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

/* It finds accidents; intent is kept out by the mode of the folder. */
static uint64_t hash(const void *data, size_t bytes)
{
    return ca_hash(CA_HASH_START, data, bytes);
}

static void give_up(clattn_context *context, const char *reason)
{
    ca_log(context, CLATTN_LOG_WARNING, "no more programs are kept in %s: %s", context->cache_dir, reason);
    free(context->cache_dir);
    context->cache_dir = NULL;
}

char *ca_cache_key(clattn_context *context, char *const *texts, const char *options)
{
    const ca_device *device = &context->device;
    const char *reason = context->cache_dir != NULL ? ca_make_private_folder(context->cache_dir) : NULL;
    if (reason != NULL)
        give_up(context, reason);
    if (context->cache_dir == NULL)
        return NULL;
    char facts[8 * CLATTN_TEXT_BYTES];
    snprintf(facts, sizeof facts, "%s\n%s\n%s\n%s\n%s\n%s\n", clattn_version(), device->info.platform,
             device->platform_version, device->info.name, device->info.version, device->info.driver);
    size_t bytes = strlen(facts) + strlen(options) + 2;
    for (size_t i = 0; texts[i] != NULL; ++i)
        bytes += strlen(texts[i]);
    char *key = malloc(bytes);
    if (key == NULL)
        return NULL;
    size_t used = (size_t)snprintf(key, bytes, "%s%s\n", facts, options);
    for (size_t i = 0; texts[i] != NULL; ++i)
        used += (size_t)snprintf(key + used, bytes - used, "%s", texts[i]);
    return key;
}

/* The file of a key, malloc'd, or NULL. */
static char *entry_path(const clattn_context *context, const char *key)
{
    const size_t room = strlen(context->cache_dir) + sizeof "/0123456789abcdef" ENDING;
    char *path = malloc(room);
    if (path != NULL)
        snprintf(path, room, "%s/%016llx" ENDING, context->cache_dir,
                 (unsigned long long)hash(key, strlen(key)));
    return path;
}

unsigned char *ca_cache_read(const clattn_context *context, const char *key, size_t *bytes)
{
    const size_t key_bytes = strlen(key);
    entry_head head;
    size_t file_bytes = 0;
    char *path = entry_path(context, key);
    char *file = path != NULL ? ca_read_file(path, ENTRY_MOST_BYTES, &file_bytes) : NULL;
    free(path);
    if (file == NULL || file_bytes <= sizeof head + key_bytes)
        goto fail;
    memcpy(&head, file, sizeof head);
    const size_t rest = file_bytes - sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.key_bytes != key_bytes ||
        head.binary_bytes != rest - key_bytes || head.sum != hash(file + sizeof head, rest) ||
        memcmp(file + sizeof head, key, key_bytes) != 0)
        goto fail;
    *bytes = rest - key_bytes;
    memmove(file, file + sizeof head + key_bytes, *bytes);
    return (unsigned char *)file;
fail:
    free(file);
    return NULL;
}

void ca_cache_write(clattn_context *context, const char *key, const unsigned char *binary, size_t bytes)
{
    entry_head head = { .key_bytes = strlen(key), .binary_bytes = bytes };
    if (context->cache_dir == NULL || bytes == 0 || bytes > ENTRY_MOST_BYTES - sizeof head - head.key_bytes)
        return;
    const size_t file_bytes = sizeof head + head.key_bytes + bytes;
    char *path = entry_path(context, key), *file = malloc(file_bytes);
    if (path != NULL && file != NULL) {
        memcpy(file + sizeof head, key, head.key_bytes);
        memcpy(file + sizeof head + head.key_bytes, binary, bytes);
        memcpy(head.magic, magic, sizeof magic);
        head.sum = hash(file + sizeof head, head.key_bytes + bytes);
        memcpy(file, &head, sizeof head);
        const char *reason = ca_replace_file(path, file, file_bytes);
        if (reason != NULL)
            give_up(context, reason);
        else
            ca_trim_folder(context->cache_dir, ENDING, FOLDER_MOST_BYTES);
    }
    free(file);
    free(path);
}
