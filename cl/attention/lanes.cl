// cl/attention/lanes.cl: fused attention for a CPU: queries in SIMD lanes, keys broadcast. One work-item a group owns
// LANES * VECTORS queries of one head.
//
//        queries ->  LANES x VECTORS          maximum, sum, rescale and masks are lane-wise;
//      +------------------------+             no shuffle but to transpose Q, O and a mask
//   q  |  Qt  [D]               |
//      +------------------------+
//   k  |  S   [BLOCK] keys      |  <- KEYS x VECTORS in registers, K read as it lies and broadcast
//      +------------------------+
//   v  |  Ot  [DV]              |  <- up to COLUMNS x VECTORS in registers, V read as it lies and broadcast
//      +------------------------+
//
// Needs, beside what vectors.cl does: D, DV (head sizes), VECTORS, KEYS, COLUMNS, BLOCK (keys per block, a multiple of KEYS).
#if !defined(D) || !defined(DV) || !defined(VECTORS) || !defined(KEYS) || !defined(COLUMNS) || !defined(BLOCK)
#error "D, DV, VECTORS, KEYS, COLUMNS and BLOCK must be defined"
#endif

#define QUERIES (LANES * VECTORS)
#define DEPTH (D > DV ? D : DV)

// Rows of K and V are read in place when they are f32; other types are converted block by block.
#if CA_IS(TYPE) == CA_IS_F32
#define ROW_SPACE __global const
#define AS_ROWS(tensor, stride, n, columns, scratch) (tensor)
#define ROW_STRIDE(stride, columns) (stride)
#else
#define ROW_SPACE const
#define AS_ROWS(tensor, stride, n, columns, scratch) convert_rows(tensor, stride, n, columns, scratch)
#define ROW_STRIDE(stride, columns) PAD(columns)
FUNCTION const float *convert_rows(__global const STORAGE *x, long stride, int n, int columns, float *scratch)
{
    for (int j = 0; j < n; j++)
        for (int c = 0; c < columns; c += LANES)
            CA_LANES(vstore)(load_row(x + j * stride + c, columns - c), 0, scratch + j * PAD(columns) + c);
    return scratch;
}
#endif

static inline void add_products(ROW_SPACE float *const row[KEYS], int d, const FLOATS *Qt, FLOATS a[KEYS][VECTORS])
{
    FLOATS q[VECTORS];
    FOR(v, VECTORS) q[v] = Qt[d * VECTORS + v];
    FOR(i, KEYS)
    {
        const FLOATS b = (FLOATS)(row[i][d]);
        FOR(v, VECTORS) a[i][v] = fma(b, q[v], a[i][v]);
    }
}

// Scores of n keys into S, and their lane-wise maximum. Rows past the last key are read as the last key.
static inline void multiply_keys(ROW_SPACE float *k, long stride, int n, const FLOATS *Qt, FLOATS *S, FLOATS top[VECTORS])
{
    for (int j = 0; j < n; j += KEYS) {
        ROW_SPACE float *row[KEYS];
        FLOATS a[KEYS][VECTORS];
        FOR(i, KEYS)
        {
            row[i] = k + min(j + i, n - 1) * stride;
            FOR(v, VECTORS) a[i][v] = 0;
        }
#pragma unroll 4
        for (int d = 0; d < D / 4 * 4; d++)
            add_products(row, d, Qt, a);
        for (int d = D / 4 * 4; d < D; d++)
            add_products(row, d, Qt, a);
        FOR(i, KEYS)
        {
            FOR(v, VECTORS)
            {
                S[(j + i) * VECTORS + v] = a[i][v];
                top[v] = a[i][v] > top[v] ? a[i][v] : top[v];
            }
        }
    }
}

