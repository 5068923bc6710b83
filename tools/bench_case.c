/* tools/bench_case.c: the workloads by name, what the library is told of a case, and what it costs.
 * Called by bench.c. */
#include "bench.h"

static const struct {
    const char *name, *shape;
} workloads[] = {
    { "base-512", "hq=12 lq=512 d=64" },
    { "base-512c", "hq=12 lq=512 d=64 causal" },
    { "base-2048", "hq=12 lq=2048 d=64" },
    { "base-2048c", "hq=12 lq=2048 d=64 causal" },
    { "bert-batch", "b=16 hq=12 lq=128 d=64" },
    { "vit", "b=8 hq=12 lq=197 d=64" },
    { "whisper", "hq=20 lq=1500 d=64" },
    { "diffusion", "b=2 hq=8 lq=1024 d=40" },
    { "diffusion-x", "b=2 hq=8 lq=1024 lk=77 d=40" },
    { "llama-prefill", "hq=32 hkv=8 lq=1024 d=128 causal" },
    { "llama-decode", "hq=32 hkv=8 lq=1 lk=8192 d=128" },
    { "decode-4096", "hq=12 lq=1 lk=4096 d=64" },
    { "decode-batch", "b=8 hq=32 hkv=8 lq=1 lk=1024 d=128" },
    { "mha-base", "module hq=12 lq=512 d=64" },
    { "mha-long", "module hq=12 lq=2048 d=64" },
};

bool bench_workload(size_t index, bench_case *made)
{
    tool_error error;
    if (index >= sizeof workloads / sizeof workloads[0])
        return false;
    bool ok = bench_shape_read(workloads[index].shape, made, &error);
    made->name = workloads[index].name;
    return ok;
}

clattn_attention_desc bench_describe(const bench_case *of)
{
    clattn_attention_desc desc;
    clattn_attention_desc_init(&desc, of->batch, of->heads_q, of->heads_kv, of->len_q, of->len_kv, of->d_qk,
                               of->d_v);
    desc.dtype = of->dtype;
    desc.causal = of->causal;
    desc.alignment = of->alignment;
    desc.window_left = of->window_left;
    desc.window_right = of->window_right;
    desc.kernel = of->kernel;
    return desc;
}

/* ---- Costs --------------------------------------------------------------------------------------------- */

void bench_visible(const bench_case *of, int64_t row, int64_t *first, int64_t *end)
{
    int64_t level = row + (of->alignment == CLATTN_BOTTOM_RIGHT ? of->len_kv - of->len_q : 0);
    *first = 0;
    *end = of->len_kv;
    if (of->causal && level + 1 < *end)
        *end = level + 1;
    if (of->window_right >= 0 && level + of->window_right + 1 < *end)
        *end = level + of->window_right + 1;
    if (of->window_left >= 0 && level - of->window_left > 0)
        *first = level - of->window_left;
    if (*end < *first)
        *end = *first;
}

bench_cost bench_cost_of(const bench_case *of)
{
    bench_cost cost = { .pairs = 0 };
    for (int64_t row = 0; row < of->len_q; row++) {
        int64_t first, end;
        bench_visible(of, row, &first, &end);
        cost.pairs += (double)(end - first);
    }
    cost.pairs *= (double)of->batch * (double)of->heads_q;
    cost.flops = cost.pairs * 2 * (double)(of->d_qk + of->d_v);
    double queries = (double)of->batch * (double)of->heads_q * (double)of->len_q;
    double keys = (double)of->batch * (double)of->heads_kv * (double)of->len_kv;
    double element = (double)clattn_dtype_bytes(of->dtype);
    cost.bytes = element * (queries + keys) * (double)(of->d_qk + of->d_v);
    if (of->is_module) {
        double rows = (double)of->batch * (double)of->len_q;
        double width = (double)of->heads_q * (double)of->d_qk;
        cost.flops += 8 * rows * width * width;
        cost.bytes = element * 2 * rows * width + sizeof(float) * 4 * width * (width + 1);
    }
    return cost;
}
