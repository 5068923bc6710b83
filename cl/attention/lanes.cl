// cl/attention/lanes.cl: fused attention for a CPU: queries in SIMD lanes, keys broadcast. One work-item a group owns
// 16 * VECTORS queries of one head.
//
//        queries ->  16 lanes x VECTORS           maximum, sum, rescale and masks are lane-wise;
//      +------------------------+                 no shuffle but to transpose Q and O
//   q  |  Qt  [D]               |
//      +------------------------+
//   k  |  S   [BLOCK] keys      |  <- 8 keys x VECTORS in registers, K read as it lies and broadcast
//      +------------------------+
//   v  |  Ot  [DV]              |  <- 8 columns x VECTORS in registers, V read as it lies and broadcast
//      +------------------------+
//
// Needs: TYPE, BIAS, D, DV (head sizes), VECTORS, BLOCK (keys per block, a multiple of 8).
#if !defined(D) || !defined(DV) || !defined(VECTORS) || !defined(BLOCK)
#error "D, DV, VECTORS and BLOCK must be defined"
#endif

#define QUERIES (16 * VECTORS)
#define PAD16(n) (((n) + 15) / 16 * 16)
#define DEPTH (D > DV ? D : DV)
#define FOR_VECTORS _Pragma("unroll") for (int v = 0; v < VECTORS; v++)
#define FOR_EIGHT _Pragma("unroll") for (int i = 0; i < 8; i++)

CA_EXP(float16, int16)

// Rows of K and V are read in place when they are f32; other types are converted block by block.
#if CA_IS(TYPE) == CA_IS_F32
#define ROW_SPACE __global const
#define AS_ROWS(tensor, stride, n, columns, scratch) (tensor)
#define ROW_STRIDE(stride, columns) (stride)
#else
#define ROW_SPACE const
#define AS_ROWS(tensor, stride, n, columns, scratch) convert_rows(tensor, stride, n, columns, scratch)
#define ROW_STRIDE(stride, columns) (columns)
static inline const float *convert_rows(__global const STORAGE *x, long stride, int n, int columns, float *scratch)
{
    for (int j = 0; j < n; j++)
        for (int c = 0; c < columns; c++)
            scratch[j * columns + c] = LOAD(x + j * stride, c);
    return scratch;
}
#endif

// 16 x 16, in four rounds of interleaving the first half with the second.
static inline void transpose(float16 t[16])
{
    float16 u[16];
#pragma nounroll
    for (int round = 0; round < 4; round++) {
        float16 *from = round % 2 ? u : t, *to = round % 2 ? t : u;
#pragma nounroll
        for (int i = 0; i < 8; i++) {
            const float16 a = from[i], b = from[i + 8];
            to[2 * i].even = a.lo;
            to[2 * i].odd = b.lo;
            to[2 * i + 1].even = a.hi;
            to[2 * i + 1].odd = b.hi;
        }
    }
}

// Scores of n keys into S, and their lane-wise maximum. Rows past the last key are read as the last key.
static inline void multiply_keys(ROW_SPACE float *k, long stride, int n, const float16 *Qt, float16 *S,
                                 float16 top[VECTORS])
{
    for (int j = 0; j < n; j += 8) {
        ROW_SPACE float *row[8];
        float16 a[8][VECTORS];
        FOR_EIGHT
        {
            row[i] = k + min(j + i, n - 1) * stride;
            FOR_VECTORS a[i][v] = 0;
        }
        for (int d = 0; d < D; d++) {
            float16 q[VECTORS];
            FOR_VECTORS q[v] = Qt[d * VECTORS + v];
            FOR_EIGHT
            {
                const float16 b = (float16)(row[i][d]);
                FOR_VECTORS a[i][v] = fma(b, q[v], a[i][v]);
            }
        }
        FOR_EIGHT
        {
            FOR_VECTORS
            {
                S[(j + i) * VECTORS + v] = a[i][v];
                top[v] = a[i][v] > top[v] ? a[i][v] : top[v];
            }
        }
    }
}

// S = weights, from scores, and their sum, by sixteens so that rounding does not pile up. `hide` gives hidden keys their
// own weight.
static inline void weigh(const bool hide, int n, float16 *S, const float16 top[VECTORS], float16 sum[VECTORS])
{
    for (int j0 = 0; j0 < n; j0 += 16) {
        float16 part[VECTORS];
        FOR_VECTORS part[v] = 0;
        for (int j = j0; j < min(j0 + 16, n); j++) {
            FOR_VECTORS
            {
                const float16 s = S[j * VECTORS + v];
                float16 w = ca_exp_float16(s - top[v]);
                if (hide)
                    w = s == -INFINITY ? (float16)(CA_HIDDEN_WEIGHT) : w;
                S[j * VECTORS + v] = w;
                part[v] += w;
            }
        }
        FOR_VECTORS sum[v] += part[v];
    }
}

