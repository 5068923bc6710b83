// tools/bench_peak.cl: what a device can do at most. Run by bench_peak.c.
// Needs: VEC, the widest float vector of one work-item, and CHAINS.

// CHAINS sums a work-item that wait for nothing but themselves: 2 CHAINS flops a lane and round.
kernel void multiply_add(global VEC *out, int rounds, float x, float y)
{
    VEC a[CHAINS], sum = 0;
    for (int c = 0; c < CHAINS; c++)
        a[c] = (VEC)(get_global_id(0) + c);
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            a[c] = fma(a[c], (VEC)x, (VEC)y);
    }
    for (int c = 0; c < CHAINS; c++)
        sum += a[c];
    out[get_global_id(0)] = sum;
}

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
