/* host/attention/weights.h: the softmax weights as an output, by a kernel of their own beside any family, so
 * that asking for them changes nothing else. plan.c calls it. */
#ifndef CA_ATTENTION_WEIGHTS_H
#define CA_ATTENTION_WEIGHTS_H

#include "attention/problem.h"

typedef struct ca_weights ca_weights;

clattn_status ca_weights_create(clattn_context *context, const ca_problem *problem, ca_weights **weights);
void ca_weights_destroy(ca_weights *weights); /* NULL is allowed */
clattn_status ca_weights_enqueue(ca_weights *weights, cl_command_queue queue, const ca_call *call);

#endif