// Ot = Ot * shrink + V^T S for `count` columns of V, at most 8.
static inline void multiply_values(const int count, ROW_SPACE float *x, long stride, int n, const float16 *S,
                            const float16 shrink[VECTORS], float16 *Ot)
{
    float16 a[8][VECTORS];
#pragma unroll
    for (int i = 0; i < count; i++)
        FOR_VECTORS a[i][v] = Ot[i * VECTORS + v] * shrink[v];
    for (int j = 0; j < n; j++) {
        float16 w[VECTORS];
        FOR_VECTORS w[v] = S[j * VECTORS + v];
        ROW_SPACE float *row = x + j * stride;
#pragma unroll
        for (int i = 0; i < count; i++) {
            const float16 b = (float16)(row[i]);
            FOR_VECTORS a[i][v] = fma(b, w[v], a[i][v]);
        }
    }
#pragma unroll
    for (int i = 0; i < count; i++)
        FOR_VECTORS Ot[i * VECTORS + v] = a[i][v];
}

// The same, slowly, for a block with hidden keys whose values are not all finite: hidden ones are selected away.
static inline void multiply_values_guarded(ROW_SPACE float *x, long stride, int n, const float16 *S,
                                    const float16 shrink[VECTORS], float16 *Ot)
{
    for (int e = 0; e < DV; e++) {
#pragma nounroll
        for (int v = 0; v < VECTORS; v++) {
            float16 a = Ot[e * VECTORS + v] * shrink[v];
            for (int j = 0; j < n; j++) {
                const float16 w = S[j * VECTORS + v];
                a = as_int16(w) == (int)0x80000000 ? a : fma((float16)(x[j * stride + e]), w, a);
            }
            Ot[e * VECTORS + v] = a;
        }
    }
}

static inline bool all_finite(ROW_SPACE float *x, long stride, int n)
{
    float16 zero = 0;
    float rest = 0;
    for (int j = 0; j < n; j++) {
        ROW_SPACE float *row = x + j * stride;
        for (int e = 0; e + 16 <= DV; e += 16)
            zero += vload16(0, row + e) * 0.0f;
        for (int e = DV / 16 * 16; e < DV; e++)
            rest += row[e] * 0.0f;
    }
    const float8 a = zero.lo + zero.hi;
    const float4 b = a.lo + a.hi;
    return b.s0 + b.s1 + b.s2 + b.s3 + rest == 0;
}

// Softcap, bias and masks over the scores of keys j0 .. j0 + n - 1, and the maximum anew.
static inline void judge_scores(const ca_params *p, __global const uchar *keep, __global const BIAS_STORAGE *bias,
                                int b, int h, int first, int rows, int j0, int n, const int16 from[VECTORS],
                                const int16 to[VECTORS], float16 *S, float16 top[VECTORS])
{
    if (p->softcap != 0)
        for (int x = 0; x < n * VECTORS; x++)
            S[x] = p->softcap * tanh(S[x] / p->softcap);
    float *s = (float *)S;
#if HAS_BIAS
    for (int i = 0; i < rows; i++) {
        __global const BIAS_STORAGE *row = bias + ca_at(&p->bias, b, h, first + i) + j0 * p->bias_column;
        for (int j = 0; j < n; j++) {
            const float add = LOAD_BIAS(row, j * p->bias_column);
            s[j * QUERIES + i] = add == -INFINITY ? -INFINITY : s[j * QUERIES + i] + add;
        }
    }
#endif
    if (p->has_keep)
        for (int i = 0; i < rows; i++) {
            __global const uchar *row = keep + ca_at(&p->keep, b, h, first + i) + j0 * p->keep_column;
            for (int j = 0; j < n; j++)
                s[j * QUERIES + i] = row[j * p->keep_column] ? s[j * QUERIES + i] : -INFINITY;
        }
    for (int j = 0; j < n; j++)
        FOR_VECTORS
        {
            float16 x = S[j * VECTORS + v];
            x = from[v] > j0 + j || to[v] < j0 + j ? (float16)(-INFINITY) : x;
            S[j * VECTORS + v] = x;
            top[v] = x > top[v] ? x : top[v];
        }
}

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

    float16 Qt[PAD16(D) * VECTORS], S[BLOCK * VECTORS], Ot[PAD16(DV) * VECTORS];
#if CA_IS(TYPE) != CA_IS_F32
    float scratch[BLOCK * DEPTH];
#endif

    int16 from[VECTORS], to[VECTORS];
