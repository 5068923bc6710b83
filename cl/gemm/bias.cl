// gemm/bias.cl: C = beta C + bias, before a product that is added to C. Built by host/gemm/clblast.c; needs no -D. One
// work-group has one row of one batch.
#define ITEMS 32

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void gemm_bias(__global float *c, __global const float *bias, ulong m, ulong n, ulong offset, ulong ld, ulong stride,
               ulong bias_offset, float beta)
{
    const ulong batch = get_group_id(0) / m, row = get_group_id(0) - batch * m;
    c += offset + batch * stride + row * ld;
    for (ulong x = get_local_id(0); x < n; x += ITEMS)
        c[x] = fma(beta, beta != 0.0f ? c[x] : 0.0f, bias[bias_offset + x]);
}
