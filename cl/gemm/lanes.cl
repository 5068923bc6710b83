/* gemm/lanes.cl: C = alpha A B + beta C (or A B^T) where one work-item drives whole float vectors: CPUs.
 * Built by host/gemm/lanes.c.
 *
 * A work-group is one work-item and owns `rows` rows by LANES * VECTORS columns of C, for one batch.
 * B's columns lie across the lanes. For each block of BLOCK_K:
 *
 *      B, as it lies                 pack, zero-filled                  ROWS x VECTORS accumulators
 *      k x n, or n x k     ------>   [k][VECTORS] of LANES   ------>    acc[i][v] += a[i][k] * pack[k][v]
 *
 * A is read as it lies, one number at a time, and broadcast. */
#if !defined(LANES) || !defined(VECTORS) || !defined(ROWS) || !defined(BLOCK_K)
#error "needs -D LANES (4, 8 or 16), VECTORS (1 to 4), ROWS (4 or 8), BLOCK_K"
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define vec JOIN(float, LANES)
#define load JOIN(vload, LANES)
#define store JOIN(vstore, LANES)
#define WIDTH (LANES * VECTORS)

/* The block of B at `b`, `depth` by `columns`, into pack. */
inline void pack_block(vec *pack, __global const float *b, ulong ldb, int transpose_b, int depth, int columns)
{
    float *packed = (float *)pack;
    if (transpose_b) {
        for (int c = 0; c < WIDTH; c++) {
            __global const float *column = b + min(c, columns - 1) * ldb;
            for (int p = 0; p < depth; p++)
                packed[p * WIDTH + c] = column[p];
        }
    } else if (columns == WIDTH) {
        for (int p = 0; p < depth; p++)
            for (int v = 0; v < VECTORS; v++)
                pack[p * VECTORS + v] = load(v, b + p * ldb);
    } else {
        for (int p = 0; p < depth; p++)
            for (int c = 0; c < WIDTH; c++)
                packed[p * WIDTH + c] = b[p * ldb + min(c, columns - 1)];
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_lanes(ulong m, ulong n, ulong k, int transpose_b, float alpha, float beta,
                __global const float *restrict a, ulong a_offset, ulong lda, ulong a_stride,
                __global const float *restrict b, ulong b_offset, ulong ldb, ulong b_stride,
                __global float *restrict c, ulong c_offset, ulong ldc, ulong c_stride, ulong rows)
{
    const ulong batch = get_group_id(2), first_row = get_group_id(1) * rows, end_row = min(m, first_row + rows);
    const ulong first_column = get_group_id(0) * WIDTH;
    const int columns = (int)min((ulong)WIDTH, n - first_column);
    a += a_offset + batch * a_stride;
    b += b_offset + batch * b_stride + (transpose_b ? first_column * ldb : first_column);
    c += c_offset + batch * c_stride + first_column;

    vec pack[BLOCK_K * VECTORS];
    for (ulong start = 0; start < k || start == 0; start += BLOCK_K) {
        const int depth = (int)min((ulong)BLOCK_K, k - start);
        const float keep = start == 0 ? beta : 1.0f;
        pack_block(pack, transpose_b ? b + start : b + start * ldb, ldb, transpose_b, depth, columns);
        for (ulong row = first_row; row < end_row; row += ROWS) {
            const int count = (int)min((ulong)ROWS, end_row - row);
            __global const float *from[ROWS];
            vec acc[ROWS][VECTORS];
            #pragma unroll
            for (int i = 0; i < ROWS; i++) {
                from[i] = a + (row + min(i, count - 1)) * lda + start;
                #pragma unroll
                for (int v = 0; v < VECTORS; v++)
                    acc[i][v] = 0;
            }
            for (int p = 0; p < depth; p++) {
                vec right[VECTORS];
                #pragma unroll
                for (int v = 0; v < VECTORS; v++)
                    right[v] = pack[p * VECTORS + v];
                #pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const vec left = (vec)(from[i][p]);
                    #pragma unroll
                    for (int v = 0; v < VECTORS; v++)
                        acc[i][v] = fma(left, right[v], acc[i][v]);
                }
            }
            #pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (i < count) {
                    __global float *to = c + (row + i) * ldc;
                    if (columns == WIDTH) {
                        #pragma unroll
                        for (int v = 0; v < VECTORS; v++) {
                            vec sum = alpha * acc[i][v];
                            if (keep != 0.0f)
                                sum = fma((vec)keep, load(v, to), sum);
                            store(sum, v, to);
                        }
                    } else {
                        for (int x = 0; x < columns; x++) {
                            float sum = alpha * ((float *)acc[i])[x];
                            to[x] = keep != 0.0f ? fma(keep, to[x], sum) : sum;
                        }
                    }
                }
            }
        }
    }
}
