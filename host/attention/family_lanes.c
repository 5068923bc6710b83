/* host/attention/family_lanes.c: fused attention for CPUs, queries in SIMD lanes: cl/attention/lanes.cl. Rows
 * of the table give the float vectors of queries of a work-item and the keys of a block. */
#include "attention/fused.h"

#include <stdio.h>

static clattn_status create(const ca_variant *row, clattn_context *context, const ca_problem *problem,
                            void **state, size_t *workspace_bytes)
{
    /* Accumulators are most of the 32 registers of AVX-512, or of the 16 of narrower vectors. */
    const cl_uint width = context->device.info.float_width;
    const int lanes = width >= 16 ? 16 : width >= 8 ? 8 : 4, accumulators = width >= 16 ? 24 : 12;
    char options[128];
    snprintf(options, sizeof options,
             "-DLANES=%d -DVECTORS=%d -DACCUMULATORS=%d -DBLOCK=%d -DKEEP=%d -DSOFTCAP=%d", lanes,
             row->queries, accumulators, row->keys, problem->desc.keep, problem->desc.softcap != 0);
    *workspace_bytes = 0;
    return ca_fused_create(&(ca_fused_kernel){ { "base/vectors.cl", "attention/vectors.cl",
                                                 "attention/lanes_products.cl", "attention/lanes_products.cl",
                                                 "attention/lanes_products.cl", "attention/lanes.cl" },
                                               "lanes",
                                               options,
                                               row->queries * lanes,
                                               1 },
                           context, problem, state);
}

const ca_family ca_family_lanes = { NULL, create, ca_fused_destroy, ca_fused_enqueue };
