/* The devices there are, their facts, and which one a selector means. Called by context.c and, through the
 * public functions, by programs that list devices. The only file that asks OpenCL about a device.
 */
#include "base/device.h"

#include "base/facts.h"
#include "base/known_bad.h"
#include "base/os.h"
#include "base/status.h"
#include "base/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CL_PLATFORM_NOT_FOUND_KHR
#define CL_PLATFORM_NOT_FOUND_KHR (-1001)
#endif

enum { DEFAULT_ALIGN_BYTES = 128, TYPES = 4, BRIEF_BYTES = 1024, LONGEST_TEXT = 1 << 16 };

/* ---- Facts --------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `text`; 0 when it is none, or a control character. */
static size_t character_bytes(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return at[0] >= ' ' && at[0] != 0x7f;
    const size_t bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < bytes; ++i)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    const bool surrogate = at[0] == 0xed && at[1] >= 0xa0, control = at[0] == 0xc2 && at[1] < 0xa0;
    return overlong || surrogate || control || (at[0] == 0xf4 && at[1] >= 0x90) ? 0 : bytes;
}

void ca_copy_clean(const char *text, char out[CLATTN_TEXT_BYTES])
{
    size_t used = 0;
    text += strspn(text, " \t\r\n");
    const char *end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
        --end;
    while (text < end) {
        const size_t bytes = character_bytes(text), taken = bytes > 0 ? bytes : 1;
        if (used + taken >= CLATTN_TEXT_BYTES)
            break;
        memcpy(out + used, bytes > 0 ? text : "?", taken);
        used += taken;
        text += taken;
    }
    out[used] = '\0';
}

/* A text, or in its place why there is none. */
static void take_text(cl_int error, size_t bytes, const char *text, char out[CLATTN_TEXT_BYTES])
{
    if (error != CL_SUCCESS)
        snprintf(out, CLATTN_TEXT_BYTES, "%s (%d)", clattn_cl_error_name(error), (int)error);
    else if (bytes > LONGEST_TEXT)
        snprintf(out, CLATTN_TEXT_BYTES, "a text of %zu bytes", bytes);
    else
        ca_copy_clean(text != NULL ? text : "", out);
}

static void device_text(cl_device_id id, cl_device_info what, char out[CLATTN_TEXT_BYTES])
{
    size_t bytes = 0;
    cl_int error = clGetDeviceInfo(id, what, 0, NULL, &bytes);
    char *text = error == CL_SUCCESS && bytes <= LONGEST_TEXT ? calloc(bytes + 1, 1) : NULL;
    if (text != NULL)
        error = clGetDeviceInfo(id, what, bytes, text, NULL);
    take_text(error, bytes, text, out);
    free(text);
}

static void platform_text(cl_platform_id id, cl_platform_info what, char out[CLATTN_TEXT_BYTES])
{
    size_t bytes = 0;
    cl_int error = clGetPlatformInfo(id, what, 0, NULL, &bytes);
    char *text = error == CL_SUCCESS && bytes <= LONGEST_TEXT ? calloc(bytes + 1, 1) : NULL;
    if (text != NULL)
        error = clGetPlatformInfo(id, what, bytes, text, NULL);
    take_text(error, bytes, text, out);
    free(text);
}

/* Each of these gives `otherwise` where the device does not know the property. */
static cl_uint device_uint(cl_device_id id, cl_device_info what, cl_uint otherwise)
{
    cl_uint value = otherwise;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : otherwise;
}

static uint64_t device_ulong(cl_device_id id, cl_device_info what, uint64_t otherwise)
{
    cl_ulong value = otherwise;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : otherwise;
}

static size_t device_size(cl_device_id id, cl_device_info what, size_t otherwise)
{
    size_t value = otherwise;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : otherwise;
}

static bool device_bool(cl_device_id id, cl_device_info what)
{
    return device_uint(id, what, CL_FALSE) != CL_FALSE;
}

