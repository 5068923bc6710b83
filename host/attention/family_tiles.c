/* host/attention/family_tiles.c: fused attention for GPUs, tiled in local memory: cl/attention/tiles.cl. Rows
 * of the table give the queries and keys of a tile. */
#include "attention/fused.h"

#include <stdio.h>

enum { ITEMS_A_ROW = 8, ROWS_AN_ITEM = 4, CHUNK = 64 }; /* as in tiles.cl */

static size_t work_items(const ca_variant *row)
{
    return (size_t)row->queries / ROWS_AN_ITEM * ITEMS_A_ROW;
}

/* The kernel's __local arrays. */
static uint64_t local_bytes(const ca_variant *row, const ca_problem *problem)
{
    const uint64_t queries = (uint64_t)row->queries, keys = (uint64_t)row->keys;
    return 4 * (queries * ((uint64_t)problem->desc.d_qk + 1) + keys * (CHUNK + 1) + queries * (keys + 1) +
                queries * ITEMS_A_ROW);
}

static bool refuse(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES])
{
    const uint64_t need = local_bytes(row, problem), have = context->device.info.local_bytes;
    if (need > have)
        snprintf(reason, CLATTN_TEXT_BYTES, "it needs %llu bytes of local memory; the device has %llu",
                 (unsigned long long)need, (unsigned long long)have);
    else if (work_items(row) > context->device.max_work_group)
        snprintf(reason, CLATTN_TEXT_BYTES, "it needs work-groups of %zu items; the device takes %zu",
                 work_items(row), context->device.max_work_group);
    else
        return false;
    return true;
}

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    const int unroll = context->device.info.type != CL_DEVICE_TYPE_CPU;
    char options[64];
    snprintf(options, sizeof options, "-DQUERIES=%d -DKEYS=%d -DUNROLL=%d", row->queries, row->keys, unroll);
    *workspace_bytes = 0;
    return ca_fused_create(
        &(ca_fused_kernel){ { "attention/tiles.cl" }, "tiles", options, row->queries, work_items(row) },
        context, problem, state);
}

const ca_family ca_family_tiles = { refuse, create, ca_fused_destroy, ca_fused_enqueue };
