/* tests/tools/test_bench.c: the program's bench on tiny shapes, driven from outside: counts, files,
 * comparison, complaints. No time is a condition. Run by ctest and tests/run.sh. */
#define _XOPEN_SOURCE 700

#include "support/harness.h"

#include "support/program.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define clattn(...) ct_program(CLATTN_PROGRAM, __VA_ARGS__)
#define QUICK "bench --seconds 0.01 --no-first-call "

enum { B = 2, HQ = 4, HK = 2, LQ = 5, LK = 7, D = 8, DV = 6 };
static const char shape[] = "b=2 hq=4 hkv=2 lq=5 lk=7 d=8 dv=6";

static cJSON *read_json(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    cJSON *object = cJSON_ParseWithOpts(text, NULL, true);
    assert_non_null(object);
    return object;
}

static void write_json(const char *path, const cJSON *object)
{
    FILE *file = fopen(path, "wb");
    char *text = cJSON_Print(object);
    assert_non_null(file);
    assert_non_null(text);
    fputs(text, file);
    fclose(file);
    cJSON_free(text);
}

/* "cases.0.seconds.median"; NULL where there is none. */
static cJSON *find(cJSON *object, const char *path)
{
    char name[64];
    while (object && *path) {
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        object = cJSON_IsArray(object) ? cJSON_GetArrayItem(object, atoi(name))
                                       : cJSON_GetObjectItemCaseSensitive(object, name);
        path += length + (path[length] == '.');
    }
    return object;
}

static double number(cJSON *object, const char *path)
{
    const cJSON *item = find(object, path);
    if (!cJSON_IsNumber(item))
        fail_msg("no number %s", path);
    return item->valuedouble;
}

static const char *text(cJSON *object, const char *path)
{
    const cJSON *item = find(object, path);
    if (!cJSON_IsString(item))
        fail_msg("no text %s", path);
    return item->valuestring;
}

static void set(cJSON *object, const char *path, double value)
{
    cJSON_SetNumberValue(find(object, path), value);
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-4 * fabs(want)))
        fail_msg("%.9g, not %.9g", got, want);
}

/* What the other tests look at. */
static int run_once(void **state)
{
    if (ct_setup(state) != 0)
        return 1;
    if (clattn(QUICK "--shape '%s causal' --dtype all --json one.json --csv one.csv --plot one.svg", shape) ==
        0)
        return 0;
    print_error("%s", ct_stderr);
    return 1;
}

/* ---- Usage --------------------------------------------------------------------------------------------- */

static void help_names_every_option_and_gives_an_example(void **state)
{
    (void)state;
    static const char *const wanted[] = { "--workload ",   "--shape ",        "--dtype ",
                                          "--device ",     "--kernel ",       "--seconds ",
                                          "--tolerance ",  "--no-first-call", "--json ",
                                          "--csv ",        "--plot ",         "--compare ",
                                          "--fail-slower", "%peak",           "example:\n  clattn bench" };
    assert_int_equal(clattn("bench --help"), 0);
    for (size_t index = 0; index < sizeof wanted / sizeof wanted[0]; index++) {
        if (!strstr(ct_stdout, wanted[index]))
            fail_msg("no %s in %s", wanted[index], ct_stdout);
    }
}

