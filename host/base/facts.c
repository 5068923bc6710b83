/* host/base/facts.c: what a device says of itself, property by property, for people who want to know. What
 * decides anything in the library is read by device.c. Called by programs; features.c asks for claims.
 */
#include "base/facts.h"

#include "base/os.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of extensions that the headers of OpenCL 1.2 do not know; numbers from the Khronos registry. */
enum {
    SUB_GROUPS_MAX = 0x105C,
    SUB_GROUP_SIZES_INTEL = 0x4108,
    WARP_SIZE_NV = 0x4003,
    WAVEFRONT_WIDTH_AMD = 0x4043,
    SVM_CAPABILITIES = 0x1053,
    IL_VERSION = 0x105B,
    WORK_GROUP_MULTIPLE = 0x1067,
    PCI_BUS_INFO_KHR = 0x410F,
    PCI_BUS_ID_NV = 0x4008,
    PCI_SLOT_ID_NV = 0x4009,
    PCI_DOMAIN_ID_NV = 0x400A,
    TOPOLOGY_AMD = 0x4037,
    DOT_CAPABILITIES_KHR = 0x1073,
    DOT_ACCELERATION_8BIT_KHR = 0x1074,
    LONGEST_BYTES = 1 << 16 /* of a property; a driver that names more is not believed */
};

typedef enum form { UINT, ULONG, SIZE, FLAG, TEXT, SIZES, OTHER } form;

typedef struct property {
    const char *name, *unit;
    form form;
    cl_device_info what;
    const char *needs;                                /* extension, version "2.1", or NULL */
    void (*read)(cl_device_id id, clattn_fact *fact); /* of form OTHER */
} property;

/* ---- Asking -------------------------------------------------------------------------------------------- */

static void unknown(clattn_fact *fact, cl_int error)
{
    fact->kind = CLATTN_FACT_UNKNOWN;
    snprintf(fact->text, sizeof fact->text, "%s (%d)", clattn_cl_error_name(error), (int)error);
}

/* A property of whatever length, malloc'd with a NUL behind it; NULL, and `fact` says why, when there is
 * none. */
static char *ask(cl_device_id id, cl_device_info what, size_t *bytes, clattn_fact *fact)
{
    *bytes = 0;
    cl_int error = clGetDeviceInfo(id, what, 0, NULL, bytes);
    if (error == CL_SUCCESS && *bytes > LONGEST_BYTES)
        error = CL_INVALID_VALUE;
    char *value = error == CL_SUCCESS ? calloc(*bytes + 1, 1) : NULL;
    if (value != NULL && (error = clGetDeviceInfo(id, what, *bytes, value, NULL)) == CL_SUCCESS)
        return value;
    unknown(fact, error != CL_SUCCESS ? error : CL_OUT_OF_HOST_MEMORY);
    free(value);
    return NULL;
}

/* Of a fixed size, zeroed first. */
static bool ask_fixed(cl_device_id id, cl_device_info what, void *value, size_t bytes, clattn_fact *fact)
{
    memset(value, 0, bytes);
    const cl_int error = clGetDeviceInfo(id, what, bytes, value, NULL);
    if (error != CL_SUCCESS)
        unknown(fact, error);
    return error == CL_SUCCESS;
}

static void give_number(clattn_fact *fact, double number)
{
    fact->kind = CLATTN_FACT_NUMBER;
    fact->number = number;
}

static void give_text(clattn_fact *fact, const char *text)
{
    fact->kind = CLATTN_FACT_TEXT;
    ca_copy_clean(text, fact->text);
}

char *ca_device_extensions(cl_device_id id)
{
    size_t bytes;
    clattn_fact fact;
    char *text = ask(id, CL_DEVICE_EXTENSIONS, &bytes, &fact);
    return text != NULL ? text : calloc(1, 1);
}

