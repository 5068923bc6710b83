/* host/nn/rows.h: the small kernels of cl/nn around matrix products and attention. Owned by rows.c; mha.c
 * enqueues them. Places are in elements; (batch, rows) are walked together. Nothing happens where there is
 * nothing to do. */
#ifndef CA_NN_ROWS_H
#define CA_NN_ROWS_H

#include "base/tensor.h"

/* Row (b, r) of a (batch, rows, width) tensor lies at offset + b * batch_stride + r * row_stride. */
typedef struct ca_rows_view {
    cl_mem buffer;
    size_t offset, batch_stride, row_stride;
} ca_rows_view;

typedef struct ca_rows_size {
    size_t batch, rows, width;
} ca_rows_size;

/* A mask of any strides. */
typedef struct ca_mask_view {
    cl_mem buffer;
    size_t offset, stride[4];
} ca_mask_view;

typedef struct ca_rows ca_rows;

/* Builds the kernels; `dtype` is what load reads and store writes. */
clattn_status ca_rows_create(clattn_context *context, clattn_dtype dtype, ca_rows **rows);
void ca_rows_destroy(ca_rows *rows); /* NULL is allowed */

/* Storage to compact floats, and back. */
clattn_status ca_rows_load(ca_rows *rows, cl_command_queue queue, ca_rows_size size, const ca_rows_view *from,
                           cl_mem to, size_t to_offset);
clattn_status ca_rows_store(ca_rows *rows, cl_command_queue queue, ca_rows_size size, cl_mem from,
                            size_t from_offset, const ca_rows_view *to);

/* to = factor * from when `first`, to += factor * from otherwise; `from` is compact. */
clattn_status ca_rows_add(ca_rows *rows, cl_command_queue queue, ca_rows_size size, float factor, bool first,
                          cl_mem from, const ca_rows_view *to);

/* A boolean mask as compact KEEP bytes of `extent`, or as floats to add; `drop`: not 0 hides. */
clattn_status ca_mask_keep(ca_rows *rows, cl_command_queue queue, const int64_t extent[4], bool drop,
                           const ca_mask_view *from, cl_mem to);
clattn_status ca_mask_bias(ca_rows *rows, cl_command_queue queue, const int64_t extent[4], bool drop,
                           const ca_mask_view *from, cl_mem to);

#endif