static void wrong_usage_ends_with_2_and_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "--workload base-51", "--workload base-51: unknown; the nearest is base-512" },
        { "--workload vit,,vit", "--workload : unknown" },
        { "--kernel lane", "--kernel lane: unknown; the nearest is lanes" },
        { "--seconds 0", "--seconds 0: more than 0 is wanted" },
        { "--tolerance -1", "--tolerance -1: at least 0 is wanted" },
        { "--fail-slower 5%", "--fail-slower needs --compare" },
        { "--compare o.json --fail-slower 5", "--fail-slower 5: a share such as 5% is wanted" },
        { "--compare o.json --fail-slower=-5%", "--fail-slower -5%: a share such as 5% is wanted" },
        { "--compare o.json --fail-slower nan%", "a share such as 5% is wanted" },
        { "--shape 'd=8'", "--shape: lq= is missing" },
        { "--shape 'lq=5'", "--shape: d= is missing" },
        { "--shape 'lq=5 d=0'", "--shape: d=0: a whole number from 1 to 2147483647 is wanted" },
        { "--shape 'lq=5 d=8x'", "--shape: d=8x: a whole number is wanted" },
        { "--shape 'lq=5 d=99999999999'", "--shape: d=99999999999: a whole number from 1" },
        { "--shape 'lq=5 d=8 e=3'", "--shape: e=3: one of b= hq=" },
        { "--shape 'lq=5 d=8 causal=left'", "--shape: causal=left: one of b=" },
        { "--shape 'lq=5 d=8 window=1'", "--shape: window=1: window=LEFT,RIGHT is wanted" },
        { "--shape 'lq=5 d=8 window=1,2,3'", "--shape: window=1,2,3: window=LEFT,RIGHT is wanted" },
        { "--shape 'lq=5 d=8 window=-2,1'", "--shape: window=-2,1: a whole number from -1" },
        { "--shape 'hq=3 hkv=2 lq=5 d=8'", "--shape: hq=3 is not a multiple of hkv=2" },
        { "--shape 'module lq=5 lk=6 d=8'", "--shape: a module has neither hkv, lk, dv nor window" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn("bench %s", cases[index].arguments) != 2)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains("clattn bench: ", cases[index].part);
    }
}

static void what_cannot_be_is_said_before_the_work(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "--device no-such-device", "no-such-device" },
        { "--json no-such-folder/a.json", "no-such-folder" },
        { "--json one.json --compare one.json", "an output must not replace the input one.json" },
        { "--compare absent.json", "absent.json: No such file or directory" },
        { "--compare one.csv", "one.csv: not a JSON of clattn bench" },
        { "--shape 'b=2147483647 hq=65536 lq=65536 d=64'", "the device's largest buffer has" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn(QUICK "%s >program.table", cases[index].arguments) != 1)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains("clattn bench: ", cases[index].part);
    }
}

/* ---- Results ------------------------------------------------------------------------------------------- */

static void json_tells_what_ran_and_where(void **state)
{
    (void)state;
    const clattn_device_info *device = clattn_context_device(ct_context());
    cJSON *object = read_json("one.json");
    assert_string_equal(text(object, "format"), "clattn-bench");
    assert_true(number(object, "schema") == 1);
    assert_string_equal(text(object, "clattn"), clattn_version());
    assert_string_equal(text(object, "device.name"), device->name);
    assert_string_equal(text(object, "device.driver"), device->driver);
    assert_true(number(object, "options.seconds") == 0.01);
    assert_int_equal(cJSON_GetArraySize(find(object, "cases")), 3);
    assert_string_equal(text(object, "cases.0.name"), "shape");
    assert_string_equal(text(object, "cases.0.shape"),
                        "b=2 hq=4 hkv=2 lq=5 lk=7 d=8 dv=6 causal=bottom-right");
    assert_string_equal(text(object, "cases.0.dtype"), "f32");
    assert_string_equal(text(object, "cases.1.dtype"), "f16");
    assert_string_equal(text(object, "cases.2.dtype"), "bf16");
    assert_string_equal(text(object, "cases.0.verdict"), "timed");
    assert_true(cJSON_IsNull(find(object, "cases.0.asked")));
    assert_true(*text(object, "cases.0.kernel"));
    assert_true(number(object, "cases.0.check.rows") == B * HQ * LQ);
    assert_true(number(object, "cases.0.check.largest_difference") < 1e-5);
    assert_true(cJSON_IsNull(find(object, "cases.0.first_call_s.cold")));
    cJSON_Delete(object);
}

