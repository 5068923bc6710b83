/* The tensors of a call: element types, reach, and the checks that both faces share. Called by attention and
 * nn before anything is enqueued.
 */
#include "base/tensor.h"

#include "base/status.h"

#include <assert.h>

enum { AXES = 4 };

static const char *const axis_names[AXES] = { "batches", "heads", "rows", "columns" };

size_t clattn_dtype_bytes(clattn_dtype dtype)
{
    switch (dtype) {
    case CLATTN_F32:
        return 4;
    case CLATTN_F16:
    case CLATTN_BF16:
        return 2;
    }
    return 0;
}

const char *ca_type_name(clattn_dtype dtype)
{
    return dtype == CLATTN_F16 ? "F16" : dtype == CLATTN_BF16 ? "BF16" : "F32";
}

static ca_tensor make(const char *name, bool is_output, cl_mem buffer, void *host, size_t offset_bytes,
                      const int64_t stride[4], size_t element_bytes, const int64_t extent[4])
{
    ca_tensor tensor = { .name = name,
                         .present = true,
                         .is_output = is_output,
                         .element_bytes = element_bytes,
                         .offset_bytes = offset_bytes,
                         .buffer = buffer,
                         .host = host };
    for (int i = 0; i < AXES; ++i) {
        tensor.extent[i] = extent[i];
        tensor.stride[i] = extent[i] == 1 ? 0 : stride[i];
    }
    return tensor;
}

ca_tensor ca_tensor_in(const char *name, const clattn_input *in, size_t element_bytes,
                       const int64_t extent[4])
{
    return make(name, false, in->buffer, (void *)in->host, in->offset_bytes, in->stride, element_bytes,
                extent);
}

ca_tensor ca_tensor_out(const char *name, const clattn_output *out, size_t element_bytes,
                        const int64_t extent[4])
{
    return make(name, true, out->buffer, out->host, out->offset_bytes, out->stride, element_bytes, extent);
}

bool ca_tensor_elements(const ca_tensor *tensor, uint64_t *elements)
{
    uint64_t product = 1;
    for (int i = 0; i < AXES; ++i) {
        assert(tensor->extent[i] >= 0);
        if (tensor->extent[i] == 0) {
            *elements = 0;
            return true;
        }
    }
    for (int i = 0; i < AXES; ++i) {
        uint64_t extent = (uint64_t)tensor->extent[i];
        if (product > UINT64_MAX / extent)
            return false;
        product *= extent;
    }
    *elements = product;
    return true;
}

bool ca_tensor_range_bytes(const ca_tensor *tensor, size_t *bytes)
{
    uint64_t elements = 1;
    for (int i = 0; i < AXES; ++i) {
        if (tensor->extent[i] == 0) {
            *bytes = 0;
            return true;
        }
        uint64_t steps = (uint64_t)tensor->extent[i] - 1, stride = (uint64_t)tensor->stride[i];
        if (stride != 0 && steps > (UINT64_MAX - elements) / stride)
            return false;
        elements += steps * stride;
    }
    if (elements > (SIZE_MAX - tensor->offset_bytes) / tensor->element_bytes)
        return false;
    *bytes = (size_t)elements * tensor->element_bytes;
    return true;
}

clattn_status ca_call_size_check(const char *name, int64_t value, int64_t limit)
{
    if (value < 0 || value > limit)
        return ca_fail(CLATTN_INVALID_SHAPE, "call: %s %lld must be 0 to %lld, the description's", name,
                       (long long)value, (long long)limit);
    return CLATTN_OK;
}

clattn_status ca_unasked_check(const char *name, bool given)
{
    if (given)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is given, but the description does not ask for it", name);
    return CLATTN_OK;
}

