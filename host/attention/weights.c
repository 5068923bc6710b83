/* host/attention/weights.c: enqueues cl/attention/weights.cl, which computes the softmax weights from q and k
 * anew. */
#include "attention/weights.h"
#include "attention/variants.h"
#include "base/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORK_ITEMS = 32 };

struct ca_weights {
    ca_problem problem;
    cl_kernel kernel;
};

clattn_status ca_weights_create(clattn_context *context, const ca_problem *problem, ca_weights **weights)
{
    static const char *const sources[] = { "attention/params.h",
                                           "base/types.cl",
                                           "base/group.cl",
                                           "attention/rows.cl",
                                           "attention/score.cl",
                                           "attention/weights.cl",
                                           NULL };
    *weights = NULL;
    ca_weights *w = calloc(1, sizeof *w);
    if (!w)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no memory for a plan");
    w->problem = *problem;
    char options[128];
    snprintf(options, sizeof options, "-DTYPE=%s -DBIAS=%s -DD=%lld -DMEAN=%d -DITEMS=%d",
             ca_type_name(problem->desc.dtype), ca_bias_name(problem), (long long)problem->desc.d_qk,
             problem->desc.weights == CLATTN_WEIGHTS_MEAN, WORK_ITEMS);
    const clattn_status status = ca_kernel_create(context, sources, options, "weights", &w->kernel);
    if (status) {
        ca_weights_destroy(w);
        return status;
    }
    *weights = w;
    return CLATTN_OK;
}

void ca_weights_destroy(ca_weights *weights)
{
    if (weights && weights->kernel)
        clReleaseKernel(weights->kernel);
    free(weights);
}

clattn_status ca_weights_enqueue(ca_weights *weights, cl_command_queue queue, const ca_call *call)
{
    static const ca_slot order[] = {
        CA_Q, CA_K, CA_WEIGHTS, CA_KEEP, CA_BIAS, CA_SINKS, CA_ROWS_Q, CA_ROWS_KV
    };
    const ca_params params = ca_call_params(&weights->problem, call);
    clattn_status status = ca_kernel_arg(weights->kernel, "weights", 0, sizeof params, &params);
    for (cl_uint i = 0; !status && i < sizeof order / sizeof *order; i++)
        status =
            ca_kernel_arg(weights->kernel, "weights", i + 1, sizeof(cl_mem), &call->tensor[order[i]].buffer);
    const size_t groups[3] = { (size_t)call->len_q, (size_t)call->tensor[CA_WEIGHTS].extent[1],
                               (size_t)call->batch };
    const size_t local[3] = { WORK_ITEMS, 1, 1 };
    return status ? status : ca_kernel_enqueue(queue, weights->kernel, "weights", groups, local);
}
