/* host/attention/problem.h: a description that has been judged, and the tensors of one call. problem.c is the
 * only place that validates sizes; families and the plan rely on it. */
#ifndef CA_ATTENTION_PROBLEM_H
#define CA_ATTENTION_PROBLEM_H

#include "base/tensor.h"

#include <clattn/attention.h>

#include "attention/params.h"

typedef struct ca_problem {
    clattn_attention_desc desc; /* scale filled in; no pointers left */
    int64_t group;              /* query heads per kv head */
    size_t workspace_bytes;     /* bound, filled in */
    int32_t left, right;        /* window with causal folded in; CA_OPEN */
} ca_problem;

typedef enum ca_slot {
    CA_Q,
    CA_K,
    CA_V,
    CA_KEEP,
    CA_BIAS,
    CA_SINKS,
    CA_ROWS_Q, /* lengths_q, or cu_seqlens_q when packed */
    CA_ROWS_KV,
    CA_OUT,
    CA_LSE,
    CA_WEIGHTS,
    CA_SLOTS
} ca_slot;

typedef struct ca_call {
    int64_t batch, len_q, len_kv, total_q, total_kv;
    ca_tensor tensor[CA_SLOTS];
} ca_call;

/* Judges a description. INVALID_ARGUMENT, INVALID_SHAPE or SIZE_OVERFLOW with a message. */
clattn_status ca_problem_judge(const clattn_attention_desc *desc, ca_problem *problem);

/* Judges the sizes of a call and lists its tensors; what lies in memory is judged by ca_tensors_check. */
clattn_status ca_call_judge(const ca_problem *problem, const clattn_attention_call *call, ca_call *judged);

/* The host face can also look into lengths and cu_seqlens. */
clattn_status ca_call_judge_rows(const ca_problem *problem, const ca_call *call);

/* True when a call writes nothing. */
bool ca_call_is_empty(const ca_problem *problem, const ca_call *call);

/* What kernels are told. The tensors' buffers and offsets are final. */
ca_params ca_call_params(const ca_problem *problem, const ca_call *call);

#endif
