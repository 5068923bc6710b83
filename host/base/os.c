/* What belongs to the operating system: mutexes, a text per thread, files. Called by base. To port the
 * library, port this file; it is written for POSIX.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/os.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ca_mutex {
    pthread_mutex_t posix;
};

ca_mutex *ca_mutex_create(void)
{
    ca_mutex *mutex = malloc(sizeof *mutex);
    if (mutex != NULL && pthread_mutex_init(&mutex->posix, NULL) != 0) {
        free(mutex);
        mutex = NULL;
    }
    return mutex;
}

void ca_mutex_destroy(ca_mutex *mutex)
{
    if (mutex == NULL)
        return;
    pthread_mutex_destroy(&mutex->posix);
    free(mutex);
}

void ca_mutex_lock(ca_mutex *mutex)
{
    pthread_mutex_lock(&mutex->posix);
}

void ca_mutex_unlock(ca_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->posix);
}

static pthread_mutex_t global_locks[CA_GLOBAL_LOCKS] = {
    [CA_LOCK_DEFAULT_CONTEXT] = PTHREAD_MUTEX_INITIALIZER,
    [CA_LOCK_CLBLAST] = PTHREAD_MUTEX_INITIALIZER,
};

void ca_global_lock_acquire(ca_global_lock lock)
{
    pthread_mutex_lock(&global_locks[lock]);
}

void ca_global_lock_release(ca_global_lock lock)
{
    pthread_mutex_unlock(&global_locks[lock]);
}

static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static pthread_key_t text_key;
static bool text_key_made;

static void make_text_key(void)
{
    text_key_made = pthread_key_create(&text_key, free) == 0;
}

/* The main thread's text outlives no key, and a thread that ends after the library is unloaded calls nothing.
 */
__attribute__((destructor)) static void delete_text_key(void)
{
    if (!text_key_made)
        return;
    free(pthread_getspecific(text_key));
    pthread_key_delete(text_key);
    text_key_made = false;
}

void ca_thread_keep_text(char *text)
{
    pthread_once(&text_once, make_text_key);
    if (!text_key_made) {
        free(text);
        return;
    }
    char *before = pthread_getspecific(text_key);
    if (pthread_setspecific(text_key, text) == 0)
        free(before);
    else
        free(text);
}

const char *ca_thread_text(void)
{
    const char *text = text_key_made ? pthread_getspecific(text_key) : NULL;
    return text != NULL ? text : "";
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

const char *ca_find_text(const char *text, const char *part)
{
    for (;; ++text) {
        size_t i = 0;
        while (part[i] != '\0' && lower(text[i]) == lower(part[i]))
            ++i;
        if (part[i] == '\0')
            return text;
        if (*text == '\0')
            return NULL;
    }
}

char *ca_read_file(const char *path, size_t *bytes)
{
    char *text = NULL;
    size_t used = 0, room = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    for (;;) {
        if (room - used < 2) {
            size_t larger = room == 0 ? 16384 : room * 2;
            char *moved = larger > room ? realloc(text, larger) : NULL;
            if (moved == NULL)
                goto fail;
            text = moved;
            room = larger;
        }
        size_t got = fread(text + used, 1, room - used - 1, file);
        if (got == 0)
            break;
        used += got;
    }
    if (ferror(file))
        goto fail;
    fclose(file);
    text[used] = '\0';
    *bytes = used;
    return text;
fail:
    fclose(file);
    free(text);
    return NULL;
}
