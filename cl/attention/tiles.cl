// cl/attention/tiles.cl: fused attention for a GPU, tiled in local memory, online softmax. A work-group owns QUERIES
// queries of one head and walks over the keys in blocks of KEYS.
//
//                 D (in chunks)             KEYS                        DV (in chunks)
//            +----------------+          +--------+                  +----------------+
//    QUERIES | query_tile     |   K^T    | weight |   V              | o, in registers|
//            +----------------+          +--------+                  +----------------+
//
// Item (x, y) computes rows 4y .. 4y + 3: of the scores the keys x, x + 8, .., of the output the columns x, x + 8, ... The
// running maximum of a row is shared by its eight items; each keeps the sum of its own keys until the end.
//
// Needs: TYPE, BIAS, D, DV (head sizes), QUERIES (a multiple of 4), KEYS (a multiple of 8), UNROLL (1: small loops are
// unrolled, so that a GPU keeps their arrays in registers; a CPU cannot, and compiles twice as fast without).
#if !defined(D) || !defined(DV) || !defined(QUERIES) || !defined(KEYS) || !defined(UNROLL)
#error "D, DV, QUERIES, KEYS and UNROLL must be defined"
#endif

#define ITEMS_X 8
#define ROWS 4
#define ITEMS (QUERIES / ROWS * ITEMS_X)
#define KEYS_EACH (KEYS / ITEMS_X)
#define CHUNK 64 // columns of K or V in local memory at once; one float more a row keeps banks apart
#define COLUMNS_EACH (CHUNK / ITEMS_X)
#define CHUNKS_V ((DV + CHUNK - 1) / CHUNK)
#if UNROLL
#define SMALL_LOOP _Pragma("unroll")
#else
#define SMALL_LOOP _Pragma("nounroll")
#endif
#define FOR_ROWS SMALL_LOOP for (int y = 0; y < ROWS; y++)
#define FOR_KEYS SMALL_LOOP for (int c = 0; c < KEYS_EACH; c++)
#define FOR_COLUMNS SMALL_LOOP for (int c = 0; c < COLUMNS_EACH; c++)

