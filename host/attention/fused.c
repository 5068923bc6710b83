/* host/attention/fused.c: life of one fused kernel, whatever is in it. Called by family_lanes.c and
 * family_tiles.c. */
#include "attention/fused.h"
#include "base/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fused_state {
    ca_problem problem;
    const char *name;
    int64_t queries;
    size_t work_items;
    cl_kernel kernel;
} fused_state;

clattn_status ca_fused_create(const ca_fused_kernel *kernel, clattn_context *context,
                              const ca_problem *problem, void **state)
{
    enum { OWN = sizeof kernel->source / sizeof *kernel->source };
    const char *sources[4 + OWN + 1] = { "attention/params.h", "base/types.cl", "attention/rows.cl",
                                         "attention/score.cl" };
    memcpy(sources + 4, kernel->source, sizeof kernel->source);
    *state = NULL;
    fused_state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no memory for a plan");
    s->problem = *problem;
    s->name = kernel->name;
    s->queries = kernel->queries;
    s->work_items = kernel->work_items;
    char options[320];
    snprintf(options, sizeof options, "-DTYPE=%s -DBIAS=%s -DD=%lld -DDV=%lld %s",
             ca_type_name(problem->desc.dtype), ca_bias_name(problem), (long long)problem->desc.d_qk,
             (long long)problem->desc.d_v, kernel->options);
    const clattn_status status = ca_kernel_create(context, sources, options, kernel->name, &s->kernel);
    if (status) {
        ca_fused_destroy(s);
        return status;
    }
    *state = s;
    return CLATTN_OK;
}

void ca_fused_destroy(void *state)
{
    fused_state *s = state;
    if (s && s->kernel)
        clReleaseKernel(s->kernel);
    free(s);
}

clattn_status ca_fused_enqueue(void *state, cl_command_queue queue, const ca_call *call)
{
    static const ca_slot order[] = { CA_Q,    CA_K,    CA_V,     CA_OUT,    CA_LSE,
                                     CA_KEEP, CA_BIAS, CA_SINKS, CA_ROWS_Q, CA_ROWS_KV };
    const fused_state *s = state;
    const ca_params params = ca_call_params(&s->problem, call);
    clattn_status status = ca_kernel_arg(s->kernel, s->name, 0, sizeof params, &params);
    for (cl_uint i = 0; !status && i < sizeof order / sizeof *order; i++)
        status = ca_kernel_arg(s->kernel, s->name, i + 1, sizeof(cl_mem), &call->tensor[order[i]].buffer);
    const size_t groups[3] = { (size_t)((call->len_q + s->queries - 1) / s->queries),
                               (size_t)s->problem.desc.heads_q, (size_t)call->batch };
    const size_t local[3] = { s->work_items, 1, 1 };
    return status ? status : ca_kernel_enqueue(queue, s->kernel, s->name, groups, local);
}
