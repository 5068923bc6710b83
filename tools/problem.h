/* tools/problem.h: from files and options to a description and a call of the library, for `clattn run`.
 * Called by run.c. */
#ifndef TOOLS_PROBLEM_H
#define TOOLS_PROBLEM_H

#include "session.h"

/* The options of `clattn run`. */
typedef struct tool_run_values {
    const char *q, *k, *v, *out, *lse, *weights, *mask, *sinks, *device, *kernel;
    int layout; /* clattn_layout */
    double scale, softcap;
    int causal; /* clattn_alignment, or -1 */
    tool_list window, lengths_q, lengths_kv;
    int dtype; /* clattn_dtype */
    bool list_kernels, json;
    int64_t repeat;
} tool_run_values;

typedef struct tool_problem {
    clattn_attention_desc desc;
    clattn_attention_call call; /* over the arrays below */
    tool_array q, k, v;         /* in the storage type */
    tool_array mask;            /* BOOL or F32 */
    tool_array sinks;
    int32_t *lengths_q, *lengths_kv;
    tool_array out, lse, weights;
} tool_problem;

/* Reads the files and judges what the library cannot name: which option's tensor does not fit which. On
 * failure *problem is all zero. */
bool tool_problem_create(const tool_run_values *given, tool_problem *problem, tool_error *error);
void tool_problem_free(tool_problem *problem); /* all zero is allowed */

/* Pairs of query and key that see each other, over all batches and heads. */
double tool_problem_visible_pairs(const tool_problem *problem);

#endif
