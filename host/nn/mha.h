/* host/nn/mha.h: the inside of the multi-head attention module. mha.c has its life and its call, mha_judge.c
 * checks what it is given, mha_weights.c brings the parameters to the device, mha_masks.c has its masks. */
#ifndef CA_NN_MHA_H
#define CA_NN_MHA_H

#include "base/tensor.h"
#include "gemm/gemm.h"
#include "nn/rows.h"

#include <clattn/nn.h>

/* Heads of equal size that stand side by side: one attention plan over their block of columns. */
typedef struct ca_mha_run {
    int64_t first_head, heads, size, first_column;
    clattn_attention_plan *plan;
} ca_mha_run;

/* The in-projections, in the order of their rows in the parameters. */
enum { CA_MHA_PROJECTIONS = 3 };

/* Weights, of `dtype`, and f32 biases on the device: in_weights holds Wq, Wk, Wv one after the other, biases
 * bq, bk, bv, bo. */
typedef struct ca_mha_parameters {
    clattn_dtype dtype;
    cl_mem in_weights, out_weights, biases;
    size_t in_weights_at[CA_MHA_PROJECTIONS];
    bool has_in_bias, has_out_bias;
} ca_mha_parameters;

struct clattn_mha {
    clattn_context *context;
    clattn_mha_desc desc; /* without pointers */
    ca_mha_run *runs;
    size_t run_count;
    ca_gemm *gemm_in, *gemm_out;
    clattn_dtype input_dtype; /* of what gemm_in reads */
    ca_rows *rows;
    ca_mha_parameters parameters;
    cl_mem inputs;    /* query, key and value as f32, when gemm_in cannot read them as they are */
    cl_mem projected; /* q, k and v; then the result, when it is stored otherwise */
    cl_mem joined;    /* what attention gives, heads side by side */
    cl_mem keep;      /* a KEEP mask made from another */
    size_t keep_bytes;
    cl_mem bias; /* the key padding as numbers to add */
    cl_mem mean; /* weights of one run, to be averaged with the others' */
    size_t workspace_bytes;
};

/* The tensors of a call. */
typedef enum ca_mha_slot {
    CA_MHA_QUERY,
    CA_MHA_KEY,
    CA_MHA_VALUE,
    CA_MHA_KEY_PADDING,
    CA_MHA_ATTN_MASK,
    CA_MHA_OUT,
    CA_MHA_ATTENTION,
    CA_MHA_SLOTS
} ca_mha_slot;

typedef struct ca_mha_call {
    int64_t batch, len_q, len_kv;
    ca_tensor tensor[CA_MHA_SLOTS];
} ca_mha_call;

/* Checks the description and divides the heads into runs, without plans; *runs is malloc'd. */
clattn_status ca_mha_judge(const clattn_mha_desc *desc, ca_mha_run **runs, size_t *count);
clattn_status ca_mha_judge_weights(const clattn_mha_desc *desc, const clattn_mha_weights *weights);

/* Checks sizes and lists the tensors; ca_tensors_check judges their memory. */
clattn_status ca_mha_judge_call(const clattn_mha_desc *desc, const clattn_mha_call *call,
                                ca_mha_call *judged);

/* A buffer of a x b x c elements, its bytes added to *sum_bytes; none, and OK, when there are no elements. */
clattn_status ca_mha_buffer(const clattn_context *context, const char *name, size_t element_bytes, int64_t a,
                            int64_t b, int64_t c, size_t *sum_bytes, cl_mem *buffer);

/* Copies judged weights to the device, as they are where a matrix product can read them, otherwise as f32. */
clattn_status ca_mha_parameters_create(clattn_context *context, const clattn_mha_desc *desc,
                                       const clattn_mha_weights *weights, ca_mha_parameters *parameters);
void ca_mha_parameters_destroy(ca_mha_parameters *parameters);

/* mha_masks.c: which masks attention gets for those of the module, and the making of them. A KEEP mask passes
 * as it is. */
typedef struct ca_mha_masks {
    bool keep, bias;
    bool makes_keep, makes_bias; /* by a kernel, into the module's buffers */
} ca_mha_masks;
ca_mha_masks ca_mha_masks_of(const clattn_mha_desc *desc);

/* Makes what is to be made and sets keep and bias of *to, for all heads. */
clattn_status ca_mha_masks_enqueue(clattn_mha *mha, cl_command_queue queue, const ca_mha_call *call,
                                   clattn_attention_call *to);

#endif
