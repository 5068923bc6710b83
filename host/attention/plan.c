/* host/attention/plan.c: the life of a plan: judge the problem, walk the table, build, check a call's
 * arguments, enqueue. Both public faces end here; nn calls it as any program would. */
#include "attention/proof.h"
#include "attention/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clattn_attention_plan {
    clattn_context *context;
    ca_problem problem;
    const ca_variant *row;
    void *state; /* of row->family */
    ca_weights *weights;
    size_t workspace_bytes;
};

/* Adds "row: reason; " to a text of all refusals. */
static void add_reason(char *text, size_t bytes, const char *name, const char *reason)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s: %s", used ? "; " : "", name, reason);
}

static clattn_status unknown_row(const char *name)
{
    char names[512];
    ca_variant_names(names, sizeof names);
    return ca_fail(CLATTN_INVALID_ARGUMENT, "kernel '%s' is not in the table, which has: %s", name, names);
}

/* Builds a row, and takes it only when its numbers are right on this device. */
static clattn_status create_row(clattn_attention_plan *plan, const ca_variant *row)
{
    clattn_status status =
        row->family->create(row, plan->context, &plan->problem, &plan->state, &plan->workspace_bytes);
    if (!status && (status = ca_proof_run(row, plan->context, &plan->problem))) {
        row->family->destroy(plan->state);
        plan->state = NULL;
    }
    plan->row = status ? NULL : row;
    return status;
}

static clattn_status create_named(clattn_attention_plan *plan, const char *name)
{
    const ca_variant *row = ca_variant_find(name);
    char reason[CLATTN_TEXT_BYTES];
    if (!row)
        return unknown_row(name);
    if (ca_variant_refuses(row, plan->context, &plan->problem, reason))
        return ca_fail(CLATTN_UNSUPPORTED, "kernel %s: %s", name, reason);
    return create_row(plan, row);
}

static clattn_status create_first(clattn_attention_plan *plan)
{
    char reasons[2048] = "", reason[CLATTN_TEXT_BYTES];
    for (size_t i = 0; i < ca_variant_count; i++) {
        const ca_variant *row = &ca_variants[i];
        if (ca_variant_refuses(row, plan->context, &plan->problem, reason)) {
            ca_log(plan->context, CLATTN_LOG_INFO, "kernel %s: %s", row->name, reason);
            add_reason(reasons, sizeof reasons, row->name, reason);
            continue;
        }
        const clattn_status status = create_row(plan, row);
        if ((status != CLATTN_BUILD_FAILED && status != CLATTN_UNSUPPORTED) || plan->context->strict)
            return status;
        const char *what = status == CLATTN_BUILD_FAILED ? "does not build" : "gives wrong numbers";
        ca_log(plan->context, CLATTN_LOG_WARNING, "kernel %s %s, the next is tried: %s", row->name, what,
               clattn_last_message());
        add_reason(reasons, sizeof reasons, row->name, what);
    }
    return ca_fail(CLATTN_UNSUPPORTED, "no kernel takes this problem: %s", reasons);
}

clattn_status clattn_attention_plan_create(clattn_context *context, const clattn_attention_desc *desc,
                                           clattn_attention_plan **plan)
{
    if (!plan)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    if (!context)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "context is NULL");
    ca_problem problem;
    clattn_status status = ca_problem_judge(desc, &problem);
    if (status)
        return status;
    clattn_attention_plan *p = calloc(1, sizeof *p);
    if (!p)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no memory for a plan");
    p->context = context;
    p->problem = problem;
    status = desc->kernel ? create_named(p, desc->kernel) : create_first(p);
    if (!status && problem.desc.weights != CLATTN_WEIGHTS_NONE)
        status = ca_weights_create(context, &problem, &p->weights);
    if (status) {
        clattn_attention_plan_destroy(p);
        return status;
    }
    *plan = p;
    return CLATTN_OK;
}

