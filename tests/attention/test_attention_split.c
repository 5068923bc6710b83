/* How keys are cut into parts for the compute units of a device: host/attention/split.h. What the parts come
 * to is judged with every other row of the table. */
#include "support/harness.h"

#include "attention/split.h"

static const cl_uint units[] = { 1, 2, 3, 7, 64 };
enum { UNITS = sizeof units / sizeof *units };

static void gives_every_unit_work_when_there_are_keys(void **state)
{
    (void)state;
    for (int u = 0; u < UNITS; u++)
        for (int64_t heads = 1; heads <= 100; heads++)
            assert_true(heads * ca_split_parts(units[u], heads, 1 << 20) >= units[u]);
}

static void cuts_no_more_than_it_has_room_for(void **state)
{
    (void)state;
    for (int u = 0; u < UNITS; u++)
        for (int64_t heads = 1; heads <= 300; heads++)
            assert_true(heads * ca_split_parts(units[u], heads, 1 << 20) < heads + 8 * (int64_t)units[u]);
}

static void leaves_few_keys_whole(void **state)
{
    (void)state;
    for (int u = 0; u < UNITS; u++)
        for (int64_t keys = 0; keys < 256; keys++)
            assert_int_equal(ca_split_parts(units[u], 1, keys), 1);
}

static void cuts_no_part_below_its_least_size(void **state)
{
    (void)state;
    for (int u = 0; u < UNITS; u++)
        for (int64_t keys = 256; keys < 20000; keys += 77)
            assert_true(keys / ca_split_parts(units[u], 1, keys) >= 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_unit_work_when_there_are_keys),
        cmocka_unit_test(cuts_no_more_than_it_has_room_for),
        cmocka_unit_test(leaves_few_keys_whole),
        cmocka_unit_test(cuts_no_part_below_its_least_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
