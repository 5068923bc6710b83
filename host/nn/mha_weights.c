/* host/nn/mha_weights.c: the parameters of multi-head attention, from host arrays of any type to f32 on the
 * device. Called by mha.c. */
#include "nn/mha.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float float_from_f16(uint16_t bits)
{
    const int sign = bits >> 15, exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size;
    if (exponent == 31)
        size = fraction ? NAN : INFINITY;
    else
        size = exponent ? ldexpf((float)(fraction + 1024), exponent - 25) : ldexpf((float)fraction, -24);
    return sign ? -size : size;
}

static float float_from_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Writes `count` elements of `from` at element `at` of the buffer. */
static clattn_status upload(clattn_context *context, cl_mem buffer, size_t at, clattn_dtype dtype,
                            const void *from, size_t count)
{
    float *converted = NULL;
    if (dtype != CLATTN_F32) {
        converted = malloc(count * sizeof *converted);
        if (!converted)
            return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %zu weights", count);
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, (const char *)from + i * sizeof bits, sizeof bits);
            converted[i] = dtype == CLATTN_F16 ? float_from_f16(bits) : float_from_bf16(bits);
        }
        from = converted;
    }
    const cl_int error = clEnqueueWriteBuffer(context->queue, buffer, CL_TRUE, at * sizeof(float),
                                              count * sizeof(float), from, 0, NULL, NULL);
    free(converted);
    return error == CL_SUCCESS ? CLATTN_OK : ca_fail_cl(error, "clEnqueueWriteBuffer", "weights");
}

static clattn_status upload_biases(clattn_context *context, const clattn_mha_desc *desc,
                                   const clattn_mha_weights *w, ca_mha_parameters *p)
{
    const size_t e = (size_t)desc->embed_dim, bytes = clattn_dtype_bytes(w->dtype);
    const void *const apart[CA_MHA_PROJECTIONS] = { w->q_proj_bias, w->k_proj_bias, w->v_proj_bias };
    void *zeros = calloc(e, bytes);
    if (!zeros)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for biases");
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < CA_MHA_PROJECTIONS && status == CLATTN_OK; i++) {
        const void *from = w->in_proj_bias ? (const char *)w->in_proj_bias + i * e * bytes : apart[i];
        p->has_in_bias |= from != NULL;
        status = upload(context, p->biases, i * e, w->dtype, from ? from : zeros, e);
    }
    p->has_out_bias = w->out_proj_bias != NULL;
    if (status == CLATTN_OK)
        status = upload(context, p->biases, CA_MHA_PROJECTIONS * e, w->dtype,
                        w->out_proj_bias ? w->out_proj_bias : zeros, e);
    free(zeros);
    return status;
}

clattn_status ca_mha_parameters_create(clattn_context *context, const clattn_mha_desc *desc,
                                       const clattn_mha_weights *w, ca_mha_parameters *p)
{
    const int64_t e = desc->embed_dim;
    const int64_t width[CA_MHA_PROJECTIONS] = { e, desc->kdim, desc->vdim };
    const void *const apart[CA_MHA_PROJECTIONS] = { w->q_proj_weight, w->k_proj_weight, w->v_proj_weight };
    const size_t bytes = clattn_dtype_bytes(w->dtype);
    clattn_status status = CLATTN_OK;
    size_t sum = 0;
    memset(p, 0, sizeof *p);
    if ((status = ca_mha_buffer(context, "in-projection", sizeof(float), e, width[0] + width[1] + width[2], 1,
                                &sum, &p->in_weights)) ||
        (status = ca_mha_buffer(context, "out-projection", sizeof(float), e, e, 1, &sum, &p->out_weights)) ||
        (status =
             ca_mha_buffer(context, "biases", sizeof(float), CA_MHA_PROJECTIONS + 1, e, 1, &sum, &p->biases)))
        goto fail;
    size_t at = 0;
    for (size_t i = 0; i < CA_MHA_PROJECTIONS; i++) {
        const size_t count = (size_t)(e * width[i]);
        const void *from = w->in_proj_weight ? (const char *)w->in_proj_weight + at * bytes : apart[i];
        p->in_weights_at[i] = at;
        if ((status = upload(context, p->in_weights, at, w->dtype, from, count)))
            goto fail;
        at += count;
    }
    if ((status = upload(context, p->out_weights, 0, w->dtype, w->out_proj_weight, (size_t)(e * e))) ||
        (status = upload_biases(context, desc, w, p)))
        goto fail;
    return CLATTN_OK;
fail:
    ca_mha_parameters_destroy(p);
    return status;
}

void ca_mha_parameters_destroy(ca_mha_parameters *p)
{
    cl_mem buffers[] = { p->in_weights, p->out_weights, p->biases };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i])
            clReleaseMemObject(buffers[i]);
    memset(p, 0, sizeof *p);
}
