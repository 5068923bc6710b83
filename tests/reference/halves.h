/* tests/reference/halves.h: binary16 and bfloat16 by arithmetic, not by bit tricks. The harness writes and
 * reads 16-bit tensors with it; the library has its own. */
#ifndef REF_HALVES_H
#define REF_HALVES_H

#include <stdint.h>

/* Nearest value, ties to even; beyond the largest finite value infinity. */
uint16_t ref_f16_from(double value);
uint16_t ref_bf16_from(double value);
double ref_f16_to(uint16_t bits);
double ref_bf16_to(uint16_t bits);

#endif
