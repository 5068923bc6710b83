/* tools/bench_work.c: the tensors, buffers and plan of a case, and its call.
 * Called by bench.c and bench_measure.c. */
#include "bench.h"

#include <math.h>
#include <string.h>

/* Even in -1..1; the same numbers from the same seed. */
static float next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)((double)(*state >> 11) * 0x1p-52 - 1);
}

/* Judged before it is filled with numbers. */
static bool fits(const clattn_context *context, const char *name, const int64_t shape[4], tool_error *error)
{
    double bytes = (double)shape[0] * (double)shape[1] * (double)shape[2] * (double)shape[3] * sizeof(float);
    double most = (double)clattn_context_device(context)->max_alloc_bytes;
    return bytes <= most ||
           tool_fail(error, "%s: a tensor of %.0f bytes, the device's largest buffer has %.0f", name, bytes,
                     most);
}

static bool make_array(int index, tool_type type, const int64_t shape[4], double factor, tool_array *array,
                       tool_error *error)
{
    tool_array wide;
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(index + 1);
    if (!tool_array_create(TOOL_F32, 4, shape, "a tensor of the case", &wide, error))
        return false;
    for (size_t element = 0; element < wide.elements; element++)
        ((float *)wide.data)[element] = (float)factor * next_random(&state);
    if (type == TOOL_F32) {
        *array = wide;
        return true;
    }
    bool ok = tool_array_convert(&wide, type, "a tensor of the case", array, error);
    tool_array_free(&wide);
    return ok;
}

static bool make_buffer(bench_work *work, int index, tool_error *error)
{
    const tool_array *array = &work->array[index];
    cl_int status;
    cl_mem_flags flags = CL_MEM_COPY_HOST_PTR | (index == BENCH_OUT ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY);
    work->buffer[index] =
        clCreateBuffer(clattn_context_cl(work->context), flags,
                       array->elements * tool_types[array->type].bytes, array->data, &status);
    if (status == CL_SUCCESS)
        return true;
    work->buffer[index] = NULL;
    return tool_fail(error, "clCreateBuffer gave %d for %zu elements", status, array->elements);
}

bool bench_work_create(clattn_context *context, const bench_case *of, bench_work *work, tool_error *error)
{
    static const tool_type storage[] = {
        [CLATTN_F32] = TOOL_F32, [CLATTN_F16] = TOOL_F16, [CLATTN_BF16] = TOOL_BF16
    };
    const int64_t width = of->heads_q * of->d_qk;
    const double small = 1 / sqrt((double)width);
    struct {
        int64_t shape[4];
        double factor;
        bool is_weight;
    } wanted[BENCH_TENSORS] = {
        { { of->batch, of->heads_q, of->len_q, of->d_qk }, 1, false },
        { { of->batch, of->heads_kv, of->len_kv, of->d_qk }, 1, false },
        { { of->batch, of->heads_kv, of->len_kv, of->d_v }, 1, false },
        [BENCH_OUT] = { { of->batch, of->heads_q, of->len_q, of->d_v }, NAN, false },
    };
    if (of->is_module) {
        memcpy(wanted[0].shape, (int64_t[]){ of->batch, 1, of->len_q, width }, sizeof wanted[0].shape);
        memcpy(wanted[BENCH_OUT].shape, wanted[0].shape, sizeof wanted[0].shape);
        const int64_t weights[][2] = {
            { 3 * width, width }, { 1, 3 * width }, { width, width }, { 1, width }
        };
        for (int index = 0; index < 4; index++) {
            memcpy(wanted[1 + index].shape, (int64_t[]){ 1, 1, weights[index][0], weights[index][1] },
                   sizeof wanted[0].shape);
            wanted[1 + index].factor = small;
            wanted[1 + index].is_weight = true;
        }
    }
    memset(work, 0, sizeof *work);
    work->of = *of;
    work->context = context;
    for (int index = 0; index < BENCH_TENSORS; index++) {
        bool weight = wanted[index].is_weight;
        if (wanted[index].factor == 0)
            continue;
        if (!fits(context, of->name, wanted[index].shape, error) ||
            !make_array(index, weight ? TOOL_F32 : storage[of->dtype], wanted[index].shape,
                        wanted[index].factor, &work->array[index], error) ||
            (!weight && !make_buffer(work, index, error))) {
            bench_work_free(work);
            return false;
        }
    }
    return true;
}

