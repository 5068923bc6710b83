/* host/attention/variants.h: the table of kernel variants and what a family of kernels has to offer. plan.c
 * walks the table; adding a variant is one line in variants.c. */
#ifndef CA_ATTENTION_VARIANTS_H
#define CA_ATTENTION_VARIANTS_H

#include "attention/problem.h"

typedef struct ca_variant ca_variant;

/* How a kind of kernel works. */
typedef struct ca_family {
    /* True, with the reason, when the row cannot do this problem on this device. Asked after the row's own
     * limits; NULL: none. */
    bool (*refuse)(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES]);
    /* Builds kernels and allocates the workspace, its size to *workspace_bytes. */
    clattn_status (*create)(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes);
    void (*destroy)(void *state); /* NULL is allowed */
    /* Enqueues the kernels on an in-order queue. The call is judged and not empty. */
    clattn_status (*enqueue)(void *state, cl_command_queue queue, const ca_call *call);
} ca_family;

struct ca_variant {
    const char *name;
    const ca_family *family;
    cl_device_type devices;     /* types of device that it is for */
    cl_uint min_float_width;    /* native float vector of the device, at least */
    int64_t min_head, max_head; /* d_qk and d_v */
    int64_t max_len_q;
    int queries, keys; /* tile, as the family understands it */
    const char *gemm;  /* row of the matrix multiplications, or NULL */
    const char *why;
};

extern const ca_variant ca_variants[];
extern const size_t ca_variant_count;

extern const ca_family ca_family_split, ca_family_lanes, ca_family_tiles, ca_family_steps;

/* True, with the reason, when the row cannot do this problem on this device. Dispatch and
 * clattn_attention_supports both ask this function. */
bool ca_variant_refuses(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                        char reason[CLATTN_TEXT_BYTES]);

/* NULL when there is no such row. */
const ca_variant *ca_variant_find(const char *name);

/* The names of all rows, for a message. */
void ca_variant_names(char *text, size_t bytes);

/* As ca_type_name; "NONE" for the bias of a problem without one. */
const char *ca_bias_name(const ca_problem *problem);

#endif
