/* host/attention/variants.c: the table. One row per kernel variant, best first; the first row that does not
 * refuse a problem computes it. Policy is here, mechanism is in the families. */
#include "attention/proof.h"
#include "base/known_bad.h"
#include "gemm/gemm.h"

#include <stdio.h>
#include <string.h>

#define ANY_DEVICE CL_DEVICE_TYPE_ALL
#define ANY_SIZE INT64_MAX

/* Measured with PoCL 3.1 on two AVX-512 cores of a shared Skylake, December 2026. What ideas gained there:
 *
 * - lanes: blocks that nobody sees left out, masks only where they differ: base-512c 2.3 times the best peer
 * - lanes: transposes that read fours of rows: bert-batch 1.06, diffusion-x 1.11
 * - lanes: the last queries in as few vectors as they fill: bert-batch 1.06, vit 1.09
 * - lanes: intervals of keys by vectors: 1.02
 * - lanes: the tile of columns inlined by force, on Zen 5: vit 1.07 to 1.14, sixteen queries 1.6
 * - lanes: the next Q and O, and a share of the next head's K and V, asked for a few rows with every tile of
 *   keys, on Zen 5: bert-batch 1.15, vit 1.08 (at once before a tile: 0.94 to 1.03)
 * - lanes: at the edges of a window only the vectors that see some of LANES keys, on Zen 5: base-512c 1.05,
 *   window=64,0 1.14
 * - lanes: how many columns are past the last whole vector a constant, on Zen 5: diffusion-x 1.09, in
 * f16 1.33
 * - split: keys cut into parts over the units: llama-decode from 1.7 to 10 GB/s
 * - split: eight groups a unit and not four, of which PoCL gives one unit five, on Zen 5: decode-4096 1.05,
 *   llama-decode 1.02
 * - split: four rows of grouped heads at once: llama-decode 1.15, in f16 1.28, in bf16 1.26
 * - split: hints for Intel's runtime too, on Zen 5: decode-batch there 1.3
 * - both: the body in a function, which PoCL compiles once and not three times: first call 0.81, 0.65 of it
 * - lanes: loops over keys and columns unrolled by 2 and not by 4, on Zen 5: first call 0.8, as fast after it
 *
 * What did not help: other tiles (12 x 2, 6 x 4), blocks of 48 to 216 keys (nor on Zen 5), copies of K or V
 * in an order of their own, hints for K and V of this head in lanes, operands broadcast by the
 * multiply-add itself (0.8). */
const ca_variant ca_variants[] = {
    /* name, family, devices, float width, heads, len_q, queries, keys, gemm, why */
    { "split", &ca_family_split, CL_DEVICE_TYPE_CPU, 4, 1, 256, 16, 4, 32, NULL,
      "few queries: keys cut into parts and read once for all heads that share them; 7 times lanes" },
    { "lanes", &ca_family_lanes, CL_DEVICE_TYPE_CPU, 4, 1, 1024, ANY_SIZE, 3, 96, NULL,
      "fused, queries in SIMD lanes; 61 to 76 % of FMA peak at length 2048 on Skylake, 88 % on Zen 5" },
    { "tiles-32", &ca_family_tiles, ANY_DEVICE, 1, 1, 128, ANY_SIZE, 32, 32, NULL,
      "fused, tiled in local memory; no GPU has measured it" },
    { "tiles-16", &ca_family_tiles, ANY_DEVICE, 1, 1, 256, ANY_SIZE, 16, 32, NULL,
      "the same with half the queries a tile, for wider heads" },
    { "steps-lanes", &ca_family_steps, CL_DEVICE_TYPE_CPU, 4, 0, ANY_SIZE, ANY_SIZE, 0, 0, "lanes",
      "scores, softmax and output in three steps, products by the CPU kernel; any head size" },
    { "steps-clblast", &ca_family_steps, ANY_DEVICE, 1, 0, ANY_SIZE, ANY_SIZE, 0, 0, "clblast",
      "the same with products by CLBlast: any device that it supports" },
    { "steps-plain", &ca_family_steps, ANY_DEVICE, 1, 0, ANY_SIZE, ANY_SIZE, 0, 0, "plain",
      "the same with a plain product kernel: runs where nothing else does" },
};
const size_t ca_variant_count = sizeof ca_variants / sizeof *ca_variants;

bool ca_variant_refuses(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                        char reason[CLATTN_TEXT_BYTES])
{
    const clattn_attention_desc *d = &problem->desc;
    const ca_device *device = &context->device;
    const int64_t least = d->d_qk < d->d_v ? d->d_qk : d->d_v, most = d->d_qk < d->d_v ? d->d_v : d->d_qk;
    const char *gemm_reason = row->gemm ? ca_gemm_refusal(context, row->gemm, CLATTN_F32, CLATTN_F32) : NULL;
    const char *bad = context->use_known_bad ? NULL : ca_known_bad(&device->info, row->name);
    reason[0] = 0;
    if (bad)
        snprintf(reason, CLATTN_TEXT_BYTES, "%s", bad);
    else if (!(row->devices & device->info.type))
        snprintf(reason, CLATTN_TEXT_BYTES, "it is for CPUs, and the device is not one");
    else if (device->info.float_width < row->min_float_width)
        snprintf(reason, CLATTN_TEXT_BYTES,
                 "it needs float vectors of %u lanes within a work-item; the device's have %u",
                 row->min_float_width, device->info.float_width);
    else if (least < row->min_head || most > row->max_head)
        snprintf(reason, CLATTN_TEXT_BYTES, "it takes head sizes %lld to %lld, not %lld",
                 (long long)row->min_head, (long long)row->max_head,
                 (long long)(least < row->min_head ? least : most));
    else if (d->len_q > row->max_len_q)
        snprintf(reason, CLATTN_TEXT_BYTES, "it takes at most %lld queries, not %lld",
                 (long long)row->max_len_q, (long long)d->len_q);
    else if (gemm_reason)
        snprintf(reason, CLATTN_TEXT_BYTES, "%s", gemm_reason);
    else
        return (row->family->refuse && row->family->refuse(row, context, problem, reason)) ||
               !ca_proof_allows(row, context, problem, reason);
    return true;
}

const ca_variant *ca_variant_find(const char *name)
{
    for (size_t i = 0; i < ca_variant_count; i++)
        if (strcmp(ca_variants[i].name, name) == 0)
            return &ca_variants[i];
    return NULL;
}

void ca_variant_names(char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < ca_variant_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", ca_variants[i].name);
}

const char *ca_bias_name(const ca_problem *problem)
{
    return problem->desc.bias ? ca_type_name(problem->desc.bias_dtype) : "NONE";
}

size_t clattn_kernel_count(void)
{
    return ca_variant_count;
}

const char *clattn_kernel_name(size_t index)
{
    return index < ca_variant_count ? ca_variants[index].name : NULL;
}
