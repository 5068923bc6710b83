/* host/nn/mha_weights.c: the parameters of multi-head attention, from host arrays of any type to the device.
 * Called by mha.c. */
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

/* `count` elements of `from`, stored as `to_dtype`, which is dtype or f32; zeros when from is NULL. */
static void convert(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype dtype, size_t count)
{
    if (!from) {
        memset(to, 0, count * clattn_dtype_bytes(to_dtype));
    } else if (dtype == to_dtype) {
        memcpy(to, from, count * clattn_dtype_bytes(dtype));
    } else {
        float *floats = to;
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, (const char *)from + i * sizeof bits, sizeof bits);
            floats[i] = dtype == CLATTN_F16 ? float_from_f16(bits) : float_from_bf16(bits);
        }
    }
}

typedef struct part {
    const void *from;
    int64_t rows, columns;
} part;

/* One buffer of all parts, of equal rows, end to end, made and filled in one go. */
static clattn_status make(clattn_context *context, const char *name, clattn_dtype dtype,
                          clattn_dtype to_dtype, const part *parts, size_t count, cl_mem *buffer)
{
    int64_t columns = 0;
    for (size_t i = 0; i < count; i++)
        columns += parts[i].columns;
    const size_t element_bytes = clattn_dtype_bytes(to_dtype);
    size_t bytes = 0;
    clattn_status status =
        ca_mha_buffer(context, name, element_bytes, parts[0].rows, columns, 1, &bytes, buffer);
    if (status != CLATTN_OK)
        return status;
    char *all = malloc(bytes);
    if (!all)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "%s: no host memory for %zu bytes", name, bytes);
    char *at = all;
    for (size_t i = 0; i < count; i++) {
        const size_t part_elements = (size_t)(parts[i].rows * parts[i].columns);
        convert(at, to_dtype, parts[i].from, dtype, part_elements);
        at += part_elements * element_bytes;
    }
    const cl_int error = clEnqueueWriteBuffer(context->queue, *buffer, CL_TRUE, 0, bytes, all, 0, NULL, NULL);
    free(all);
    return error == CL_SUCCESS ? CLATTN_OK : ca_fail_cl(error, "clEnqueueWriteBuffer", name);
}

/* Part i of three that lie one after the other from `packed` on, or else `apart`. */
static const void *third(const void *packed, const void *apart, size_t i, size_t bytes)
{
    return packed ? (const char *)packed + i * bytes : apart;
}

clattn_status ca_mha_parameters_create(clattn_context *context, const clattn_mha_desc *desc,
                                       const clattn_mha_weights *w, ca_mha_parameters *p)
{
    const int64_t e = desc->embed_dim;
    const size_t row = clattn_dtype_bytes(w->dtype) * (size_t)e; /* bytes */
    const part in_weights[CA_MHA_PROJECTIONS] = {
        { third(w->in_proj_weight, w->q_proj_weight, 0, row * (size_t)e), e, e },
        { third(w->in_proj_weight, w->k_proj_weight, 1, row * (size_t)e), e, desc->kdim },
        { third(w->in_proj_weight, w->v_proj_weight, 2, row * (size_t)e), e, desc->vdim },
    };
    const part biases[CA_MHA_PROJECTIONS + 1] = { { third(w->in_proj_bias, w->q_proj_bias, 0, row), 1, e },
                                                  { third(w->in_proj_bias, w->k_proj_bias, 1, row), 1, e },
                                                  { third(w->in_proj_bias, w->v_proj_bias, 2, row), 1, e },
                                                  { w->out_proj_bias, 1, e } };
    const part out_weights = { w->out_proj_weight, e, e };
    clattn_status status = CLATTN_OK;
    memset(p, 0, sizeof *p);
    p->dtype = ca_gemm_reads(context, desc->gemm, w->dtype);
    if ((status = make(context, "in-projection", w->dtype, p->dtype, in_weights, CA_MHA_PROJECTIONS,
                       &p->in_weights)) ||
        (status = make(context, "out-projection", w->dtype, p->dtype, &out_weights, 1, &p->out_weights)) ||
        (status =
             make(context, "biases", w->dtype, CLATTN_F32, biases, CA_MHA_PROJECTIONS + 1, &p->biases))) {
        ca_mha_parameters_destroy(p);
        return status;
    }
    for (size_t i = 0, at = 0; i < CA_MHA_PROJECTIONS; i++) {
        p->in_weights_at[i] = at;
        at += (size_t)(in_weights[i].rows * in_weights[i].columns);
        p->has_in_bias |= biases[i].from != NULL;
    }
    p->has_out_bias = w->out_proj_bias != NULL;
    return CLATTN_OK;
}

void ca_mha_parameters_destroy(ca_mha_parameters *p)
{
    cl_mem buffers[] = { p->in_weights, p->out_weights, p->biases };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i])
            clReleaseMemObject(buffers[i]);
    memset(p, 0, sizeof *p);
}
