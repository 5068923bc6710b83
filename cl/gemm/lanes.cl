// gemm/lanes.cl: C = alpha A B + beta C + bias (or A B^T) where one work-item drives whole float vectors: CPUs. Built by
// host/gemm/lanes.c, after base/types.cl and base/vectors.cl.
//
// A work-group is one work-item and owns `rows` rows by WIDTH * panels columns of C, for one batch. B's columns lie across
// the lanes. For each block of `depth` along k, both operands are copied as floats, B once and A one tile of rows at a time:
//
//      B, k x n or n x k  ---->  right [panels][depth][VECTORS], stays in the second cache, read in one stream
//      A, m x k           ---->  left  [ROWS][PITCH], stays in the first cache, broadcast number by number
//      C                  <----  acc   [ROWS][VECTORS] += left[i][p] * right[p][v], in registers over the block
#if !defined(LANES) || !defined(VECTORS) || !defined(ROWS) || !defined(PANELS) || !defined(DEPTH) || !defined(TYPE_B)
#error "needs -D LANES (4, 8 or 16), VECTORS, ROWS, PANELS and DEPTH (the most of each), TYPE (of A), TYPE_B"
#endif
#define WIDTH (LANES * VECTORS)
#define PITCH (DEPTH + LANES) // rows of a power of two would meet in the cache
#define AHEAD_B 64            // elements

#define STORAGE_B CA_PASTE(CA_STORAGE_, TYPE_B)
#define LOAD_B CA_PASTE(CA_LOAD_, TYPE_B)
#define LOAD_LANES_B CA_PASTE(CA_LOAD_LANES_, TYPE_B)

// `depth` rows of B, `columns` wide, from k x n, filled up with zeros.
FUNCTION void pack_rows(FLOATS *to, __global const STORAGE_B *b, ulong ldb, int depth, int columns)
{
    for (int p = 0; p < depth; p++) {
        __global const STORAGE_B *row = b + p * ldb;
        if (columns >= WIDTH)
            FOR(v, VECTORS) to[p * VECTORS + v] = LOAD_LANES_B(row + v * LANES);
        else
            for (int c = 0; c < WIDTH; c++)
                ((float *)(to + p * VECTORS))[c] = c < columns ? LOAD_B(row, c) : 0.0f;
    }
}

// The same from n x k: squares of LANES are transposed. Columns past the last are read as the last.
FUNCTION void pack_columns(FLOATS *to, __global const STORAGE_B *b, ulong ldb, int depth, int columns)
{
    for (int v = 0; v < VECTORS; v++) {
        int p = 0;
        for (; p + LANES <= depth; p += LANES) {
            FLOATS t[LANES];
            FOR(i, LANES)
            {
                __global const STORAGE_B *column = b + min(v * LANES + i, columns - 1) * ldb + p;
                PREFETCH(column + AHEAD_B, 0);
                t[i] = LOAD_LANES_B(column);
            }
            transpose(t, to + p * VECTORS + v, VECTORS);
        }
        for (; p < depth; p++)
            for (int i = 0; i < LANES; i++)
                ((float *)(to + p * VECTORS + v))[i] = LOAD_B(b + min(v * LANES + i, columns - 1) * ldb, p);
    }
}

// ROWS rows of A; those past the last are read as the last.
FUNCTION void copy_rows(float *to, __global const STORAGE *a, ulong lda, int depth, int count)
{
    for (int i = 0; i < ROWS; i++, to += PITCH) {
        __global const STORAGE *row = a + min(i, count - 1) * lda;
        int p = 0;
        for (; p + LANES <= depth; p += LANES)
            *(FLOATS *)(to + p) = LOAD_LANES(row + p);
        for (; p < depth; p++)
            to[p] = LOAD(row, p);
    }
}

