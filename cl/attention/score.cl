// cl/attention/score.cl: from a scaled dot product to a score: softcap, bias, keep mask, in that order. BIAS names the
// type of the float mask, NONE where there is none.
#ifndef BIAS
#error "BIAS must be NONE, F32, F16 or BF16"
#endif

#define CA_STORAGE_NONE float
#define CA_LOAD_NONE(pointer, index) 0.0f
#define CA_LOAD_LANES_NONE(pointer) 0.0f
#define CA_IS_NONE 0
#define BIAS_STORAGE CA_PASTE(CA_STORAGE_, BIAS)
#define LOAD_BIAS CA_PASTE(CA_LOAD_, BIAS)
#define LOAD_LANES_BIAS CA_PASTE(CA_LOAD_LANES_, BIAS)
#define HAS_BIAS (CA_IS(BIAS) != CA_IS_NONE)

#define CA_LOG2E 1.44269504f

// e^x for x <= 0; exactly 0 from -87.7 on down; NaN stays NaN. x log2(e) + 1.5 * 2^23 + 127 rounds to an integer and leaves its
// biased exponent in the low bits; a polynomial of degree 5 does the fraction. Scores stay in their own units until the
// maximum is subtracted, so that a finite score stays finite. FLOATS and INTS are float and int, or vectors of them.
#define CA_EXP(FLOATS, INTS)                                                                                 \
    static inline FLOATS CA_PASTE(ca_exp_, FLOATS)(FLOATS x)                                                 \
    {                                                                                                        \
        x = x < -88.0f ? (FLOATS)(-88.0f) : x;                                                               \
        const FLOATS t = fma(x, (FLOATS)(CA_LOG2E), (FLOATS)(12583039.0f));                                  \
        const FLOATS f = fma(x, (FLOATS)(CA_LOG2E), 12583039.0f - t);                                        \
        FLOATS y = (FLOATS)(1.33390443e-3f);                                                                 \
        y = fma(y, f, (FLOATS)(9.67017683e-3f));                                                             \
        y = fma(y, f, (FLOATS)(5.55034434e-2f));                                                             \
        y = fma(y, f, (FLOATS)(2.40222207e-1f));                                                             \
        y = fma(y, f, (FLOATS)(6.93147182e-1f));                                                             \
        y = fma(y, f, (FLOATS)(1.0f));                                                                       \
        return y * CA_PASTE(as_, FLOATS)(CA_PASTE(as_, INTS)(t) << 23);                                      \
    }
CA_EXP(float, int)

// A hidden key has score -inf and weight -0.0, which tells it from a visible key whose weight rounds to 0.
#define CA_HIDDEN_WEIGHT (-0.0f)
static inline bool ca_is_hidden(float weight)
{
    return as_uint(weight) == 0x80000000u;
}

// The score of query (b, h, i) and key j, from its dot product times scale; -inf when it is hidden. The caller
// has judged the interval of rows.cl.
static inline float ca_score(const ca_params *p, __global const uchar *keep, __global const BIAS_STORAGE *bias, int b,
                             int h, int i, int j, float s)
{
    if (p->softcap != 0)
        s = p->softcap * tanh(s / p->softcap);
#if HAS_BIAS
    const float add = LOAD_BIAS(bias, ca_at(&p->bias, b, h, i) + j * p->bias_column);
    s = add == -INFINITY ? -INFINITY : s + add;
#endif
    if (p->has_keep && !keep[ca_at(&p->keep, b, h, i) + j * p->keep_column])
        s = -INFINITY;
    return s;
}
