// cl/attention/split.cl: attention of few queries over many keys on a CPU: decoding. Head columns lie in SIMD lanes; the
// keys of a kv head are cut into parts that work-items take, and `split_merge` puts the parts of a query together.
//
//      row x: query i of head h         all rows that share a kv head: group * len_q, at most MOST_ROWS
//      K, V   [BLOCK] keys x D          read once for all rows; ROWS of them at a time
//      parts  [batch][head][query][part][DV + 2]: sum of weights times values, maximum, sum of weights
//
// Needs, beside what attention/vectors.cl does: D and DV (head sizes, multiples of LANES), ROWS, MOST_ROWS, BLOCK (keys, a multiple of
// LANES).
#if !defined(D) || !defined(DV) || !defined(ROWS) || !defined(MOST_ROWS) || !defined(BLOCK)
#error "D, DV, ROWS, MOST_ROWS and BLOCK must be defined"
#endif

#define PART (DV + 2)
#define VECTORS_D (D / LANES)
#define VECTORS_DV (DV / LANES)
#define CHUNK (ROWS > 1 ? 4 : 8) // vectors of columns of ROWS rows that registers hold

// Lane l of the result: the sum over the lanes of t[l].
static inline FLOATS sum_lanes(FLOATS t[LANES])
{
    FOR(round, LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
    {
        FOR(i, LANES >> (round + 1))
        {
            FLOATS even, odd;
            even.lo = t[2 * i].even;
            even.hi = t[2 * i + 1].even;
            odd.lo = t[2 * i].odd;
            odd.hi = t[2 * i + 1].odd;
            t[i] = even + odd;
        }
    }
    return t[0];
}

// Scores of ROWS rows and LANES keys; rows of K past the last key are read as the last key. Meanwhile the values of these
// keys, `soon`, come from memory, unless it is NULL.
FUNCTION void multiply_keys(__global const STORAGE *k, long stride, int n, const FLOATS *Q,
                                 __global const STORAGE *soon, long soon_stride, FLOATS s[ROWS])
{
    FLOATS t[ROWS][LANES];
#pragma nounroll
    for (int j = 0; j < LANES; j++) {
        __global const STORAGE *row = k + min(j, n - 1) * stride;
        if (soon)
            PREFETCH_ROW(soon + j * soon_stride, DV, 0);
        FLOATS a[ROWS];
        FOR(x, ROWS) a[x] = 0;
        FOR(c, VECTORS_D)
        {
            const FLOATS y = LOAD_LANES(row + c * LANES);
            FOR(x, ROWS) a[x] = fma(y, Q[x * VECTORS_D + c], a[x]);
        }
        FOR(x, ROWS) t[x][j] = a[x];
    }
    FOR(x, ROWS) s[x] = sum_lanes(t[x]);
}

// O = O * shrink + w V for `count` vectors of columns of `rows` rows, n keys. `hide`: keys with the weight of a hidden one are
// passed over. `soon`, as above: the keys of the next block.
INLINE void multiply_columns(const bool hide, const int rows, const int count, __global const STORAGE *values, long stride,
                             int n, const float *w, const float *shrink, __global const STORAGE *soon, long soon_stride,
                             FLOATS *O)
{
    FLOATS a[ROWS][CHUNK];
    FOR(x, rows) FOR(c, count) a[x][c] = O[x * VECTORS_DV + c] * shrink[x];
    for (int j = 0; j < n; j++) {
        __global const STORAGE *row = values + j * stride;
        if (soon)
            PREFETCH_ROW(soon + j * soon_stride, count * LANES, 0);
        if (hide && ca_is_hidden(w[j]))
            continue;
        FOR(c, count)
        {
            const FLOATS y = LOAD_LANES(row + c * LANES);
            FOR(x, rows) a[x][c] = fma(y, (FLOATS)(w[x * BLOCK + j]), a[x][c]);
        }
    }
    FOR(x, rows) FOR(c, count) O[x * VECTORS_DV + c] = a[x][c];
}

INLINE void multiply_values(const bool hide, const int rows, __global const STORAGE *values, long stride, int n,
                            const float *w, const float *shrink, __global const STORAGE *soon, long soon_stride, FLOATS *O)
{
    for (int c = 0; c + CHUNK <= VECTORS_DV; c += CHUNK)
        multiply_columns(hide, rows, CHUNK, values + c * LANES, stride, n, w, shrink,
                         soon && c < VECTORS_D ? soon + c * LANES : NULL, soon_stride, O + c);
#if VECTORS_DV % CHUNK
    const int rest = VECTORS_DV / CHUNK * CHUNK;
    multiply_columns(hide, rows, VECTORS_DV % CHUNK, values + rest * LANES, stride, n, w, shrink,
                     soon && rest < VECTORS_D ? soon + rest * LANES : NULL, soon_stride, O + rest);
#endif
}

// The lanes of x put together by `op`, which takes vectors of any width.
#if LANES == 16
#define FOURTH(op, x) op(op((x).lo.lo, (x).lo.hi), op((x).hi.lo, (x).hi.hi))
#elif LANES == 8
#define FOURTH(op, x) op((x).lo, (x).hi)
#else
#define FOURTH(op, x) (x)
#endif
#define ADD(a, b) ((a) + (b))
static inline float largest(FLOATS x)
{
    const float4 y = FOURTH(fmax, x);
    return fmax(fmax(y.x, y.y), fmax(y.z, y.w));
}
static inline float sum_of(FLOATS x)
{
    const float4 y = FOURTH(ADD, x);
    return (y.x + y.y) + (y.z + y.w);
}

FUNCTION void attend(const int part, const int kv, const int b, const ca_params *p, __global const STORAGE *restrict q,
                     __global const STORAGE *restrict k, __global const STORAGE *restrict values,
                     __global float *restrict parts, __global const uchar *restrict keep,
                     __global const BIAS_STORAGE *restrict bias, __global const int *restrict rows_q,
                     __global const int *restrict rows_kv)
{
    ca_rows r;
    ca_find_rows(p, rows_q, rows_kv, b, &r);
    const int rows = p->group * r.len_q;
    if (rows == 0)
        return;
    const int any_from = ca_first_key(p, &r, 0), any_to = ca_last_key(p, &r, r.len_q - 1);
    const int all_from = ca_first_key(p, &r, r.len_q - 1), all_to = ca_last_key(p, &r, 0);
    const long each = (max(any_to + 1 - any_from, 0) + (long)p->parts * LANES - 1) / ((long)p->parts * LANES) * LANES;
    const int begin = (int)min(any_from + part * each, (long)any_to + 1);
    const int end = (int)min(begin + each, (long)any_to + 1);

    // Rows past the last of a group of ROWS are computed as the last and thrown away.
    FLOATS Q[MOST_ROWS * VECTORS_D], O[MOST_ROWS * VECTORS_DV];
    float w[MOST_ROWS * BLOCK], top[MOST_ROWS], total[MOST_ROWS], shrink[MOST_ROWS];
    for (int x = 0; x < MOST_ROWS; x++) {
        const int row = min(x, rows - 1);
        __global const STORAGE *from = q + ca_at(&p->q, b, kv * p->group + row / r.len_q, r.first_q + row % r.len_q);
        FOR(c, VECTORS_D) Q[x * VECTORS_D + c] = LOAD_LANES(from + c * LANES) * p->scale;
        FOR(c, VECTORS_DV) O[x * VECTORS_DV + c] = 0;
        top[x] = -INFINITY;
        total[x] = 0;
    }
    k += ca_at(&p->k, b, kv, r.first_kv);
    values += ca_at(&p->v, b, kv, r.first_kv);
    const INTS column = CA_LANES(vload)(0, columns);

    for (int j0 = begin; j0 < end; j0 += BLOCK) {
        const int n = min(BLOCK, end - j0);
        const bool judged = MASKED || j0 < all_from || j0 + n - 1 > all_to;
        for (int x0 = 0; x0 < rows; x0 += ROWS) {
            FLOATS S[ROWS][BLOCK / LANES], best[ROWS];
            FOR(x, ROWS) best[x] = -INFINITY;
            for (int g = 0; g * LANES < n; g++) {
                FLOATS s[ROWS];
                const int j = j0 + g * LANES;
                multiply_keys(k + j * p->k.row, p->k.row, n - g * LANES, Q + x0 * VECTORS_D,
                              x0 ? NULL : values + j * p->v.row, p->v.row, s);
                FOR(x, ROWS)
                {
#if SOFTCAP
                    s[x] = p->softcap * tanh(s[x] / p->softcap);
#endif
                    if (judged) {
                        const int row = min(x0 + x, rows - 1), i = row % r.len_q;
#if MASKED
                        const FLOATS add = mask_row(p, keep, bias, b, kv * p->group + row / r.len_q, i, j, end - j);
                        s[x] = add == -INFINITY ? add : s[x] + add;
#endif
                        const INTS key = j + column;
                        s[x] = key < ca_first_key(p, &r, i) || key > ca_last_key(p, &r, i) ? (FLOATS)(-INFINITY) : s[x];
                    }
                    s[x] = j + column < end ? s[x] : (FLOATS)(-INFINITY);
                    S[x][g] = s[x];
                    best[x] = s[x] > best[x] ? s[x] : best[x];
                }
            }
            FOR(x, ROWS)
            {
                const float old = top[x0 + x], most = largest(best[x]), now = most > old ? most : old;
                const float level = now == -INFINITY ? 0.0f : now;
                FLOATS sum = 0;
                for (int g = 0; g * LANES < n; g++) {
                    FLOATS e = EXP(S[x][g] - level);
                    e = S[x][g] == -INFINITY ? (FLOATS)(CA_HIDDEN_WEIGHT) : e;
                    CA_LANES(vstore)(e, g, w + (x0 + x) * BLOCK);
                    sum += e;
                }
                top[x0 + x] = now;
                shrink[x0 + x] = ca_exp_float(old - level);
                total[x0 + x] = total[x0 + x] * shrink[x0 + x] + sum_of(sum);
            }
        }
        for (int x = 0; x < rows; x += judged ? 1 : ROWS) {
            __global const STORAGE *v = values + j0 * p->v.row, *soon = x ? NULL : k + (j0 + BLOCK) * p->k.row;
            FLOATS *o = O + x * VECTORS_DV;
            if (judged)
                multiply_values(true, 1, v, p->v.row, n, w + x * BLOCK, shrink + x, soon, p->k.row, o);
            else
                multiply_values(false, ROWS, v, p->v.row, n, w + x * BLOCK, shrink + x, soon, p->k.row, o);
        }
    }

    for (int x = 0; x < rows; x++) {
        const long row = ((long)b * p->heads_q + kv * p->group + x / r.len_q) * p->len_q + x % r.len_q;
        __global float *to = parts + (row * p->parts + part) * PART;
        FOR(c, VECTORS_DV) CA_LANES(vstore)(O[x * VECTORS_DV + c], c, to);
        to[DV] = top[x];
        to[DV + 1] = total[x];
    }
}

// One work-item a query of a head: the parts, each rescaled to the common maximum, and the sink.
FUNCTION void merge(const int i, const int h, const int b, const ca_params *p, __global const float *restrict parts,
                    __global STORAGE *restrict out, __global float *restrict lse, __global const float *restrict sinks,
                    __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    ca_rows r;
    ca_find_rows(p, rows_q, rows_kv, b, &r);
    const bool padding = i >= r.len_q;
    if (padding && p->packed)
        return;
    const int count = padding ? 0 : p->parts;
    const float sink = p->has_sinks && !padding ? sinks[p->sinks_offset + h] : -INFINITY;
    parts += (((long)b * p->heads_q + h) * p->len_q + i) * p->parts * PART;
    float top = sink;
    for (int s = 0; s < count; s++)
        top = parts[s * PART + DV] > top ? parts[s * PART + DV] : top;
    const float level = top == -INFINITY ? 0.0f : top;
    float total = sink == -INFINITY ? 0.0f : ca_exp_float(sink - level);
    FLOATS a[VECTORS_DV];
    FOR(c, VECTORS_DV) a[c] = 0;
    for (int s = 0; s < count; s++) {
        __global const float *x = parts + s * PART;
        const float shrink = ca_exp_float(x[DV] - level);
        total += x[DV + 1] * shrink;
        FOR(c, VECTORS_DV) a[c] += CA_LANES(vload)(c, x) * shrink;
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    const long at = ca_at(&p->out, b, h, r.first_q + i);
    FOR(c, VECTORS_DV) STORE_LANES(a[c] * inverse, out + at + c * LANES);
    if (p->has_lse)
        lse[ca_at(&p->lse, b, h, r.first_q + i)] = total == 0.0f ? -INFINITY : top + log(total);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split(const ca_params p, __global const STORAGE *restrict q, __global const STORAGE *restrict k,
           __global const STORAGE *restrict values, __global float *restrict parts, __global const uchar *restrict keep,
           __global const BIAS_STORAGE *restrict bias, __global const int *restrict rows_q,
           __global const int *restrict rows_kv)
{
    attend(get_group_id(0), get_group_id(1), get_group_id(2), &p, q, k, values, parts, keep, bias, rows_q, rows_kv);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void split_merge(const ca_params p, __global const float *restrict parts, __global STORAGE *restrict out,
                 __global float *restrict lse, __global const float *restrict sinks,
                 __global const int *restrict rows_q, __global const int *restrict rows_kv)
{
    merge(get_group_id(0), get_group_id(1), get_group_id(2), &p, parts, out, lse, sinks, rows_q, rows_kv);
}