// Fills tile[KEYS][CHUNK] with n rows of x from column `column` on, 0 beyond.
static inline void load_chunk(__global const STORAGE *x, long stride, int n, int column, int columns,
                              __local float (*tile)[CHUNK + 1])
{
    for (uint at = get_local_id(0); at < KEYS * CHUNK; at += ITEMS) {
        const int j = at / CHUNK, c = at % CHUNK;
        tile[j][c] = j < n && column + c < columns ? LOAD(x, j * stride + column + c) : 0;
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void tiles(const ca_params p, __global const STORAGE *restrict q, __global const STORAGE *restrict k,
           __global const STORAGE *restrict v, __global STORAGE *restrict out, __global float *restrict lse,
           __global const uchar *restrict keep, __global const BIAS_STORAGE *restrict bias,
           __global const float *restrict sinks, __global const int *restrict rows_q,
           __global const int *restrict rows_kv)
{
    __local float query_tile[QUERIES][D + 1], tile[KEYS][CHUNK + 1], weight[QUERIES][KEYS + 1];
    __local float shared[QUERIES][ITEMS_X];

    const uint item = get_local_id(0);
    const int x = item % ITEMS_X, y0 = item / ITEMS_X * ROWS;
    const int first = get_group_id(0) * QUERIES, h = get_group_id(1), b = get_group_id(2);
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    const int rows = clamp(r.len_q - first, 0, QUERIES);
    const int padding = p.packed ? 0 : clamp(p.len_q - first, 0, QUERIES) - rows;
    for (int i = rows + item; i < rows + padding; i += ITEMS) {
        for (int e = 0; e < DV; e++)
            STORE(0.0f, out, ca_at(&p.out, b, h, first + i) + e);
        if (p.has_lse)
            lse[ca_at(&p.lse, b, h, first + i)] = -INFINITY;
    }

    const bool judge_all = p.has_keep || HAS_BIAS || p.softcap != 0;
    for (int i = 0; i < QUERIES; i++)
        for (int d = item; d < D; d += ITEMS)
            query_tile[i][d] = i < rows ? LOAD(q, ca_at(&p.q, b, h, r.first_q + first + i) + d) * p.scale : 0;
    k += ca_at(&p.k, b, h / p.group, r.first_kv);
    v += ca_at(&p.v, b, h / p.group, r.first_kv);

    int from[ROWS], to[ROWS];
    float top[ROWS], total[ROWS], o[ROWS][CHUNKS_V * COLUMNS_EACH];
    const float sink = p.has_sinks ? sinks[p.sinks_offset + h] : -INFINITY;
    FOR_ROWS
    {
        const bool real = y0 + y < rows;
        from[y] = real ? ca_first_key(&p, &r, first + y0 + y) : 0;
        to[y] = real ? ca_last_key(&p, &r, first + y0 + y) : -1;
        top[y] = sink;
        total[y] = sink == -INFINITY || x != 0 ? 0 : 1;
        SMALL_LOOP
        for (int c = 0; c < CHUNKS_V * COLUMNS_EACH; c++)
            o[y][c] = 0;
    }
    const int last = first + rows - 1;
    const int any_from = rows ? ca_first_key(&p, &r, first) : 0, any_to = rows ? ca_last_key(&p, &r, last) : -1;
    const int all_from = rows ? ca_first_key(&p, &r, last) : 0, all_to = rows ? ca_last_key(&p, &r, first) : -1;

    for (int j0 = any_from; j0 <= any_to; j0 += KEYS) {
        const int n = min(KEYS, any_to + 1 - j0);
        const bool judged = judge_all || n < KEYS || rows < QUERIES || j0 < all_from || j0 + n - 1 > all_to;
        float s[ROWS][KEYS_EACH];
        FOR_ROWS
            FOR_KEYS
                s[y][c] = 0;
        for (int column = 0; column < D; column += CHUNK) {
            barrier(CLK_LOCAL_MEM_FENCE);
            load_chunk(k + j0 * p.k.row, p.k.row, n, column, D, tile);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int d = 0; d < min(CHUNK, D - column); d++) {
                float a[ROWS], w[KEYS_EACH];
                FOR_ROWS a[y] = query_tile[y0 + y][column + d];
                FOR_KEYS w[c] = tile[x + c * ITEMS_X][d];
                FOR_ROWS
                    FOR_KEYS
                        s[y][c] = fma(a[y], w[c], s[y][c]);
            }
        }

        FOR_ROWS
        {
            float highest = -INFINITY;
            FOR_KEYS
            {
                const int j = j0 + x + c * ITEMS_X;
                if (judged)
                    s[y][c] = j < from[y] || j > to[y] ? -INFINITY
                              : judge_all ? ca_score(&p, keep, bias, b, h, first + y0 + y, j, s[y][c])
                                          : s[y][c];
                highest = s[y][c] > highest ? s[y][c] : highest;
            }
            shared[y0 + y][x] = highest;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float shrink[ROWS];
        FOR_ROWS
        {
            const float old = top[y];
            for (int n_x = 0; n_x < ITEMS_X; n_x++)
                top[y] = shared[y0 + y][n_x] > top[y] ? shared[y0 + y][n_x] : top[y];
            const float level = top[y] == -INFINITY ? 0 : top[y];
            shrink[y] = ca_exp_float(old - level);
            total[y] *= shrink[y];
            FOR_KEYS
            {
                const float w = s[y][c] == -INFINITY ? CA_HIDDEN_WEIGHT : ca_exp_float(s[y][c] - level);
                weight[y0 + y][x + c * ITEMS_X] = w;
                total[y] += w;
            }
        }

        SMALL_LOOP
        for (int chunk = 0; chunk < CHUNKS_V; chunk++) {
            barrier(CLK_LOCAL_MEM_FENCE);
            load_chunk(v + j0 * p.v.row, p.v.row, n, chunk * CHUNK, DV, tile);
            barrier(CLK_LOCAL_MEM_FENCE);
            FOR_ROWS
                FOR_COLUMNS
                    o[y][chunk * COLUMNS_EACH + c] *= shrink[y];
            for (int j = 0; j < n; j++) {
                float w[ROWS], value[COLUMNS_EACH];
                FOR_ROWS w[y] = weight[y0 + y][j];
                FOR_COLUMNS value[c] = tile[j][x + c * ITEMS_X];
                FOR_ROWS
                    if (!ca_is_hidden(w[y])) // its value may be NaN
                        FOR_COLUMNS
                            o[y][chunk * COLUMNS_EACH + c] = fma(w[y], value[c], o[y][chunk * COLUMNS_EACH + c]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    FOR_ROWS shared[y0 + y][x] = total[y];
    barrier(CLK_LOCAL_MEM_FENCE);
    FOR_ROWS
    {
        float sum = 0;
        for (int n_x = 0; n_x < ITEMS_X; n_x++)
            sum += shared[y0 + y][n_x];
        if (y0 + y < rows) {
            const float inverse = sum == 0 ? 0 : 1 / sum;
            const long row = r.first_q + first + y0 + y;
            SMALL_LOOP
            for (int c = 0; c < CHUNKS_V * COLUMNS_EACH; c++)
                if (x + c * ITEMS_X < DV)
                    STORE(o[y][c] * inverse, out, ca_at(&p.out, b, h, row) + x + c * ITEMS_X);
            if (p.has_lse && x == 0)
                lse[ca_at(&p.lse, b, h, row)] = sum == 0 ? -INFINITY : top[y] + log(sum);
        }
    }
}
