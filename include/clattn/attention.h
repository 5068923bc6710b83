/* clattn/attention.h: scaled dot-product attention, forward.
 *
 * For each batch b, query head h and query row i, with keys j of head g = h / (heads_q / heads_kv):
 *
 *     s[j]   = scale * sum_d q[d] k[j][d]            dot product and scale in f32
 *     s[j]   = softcap * tanh(s[j] / softcap)        when softcap is not 0
 *     s[j]  += bias[j]                               when there is a bias; -inf hides the key
 *     hidden   when causal, window, lengths or the keep mask say so; all that are given apply together
 *     w[j]   = exp(s[j]) / (sum over visible keys of exp(s) + exp(sink))
 *     out[d] = sum_j w[j] v[j][d]
 *     lse    = ln(sum over visible keys of exp(s) + exp(sink))
 *
 * A row that sees no key gives out = 0, weights = 0, lse = -inf (with a sink: lse = the sink). Hidden keys
 * and values never influence a result, even if they are NaN or infinite. The order of steps is that of ONNX
 * Attention-23 and of FlashAttention.
 *
 * Two faces. The simple one takes host arrays:
 *
 *     clattn_attention_desc desc;
 *     clattn_attention_desc_init(&desc, batch, heads, heads, len_q, len_kv, d, d);
 *     clattn_attention_call call;
 *     clattn_attention_call_init(&desc, CLATTN_BHSD, &call);
 *     call.q.host = q;  call.k.host = k;  call.v.host = v;  call.out.host = out;
 *     clattn_status status = clattn_attention_run(NULL, &desc, &call);
 *
 * The expert one describes once, plans once (clattn_attention_plan_create) and then enqueues on the caller's
 * own queue and buffers (clattn_attention_enqueue) as often as needed, with no allocation, no lock and no
 * wait; only products by CLBlast take its lock and may allocate inside it.
 */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include <clattn/context.h>
#include <clattn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Describe ------------------------------------------------------------------------------------------ */

/* Where the diagonal of causal and window lies: key j is level with query i when j == i + off.
 * BOTTOM_RIGHT: off = len_kv - len_q of that batch, so that the last query is level with the last key
 * (FlashAttention; decoding with a cache). TOP_LEFT: off = 0 (PyTorch's is_causal, JAX, ONNX without a
 * cache). */
typedef enum clattn_alignment { CLATTN_BOTTOM_RIGHT, CLATTN_TOP_LEFT } clattn_alignment;

/* The softmax weights as an output. FULL: (batch, heads_q, len_q, len_kv). MEAN: averaged over the heads,
 * (batch, 1, len_q, len_kv). Asking for them does not change `out` or `lse`. */
typedef enum clattn_weights { CLATTN_WEIGHTS_NONE, CLATTN_WEIGHTS_FULL, CLATTN_WEIGHTS_MEAN } clattn_weights;

/* What is to be computed. Start from clattn_attention_desc_init and change what differs. Sizes may be 0:
 * nothing is launched where there is nothing to write; with len_kv = 0 no row sees a key; with d_qk = 0 every
 * score is 0. */
typedef struct clattn_attention_desc {
    int64_t batch;   /* the largest batch and lengths that a call will have; a call may have less */
    int64_t heads_q; /* a multiple of heads_kv; query head h reads kv head h / (heads_q / heads_kv) */
    int64_t heads_kv;
    int64_t len_q; /* at most 2^31 - 1, as len_kv */
    int64_t len_kv;
    int64_t d_qk; /* head size of queries and keys */
    int64_t d_v;  /* head size of values and output */

    clattn_dtype dtype; /* of q, k, v and out */

    float scale;   /* any finite value; NaN, the default, stands for 1 / sqrt(d_qk) */
    float softcap; /* 0: none; otherwise a positive finite value */

    bool causal; /* key j is visible to query i only when j <= i + off */
    clattn_alignment alignment;
    int64_t window_left;  /* key j only when j >= i + off - window_left; -1: open; 0: the diagonal itself */
    int64_t window_right; /* key j only when j <= i + off + window_right; -1: open */

    bool keep;               /* a boolean mask: one byte an element, not 0 = visible */
    bool bias;               /* a float mask, added to the scores in f32 */
    clattn_dtype bias_dtype; /* of bias, when there is one */
    bool lengths_q;  /* per batch: rows from lengths_q[b] on are padding; out 0, weights 0, lse -inf */
    bool lengths_kv; /* per batch: keys from lengths_kv[b] on are hidden */
    bool packed; /* sequences lie end to end: cu_seqlens_q and cu_seqlens_kv say where; excludes lengths */
    bool sinks;  /* one logit per query head in the maximum, the denominator and lse */

    bool lse;               /* also write the log-sum-exp (natural logarithm, f32) */
    clattn_weights weights; /* also write the weights (f32) */

    size_t workspace_bytes; /* bound on device memory beyond inputs and outputs; 0: 64 MiB */
    const char *kernel;     /* NULL: the first row of the table that fits; otherwise this row or an error */
    const char *device;     /* selector for clattn_attention_run with a NULL context; otherwise ignored */
} clattn_attention_desc;

