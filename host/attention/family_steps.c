/* host/attention/family_steps.c: attention in three steps, for any device and any head size: scores by a
 * matrix product, one kernel for masks and softmax, output by a matrix product. Works through chunks of
 * heads, queries and keys that keep the workspace within its bound. Kernels: cl/attention/steps.cl; products:
 * host/gemm. */
#include "attention/variants.h"
#include "base/program.h"
#include "gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 32 }; /* of a work-group in every kernel of steps.cl */

/* Parts of the workspace. Keys and values take turns in one. */
typedef enum part { PART_Q, PART_KV, PART_S, PART_O, PART_FLAG, PARTS } part;

/* How much one round takes: pairs z of batch and kv head, queries of each head, keys of a product. */
typedef struct chunk {
    int64_t zs, rows, keys;
} chunk;

typedef struct steps_state {
    ca_problem problem;
    chunk chunk;
    ca_gemm *gemm;
    cl_kernel pack, softmax, finish;
    cl_mem workspace, part[PARTS];
} steps_state;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes of each part of the workspace, at least one element; their sum. False when it exceeds `bound`. */
static bool part_bytes(const ca_problem *problem, chunk c, size_t align, uint64_t bound,
                       uint64_t bytes[PARTS], uint64_t *total)
{
    const clattn_attention_desc *d = &problem->desc;
    const double rows = (double)c.zs * (double)problem->group * (double)c.rows,
                 keys = (double)c.zs * (double)c.keys;
    const double elements[PARTS] = { [PART_Q] = rows * (double)d->d_qk,
                                     [PART_KV] = keys * (double)most(d->d_qk, d->d_v),
                                     [PART_S] = rows * (double)d->len_kv,
                                     [PART_O] = rows * (double)d->d_v,
                                     [PART_FLAG] = 1 };
    *total = 0;
    for (int i = 0; i < PARTS; i++) {
        if (elements[i] * sizeof(float) > (double)bound)
            return false;
        bytes[i] = (uint64_t)most((int64_t)elements[i], 1) * sizeof(float);
        bytes[i] = (bytes[i] + align - 1) / align * align;
        *total += bytes[i];
    }
    return *total <= bound;
}

static bool fits(const ca_problem *problem, chunk c, size_t align, uint64_t bound)
{
    uint64_t bytes[PARTS], total;
    return part_bytes(problem, c, align, bound, bytes, &total);
}

/* The largest value of *field, from 1 to `limit`, that keeps the chunk within the bound; 0 when not even 1
 * does. */
static int64_t grow(const ca_problem *problem, chunk *c, int64_t *field, int64_t limit, uint64_t bound,
                    size_t align)
{
    int64_t good = 0, bad = most(limit, 1) + 1;
    while (bad - good > 1) {
        *field = good + (bad - good) / 2;
        if (fits(problem, *c, align, bound))
            good = *field;
        else
            bad = *field;
    }
    *field = good;
    return good;
}

/* Half of the bound for keys first, then queries, then keys again, then pairs of batch and head. False when
 * one query with all its scores does not fit. */
static bool choose_chunk(const ca_problem *problem, uint64_t bound, size_t align, chunk *c)
{
    const clattn_attention_desc *d = &problem->desc;
    *c = (chunk){ 1, 1, 1 };
    if (!grow(problem, c, &c->keys, d->len_kv, bound / 2, align))
        c->keys = 1;
    if (!grow(problem, c, &c->rows, d->len_q, bound, align))
        return false;
    grow(problem, c, &c->keys, d->len_kv, bound, align);
    if (c->rows >= d->len_q && c->keys >= d->len_kv)
        grow(problem, c, &c->zs, least(d->batch * d->heads_kv, INT32_MAX), bound, align);
    return true;
}

static uint64_t bound_bytes(const clattn_context *context, const ca_problem *problem)
{
    const uint64_t device = context->device.info.max_alloc_bytes;
    return problem->workspace_bytes < device ? problem->workspace_bytes : device;
}

static bool refuse(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES])
{
    chunk c;
    (void)row;
    const size_t align = context->device.buffer_align_bytes;
    const uint64_t bound = bound_bytes(context, problem);
    if (choose_chunk(problem, bound, align, &c))
        return false;
    snprintf(reason, CLATTN_TEXT_BYTES,
             "the scores of one query over %lld keys, %lld heads a key, exceed its bound of %llu bytes",
             (long long)problem->desc.len_kv, (long long)problem->group, (unsigned long long)bound);
    return true;
}

static void destroy(void *state)
{
    steps_state *s = state;
    if (!s)
        return;
    for (int i = 0; i < PARTS; i++)
        if (s->part[i])
            clReleaseMemObject(s->part[i]);
    if (s->workspace)
        clReleaseMemObject(s->workspace);
    if (s->pack)
        clReleaseKernel(s->pack);
    if (s->softmax)
        clReleaseKernel(s->softmax);
    if (s->finish)
        clReleaseKernel(s->finish);
    ca_gemm_destroy(s->gemm);
    free(s);
}

