/* host/gemm/row.h: what a way to multiply provides. gemm.c holds the table of rows and is the only caller. A
 * new way is one file, one line here and one line in the table. */
#ifndef CA_GEMM_ROW_H
#define CA_GEMM_ROW_H

#include "gemm/gemm.h"

typedef struct ca_gemm_row {
    const char *name;
    bool reads_all;                                       /* storage types of A and B; f32 alone otherwise */
    const char *(*refuse)(const clattn_context *context); /* NULL: it works on this device; static text */
    clattn_status (*create)(clattn_context *context, clattn_dtype a, clattn_dtype b, void **state);
    clattn_status (*enqueue)(void *state, cl_command_queue queue, const ca_gemm_problem *problem);
    void (*destroy)(void *state); /* NULL is allowed */
} ca_gemm_row;

/* gemm.c hands over checked problems with batch, m and n above 0. */
extern const ca_gemm_row ca_gemm_row_lanes;
extern const ca_gemm_row ca_gemm_row_clblast;
extern const ca_gemm_row ca_gemm_row_plain;

#endif
