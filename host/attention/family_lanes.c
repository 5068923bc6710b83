/* host/attention/family_lanes.c: fused attention for CPUs, queries in SIMD lanes: cl/attention/lanes.cl. Rows
 * of the table give the float vectors of queries of a work-item and the keys of a block. */
#include "attention/fused.h"

#include <stdio.h>

/* The register tile of keys or columns by `vectors` of queries: most of the 32 registers of AVX-512, of the
 * 16 of narrower ones. */
typedef struct tile {
    int lanes, keys, columns;
} tile;

static tile tile_of(const clattn_context *context, int vectors)
{
    const cl_uint width = context->device.info.float_width;
    if (width >= 16)
        return vectors == 3 ? (tile){ 16, 8, 8 } : (tile){ 16, 12, 13 };
    const int lanes = width >= 8 ? 8 : 4;
    return vectors == 3 ? (tile){ lanes, 4, 4 } : (tile){ lanes, 6, 6 };
}

static int64_t padded(int64_t queries, int64_t size)
{
    return (queries + size - 1) / size * size;
}

/* Two vectors load more per product than three: they are for lengths that fill their tiles better. */
static bool refuse(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES])
{
    const int64_t queries = problem->desc.len_q, lanes = tile_of(context, row->queries).lanes;
    const int64_t two = 2 * lanes, three = 3 * lanes, by_two = padded(queries, two);
    if (row->queries != 2 || by_two + by_two / 16 < padded(queries, three))
        return false;
    snprintf(reason, CLATTN_TEXT_BYTES, "%lld queries fill tiles of %lld as well as its %lld",
             (long long)queries, (long long)three, (long long)two);
    return true;
}

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    const tile t = tile_of(context, row->queries);
    char options[128];
    snprintf(options, sizeof options,
             "-DLANES=%d -DVECTORS=%d -DKEYS=%d -DCOLUMNS=%d -DBLOCK=%d -DKEEP=%d -DSOFTCAP=%d", t.lanes,
             row->queries, t.keys, t.columns, row->keys, problem->desc.keep, problem->desc.softcap != 0);
    *workspace_bytes = 0;
    return ca_fused_create(
        &(ca_fused_kernel){ { "base/vectors.cl", "attention/vectors.cl", "attention/lanes.cl" },
                            "lanes",
                            options,
                            row->queries * t.lanes,
                            1 },
        context, problem, state);
}

const ca_family ca_family_lanes = { refuse, create, ca_fused_destroy, ca_fused_enqueue };
