/* tests/tools/test_main.c: the program around its commands: version, help, the chosen device.
 * Run by ctest and tests/run.sh. */
#include "support/harness.h"

#include "support/program.h"

#include <stdio.h>
#include <string.h>

#define clattn(...) ct_program(CLATTN_PROGRAM, __VA_ARGS__)

static void version_is_the_librarys(void **state)
{
    (void)state;
    char wanted[64];
    assert_int_equal(clattn("--version"), 0);
    snprintf(wanted, sizeof wanted, "clattn %s\n", clattn_version());
    assert_string_equal(ct_stdout, wanted);
    assert_string_equal(ct_stderr, "");
}

static void version_and_help_stand_alone(void **state)
{
    (void)state;
    assert_int_equal(clattn("--version x"), 2);
    ct_complains("clattn: --version stands alone, and x follows");
    assert_int_equal(clattn("--help run"), 2);
    ct_complains("clattn: --help stands alone, and run follows");
}

static void help_names_every_option_and_gives_an_example(void **state)
{
    (void)state;
    static const char *const run[] = { "--q ",           "--k ",
                                       "--v ",           "--layout ",
                                       "--out ",         "--lse ",
                                       "--weights ",     "--scale ",
                                       "--softcap ",     "--mask ",
                                       "--causal",       "--window ",
                                       "--dtype ",       "--lengths-q ",
                                       "--lengths-kv ",  "--sinks ",
                                       "--device ",      "--kernel ",
                                       "--list-kernels", "--repeat ",
                                       "--json",         "example:\n  clattn run --q" };
    assert_int_equal(clattn("--help"), 0);
    assert_true(strstr(ct_stdout, "probe") && strstr(ct_stdout, "run") && strstr(ct_stdout, "mha"));
    assert_int_equal(clattn("run --help"), 0);
    for (size_t index = 0; index < sizeof run / sizeof run[0]; index++) {
        if (!strstr(ct_stdout, run[index]))
            fail_msg("no %s in %s", run[index], ct_stdout);
    }
    assert_int_equal(clattn("probe --help"), 0);
    assert_non_null(strstr(ct_stdout, "example:\n  clattn probe"));
}

static void a_full_stdout_ends_with_1(void **state)
{
    (void)state;
    assert_int_equal(clattn("--version >/dev/full"), 1);
    ct_complains("cannot write to standard output");
    assert_int_equal(clattn("run --list-kernels >/dev/full"), 1);
    ct_complains("cannot write to standard output: No space left on device");
}

static void the_environment_names_the_device_unless_an_option_does(void **state)
{
    (void)state;
    assert_int_equal(clattn("CLATTN_DEVICE=no-such-device -- probe"), 3);
    assert_non_null(strstr(ct_stdout, "no pick: no device matches `no-such-device`"));
    assert_int_equal(clattn("CLATTN_DEVICE=no-such-device -- probe --device 0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_is_the_librarys),
        cmocka_unit_test(version_and_help_stand_alone),
        cmocka_unit_test(help_names_every_option_and_gives_an_example),
        cmocka_unit_test(a_full_stdout_ends_with_1),
        cmocka_unit_test(the_environment_names_the_device_unless_an_option_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
