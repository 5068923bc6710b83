/* host/attention/fused.h: what the families of one fused kernel share: a kernel of one work-group per tile of
 * queries, head and batch. Called by family_lanes.c and family_tiles.c. */
#ifndef CA_ATTENTION_FUSED_H
#define CA_ATTENTION_FUSED_H

#include "attention/variants.h"

/* How a family's kernel is made. */
typedef struct ca_fused_kernel {
    const char *source[6]; /* files below cl/, NULL after the last */
    const char *name;      /* of the kernel: params, q, k, v, out, lse, keep, bias, sinks, rows_q, rows_kv */
    const char *options;   /* -D for its tiles, beside TYPE, BIAS, D and DV */
    int64_t queries;       /* of a group */
    size_t work_items;     /* of a group */
} ca_fused_kernel;

/* The state of a family: fills create, destroy and enqueue of ca_family. The strings of `kernel` but
 * `options` must be static. */
clattn_status ca_fused_create(const ca_fused_kernel *kernel, clattn_context *context,
                              const ca_problem *problem, void **state);
void ca_fused_destroy(void *state);
clattn_status ca_fused_enqueue(void *state, cl_command_queue queue, const ca_call *call);

#endif
