/* host/gemm/kernels.h: the arguments that lanes.cl and plain.cl share. Owned by kernels.c; called by lanes.c
 * and plain.c.
 */
#ifndef CA_GEMM_KERNELS_H
#define CA_GEMM_KERNELS_H

#include "gemm/gemm.h"

/* Sets the arguments from 0 on that describe the problem; *next is the index after them. */
clattn_status ca_gemm_set_problem(cl_kernel kernel, const char *name, const ca_gemm_problem *problem,
                                  cl_uint *next);

#endif
