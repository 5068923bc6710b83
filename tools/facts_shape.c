/* tools/facts_shape.c: what the library would do with a shape on a device: the row, the memory, an estimate.
 * Called by facts.c. */
#include "bench.h"
#include "facts.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PEAK_SAMPLES = 5, TENSORS = 4 };

typedef struct tensor {
    const char *name;
    double bytes;
    bool of_keys;
} tensor;

static void list_tensors(const bench_case *of, tensor made[TENSORS])
{
    const double element = (double)clattn_dtype_bytes(of->dtype), batch = (double)of->batch;
    const double queries = batch * (double)of->heads_q * (double)of->len_q * element;
    const double keys = batch * (double)of->heads_kv * (double)of->len_kv * element;
    made[0] = (tensor){ "q", queries * (double)of->d_qk, false };
    made[1] = (tensor){ "k", keys * (double)of->d_qk, true };
    made[2] = (tensor){ "v", keys * (double)of->d_v, true };
    made[3] = (tensor){ "out", queries * (double)of->d_v, false };
}

static bool fits(const bench_case *of, const clattn_device_info *device, double workspace)
{
    tensor tensors[TENSORS];
    double sum = workspace;
    list_tensors(of, tensors);
    for (int index = 0; index < TENSORS; index++) {
        sum += tensors[index].bytes;
        if (tensors[index].bytes > (double)device->max_alloc_bytes)
            return false;
    }
    return sum <= (double)device->memory_bytes;
}

/* The largest value of `*size`, one of the sizes of `tried`, that fits, found by halving; 0 when 1 does not.
 */
static int64_t most(int64_t *size, const bench_case *tried, const clattn_device_info *device,
                    double workspace)
{
    int64_t low = 0, high = *size;
    while (low < high) {
        *size = low + (high - low + 1) / 2;
        if (fits(tried, device, workspace))
            low = *size;
        else
            high = *size - 1;
    }
    return low;
}

/* What to do with a case that does not fit: fewer batches a call, then fewer queries, then smaller numbers.
 */
static void advise(const bench_case *of, const clattn_device_info *device, double workspace,
                   char text[CLATTN_TEXT_BYTES])
{
    bench_case tried = *of;
    int64_t batch = most(&tried.batch, &tried, device, workspace);
    if (batch > 0) {
        snprintf(text, CLATTN_TEXT_BYTES, "calls of at most b=%lld, one after the other", (long long)batch);
        return;
    }
    tried = *of;
    tried.batch = 1;
    int64_t queries = most(&tried.len_q, &tried, device, workspace);
    if (queries > 0) {
        snprintf(text, CLATTN_TEXT_BYTES,
                 "calls of b=1 and at most lq=%lld, one after the other over the same keys%s",
                 (long long)queries, of->causal ? "; each sees the keys up to its last query" : "");
        return;
    }
    tried.len_q = 1;
    tried.dtype = CLATTN_F16;
    if (of->dtype == CLATTN_F32 && fits(&tried, device, workspace))
        snprintf(text, CLATTN_TEXT_BYTES, "dtype=f16 or bf16, which take half the bytes");
    else
        snprintf(text, CLATTN_TEXT_BYTES,
                 "keys and values of one batch are too many for this device: fewer kv "
                 "heads or keys, or parts of them merged by their lse");
}

/* The row that dispatch takes, those before it with their reasons, and the bytes it holds. */
static double add_kernel(cJSON *shape, clattn_context *context, const clattn_attention_desc *desc)
{
    clattn_attention_plan *plan = NULL;
    clattn_status status = clattn_attention_plan_create(context, desc, &plan);
    clattn_attention_info info = clattn_attention_plan_info(plan);
    double workspace = status == CLATTN_OK ? (double)info.workspace_bytes : 0;
    tool_json_text(shape, "kernel", info.kernel);
    tool_json_text(shape, "why", status == CLATTN_OK ? info.why : clattn_last_message());
    tool_json_text(shape, "gemm", info.gemm);
    cJSON *passed = cJSON_AddArrayToObject(shape, "passed_over");
    for (size_t index = 0; index < clattn_kernel_count(); index++) {
        const char *name = clattn_kernel_name(index);
        if (info.kernel && strcmp(name, info.kernel) == 0)
            break;
        bool refused = clattn_attention_supports(context, desc, name) != CLATTN_OK;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(passed, one);
        cJSON_AddStringToObject(one, "name", name);
        cJSON_AddStringToObject(one, "reason", refused ? facts_reason() : "it does not build");
    }
    tool_json_number(shape, "workspace_bytes", status == CLATTN_OK ? workspace : NAN);
    clattn_attention_plan_destroy(plan);
    return workspace;
}

