// cl/base/probe.cl: the smallest kernels that prove what a device claims. Run by host/base/features.c, which knows what each
// writes: one float an item, of one group.
// Needs: ITEMS, and PROBE, the name of the one kernel to compile; for probe_matrix also SIMD, the size of its sub-groups.
#if !defined(ITEMS) || !defined(PROBE)
#error "ITEMS and PROBE must be defined"
#endif
#define IS_probe_kernel 1
#define IS_probe_local_memory 2
#define IS_probe_half_storage 3
#define IS_probe_fp16 4
#define IS_probe_fp64 5
#define IS_probe_sub_groups 6
#define IS_probe_shuffle 7
#define IS_probe_integer_dot 8
#define IS_probe_matrix 9
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define PROBES(name) (PASTE(IS_, PROBE) == PASTE(IS_, name))
#define KERNEL(name) __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void name(__global const float *in, __global float *out)

#if PROBES(probe_kernel)
KERNEL(probe_kernel)
{
    const int i = get_global_id(0);
    out[i] = 2 * in[i] + 1;
}

#elif PROBES(probe_local_memory)
KERNEL(probe_local_memory)
{
    __local float shared[ITEMS];
    const int i = get_local_id(0);
    shared[i] = in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = shared[ITEMS - 1 - i];
}

#elif PROBES(probe_half_storage)
KERNEL(probe_half_storage)
{
    const int i = get_global_id(0);
    __global half *stored = (__global half *)(out + ITEMS);
    vstore_half_rte(in[i] * 1.5f, i, stored);
    out[i] = vload_half(i, stored);
}

#elif PROBES(probe_fp16)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
KERNEL(probe_fp16)
{
    const int i = get_global_id(0);
    out[i] = (float)fma((half)in[i], (half)1.5f, (half)0.25f);
}

#elif PROBES(probe_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
KERNEL(probe_fp64) // a float would lose the small number
{
    const int i = get_global_id(0);
    out[i] = (float)(((double)in[i] + 1e-10 - (double)in[i]) * 1e10);
}

#elif PROBES(probe_sub_groups)
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
KERNEL(probe_sub_groups) // the sum over a sub-group against the same through local memory
{
    __local float number[ITEMS];
    __local int group[ITEMS];
    const int i = get_local_id(0);
    number[i] = in[i];
    group[i] = get_sub_group_id();
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0;
    for (int j = 0; j < ITEMS; j++)
        sum += group[j] == group[i] ? number[j] : 0;
    out[i] = in[i] + sub_group_reduce_add(in[i]) - sum;
}

#elif PROBES(probe_shuffle)
#ifdef cl_khr_subgroup_shuffle
#define SHUFFLE sub_group_shuffle
#else
#define SHUFFLE intel_sub_group_shuffle
#endif
KERNEL(probe_shuffle) // a neighbour's number against the same through local memory
{
    __local float number[ITEMS];
    __local int group[ITEMS], lane[ITEMS];
    const int i = get_local_id(0), other = (get_sub_group_local_id() + 1) % get_sub_group_size();
    number[i] = in[i];
    group[i] = get_sub_group_id();
    lane[i] = get_sub_group_local_id();
    barrier(CLK_LOCAL_MEM_FENCE);
    float wanted = 0;
    for (int j = 0; j < ITEMS; j++)
        wanted += group[j] == group[i] && lane[j] == other ? number[j] : 0;
    out[i] = in[i] + SHUFFLE(in[i], (uint)other) - wanted;
}

#elif PROBES(probe_integer_dot)
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
KERNEL(probe_integer_dot)
{
    const int i = get_global_id(0);
    out[i] = (float)dot((char4)((char)i, -2, 3, 127), (char4)(-3, 5, -7, 127));
}

#elif PROBES(probe_matrix)
#ifndef SIMD
#error "SIMD must be defined"
#endif
#if SIMD == 8
typedef int8 left;
#else
typedef short8 left;
#endif
KERNEL(probe_matrix) // 16 products of 1 and 1, added to a number
{
    const int i = get_global_id(0), ones = 0x3c003c00;
    const left a = SIMD == 8 ? (left)ones : (left)0x3c00;
    const float8 sum = intel_sub_group_f16_f16_matrix_mad_k16(a, (int8)ones, (float8)in[i]);
    out[i] = (sum.s0 + sum.s7) / 2;
}
#endif