bool ca_device_claims(const char *extensions, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = extensions; (at = strstr(at, name)) != NULL; at += length)
        if ((at == extensions || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

int ca_device_version(cl_device_id id)
{
    size_t bytes;
    clattn_fact fact;
    int major, minor;
    char *text = ask(id, CL_DEVICE_VERSION, &bytes, &fact);
    const bool told = text != NULL && sscanf(text, "OpenCL %3d.%3d", &major, &minor) == 2;
    free(text);
    return told ? major * 10 + minor : 12;
}

/* A list of sizes, as text with spaces between. */
static bool read_sizes(cl_device_id id, cl_device_info what, clattn_fact *fact)
{
    size_t bytes, size;
    char text[CLATTN_TEXT_BYTES] = "", *sizes = ask(id, what, &bytes, fact);
    if (sizes == NULL)
        return false;
    for (size_t at = 0, used = 0; at + sizeof size <= bytes && used < sizeof text; at += sizeof size) {
        memcpy(&size, sizes + at, sizeof size);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu", at ? " " : "", size);
    }
    give_text(fact, text);
    free(sizes);
    return true;
}

/* ---- Facts that take more than one question ------------------------------------------------------------ */

static void read_local_kind(cl_device_id id, clattn_fact *fact)
{
    cl_uint kind;
    if (ask_fixed(id, CL_DEVICE_LOCAL_MEM_TYPE, &kind, sizeof kind, fact))
        give_text(fact, kind == CL_LOCAL ? "own" : kind == CL_GLOBAL ? "in global memory" : "none");
}

static void read_clock(cl_device_id id, clattn_fact *fact)
{
    cl_uint megahertz;
    if (ask_fixed(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, &megahertz, sizeof megahertz, fact))
        give_number(fact, megahertz * 1e6);
}

static void read_timer(cl_device_id id, clattn_fact *fact)
{
    size_t nanoseconds;
    if (ask_fixed(id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, &nanoseconds, sizeof nanoseconds, fact))
        give_number(fact, (double)nanoseconds * 1e-9);
}

static void read_svm(cl_device_id id, clattn_fact *fact)
{
    static const char *const names[] = { "coarse buffers", "fine buffers", "fine system", "atomics" };
    cl_bitfield bits;
    char text[CLATTN_TEXT_BYTES] = "";
    if (!ask_fixed(id, SVM_CAPABILITIES, &bits, sizeof bits, fact))
        return;
    for (int i = 0; i < 4; ++i)
        if ((bits >> i & 1) != 0)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? ", " : "", names[i]);
    give_text(fact, text[0] ? text : "none");
}

static void read_sub_group_sizes(cl_device_id id, clattn_fact *fact)
{
    cl_uint width;
    if (!read_sizes(id, SUB_GROUP_SIZES_INTEL, fact) &&
        (ask_fixed(id, WARP_SIZE_NV, &width, sizeof width, fact) ||
         ask_fixed(id, WAVEFRONT_WIDTH_AMD, &width, sizeof width, fact)))
        give_number(fact, width);
}

size_t ca_device_sub_group_size(cl_device_id id)
{
    clattn_fact fact = { .kind = CLATTN_FACT_UNKNOWN };
    return read_sizes(id, SUB_GROUP_SIZES_INTEL, &fact) ? strtoul(fact.text, NULL, 10) : 0;
}

static void read_dot_acceleration(cl_device_id id, clattn_fact *fact)
{
    cl_bool accelerated[6]; /* signed, unsigned, mixed; the same three that saturate */
    if (!ask_fixed(id, DOT_ACCELERATION_8BIT_KHR, accelerated, sizeof accelerated, fact))
        return;
    fact->kind = CLATTN_FACT_FLAG;
    fact->number = accelerated[0] != 0;
}

/* By the Khronos extension, else NVIDIA's, else AMD's: "0000:01:00.0", as Linux writes it. */
static void read_pci_address(cl_device_id id, clattn_fact *fact)
{
    struct {
        cl_uint domain, bus, device, function;
    } pci;
    struct { /* cl_device_topology_amd: type 1 is PCI Express */
        cl_uint type;
        char unused[17];
        cl_char bus, device, function;
    } topology;
    cl_uint domain = 0, bus, slot;
    char text[64];
    if (ask_fixed(id, PCI_BUS_INFO_KHR, &pci, sizeof pci, fact)) {
        snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.device, pci.function);
    } else if (ask_fixed(id, PCI_BUS_ID_NV, &bus, sizeof bus, fact) &&
               ask_fixed(id, PCI_SLOT_ID_NV, &slot, sizeof slot, fact)) {
        ask_fixed(id, PCI_DOMAIN_ID_NV, &domain, sizeof domain, fact);
        snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, slot >> 3, slot & 7);
    } else if (ask_fixed(id, TOPOLOGY_AMD, &topology, sizeof topology, fact) && topology.type == 1) {
        snprintf(text, sizeof text, "0000:%02x:%02x.%x", (unsigned)(unsigned char)topology.bus,
                 (unsigned)(unsigned char)topology.device, (unsigned)(unsigned char)topology.function);
    } else {
        fact->kind = CLATTN_FACT_UNKNOWN;
        snprintf(fact->text, sizeof fact->text, "%s", "no extension that tells it");
        return;
    }
    give_text(fact, text);
}

