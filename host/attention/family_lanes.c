/* host/attention/family_lanes.c: fused attention for CPUs, queries in SIMD lanes: cl/attention/lanes.cl. Rows
 * of the table give the queries of a work-item and the keys of a block up to head size 96. */
#include "attention/fused.h"

#include <stdio.h>

enum { LANES = 16, WIDE_HEAD = 96, FEWEST_KEYS = 64 };

static bool refuse(const ca_variant *row, const clattn_context *context, const ca_problem *problem,
                   char reason[CLATTN_TEXT_BYTES])
{
    (void)row, (void)context, (void)problem, (void)reason;
    return false;
}

/* Fewer keys in a block where heads are wide, so that block and tiles stay in the second-level cache. */
static int block_keys(const ca_variant *row, const ca_problem *problem)
{
    const int64_t head = problem->desc.d_qk > problem->desc.d_v ? problem->desc.d_qk : problem->desc.d_v;
    int keys = row->keys;
    for (int64_t d = head; d > WIDE_HEAD && keys > FEWEST_KEYS; d /= 2)
        keys /= 2;
    return keys;
}

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    char options[64];
    snprintf(options, sizeof options, "-DVECTORS=%d -DBLOCK=%d", row->queries / LANES,
             block_keys(row, problem));
    *workspace_bytes = 0;
    return ca_fused_create(&(ca_fused_kernel){ "attention/lanes.cl", "lanes", options, 1 }, row, context,
                           problem, state);
}

const ca_family ca_family_lanes = { refuse, create, ca_fused_destroy, ca_fused_enqueue };
