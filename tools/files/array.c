/* tools/files/array.c: arrays in host memory, conversion of their numbers, and error lines.
 * Called by every file reader and writer, and by the program's commands. */
#include "files/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tool_type_facts tool_types[TOOL_TYPES] = {
#define TOOL_TYPE_ROW(name, bytes, text, numpy, safetensors) { bytes, text, numpy, safetensors },
    TOOL_TYPE_LIST(TOOL_TYPE_ROW)
#undef TOOL_TYPE_ROW
};

static void write_error(tool_error *error, bool usage, const char *format, va_list arguments)
{
    error->usage = usage;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    for (char *at = error->text; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    }
}

bool tool_fail(tool_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_error(error, false, format, arguments);
    va_end(arguments);
    return false;
}

bool tool_fail_usage(tool_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_error(error, true, format, arguments);
    va_end(arguments);
    return false;
}

bool tool_type_is_float(tool_type type)
{
    return type <= TOOL_F64;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float tool_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {
        float magnitude = ldexpf((float)fraction, -24);
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
}

float tool_bf16_to_f32(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

uint16_t tool_f32_to_f16(float value)
{
    uint16_t sign = (uint16_t)((bits_of(value) >> 16) & 0x8000u);
    float magnitude = fabsf(value);
    if (isnan(value))
        return sign | 0x7e00u;
    if (magnitude >= 65520.0f)
        return sign | 0x7c00u;
    if (magnitude < 6.103515625e-05f)
        return sign | (uint16_t)nearbyintf(ldexpf(magnitude, 24));
    uint32_t bits = bits_of(magnitude);
    bits += 0xfffu + ((bits >> 13) & 1u);
    return sign | (uint16_t)((bits >> 13) - (112u << 10));
}

uint16_t tool_f32_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if (isnan(value))
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

bool tool_count(int rank, const int64_t *shape, size_t element_bytes, size_t *elements)
{
    const uint64_t limit = SIZE_MAX < INT64_MAX ? SIZE_MAX : INT64_MAX;
    uint64_t product = 1;
    bool empty = false;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0)
            return false;
        if (shape[axis] == 0)
            empty = true;
        else if (product > limit / element_bytes / (uint64_t)shape[axis])
            return false;
        else
            product *= (uint64_t)shape[axis];
    }
    *elements = empty ? 0 : (size_t)product;
    return true;
}

bool tool_array_create(tool_type type, int rank, const int64_t *shape, const char *name, tool_array *array,
                       tool_error *error)
{
    enum { PAGE = 4096 };
    char text[TOOL_SHAPE_BYTES];
    const tool_type_facts *facts = &tool_types[type];
    tool_array made = { .type = type, .rank = rank };
    memset(array, 0, sizeof *array);
    if (rank > TOOL_MAX_RANK)
        return tool_fail(error, "%s: %d axes, at most %d are allowed", name, rank, TOOL_MAX_RANK);
    if (!tool_count(rank, shape, facts->bytes, &made.elements))
        return tool_fail(error, "%s: shape %s of %s is too large to express", name,
                         tool_shape_text(rank, shape, text), facts->text);
    if (rank > 0)
        memcpy(made.shape, shape, (size_t)rank * sizeof *shape);
    size_t bytes = made.elements * facts->bytes;
    if (bytes <= SIZE_MAX - PAGE)
        made.data = aligned_alloc(PAGE, (bytes + PAGE) / PAGE * PAGE);
    if (!made.data)
        return tool_fail(error, "%s: no memory for %zu bytes of shape %s", name, bytes,
                         tool_shape_text(rank, shape, text));
    *array = made;
    return true;
}

void tool_array_free(tool_array *array)
{
    free(array->data);
    memset(array, 0, sizeof *array);
}

double tool_array_get(const tool_array *array, size_t index)
{
    switch (array->type) {
    case TOOL_F16:
        return tool_f16_to_f32(((const uint16_t *)array->data)[index]);
    case TOOL_BF16:
        return tool_bf16_to_f32(((const uint16_t *)array->data)[index]);
    case TOOL_F32:
        return ((const float *)array->data)[index];
    case TOOL_F64:
        return ((const double *)array->data)[index];
    case TOOL_I32:
        return ((const int32_t *)array->data)[index];
    case TOOL_I64:
        return (double)((const int64_t *)array->data)[index];
    case TOOL_U8:
    case TOOL_BOOL:
    case TOOL_TYPES:
        break;
    }
    return ((const uint8_t *)array->data)[index];
}

static void put(tool_array *array, size_t index, float value)
{
    if (array->type == TOOL_F32)
        ((float *)array->data)[index] = value;
    else if (array->type == TOOL_F16)
        ((uint16_t *)array->data)[index] = tool_f32_to_f16(value);
    else
        ((uint16_t *)array->data)[index] = tool_f32_to_bf16(value);
}

bool tool_array_convert(const tool_array *from, tool_type type, const char *name, tool_array *to,
                        tool_error *error)
{
    if (!tool_array_create(type, from->rank, from->shape, name, to, error))
        return false;
    if (from->type == type) {
        memcpy(to->data, from->data, from->elements * tool_types[type].bytes);
        return true;
    }
    for (size_t index = 0; index < from->elements; index++) {
        double value = tool_array_get(from, index);
        /* The cast of a double beyond float's range is undefined. */
        bool beyond = isfinite(value) && fabs(value) >= 0x1.ffffffp127;
        if (!beyond)
            put(to, index, (float)value);
        if (beyond || (isfinite(value) && !isfinite(tool_array_get(to, index)))) {
            tool_array_free(to);
            return tool_fail(error, "%s: %.9g at element %zu is too large for %s", name, value, index,
                             tool_types[type].text);
        }
    }
    return true;
}

const char *tool_shape_text(int rank, const int64_t *shape, char text[TOOL_SHAPE_BYTES])
{
    size_t used = 0;
    text[used++] = '(';
    for (int axis = 0; axis < rank && axis < TOOL_MAX_RANK; axis++)
        used += (size_t)snprintf(text + used, TOOL_SHAPE_BYTES - used, "%s%lld", axis ? ", " : "",
                                 (long long)shape[axis]);
    snprintf(text + used, TOOL_SHAPE_BYTES - used, rank == 1 ? ",)" : ")");
    return text;
}
