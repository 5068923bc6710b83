/* host/gemm/cut.c: chooses the work-groups of lanes.c. Pure arithmetic. Called by lanes.c. */
#include "gemm/cut.h"

/* Times of a group in tiles: copying B costs so much for each panel, copying A for each row of tiles.
 * Measured on Skylake with AVX-512. */
static const double panel_cost = 3.2, row_cost = 0.25;

/* While the last group runs, the other units are idle for about this part of its time. */
static const double idle_part = 0.5;

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

ca_gemm_cut ca_gemm_choose_cut(size_t batch, size_t m, size_t n, size_t tile_rows, size_t panel_columns,
                               size_t most_panels, size_t units)
{
    const size_t tiles = divide_up(m, tile_rows), all_panels = divide_up(n, panel_columns);
    ca_gemm_cut best = { 1, 1 };
    double best_time = -1;
    for (size_t panels = all_panels < most_panels ? all_panels : most_panels; panels > 0; panels--) {
        const double columns = (double)divide_up(all_panels, panels);
        for (size_t row_tiles = tiles;; row_tiles = divide_up(row_tiles, 2)) {
            const double rows = (double)divide_up(tiles, row_tiles);
            const double group = (double)row_tiles * (double)panels + panel_cost * (double)panels +
                                 row_cost * (double)row_tiles;
            const double all =
                (double)batch * ((double)tiles * (double)all_panels + panel_cost * (double)all_panels * rows +
                                 row_cost * (double)tiles * columns);
            const double shared = (all + idle_part * group * (double)(units - 1)) / (double)units;
            const double time = shared > group ? shared : group;
            if (best_time < 0 || time < best_time) {
                best_time = time;
                best = (ca_gemm_cut){ row_tiles, panels };
            }
            if (row_tiles == 1)
                break;
        }
    }
    return best;
}
