/* host/attention/split.h: how family_split.c cuts keys, for those who test it. */
#ifndef CA_ATTENTION_SPLIT_H
#define CA_ATTENTION_SPLIT_H

#include <clattn/context.h>
#include <stdint.h>

/* Parts that the keys of each of `heads` kv heads, over all batches, are cut into: as many as keep the units
 * busy, but none of few keys; at least 1. heads is above 0. */
int64_t ca_split_parts(cl_uint compute_units, int64_t heads, int64_t keys);

#endif
