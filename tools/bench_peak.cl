// tools/bench_peak.cl: what a device can do at most. Run by bench_peak.c.
// Needs: SCALAR, float or half, and HALF when it is half; VEC, the widest vector of it within one work-item.
#ifdef HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif

// Twelve sums that wait for nothing but themselves: 24 flops a lane and round; rounds are a multiple of four, so that
// counting them takes no place. Not an array, which some compilers would keep in memory. In two kernels, as fma is an
// instruction on some devices and slow on others, and mad the same or two.
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define BEGIN(n) VEC a##n = (VEC)(SCALAR)(get_global_id(0) + n);
#define ADD(n) sum += a##n;
#define BY_FMA(n) a##n = fma(a##n, factor, term);
#define BY_MAD(n) a##n = mad(a##n, factor, term);

#define MULTIPLY_ADD(name, STEP)                                       \
    kernel void name(global VEC *out, int rounds, float x, float y)    \
    {                                                                  \
        const VEC factor = (VEC)(SCALAR)x, term = (VEC)(SCALAR)y;      \
        VEC sum = (VEC)(SCALAR)0;                                      \
        EACH(BEGIN)                                                    \
        for (int r = 0; r < rounds; r += 4) {                          \
            EACH(STEP) EACH(STEP) EACH(STEP) EACH(STEP)                \
        }                                                              \
        EACH(ADD)                                                      \
        out[get_global_id(0)] = sum;                                   \
    }
MULTIPLY_ADD(by_fma, BY_FMA)
MULTIPLY_ADD(by_mad, BY_MAD)

// Work-item i reads the `count` vectors at i * item_step + j * step, from four places at once, so that more lines are on
// their way than one stream has; count is a multiple of 4.
kernel void read_memory(global VEC *out, global const VEC *in, ulong count, ulong item_step, ulong step)
{
    VEC a = 0, b = 0, c = 0, d = 0;
    const ulong quarter = count / 4 * step;
    in += get_global_id(0) * item_step;
    for (ulong j = 0; j < quarter; j += step) {
        a += in[j];
        b += in[j + quarter];
        c += in[j + 2 * quarter];
        d += in[j + 3 * quarter];
    }
    out[get_global_id(0)] = a + b + c + d;
}