clattn_status ca_device_read(cl_device_id id, ca_device *device)
{
    ca_device facts;
    memset(&facts, 0, sizeof facts);
    clattn_device_info *info = &facts.info;
    info->device_id = id;
    cl_int error = clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof info->type, &info->type, NULL);
    if (error == CL_SUCCESS)
        error = clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof info->platform_id, &info->platform_id, NULL);
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetDeviceInfo", NULL);
    platform_text(info->platform_id, CL_PLATFORM_NAME, info->platform);
    platform_text(info->platform_id, CL_PLATFORM_VERSION, facts.platform_version);
    device_text(id, CL_DEVICE_NAME, info->name);
    device_text(id, CL_DEVICE_VERSION, info->version);
    device_text(id, CL_DRIVER_VERSION, info->driver);
    info->compute_units = device_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
    info->memory_bytes = device_ulong(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
    info->max_alloc_bytes = device_ulong(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, info->memory_bytes / 4);
    info->local_bytes = device_ulong(id, CL_DEVICE_LOCAL_MEM_SIZE, 0);
    info->has_compiler = device_bool(id, CL_DEVICE_COMPILER_AVAILABLE);
    facts.max_work_group = device_size(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
    info->float_width = device_uint(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1);
    if (info->float_width == 0)
        info->float_width = 1;
    facts.buffer_align_bytes = device_uint(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 0) / 8;
    if (facts.buffer_align_bytes == 0)
        facts.buffer_align_bytes = DEFAULT_ALIGN_BYTES;
    facts.shares_host_memory =
        (info->type & CL_DEVICE_TYPE_CPU) != 0 || device_bool(id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->known_bad = ca_known_bad(info, NULL);
    facts.binary_compiles = strcmp(info->platform, "Portable Computing Language") == 0;
    *device = facts;
    return CLATTN_OK;
}

/* ---- The list ------------------------------------------------------------------------------------------ */

typedef struct device_list {
    size_t count;
    ca_device *items;
} device_list;

static void list_free(device_list *list)
{
    free(list->items);
    list->items = NULL;
    list->count = 0;
}

/* Adds to a text of BRIEF_BYTES, after the separator unless it is the first, as far as there is room. */
static void brief_add(char text[BRIEF_BYTES], const char *separator, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, BRIEF_BYTES - used, "%s%s", used > 0 ? separator : "", more);
}

/* Adds the devices of one platform. What goes wrong with it is a few words in `trouble` and hides no other
 * platform. */
static clattn_status list_platform(device_list *list, cl_platform_id platform, char trouble[BRIEF_BYTES])
{
    char name[CLATTN_TEXT_BYTES], words[CLATTN_TEXT_BYTES + 64];
    platform_text(platform, CL_PLATFORM_NAME, name);
    cl_uint count = 0;
    cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (error == CL_DEVICE_NOT_FOUND || (error == CL_SUCCESS && count == 0)) {
        snprintf(words, sizeof words, "%s has none", name);
        brief_add(trouble, ", ", words);
        return CLATTN_OK;
    }
    cl_device_id *ids = NULL;
    clattn_status status = CLATTN_OK;
    if (error == CL_SUCCESS) {
        ids = calloc(count, sizeof *ids);
        if (ids == NULL)
            return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %u devices", (unsigned)count);
        error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
    }
    if (error != CL_SUCCESS) {
        snprintf(words, sizeof words, "clGetDeviceIDs on %s: %s (%d)", name, clattn_cl_error_name(error),
                 (int)error);
        brief_add(trouble, ", ", words);
        goto done;
    }
    ca_device *grown = realloc(list->items, (list->count + count) * sizeof *grown);
    if (grown == NULL) {
        status = ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %u devices", (unsigned)count);
        goto done;
    }
    list->items = grown;
    for (cl_uint i = 0; i < count; ++i) {
        if (ca_device_read(ids[i], &list->items[list->count]) == CLATTN_OK)
            ++list->count;
        else
            brief_add(trouble, ", ", clattn_last_message());
    }
done:
    free(ids);
    return status;
}

/* All devices of all platforms; NO_DEVICE when there is none. */
static clattn_status list_devices(device_list *list)
{
    char trouble[BRIEF_BYTES] = "";
    list->count = 0;
    list->items = NULL;
    cl_uint count = 0;
    cl_int error = clGetPlatformIDs(0, NULL, &count);
    if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && count == 0))
        return ca_fail(
            CLATTN_NO_DEVICE,
            "no OpenCL platform: install a driver such as pocl-opencl-icd, or see that the loader finds "
            "its .icd file (%s)",
            error == CL_SUCCESS ? "clGetPlatformIDs: 0 platforms" : "CL_PLATFORM_NOT_FOUND_KHR (-1001)");
    if (error != CL_SUCCESS)
        return ca_fail_cl(error, "clGetPlatformIDs", NULL);
    clattn_status status = CLATTN_OK;
    cl_platform_id *platforms = calloc(count, sizeof(cl_platform_id));
    if (platforms == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %u platforms", (unsigned)count);
    error = clGetPlatformIDs(count, platforms, NULL);
    if (error != CL_SUCCESS) {
        status = ca_fail_cl(error, "clGetPlatformIDs", NULL);
        goto fail;
    }
    for (cl_uint i = 0; i < count && status == CLATTN_OK; ++i)
        status = list_platform(list, platforms[i], trouble);
    if (status == CLATTN_OK && list->count == 0)
        status = ca_fail(CLATTN_NO_DEVICE, "no OpenCL device on %u platform%s: %s", (unsigned)count,
                         count == 1 ? "" : "s", trouble);
fail:
    free(platforms);
    if (status != CLATTN_OK)
        list_free(list);
    return status;
}