/* Offset, strides and reach, whatever the face. */
static clattn_status check_view(const ca_tensor *tensor)
{
    const char *name = tensor->name;
    if (tensor->offset_bytes % tensor->element_bytes != 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT,
                       "%s: offset of %zu bytes is not a multiple of the element's %zu", name,
                       tensor->offset_bytes, tensor->element_bytes);
    for (int i = 0; i < AXES; ++i)
        if (tensor->stride[i] < 0)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: stride %lld along %s, must not be negative", name,
                           (long long)tensor->stride[i], axis_names[i]);
    if (tensor->stride[AXES - 1] > 1)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: stride %lld along columns, must be 1", name,
                       (long long)tensor->stride[AXES - 1]);
    uint64_t elements;
    size_t bytes;
    if (!ca_tensor_elements(tensor, &elements) || !ca_tensor_range_bytes(tensor, &bytes))
        return ca_fail(
            CLATTN_SIZE_OVERFLOW,
            "%s: %lld x %lld x %lld x %lld elements at strides %lld, %lld, %lld, %lld exceed size_t", name,
            (long long)tensor->extent[0], (long long)tensor->extent[1], (long long)tensor->extent[2],
            (long long)tensor->extent[3], (long long)tensor->stride[0], (long long)tensor->stride[1],
            (long long)tensor->stride[2], (long long)tensor->stride[3]);
    return CLATTN_OK;
}

/* Each axis must step over all that the axes of smaller strides span. That is enough for no two elements to
 * meet, and every layout in use keeps it. */
static clattn_status check_self_overlap(const ca_tensor *tensor)
{
    int order[AXES] = { 0, 1, 2, 3 };
    for (int i = 1; i < AXES; ++i)
        for (int j = i; j > 0 && tensor->stride[order[j]] < tensor->stride[order[j - 1]]; --j) {
            int moved = order[j];
            order[j] = order[j - 1];
            order[j - 1] = moved;
        }
    uint64_t span = 1;
    for (int i = 0; i < AXES; ++i) {
        int axis = order[i];
        if (tensor->extent[axis] == 1)
            continue;
        if ((uint64_t)tensor->stride[axis] < span)
            return ca_fail(CLATTN_OVERLAP,
                           "%s overlaps itself: stride %lld along %s is less than the %llu elements within",
                           tensor->name, (long long)tensor->stride[axis], axis_names[axis],
                           (unsigned long long)span);
        span += (uint64_t)(tensor->extent[axis] - 1) * (uint64_t)tensor->stride[axis];
    }
    return CLATTN_OK;
}

static clattn_status check_face(ca_face face, const ca_tensor *tensor)
{
    const char *name = tensor->name;
    if (face == CA_FACE_BUFFERS) {
        if (tensor->host != NULL)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: host pointer given, this call takes buffers", name);
        if (tensor->buffer == NULL)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: buffer is NULL", name);
    } else {
        if (tensor->buffer != NULL)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: buffer given, this call takes host pointers", name);
        if (tensor->host == NULL)
            return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: host pointer is NULL", name);
    }
    return CLATTN_OK;
}

/* Bytes [first, end) of one memory: a root buffer, or NULL for the host's address space. */
typedef struct range {
    cl_mem root;
    size_t first, end;
} range;

