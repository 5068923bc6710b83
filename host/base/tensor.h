/* host/base/tensor.h: the tensors of a call, whichever face they came through: checked once, staged when they
 * are host arrays. attention and nn list their tensors as an array of these. */
#ifndef CA_BASE_TENSOR_H
#define CA_BASE_TENSOR_H

#include "base/context.h"

#include <clattn/tensor.h>

/* "F32" and the like, as cl/base/types.cl names types. */
const char *ca_type_name(clattn_dtype dtype);

typedef struct ca_tensor {
    const char *name; /* as messages call it: "q" */
    bool present;
    bool is_output;
    size_t element_bytes;
    int64_t extent[4];
    int64_t stride[4]; /* elements */
    size_t offset_bytes;
    cl_mem buffer;
    void *host; /* written through for outputs only */
} ca_tensor;

/* A present tensor from its public form. `extent` are its four sizes; axes of extent 1 get stride 0. */
ca_tensor ca_tensor_in(const char *name, const clattn_input *in, size_t element_bytes,
                       const int64_t extent[4]);
ca_tensor ca_tensor_out(const char *name, const clattn_output *out, size_t element_bytes,
                        const int64_t extent[4]);

/* Elements in all; false when the product exceeds 64 bits. */
bool ca_tensor_elements(const ca_tensor *tensor, uint64_t *elements);

/* Bytes from the first element's first to the last element's last, 0 without elements; false when they exceed
 * size_t. Strides are not negative. */
bool ca_tensor_range_bytes(const ca_tensor *tensor, size_t *bytes);

enum { CA_MAX_TENSORS = 32 }; /* of one call */

/* OK when a size of a call is 0 to the description's; INVALID_SHAPE names both. */
clattn_status ca_call_size_check(const char *name, int64_t value, int64_t limit);

/* INVALID_ARGUMENT when a tensor is given that the description does not ask for. */
clattn_status ca_unasked_check(const char *name, bool given);

typedef enum ca_face { CA_FACE_BUFFERS, CA_FACE_HOST } ca_face;

/* Judges all present tensors: the memory that the face asks for is there (and not the other), the offset is a
 * multiple of the element, strides are not negative, outputs do not overlap themselves, reach overflows
 * nothing and stays within the buffer, buffers belong to the context, no output's range meets another
 * tensor's. Tensors without elements need no memory. */
clattn_status ca_tensors_check(const clattn_context *context, ca_face face, const ca_tensor *tensors,
                               size_t count);

/* Buffers made for one call on host arrays. */
typedef struct ca_staging ca_staging;

/* Gives every present tensor a buffer over or beside its host memory and fills inputs. Input ranges that
 * overlap (packed QKV) share a buffer. Rewrites buffer and offset_bytes of the tensors. Call after
 * ca_tensors_check. */
clattn_status ca_staging_create(clattn_context *context, ca_tensor *tensors, size_t count,
                                ca_staging **staging);

/* Waits for the context's queue and brings the outputs' elements to the host arrays: bytes between strided
 * elements keep what they held. */
clattn_status ca_staging_finish(ca_staging *staging);
void ca_staging_destroy(ca_staging *staging); /* NULL is allowed */

#endif