/* Whether OpenCL C reaches matrix units, and by what; a claim, which features.c proves where it can. */
static void read_matrix_units(cl_device_id id, clattn_fact *fact)
{
    static const char *const ways[] = { "cl_intel_subgroup_matrix_multiply_accumulate",
                                        "cl_intel_subgroup_matrix_multiply_accumulate_tf32",
                                        "cl_arm_matrix_multiply", "cl_qcom_dot_product8" };
    char *extensions = ca_device_extensions(id);
    give_text(fact, "not reachable from OpenCL C");
    for (size_t i = 0; extensions != NULL && i < sizeof ways / sizeof *ways; ++i)
        if (ca_device_claims(extensions, ways[i])) {
            give_text(fact, ways[i]);
            break;
        }
    free(extensions);
}

/* ---- The table ----------------------------------------------------------------------------------------- */

static const property properties[] = {
    /* name, unit, form, property, needs, read */
    { "vendor", "", TEXT, CL_DEVICE_VENDOR, NULL, NULL },
    { "vendor_id", "", UINT, CL_DEVICE_VENDOR_ID, NULL, NULL },
    { "opencl_c", "", TEXT, CL_DEVICE_OPENCL_C_VERSION, NULL, NULL },
    { "profile", "", TEXT, CL_DEVICE_PROFILE, NULL, NULL },
    { "available", "", FLAG, CL_DEVICE_AVAILABLE, NULL, NULL },
    { "compiler", "", FLAG, CL_DEVICE_COMPILER_AVAILABLE, NULL, NULL },
    { "linker", "", FLAG, CL_DEVICE_LINKER_AVAILABLE, NULL, NULL },
    { "il", "", TEXT, IL_VERSION, "2.1", NULL },
    { "pci_address", "", OTHER, 0, NULL, read_pci_address },
    { "clock_hz", "Hz", OTHER, 0, NULL, read_clock },
    { "max_work_group", "", SIZE, CL_DEVICE_MAX_WORK_GROUP_SIZE, NULL, NULL },
    { "max_work_items", "", SIZES, CL_DEVICE_MAX_WORK_ITEM_SIZES, NULL, NULL },
    { "work_group_multiple", "", SIZE, WORK_GROUP_MULTIPLE, "3.0", NULL },
    { "float_vector", "", UINT, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, NULL, NULL },
    { "half_vector", "", UINT, CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF, NULL, NULL },
    { "sub_groups_max", "", UINT, SUB_GROUPS_MAX, "2.1", NULL },
    { "sub_group_sizes", "", OTHER, 0, NULL, read_sub_group_sizes },
    { "integer_dot_accelerated", "", OTHER, 0, "cl_khr_integer_dot_product", read_dot_acceleration },
    { "matrix_units", "", OTHER, 0, NULL, read_matrix_units },
    { "local_bytes", "B", ULONG, CL_DEVICE_LOCAL_MEM_SIZE, NULL, NULL },
    { "local_memory", "", OTHER, 0, NULL, read_local_kind },
    { "constant_bytes", "B", ULONG, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, NULL, NULL },
    { "cache_bytes", "B", ULONG, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, NULL, NULL },
    { "cache_line_bytes", "B", UINT, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE, NULL, NULL },
    { "address_bits", "", UINT, CL_DEVICE_ADDRESS_BITS, NULL, NULL },
    { "alignment_bits", "", UINT, CL_DEVICE_MEM_BASE_ADDR_ALIGN, NULL, NULL },
    { "unified_memory", "", FLAG, CL_DEVICE_HOST_UNIFIED_MEMORY, NULL, NULL },
    { "error_correction", "", FLAG, CL_DEVICE_ERROR_CORRECTION_SUPPORT, NULL, NULL },
    { "svm", "", OTHER, 0, "2.0", read_svm },
    { "timer_resolution_seconds", "s", OTHER, 0, NULL, read_timer },
};
enum { FACTS = sizeof properties / sizeof *properties };