static void rates_follow_from_pairs_and_times(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json");
    double pairs = 0;
    for (int i = 0; i < LQ; i++)
        for (int j = 0; j < LK; j++)
            pairs += j <= i + LK - LQ;
    pairs *= B * HQ;
    double bytes = (B * HQ * LQ + B * HK * LK) * (D + DV), flops = pairs * 2 * (D + DV);
    for (int index = 0; index < 3; index++) {
        cJSON *one = cJSON_GetArrayItem(find(object, "cases"), index);
        double median = number(one, "seconds.median");
        assert_true(number(one, "visible_pairs") == pairs);
        assert_true(number(one, "flops") == flops);
        assert_true(number(one, "bytes") == bytes * (index == 0 ? 4 : 2));
        assert_near(number(one, "gflops") * 1e9 * median, flops);
        assert_near(number(one, "gbs") * 1e9 * median, number(one, "bytes"));
        assert_near(number(one, "share_of_peak") * number(one, "peak_gflops.median"), number(one, "gflops"));
        assert_near(number(one, "share_of_read") * number(one, "read_gbs.median"), number(one, "gbs"));
        assert_string_equal(text(one, "bound_by"),
                            number(one, "share_of_read") > number(one, "share_of_peak") ? "read" : "fma");
    }
    assert_true(number(object, "peak_gflops.median") > 0 && number(object, "read_gbs.median") > 0);
    cJSON_Delete(object);
}

static void spread_is_that_of_the_samples(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json"), *seconds = find(object, "cases.0.seconds"), *sample;
    double median = number(seconds, "median"), p10 = number(seconds, "p10"), p90 = number(seconds, "p90");
    int count = cJSON_GetArraySize(find(seconds, "samples")), below = 0, fast = 0, slow = 0;
    assert_true(count >= 3);
    cJSON_ArrayForEach(sample, find(seconds, "samples"))
    {
        below += sample->valuedouble < median;
        fast += sample->valuedouble < p10;
        slow += sample->valuedouble > p90;
    }
    assert_true(2 * below <= count && 10 * fast <= count + 10 && 10 * slow <= count + 10);
    assert_true(p10 <= median && median <= p90);
    assert_near(number(seconds, "noise") * 2 * median, p90 - p10);
    cJSON_Delete(object);
}

static void alignment_and_window_decide_the_pairs(void **state)
{
    (void)state;
    assert_int_equal(clattn(QUICK "--shape '%s causal=top-left window=1,-1' --json w.json", shape), 0);
    cJSON *object = read_json("w.json");
    assert_string_equal(text(object, "cases.0.shape"),
                        "b=2 hq=4 hkv=2 lq=5 lk=7 d=8 dv=6 causal=top-left window=1,-1");
    assert_true(number(object, "cases.0.visible_pairs") == B * HQ * (1 + 4 * 2));
    cJSON_Delete(object);
}

static void a_module_counts_its_projections(void **state)
{
    (void)state;
    enum { BATCH = 2, HEADS = 2, LEN = 3, SIZE = 3, WIDTH = HEADS * SIZE, ROWS = BATCH * LEN };
    assert_int_equal(clattn(QUICK "--shape 'module b=2 hq=2 lq=3 d=3' --json m.json"), 0);
    cJSON *object = read_json("m.json");
    assert_string_equal(text(object, "cases.0.shape"), "module b=2 hq=2 lq=3 d=3");
    assert_true(number(object, "cases.0.check.rows") == ROWS);
    assert_true(*text(object, "cases.0.gemm"));
    assert_true(number(object, "cases.0.flops") == ROWS * (8 * WIDTH * WIDTH + 4 * SIZE * HEADS * LEN));
    assert_true(number(object, "cases.0.bytes") == 4 * (2 * ROWS * WIDTH + 4 * WIDTH * (WIDTH + 1)));
    cJSON_Delete(object);
}

static void csv_has_the_same_numbers(void **state)
{
    (void)state;
    char line[2048], *names[64], *values[64];
    cJSON *object = read_json("one.json");
    FILE *file = fopen("one.csv", "rb");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    size_t columns = 0, fields = 0;
    static char head[2048];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(line, "\n"), line);
    for (char *at = strtok(head, ","); at; at = strtok(NULL, ","))
        names[columns++] = at;
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    line[strcspn(line, "\n")] = 0;
    bool quoted = false;
    values[fields++] = line;
    for (char *at = line; *at; at++) {
        quoted ^= *at == '"';
        if (*at == ',' && !quoted) {
            *at = 0;
            values[fields++] = at + 1;
        }
    }
    assert_int_equal(fields, columns);
    for (size_t index = 0; index < columns; index++) {
        if (strcmp(names[index], "median_s") == 0)
            assert_near(atof(values[index]), number(object, "cases.0.seconds.median"));
        if (strcmp(names[index], "visible_pairs") == 0)
            assert_near(atof(values[index]), number(object, "cases.0.visible_pairs"));
        if (strcmp(names[index], "shape") == 0)
            assert_string_equal(values[index], "\"b=2 hq=4 hkv=2 lq=5 lk=7 d=8 dv=6 causal=bottom-right\"");
    }
    cJSON_Delete(object);
}