static clattn_status create_workspace(steps_state *s, const clattn_context *context, size_t *workspace_bytes)
{
    const size_t align = context->device.buffer_align_bytes;
    uint64_t bytes[PARTS], total;
    cl_int error;
    part_bytes(&s->problem, s->chunk, align, bound_bytes(context, &s->problem), bytes, &total);
    *workspace_bytes = (size_t)total;
    s->workspace = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, *workspace_bytes, NULL, &error);
    if (error)
        return ca_fail_cl(error, "clCreateBuffer", "the workspace");
    cl_buffer_region region = { 0, 0 };
    for (int i = 0; i < PARTS; i++) {
        region.size = (size_t)bytes[i];
        s->part[i] =
            clCreateSubBuffer(s->workspace, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
        if (error)
            return ca_fail_cl(error, "clCreateSubBuffer", "the workspace");
        region.origin += region.size;
    }
    return CLATTN_OK;
}

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    static const char *const sources[] = { "attention/params.h",
                                           "base/types.cl",
                                           "base/group.cl",
                                           "attention/rows.cl",
                                           "attention/score.cl",
                                           "attention/steps.cl",
                                           NULL };
    clattn_status status;
    *state = NULL;
    steps_state *s = calloc(1, sizeof *s);
    if (!s)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no memory for a plan");
    s->problem = *problem;
    choose_chunk(problem, bound_bytes(context, problem), context->device.buffer_align_bytes, &s->chunk);
    char options[128];
    snprintf(options, sizeof options, "-DTYPE=%s -DBIAS=%s -DITEMS=%d", ca_type_name(problem->desc.dtype),
             ca_bias_name(problem), ITEMS);
    if ((status = ca_kernel_create(context, sources, options, "pack", &s->pack)) ||
        (status = ca_kernel_create(context, sources, options, "softmax", &s->softmax)) ||
        (status = ca_kernel_create(context, sources, options, "finish", &s->finish)) ||
        (status = ca_gemm_create(context, row->gemm, CLATTN_F32, CLATTN_F32, &s->gemm)) ||
        (status = create_workspace(s, context, workspace_bytes))) {
        destroy(s);
        return status;
    }
    *state = s;
    return CLATTN_OK;
}

/* ---- One round ----------------------------------------------------------------------------------------- */

typedef struct argument {
    size_t bytes;
    const void *value;
} argument;

#define ARG(x)                                                                                               \
    {                                                                                                        \
        sizeof(x), &(x)                                                                                      \
    }

static clattn_status launch(cl_command_queue queue, cl_kernel kernel, const char *name,
                            const argument *arguments, size_t count, const size_t groups[3])
{
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = ca_kernel_arg(kernel, name, (cl_uint)i, arguments[i].bytes, arguments[i].value);
    return status ? status : ca_kernel_enqueue(queue, kernel, name, groups, (const size_t[3]){ ITEMS, 1, 1 });
}

/* What the functions below share: one call, its arguments, and where the round stands. */
typedef struct round_state {
    steps_state *s;
    cl_command_queue queue;
    const ca_call *call;
    ca_params params;
    cl_int z0, row0;
    int64_t zs, rows;
} round_state;

static size_t column_groups(int64_t columns)
{
    return (size_t)((columns + ITEMS - 1) / ITEMS);
}

/* Packs rows row0 .. row0 + rows - 1 of q, k or v into `to`. */
static clattn_status pack(const round_state *r, ca_slot slot, part to, int64_t row0, int64_t rows)
{
    const cl_int is_query = slot == CA_Q, each = slot == CA_Q ? r->params.group : 1, guard = slot == CA_V;
    const cl_int first = (cl_int)row0, columns = (cl_int)r->call->tensor[slot].extent[3];
    const ca_view view = slot == CA_Q ? r->params.q : slot == CA_K ? r->params.k : r->params.v;
    const ca_tensor *t = r->call->tensor;
    const argument arguments[] = { ARG(r->params),
                                   ARG(view),
                                   ARG(is_query),
                                   ARG(each),
                                   ARG(r->z0),
                                   ARG(first),
                                   ARG(columns),
                                   ARG(guard),
                                   ARG(t[slot].buffer),
                                   ARG(r->s->part[to]),
                                   ARG(r->s->part[PART_FLAG]),
                                   ARG(t[CA_ROWS_Q].buffer),
                                   ARG(t[CA_ROWS_KV].buffer) };
    const size_t groups[3] = { column_groups(columns), (size_t)rows, (size_t)(r->zs * each) };
    return launch(r->queue, r->s->pack, "pack", arguments, sizeof arguments / sizeof *arguments, groups);
}