static bool has(const char *needs, const char *extensions, int version)
{
    if (needs == NULL)
        return true;
    if (needs[0] >= '1' && needs[0] <= '9')
        return version >= (needs[0] - '0') * 10 + (needs[2] - '0');
    return ca_device_claims(extensions, needs);
}

static void read_text(cl_device_id id, cl_device_info what, clattn_fact *fact)
{
    size_t bytes;
    char *text = ask(id, what, &bytes, fact);
    if (text != NULL)
        give_text(fact, text);
    free(text);
}

static void read_fact(cl_device_id id, const property *of, clattn_fact *fact)
{
    cl_uint word;
    cl_ulong wide;
    size_t size;
    switch (of->form) {
    case UINT:
        if (ask_fixed(id, of->what, &word, sizeof word, fact))
            give_number(fact, word);
        break;
    case FLAG:
        if (ask_fixed(id, of->what, &word, sizeof word, fact)) {
            fact->kind = CLATTN_FACT_FLAG;
            fact->number = word != 0;
        }
        break;
    case ULONG:
        if (ask_fixed(id, of->what, &wide, sizeof wide, fact))
            give_number(fact, (double)wide);
        break;
    case SIZE:
        if (ask_fixed(id, of->what, &size, sizeof size, fact))
            give_number(fact, (double)size);
        break;
    case TEXT:
        read_text(id, of->what, fact);
        break;
    case SIZES:
        read_sizes(id, of->what, fact);
        break;
    case OTHER:
        of->read(id, fact);
        break;
    }
}

clattn_status clattn_device_facts(cl_device_id device, size_t capacity, clattn_fact *facts, size_t *count)
{
    if (count == NULL)
        return ca_fail(CLATTN_INVALID_ARGUMENT, "count is NULL");
    *count = 0;
    if (device == NULL || (facts == NULL && capacity > 0))
        return ca_fail(CLATTN_INVALID_ARGUMENT, "%s is NULL", device == NULL ? "device" : "facts");
    char *extensions = ca_device_extensions(device);
    if (extensions == NULL)
        return ca_fail(CLATTN_OUT_OF_MEMORY, "no host memory for a device's extensions");
    const int version = ca_device_version(device);
    for (size_t i = 0; i < FACTS && i < capacity; ++i) {
        const property *of = &properties[i];
        facts[i] = (clattn_fact){ .name = of->name, .unit = of->unit };
        if (has(of->needs, extensions, version))
            read_fact(device, of, &facts[i]);
        else
            snprintf(facts[i].text, sizeof facts[i].text, "%s%s is not claimed",
                     of->needs[0] == 'c' ? "" : "OpenCL ", of->needs);
    }
    free(extensions);
    *count = FACTS;
    return CLATTN_OK;
}
