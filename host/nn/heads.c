/* host/nn/heads.c: head split and merge as calls, for readers that cannot take a stride. Called by programs.
 */
#include "base/program.h"
#include "base/tensor.h"

#include <clattn/nn.h>

#include <stdio.h>

enum { ITEMS = 32, SPLIT_TENSORS = 2 };
static const char kernel_name[] = "heads_copy";

/* Judged sizes: `width` of the unsplit tensor, `largest` of the split one. */
typedef struct heads_size {
    int64_t width, largest;
} heads_size;

static clattn_status judge(const clattn_heads_desc *desc, heads_size *size)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = { { "batch", desc->batch },
                  { "len", desc->len },
                  { "heads", desc->heads },
                  { "head_size", desc->head_sizes ? 0 : desc->head_size } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value < 0)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s %lld is negative", sizes[i].name,
                           (long long)sizes[i].value);
        if (sizes[i].value > INT32_MAX)
            return ca_fail(CLATTN_SIZE_OVERFLOW, "%s %lld is over the limit of %d", sizes[i].name,
                           (long long)sizes[i].value, INT32_MAX);
    }
    if (clattn_dtype_bytes(desc->dtype) == 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "dtype %d is unknown", (int)desc->dtype);
    *size = (heads_size){ desc->heads * desc->head_size, desc->head_size };
    if (!desc->head_sizes)
        return CLATTN_OK;
    *size = (heads_size){ 0, 0 };
    for (int64_t h = 0; h < desc->heads; h++) {
        const int64_t columns = desc->head_sizes[h];
        if (columns < 1)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "head_sizes[%lld] is %lld, must be at least 1",
                           (long long)h, (long long)columns);
        if (columns > INT64_MAX - size->width)
            return ca_fail(CLATTN_SIZE_OVERFLOW, "the sum of head_sizes exceeds 64 bits");
        size->width += columns;
        size->largest = columns > size->largest ? columns : size->largest;
    }
    return CLATTN_OK;
}

/* Where one run of equal heads begins, on one side. */
typedef struct side {
    cl_mem buffer;
    cl_ulong offset, batch, head, row;
} side;

static clattn_status enqueue_run(cl_kernel kernel, cl_command_queue queue, const clattn_heads_desc *desc,
                                 int64_t heads, int64_t size, int64_t width, const side *from, const side *to)
{
    const cl_ulong sizes[] = { (cl_ulong)desc->len, (cl_ulong)heads, (cl_ulong)size, (cl_ulong)width };
    const side *sides[] = { from, to };
    clattn_status status = CLATTN_OK;
    cl_uint index = 0;
    for (int i = 0; i < 4 && status == CLATTN_OK; i++)
        status = ca_kernel_arg(kernel, kernel_name, index++, sizeof sizes[i], &sizes[i]);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++) {
        const cl_ulong place[] = { sides[i]->offset, sides[i]->batch, sides[i]->head, sides[i]->row };
        status = ca_kernel_arg(kernel, kernel_name, index++, sizeof(cl_mem), &sides[i]->buffer);
        for (int j = 0; j < 4 && status == CLATTN_OK; j++)
            status = ca_kernel_arg(kernel, kernel_name, index++, sizeof place[j], &place[j]);
    }
    if (status != CLATTN_OK)
        return status;
    const size_t groups[3] = { (size_t)(desc->batch * heads) * (size_t)desc->len, 1, 1 };
    const size_t local[3] = { ITEMS, 1, 1 };
    return ca_kernel_enqueue(queue, kernel, kernel_name, groups, local);
}

static side side_of(const ca_tensor *tensor, int64_t head_stride, int64_t first)
{
    return (side){ tensor->buffer, tensor->offset_bytes / tensor->element_bytes + (cl_ulong)first,
                   (cl_ulong)tensor->stride[0], (cl_ulong)head_stride, (cl_ulong)tensor->stride[2] };
}