/* Fills *desc: f32, default scale, no mask, open window, no extra output. */
CLATTN_API void clattn_attention_desc_init(clattn_attention_desc *desc, int64_t batch, int64_t heads_q,
                                           int64_t heads_kv, int64_t len_q, int64_t len_kv, int64_t d_qk,
                                           int64_t d_v);

/* ---- Call ---------------------------------------------------------------------------------------------- */

typedef enum clattn_layout {
    CLATTN_BHSD, /* (batch, head, row, column): PyTorch's scaled_dot_product_attention, ONNX */
    CLATTN_BSHD  /* (batch, row, head, column): FlashAttention, JAX, what a projection writes */
} clattn_layout;

/* What one call reads and writes. Tensors that the description does not ask for stay zero. */
typedef struct clattn_attention_call {
    int64_t batch, len_q, len_kv; /* of this call, at most those of the description */
    int64_t total_q, total_kv; /* packed only: rows of q and out, rows of k and v, all sequences together */

    clattn_input q; /* (batch, heads_q, len_q, d_qk); packed: rows cu_seqlens_q[b] + i, stride[0] ignored */
    clattn_input k; /* (batch, heads_kv, len_kv, d_qk) */
    clattn_input v; /* (batch, heads_kv, len_kv, d_v) */
    clattn_input keep;          /* uint8 (batch, heads_q, len_q, len_kv); stride 0 along an axis of one: see
                                   clattn_mask_strides */
    clattn_input bias;          /* bias_dtype, the same shapes */
    clattn_input sinks;         /* f32 [heads_q] */
    clattn_input lengths_q;     /* int32 [batch], 0 to len_q; the expert face cuts values to that range */
    clattn_input lengths_kv;    /* int32 [batch], 0 to len_kv */
    clattn_input cu_seqlens_q;  /* int32 [batch + 1], rising from 0 to total_q, steps of at most len_q */
    clattn_input cu_seqlens_kv; /* int32 [batch + 1], rising from 0 to total_kv, steps of at most len_kv */

    clattn_output out; /* (batch, heads_q, len_q, d_v) */
    clattn_output lse; /* f32 (batch, heads_q, len_q), stride[3] ignored; packed: (heads_q, total_q) */
    clattn_output
        weights; /* f32 (batch, heads_q or 1, len_q, len_kv), also when packed; 0 where hidden or padding */
} clattn_attention_call;

/* Zeroes *call, then fills its sizes from the description and its strides for contiguous tensors: q, k, v and
 * out in `layout`; lse, weights, keep and bias as (batch, head, row, column) with every extent full. Packed
 * descriptions always get (row, head, column), or (head, row, column) for CLATTN_BHSD, and totals of batch *
 * len rows. After changing call->batch, len or total, set the strides that depend on it. */
CLATTN_API void clattn_attention_call_init(const clattn_attention_desc *desc, clattn_layout layout,
                                           clattn_attention_call *call);

/* How the axes of a contiguous mask are to be read; there is no guessing by rank. Each extent is 1 or full.
 */
typedef enum clattn_mask_form {
    CLATTN_MASK_BHQK,  /* rank 4: batch, heads_q, len_q, len_kv */
    CLATTN_MASK_HQK,   /* rank 3: heads_q, len_q, len_kv (ONNX's rank 3) */
    CLATTN_MASK_BHxQK, /* rank 3: batch * heads_q, len_q, len_kv (PyTorch's MultiheadAttention) */
    CLATTN_MASK_QK,    /* rank 2: len_q, len_kv */
    CLATTN_MASK_BK     /* rank 2: batch, len_kv (key padding) */
} clattn_mask_form;

