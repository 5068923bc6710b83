/* tests/support/array.c: owns the poison pattern and the way from numbers to bytes. Called by cases and
 * tests. */
#include "support/array.h"

#include "reference/halves.h"

#include <stdlib.h>
#include <string.h>

enum { TAIL_BYTES = 192 };

/* Two bytes over and over: a quiet NaN in all three float types. */
static const unsigned char POISON[2] = { 0xe5, 0xff };

ct_type ct_type_of(clattn_dtype dtype)
{
    return dtype == CLATTN_F16 ? CT_F16 : dtype == CLATTN_BF16 ? CT_BF16 : CT_F32;
}

size_t ct_type_bytes(ct_type type)
{
    static const size_t bytes[] = { 0, 4, 2, 2, 1, 4 };
    return bytes[type];
}

void ct_contiguous(const int64_t extent[4], int64_t stride[4])
{
    stride[3] = 1;
    for (int axis = 2; axis >= 0; axis--)
        stride[axis] = stride[axis + 1] * extent[axis + 1];
}

int64_t ct_array_elements(const ct_array *array)
{
    return array->extent[0] * array->extent[1] * array->extent[2] * array->extent[3];
}

static size_t reach_bytes(const ct_array *array)
{
    int64_t last = 0;
    if (ct_array_elements(array) == 0)
        return array->offset_bytes;
    for (int axis = 0; axis < 4; axis++)
        last += (array->extent[axis] - 1) * array->stride[axis];
    return array->offset_bytes + (size_t)(last + 1) * ct_type_bytes(array->type);
}

static void place(ct_array *array, ct_type type, const int64_t extent[4], const int64_t stride[4],
                  size_t offset_bytes)
{
    memset(array, 0, sizeof *array);
    array->type = type;
    array->offset_bytes = offset_bytes;
    memcpy(array->extent, extent, sizeof array->extent);
    memcpy(array->stride, stride, sizeof array->stride);
}

void ct_array_make(ct_array *array, ct_type type, const int64_t extent[4], const int64_t stride[4],
                   size_t offset_bytes)
{
    place(array, type, extent, stride, offset_bytes);
    array->bytes = (reach_bytes(array) + TAIL_BYTES + 63) / 64 * 64;
    array->memory = aligned_alloc(64, array->bytes);
    assert_non_null(array->memory);
    ct_array_poison(array);
}

void ct_array_share(ct_array *array, ct_array *owner, const int64_t extent[4], const int64_t stride[4],
                    size_t offset_bytes)
{
    place(array, owner->type, extent, stride, offset_bytes);
    array->owner = owner;
    array->memory = owner->memory;
    array->bytes = owner->bytes;
    assert_true(ct_array_elements(array) == 0 || reach_bytes(array) <= owner->bytes);
}

void ct_array_free(ct_array *array)
{
    ct_array_release_buffer(array);
    if (!array->owner)
        free(array->memory);
    memset(array, 0, sizeof *array);
}

static unsigned char *element(const ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c)
{
    int64_t index = b * array->stride[0] + h * array->stride[1] + r * array->stride[2] + c * array->stride[3];
    return array->memory + array->offset_bytes + (size_t)index * ct_type_bytes(array->type);
}

double ct_array_get(const ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c)
{
    const unsigned char *from = element(array, b, h, r, c);
    float f32;
    uint16_t half;
    int32_t i32;
    switch (array->type) {
    case CT_F32:
        memcpy(&f32, from, sizeof f32);
        return f32;
    case CT_F16:
        memcpy(&half, from, sizeof half);
        return ref_f16_to(half);
    case CT_BF16:
        memcpy(&half, from, sizeof half);
        return ref_bf16_to(half);
    case CT_I32:
        memcpy(&i32, from, sizeof i32);
        return i32;
    case CT_U8:
        return *from;
    case CT_NONE:
        break;
    }
    ct_fail("an absent array was read");
    return 0;
}

