/* clattn/tensor.h: element types, and where a tensor lies. attention.h and nn.h pass every tensor this way.
 */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include <clattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Storage of tensor elements. Arithmetic is f32 whatever the storage. F16 is IEEE binary16; BF16 is the upper
 * half of an f32, rounded to nearest even when written. Neither needs cl_khr_fp16. */
typedef enum clattn_dtype { CLATTN_F32, CLATTN_F16, CLATTN_BF16 } clattn_dtype;

/* Bytes of one element: 4, 2, 2; 0 for an unknown type. */
CLATTN_API size_t clattn_dtype_bytes(clattn_dtype dtype);

/* Where a tensor lies: in an OpenCL buffer (expert face) or in host memory (simple face); the other is NULL.
 * Element (b, h, r, c), that is batch, head, row, column, lies at `offset_bytes` plus b * stride[0] + h *
 * stride[1] + r * stride[2] + c * stride[3] elements. Strides are not negative. stride[3] is 1, except 0 on a
 * mask with one column. Stride 0 repeats, on inputs only. `offset_bytes` is a multiple of the element size.
 * Fields that mean nothing for a tensor (the strides of a list) are ignored. */
typedef struct clattn_input {
    cl_mem buffer;
    const void *host;
    size_t offset_bytes;
    int64_t stride[4];
} clattn_input;

/* The same for memory that is written. No two elements of an output may share an address, and its byte range,
 * from its first to its last element, must not meet that of any input or other output. */
typedef struct clattn_output {
    cl_mem buffer;
    void *host;
    size_t offset_bytes;
    int64_t stride[4];
} clattn_output;

#ifdef __cplusplus
}
#endif
#endif