static clattn_status buffer_range(const clattn_context *context, const ca_tensor *tensor, size_t bytes,
                                  range *where)
{
    const char *name = tensor->name;
    const cl_mem buffer = tensor->buffer;
    cl_mem_object_type type = 0;
    cl_context cl = NULL;
    cl_mem_flags flags = 0;
    cl_mem parent = NULL;
    void *host = NULL;
    size_t size = 0, origin = 0;
    cl_int error = clGetMemObjectInfo(buffer, CL_MEM_TYPE, sizeof type, &type, NULL);
    if (error == CL_SUCCESS)
        error = clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof cl, &cl, NULL);
    if (error == CL_SUCCESS)
        error = clGetMemObjectInfo(buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (error == CL_SUCCESS)
        error = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (error == CL_SUCCESS)
        error = clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL);
    if (error == CL_SUCCESS && parent != NULL)
        error = clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof origin, &origin, NULL);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetMemObjectInfo", name);
    if (type != CL_MEM_OBJECT_BUFFER)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: the memory object is not a buffer", name);
    if (cl != context->cl)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: buffer belongs to another OpenCL context", name);
    if (tensor->is_output && (flags & CL_MEM_READ_ONLY) != 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: buffer is CL_MEM_READ_ONLY, but is written", name);
    if (!tensor->is_output && (flags & CL_MEM_WRITE_ONLY) != 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s: buffer is CL_MEM_WRITE_ONLY, but is read", name);
    if (tensor->offset_bytes + bytes > size)
        return ca_fail(CLATTN_BUFFER_TOO_SMALL,
                       "%s: buffer of %zu bytes, but element (%lld, %lld, %lld, %lld) ends at byte %zu", name,
                       size, (long long)tensor->extent[0] - 1, (long long)tensor->extent[1] - 1,
                       (long long)tensor->extent[2] - 1, (long long)tensor->extent[3] - 1,
                       tensor->offset_bytes + bytes);
    where->root = parent != NULL ? parent : buffer;
    where->first = origin + tensor->offset_bytes;
    /* Over host memory, where other buffers may lie too, that memory is what counts. */
    error = clGetMemObjectInfo(where->root, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (error == CL_SUCCESS && (flags & CL_MEM_USE_HOST_PTR) != 0) {
        error = clGetMemObjectInfo(where->root, CL_MEM_HOST_PTR, sizeof host, &host, NULL);
        where->root = NULL;
        where->first += (uintptr_t)host;
    }
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetMemObjectInfo", name);
    where->end = where->first + bytes;
    return CLATTN_OK;
}

static clattn_status memory_range(const clattn_context *context, ca_face face, const ca_tensor *tensor,
                                  range *where)
{
    size_t bytes = 0;
    ca_tensor_range_bytes(tensor, &bytes); /* fits: check_view has seen to it */
    if (face == CA_FACE_BUFFERS)
        return buffer_range(context, tensor, bytes, where);
    uintptr_t address = (uintptr_t)tensor->host;
    if (address > UINTPTR_MAX - tensor->offset_bytes - bytes)
        return ca_fail(CLATTN_SIZE_OVERFLOW,
                       "%s: %zu bytes from offset %zu pass the end of the address space", tensor->name, bytes,
                       tensor->offset_bytes);
    where->root = NULL;
    where->first = (size_t)(address + tensor->offset_bytes);
    where->end = where->first + bytes;
    return CLATTN_OK;
}

static bool has_elements(const ca_tensor *tensor)
{
    uint64_t elements;
    return tensor->present && (!ca_tensor_elements(tensor, &elements) || elements > 0);
}

clattn_status ca_tensors_check(const clattn_context *context, ca_face face, const ca_tensor *tensors,
                               size_t count)
{
    range ranges[CA_MAX_TENSORS];
    assert(count <= CA_MAX_TENSORS);
    for (size_t i = 0; i < count; ++i) {
        const ca_tensor *tensor = &tensors[i];
        if (!has_elements(tensor))
            continue;
        clattn_status status = check_face(face, tensor);
        if (status == CLATTN_OK)
            status = check_view(tensor);
        if (status == CLATTN_OK && tensor->is_output)
            status = check_self_overlap(tensor);
        if (status == CLATTN_OK)
            status = memory_range(context, face, tensor, &ranges[i]);
        if (status != CLATTN_OK)
            return status;
    }
    for (size_t i = 0; i < count; ++i) {
        if (!has_elements(&tensors[i]) || !tensors[i].is_output)
            continue;
        for (size_t j = 0; j < count; ++j) {
            if (j == i || !has_elements(&tensors[j]) || (tensors[j].is_output && j < i))
                continue;
            if (ranges[i].root == ranges[j].root && ranges[i].first < ranges[j].end &&
                ranges[j].first < ranges[i].end)
                return ca_fail(CLATTN_OVERLAP, "%s overlaps %s", tensors[i].name, tensors[j].name);
        }
    }
    return CLATTN_OK;
}
