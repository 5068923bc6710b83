/* host/attention/family_split.c: few queries over many keys on CPUs: cl/attention/split.cl. Cuts the keys of
 * each kv head into parts, so that all compute units have work, and merges what the parts found. Rows of the
 * table give the rows that are multiplied at once and the keys of a block. */
#include "attention/split.h"
#include "attention/variants.h"
#include "base/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 16, GROUPS_A_UNIT = 8, FEWEST_KEYS = 128 };

typedef struct split_state {
    ca_problem problem;
    cl_uint compute_units;
    cl_kernel split, merge;
    cl_mem parts;
} split_state;

int64_t ca_split_parts(cl_uint compute_units, int64_t heads, int64_t keys)
{
    const int64_t wanted = (int64_t)compute_units * GROUPS_A_UNIT, most = keys / FEWEST_KEYS;
    const int64_t parts = heads >= wanted ? 1 : (wanted + heads - 1) / heads;
    return parts < most ? parts : most > 1 ? most : 1;
}

static int lanes_of(const clattn_context *context)
{
    const cl_uint width = context->device.info.float_width;
    return width >= 16 ? 16 : width >= 8 ? 8 : 4;
}

/* Queries of all heads that share a kv head. */
static int64_t rows_of(const ca_problem *problem)
{
    return problem->desc.len_q * problem->group;
}

/* Parts of all rows: with 1 part a head, or with as many as give every unit work and the one head more that
 * rounding up adds. */
static uint64_t parts_bytes(const clattn_context *context, const ca_problem *problem)
{
    const uint64_t heads = (uint64_t)problem->desc.batch * (uint64_t)problem->desc.heads_kv;
    const uint64_t cuts = heads + (uint64_t)context->device.info.compute_units * GROUPS_A_UNIT;
    return cuts * (uint64_t)rows_of(problem) * ((uint64_t)problem->desc.d_v + 2) * sizeof(float);
}

static bool refuse(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES])
{
    const int64_t lanes = lanes_of(context), d = problem->desc.d_qk, dv = problem->desc.d_v;
    (void)row;
    if (rows_of(problem) > MOST_ROWS)
        snprintf(reason, CLATTN_TEXT_BYTES, "it takes at most %d queries that share a kv head, not %lld",
                 MOST_ROWS, (long long)rows_of(problem));
    else if (d % lanes || dv % lanes)
        snprintf(reason, CLATTN_TEXT_BYTES, "it takes head sizes that are multiples of %lld, not %lld",
                 (long long)lanes, (long long)(d % lanes ? d : dv));
    else if (parts_bytes(context, problem) > context->device.info.max_alloc_bytes)
        snprintf(reason, CLATTN_TEXT_BYTES, "its %llu bytes of partial results exceed the largest allocation",
                 (unsigned long long)parts_bytes(context, problem));
    else
        return false;
    return true;
}

static void destroy(void *state)
{
    split_state *s = state;
    if (!s)
        return;
    if (s->parts)
        clReleaseMemObject(s->parts);
    if (s->merge)
        clReleaseKernel(s->merge);
    if (s->split)
        clReleaseKernel(s->split);
    free(s);
}

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    static const char *const sources[] = { "attention/params.h", "base/types.cl",
                                           "attention/rows.cl",  "attention/score.cl",
                                           "base/vectors.cl",    "attention/vectors.cl",
                                           "attention/split.cl", NULL };
    *state = NULL;
    split_state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no memory for a plan");
    s->problem = *problem;
    s->compute_units = context->device.info.compute_units;
    const int rows = rows_of(problem) > 1 ? row->queries : 1;
    const int rounded = (int)(rows_of(problem) + rows - 1) / rows * rows;
    char options[256];
    snprintf(options, sizeof options,
             "-DTYPE=%s -DBIAS=%s -DD=%lld -DDV=%lld -DLANES=%d -DKEEP=%d -DSOFTCAP=%d -DROWS=%d "
             "-DMOST_ROWS=%d -DBLOCK=%d",
             ca_type_name(problem->desc.dtype), ca_bias_name(problem), (long long)problem->desc.d_qk,
             (long long)problem->desc.d_v, lanes_of(context), problem->desc.keep, problem->desc.softcap != 0,
             rows, rounded > 0 ? rounded : rows, row->keys);
    cl_int error;
    const size_t bytes = (size_t)parts_bytes(context, problem);
    clattn_status status = ca_kernel_create(context, sources, options, "split", &s->split);
    if (!status)
        status = ca_kernel_create(context, sources, options, "split_merge", &s->merge);
    if (!status && bytes) {
        s->parts = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, bytes, NULL, &error);
        if (!s->parts)
            status = ca_fail_cl(error, "clCreateBuffer", "the partial results");
    }
    if (status) {
        destroy(s);
        return status;
    }
    *workspace_bytes = bytes;
    *state = s;
    return CLATTN_OK;
}

static clattn_status launch(cl_command_queue queue, cl_kernel kernel, const char *name,
                            const ca_params *params, const cl_mem *const *buffers, cl_uint count,
                            const size_t groups[3])
{
    const size_t local[3] = { 1, 1, 1 };
    clattn_status status = ca_kernel_arg(kernel, name, 0, sizeof *params, params);
    for (cl_uint i = 0; !status && i < count; i++)
        status = ca_kernel_arg(kernel, name, i + 1, sizeof(cl_mem), buffers[i]);
    return status ? status : ca_kernel_enqueue(queue, kernel, name, groups, local);
}

static clattn_status enqueue(void *state, cl_command_queue queue, const ca_call *call)
{
    const split_state *s = state;
    const ca_tensor *t = call->tensor;
    ca_params params = ca_call_params(&s->problem, call);
    params.parts =
        (ca_i32)ca_split_parts(s->compute_units, call->batch * s->problem.desc.heads_kv, call->len_kv);
    const cl_mem *const split[] = { &t[CA_Q].buffer,      &t[CA_K].buffer,
                                    &t[CA_V].buffer,      &s->parts,
                                    &t[CA_KEEP].buffer,   &t[CA_BIAS].buffer,
                                    &t[CA_ROWS_Q].buffer, &t[CA_ROWS_KV].buffer };
    const cl_mem *const merge[] = { &s->parts,           &t[CA_OUT].buffer,    &t[CA_LSE].buffer,
                                    &t[CA_SINKS].buffer, &t[CA_ROWS_Q].buffer, &t[CA_ROWS_KV].buffer };
    const size_t split_groups[3] = { (size_t)params.parts, (size_t)s->problem.desc.heads_kv,
                                     (size_t)call->batch };
    const size_t merge_groups[3] = { (size_t)call->len_q, (size_t)s->problem.desc.heads_q,
                                     (size_t)call->batch };
    const clattn_status status =
        launch(queue, s->split, "split", &params, split, sizeof split / sizeof *split, split_groups);
    return status ? status
                  : launch(queue, s->merge, "split_merge", &params, merge, sizeof merge / sizeof *merge,
                           merge_groups);
}

const ca_family ca_family_split = { refuse, create, destroy, enqueue };
