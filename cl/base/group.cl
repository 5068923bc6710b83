// cl/base/group.cl: maximum and sum over the ITEMS work-items of a group, given to each of them. All of them call; `shared`
// has room for ITEMS and is free again on return. A maximum passes over NaN.
#ifndef ITEMS
#error "ITEMS must be defined"
#endif

static inline float ca_group_max(float x, __local float *shared)
{
    shared[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    float y = shared[0];
    for (int n = 1; n < ITEMS; n++)
        y = shared[n] > y ? shared[n] : y;
    barrier(CLK_LOCAL_MEM_FENCE);
    return y;
}

static inline float ca_group_sum(float x, __local float *shared)
{
    shared[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    float y = 0;
    for (int n = 0; n < ITEMS; n++)
        y += shared[n];
    barrier(CLK_LOCAL_MEM_FENCE);
    return y;
}
