/* host/nn/rows.c: builds and enqueues cl/nn/rows.cl and cl/nn/masks.cl. Called by mha.c. */
#include "nn/rows.h"

#include "base/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 32, MOST_ARGUMENTS = 12 };

typedef enum kernel_id { LOAD, STORE, ADD, KEEP, BIAS, KERNELS } kernel_id;
static const char *const names[KERNELS] = { "rows_load", "rows_store", "rows_add", "mask_keep", "mask_bias" };

struct ca_rows {
    cl_kernel kernel[KERNELS];
};

/* One kernel's arguments in the order of its parameters. */
typedef struct arguments {
    cl_uint count;
    struct {
        size_t bytes;
        union {
            cl_ulong size;
            cl_mem buffer;
            cl_float factor;
            cl_int flag;
        } value;
    } list[MOST_ARGUMENTS];
} arguments;

static void add_size(arguments *a, size_t size)
{
    a->list[a->count].bytes = sizeof(cl_ulong);
    a->list[a->count++].value.size = size;
}

static void add_buffer(arguments *a, cl_mem buffer)
{
    a->list[a->count].bytes = sizeof(cl_mem);
    a->list[a->count++].value.buffer = buffer;
}

static void add_flag(arguments *a, bool flag)
{
    a->list[a->count].bytes = sizeof(cl_int);
    a->list[a->count++].value.flag = flag;
}

static void add_factor(arguments *a, float factor)
{
    a->list[a->count].bytes = sizeof(cl_float);
    a->list[a->count++].value.factor = factor;
}

static void add_view(arguments *a, const ca_rows_view *view)
{
    add_buffer(a, view->buffer);
    add_size(a, view->offset);
    add_size(a, view->batch_stride);
    add_size(a, view->row_stride);
}

static clattn_status enqueue(ca_rows *rows, cl_command_queue queue, kernel_id id, const arguments *a,
                             size_t count)
{
    clattn_status status = CLATTN_OK;
    for (cl_uint i = 0; i < a->count && status == CLATTN_OK; i++)
        status = ca_kernel_arg(rows->kernel[id], names[id], i, a->list[i].bytes, &a->list[i].value);
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { count, 1, 1 }, local[3] = { ITEMS, 1, 1 };
    return ca_kernel_enqueue(queue, rows->kernel[id], names[id], groups, local);
}

clattn_status ca_rows_create(clattn_context *context, clattn_dtype dtype, ca_rows **rows)
{
    static const char *const row_sources[] = { "base/types.cl", "nn/rows.cl", NULL };
    static const char *const mask_sources[] = { "nn/masks.cl", NULL };
    *rows = NULL;
    ca_rows *made = calloc(1, sizeof *made);
    if (!made)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for kernels");
    char row_options[64], mask_options[64];
    snprintf(row_options, sizeof row_options, "-DITEMS=%d -DTYPE=%s", ITEMS, ca_type_name(dtype));
    snprintf(mask_options, sizeof mask_options, "-DITEMS=%d", ITEMS);
    clattn_status status = CLATTN_OK;
    for (int id = 0; id < KERNELS && status == CLATTN_OK; id++) {
        const bool mask = id == KEEP || id == BIAS;
        status = ca_kernel_create(context, mask ? mask_sources : row_sources,
                                  mask ? mask_options : row_options, names[id], &made->kernel[id]);
    }
    if (status != CLATTN_OK) {
        ca_rows_destroy(made);
        return status;
    }
    *rows = made;
    return CLATTN_OK;
}

void ca_rows_destroy(ca_rows *rows)
{
    if (!rows)
        return;
    for (int id = 0; id < KERNELS; id++)
        if (rows->kernel[id])
            clReleaseKernel(rows->kernel[id]);
    free(rows);
}

static arguments begin(ca_rows_size size)
{
    arguments a = { 0 };
    add_size(&a, size.rows);
    add_size(&a, size.width);
    return a;
}

static bool is_empty(ca_rows_size size)
{
    return size.batch == 0 || size.rows == 0 || size.width == 0;
}

clattn_status ca_rows_load(ca_rows *rows, cl_command_queue queue, ca_rows_size size, const ca_rows_view *from,
                           cl_mem to, size_t to_offset)
{
    if (is_empty(size))
        return CLATTN_OK;
    arguments a = begin(size);
    add_view(&a, from);
    add_buffer(&a, to);
    add_size(&a, to_offset);
    return enqueue(rows, queue, LOAD, &a, size.batch * size.rows);
}

clattn_status ca_rows_store(ca_rows *rows, cl_command_queue queue, ca_rows_size size, cl_mem from,
                            size_t from_offset, const ca_rows_view *to)
{
    if (is_empty(size))
        return CLATTN_OK;
    arguments a = begin(size);
    add_buffer(&a, from);
    add_size(&a, from_offset);
    add_view(&a, to);
    return enqueue(rows, queue, STORE, &a, size.batch * size.rows);
}

clattn_status ca_rows_add(ca_rows *rows, cl_command_queue queue, ca_rows_size size, float factor, bool first,
                          cl_mem from, const ca_rows_view *to)
{
    if (is_empty(size))
        return CLATTN_OK;
    arguments a = begin(size);
    add_factor(&a, factor);
    add_flag(&a, first);
    add_buffer(&a, from);
    add_view(&a, to);
    return enqueue(rows, queue, ADD, &a, size.batch * size.rows);
}

static clattn_status enqueue_mask(ca_rows *rows, cl_command_queue queue, kernel_id id,
                                  const int64_t extent[4], bool drop, const ca_mask_view *from, cl_mem to)
{
    const size_t count = (size_t)extent[0] * (size_t)extent[1] * (size_t)extent[2];
    if (count == 0 || extent[3] == 0)
        return CLATTN_OK;
    arguments a = { 0 };
    for (int axis = 1; axis < 4; axis++)
        add_size(&a, (size_t)extent[axis]);
    add_flag(&a, drop);
    add_buffer(&a, from->buffer);
    add_size(&a, from->offset);
    for (int axis = 0; axis < 4; axis++)
        add_size(&a, from->stride[axis]);
    add_buffer(&a, to);
    return enqueue(rows, queue, id, &a, count);
}

clattn_status ca_mask_keep(ca_rows *rows, cl_command_queue queue, const int64_t extent[4], bool drop,
                           const ca_mask_view *from, cl_mem to)
{
    return enqueue_mask(rows, queue, KEEP, extent, drop, from, to);
}

clattn_status ca_mask_bias(ca_rows *rows, cl_command_queue queue, const int64_t extent[4], bool drop,
                           const ca_mask_view *from, cl_mem to)
{
    return enqueue_mask(rows, queue, BIAS, extent, drop, from, to);
}
