// cl/attention/vectors.cl: what lanes.cl and split.cl share beside base/vectors.cl: e^x, rows of tensors and of masks.
// Needs, beside what that does: TYPE, BIAS, KEEP and SOFTCAP (1: there is one).
#if !defined(KEEP) || !defined(SOFTCAP)
#error "KEEP and SOFTCAP must be defined"
#endif

#define MASKED (KEEP || HAS_BIAS)

// A hint that `count` numbers from `pointer` on are soon read (0) or written (1).
#define PREFETCH_ROW(pointer, count, writes) \
    FOR(line, ((count) * (int)sizeof(STORAGE) + 63) / 64) PREFETCH((size_t)(pointer) + line * 64, writes)

CA_EXP(FLOATS, INTS)
#define EXP CA_PASTE(ca_exp_, FLOATS)

__constant int columns[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

INLINE void store_row(FLOATS y, __global STORAGE *x, int count)
{
    if (count >= LANES)
        STORE_LANES(y, x);
    else
        for (int c = 0; c < count; c++)
            STORE(((float *)&y)[c], x, c);
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