// S = weights, from scores, and their sum, by sixteens so that rounding does not pile up. `hide` gives hidden keys their
// own weight.
static inline void weigh(bool hide, int n, FLOATS *S, const FLOATS top[VECTORS], FLOATS sum[VECTORS])
{
    for (int j0 = 0; j0 < n; j0 += 16) {
        FLOATS part[VECTORS];
        FOR(v, VECTORS) part[v] = 0;
        for (int j = j0; j < min(j0 + 16, n); j++) {
            FOR(v, VECTORS)
            {
                const FLOATS s = S[j * VECTORS + v];
                FLOATS w = EXP(s - top[v]);
                if (hide)
                    w = s == -INFINITY ? (FLOATS)(CA_HIDDEN_WEIGHT) : w;
                S[j * VECTORS + v] = w;
                part[v] += w;
            }
        }
        FOR(v, VECTORS) sum[v] += part[v];
    }
}

// Ot = Ot * shrink + V^T S for `count` columns of V.
static inline void multiply_values(const int count, ROW_SPACE float *x, long stride, int n, const FLOATS *S,
                                   const FLOATS shrink[VECTORS], FLOATS *Ot)
{
    FLOATS a[COLUMNS][VECTORS];
    FOR(i, count) FOR(v, VECTORS) a[i][v] = Ot[i * VECTORS + v] * shrink[v];
#pragma unroll 4
    for (int j = 0; j < n; j++) {
        FLOATS w[VECTORS];
        FOR(v, VECTORS) w[v] = S[j * VECTORS + v];
        ROW_SPACE float *row = x + j * stride;
        FOR(i, count)
        {
            const FLOATS b = (FLOATS)(row[i]);
            FOR(v, VECTORS) a[i][v] = fma(b, w[v], a[i][v]);
        }
    }
    FOR(i, count) FOR(v, VECTORS) Ot[i * VECTORS + v] = a[i][v];
}

// All columns: as few tiles as COLUMNS allows, all of WIDE columns or one less.
#define TILES ((DV + COLUMNS - 1) / COLUMNS)
#define WIDE ((DV + TILES - 1) / TILES)
#define WIDE_TILES (DV - TILES * (WIDE - 1))
static inline void multiply_all_values(ROW_SPACE float *x, long stride, int n, const FLOATS *S,
                                       const FLOATS shrink[VECTORS], FLOATS *Ot)
{
    for (int e = 0; e < WIDE_TILES * WIDE; e += WIDE)
        multiply_values(WIDE, x + e, stride, n, S, shrink, Ot + e * VECTORS);
#if WIDE_TILES < TILES
    for (int e = WIDE_TILES * WIDE; e < DV; e += WIDE - 1)
        multiply_values(WIDE - 1, x + e, stride, n, S, shrink, Ot + e * VECTORS);
#endif
}

// The same, slowly, for a block with hidden keys whose values are not all finite: hidden ones are selected away.
FUNCTION void multiply_values_guarded(ROW_SPACE float *x, long stride, int n, const FLOATS *S,
                                           const FLOATS shrink[VECTORS], FLOATS *Ot)
{
    for (int e = 0; e < DV; e++) {
#pragma nounroll
        for (int v = 0; v < VECTORS; v++) {
            FLOATS a = Ot[e * VECTORS + v] * shrink[v];
            for (int j = 0; j < n; j++) {
                const FLOATS w = S[j * VECTORS + v];
                a = CA_LANES(as_int)(w) == (int)0x80000000 ? a : fma((FLOATS)(x[j * stride + e]), w, a);
            }
            Ot[e * VECTORS + v] = a;
        }
    }
}

FUNCTION bool all_finite(ROW_SPACE float *x, long stride, int n)
{
    FLOATS zero = 0;
    float rest = 0;
    for (int j = 0; j < n; j++) {
        ROW_SPACE float *row = x + j * stride;
        for (int e = 0; e + LANES <= DV; e += LANES)
            zero += CA_LANES(vload)(0, row + e) * 0.0f;
        for (int e = DV / LANES * LANES; e < DV; e++)
            rest += row[e] * 0.0f;
    }
    for (int i = 0; i < LANES; i++)
        rest += ((float *)&zero)[i];
    return rest == 0;
}

#if MASKED
enum { OPEN, MIXED, CLOSED }; // what masks say of a block: nothing, something, or that nobody sees any of it

