/* tests/support/array.h: a strided tensor inside a larger block of memory whose other bytes are known. Cases
 * build their inputs and outputs from these; the same block serves as host array and as the contents of a
 * buffer. */
#ifndef CT_ARRAY_H
#define CT_ARRAY_H

#include "support/harness.h"

typedef enum ct_type { CT_NONE, CT_F32, CT_F16, CT_BF16, CT_U8, CT_I32 } ct_type;

typedef struct ct_array {
    ct_type type; /* CT_NONE: absent */
    int64_t extent[4];
    int64_t stride[4];
    size_t offset_bytes;
    size_t bytes; /* of the whole block */
    unsigned char *memory;
    struct ct_array *owner; /* the array whose block this one shares, or NULL */
    cl_mem buffer;
} ct_array;

ct_type ct_type_of(clattn_dtype dtype);
size_t ct_type_bytes(ct_type type);

/* A block with room for the tensor at `offset_bytes` and some bytes behind it, every byte poisoned: NaN as
 * f32, f16 and bf16, visible as a mask, negative as a length. */
void ct_array_make(ct_array *array, ct_type type, const int64_t extent[4], const int64_t stride[4],
                   size_t offset_bytes);

/* The same in the block of `owner`, which must be large enough. */
void ct_array_share(ct_array *array, ct_array *owner, const int64_t extent[4], const int64_t stride[4],
                    size_t offset_bytes);
void ct_array_free(ct_array *array);

/* Strides of a contiguous tensor. */
void ct_contiguous(const int64_t extent[4], int64_t stride[4]);

int64_t ct_array_elements(const ct_array *array);
double ct_array_get(const ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c);

/* Rounds to the type. */
void ct_array_set(ct_array *array, int64_t b, int64_t h, int64_t r, int64_t c, double value);

/* Sets every element, contiguous order, from `values` (as many as there are elements). */
void ct_array_set_all(ct_array *array, const double *values);
void ct_array_fill(ct_array *array, double value);

/* Poisons the whole block again. */
void ct_array_poison(ct_array *array);

/* Fails the test when a byte outside the elements is not poison any more. */
void ct_array_check_canaries(const ct_array *array, const char *name);

/* Makes a buffer with the block's contents; reads it back into the block; releases it. */
void ct_array_upload(ct_array *array, cl_mem_flags flags);
void ct_array_download(ct_array *array);
void ct_array_release_buffer(ct_array *array);

/* As a call's tensor: the buffer if there is one, the memory otherwise. All zero when absent. */
clattn_input ct_array_input(const ct_array *array);
clattn_output ct_array_output(const ct_array *array);

#endif
