/* host/attention/proof.c: proves a row before it computes anything: a wrong compiler or driver is found by
 * its numbers. Called by plan.c and variants.c. */
#include "attention/proof.h"

#include "base/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than the largest tile in both directions, so that whole tiles and the rest of one are run, where
 * heads are not so wide that the comparison would take long. */
enum { QUERIES = 53, KEYS = 130, KEYS_OF_FEW = 300, FEW = 16, SHARING = 2, TENSORS = 4, PRODUCTS = 1 << 26 };

/* One small attention: heads that share one kv head, no padding. */
typedef struct trial {
    ca_problem problem;
    float *q, *k, *v, *out; /* (head, row, column); numbers that every storage type holds */
    cl_mem buffer[CA_SLOTS];
    clattn_attention_call call;
} trial;

static void name_of(const ca_variant *row, const ca_problem *problem, char name[CLATTN_TEXT_BYTES])
{
    const clattn_attention_desc *d = &problem->desc;
    const bool few = d->len_q * problem->group <= FEW;
    snprintf(name, CLATTN_TEXT_BYTES, "row %s %s %s %lldx%lld%s%s%s%lld", row->name, ca_type_name(d->dtype),
             ca_bias_name(problem), (long long)d->d_qk, (long long)d->d_v, d->keep ? " keep" : "",
             d->softcap != 0 ? " softcap" : "", few ? " rows " : " ",
             few ? (long long)(d->len_q * problem->group) : 0LL);
}

bool ca_proof_allows(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                     char reason[CLATTN_TEXT_BYTES])
{
    char name[CLATTN_TEXT_BYTES];
    name_of(row, problem, name);
    return ca_verdict_find(context, name, reason) != CA_WRONG;
}

/* ---- The trial ----------------------------------------------------------------------------------------- */

/* The problem in small: what the kernels are compiled for stays. */
static clattn_status shrink(const ca_problem *problem, ca_problem *small)
{
    clattn_attention_desc d = problem->desc;
    const bool few = d.len_q * problem->group <= FEW;
    const int64_t most_keys = few ? KEYS_OF_FEW : KEYS;
    d.batch = d.heads_kv = 1;
    d.heads_q = few || problem->group < SHARING ? problem->group : SHARING;
    d.len_q = d.len_q < QUERIES ? d.len_q : QUERIES;
    d.len_kv = d.len_kv < most_keys ? d.len_kv : most_keys;
    while ((d.len_q > 1 || d.len_kv > 1) &&
           (double)(d.heads_q * d.len_q * d.len_kv) * (double)(d.d_qk + d.d_v) > PRODUCTS) {
        d.len_q = (d.len_q + 1) / 2;
        d.len_kv = (d.len_kv + 1) / 2;
    }
    d.scale = NAN;
    d.lengths_q = d.lengths_kv = d.packed = d.sinks = d.lse = false;
    d.weights = CLATTN_WEIGHTS_NONE;
    d.kernel = d.device = NULL;
    return ca_problem_judge(&d, small);
}

/* Eighths in -1 .. 0.875. */
static float *make_numbers(size_t count, unsigned seed)
{
    float *made = malloc((count + 1) * sizeof *made);
    for (size_t i = 0; made != NULL && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        made[i] = (float)(seed >> 28) / 8 - 1;
    }
    return made;
}

static uint16_t half_of_eighths(float x)
{
    int exponent;
    const float part = frexpf(fabsf(x), &exponent); /* 0.5 .. 1 */
    const unsigned bits = x == 0 ? 0 : (unsigned)(exponent + 14) << 10 | (unsigned)(part * 2048 - 1024);
    return (uint16_t)(bits | (x < 0 ? 0x8000u : 0));
}

static double from_half(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);
    return bits & 0x8000 ? -size : size;
}

static float from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Writes a number in the storage type. */
static void put(void *stored, size_t index, clattn_dtype dtype, float x)
{
    const size_t bytes = clattn_dtype_bytes(dtype);
    const uint16_t narrow = dtype == CLATTN_F16 ? half_of_eighths(x) : bf16_of(x);
    memcpy((char *)stored + index * bytes, dtype == CLATTN_F32 ? (const void *)&x : &narrow, bytes);
}

static double get(const void *stored, size_t index, clattn_dtype dtype)
{
    const size_t bytes = clattn_dtype_bytes(dtype);
    float wide = 0;
    uint16_t narrow = 0;
    memcpy(dtype == CLATTN_F32 ? (void *)&wide : &narrow, (const char *)stored + index * bytes, bytes);
    return dtype == CLATTN_F32   ? (double)wide
           : dtype == CLATTN_F16 ? from_half(narrow)
                                 : (double)from_bf16(narrow);
}

