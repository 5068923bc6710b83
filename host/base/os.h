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

/* Whole file as malloc'd text with a final NUL, or NULL. */
char *ca_read_file(const char *path, size_t *bytes);

#endif
