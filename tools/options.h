/* tools/options.h: the options of a command as one table, from which both reading and --help are made.
 * Every command owns such a table; main.c lists the commands. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "files/array.h"

/* What an option writes into its command's values. */
typedef enum tool_kind {
    TOOL_FLAG,         /* bool */
    TOOL_TEXT,         /* const char *, NULL when not given */
    TOOL_REAL,         /* double, finite; keeps what it held when not given */
    TOOL_WHOLE,        /* int64_t, `least` or more; likewise */
    TOOL_WORD,         /* int, the index of the word in `value`, "a|b|c"; likewise */
    TOOL_WORD_OR_BARE, /* likewise; without =WORD it is word 0 */
    TOOL_LIST          /* tool_list of whole numbers with commas between, none below `least` */
} tool_kind;

typedef struct tool_list {
    int64_t *value; /* NULL when not given */
    size_t count;
} tool_list;

typedef struct tool_option {
    const char *name; /* "--q" */
    tool_kind kind;
    size_t offset;     /* of the field in the command's values */
    const char *value; /* what --help calls the value; for words, the words */
    const char *help;
    int64_t least;
} tool_option;

typedef struct tool_command {
    const char *name;
    const char *usage;   /* the needed options, for the first line of --help */
    const char *summary; /* one line */
    const char *notes;   /* more lines, or "" */
    const char *example;
    const tool_option *options;
    size_t count;
    int (*run)(int argc, char **argv); /* the exit code; argv begins behind the command's name */
} tool_command;

enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_GO_ON = -1 };

/* Fills `values`. Returns TOOL_GO_ON, or the exit code: --help was printed, or a complaint was. Then the
 * lists are freed. */
int tool_options_read(const tool_command *command, int argc, char **argv, void *values);
void tool_options_free(const tool_command *command, void *values);

/* Prints "clattn COMMAND: message" to stderr and returns TOOL_USAGE. */
int tool_usage(const tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);

/* Prints the error of a command that is not `ok`, makes sure that stdout took everything, returns the exit
 * code. */
int tool_end(const tool_command *command, bool ok, const tool_error *error);

#endif