void ct_array_set(ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c, double value)
{
    unsigned char *to = element(array, b, h, r, c);
    float f32 = 0;
    uint16_t half;
    int32_t i32;
    switch (array->type) {
    case CT_F32:
        f32 = (float)value;
        memcpy(to, &f32, sizeof f32);
        return;
    case CT_F16:
        half = ref_f16_from(value);
        memcpy(to, &half, sizeof half);
        return;
    case CT_BF16:
        half = ref_bf16_from(value);
        memcpy(to, &half, sizeof half);
        return;
    case CT_I32:
        i32 = (int32_t)value;
        memcpy(to, &i32, sizeof i32);
        return;
    case CT_U8:
        *to = (unsigned char)value;
        return;
    case CT_NONE:
        break;
    }
    ct_fail("an absent array was written");
}

/* Walks the elements in contiguous order; with `values` NULL every one becomes `value`. */
static void set_elements(ct_array *array, const double *values, double value)
{
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t c = 0; c < array->extent[3]; c++)
                    ct_array_set(array, b, h, r, c, values ? *values++ : value);
}

void ct_array_set_all(ct_array *array, const double *values)
{
    set_elements(array, values, 0);
}

void ct_array_fill(ct_array *array, double value)
{
    set_elements(array, NULL, value);
}

void ct_array_poison(ct_array *array)
{
    for (size_t i = 0; i < array->bytes; i++)
        array->memory[i] = POISON[i % 2];
}

void ct_array_check_canaries(const ct_array *array, const char *name)
{
    unsigned char *covered = ct_alloc(array->bytes);
    for (int64_t b = 0; b < array->extent[0]; b++)
        for (int64_t h = 0; h < array->extent[1]; h++)
            for (int64_t r = 0; r < array->extent[2]; r++)
                for (int64_t c = 0; c < array->extent[3]; c++)
                    memset(covered + (element(array, b, h, r, c) - array->memory), 1,
                           ct_type_bytes(array->type));
    for (size_t i = 0; i < array->bytes; i++)
        if (!covered[i] && array->memory[i] != POISON[i % 2])
            ct_fail("%s: byte %zu of %zu lies outside the elements and was written (elements from byte %zu)",
                    name, i, array->bytes, array->offset_bytes);
    free(covered);
}

void ct_array_upload(ct_array *array, cl_mem_flags flags)
{
    cl_int error;
    if (array->owner) {
        assert_non_null(array->owner->buffer);
        array->buffer = array->owner->buffer;
        ct_cl_ok(clRetainMemObject(array->buffer));
        return;
    }
    array->buffer =
        clCreateBuffer(ct_cl(), flags | CL_MEM_COPY_HOST_PTR, array->bytes, array->memory, &error);
    ct_cl_ok(error);
}

void ct_array_download(ct_array *array)
{
    ct_cl_ok(clEnqueueReadBuffer(ct_queue(), array->buffer, CL_TRUE, 0, array->bytes, array->memory, 0, NULL,
                                 NULL));
}

void ct_array_release_buffer(ct_array *array)
{
    if (array->buffer)
        clReleaseMemObject(array->buffer);
    array->buffer = NULL;
}

clattn_input ct_array_input(const ct_array *array)
{
    clattn_input input = { 0 };
    if (array->type == CT_NONE)
        return input;
    input.buffer = array->buffer;
    input.host = array->buffer ? NULL : array->memory;
    input.offset_bytes = array->offset_bytes;
    memcpy(input.stride, array->stride, sizeof input.stride);
    return input;
}

clattn_output ct_array_output(const ct_array *array)
{
    clattn_output output = { 0 };
    if (array->type == CT_NONE)
        return output;
    output.buffer = array->buffer;
    output.host = array->buffer ? NULL : array->memory;
    output.offset_bytes = array->offset_bytes;
    memcpy(output.stride, array->stride, sizeof output.stride);
    return output;
}
