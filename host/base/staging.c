/* Buffers for a call on host arrays: over the caller's memory where the device shares it, beside it
 * elsewhere. Called by the simple faces of attention and nn, after ca_tensors_check.
 */
#include "base/tensor.h"

#include "base/status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A buffer over host memory must suit the widest vector that a kernel may read at its start: sixteen floats.
 */
enum { HOST_ALIGN_BYTES = 64 };

/* One buffer and the host range [first, end) that it stands for. */
typedef struct block {
    cl_mem buffer;
    uintptr_t first, end;
    size_t element_bytes;
    bool is_output;
    ca_tensor output; /* as the caller gave it, for outputs */
    const char *name; /* of its first tensor */
} block;

struct ca_staging {
    clattn_context *context;
    bool settled; /* the queue has been waited for */
    size_t count;
    block blocks[CA_MAX_TENSORS];
};

static bool ranges_meet(const block *a, const block *b)
{
    return a->first < b->end && b->first < a->end;
}

/* Inputs share a buffer when their ranges meet and each starts at a whole element of the other. */
static bool may_share(const block *a, const block *b)
{
    return !a->is_output && !b->is_output && a->element_bytes == b->element_bytes && ranges_meet(a, b) &&
           (a->first - b->first) % a->element_bytes == 0;
}

static void absorb(block *into, const block *from)
{
    if (from->first < into->first)
        into->first = from->first;
    if (from->end > into->end)
        into->end = from->end;
}

/* Joins until no two blocks may share: a joined range can reach a third. */
static void join_blocks(ca_staging *staging)
{
    for (size_t i = 0; i < staging->count; ++i) {
        for (size_t j = i + 1; j < staging->count; ++j) {
            if (!may_share(&staging->blocks[i], &staging->blocks[j]))
                continue;
            absorb(&staging->blocks[i], &staging->blocks[j]);
            memmove(&staging->blocks[j], &staging->blocks[j + 1],
                    (staging->count - j - 1) * sizeof staging->blocks[0]);
            --staging->count;
            j = i;
        }
    }
}

static bool may_use_in_place(const ca_staging *staging, size_t index)
{
    const block *own = &staging->blocks[index];
    if (!staging->context->device.shares_host_memory || own->first % HOST_ALIGN_BYTES != 0)
        return false;
    for (size_t i = 0; i < staging->count; ++i)
        if (i != index && ranges_meet(own, &staging->blocks[i]))
            return false;
    return true;
}

static clattn_status check_sizes(const ca_staging *staging)
{
    const clattn_device_info *info = &staging->context->device.info;
    uint64_t sum = 0;
    for (size_t i = 0; i < staging->count; ++i) {
        const block *one = &staging->blocks[i];
        uint64_t bytes = one->end - one->first;
        if (bytes > info->max_alloc_bytes)
            return ca_fail(CLATTN_OUT_OF_MEMORY, "%s: %llu bytes, but the largest buffer of %s is %llu",
                           one->name, (unsigned long long)bytes, info->name,
                           (unsigned long long)info->max_alloc_bytes);
        const uint64_t left = info->memory_bytes - sum;
        sum += bytes;
        if (bytes > left)
            return ca_fail(CLATTN_OUT_OF_MEMORY, "%s: tensors of %llu bytes so far, but %s has %llu",
                           one->name, (unsigned long long)sum, info->name,
                           (unsigned long long)info->memory_bytes);
    }
    return CLATTN_OK;
}

static clattn_status create_buffer(ca_staging *staging, size_t index)
{
    block *one = &staging->blocks[index];
    bool in_place = may_use_in_place(staging, index);
    cl_mem_flags flags = one->is_output ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
    void *host = (void *)one->first;
    if (in_place)
        flags |= CL_MEM_USE_HOST_PTR;
    else if (!one->is_output)
        flags |= CL_MEM_COPY_HOST_PTR;
    else
        host = NULL;
    cl_int error;
    one->buffer = clCreateBuffer(staging->context->cl, flags, one->end - one->first, host, &error);
    if (error == CL_SUCCESS)
        return CLATTN_OK;
    one->buffer = NULL;
    return ca_fail_cl(error, "clCreateBuffer", one->name);
}

