/* tests/support/compare.c: owns the tolerance table. Nothing else loosens or tightens a comparison. */
#include "support/compare.h"

#include <math.h>

/* An element may differ by atol + rtol * |want|, and the mean squared error relative to the signal by mse.
 * f16 and bf16: rounding the output alone costs half a unit in the last place, 2^-11 and 2^-8 of the value;
 * twice that is allowed. Their atol is twice half the smallest step (f16), or f32's. */
typedef struct tolerance {
    double rtol, atol, mse;
} tolerance;

static const struct {
    tolerance warn, fail;
} TABLE[] = {
    [CT_F32] = { { 5e-6, 5e-7, 5e-13 }, { 1e-5, 1e-6, 1e-12 } },
    [CT_F16] = { { 0x1.8p-11, 1e-6, 5e-7 }, { 0x1p-10, 1e-6, 1e-6 } },
    [CT_BF16] = { { 0x1.8p-8, 1e-6, 3.2e-5 }, { 0x1p-7, 1e-6, 6.4e-5 } },
};

static const char *const type_names[] = { [CT_F32] = "f32", [CT_F16] = "f16", [CT_BF16] = "bf16" };

enum { TYPES = sizeof TABLE / sizeof TABLE[0], FEWEST_FOR_MEAN = 256 };

/* Of all comparisons so far: absolute error, share of what is allowed, relative mean squared error. */
static struct {
    double error, excess, mse;
} largest[TYPES];

ct_difference ct_compare(const ct_array *got, const double *want)
{
    const tolerance *warn = &TABLE[got->type].warn;
    const tolerance *fail = &TABLE[got->type].fail;
    ct_difference difference = { .elements = ct_array_elements(got), .worst = -1 };
    double error_sum = 0;
    double signal_sum = 0;
    int64_t index = 0;
    for (int64_t b = 0; b < got->extent[0]; b++)
        for (int64_t h = 0; h < got->extent[1]; h++)
            for (int64_t r = 0; r < got->extent[2]; r++)
                for (int64_t c = 0; c < got->extent[3]; c++, index++) {
                    double g = ct_array_get(got, b, h, r, c);
                    double w = want[index];
                    double excess = 0;
                    if (isfinite(g) && isfinite(w)) {
                        double error = fabs(g - w);
                        excess = error / (fail->atol + fail->rtol * fabs(w));
                        if (error > warn->atol + warn->rtol * fabs(w))
                            difference.warns = true;
                        if (error > difference.max_error)
                            difference.max_error = error;
                        error_sum += error * error;
                        signal_sum += w * w;
                    } else if (isnan(w) ? !isnan(g) : g != w) {
                        excess = HUGE_VAL;
                    }
                    if (excess > difference.excess) {
                        difference.excess = excess;
                        difference.worst = index;
                        difference.got = g;
                        difference.want = w;
                    }
                }
    if (signal_sum > 0)
        difference.mse = error_sum / signal_sum;
    if (index >= FEWEST_FOR_MEAN && signal_sum > fail->atol * fail->atol * (double)index) {
        difference.mse_excess = difference.mse / fail->mse;
        if (difference.mse > warn->mse)
            difference.warns = true;
    }
    return difference;
}

bool ct_same(const ct_difference *difference)
{
    return difference->excess <= 1 && difference->mse_excess <= 1;
}

bool ct_close(double got, double want)
{
    const tolerance *fail = &TABLE[CT_F32].fail;
    return fabs(got - want) <= fail->atol + fail->rtol * fabs(want);
}

void ct_expect(const ct_array *got, const double *want, const char *name)
{
    ct_difference d = ct_compare(got, want);
    if (d.excess > 1) {
        int64_t at[4];
        int64_t rest = d.worst;
        for (int axis = 3; axis >= 0; axis--) {
            at[axis] = rest % got->extent[axis];
            rest /= got->extent[axis];
        }
        ct_fail("%s[%lld, %lld, %lld, %lld] is %.9g instead of %.9g, %.3g times the error allowed", name,
                (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3], d.got, d.want,
                d.excess);
    }
    if (d.mse_excess > 1)
        ct_fail("%s: mean squared error %.3g of the signal, %.3g times what is allowed", name, d.mse,
                d.mse_excess);
    largest[got->type].error = fmax(largest[got->type].error, d.max_error);
    largest[got->type].excess = fmax(largest[got->type].excess, d.excess);
    if (d.mse_excess > 0)
        largest[got->type].mse = fmax(largest[got->type].mse, d.mse);
    if (d.warns)
        print_message("[   WARN   ] %s: largest error %.3g, relative mean squared error %.3g: %s\n", name,
                      d.max_error, d.mse, ct_subject_text());
}

void ct_print_largest_errors(void)
{
    for (int type = CT_F32; type < TYPES; type++)
        if (largest[type].error > 0)
            print_message(
                "[   INFO   ] %s: largest error %.2g, at most %.2g of what is allowed; relative mean "
                "squared error %.2g\n",
                type_names[type], largest[type].error, largest[type].excess, largest[type].mse);
}
