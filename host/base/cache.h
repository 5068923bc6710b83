/* host/base/cache.h: built programs and verdicts on disk, kept from one process to the next. Called by
 * program.c and verdict.c, by one thread of a context at a time. Nothing here fails a call: what cannot be
 * read is built, what cannot be written is built again by the next process. The first trouble with the folder
 * goes to the log, and the context keeps nothing from then on. */
#ifndef CA_BASE_CACHE_H
#define CA_BASE_CACHE_H

#include "base/context.h"

/* All that a built program depends on, as one malloc'd text; `texts` is NULL-ended. NULL when the context
 * keeps nothing. */
char *ca_cache_key(clattn_context *context, char *const *texts, const char *options);

/* The binary that was kept under the key, malloc'd; NULL when there is none, or none that is whole. */
unsigned char *ca_cache_read(const clattn_context *context, const char *key, size_t *bytes);

/* Keeps a binary under the key, in the place of one that is there. */
void ca_cache_write(clattn_context *context, const char *key, const unsigned char *binary, size_t bytes);

/* FNV-1a, from the start or a sum before. */
#define CA_HASH_START 0xcbf29ce484222325u
uint64_t ca_hash(uint64_t sum, const void *data, size_t bytes);

#endif
