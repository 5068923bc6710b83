/* host/base/verdict.c: keeps what tests of a device have shown. Called by attention/proof.c, features.c and
 * device.c; context.c releases it. */
#include "base/verdict.h"

#include "base/cache.h"
#include "base/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ca_noted {
    struct ca_noted *next;
    char *name;
    ca_verdict verdict;
    char words[CLATTN_TEXT_BYTES];
};

/* What a file holds. */
typedef struct stored {
    int32_t verdict;
    char words[CLATTN_TEXT_BYTES];
} stored;

/* NULL where nothing is kept on disk: also for kernels that somebody is editing. */
static char *disk_key(clattn_context *context, const char *name)
{
    char sum[32], text[CLATTN_TEXT_BYTES];
    if (context->cache_dir == NULL || context->kernel_dir != NULL)
        return NULL;
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)ca_sources_sum());
    snprintf(text, sizeof text, "%s", name);
    return ca_cache_key(context, (char *const[]){ text, NULL }, sum);
}

static ca_verdict read_disk(clattn_context *context, const char *name, char words[CLATTN_TEXT_BYTES])
{
    stored found = { CA_UNTESTED, "" };
    size_t bytes = 0;
    char *key = disk_key(context, name);
    unsigned char *data = key != NULL ? ca_cache_read(context, key, &bytes) : NULL;
    if (data != NULL && bytes == sizeof found)
        memcpy(&found, data, sizeof found);
    free(data);
    free(key);
    found.words[CLATTN_TEXT_BYTES - 1] = '\0';
    memcpy(words, found.words, CLATTN_TEXT_BYTES);
    return found.verdict == CA_RIGHT || found.verdict == CA_WRONG ? (ca_verdict)found.verdict : CA_UNTESTED;
}

static struct ca_noted *find_noted(const clattn_context *context, const char *name)
{
    struct ca_noted *noted = context->verdicts;
    while (noted != NULL && strcmp(noted->name, name) != 0)
        noted = noted->next;
    return noted;
}

/* Without memory it is forgotten. */
static void note(clattn_context *context, const char *name, ca_verdict verdict, const char *words)
{
    struct ca_noted *noted = find_noted(context, name);
    if (noted == NULL) {
        const size_t bytes = strlen(name) + 1;
        noted = calloc(1, sizeof *noted);
        if (noted == NULL || (noted->name = malloc(bytes)) == NULL) {
            free(noted);
            return;
        }
        memcpy(noted->name, name, bytes);
        noted->next = context->verdicts;
        context->verdicts = noted;
    }
    noted->verdict = verdict;
    snprintf(noted->words, sizeof noted->words, "%s", words != NULL ? words : "");
}

ca_verdict ca_verdict_find(clattn_context *context, const char *name, char words[CLATTN_TEXT_BYTES])
{
    words[0] = '\0';
    ca_mutex_lock(context->lock);
    const struct ca_noted *noted = find_noted(context, name);
    ca_verdict verdict = CA_UNTESTED;
    if (noted != NULL) {
        verdict = noted->verdict;
        memcpy(words, noted->words, sizeof noted->words);
    } else {
        verdict = read_disk(context, name, words);
        note(context, name, verdict, words);
    }
    ca_mutex_unlock(context->lock);
    return verdict;
}

void ca_verdict_keep(clattn_context *context, const char *name, ca_verdict verdict, const char *words)
{
    stored made = { (int32_t)verdict, "" };
    snprintf(made.words, sizeof made.words, "%s", words != NULL ? words : "");
    ca_mutex_lock(context->lock);
    note(context, name, verdict, words);
    char *key = disk_key(context, name);
    if (key != NULL)
        ca_cache_write(context, key, (const unsigned char *)&made, sizeof made);
    ca_mutex_unlock(context->lock);
    free(key);
}

ca_verdict ca_verdict_of_device(const ca_device *device, const char *cache_dir, const char *name)
{
    char words[CLATTN_TEXT_BYTES];
    clattn_context reader = { .device = *device, .cache_dir = ca_copy_text(cache_dir) };
    const ca_verdict verdict = read_disk(&reader, name, words);
    free(reader.cache_dir);
    return verdict;
}

void ca_verdicts_release(clattn_context *context)
{
    while (context->verdicts != NULL) {
        struct ca_noted *next = context->verdicts->next;
        free(context->verdicts->name);
        free(context->verdicts);
        context->verdicts = next;
    }
}