/* The block that holds a tensor with elements. */
static const block *block_of(const ca_staging *staging, const ca_tensor *tensor)
{
    uintptr_t first = (uintptr_t)tensor->host + tensor->offset_bytes;
    for (size_t i = 0; i < staging->count; ++i) {
        const block *one = &staging->blocks[i];
        if (one->is_output == tensor->is_output && one->element_bytes == tensor->element_bytes &&
            first >= one->first && first < one->end && (first - one->first) % one->element_bytes == 0)
            return one;
    }
    assert(!"every tensor with elements has a block");
    return NULL;
}

clattn_status ca_staging_create(clattn_context *context, ca_tensor *tensors, size_t count,
                                ca_staging **staging)
{
    clattn_status status = CLATTN_OK;
    *staging = NULL;
    assert(count <= CA_MAX_TENSORS);
    ca_staging *made = calloc(1, sizeof *made);
    if (made == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %zu tensors", count);
    made->context = context;
    made->settled = true;
    for (size_t i = 0; i < count; ++i) {
        size_t bytes;
        if (!tensors[i].present || !ca_tensor_range_bytes(&tensors[i], &bytes) || bytes == 0)
            continue;
        block *one = &made->blocks[made->count++];
        one->first = (uintptr_t)tensors[i].host + tensors[i].offset_bytes;
        one->end = one->first + bytes;
        one->element_bytes = tensors[i].element_bytes;
        one->is_output = tensors[i].is_output;
        one->output = tensors[i];
        one->name = tensors[i].name;
    }
    join_blocks(made);
    status = check_sizes(made);
    for (size_t i = 0; i < made->count && status == CLATTN_OK; ++i)
        status = create_buffer(made, i);
    if (status != CLATTN_OK)
        goto fail;
    for (size_t i = 0; i < count; ++i) {
        size_t bytes;
        if (!tensors[i].present)
            continue;
        tensors[i].buffer = NULL;
        if (!ca_tensor_range_bytes(&tensors[i], &bytes) || bytes == 0) {
            tensors[i].offset_bytes = 0;
            continue;
        }
        const block *one = block_of(made, &tensors[i]);
        tensors[i].buffer = one->buffer;
        tensors[i].offset_bytes = (uintptr_t)tensors[i].host + tensors[i].offset_bytes - one->first;
    }
    made->settled = false;
    *staging = made;
    return CLATTN_OK;
fail:
    ca_staging_destroy(made);
    return status;
}

/* Copies the elements, and nothing between them, from a range laid out as the tensor's. */
static void copy_elements(const ca_tensor *tensor, const char *from, char *to)
{
    const size_t size = tensor->element_bytes;
    const size_t row_bytes = (size_t)tensor->extent[3] * size;
    for (int64_t b = 0; b < tensor->extent[0]; ++b)
        for (int64_t h = 0; h < tensor->extent[1]; ++h)
            for (int64_t r = 0; r < tensor->extent[2]; ++r) {
                size_t at =
                    (size_t)(b * tensor->stride[0] + h * tensor->stride[1] + r * tensor->stride[2]) * size;
                memcpy(to + at, from + at, row_bytes);
            }
}

static clattn_status bring_output(const ca_staging *staging, const block *one)
{
    cl_command_queue queue = staging->context->queue;
    cl_int error;
    void *mapped = clEnqueueMapBuffer(queue, one->buffer, CL_TRUE, CL_MAP_READ, 0, one->end - one->first, 0,
                                      NULL, NULL, &error);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clEnqueueMapBuffer", one->name);
    if ((uintptr_t)mapped != one->first)
        copy_elements(&one->output, mapped, (char *)one->first);
    error = clEnqueueUnmapMemObject(queue, one->buffer, mapped, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLATTN_OK : ca_fail_cl(error, "clEnqueueUnmapMemObject", one->name);
}

clattn_status ca_staging_finish(ca_staging *staging)
{
    cl_command_queue queue = staging->context->queue;
    cl_int error = clFinish(queue);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clFinish", NULL);
    for (size_t i = 0; i < staging->count; ++i) {
        if (!staging->blocks[i].is_output)
            continue;
        clattn_status status = bring_output(staging, &staging->blocks[i]);
        if (status != CLATTN_OK)
            return status;
    }
    error = clFinish(queue);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clFinish", NULL);
    staging->settled = true;
    return CLATTN_OK;
}

void ca_staging_destroy(ca_staging *staging)
{
    if (staging == NULL)
        return;
    if (!staging->settled)
        clFinish(staging->context->queue);
    for (size_t i = 0; i < staging->count; ++i)
        if (staging->blocks[i].buffer != NULL)
            clReleaseMemObject(staging->blocks[i].buffer);
    free(staging);
}
