// cl/attention/lanes.cl: fused attention for a CPU: queries in SIMD lanes, keys broadcast. One work-item a group owns
// LANES * VECTORS queries of one head.
//
//        queries ->  LANES x VECTORS          maximum, sum, rescale and masks are lane-wise;
//      +------------------------+             no shuffle but to transpose Q, O and a mask
//   q  |  Qt  [D]               |
//      +------------------------+
//   k  |  S   [BLOCK] keys      |  <- TILE x VECTORS in registers, K read as it lies and broadcast
//      +------------------------+
//   v  |  Ot  [DV]              |  <- TILE x VECTORS in registers, V read as it lies and broadcast
//      +------------------------+
//
// After lanes_products.cl, whose products it calls.
#define QUERIES (LANES * VECTORS)
#define DEPTH (D > DV ? D : DV)

// S = weights, from scores; gives their sum, by sixteens so that rounding does not pile up. `hide` gives hidden keys
// their own weight.
static inline FLOATS weigh(const bool hide, int n, FLOATS *S, FLOATS top)
{
    FLOATS sum = 0;
    for (int j0 = 0; j0 < n; j0 += 16) {
        FLOATS part = 0;
#pragma unroll 2
        for (int j = j0; j < min(j0 + 16, n); j++) {
            const FLOATS s = S[j * VECTORS];
            FLOATS w = EXP(s - top);
            if (hide)
                w = s == -INFINITY ? (FLOATS)(CA_HIDDEN_WEIGHT) : w;
            S[j * VECTORS] = w;
            part += w;
        }
        sum += part;
    }
    return sum;
}
FUNCTION FLOATS weigh_all(int n, FLOATS *S, FLOATS top)
{
    return weigh(false, n, S, top);
}
FUNCTION FLOATS weigh_visible(int n, FLOATS *S, FLOATS top)
{
    return weigh(true, n, S, top);
}

// A product for as many vectors as there are.
#define BY_WIDTH(width, function, ...)        \
    if (width == 3)                           \
        CA_PASTE(function, _3)(__VA_ARGS__);  \
    else if (width == 2)                      \
        CA_PASTE(function, _2)(__VA_ARGS__);  \
    else                                      \
        CA_PASTE(function, _1)(__VA_ARGS__)