static void the_picture_is_svg(void **state)
{
    (void)state;
    static char picture[1 << 20];
    FILE *file = fopen("one.svg", "rb");
    assert_non_null(file);
    picture[fread(picture, 1, sizeof picture - 1, file)] = 0;
    fclose(file);
    assert_non_null(strstr(picture, "<svg "));
    assert_non_null(strstr(picture, "</svg>"));
}

static void the_repeat_line_repeats_the_case(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json");
    const char *line = text(object, "cases.1.repeat");
    assert_memory_equal(line, "clattn bench --shape 'b=2 ", strlen("clattn bench --shape 'b=2 "));
    assert_int_equal(clattn("%s --no-first-call --json again.json", line + strlen("clattn ")), 0);
    cJSON *again = read_json("again.json");
    assert_int_equal(cJSON_GetArraySize(find(again, "cases")), 1);
    assert_string_equal(text(again, "cases.0.shape"), text(object, "cases.1.shape"));
    assert_string_equal(text(again, "cases.0.dtype"), "f16");
    assert_string_equal(text(again, "cases.0.repeat"), line);
    cJSON_Delete(object);
    cJSON_Delete(again);
}

static void a_wrong_result_gets_no_time(void **state)
{
    (void)state;
    assert_int_equal(clattn(QUICK "--shape '%s' --tolerance 0 --json wrong.json", shape), 1);
    assert_non_null(strstr(ct_stdout, "WRONG: off by up to "));
    assert_non_null(strstr(ct_stderr, "clattn bench: 1 of 1 results are wrong"));
    cJSON *object = read_json("wrong.json");
    assert_string_equal(text(object, "cases.0.verdict"), "wrong");
    assert_null(find(object, "cases.0.seconds"));
    cJSON_Delete(object);
}

static void a_refusal_is_a_line_with_its_reason(void **state)
{
    (void)state;
    clattn_attention_desc desc;
    const char *name, *refuses = NULL;
    clattn_attention_desc_init(&desc, 1, 1, 1, 1, 1, 1000, 1000);
    for (size_t index = 0; (name = clattn_kernel_name(index)) && !refuses; index++) {
        if (clattn_attention_supports(ct_context(), &desc, name) == CLATTN_UNSUPPORTED)
            refuses = name;
    }
    if (!refuses)
        skip();
    assert_int_equal(clattn(QUICK "--shape 'lq=1 d=1000' --kernel %s --json r.json", refuses), 0);
    assert_non_null(strstr(ct_stdout, "refused: "));
    cJSON *object = read_json("r.json");
    assert_string_equal(text(object, "cases.0.verdict"), "refused");
    assert_string_equal(text(object, "cases.0.asked"), refuses);
    assert_true(*text(object, "cases.0.reason"));
    cJSON_Delete(object);
}

static void the_first_call_is_timed_and_leaves_no_folder(void **state)
{
    (void)state;
    assert_int_equal(mkdir("first", 0700), 0);
    assert_int_equal(clattn("TMPDIR=first -- bench --seconds 0.01 --shape '%s' --json f.json", shape), 0);
    assert_int_equal(rmdir("first"), 0);
    cJSON *object = read_json("f.json");
    assert_true(number(object, "cases.0.first_call_s.cold") > 0);
    assert_true(number(object, "cases.0.first_call_s.cached") > 0);
    cJSON_Delete(object);
}

/* ---- Comparison ---------------------------------------------------------------------------------------- */

/* Times a million times longer and shorter, which no load of the machine hides; a spread that hides all. */
static void store_doctored(cJSON *object)
{
    const double factors[] = { 1e6, 1e-6 };
    static const char *const fields[] = { "median", "p10", "p90" };
    for (int index = 0; index < 2; index++) {
        char median[64];
        snprintf(median, sizeof median, "cases.%d.seconds.median", index);
        double seconds = factors[index] * number(object, median);
        for (size_t field = 0; field < 3; field++) {
            char path[64];
            snprintf(path, sizeof path, "cases.%d.seconds.%s", index, fields[field]);
            set(object, path, seconds);
        }
    }
    set(object, "cases.2.seconds.p10", 0);
    set(object, "cases.2.seconds.p90", 1e6);
    write_json("old.json", object);
}

