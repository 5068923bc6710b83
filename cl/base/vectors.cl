// cl/base/vectors.cl: float vectors of LANES for kernels whose work-items drive whole ones: rows of tensors, transposes,
// hints. After base/types.cl. Needs: LANES (4, 8 or 16).
#ifndef LANES
#error "LANES must be 4, 8 or 16"
#endif

#define FLOATS CA_LANES(float)
#define INTS CA_LANES(int)
#define PAD(n) (((n) + LANES - 1) / LANES * LANES)
#define FOR(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

// Not inlined: PoCL makes several copies of a kernel, and these are compiled once for all of them.
#define FUNCTION __attribute__((noinline)) static

// A hint that what `pointer` points to is soon read (0) or written (1), for compilers that know it.
#if defined(__x86_64__) || defined(__aarch64__)
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
