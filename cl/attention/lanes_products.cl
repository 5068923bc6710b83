// cl/attention/lanes_products.cl: the two products of lanes.cl, for WIDTH vectors of queries by TILE keys or columns in
// registers. Stands three times in the program: with WIDTH 1 and 2, which the last queries of a head and the edges of a
// window need, and 3. Needs, beside what vectors.cl does: D, DV (head sizes), VECTORS (3: those of a whole tile),
// ACCUMULATORS (that registers hold), BLOCK (keys, a multiple of TILE).
#if !defined(D) || !defined(DV) || VECTORS != 3 || !defined(ACCUMULATORS)
#error "D, DV, VECTORS (3) and ACCUMULATORS must be defined"
#endif
#define TILE (ACCUMULATORS / VECTORS)
#if BLOCK == 0 || BLOCK % TILE
#error "BLOCK must be a multiple of ACCUMULATORS / VECTORS"
#endif

#ifndef WIDTH
#define WIDTH 1
#define WIDE(function) CA_PASTE(CA_PASTE(function, _), WIDTH)
#define UNROLLED (WIDTH == 3 ? 2 : 1) // more takes longer to compile and is no faster
#define KIND FUNCTION

// Rows of K and V are read in place when they are f32; other types are converted block by block.
#if CA_IS(TYPE) == CA_IS_F32
#define ROW_SPACE __global const
#define AS_ROWS(tensor, stride, n, columns, scratch) (tensor)
#define ROW_STRIDE(stride, columns) (stride)
#else
#define ROW_SPACE const
#define AS_ROWS(tensor, stride, n, columns, scratch) convert_rows(tensor, stride, n, columns, scratch)
#define ROW_STRIDE(stride, columns) PAD(columns)
INLINE const float *convert_rows(__global const STORAGE *x, long stride, int n, const int columns, float *scratch)
{
    for (int j = 0; j < n; j++, x += stride) {
        float *y = scratch + j * PAD(columns);
        for (int c = 0; c < WHOLE(columns); c += LANES)
            CA_LANES(vstore)(LOAD_LANES(x + c), 0, y + c);
        if (WHOLE(columns) < columns)
            CA_LANES(vstore)(load_row(x + WHOLE(columns), columns - WHOLE(columns)), 0, y + WHOLE(columns));
    }
    return scratch;
}
#endif

// What the work-item after this one needs, asked for while this one multiplies: a few rows with every tile of keys.
typedef struct ca_ahead {
    __global const STORAGE *q, *out, *k, *values;
    int queries, keys;               // rows still to ask for
    int queries_a_tile, keys_a_tile; // rows to ask for with a tile
} ca_ahead;

FUNCTION void ask_ahead(const ca_params *p, ca_ahead *a)
{
    const int queries = min(a->queries, a->queries_a_tile), keys = min(a->keys, a->keys_a_tile);
    for (int i = 0; i < queries; i++, a->q += p->q.row, a->out += p->out.row) {
        PREFETCH_ROW(a->q, D, 0);
        PREFETCH_ROW(a->out, DV, 1);
    }
    for (int j = 0; j < keys; j++, a->k += p->k.row, a->values += p->v.row) {
        PREFETCH_ROW(a->k, D, 0);
        PREFETCH_ROW(a->values, DV, 0);
    }
    a->queries -= queries;
    a->keys -= keys;
}

#elif WIDTH == 1
#undef WIDTH
#define WIDTH 2
#else
#undef WIDTH
#define WIDTH 3
#undef KIND
#define KIND INLINE
#endif

INLINE void WIDE(add_products)(ROW_SPACE float *const row[TILE], int d, const FLOATS *Qt, FLOATS a[TILE][WIDTH])
{
    FLOATS q[WIDTH];
    FOR(v, WIDTH) q[v] = Qt[d * VECTORS + v];
    FOR(i, TILE)
    {
        const FLOATS b = (FLOATS)(row[i][d]);
        FOR(v, WIDTH) a[i][v] = fma(b, q[v], a[i][v]);
    }
}

// Scores of n keys into S, and their lane-wise maximum. Rows past the last key are read as the last key.
KIND void WIDE(multiply_keys)(ROW_SPACE float *k, long stride, int n, const FLOATS *Qt, FLOATS *S, FLOATS *top,
                              const ca_params *p, ca_ahead *ahead)
{
    for (int j = 0; j < n; j += TILE) {
        ask_ahead(p, ahead);
        ROW_SPACE float *row[TILE];
        FLOATS a[TILE][WIDTH];
        FOR(i, TILE) row[i] = k + min(j + i, n - 1) * stride;
        FOR(i, TILE) FOR(v, WIDTH) a[i][v] = 0;
#pragma unroll UNROLLED
        for (int d = 0; d < D / UNROLLED * UNROLLED; d++)
            WIDE(add_products)(row, d, Qt, a);
        for (int d = D / UNROLLED * UNROLLED; d < D; d++)
            WIDE(add_products)(row, d, Qt, a);
        FOR(i, TILE)
        {
            FOR(v, WIDTH)
            {
                const FLOATS s = a[i][v];
                S[(j + i) * VECTORS + v] = s;
                top[v] = s > top[v] ? s : top[v];
            }
        }
    }
}

// Ot = Ot * shrink + V^T S for `count` columns of V.
INLINE void WIDE(multiply_columns)(const int count, ROW_SPACE float *x, long stride, int n,
                                   const FLOATS *S, const FLOATS *shrink, FLOATS *Ot)
{
    FLOATS a[TILE][WIDTH];
    FOR(i, count) FOR(v, WIDTH) a[i][v] = Ot[i * VECTORS + v] * shrink[v];
#pragma unroll UNROLLED
    for (int j = 0; j < n; j++) {
        FLOATS w[WIDTH];
        FOR(v, WIDTH) w[v] = S[j * VECTORS + v];
        ROW_SPACE float *row = x + j * stride;
        FOR(i, count)
        {
            const FLOATS b = (FLOATS)(row[i]);
            FOR(v, WIDTH) a[i][v] = fma(b, w[v], a[i][v]);
        }
    }
    FOR(i, count) FOR(v, WIDTH) Ot[i * VECTORS + v] = a[i][v];
}

// All columns: as few tiles as there can be, all of `wide` columns or one less.
KIND void WIDE(multiply_values)(ROW_SPACE float *x, long stride, int n, const FLOATS *S,
                                 const FLOATS *shrink, FLOATS *Ot)
{
    const int tiles = (DV + TILE - 1) / TILE, wide = (DV + tiles - 1) / tiles;
    const int wide_columns = (DV - tiles * (wide - 1)) * wide;
    for (int e = 0; e < wide_columns; e += wide)
        WIDE(multiply_columns)(wide, x + e, stride, n, S, shrink, Ot + e * VECTORS);
    for (int e = wide_columns; e < DV; e += wide - 1)
        WIDE(multiply_columns)(wide - 1, x + e, stride, n, S, shrink, Ot + e * VECTORS);
}