static clattn_status add_buffer(clattn_context *context, trial *of, ca_slot slot, const void *data,
                                size_t bytes)
{
    cl_int error;
    of->buffer[slot] = clCreateBuffer(context->cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes,
                                      (void *)(uintptr_t)data, &error);
    if (error == CL_SUCCESS)
        return CLATTN_OK;
    of->buffer[slot] = NULL;
    return ca_fail_cl(error, "clCreateBuffer", "a proof");
}

static void release(trial *of)
{
    for (int slot = 0; slot < CA_SLOTS; slot++)
        if (of->buffer[slot])
            clReleaseMemObject(of->buffer[slot]);
    free(of->q);
    free(of->k);
    free(of->v);
    free(of->out);
}

/* Numbers, buffers and call. Masks that are part of the kernels hide nothing and add nothing. */
static clattn_status prepare(clattn_context *context, const ca_problem *problem, trial *made)
{
    static const unsigned char visible = 1;
    static const float nothing = 0;
    const clattn_attention_desc *d = &made->problem.desc;
    memset(made, 0, sizeof *made);
    clattn_status status = shrink(problem, &made->problem);
    if (status)
        return status;
    const size_t queries = (size_t)(d->heads_q * d->len_q), keys = (size_t)d->len_kv;
    const struct {
        ca_slot slot;
        size_t count;
        float **numbers;
    } tensors[TENSORS] = { { CA_Q, queries * (size_t)d->d_qk, &made->q },
                           { CA_K, keys * (size_t)d->d_qk, &made->k },
                           { CA_V, keys * (size_t)d->d_v, &made->v },
                           { CA_OUT, queries * (size_t)d->d_v, &made->out } };
    for (int i = 0; !status && i < TENSORS; i++) {
        const size_t count = tensors[i].count, bytes = clattn_dtype_bytes(d->dtype);
        void *stored = calloc(count + 1, bytes);
        float *numbers = *tensors[i].numbers = make_numbers(count, (unsigned)i);
        for (size_t n = 0; stored && numbers && n < count; n++)
            put(stored, n, d->dtype, numbers[n]);
        status = stored && numbers ? add_buffer(context, made, tensors[i].slot, stored, count * bytes)
                                   : ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a proof");
        free(stored);
    }
    if (!status && d->keep)
        status = add_buffer(context, made, CA_KEEP, &visible, sizeof visible);
    if (!status && d->bias)
        status = add_buffer(context, made, CA_BIAS, &nothing, clattn_dtype_bytes(d->bias_dtype));
    clattn_attention_call *call = &made->call;
    clattn_attention_call_init(d, CLATTN_BHSD, call);
    call->q.buffer = made->buffer[CA_Q];
    call->k.buffer = made->buffer[CA_K];
    call->v.buffer = made->buffer[CA_V];
    call->out.buffer = made->buffer[CA_OUT];
    call->keep.buffer = made->buffer[CA_KEEP];
    call->bias.buffer = made->buffer[CA_BIAS];
    memset(call->keep.stride, 0, sizeof call->keep.stride);
    memset(call->bias.stride, 0, sizeof call->bias.stride);
    return status;
}

/* Runs the kernels and reads `out` back, in the storage type. */
static clattn_status compute(const ca_variant *row, clattn_context *context, const trial *of, void *stored)
{
    const clattn_attention_desc *d = &of->problem.desc;
    void *state = NULL;
    size_t workspace_bytes = 0;
    ca_call call;
    clattn_status status = row->family->create(row, context, &of->problem, &state, &workspace_bytes);
    if (status)
        return status;
    if (!(status = ca_call_judge(&of->problem, &of->call, &call)) &&
        !(status = ca_tensors_check(context, CA_FACE_BUFFERS, call.tensor, CA_SLOTS)))
        status = row->family->enqueue(state, context->queue, &call);
    if (!status) {
        const size_t bytes = (size_t)(d->heads_q * d->len_q * d->d_v) * clattn_dtype_bytes(d->dtype);
        const cl_int error =
            clEnqueueReadBuffer(context->queue, of->buffer[CA_OUT], CL_TRUE, 0, bytes, stored, 0, NULL, NULL);
        if (error != CL_SUCCESS)
            status = ca_fail_cl(error, "clEnqueueReadBuffer", "a proof");
    }
    row->family->destroy(state);
    return status;
}

