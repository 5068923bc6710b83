/* What belongs to the operating system: mutexes, a text per thread, files and folders. Called by base. To
 * port the library, port this file; it is written for POSIX.
 */
#define _POSIX_C_SOURCE 200809L
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* ---- Files ---- */

char *ca_read_file(const char *path, size_t most, size_t *bytes)
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
        if (used > most)
            goto fail;
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

/* malloc'd, or NULL. */
static char *concat(const char *a, const char *b, const char *c)
{
    const size_t room = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(room);
    if (text != NULL)
        snprintf(text, room, "%s%s%s", a, b, c);
    return text;
}

char *ca_user_cache_folder(const char *name)
{
#ifdef __APPLE__
    static const char caches[] = "/Library/Caches/";
#else
    static const char caches[] = "/.cache/";
#endif
    char text[16384];
    struct passwd user, *found = NULL;
    if (getpwuid_r(geteuid(), &user, text, sizeof text, &found) != 0 || found == NULL ||
        user.pw_dir[0] != '/')
        return NULL;
    return concat(user.pw_dir, caches, name);
}

const char *ca_make_private_folder(const char *path)
{
    struct stat facts;
    const char *reason = NULL;
    char *part = concat(path, "", "");
    if (part == NULL)
        return "no host memory";
    for (char *at = part; *at != '\0'; ++at)
        if (*at == '/' && at > part) {
            *at = '\0';
            mkdir(part, S_IRWXU);
            *at = '/';
        }
    if ((mkdir(part, S_IRWXU) != 0 && errno != EEXIST) || stat(part, &facts) != 0)
        reason = strerror(errno);
    else if (!S_ISDIR(facts.st_mode))
        reason = "it is not a folder";
    else if (facts.st_uid != geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        reason = "it is another user's, or others may write to it";
    free(part);
    return reason;
}

const char *ca_replace_file(const char *path, const void *data, size_t bytes)
{
    const char *reason = NULL;
    char *draft = concat(path, ".XXXXXX", "");
    if (draft == NULL)
        return "no host memory";
    const int file = mkstemp(draft);
    if (file < 0) {
        reason = strerror(errno);
        goto done;
    }
    for (const char *at = data; bytes > 0 && reason == NULL;) {
        const ssize_t written = write(file, at, bytes);
        if (written < 0) {
            reason = strerror(errno);
        } else {
            at += written;
            bytes -= (size_t)written;
        }
    }
    if (close(file) != 0 && reason == NULL)
        reason = strerror(errno);
    if (reason == NULL && rename(draft, path) != 0)
        reason = strerror(errno);
    if (reason != NULL)
        unlink(draft);
done:
    free(draft);
    return reason;
}

void ca_trim_folder(const char *path, const char *part, size_t most)
{
    for (bool removed = true; removed;) {
        char oldest[256] = "";
        time_t then = 0;
        uint64_t bytes = 0;
        DIR *folder = opendir(path);
        if (folder == NULL)
            return;
        for (struct dirent *file; (file = readdir(folder)) != NULL;) {
            struct stat facts;
            if (strstr(file->d_name, part) == NULL ||
                fstatat(dirfd(folder), file->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
                !S_ISREG(facts.st_mode))
                continue;
            bytes += (uint64_t)facts.st_size;
            if (oldest[0] == '\0' || facts.st_mtime < then) {
                then = facts.st_mtime;
                snprintf(oldest, sizeof oldest, "%s", file->d_name);
            }
        }
        removed = bytes > most && unlinkat(dirfd(folder), oldest, 0) == 0;
        closedir(folder);
    }
}
