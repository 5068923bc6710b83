/* tests/reference/halves.c: a 16-bit float is sign, exponent, fraction; both formats differ only in how many
 * bits. */
#include "reference/halves.h"

#include <math.h>
#include <stdbool.h>

static uint16_t from(double value, int fraction_bits, int bias)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)((2 * bias + 1) << fraction_bits);
    if (isnan(value))
        return (uint16_t)(sign | infinity | (1 << (fraction_bits - 1)));
    if (isinf(value))
        return sign | infinity;
    int exponent;
    frexp(value, &exponent);
    exponent -= 1; /* value = 1.xxx * 2^exponent */
    if (value == 0 || exponent < 1 - bias)
        exponent = 1 - bias;
    double units = nearbyint(ldexp(fabs(value), fraction_bits - exponent));
    /* units below 2^fraction_bits are subnormal, 2^(fraction_bits + 1) carries into the next exponent by
     * itself. */
    int64_t bits = (int64_t)units + ((int64_t)(exponent + bias - 1) << fraction_bits);
    return bits >= infinity ? sign | infinity : (uint16_t)(sign | bits);
}

static double to(uint16_t bits, int fraction_bits, int bias)
{
    int exponent = (bits & 0x7fff) >> fraction_bits;
    int fraction = bits & ((1 << fraction_bits) - 1);
    double value;
    if (exponent == 2 * bias + 1)
        value = fraction ? (double)NAN : HUGE_VAL;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - bias - fraction_bits);
    else
        value = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -value : value;
}

uint16_t ref_f16_from(double value)
{
    return from(value, 10, 15);
}

uint16_t ref_bf16_from(double value)
{
    return from(value, 7, 127);
}

double ref_f16_to(uint16_t bits)
{
    return to(bits, 10, 15);
}

double ref_bf16_to(uint16_t bits)
{
    return to(bits, 7, 127);
}