// The same, slowly, for a block with hidden keys whose values are not all finite: hidden ones are selected away.
FUNCTION void multiply_values_guarded(int vectors, ROW_SPACE float *x, long stride, int n, const FLOATS *S,
                                      const FLOATS *shrink, FLOATS *Ot)
{
    for (int e = 0; e < DV; e++) {
#pragma nounroll
        for (int v = 0; v < vectors; v++) {
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
    for (int v = 0; v * LANES < rows; v++)
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

// `count` columns of LANES queries from `first` on, scaled, into Qt; past the last query, the last again.
INLINE void take_queries(const int count, const ca_params *p, __global const STORAGE *q, int first, int last, FLOATS *Qt)
{
    FLOATS t[LANES];
    if (count == 0)
        return;
#pragma nounroll
    for (int i = 0; i < LANES; i++)
        t[i] = load_row(q + min(first + i, last) * p->q.row, count) * p->scale;
    transpose(t, Qt, VECTORS);
}

// `columns` of `rows` rows of O.
INLINE void give_columns(const int columns, const ca_params *p, const FLOATS *Ot, FLOATS inverse, int rows,
                         __global STORAGE *out)
{
    FLOATS t[LANES], y[LANES];
    if (columns == 0)
        return;
    FOR(c, LANES) t[c] = Ot[c * VECTORS] * inverse;
    transpose(t, y, 1);
#pragma nounroll
    for (int i = 0; i < rows; i++)
        store_row(y[i], out + i * p->out.row, columns);
}

// The queries ahead are the next of the head, or the first of the next head. Of its keys, which come ahead only where they
// fit in a cache beside those in use, each work-item of this head asks for a share. `len_kv`: keys this one visits.
#define AHEAD_BYTES 262144
FUNCTION void look_ahead(const ca_params *p, const ca_rows *r, __global const STORAGE *q, __global const STORAGE *k,
                         __global const STORAGE *values, __global const STORAGE *out, int first, int h, int b, int len_kv,
                         ca_ahead *a)
{
    const int groups = (p->len_q + QUERIES - 1) / QUERIES, group = first / QUERIES;
    const int tiles = max((len_kv + TILE - 1) / TILE, 1), share = (p->len_kv + groups - 1) / groups;
    const int next_b = h + 1 < p->heads_q ? b : b + 1, next_h = h + 1 < p->heads_q ? h + 1 : 0;
    const bool same = group + 1 < groups, fits = (long)p->len_kv * (D + DV) * (int)sizeof(STORAGE) <= AHEAD_BYTES;
    const int query_b = same ? b : next_b, query_h = same ? h : next_h, query = same ? first + QUERIES : 0;
    a->q = q + ca_at(&p->q, query_b, query_h, r->first_q + query);
    a->out = out + ca_at(&p->out, query_b, query_h, r->first_q + query);
    a->k = k + ca_at(&p->k, next_b, next_h / p->group, r->first_kv + group * share);
    a->values = values + ca_at(&p->v, next_b, next_h / p->group, r->first_kv + group * share);
    a->queries = QUERIES;
    a->keys = fits && next_h % p->group == 0 ? share : 0;
    a->queries_a_tile = (a->queries + tiles - 1) / tiles;
    a->keys_a_tile = (a->keys + tiles - 1) / tiles;
}

FUNCTION void attend(const int first, const int h, const int b, const ca_params *p, __global const STORAGE *restrict q,
                     __global const STORAGE *restrict k, __global const STORAGE *restrict values,
                     __global STORAGE *restrict out, __global float *restrict lse, __global const uchar *restrict keep,
                     __global const BIAS_STORAGE *restrict bias, __global const float *restrict sinks,
                     __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    ca_rows r;
    ca_find_rows(p, rows_q, rows_kv, b, &r);
    const int rows = clamp(r.len_q - first, 0, QUERIES);
    const int padding = p->packed ? 0 : clamp(p->len_q - first, 0, QUERIES) - rows;
    for (int i = rows; i < rows + padding; i++) {
        for (int e = 0; e < DV; e++)
            STORE(0.0f, out, ca_at(&p->out, b, h, first + i) + e);
        if (p->has_lse)
            lse[ca_at(&p->lse, b, h, first + i)] = -INFINITY;
    }
    if (rows == 0)
        return;

    // By position query i of the tile sees keys low + i to high + i, where there are such.
    const long level = first + (p->top_left ? 0L : (long)r.len_kv - r.len_q);
    const int low = p->left == CA_OPEN ? -QUERIES : (int)clamp(level - p->left, (long)-QUERIES, (long)r.len_kv);
    const int high = p->right == CA_OPEN ? INT_MAX : (int)clamp(level + p->right, (long)-QUERIES, (long)r.len_kv);
    // None sees keys outside any_from .. any_to. All see keys all_from .. all_to, cut so that at either edge of a window
    // LANES keys are left for each vector.
    const int vectors = (rows + LANES - 1) / LANES, last = first + rows - 1;
    const int any_from = ca_first_key(p, &r, first), any_to = ca_last_key(p, &r, last);
    const int all_from = max(ca_first_key(p, &r, last), low + vectors * LANES);
    const int all_to = min(ca_last_key(p, &r, first), high - 1);

    ca_ahead ahead;
    look_ahead(p, &r, q, k, values, out, first, h, b, any_to + 1 - any_from, &ahead);

    FLOATS Qt[PAD(D) * VECTORS], S[BLOCK * VECTORS], Ot[PAD(DV) * VECTORS];
#if CA_IS(TYPE) != CA_IS_F32
    float scratch[BLOCK * PAD(DEPTH)];
#endif
    q += ca_at(&p->q, b, h, r.first_q + first);
    out += ca_at(&p->out, b, h, r.first_q + first);
#pragma nounroll
    for (int v = 0; v < vectors; v++) {
        for (int d = 0; d < WHOLE(D); d += LANES)
            take_queries(LANES, p, q + d, v * LANES, rows - 1, Qt + d * VECTORS + v);
        take_queries(D - WHOLE(D), p, q + WHOLE(D), v * LANES, rows - 1, Qt + WHOLE(D) * VECTORS + v);
    }
    for (int e = 0; e < DV * VECTORS; e++)
        Ot[e] = 0;
    const float sink = p->has_sinks ? sinks[p->sinks_offset + h] : -INFINITY;
    FLOATS top[VECTORS], total[VECTORS];
    FOR(v, VECTORS)
    {
        top[v] = sink;
        total[v] = sink == -INFINITY ? 0.0f : 1.0f;
    }
    k += ca_at(&p->k, b, h / p->group, r.first_kv);
    values += ca_at(&p->v, b, h / p->group, r.first_kv);

    // A block is seen by position by all queries of the tile, or not by all: none is both. What is not seen by all ends where
    // the vectors change that see some of it: `width` of them from v0 on.
    for (int j0 = any_from, n; j0 <= any_to; j0 += n) {
        const bool whole = j0 >= all_from && j0 <= all_to;
        const int v0 = max(j0 - high, 0) / LANES, width = min((j0 - low) / LANES + 1, vectors) - v0;
        int end = whole ? all_to : any_to;
        if (j0 < all_from)
            end = min(end, low + (v0 + width) * LANES - 1);
        if (j0 > all_to)
            end = min(end, high + (v0 + 1) * LANES - 1);
        n = min(BLOCK, end + 1 - j0);
        bool judged = !whole || SOFTCAP;
#if MASKED
        const int begin = first + v0 * LANES, count = min(rows - v0 * LANES, width * LANES);
        const int masks = judge_masks(p, keep, bias, b, h, begin, count, j0, n);
        if (masks == CLOSED)
            continue;
        judged = judged || masks == MIXED;
#endif
        FLOATS old[VECTORS], shrink[VECTORS];
        FOR(v, VECTORS) old[v] = top[v];
        ROW_SPACE float *keys = AS_ROWS(k + j0 * p->k.row, p->k.row, n, D, scratch);
        BY_WIDTH(width, multiply_keys, keys, ROW_STRIDE(p->k.row, D), n, Qt + v0, S + v0, top + v0, p, &ahead);
        if (judged) {
#if SOFTCAP
            for (int v = v0; v < v0 + width; v++)
                for (int j = 0; j < n; j++)
                    S[j * VECTORS + v] = p->softcap * tanh(S[j * VECTORS + v] / p->softcap);
#endif
#if MASKED
            if (masks == MIXED)
                add_masks(p, keep, bias, b, h, begin, count, j0, n, S + v0);
#endif
#pragma nounroll
            for (int v = v0; v < v0 + width; v++) {
                const INTS i = v * LANES + CA_LANES(vload)(0, columns);
                const INTS from = add_sat((INTS)low, i) - j0, to = add_sat((INTS)high, i) - j0;
                FLOATS most = old[v];
                for (int j = 0; j < n; j++) {
                    FLOATS x = S[j * VECTORS + v];
                    x = from > j || to < j ? (FLOATS)(-INFINITY) : x;
                    S[j * VECTORS + v] = x;
                    most = x > most ? x : most;
                }
                top[v] = most;
            }
        }
#pragma nounroll
        for (int v = v0; v < v0 + width; v++) {
            const FLOATS level = top[v] == -INFINITY ? (FLOATS)(0.0f) : top[v];
            shrink[v] = EXP(old[v] - level);
            total[v] = total[v] * shrink[v] + (judged ? weigh_visible(n, S + v, level) : weigh_all(n, S + v, level));
        }

        ROW_SPACE float *x = AS_ROWS(values + j0 * p->v.row, p->v.row, n, DV, scratch);
        const long stride = ROW_STRIDE(p->v.row, DV);
        if (judged && !all_finite(x, stride, n))
            multiply_values_guarded(width, x, stride, n, S + v0, shrink + v0, Ot + v0);
        else
            BY_WIDTH(width, multiply_values, x, stride, n, S + v0, shrink + v0, Ot + v0);
    }

#pragma nounroll
    for (int v = 0; v < vectors; v++) {
        const FLOATS inverse = total[v] == 0.0f ? (FLOATS)(0.0f) : 1.0f / total[v];
        const int count = min(LANES, rows - v * LANES);
        __global STORAGE *to = out + v * LANES * p->out.row;
        for (int e = 0; e < WHOLE(DV); e += LANES)
            give_columns(LANES, p, Ot + e * VECTORS + v, inverse, count, to + e);
        give_columns(DV - WHOLE(DV), p, Ot + WHOLE(DV) * VECTORS + v, inverse, count, to + WHOLE(DV));
        if (p->has_lse)
            for (int i = 0; i < count; i++) {
                const float x = ((float *)&total[v])[i], y = ((float *)&top[v])[i];
                lse[ca_at(&p->lse, b, h, r.first_q + first + v * LANES + i)] = x == 0.0f ? -INFINITY : y + log(x);
            }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void lanes(const ca_params p, __global const STORAGE *restrict q, __global const STORAGE *restrict k,
           __global const STORAGE *restrict values, __global STORAGE *restrict out, __global float *restrict lse,
           __global const uchar *restrict keep, __global const BIAS_STORAGE *restrict bias,
           __global const float *restrict sinks, __global const int *restrict rows_q,
           __global const int *restrict rows_kv)
{
    attend(get_group_id(0) * QUERIES, get_group_id(1), get_group_id(2), &p, q, k, values, out, lse, keep, bias, sinks,
           rows_q, rows_kv);
}