static void add_memory(cJSON *shape, const bench_case *of, const clattn_device_info *device, double workspace)
{
    tensor tensors[TENSORS];
    double sum = workspace;
    char advice[CLATTN_TEXT_BYTES];
    bool all = fits(of, device, workspace);
    cJSON *list = cJSON_AddArrayToObject(shape, "tensors");
    list_tensors(of, tensors);
    for (int index = 0; index < TENSORS; index++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddStringToObject(one, "name", tensors[index].name);
        cJSON_AddNumberToObject(one, "bytes", tensors[index].bytes);
        cJSON_AddBoolToObject(one, "fits", tensors[index].bytes <= (double)device->max_alloc_bytes);
        sum += tensors[index].bytes;
    }
    cJSON_AddNumberToObject(shape, "sum_bytes", sum);
    cJSON_AddBoolToObject(shape, "fits", all);
    if (!all)
        advise(of, device, workspace, advice);
    tool_json_text(shape, "advice", all ? NULL : advice);
}

bool facts_add_shape(cJSON *about, clattn_context *context, const char *text, tool_error *error)
{
    static const char *const later[] = { "bound_by", "estimate_seconds", "flops", "fma_flops",
                                         "read_bytes_per_second" };
    bench_case of;
    char words[BENCH_TEXT + 16];
    if (!bench_shape_read(text, &of, error))
        return false;
    const clattn_attention_desc desc = bench_describe(&of);
    cJSON *shape = cJSON_CreateObject();
    cJSON_ReplaceItemInObjectCaseSensitive(about, "shape", shape);
    bench_shape_text(&of, words);
    snprintf(words + strlen(words), sizeof words - strlen(words), " dtype=%s", bench_dtypes[of.dtype]);
    cJSON_AddStringToObject(shape, "text", words);
    double workspace = add_kernel(shape, context, &desc);
    add_memory(shape, &of, clattn_context_device(context), workspace);
    for (size_t index = 0; index < sizeof later / sizeof later[0]; index++)
        cJSON_AddNullToObject(shape, later[index]);
    return true;
}

static void set_number(cJSON *object, const char *name, double value)
{
    cJSON_ReplaceItemInObjectCaseSensitive(object, name, cJSON_CreateNumber(value));
}

void facts_add_estimate(cJSON *about, clattn_context *context, const char *text)
{
    cJSON *shape = cJSON_GetObjectItemCaseSensitive(about, "shape");
    bench_case of;
    bench_peak *peak;
    tool_error trouble;
    double flops = 0, reads = 0, sample;
    if (!bench_shape_read(text, &of, &trouble))
        return;
    const bench_cost cost = bench_cost_of(&of);
    bool ok = bench_peak_create(context, CLATTN_F32, &peak, &trouble);
    for (int index = 0; ok && index < PEAK_SAMPLES; index++) {
        ok = bench_peak_fma(peak, &sample, &trouble);
        flops = fmax(flops, ok ? sample * 1e9 : 0);
        ok = ok && bench_peak_read(peak, cost.bytes, &sample, &trouble);
        reads = fmax(reads, ok ? sample * 1e9 : 0);
    }
    bench_peak_destroy(peak);
    if (!ok)
        return;
    const double by_fma = cost.flops / flops, by_read = cost.bytes / reads;
    cJSON_ReplaceItemInObjectCaseSensitive(shape, "bound_by",
                                           cJSON_CreateString(by_fma >= by_read ? "fma" : "read"));
    set_number(shape, "estimate_seconds", fmax(by_fma, by_read));
    set_number(shape, "flops", cost.flops);
    set_number(shape, "fma_flops", flops);
    set_number(shape, "read_bytes_per_second", reads);
}
