/* tools/probe/children.h: processes that answer with JSON objects on file descriptor 3, a line each, of which
 * the last counts; or do not: those that crash, hang, end early, print without end or take memory without end
 * cost what they had not answered yet and nothing else. Called by gather.c. */
#ifndef TOOLS_PROBE_CHILDREN_H
#define TOOLS_PROBE_CHILDREN_H

#include "files/array.h"

#include <cjson/cJSON.h>

enum { CHILD_WORDS = 256 };

typedef enum child_end {
    CHILD_ANSWERED,  /* all */
    CHILD_CRASHED,   /* ended by a signal */
    CHILD_TIMED_OUT, /* and was ended */
    CHILD_EXITED,    /* without an answer */
    CHILD_RUBBISH,   /* its answer is no JSON object */
    CHILD_MEMORY,    /* took more than is allowed, and was ended */
    CHILD_NOT_RUN    /* there was nothing to run */
} child_end;

/* "answered", "crashed", "timed out", "exited", "rubbish", "out of memory", "not run". */
const char *child_end_name(child_end end);

typedef struct child {
    /* Set before, the rest zero; or `end` is NOT_RUN, and it is left alone. */
    const char *name;               /* of what is asked, for people who wait */
    const char *const *arguments;   /* of the program, NULL-ended; the first is its file */
    const char *const *environment; /* NULL-ended pairs name, value; value NULL: the name is removed */
    /* Set by children_run. */
    child_end end;
    char words[CHILD_WORDS]; /* what happened, with the last line that it wrote to stdout or stderr */
    double seconds;
    cJSON *answer; /* the last whole one, or NULL; its texts are clean and short. The caller deletes it */
} child;

typedef struct child_limits {
    double seconds;
    double memory_bytes; /* resident */
} child_limits;

/* Runs them, `together` or one after the other, and returns when all have ended. False, with the error, when
 * a process cannot be started at all. */
bool children_run(child *all, size_t count, bool together, const child_limits *limits, tool_error *error);

#endif
