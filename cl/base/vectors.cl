// cl/base/vectors.cl: float vectors of LANES for kernels whose work-items drive whole ones: rows of tensors, transposes,
// hints. After base/types.cl. Needs: LANES (4, 8 or 16).
#ifndef LANES
#error "LANES must be 4, 8 or 16"
#endif

#define FLOATS CA_LANES(float)
#define INTS CA_LANES(int)
#define PAD(n) (((n) + LANES - 1) / LANES * LANES)
#define WHOLE(n) ((n) / LANES * LANES)
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

// Not inlined: PoCL compiles three copies of a kernel's own body, and a function once for all of them. So a kernel that is
// long is a function and a call. Inlined by force: where a count must be a constant, or accumulators become a loop over memory.
#define FUNCTION __attribute__((noinline)) static
#define INLINE __attribute__((always_inline)) static

// A hint that what `pointer` points to is soon read (0) or written (1), for compilers that know it. The last name is that of
// Intel's CPU runtime, whose target is SPIR; not all compilers for SPIR translate the hint.
#if defined(__x86_64__) || defined(__aarch64__) || defined(__INTEL_LLVM_COMPILER)
#define PREFETCH(pointer, writes) __builtin_prefetch((const void *)(size_t)(pointer), writes)
#else
#define PREFETCH(pointer, writes)
#endif

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

// y[c * step] = column c of LANES x LANES numbers, row by row in x. Fours of a row are read from memory, so that each of four
// vectors has four columns of a quarter of the rows; two rounds of parting even lanes from odd ones sort them by column.
#define CA_FOUR(row) vload4(m, (const float *)(x + (row)))
#if LANES == 16
#define CA_FOURS(row) (float16)(CA_FOUR(row), CA_FOUR((row) + 1), CA_FOUR((row) + 2), CA_FOUR((row) + 3))
#elif LANES == 8
#define CA_FOURS(row) (float8)(CA_FOUR(row), CA_FOUR((row) + 1))
#else
#define CA_FOURS(row) CA_FOUR(row)
#endif
FUNCTION void transpose(const FLOATS x[LANES], FLOATS *y, int step)
{
    FOR(m, LANES / 4)
    {
        FLOATS a[4], b[4];
        FOR(i, 4) a[i] = CA_FOURS(LANES / 4 * i);
        FOR(i, 2)
        {
            b[i].lo = a[2 * i].even;
            b[i].hi = a[2 * i + 1].even;
            b[i + 2].lo = a[2 * i].odd;
            b[i + 2].hi = a[2 * i + 1].odd;
        }
        FOR(i, 2)
        {
            FLOATS even, odd;
            even.lo = b[2 * i].even;
            even.hi = b[2 * i + 1].even;
            odd.lo = b[2 * i].odd;
            odd.hi = b[2 * i + 1].odd;
            y[(4 * m + i) * step] = even;
            y[(4 * m + i + 2) * step] = odd;
        }
    }
}