static const char *verdict_of(const char *dtype)
{
    static char line[512];
    char begin[32];
    snprintf(begin, sizeof begin, "\nshape         %-4s ", dtype);
    const char *at = strstr(ct_stdout, "\ncompared with old.json");
    at = at ? strstr(at, begin) : NULL;
    if (!at)
        fail_msg("%s is not compared in %s", dtype, ct_stdout);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return line;
}

static void compare_tells_faster_same_and_slower(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json");
    store_doctored(object);
    assert_int_equal(clattn(QUICK "--shape '%s causal' --dtype all --compare old.json", shape), 0);
    assert_non_null(strstr(verdict_of("f32"), ": faster"));
    assert_non_null(strstr(verdict_of("f16"), ": slower"));
    assert_non_null(strstr(verdict_of("bf16"), ": same"));
    assert_null(strstr(ct_stdout, "ANOTHER DEVICE"));
    cJSON_Delete(object);
}

static void fail_slower_exits_with_4_only_beyond_its_share(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json");
    store_doctored(object);
    assert_int_equal(
        clattn(QUICK "--shape '%s causal' --dtype f16 --compare old.json --fail-slower 5%%", shape), 4);
    assert_non_null(
        strstr(ct_stderr, "clattn bench: 1 of 1 cases are slower than in old.json by more than 5%"));
    const char *huge = "--dtype f16 --compare old.json --fail-slower 1e30%";
    assert_int_equal(clattn(QUICK "--shape '%s causal' %s", shape, huge), 0);
    cJSON_Delete(object);
}

static void compare_tells_what_is_not_alike(void **state)
{
    (void)state;
    cJSON *object = read_json("one.json");
    cJSON_SetValuestring(find(object, "device.driver"), "");
    write_json("old.json", object);
    assert_int_equal(clattn(QUICK "--shape '%s' --compare old.json --fail-slower 5%%", shape), 0);
    assert_non_null(strstr(ct_stdout, "ANOTHER DEVICE OR DRIVER"));
    assert_non_null(strstr(verdict_of("f32"), "not there before"));
    set(object, "schema", 99);
    write_json("old.json", object);
    assert_int_equal(clattn(QUICK "--shape '%s' --compare old.json", shape), 1);
    ct_complains("old.json: schema 99, this program reads 1");
    cJSON_SetValuestring(find(object, "format"), "other");
    write_json("old.json", object);
    assert_int_equal(clattn(QUICK "--shape '%s' --compare old.json", shape), 1);
    ct_complains("old.json: not a JSON of clattn bench");
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_names_every_option_and_gives_an_example),
        cmocka_unit_test(wrong_usage_ends_with_2_and_one_line),
        cmocka_unit_test(what_cannot_be_is_said_before_the_work),
        cmocka_unit_test(json_tells_what_ran_and_where),
        cmocka_unit_test(rates_follow_from_pairs_and_times),
        cmocka_unit_test(spread_is_that_of_the_samples),
        cmocka_unit_test(alignment_and_window_decide_the_pairs),
        cmocka_unit_test(a_module_counts_its_projections),
        cmocka_unit_test(csv_has_the_same_numbers),
        cmocka_unit_test(the_picture_is_svg),
        cmocka_unit_test(the_repeat_line_repeats_the_case),
        cmocka_unit_test(a_wrong_result_gets_no_time),
        cmocka_unit_test(a_refusal_is_a_line_with_its_reason),
        cmocka_unit_test(the_first_call_is_timed_and_leaves_no_folder),
        cmocka_unit_test(compare_tells_faster_same_and_slower),
        cmocka_unit_test(fail_slower_exits_with_4_only_beyond_its_share),
        cmocka_unit_test(compare_tells_what_is_not_alike),
    };
    return cmocka_run_group_tests(tests, run_once, ct_teardown);
}