clattn_status clattn_devices(size_t capacity, clattn_device_info *devices, size_t *count)
{
    if (count == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "count is NULL");
    *count = 0;
    if (devices == NULL && capacity > 0)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "devices is NULL, but capacity is %zu", capacity);
    device_list list;
    clattn_status status = list_devices(&list);
    if (status != CLATTN_OK)
        return status;
    for (size_t i = 0; i < list.count && i < capacity; ++i)
        devices[i] = list.items[i].info;
    *count = list.count;
    list_free(&list);
    return CLATTN_OK;
}

/* ---- The pick ------------------------------------------------------------------------------------------ */

/* Best first. */
static const struct {
    cl_device_type type;
    const char *selector, *one, *many;
} types[TYPES] = {
    { CL_DEVICE_TYPE_GPU, "gpu", "GPU", "GPUs" },
    { CL_DEVICE_TYPE_ACCELERATOR, "accelerator", "accelerator", "accelerators" },
    { CL_DEVICE_TYPE_CPU, "cpu", "CPU", "CPUs" },
    { CL_DEVICE_TYPE_ALL, NULL, "device", "devices" },
};

static int type_rank(const clattn_device_info *info)
{
    int rank = 0;
    while ((info->type & types[rank].type) == 0 && rank < TYPES - 1)
        ++rank;
    return rank;
}

/* A CPU that works item by item wastes its vector units. */
static bool is_slow_cpu(const clattn_device_info *info)
{
    return (info->type & CL_DEVICE_TYPE_CPU) != 0 && info->float_width == 1;
}

/* By what one device is better than another, the weightiest first: a smaller number is better. */
typedef enum merit { COMPILES, TRUSTED, TYPE, PROVED, VECTORS, UNITS, MERITS } merit;
typedef struct merits {
    int64_t of[MERITS];
} merits;

/* A proof that an earlier process left on disk, and the table of known drivers, decide whom to trust. */
static merits judge(const ca_device *device, const clattn_context_options *options)
{
    const clattn_device_info *info = &device->info;
    const bool trust_all = options != NULL && options->use_known_bad;
    char *folder = ca_cache_folder(device, options);
    const ca_verdict kernel = ca_verdict_of_device(device, folder, CA_VERDICT_KERNEL);
    free(folder);
    return (merits){ { [COMPILES] = !info->has_compiler,
                       [TRUSTED] = kernel == CA_WRONG || (info->known_bad != NULL && !trust_all),
                       [TYPE] = type_rank(info),
                       [PROVED] = kernel != CA_RIGHT,
                       [VECTORS] = is_slow_cpu(info),
                       [UNITS] = -(int64_t)info->compute_units } };
}

/* The first merit in which they differ; MERITS when there is none. */
static merit difference(const merits *a, const merits *b)
{
    merit first = COMPILES;
    while (first < MERITS && a->of[first] == b->of[first])
        ++first;
    return first;
}

/* The best device of a type, without `except`. list->count when there is none. */
static size_t best_but(const device_list *list, const merits *all, cl_device_type type, size_t except)
{
    size_t best = list->count;
    for (size_t i = 0; i < list->count; ++i) {
        if (i == except || (list->items[i].info.type & type) == 0)
            continue;
        const merit at = best < list->count ? difference(&all[i], &all[best]) : MERITS;
        if (best == list->count || (at < MERITS && all[i].of[at] < all[best].of[at]))
            best = i;
    }
    return best;
}

static void say_why(merit by, const ca_device *best, const ca_device *next, size_t count, const char *many,
                    char why[CLATTN_TEXT_BYTES])
{
    const clattn_device_info *winner = &best->info, *other = &next->info;
    switch (by) {
    case COMPILES:
        snprintf(why, CLATTN_TEXT_BYTES, "the only one of %zu %s that compiles OpenCL C", count, many);
        break;
    case TRUSTED:
        snprintf(why, CLATTN_TEXT_BYTES, "the best of %zu %s: %s %s", count, many, other->name,
                 other->known_bad != NULL ? "has a driver known to be bad" : "gave wrong numbers");
        break;
    case TYPE:
        snprintf(why, CLATTN_TEXT_BYTES, "the best of %zu %s: %s before %s", count, many,
                 types[type_rank(winner)].one, types[type_rank(other)].one);
        break;
    case PROVED:
        snprintf(why, CLATTN_TEXT_BYTES, "the best of %zu %s: proved before claimed", count, many);
        break;
    case VECTORS:
        snprintf(why, CLATTN_TEXT_BYTES, "the best of %zu %s: float vectors of %u lanes before single floats",
                 count, many, (unsigned)winner->float_width);
        break;
    case UNITS:
        snprintf(why, CLATTN_TEXT_BYTES, "the best of %zu %s: %u compute units before %u", count, many,
                 (unsigned)winner->compute_units, (unsigned)other->compute_units);
        break;
    case MERITS:
        snprintf(why, CLATTN_TEXT_BYTES, "the first of %zu %s: the next is no better", count, many);
        break;
    }
}