/* Strides of a contiguous mask of `shape` (as many numbers as the form's rank) for the sizes of *desc,
 * broadcasting extents of 1. INVALID_SHAPE names the axis that does not fit. */
CLATTN_API clattn_status clattn_mask_strides(const clattn_attention_desc *desc, clattn_mask_form form,
                                             const int64_t *shape, int64_t stride[4]);

/* ---- Simple face --------------------------------------------------------------------------------------- */

/* Computes attention over host arrays and returns when the result is there. `context` may be NULL: a shared
 * context on desc->device (default: the best device). On a device that shares the host's memory nothing is
 * copied when alignment allows. Contents of lengths and cu_seqlens are checked. Any thread. Errors: all of
 * clattn_attention_plan_create and clattn_attention_enqueue; on failure the outputs' contents are undefined.
 */
CLATTN_API clattn_status clattn_attention_run(clattn_context *context, const clattn_attention_desc *desc,
                                              const clattn_attention_call *call);

/* ---- Plan and enqueue ---------------------------------------------------------------------------------- */

/* An attention problem with its kernel picked and built and its workspace allocated. Used by one thread and
 * one queue at a time. */
typedef struct clattn_attention_plan clattn_attention_plan;

/* What was picked. Texts belong to the library or the plan. */
typedef struct clattn_attention_info {
    const char *kernel;     /* row of the table */
    const char *why;        /* what the row is for and where it was measured */
    const char *gemm;       /* matrix multiplication that it uses, or NULL */
    size_t workspace_bytes; /* device memory that the plan holds */
} clattn_attention_info;

/* Checks the description, picks the first row of the table that accepts it, builds it and allocates its
 * workspace. A row whose kernels, run once on a few short rows, do not give what double precision gives is
 * passed over; that run is on the context's own queue and waited for, and is done once for a device, driver,
 * version and kind of kernel where built programs are kept, else once in a context. The plan keeps no pointer
 * into *desc; the context must outlive it. On failure *plan is NULL. Errors: INVALID_ARGUMENT, INVALID_SHAPE,
 * SIZE_OVERFLOW, UNSUPPORTED (the message has each row's reason, or that of desc->kernel), BUILD_FAILED,
 * OUT_OF_MEMORY, CL_FAILED. */
CLATTN_API clattn_status clattn_attention_plan_create(clattn_context *context,
                                                      const clattn_attention_desc *desc,
                                                      clattn_attention_plan **plan);

/* Frees the plan; what it enqueued may still run. NULL is allowed. */
CLATTN_API void clattn_attention_plan_destroy(clattn_attention_plan *plan);

CLATTN_API clattn_attention_info clattn_attention_plan_info(const clattn_attention_plan *plan);

/* Enqueues one call. Every tensor is in a buffer of the plan's OpenCL context; `queue` is an in-order queue
 * on its device. Sizes, strides, offsets and contents may differ from call to call. Starts after `wait`;
 * *event, when event is not NULL, is done when the outputs are written, and belongs to the caller. The
 * buffers must live until then. Nothing is enqueued when an argument is wrong. Errors: INVALID_ARGUMENT,
 * INVALID_SHAPE, BUFFER_TOO_SMALL, OVERLAP, SIZE_OVERFLOW, OUT_OF_MEMORY, CL_FAILED. */
CLATTN_API clattn_status clattn_attention_enqueue(clattn_attention_plan *plan, cl_command_queue queue,
                                                  const clattn_attention_call *call, cl_uint num_wait,
                                                  const cl_event *wait, cl_event *event);

/* clattn_attention_run with a plan made before: host arrays, the context's own queue, returns when done. */
CLATTN_API clattn_status clattn_attention_plan_run(clattn_attention_plan *plan,
                                                   const clattn_attention_call *call);

/* ---- The table ----------------------------------------------------------------------------------------- */

/* Rows of the kernel table, best first. clattn_kernel_name returns NULL from the count on. Static storage. */
CLATTN_API size_t clattn_kernel_count(void);
CLATTN_API const char *clattn_kernel_name(size_t index);

/* Whether the row `kernel` takes this description on this device: OK, or UNSUPPORTED with the reason as the
 * message; wrong numbers are one, once a plan has found them. It is the same function that dispatch asks. */
CLATTN_API clattn_status clattn_attention_supports(clattn_context *context, const clattn_attention_desc *desc,
                                                   const char *kernel);

#ifdef __cplusplus
}
#endif
#endif