void clattn_attention_plan_destroy(clattn_attention_plan *plan)
{
    if (!plan)
        return;
    if (plan->row)
        plan->row->family->destroy(plan->state);
    ca_weights_destroy(plan->weights);
    free(plan);
}

clattn_attention_info clattn_attention_plan_info(const clattn_attention_plan *plan)
{
    if (!plan)
        return (clattn_attention_info){ NULL, NULL, NULL, 0 };
    return (clattn_attention_info){ plan->row->name, plan->row->why, plan->row->gemm, plan->workspace_bytes };
}

clattn_status clattn_attention_supports(clattn_context *context, const clattn_attention_desc *desc,
                                        const char *kernel)
{
    char reason[CLATTN_TEXT_BYTES];
    ca_problem problem;
    if (!context || !kernel)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL", context ? "kernel" : "context");
    const ca_variant *row = ca_variant_find(kernel);
    if (!row)
        return unknown_row(kernel);
    const clattn_status status = ca_problem_judge(desc, &problem);
    if (status)
        return status;
    if (ca_variant_refuses(row, context, &problem, reason))
        return ca_fail(CLATTN_UNSUPPORTED, "kernel %s: %s", kernel, reason);
    return CLATTN_OK;
}

/* Enqueues a judged call whose tensors are in buffers. */
static clattn_status enqueue(clattn_attention_plan *plan, cl_command_queue queue, const ca_call *call)
{
    if (ca_call_is_empty(&plan->problem, call))
        return CLATTN_OK;
    clattn_status status = plan->row->family->enqueue(plan->state, queue, call);
    if (!status && plan->weights && call->len_kv > 0)
        status = ca_weights_enqueue(plan->weights, queue, call);
    return status;
}

clattn_status clattn_attention_enqueue(clattn_attention_plan *plan, cl_command_queue queue,
                                       const clattn_attention_call *call, cl_uint num_wait,
                                       const cl_event *wait, cl_event *event)
{
    ca_call judged;
    clattn_status status;
    if (event)
        *event = NULL;
    if (!plan)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "plan is NULL");
    if ((status = ca_call_judge(&plan->problem, call, &judged)) ||
        (status = ca_tensors_check(plan->context, CA_FACE_BUFFERS, judged.tensor, CA_SLOTS)) ||
        (status = ca_queue_check(plan->context, queue)) || (status = ca_queue_begin(queue, num_wait, wait)) ||
        (status = enqueue(plan, queue, &judged)))
        return status;
    return ca_queue_end(queue, event);
}

clattn_status clattn_attention_plan_run(clattn_attention_plan *plan, const clattn_attention_call *call)
{
    ca_call judged;
    ca_staging *staging = NULL;
    clattn_status status;
    if (!plan)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "plan is NULL");
    if ((status = ca_call_judge(&plan->problem, call, &judged)) ||
        (status = ca_tensors_check(plan->context, CA_FACE_HOST, judged.tensor, CA_SLOTS)) ||
        (status = ca_call_judge_rows(&plan->problem, &judged)) ||
        (status = ca_staging_create(plan->context, judged.tensor, CA_SLOTS, &staging)))
        return status;
    status = enqueue(plan, plan->context->queue, &judged);
    const clattn_status finished = ca_staging_finish(staging);
    ca_staging_destroy(staging);
    return status ? status : finished;
}

clattn_status clattn_attention_run(clattn_context *context, const clattn_attention_desc *desc,
                                   const clattn_attention_call *call)
{
    clattn_attention_plan *plan = NULL;
    clattn_status status = CLATTN_OK;
    if (!desc)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "desc is NULL");
    if (!context && (status = ca_default_context(desc->device, &context)))
        return status;
    if (!(status = clattn_attention_plan_create(context, desc, &plan)))
        status = clattn_attention_plan_run(plan, call);
    clattn_attention_plan_destroy(plan);
    return status;
}
