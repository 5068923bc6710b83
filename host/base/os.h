/* host/base/os.h: what belongs to the operating system, all of it. os.c is the one file to port. */
#ifndef CA_BASE_OS_H
#define CA_BASE_OS_H

#include <stddef.h>

typedef struct ca_mutex ca_mutex;

/* NULL when there is no memory. */
ca_mutex *ca_mutex_create(void);
void ca_mutex_destroy(ca_mutex *mutex); /* NULL is allowed */
void ca_mutex_lock(ca_mutex *mutex);
void ca_mutex_unlock(ca_mutex *mutex);

/* Locks of the whole process, there before main. */
typedef enum ca_global_lock { CA_LOCK_DEFAULT_CONTEXT, CA_LOCK_CLBLAST, CA_GLOBAL_LOCKS } ca_global_lock;
void ca_global_lock_acquire(ca_global_lock lock);
void ca_global_lock_release(ca_global_lock lock);

/* One text per thread, empty at first. Keeping takes a malloc'd text over, frees the one before, and frees it
 * at the end of the thread. */
void ca_thread_keep_text(char *text);
const char *ca_thread_text(void);

/* Case-insensitive search of ASCII text; NULL when it is not there. */
const char *ca_find_text(const char *text, const char *part);

/* ---- Files. Where a reason is returned, NULL is success. ---- */

/* Whole file of at most `most` bytes as malloc'd text with a final NUL, or NULL. */
char *ca_read_file(const char *path, size_t most, size_t *bytes);

/* The folder `name` in the user's cache directory, malloc'd, whether it is there or not; NULL where the
 * system knows no such directory. */
char *ca_user_cache_folder(const char *name);

/* Makes a folder, and those above it, with mode 0700 where they are missing. One that is there must belong to
 * the user and nobody else may write to it. */
const char *ca_make_private_folder(const char *path);

/* Writes a file in the place of one that is there. Whoever reads sees all of the one or all of the other. */
const char *ca_replace_file(const char *path, const void *data, size_t bytes);

/* Removes the oldest of the files whose names hold `part`, while they have more than `most` bytes in all. */
void ca_trim_folder(const char *path, const char *part, size_t most);

#endif