#pragma nounroll
    for (int v = 0; v < VECTORS; v++)
    {
        for (int d = 0; d < PAD16(D); d += 16) {
            float16 t[16];
            for (int i = 0; i < 16; i++) {
                __global const STORAGE *row = q + ca_at(&p.q, b, h, r.first_q + first + min(v * 16 + i, rows - 1)) + d;
                float *lane = (float *)&t[i];
                for (int c = 0; c < 16; c++)
                    lane[c] = d + c < D ? LOAD(row, c) * p.scale : 0;
            }
            transpose(t);
            for (int c = 0; c < 16; c++)
                Qt[(d + c) * VECTORS + v] = t[c];
        }
        for (int i = 0; i < 16; i++) {
            const int row = first + min(v * 16 + i, rows - 1);
            ((int *)&from[v])[i] = ca_first_key(&p, &r, row);
            ((int *)&to[v])[i] = ca_last_key(&p, &r, row);
        }
    }
    const int last = first + rows - 1;
    const int all_from = ca_first_key(&p, &r, last), all_to = ca_last_key(&p, &r, first);
    const int any_from = ca_first_key(&p, &r, first), any_to = ca_last_key(&p, &r, last);

    for (int e = 0; e < DV * VECTORS; e++)
        Ot[e] = 0;
    const float sink = p.has_sinks ? sinks[p.sinks_offset + h] : -INFINITY;
    float16 top[VECTORS], total[VECTORS];
    FOR_VECTORS
    {
        top[v] = sink;
        total[v] = sink == -INFINITY ? 0.0f : 1.0f;
    }
    k += ca_at(&p.k, b, h / p.group, r.first_kv);
    values += ca_at(&p.v, b, h / p.group, r.first_kv);

    for (int j0 = any_from; j0 <= any_to; j0 += BLOCK) {
        const int n = min(BLOCK, any_to + 1 - j0);
        const bool judged = p.has_keep || HAS_BIAS || p.softcap != 0 || j0 < all_from || j0 + n - 1 > all_to;
        float16 old[VECTORS], shrink[VECTORS], sum[VECTORS], level[VECTORS];
        FOR_VECTORS old[v] = top[v];
        multiply_keys(AS_ROWS(k + j0 * p.k.row, p.k.row, n, D, scratch), ROW_STRIDE(p.k.row, D), n, Qt, S, top);
        if (judged) {
            FOR_VECTORS top[v] = old[v];
            judge_scores(&p, keep, bias, b, h, first, rows, j0, n, from, to, S, top);
        }
        FOR_VECTORS
        {
            level[v] = top[v] == -INFINITY ? (float16)(0.0f) : top[v];
            shrink[v] = ca_exp_float16(old[v] - level[v]);
            sum[v] = 0;
        }
        if (judged)
            weigh(true, n, S, level, sum);
        else
            weigh(false, n, S, level, sum);
        FOR_VECTORS total[v] = total[v] * shrink[v] + sum[v];

        ROW_SPACE float *x = AS_ROWS(values + j0 * p.v.row, p.v.row, n, DV, scratch);
        const long stride = ROW_STRIDE(p.v.row, DV);
        if (judged && !all_finite(x, stride, n)) {
            multiply_values_guarded(x, stride, n, S, shrink, Ot);
        } else {
            for (int e = 0; e + 8 <= DV; e += 8)
                multiply_values(8, x + e, stride, n, S, shrink, Ot + e * VECTORS);
#if DV % 8
            multiply_values(DV % 8, x + DV / 8 * 8, stride, n, S, shrink, Ot + DV / 8 * 8 * VECTORS);
#endif
        }
    }

#pragma nounroll
    for (int v = 0; v < VECTORS; v++)
    {
        const float16 inverse = total[v] == 0.0f ? (float16)(0.0f) : 1.0f / total[v];
        for (int e = 0; e < DV; e += 16) {
            float16 t[16];
            for (int c = 0; c < 16; c++)
                t[c] = Ot[(e + c) * VECTORS + v] * inverse;
            transpose(t);
            for (int i = 0; i < min(16, rows - v * 16); i++) {
                const long at = ca_at(&p.out, b, h, r.first_q + first + v * 16 + i) + e;
                for (int c = 0; c < min(16, DV - e); c++)
                    STORE(((float *)&t[i])[c], out, at + c);
            }
        }
        if (p.has_lse) {
            const float16 x = total[v] == 0.0f ? (float16)(-INFINITY) : top[v] + log(total[v]);
            for (int i = 0; i < min(16, rows - v * 16); i++)
                lse[ca_at(&p.lse, b, h, r.first_q + first + v * 16 + i)] = ((float *)&x)[i];
        }
    }
}
