/* tools/module.h: from files and options to a multi-head attention module of the library, for `clattn mha`.
 * Called by mha.c. */
#ifndef TOOLS_MODULE_H
#define TOOLS_MODULE_H

#include "session.h"

/* The options of `clattn mha`. */
typedef struct tool_mha_values {
    const char *weights, *prefix, *x, *context, *key_padding, *out, *attention, *plot, *tokens,
        *context_tokens, *expect, *device, *kernel, *gemm;
    int64_t heads, plot_batch, repeat;
    double tolerance; /* below 0: none */
    bool drop_padding, json;
} tool_mha_values;

enum { TOOL_MHA_PARTS = 10 };

typedef struct tool_module {
    clattn_mha_desc desc;
    clattn_mha_weights weights; /* over `part` */
    clattn_mha_call call;       /* over the arrays below */
    const char *naming;         /* whose names the weights have */
    tool_array part[TOOL_MHA_PARTS];
    tool_array x, context; /* F32; no context: self-attention */
    tool_array padding;    /* U8 */
    tool_array out, attention;
} tool_module;

/* Reads the files and judges their shapes. On failure *module is all zero. */
bool tool_module_create(const tool_mha_values *given, tool_module *module, tool_error *error);
void tool_module_free(tool_module *module); /* all zero is allowed */

#endif
