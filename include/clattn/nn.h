/* clattn/nn.h: modules built on attention: head split and merge, and multi-head attention with its
 * projections. */
#ifndef CLATTN_NN_H
#define CLATTN_NN_H

#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Heads --------------------------------------------------------------------------------------------- */

/* How the columns of a (batch, len, width) tensor divide into heads: contiguous blocks, head 0 first. With a
 * list of sizes the blocks differ, and the split tensor is (batch, heads, len, largest size), filled up with
 * zeros. */
typedef struct clattn_heads_desc {
    int64_t batch, len, heads;
    int64_t head_size;         /* of every head, when head_sizes is NULL */
    const int64_t *head_sizes; /* [heads], each at least 1, or NULL; read during the call only */
    clattn_dtype dtype;
} clattn_heads_desc;

/* Copies x (batch, len, width), its rows at b * stride[0] + r * stride[2], to out (batch, heads, len, size),
 * at b * stride[0] + h * stride[1] + r * stride[2]; merge copies back, and leaves the filling out. Where a
 * kernel can read strides, neither is needed: attention takes the unsplit tensor as CLATTN_BSHD. In-order
 * queue on the context's device; tail as clattn_attention_enqueue; any thread. Errors: INVALID_ARGUMENT,
 * INVALID_SHAPE, BUFFER_TOO_SMALL, OVERLAP, SIZE_OVERFLOW, BUILD_FAILED, CL_FAILED. */
CLATTN_API clattn_status clattn_split_heads(clattn_context *context, cl_command_queue queue,
                                            const clattn_heads_desc *desc, const clattn_input *x,
                                            const clattn_output *out, cl_uint num_wait, const cl_event *wait,
                                            cl_event *event);
CLATTN_API clattn_status clattn_merge_heads(clattn_context *context, cl_command_queue queue,
                                            const clattn_heads_desc *desc, const clattn_input *x,
                                            const clattn_output *out, cl_uint num_wait, const cl_event *wait,
                                            cl_event *event);

/* ---- Multi-head attention ------------------------------------------------------------------------------ */

/* How a mask of the module is to be read. KEEP: a byte that is not 0 = attend. DROP: a byte that is not 0 =
 * do not attend (PyTorch's key_padding_mask and boolean attn_mask). ADD: f32 added to the scores (attention
 * mask only). */
typedef enum clattn_mask_kind {
    CLATTN_MASK_NONE,
    CLATTN_MASK_KEEP,
    CLATTN_MASK_DROP,
    CLATTN_MASK_ADD
} clattn_mask_kind;

/* Multi-head attention as in PyTorch's MultiheadAttention(batch_first=True), whose weights load unchanged:
 *
 *     q = query Wq^T + bq,  k = key Wk^T + bk,  v = value Wv^T + bv      (each embed_dim wide)
 *     head h = attention over the head's block of columns, scale 1 / sqrt(its size)
 *     out = concat(heads) Wo^T + bo
 *
 * Start from clattn_mha_desc_init. */
typedef struct clattn_mha_desc {
    int64_t batch, len_q, len_kv; /* the largest that a call will have */
    int64_t embed_dim;
    int64_t kdim, vdim;        /* widths of key and value; embed_dim by default */
    int64_t heads;             /* divides embed_dim, unless there is a list */
    const int64_t *head_sizes; /* [heads], summing to embed_dim, or NULL; read during create only */
    clattn_dtype dtype;        /* of query, key, value and out; what lies between is f32 */

    bool causal;
    clattn_alignment alignment;
    clattn_mask_kind key_padding; /* NONE, KEEP or DROP: (batch, len_kv) */
    clattn_mask_kind attn_mask;   /* any: (batch, heads, len_q, len_kv), each extent 1 or full */
    clattn_weights weights;       /* also write the attention weights */

    size_t workspace_bytes; /* bound for the attention kernel, as in clattn_attention_desc; the projections
                               come on top */
    const char *kernel;     /* attention row by name; NULL: the table decides */
    const char *gemm;       /* the projections' matrix multiplication by name: "lanes", "clblast" or "plain";
                               NULL: the best that the device takes */
} clattn_mha_desc;

CLATTN_API void clattn_mha_desc_init(clattn_mha_desc *desc, int64_t batch, int64_t len_q, int64_t len_kv,
                                     int64_t embed_dim, int64_t heads);

/* Host arrays, row-major (out features, in features), copied during create. Either in_proj_weight, rows [Wq;
 * Wk; Wv] (then kdim = vdim = embed_dim), or the three apart; likewise the biases. A NULL bias is zero. */
typedef struct clattn_mha_weights {
    clattn_dtype dtype;
    const void *in_proj_weight;                          /* (3 embed_dim, embed_dim) */
    const void *q_proj_weight;                           /* (embed_dim, embed_dim) */
    const void *k_proj_weight;                           /* (embed_dim, kdim) */
    const void *v_proj_weight;                           /* (embed_dim, vdim) */
    const void *in_proj_bias;                            /* [3 embed_dim] */
    const void *q_proj_bias, *k_proj_bias, *v_proj_bias; /* [embed_dim] each */
    const void *out_proj_weight;                         /* (embed_dim, embed_dim) */
    const void *out_proj_bias;                           /* [embed_dim] */
} clattn_mha_weights;

/* What one call reads and writes. Self-attention passes the same tensor three times. */
typedef struct clattn_mha_call {
    int64_t batch, len_q, len_kv; /* of this call, at most those of the description */
    clattn_input query;           /* (batch, 1, len_q, embed_dim); stride[1] ignored */
    clattn_input key;             /* (batch, 1, len_kv, kdim) */
    clattn_input value;           /* (batch, 1, len_kv, vdim) */
    clattn_input key_padding;     /* uint8 (batch, 1, 1, len_kv): stride[0] between batches */
    clattn_input attn_mask;       /* uint8 or f32; strides as in clattn_mask_strides */
    clattn_output out;            /* (batch, 1, len_q, embed_dim) */
    clattn_output attention;      /* f32 (batch, heads or 1, len_q, len_kv) */
} clattn_mha_call;

/* Zeroes *call, then fills sizes and contiguous strides; attn_mask's are those of (len_q, len_kv). */
CLATTN_API void clattn_mha_call_init(const clattn_mha_desc *desc, clattn_mha_call *call);

/* The module: weights on the device, plans built, workspace allocated. One thread and one queue at a time. */
typedef struct clattn_mha clattn_mha;

/* Errors as clattn_attention_plan_create. The context must outlive the module. On failure *mha is NULL. */
CLATTN_API clattn_status clattn_mha_create(clattn_context *context, const clattn_mha_desc *desc,
                                           const clattn_mha_weights *weights, clattn_mha **mha);
CLATTN_API void clattn_mha_destroy(clattn_mha *mha);

/* The attention kernel and the matrix multiplication that the module uses; with unequal heads, those of head
 * 0. */
CLATTN_API clattn_attention_info clattn_mha_info(const clattn_mha *mha);

/* Over buffers, as clattn_attention_enqueue; over host arrays, as clattn_attention_plan_run. One exception:
 * the first call with a DROP attn_mask that differs between heads or batches allocates as many bytes as that
 * mask has. */
CLATTN_API clattn_status clattn_mha_enqueue(clattn_mha *mha, cl_command_queue queue,
                                            const clattn_mha_call *call, cl_uint num_wait,
                                            const cl_event *wait, cl_event *event);
CLATTN_API clattn_status clattn_mha_run(clattn_mha *mha, const clattn_mha_call *call);

#ifdef __cplusplus
}
#endif
#endif
