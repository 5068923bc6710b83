/* gemm/plain.cl: C = alpha A B + beta C + bias (or A B^T) on any device. Built by host/gemm/plain.c, after
 * base/types.cl. Needs: TYPE (of A), TYPE_B.
 *
 * 8 x 8 work-items share a tile of 32 x 32 of C, 4 x 4 each, and step through k by 16:
 *
 *      left  [16][32 rows of A]        right [16][32 columns of B]       both zero-filled at the edges
 *
 * Item (x, y) owns rows x, x + 8, x + 16, x + 24 and columns likewise by y. */
#define STORAGE_B CA_PASTE(CA_STORAGE_, TYPE_B)
#define LOAD_B CA_PASTE(CA_LOAD_, TYPE_B)
#define TILE 32
#define STEP 16
#define SIDE 8
#define EACH (TILE / SIDE)

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1)))
void gemm_plain(ulong m, ulong n, ulong k, int transpose_b, float alpha, float beta,
                __global const STORAGE *a, ulong a_offset, ulong lda, ulong a_stride,
                __global const STORAGE_B *b, ulong b_offset, ulong ldb, ulong b_stride,
                __global float *c, ulong c_offset, ulong ldc, ulong c_stride,
                __global const float *bias, ulong bias_offset, int has_bias)
{
    __local float left[STEP][TILE + 1], right[STEP][TILE + 1];
    const ulong batch = get_group_id(2), row0 = get_group_id(0) * TILE, column0 = get_group_id(1) * TILE;
    const uint x = get_local_id(0), y = get_local_id(1), item = y * SIDE + x;
    a += a_offset + batch * a_stride;
    b += b_offset + batch * b_stride;
    c += c_offset + batch * c_stride;

    float sum[EACH][EACH];
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            sum[i][j] = 0;

    for (ulong start = 0; start < k; start += STEP) {
        for (uint e = item; e < STEP * TILE; e += SIDE * SIDE) {
            const uint p = e % STEP, r = e / STEP;
            left[p][r] = row0 + r < m && start + p < k ? LOAD(a, (row0 + r) * lda + start + p) : 0.0f;
        }
        for (uint e = item; e < STEP * TILE; e += SIDE * SIDE) {
            const uint p = transpose_b ? e % STEP : e / TILE, r = transpose_b ? e / STEP : e % TILE;
            const ulong place = transpose_b ? (column0 + r) * ldb + start + p : (start + p) * ldb + column0 + r;
            right[p][r] = column0 + r < n && start + p < k ? LOAD_B(b, place) : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const int depth = (int)min((ulong)STEP, k - start);
        for (int p = 0; p < depth; p++) {
            float u[EACH], v[EACH];
            for (int i = 0; i < EACH; i++) {
                u[i] = left[p][x + i * SIDE];
                v[i] = right[p][y + i * SIDE];
            }
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = fma(u[i], v[j], sum[i][j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            const ulong row = row0 + x + i * SIDE, column = column0 + y + j * SIDE;
            if (row < m && column < n) {
                const ulong place = row * ldc + column;
                const float product = fma(alpha, sum[i][j], has_bias ? bias[bias_offset + column] : 0.0f);
                c[place] = beta != 0.0f ? fma(beta, c[place], product) : product;
            }
        }
    }
}