// `count` rows of C, `columns` wide: alpha left right + shift + beta C.
FUNCTION void multiply(const float *left, const FLOATS *right, int depth, float alpha, const FLOATS *shift, float beta,
                       __global float *c, ulong ldc, int count, int columns)
{
    FLOATS acc[ROWS][VECTORS], tile[ROWS * VECTORS];
    FOR(i, ROWS) FOR(v, VECTORS) acc[i][v] = 0;
    for (int i = 0; i < count; i++)
        FOR(v, VECTORS) PREFETCH(c + i * ldc + v * LANES, 1);

    for (int p = 0; p < depth; p++, right += VECTORS, left++) {
        FLOATS r[VECTORS];
        FOR(v, VECTORS) r[v] = right[v];
        FOR(i, ROWS)
        {
            const FLOATS l = (FLOATS)(left[i * PITCH]);
            FOR(v, VECTORS) acc[i][v] = fma(l, r[v], acc[i][v]);
        }
    }

    FOR(i, ROWS) FOR(v, VECTORS) tile[i * VECTORS + v] = fma((FLOATS)alpha, acc[i][v], shift[v]);
    for (int i = 0; i < count; i++, c += ldc) {
        if (columns >= WIDTH) {
            FOR(v, VECTORS)
            {
                FLOATS sum = tile[i * VECTORS + v];
                if (beta != 0.0f)
                    sum = fma((FLOATS)beta, CA_LANES(vload)(v, c), sum);
                CA_LANES(vstore)(sum, v, c);
            }
        } else {
            const float *sum = (const float *)(tile + i * VECTORS);
            for (int x = 0; x < columns; x++)
                c[x] = beta != 0.0f ? fma(beta, c[x], sum[x]) : sum[x];
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemm_lanes(ulong m, ulong n, ulong k, int transpose_b, float alpha, float beta,
                __global const STORAGE *restrict a, ulong a_offset, ulong lda, ulong a_stride,
                __global const STORAGE_B *restrict b, ulong b_offset, ulong ldb, ulong b_stride,
                __global float *restrict c, ulong c_offset, ulong ldc, ulong c_stride,
                __global const float *restrict bias, ulong bias_offset, int has_bias, ulong rows, int panels, int step)
{
    const ulong batch = get_group_id(2), first_row = get_group_id(1) * rows, end_row = min(m, first_row + rows);
    const ulong first_column = get_group_id(0) * (ulong)(WIDTH * panels);
    const int columns = (int)min((ulong)(WIDTH * panels), n - first_column);
    a += a_offset + batch * a_stride;
    b += b_offset + batch * b_stride + (transpose_b ? first_column * ldb : first_column);
    c += c_offset + batch * c_stride + first_column;

    FLOATS right[PANELS * DEPTH * VECTORS], left[ROWS * PITCH / LANES], shift[PANELS * VECTORS];
    for (ulong start = 0; start < k || start == 0; start += step) {
        const int depth = (int)min((ulong)step, k - start);
        for (int x = 0; x < columns; x += WIDTH) {
            FLOATS *panel = right + x * (DEPTH / LANES);
            if (transpose_b)
                pack_columns(panel, b + x * ldb + start, ldb, depth, columns - x);
            else
                pack_rows(panel, b + start * ldb + x, ldb, depth, columns - x);
        }
        for (int x = 0; x < panels * WIDTH; x++)
            ((float *)shift)[x] = has_bias && start == 0 && x < columns ? bias[bias_offset + first_column + x] : 0.0f;
        for (ulong row = first_row; row < end_row; row += ROWS) {
            const int count = (int)min((ulong)ROWS, end_row - row);
            copy_rows((float *)left, a + row * lda + start, lda, depth, count);
            for (int x = 0; x < columns; x += WIDTH)
                multiply((const float *)left, right + x * (DEPTH / LANES), depth, alpha, shift + x / LANES,
                         start == 0 ? beta : 1.0f, c + row * ldc + x, ldc, count, columns - x);
        }
    }
}
