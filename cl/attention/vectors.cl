// cl/attention/vectors.cl: float vectors of LANES for lanes.cl and split.cl: e^x, rows of tensors and of masks, transposes.
// Needs: TYPE, BIAS, LANES (4, 8 or 16), KEEP and SOFTCAP (1: there is one).
#if !defined(LANES) || !defined(KEEP) || !defined(SOFTCAP)
#error "LANES, KEEP and SOFTCAP must be defined"
#endif

#define FLOATS CA_LANES(float)
#define INTS CA_LANES(int)
#define PAD(n) (((n) + LANES - 1) / LANES * LANES)
#define MASKED (KEEP || HAS_BIAS)
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

// Not inlined: PoCL makes several copies of a kernel, and these are compiled once for all of them.
#define FUNCTION __attribute__((noinline)) static

// A hint that `count` numbers from `pointer` on are needed soon, for compilers that know it.
#if defined(__x86_64__) || defined(__aarch64__)
#define PREFETCH(pointer, count)                                                              \
    FOR(line, ((count) * (int)sizeof(STORAGE) + 63) / 64)                                     \
    __builtin_prefetch((const void *)((size_t)(pointer) + line * 64))
#else
#define PREFETCH(pointer, count)
#endif

CA_EXP(FLOATS, INTS)
#define EXP CA_PASTE(ca_exp_, FLOATS)

__constant int columns[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

// `count` numbers of a row, LANES at most; 0 behind them.
#define LOAD_ROW(name, storage, load_lanes, load)                    \
    static inline FLOATS name(__global const storage *x, int count)  \
    {                                                                \
        FLOATS y = 0;                                                \
        if (count >= LANES)                                          \
            return load_lanes(x);                                    \
        for (int c = 0; c < count; c++)                              \
            ((float *)&y)[c] = load(x, c);                           \
        return y;                                                    \
    }
LOAD_ROW(load_row, STORAGE, LOAD_LANES, LOAD)

FUNCTION void store_row(FLOATS y, __global STORAGE *x, int count)
{
    if (count >= LANES)
        STORE_LANES(y, x);
    else
        for (int c = 0; c < count; c++)
            STORE(((float *)&y)[c], x, c);
}

// LANES x LANES, in rounds of interleaving the first half with the second.
FUNCTION void transpose(FLOATS t[LANES])
{
    FOR(round, LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
    {
        FLOATS u[LANES];
        FOR(i, LANES / 2)
        {
            u[2 * i].even = t[i].lo;
            u[2 * i].odd = t[i + LANES / 2].lo;
            u[2 * i + 1].even = t[i].hi;
            u[2 * i + 1].odd = t[i + LANES / 2].hi;
        }
        FOR(i, LANES) t[i] = u[i];
    }
}

#if MASKED
#if HAS_BIAS
LOAD_ROW(load_bias, BIAS_STORAGE, LOAD_LANES_BIAS, LOAD_BIAS)
#endif

// What the masks add for query row i and `count` keys from j on: the bias, and -inf for a key that is not kept.
FUNCTION FLOATS mask_row(const ca_params *p, __global const uchar *keep, __global const BIAS_STORAGE *bias, int b,
                              int h, int i, int j, int count)
{
    FLOATS add = 0;
#if HAS_BIAS
    __global const BIAS_STORAGE *x = bias + ca_at(&p->bias, b, h, i) + j * p->bias_column;
    add = p->bias_column ? load_bias(x, count) : (FLOATS)(LOAD_BIAS(x, 0));
#endif
#if KEEP
    __global const uchar *y = keep + ca_at(&p->keep, b, h, i) + j * p->keep_column;
    if (p->keep_column && count >= LANES)
        add = CA_LANES(convert_int)(CA_LANES(vload)(0, y)) == 0 ? (FLOATS)(-INFINITY) : add;
    else
        for (int c = 0; c < min(count, LANES); c++)
            ((float *)&add)[c] = y[c * p->keep_column] ? ((float *)&add)[c] : -INFINITY;
#endif
    return add;
}
#endif