static clattn_status enqueue_runs(cl_kernel kernel, cl_command_queue queue, const clattn_heads_desc *desc,
                                  const heads_size *size, const ca_tensor *whole, const ca_tensor *split,
                                  bool merge)
{
    clattn_status status = CLATTN_OK;
    int64_t column = 0;
    for (int64_t head = 0, count; head < desc->heads && status == CLATTN_OK; head += count) {
        const int64_t columns = desc->head_sizes ? desc->head_sizes[head] : desc->head_size;
        count = desc->head_sizes ? 1 : desc->heads;
        while (head + count < desc->heads && desc->head_sizes[head + count] == columns)
            count++;
        const side unsplit = side_of(whole, columns, column);
        const side apart = side_of(split, split->stride[1], head * split->stride[1]);
        status = merge ? enqueue_run(kernel, queue, desc, count, columns, columns, &apart, &unsplit)
                       : enqueue_run(kernel, queue, desc, count, columns, size->largest, &unsplit, &apart);
        column += count * columns;
    }
    return status;
}

static clattn_status copy(clattn_context *context, cl_command_queue queue, const clattn_heads_desc *desc,
                          const clattn_input *x, const clattn_output *out, bool merge, cl_uint num_wait,
                          const cl_event *wait, cl_event *event)
{
    if (event)
        *event = NULL;
    if (!context || !desc || !x || !out)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL",
                       !context ? "context"
                       : !desc  ? "desc"
                       : !x     ? "x"
                                : "out");
    heads_size size = { 0, 0 };
    clattn_status status = judge(desc, &size);
    if (status != CLATTN_OK)
        return status;
    const size_t bytes = clattn_dtype_bytes(desc->dtype);
    const int64_t whole[4] = { desc->batch, 1, desc->len, size.width };
    const int64_t split[4] = { desc->batch, desc->heads, desc->len, size.largest };
    const ca_tensor tensors[SPLIT_TENSORS] = { ca_tensor_in("x", x, bytes, merge ? split : whole),
                                               ca_tensor_out("out", out, bytes, merge ? whole : split) };
    for (int i = 0; i < SPLIT_TENSORS; i++)
        if (tensors[i].extent[3] > 1 && tensors[i].stride[3] != 1)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: stride %lld along columns, must be 1",
                           tensors[i].name, (long long)tensors[i].stride[3]);
    if ((status = ca_tensors_check(context, CA_FACE_BUFFERS, tensors, SPLIT_TENSORS)) ||
        (status = ca_queue_check(context, queue)))
        return status;

    static const char *const sources[] = { "nn/heads.cl", NULL };
    char options[64];
    snprintf(options, sizeof options, "-DELEMENT=%s -DITEMS=%d", bytes == 4 ? "uint" : "ushort", ITEMS);
    cl_kernel kernel = NULL;
    if ((status = ca_kernel_create(context, sources, options, kernel_name, &kernel)))
        return status;
    if (!(status = ca_queue_begin(queue, num_wait, wait)) && desc->batch > 0 && desc->len > 0 &&
        size.largest > 0)
        status = enqueue_runs(kernel, queue, desc, &size, &tensors[merge], &tensors[!merge], merge);
    if (!status)
        status = ca_queue_end(queue, event);
    clReleaseKernel(kernel);
    return status;
}

clattn_status clattn_split_heads(clattn_context *context, cl_command_queue queue,
                                 const clattn_heads_desc *desc, const clattn_input *x,
                                 const clattn_output *out, cl_uint num_wait, const cl_event *wait,
                                 cl_event *event)
{
    return copy(context, queue, desc, x, out, false, num_wait, wait, event);
}

clattn_status clattn_merge_heads(clattn_context *context, cl_command_queue queue,
                                 const clattn_heads_desc *desc, const clattn_input *x,
                                 const clattn_output *out, cl_uint num_wait, const cl_event *wait,
                                 cl_event *event)
{
    return copy(context, queue, desc, x, out, true, num_wait, wait, event);
}
