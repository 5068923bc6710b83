/* tools/options.c: reads a command's options by its table and prints its --help.
 * Called by every command. */
#include "options.h"

#include "files/text.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tool_usage(const tool_command *command, const char *format, ...)
{
    char text[512];
    tool_error error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tool_fail(&error, "%s", text);
    fprintf(stderr, "clattn %s: %s\n", command->name, error.text);
    return TOOL_USAGE;
}

int tool_end(const tool_command *command, bool ok, const tool_error *error)
{
    if (ok) {
        errno = 0;
        if (fflush(stdout) == 0 && !ferror(stdout))
            return TOOL_DONE;
        fprintf(stderr, "clattn %s: cannot write to standard output: %s\n", command->name,
                errno ? strerror(errno) : "it is incomplete");
        return TOOL_FAILED;
    }
    fprintf(stderr, "clattn %s: %s\n", command->name, error->text);
    return error->usage ? TOOL_USAGE : TOOL_FAILED;
}

static void print_help(const tool_command *command)
{
    enum { COLUMN = 32 };
    printf("usage: clattn %s %s\n%s\n%s\n", command->name, command->usage, command->summary, command->notes);
    for (size_t index = 0; index < command->count; index++) {
        const tool_option *option = &command->options[index];
        const char *between = option->kind == TOOL_FLAG ? "" : option->kind == TOOL_WORD_OR_BARE ? "[=" : " ";
        int used = printf("  %s%s%s%s", option->name, between, option->value ? option->value : "",
                          option->kind == TOOL_WORD_OR_BARE ? "]" : "");
        if (used >= COLUMN)
            used = printf("\n") - 1;
        printf("%*s%s\n", COLUMN - used, "", option->help);
    }
    printf("  --help%*sthis text\n\nexample:\n%s\n", COLUMN - 8, "", command->example);
}

static const tool_option *find(const tool_command *command, const char *name, size_t length)
{
    for (size_t index = 0; index < command->count; index++) {
        const char *known = command->options[index].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return &command->options[index];
    }
    return NULL;
}

static int unknown(const tool_command *command, const char *name, size_t length)
{
    char asked[64];
    const char *nearest = "--help";
    snprintf(asked, sizeof asked, "%.*s", (int)(length < sizeof asked ? length : sizeof asked - 1), name);
    for (size_t index = 0; index < command->count; index++) {
        if (tool_distance(asked, command->options[index].name) < tool_distance(asked, nearest))
            nearest = command->options[index].name;
    }
    return tool_usage(command, "unknown option %s; the nearest is %s", asked, nearest);
}

static bool read_whole(const char *text, const char **end, int64_t *value)
{
    char *stop;
    errno = 0;
    long long number = strtoll(text, &stop, 10);
    *end = stop;
    *value = number;
    return stop != text && errno == 0;
}

/* The index of `word` among "a|b|c", or -1. */
static int word_index(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (int index = 0;; index++) {
        size_t known = strcspn(words, "|");
        if (known == length && memcmp(words, word, length) == 0)
            return index;
        if (!words[known])
            return -1;
        words += known + 1;
    }
}

static int set_list(const tool_command *command, const tool_option *option, const char *text, tool_list *list)
{
    size_t room = 1;
    for (const char *at = text; *at; at++)
        room += *at == ',';
    list->value = calloc(room, sizeof *list->value);
    if (!list->value)
        return tool_usage(command, "%s: no memory for %zu numbers", option->name, room);
    for (const char *at = text;; at++) {
        int64_t *value = &list->value[list->count];
        if (!read_whole(at, &at, value) || (*at && *at != ','))
            return tool_usage(command, "%s %s: whole numbers with commas between are wanted", option->name,
                              text);
        if (*value < option->least)
            return tool_usage(command, "%s %s: %lld is less than %lld", option->name, text, (long long)*value,
                              (long long)option->least);
        list->count++;
        if (!*at)
            return TOOL_GO_ON;
    }
}

static int set(const tool_command *command, const tool_option *option, const char *text, void *values)
{
    void *field = (char *)values + option->offset;
    const char *end;
    char *stop;
    double real;
    int64_t whole;
    int word;
    switch (option->kind) {
    case TOOL_FLAG:
        *(bool *)field = true;
        break;
    case TOOL_TEXT:
        if (!*text)
            return tool_usage(command, "%s: %s must not be empty", option->name, option->value);
        *(const char **)field = text;
        break;
    case TOOL_REAL:
        real = strtod(text, &stop);
        if (stop == text || *stop || !isfinite(real) || fabs(real) > FLT_MAX)
            return tool_usage(command, "%s %s: a finite number is wanted", option->name, text);
        *(double *)field = real;
        break;
    case TOOL_WHOLE:
        if (!read_whole(text, &end, &whole) || *end)
            return tool_usage(command, "%s %s: a whole number is wanted", option->name, text);
        if (whole < option->least)
            return tool_usage(command, "%s %s: at least %lld is wanted", option->name, text,
                              (long long)option->least);
        *(int64_t *)field = whole;
        break;
    case TOOL_WORD:
    case TOOL_WORD_OR_BARE:
        word = text ? word_index(option->value, text) : 0;
        if (word < 0)
            return tool_usage(command, "%s %s: one of %s is wanted", option->name, text, option->value);
        *(int *)field = word;
        break;
    case TOOL_LIST:
        return set_list(command, option, text, field);
    }
    return TOOL_GO_ON;
}

/* Reads the option at argv[*at] and moves *at to the last word it took. */
static int read_one(const tool_command *command, int argc, char **argv, int *at, bool *seen, void *values)
{
    const char *word = argv[*at];
    size_t length = strcspn(word, "=");
    const char *value = word[length] ? word + length + 1 : NULL;
    const tool_option *option = find(command, word, length);
    if (!option && strncmp(word, "--", 2) != 0)
        return tool_usage(command, "%s: not an option: they begin with --", word);
    if (strcmp(word, "--help") == 0) {
        print_help(command);
        return TOOL_DONE;
    }
    if (!option)
        return unknown(command, word, length);
    bool bare = option->kind == TOOL_FLAG || option->kind == TOOL_WORD_OR_BARE;
    if (option->kind == TOOL_FLAG && value)
        return tool_usage(command, "%s takes no value", option->name);
    if (seen[option - command->options])
        return tool_usage(command, "%s is given twice", option->name);
    seen[option - command->options] = true;
    if (!bare && !value) {
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            return tool_usage(command, "%s: its value %s is missing", option->name, option->value);
        value = argv[++*at];
    }
    return set(command, option, value, values);
}

int tool_options_read(const tool_command *command, int argc, char **argv, void *values)
{
    int code = TOOL_GO_ON;
    bool *seen = calloc(command->count + 1, sizeof *seen);
    if (!seen)
        code = tool_usage(command, "no memory");
    for (int at = 0; at < argc && code == TOOL_GO_ON; at++)
        code = read_one(command, argc, argv, &at, seen, values);
    free(seen);
    if (code != TOOL_GO_ON)
        tool_options_free(command, values);
    return code;
}

void tool_options_free(const tool_command *command, void *values)
{
    for (size_t index = 0; index < command->count; index++) {
        const tool_option *option = &command->options[index];
        if (option->kind != TOOL_LIST)
            continue;
        tool_list *list = (tool_list *)((char *)values + option->offset);
        free(list->value);
        list->value = NULL;
        list->count = 0;
    }
}