/* The best device of types[rank] and, in `why`, by what it beats the next. False when there is none. */
static bool pick_best(const device_list *list, const merits *all, int rank, size_t *index,
                      char why[CLATTN_TEXT_BYTES])
{
    const cl_device_type type = types[rank].type;
    const size_t best = best_but(list, all, type, list->count);
    if (best == list->count)
        return false;
    *index = best;
    const size_t second = best_but(list, all, type, best);
    if (second == list->count) {
        snprintf(why, CLATTN_TEXT_BYTES, "the only %s", list->count == 1 ? "device" : types[rank].one);
        return true;
    }
    size_t count = 0;
    for (size_t i = 0; i < list->count; ++i)
        count += (list->items[i].info.type & type) != 0;
    say_why(difference(&all[best], &all[second]), &list->items[best], &list->items[second], count,
            types[rank].many, why);
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return strlen(a) == strlen(b) && ca_find_text(a, b) == a;
}

static bool all_digits(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0';
}

static clattn_status fail_pick(const device_list *list, const char *selector)
{
    char brief[BRIEF_BYTES] = "", line[2 * CLATTN_TEXT_BYTES + 64];
    for (size_t i = 0; i < list->count; ++i) {
        const clattn_device_info *info = &list->items[i].info;
        snprintf(line, sizeof line, "%zu %s (%s, %s)", i, info->name, types[type_rank(info)].one,
                 info->platform);
        brief_add(brief, "; ", line);
    }
    return ca_fail(CLATTN_NO_DEVICE, "no device matches `%s`; there is %s", selector, brief);
}

static clattn_status pick_from(const device_list *list, const merits *all, const char *selector,
                               size_t *index, char why[CLATTN_TEXT_BYTES])
{
    if (selector == NULL || selector[0] == '\0') {
        pick_best(list, all, TYPES - 1, index, why);
        return CLATTN_OK;
    }
    for (int rank = 0; rank < TYPES - 1; ++rank)
        if (same_text(selector, types[rank].selector))
            return pick_best(list, all, rank, index, why) ? CLATTN_OK : fail_pick(list, selector);
    if (all_digits(selector)) {
        unsigned long long number = strtoull(selector, NULL, 10);
        if (number >= list->count)
            return fail_pick(list, selector);
        *index = (size_t)number;
        snprintf(why, CLATTN_TEXT_BYTES, "number %llu was asked for", number);
        return CLATTN_OK;
    }
    for (size_t i = 0; i < list->count; ++i) {
        const clattn_device_info *info = &list->items[i].info;
        bool in_name = ca_find_text(info->name, selector) != NULL;
        if (!in_name && ca_find_text(info->platform, selector) == NULL)
            continue;
        *index = i;
        snprintf(why, CLATTN_TEXT_BYTES, "%s contains '%s'", in_name ? "name" : "platform", selector);
        return CLATTN_OK;
    }
    return fail_pick(list, selector);
}

static clattn_status pick(const clattn_context_options *options, device_list *list, size_t *index,
                          char why[CLATTN_TEXT_BYTES])
{
    clattn_status status = list_devices(list);
    if (status != CLATTN_OK)
        return status;
    merits *all = calloc(list->count, sizeof *all);
    for (size_t i = 0; all != NULL && i < list->count; ++i)
        all[i] = judge(&list->items[i], options);
    status = all != NULL ? pick_from(list, all, options != NULL ? options->device : NULL, index, why)
                         : ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for %zu devices", list->count);
    free(all);
    if (status != CLATTN_OK)
        list_free(list);
    return status;
}

clattn_status clattn_device_pick(const clattn_context_options *options, size_t *index,
                                 char why[CLATTN_TEXT_BYTES])
{
    if (index == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "index is NULL");
    char reason[CLATTN_TEXT_BYTES] = "";
    device_list list;
    clattn_status status = pick(options, &list, index, reason);
    if (status != CLATTN_OK)
        return status;
    list_free(&list);
    if (why != NULL)
        memcpy(why, reason, sizeof reason);
    return CLATTN_OK;
}

clattn_status ca_device_open(const clattn_context_options *options, ca_device *device,
                             char why[CLATTN_TEXT_BYTES])
{
    size_t index = 0;
    device_list list;
    clattn_status status = pick(options, &list, &index, why);
    if (status != CLATTN_OK)
        return status;
    *device = list.items[index];
    list_free(&list);
    return CLATTN_OK;
}