static clattn_mha_desc describe_module(const bench_case *of)
{
    clattn_mha_desc desc;
    clattn_mha_desc_init(&desc, of->batch, of->len_q, of->len_kv, of->heads_q * of->d_qk, of->heads_q);
    desc.dtype = of->dtype;
    desc.causal = of->causal;
    desc.alignment = of->alignment;
    desc.kernel = of->kernel;
    return desc;
}

clattn_status bench_work_plan(bench_work *work)
{
    if (!work->of.is_module) {
        clattn_attention_desc desc = bench_describe(&work->of);
        return clattn_attention_plan_create(work->context, &desc, &work->plan);
    }
    clattn_mha_desc desc = describe_module(&work->of);
    clattn_mha_weights weights = { .dtype = CLATTN_F32,
                                   .in_proj_weight = work->array[1].data,
                                   .in_proj_bias = work->array[2].data,
                                   .out_proj_weight = work->array[3].data,
                                   .out_proj_bias = work->array[4].data };
    return clattn_mha_create(work->context, &desc, &weights, &work->mha);
}

clattn_attention_info bench_work_info(const bench_work *work)
{
    return work->mha ? clattn_mha_info(work->mha) : clattn_attention_plan_info(work->plan);
}

static clattn_status enqueue(bench_work *work, cl_command_queue queue)
{
    if (work->mha) {
        clattn_mha_desc desc = describe_module(&work->of);
        clattn_mha_call call;
        clattn_mha_call_init(&desc, &call);
        call.query.buffer = call.key.buffer = call.value.buffer = work->buffer[0];
        call.out.buffer = work->buffer[BENCH_OUT];
        return clattn_mha_enqueue(work->mha, queue, &call, 0, NULL, NULL);
    }
    clattn_attention_desc desc = bench_describe(&work->of);
    clattn_attention_call call;
    clattn_attention_call_init(&desc, CLATTN_BHSD, &call);
    call.q.buffer = work->buffer[0];
    call.k.buffer = work->buffer[1];
    call.v.buffer = work->buffer[2];
    call.out.buffer = work->buffer[BENCH_OUT];
    return clattn_attention_enqueue(work->plan, queue, &call, 0, NULL, NULL);
}

bool bench_work_call(bench_work *work, tool_error *error)
{
    cl_command_queue queue = clattn_context_queue(work->context);
    if (enqueue(work, queue) != CLATTN_OK)
        return tool_fail_library(error, work->of.name);
    cl_int status = clFinish(queue);
    return status == CL_SUCCESS || tool_fail(error, "%s: clFinish gave %d", work->of.name, status);
}

bool bench_work_fetch(bench_work *work, tool_error *error)
{
    tool_array *out = &work->array[BENCH_OUT];
    cl_int status =
        clEnqueueReadBuffer(clattn_context_queue(work->context), work->buffer[BENCH_OUT], CL_TRUE, 0,
                            out->elements * tool_types[out->type].bytes, out->data, 0, NULL, NULL);
    return status == CL_SUCCESS || tool_fail(error, "%s: clEnqueueReadBuffer gave %d", work->of.name, status);
}

void bench_work_free(bench_work *work)
{
    clattn_attention_plan_destroy(work->plan);
    clattn_mha_destroy(work->mha);
    for (int index = 0; index < BENCH_TENSORS; index++) {
        if (work->buffer[index])
            clReleaseMemObject(work->buffer[index]);
        tool_array_free(&work->array[index]);
    }
    memset(work, 0, sizeof *work);
}