FUNCTION int judge_masks(const ca_params *p, __global const uchar *keep, __global const BIAS_STORAGE *bias, int b,
                              int h, int first, int rows, int j0, int n)
{
    const INTS column = CA_LANES(vload)(0, columns);
    INTS visible = 0, changed = 0;
    const bool one_row = (!KEEP || p->keep.row == 0) && (!HAS_BIAS || p->bias.row == 0);
    for (int i = 0; i < (one_row ? 1 : rows); i++)
        for (int j = 0; j < n; j += LANES) {
            const FLOATS add = mask_row(p, keep, bias, b, h, first + i, j0 + j, n - j);
            visible |= column < n - j && add != -INFINITY;
            changed |= add != 0.0f;
        }
    return !any(changed) ? OPEN : any(visible) ? MIXED : CLOSED;
}

FUNCTION void add_masks(const ca_params *p, __global const uchar *keep, __global const BIAS_STORAGE *bias, int b,
                             int h, int first, int rows, int j0, int n, FLOATS *S)
{
#pragma nounroll
    for (int v = 0; v < VECTORS; v++)
        for (int j = 0; j < n; j += LANES) {
            FLOATS t[LANES], add[LANES];
#pragma nounroll
            for (int i = 0; i < LANES; i++)
                t[i] = mask_row(p, keep, bias, b, h, first + min(v * LANES + i, rows - 1), j0 + j, n - j);
            transpose(t, add, 1);
            for (int c = 0; c < min(LANES, n - j); c++) {
                FLOATS *s = S + (j + c) * VECTORS + v;
                *s = add[c] == -INFINITY ? add[c] : *s + add[c];
            }
        }
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void lanes(const ca_params p, __global const STORAGE *restrict q, __global const STORAGE *restrict k,
           __global const STORAGE *restrict values, __global STORAGE *restrict out, __global float *restrict lse,
           __global const uchar *restrict keep, __global const BIAS_STORAGE *restrict bias,
           __global const float *restrict sinks, __global const int *restrict rows_q,
           __global const int *restrict rows_kv)
{
    const int first = get_group_id(0) * QUERIES, h = get_group_id(1), b = get_group_id(2);
    ca_rows r;
    ca_find_rows(&p, rows_q, rows_kv, b, &r);
    const int rows = clamp(r.len_q - first, 0, QUERIES);
    const int padding = p.packed ? 0 : clamp(p.len_q - first, 0, QUERIES) - rows;
    for (int i = rows; i < rows + padding; i++) {
        for (int e = 0; e < DV; e++)
            STORE(0.0f, out, ca_at(&p.out, b, h, first + i) + e);
        if (p.has_lse)
            lse[ca_at(&p.lse, b, h, first + i)] = -INFINITY;
    }
    if (rows == 0)
        return;

    FLOATS Qt[PAD(D) * VECTORS], S[BLOCK * VECTORS], Ot[PAD(DV) * VECTORS];
#if CA_IS(TYPE) != CA_IS_F32
    float scratch[BLOCK * PAD(DEPTH)];
#endif
    INTS from[VECTORS], to[VECTORS];
#pragma nounroll
    for (int v = 0; v < VECTORS; v++) {
        for (int d = 0; d < D; d += LANES) {
            FLOATS t[LANES];
#pragma nounroll
            for (int i = 0; i < LANES; i++) {
                const int row = first + min(v * LANES + i, rows - 1);
                t[i] = load_row(q + ca_at(&p.q, b, h, r.first_q + row) + d, D - d) * p.scale;
            }
            transpose(t, Qt + d * VECTORS + v, VECTORS);
        }
        for (int i = 0; i < LANES; i++) {
            const int row = first + min(v * LANES + i, rows - 1);
            ((int *)&from[v])[i] = ca_first_key(&p, &r, row);
            ((int *)&to[v])[i] = ca_last_key(&p, &r, row);
        }
    }
    // Every query of the tile sees keys all_from .. all_to by position; none sees keys outside any_from .. any_to.
    const int last = first + rows - 1;
    const int all_from = ca_first_key(&p, &r, last), all_to = ca_last_key(&p, &r, first);
    const int any_from = ca_first_key(&p, &r, first), any_to = ca_last_key(&p, &r, last);

    for (int e = 0; e < DV * VECTORS; e++)
        Ot[e] = 0;
    const float sink = p.has_sinks ? sinks[p.sinks_offset + h] : -INFINITY;
    FLOATS top[VECTORS], total[VECTORS];
    FOR(v, VECTORS)
    {
        top[v] = sink;
        total[v] = sink == -INFINITY ? 0.0f : 1.0f;
    }
    k += ca_at(&p.k, b, h / p.group, r.first_kv);
    values += ca_at(&p.v, b, h / p.group, r.first_kv);

    // A block is seen by position by all queries of the tile, or not by all: none is both.
    for (int j0 = any_from, n; j0 <= any_to; j0 += n) {
        const bool whole = j0 >= all_from && j0 <= all_to;
        const int end = whole ? all_to : j0 < all_from && all_from <= all_to ? all_from - 1 : any_to;
        n = min(BLOCK, end + 1 - j0);
        bool judged = !whole || SOFTCAP;
#if MASKED
        const int masks = judge_masks(&p, keep, bias, b, h, first, rows, j0, n);
        if (masks == CLOSED)
            continue;
        judged = judged || masks == MIXED;
#endif
        FLOATS old[VECTORS], shrink[VECTORS], sum[VECTORS], level[VECTORS];
        FOR(v, VECTORS) old[v] = top[v];
        multiply_keys(AS_ROWS(k + j0 * p.k.row, p.k.row, n, D, scratch), ROW_STRIDE(p.k.row, D), n, Qt, S, top);
        if (judged) {
            FOR(v, VECTORS) top[v] = old[v];
#if SOFTCAP
            for (int x = 0; x < n * VECTORS; x++)
                S[x] = p.softcap * tanh(S[x] / p.softcap);
#endif
#if MASKED
            if (masks == MIXED)
                add_masks(&p, keep, bias, b, h, first, rows, j0, n, S);
#endif
            for (int j = 0; j < n; j++)
                FOR(v, VECTORS)
                {
                    FLOATS x = S[j * VECTORS + v];
                    x = from[v] > j0 + j || to[v] < j0 + j ? (FLOATS)(-INFINITY) : x;
                    S[j * VECTORS + v] = x;
                    top[v] = x > top[v] ? x : top[v];
                }
        }
        FOR(v, VECTORS)
        {
            level[v] = top[v] == -INFINITY ? (FLOATS)(0.0f) : top[v];
            shrink[v] = EXP(old[v] - level[v]);
            sum[v] = 0;
        }
        weigh(judged, n, S, level, sum);
        FOR(v, VECTORS) total[v] = total[v] * shrink[v] + sum[v];

        ROW_SPACE float *x = AS_ROWS(values + j0 * p.v.row, p.v.row, n, DV, scratch);
        const long stride = ROW_STRIDE(p.v.row, DV);
        if (judged && !all_finite(x, stride, n))
            multiply_values_guarded(x, stride, n, S, shrink, Ot);
        else
            multiply_all_values(x, stride, n, S, shrink, Ot);
    }

#pragma nounroll
    for (int v = 0; v < VECTORS; v++) {
        const FLOATS inverse = total[v] == 0.0f ? (FLOATS)(0.0f) : 1.0f / total[v];
        const int count = min(LANES, rows - v * LANES);
        for (int e = 0; e < DV; e += LANES) {
            FLOATS t[LANES], y[LANES];
            FOR(c, LANES) t[c] = Ot[(e + c) * VECTORS + v] * inverse;
            transpose(t, y, 1);
#pragma nounroll
            for (int i = 0; i < count; i++)
                store_row(y[i], out + ca_at(&p.out, b, h, r.first_q + first + v * LANES + i) + e, DV - e);
        }
        if (p.has_lse)
            for (int i = 0; i < count; i++) {
                const float x = ((float *)&total[v])[i], y = ((float *)&top[v])[i];
                lse[ca_at(&p.lse, b, h, r.first_q + first + v * LANES + i)] = x == 0.0f ? -INFINITY : y + log(x);
            }
    }
}