static clattn_status softmax(const round_state *r)
{
    const ca_tensor *t = r->call->tensor;
    const argument arguments[] = { ARG(r->params),
                                   ARG(r->z0),
                                   ARG(r->row0),
                                   ARG(r->s->part[PART_S]),
                                   ARG(t[CA_LSE].buffer),
                                   ARG(r->s->part[PART_FLAG]),
                                   ARG(t[CA_KEEP].buffer),
                                   ARG(t[CA_BIAS].buffer),
                                   ARG(t[CA_SINKS].buffer),
                                   ARG(t[CA_ROWS_Q].buffer),
                                   ARG(t[CA_ROWS_KV].buffer) };
    const size_t groups[3] = { (size_t)r->rows, (size_t)(r->zs * r->params.group), 1 };
    return launch(r->queue, r->s->softmax, "softmax", arguments, sizeof arguments / sizeof *arguments,
                  groups);
}

static clattn_status finish(const round_state *r)
{
    const ca_tensor *t = r->call->tensor;
    const cl_int columns = (cl_int)r->s->problem.desc.d_v;
    const argument arguments[] = { ARG(r->params),
                                   ARG(r->z0),
                                   ARG(r->row0),
                                   ARG(columns),
                                   ARG(r->s->part[PART_O]),
                                   ARG(r->s->part[PART_S]),
                                   ARG(t[CA_V].buffer),
                                   ARG(t[CA_OUT].buffer),
                                   ARG(r->s->part[PART_FLAG]),
                                   ARG(t[CA_ROWS_Q].buffer),
                                   ARG(t[CA_ROWS_KV].buffer) };
    const size_t groups[3] = { column_groups(columns), (size_t)r->rows, (size_t)(r->zs * r->params.group) };
    return launch(r->queue, r->s->finish, "finish", arguments, sizeof arguments / sizeof *arguments, groups);
}

/* S[:, key0 ...] = scale Q K^T. */
static clattn_status multiply_keys(const round_state *r, int64_t key0, int64_t keys)
{
    const size_t rows = (size_t)(r->params.group * r->rows), d = (size_t)r->s->problem.desc.d_qk;
    const size_t len_kv = (size_t)r->call->len_kv;
    return ca_gemm_enqueue(
        r->s->gemm, r->queue,
        &(ca_gemm_problem){ .batch = (size_t)r->zs,
                            .m = rows,
                            .n = (size_t)keys,
                            .k = d,
                            .transpose_b = true,
                            .alpha = r->params.scale,
                            .a = { r->s->part[PART_Q], 0, d, rows * d },
                            .b = { r->s->part[PART_KV], 0, d, (size_t)keys * d },
                            .c = { r->s->part[PART_S], (size_t)key0, len_kv, rows * len_kv } });
}

/* O = S V, added up over the chunks of keys. */
static clattn_status multiply_values(const round_state *r, int64_t key0, int64_t keys)
{
    const size_t rows = (size_t)(r->params.group * r->rows), d = (size_t)r->s->problem.desc.d_v;
    const size_t len_kv = (size_t)r->call->len_kv;
    return ca_gemm_enqueue(
        r->s->gemm, r->queue,
        &(ca_gemm_problem){ .batch = (size_t)r->zs,
                            .m = rows,
                            .n = d,
                            .k = (size_t)keys,
                            .alpha = 1,
                            .beta = key0 ? 1 : 0,
                            .a = { r->s->part[PART_S], (size_t)key0, len_kv, rows * len_kv },
                            .b = { r->s->part[PART_KV], 0, d, (size_t)keys * d },
                            .c = { r->s->part[PART_O], 0, d, rows * d } });
}

static clattn_status play_round(const round_state *r)
{
    const int64_t len_kv = r->call->len_kv, step = r->s->chunk.keys;
    clattn_status status = pack(r, CA_Q, PART_Q, r->row0, r->rows);
    for (int64_t key0 = 0; !status && key0 < len_kv; key0 += step) {
        const int64_t keys = least(step, len_kv - key0);
        if (!(status = pack(r, CA_K, PART_KV, key0, keys)))
            status = multiply_keys(r, key0, keys);
    }
    if (!status)
        status = softmax(r);
    if (r->s->problem.desc.d_v == 0)
        return status;
    for (int64_t key0 = 0; !status && (key0 < len_kv || key0 == 0); key0 += step) {
        const int64_t keys = least(step, len_kv - key0);
        if (!(status = pack(r, CA_V, PART_KV, key0, keys)))
            status = multiply_values(r, key0, keys);
    }
    return status ? status : finish(r);
}

static clattn_status enqueue(void *state, cl_command_queue queue, const ca_call *call)
{
    steps_state *s = state;
    const int64_t zs = call->batch * s->problem.desc.heads_kv;
    round_state r = { .s = s, .queue = queue, .call = call, .params = ca_call_params(&s->problem, call) };
    clattn_status status = CLATTN_OK;
    for (int64_t z0 = 0; !status && z0 < zs; z0 += s->chunk.zs)
        for (int64_t row0 = 0; !status && row0 < call->len_q; row0 += s->chunk.rows) {
            r.z0 = (cl_int)z0;
            r.row0 = (cl_int)row0;
            r.zs = least(s->chunk.zs, zs - z0);
            r.rows = least(s->chunk.rows, call->len_q - row0);
            status = play_round(&r);
        }
    return status;
}

const ca_family ca_family_steps = { refuse, create, destroy, enqueue };
