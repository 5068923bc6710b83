/* host/gemm/cut.h: how lanes.c divides a product among the compute units. Owned by cut.c. */
#ifndef CA_GEMM_CUT_H
#define CA_GEMM_CUT_H

#include <stddef.h>

/* A tile is what cl/gemm/lanes.cl holds in registers: `tile_rows` by a panel of `panel_columns`. A work-group
 * takes `row_tiles` by `panels` of them, at most `most_panels` wide. */
typedef struct ca_gemm_cut {
    size_t row_tiles, panels;
} ca_gemm_cut;

/* The cut of `batch` products of m x n, all at least 1, that takes the least time on `units`. */
ca_gemm_cut ca_gemm_choose_cut(size_t batch, size_t m, size_t n, size_t tile_rows, size_t panel_columns,
                               size_t most_panels, size_t units);

#endif
