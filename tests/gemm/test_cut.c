/* tests/gemm/test_cut.c: how a product is divided among compute units. No device. */
#include "support/harness.h"

#include "gemm/cut.h"

#include <stdio.h>

enum { TILE_ROWS = 8, PANEL_COLUMNS = 48, MOST_PANELS = 8 };

static const size_t units[] = { 1, 2, 3, 7, 64 };
static const size_t products[][3] = {
    /* batch, m, n */
    { 1, 1, 1 },       { 1, 512, 768 },  { 1, 512, 2304 },   { 1, 2048, 768 },
    { 1, 2048, 2048 }, { 12, 512, 64 },  { 96, 128, 128 },   { 1, 1, 2304 },
    { 1, 7, 100000 },  { 1, 100000, 7 }, { 1000000, 8, 48 }, { 3, 1000003, 5 },
};

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static void for_each_cut(void (*check)(const size_t product[3], size_t count, ca_gemm_cut cut))
{
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
            check(products[i], units[u],
                  ca_gemm_choose_cut(products[i][0], products[i][1], products[i][2], TILE_ROWS, PANEL_COLUMNS,
                                     MOST_PANELS, units[u]));
}

static void check_limits(const size_t product[3], size_t count, ca_gemm_cut cut)
{
    (void)count;
    assert_in_range(cut.row_tiles, 1, divide_up(product[1], TILE_ROWS));
    assert_in_range(cut.panels, 1, MOST_PANELS);
    assert_in_range(cut.panels, 1, divide_up(product[2], PANEL_COLUMNS));
}

static void groups_are_within_the_product_and_the_kernel(void **state)
{
    (void)state;
    for_each_cut(check_limits);
}

/* Groups go one by one to the unit that is free first: with equal groups, in rounds. */
static void check_busy(const size_t product[3], size_t count, ca_gemm_cut cut)
{
    const size_t tiles = divide_up(product[1], TILE_ROWS), panels = divide_up(product[2], PANEL_COLUMNS);
    const size_t groups = product[0] * divide_up(tiles, cut.row_tiles) * divide_up(panels, cut.panels);
    const double rounds = (double)divide_up(groups, count) * (double)(cut.row_tiles * cut.panels);
    const double ideal = (double)(product[0] * tiles * panels) / (double)count;
    if (ideal >= 16 && rounds > 1.4 * ideal)
        fail_msg("batch %zu m %zu n %zu on %zu units: %zu groups of %zu x %zu tiles take %g, not %g",
                 product[0], product[1], product[2], count, groups, cut.row_tiles, cut.panels, rounds, ideal);
}

static void all_units_are_busy_to_the_end(void **state)
{
    (void)state;
    for_each_cut(check_busy);
}

static void one_unit_copies_least(void **state)
{
    (void)state;
    const ca_gemm_cut cut =
        ca_gemm_choose_cut(1, 64, 8 * PANEL_COLUMNS, TILE_ROWS, PANEL_COLUMNS, MOST_PANELS, 1);
    assert_int_equal(cut.row_tiles, 8);
    assert_int_equal(cut.panels, MOST_PANELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_within_the_product_and_the_kernel),
        cmocka_unit_test(all_units_are_busy_to_the_end),
        cmocka_unit_test(one_unit_copies_least),
    };
    return cmocka_run_group_tests_name("gemm cut", tests, NULL, NULL);
}