/* ---- What is right ------------------------------------------------------------------------------------- */

static bool sees(const ca_problem *problem, int64_t i, int64_t j)
{
    const clattn_attention_desc *d = &problem->desc;
    const int64_t level = i + (d->alignment == CLATTN_TOP_LEFT ? 0 : d->len_kv - d->len_q);
    return (problem->left == CA_OPEN || j >= level - problem->left) &&
           (problem->right == CA_OPEN || j <= level + problem->right);
}

/* Row i of head h, into `want`; `weight` has room for the keys. */
static void attend(const trial *of, int64_t h, int64_t i, double *weight, double *want)
{
    const clattn_attention_desc *d = &of->problem.desc;
    const float *q = of->q + (h * d->len_q + i) * d->d_qk;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < d->len_kv; j++) {
        double score = 0;
        for (int64_t c = 0; c < d->d_qk; c++)
            score += (double)q[c] * (double)of->k[j * d->d_qk + c];
        score *= (double)d->scale;
        if (d->softcap > 0)
            score = (double)d->softcap * tanh(score / (double)d->softcap);
        weight[j] = sees(&of->problem, i, j) ? score : -INFINITY;
        most = fmax(most, weight[j]);
    }
    for (int64_t j = 0; j < d->len_kv; j++)
        sum += weight[j] = most == -INFINITY ? 0 : exp(weight[j] - most);
    for (int64_t c = 0; c < d->d_v; c++) {
        want[c] = 0;
        for (int64_t j = 0; j < d->len_kv && sum > 0; j++)
            want[c] += weight[j] / sum * (double)of->v[j * d->d_v + c];
    }
}

/* Compares all rows; false, with the first wrong number in `words`. */
static bool is_right(const trial *of, const void *stored, double *room, char words[CLATTN_TEXT_BYTES])
{
    const clattn_attention_desc *d = &of->problem.desc;
    const double allowed = d->dtype == CLATTN_F32 ? 1e-4 : d->dtype == CLATTN_F16 ? 2e-3 : 1.6e-2;
    double *weight = room, *want = room + d->len_kv;
    for (int64_t h = 0; h < d->heads_q; h++)
        for (int64_t i = 0; i < d->len_q; i++) {
            attend(of, h, i, weight, want);
            for (int64_t c = 0; c < d->d_v; c++) {
                const double gives = get(stored, (size_t)((h * d->len_q + i) * d->d_v + c), d->dtype);
                if (fabs(gives - want[c]) <= allowed)
                    continue;
                snprintf(words, CLATTN_TEXT_BYTES,
                         "it gives wrong numbers on this device: row %lld, column %lld of a small problem is "
                         "%.6g, "
                         "%.6g is right",
                         (long long)i, (long long)c, gives, want[c]);
                return false;
            }
        }
    return true;
}

clattn_status ca_proof_run(const ca_variant *row, clattn_context *context, const ca_problem *problem)
{
    const clattn_attention_desc *d = &problem->desc;
    char name[CLATTN_TEXT_BYTES], words[CLATTN_TEXT_BYTES];
    if (!d->batch || !d->heads_q || !d->len_q || !d->len_kv || !d->d_qk || !d->d_v)
        return CLATTN_OK;
    name_of(row, problem, name);
    ca_verdict verdict = ca_verdict_find(context, name, words);
    if (verdict == CA_UNTESTED) {
        trial of;
        clattn_status status = prepare(context, problem, &of);
        const clattn_attention_desc *small = &of.problem.desc;
        const size_t outputs = status ? 0 : (size_t)(small->heads_q * small->len_q * small->d_v);
        void *stored = calloc(outputs + 1, sizeof(float));
        double *room = calloc((size_t)(KEYS_OF_FEW + d->d_v), sizeof *room);
        if (!status && stored && room && !(status = compute(row, context, &of, stored)))
            verdict = is_right(&of, stored, room, words) ? CA_RIGHT : CA_WRONG;
        if (status)
            ca_log(context, CLATTN_LOG_INFO, "kernel %s is not proved: %s", row->name, clattn_last_message());
        if (verdict != CA_UNTESTED)
            ca_verdict_keep(context, name, verdict, words);
        release(&of);
        free(stored);
        free(room);
    }
    return verdict == CA_WRONG ? ca_fail(CLATTN_UNSUPPORTED, "kernel %s: %s", row->name, words) : CLATTN_OK;
}
