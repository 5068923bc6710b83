/* tests/tools/test_probe.c: clattn probe: over the chosen implementation, and over drivers that are broken in
 * every way that a driver can be (tests/fake/icd.c). Run by ctest and tests/run.sh. */
#define _XOPEN_SOURCE 700
#include "support/harness.h"

#include "support/program.h"
#include "support/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define clattn(...) ct_program(CLATTN_PROGRAM, __VA_ARGS__)
/* With a driver that is told what to do, alone. */
#define FAKE(words) "OCL_ICD_VENDORS=$PWD/fake CLATTN_FAKE_ICD=" words " -- probe --timeout 60 "
/* Beside one that is not told. */
#define BOTH(words) "OCL_ICD_VENDORS=$PWD/both CLATTN_FAKE_ICD=" words " -- probe --timeout 60 "

static cJSON *schema;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static char *read_whole(const char *path)
{
    char *text = calloc(1, 1 << 18);
    FILE *file = fopen(path, "r");
    if (!file || !text)
        return NULL;
    size_t bytes = fread(text, 1, (1 << 18) - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return text;
}

static int before_all(void **state)
{
    char here[2048], path[4096];
    (void)state;
    if (!getcwd(here, sizeof here))
        return -1;
    mkdir("fake", 0755);
    mkdir("both", 0755);
    if (system("cp '" CLATTN_FAKE_ICD "' healthy.so") != 0)
        return -1;
    write_text("fake/fake.icd", CLATTN_FAKE_ICD "\n");
    write_text("both/fake.icd", CLATTN_FAKE_ICD "\n");
    snprintf(path, sizeof path, "%s/healthy.so\n", here);
    write_text("both/healthy.icd", path);
    char *text = read_whole(CLATTN_TEST_DATA "/../../tools/probe/probe.schema.json");
    schema = text ? cJSON_Parse(text) : NULL;
    free(text);
    return schema ? 0 : -1;
}

static int after_all(void **state)
{
    (void)state;
    cJSON_Delete(schema);
    return 0;
}

/* What the last run printed, as the schema allows it. */
static cJSON *document(void)
{
    char where[512];
    const char *stop;
    cJSON *parsed = cJSON_ParseWithOpts(ct_stdout, &stop, true);
    if (!parsed)
        fail_msg("no JSON: %s%s", ct_stdout, ct_stderr);
    if (!ct_schema_allows(schema, parsed, where, sizeof where))
        fail_msg("the schema forbids %s", where);
    return parsed;
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

static const cJSON *at(const cJSON *object, const char *list, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, list), index);
}

static int size_of(const cJSON *object, const char *list)
{
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(object, list));
}

/* A line is at most 100 characters, and nothing in it moves the cursor or sets a colour. */
static void check_lines(void)
{
    int width = 0;
    for (const char *character = ct_stdout; *character; character++) {
        if (*character == '\n') {
            width = 0;
            continue;
        }
        width += ((unsigned char)*character & 0xc0) != 0x80;
        if (width > 100 || (unsigned char)*character < ' ')
            fail_msg("a line of %d characters, or character %d in it: %s", width, *character, ct_stdout);
    }
}

/* ---- The schema ---------------------------------------------------------------------------------------- */

/* Puts `text`, as JSON, in the place of a member, or takes the member away where it is NULL. */
static void break_member(cJSON *object, const char *key, const char *text)
{
    assert_non_null(cJSON_GetObjectItemCaseSensitive(object, key));
    if (text)
        assert_true(cJSON_ReplaceItemInObjectCaseSensitive(object, key, cJSON_Parse(text)));
    else
        cJSON_DeleteItemFromObjectCaseSensitive(object, key);
}

static void the_schema_forbids_what_is_not_a_probe(void **state)
{
    static const struct {
        const char *list, *key, *text; /* of the first item of a list, or of the document */
    } broken[] = {
        { NULL, "schema", "2" },
        { NULL, "loader", "{}" },
        { NULL, "devices", "{}" },
        { NULL, "pick", "\"0\"" },
        { NULL, "why", NULL },
        { NULL, "trouble", "[ 1 ]" },
        { NULL, "icds", "[ {} ]" },
        { "icds", "seconds", "\"0.1\"" },
        { "icds", "platforms", "[ {} ]" },
        { "devices", "name", NULL },
        { "devices", "type", "\"toaster\"" },
        { "devices", "memory_bytes", "\"1 GiB\"" },
        { "devices", "has_compiler", "1" },
        { "devices", "features", "[ {} ]" },
        { "chain", "state", "\"fine\"" },
    };
    char where[512];
    (void)state;
    assert_int_equal(clattn("probe -v --json --timeout 200"), 0);
    for (size_t index = 0; index < sizeof broken / sizeof broken[0]; index++) {
        cJSON *said = document();
        cJSON *object = broken[index].list ? (cJSON *)at(said, broken[index].list, 0) : said;
        break_member(object, broken[index].key, broken[index].text);
        if (ct_schema_allows(schema, said, where, sizeof where))
            fail_msg("the schema allows %s as %s", broken[index].key, broken[index].text);
        cJSON_Delete(said);
    }
    cJSON *said = document();
    cJSON_AddNullToObject(said, "surprise");
    assert_false(ct_schema_allows(schema, said, where, sizeof where));
    assert_non_null(strstr(where, "surprise"));
    cJSON_Delete(said);
}

/* ---- The chosen implementation ------------------------------------------------------------------------- */

static void devices_stand_a_line_each_with_the_pick(void **state)
{
    (void)state;
    assert_int_equal(clattn("probe"), 0);
    check_lines();
    assert_non_null(strstr(ct_stdout, "\n*  0  "));
    assert_non_null(strstr(ct_stdout, "\npick 0: "));
    assert_int_equal(clattn("probe --json"), 0);
    cJSON *said = document();
    assert_int_equal(cJSON_GetObjectItem(said, "pick")->valueint, 0);
    assert_true(cJSON_GetObjectItem(at(said, "devices", 0), "max_alloc_bytes")->valuedouble > 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(at(said, "devices", 0), "features")));
    cJSON_Delete(said);
}

static void features_are_proved_on_a_real_device(void **state)
{
    (void)state;
    assert_int_equal(clattn("probe -v --json --timeout 200"), 0);
    cJSON *said = document();
    const cJSON *device = at(said, "devices", 0), *feature;
    int proved = 0, open = 0;
    cJSON_ArrayForEach(feature, cJSON_GetObjectItem(device, "features"))
    {
        const char *proof = text_of(feature, "proof");
        if (strcmp(proof, "ok") != 0 && strcmp(proof, "not claimed") != 0)
            fail_msg("%s: %s: %s", text_of(feature, "name"), proof, text_of(feature, "detail"));
        assert_int_equal(strcmp(proof, "ok") == 0, cJSON_IsTrue(cJSON_GetObjectItem(feature, "claimed")));
        proved += strcmp(proof, "ok") == 0;
    }
    assert_true(proved >= 3);
    for (int row = 0; row < size_of(device, "rows"); row++) {
        const cJSON *one = at(device, "rows", row);
        assert_string_equal(text_of(one, "name"), clattn_kernel_name((size_t)row));
        bool is_open = cJSON_IsTrue(cJSON_GetObjectItem(one, "open"));
        open += is_open;
        assert_int_equal(is_open, text_of(one, "reason")[0] == '\0');
    }
    assert_int_equal(size_of(device, "rows"), (int)clattn_kernel_count());
    assert_true(open >= 2);
    assert_true(cJSON_GetObjectItem(cJSON_GetObjectItem(device, "facts"), "max_work_group")->valuedouble >=
                64);
    cJSON_Delete(said);
    assert_int_equal(clattn("probe -v --timeout 200"), 0);
    check_lines();
    assert_non_null(strstr(ct_stdout, "the simplest kernel"));
}

static void a_shape_gets_its_kernel_and_its_bytes(void **state)
{
    (void)state;
    assert_int_equal(
        clattn("probe --json --timeout 200 --shape 'b=2 hq=4 hkv=2 lq=3 lk=5 d=16 dtype=f16 causal'"), 0);
    cJSON *said = document();
    const cJSON *shape = cJSON_GetObjectItem(at(said, "devices", 0), "shape");
    static const double bytes[] = { 2 * 4 * 3 * 16 * 2, 2 * 2 * 5 * 16 * 2, 2 * 2 * 5 * 16 * 2,
                                    2 * 4 * 3 * 16 * 2 };
    for (int tensor = 0; tensor < 4; tensor++)
        assert_true(cJSON_GetObjectItem(at(shape, "tensors", tensor), "bytes")->valuedouble == bytes[tensor]);
    assert_true(text_of(shape, "kernel")[0] != '\0');
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(shape, "fits")));
    assert_non_null(strstr(text_of(shape, "text"), "dtype=f16"));
    /* Those before the one that would run. */
    assert_string_equal(text_of(shape, "kernel"), clattn_kernel_name((size_t)size_of(shape, "passed_over")));
    cJSON_Delete(said);
}

static void a_shape_that_does_not_fit_gets_advice(void **state)
{
    (void)state;
    assert_int_equal(clattn("probe --json --timeout 200 --shape 'b=4096 hq=64 lq=65536 d=16'"), 0);
    cJSON *said = document();
    const cJSON *shape = cJSON_GetObjectItem(at(said, "devices", 0), "shape");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(shape, "fits")));
    assert_non_null(strstr(text_of(shape, "advice"), "calls of "));
    cJSON_Delete(said);
}

static void wrong_usage_names_value_and_rule(void **state)
{
    (void)state;
    assert_int_equal(clattn("probe --shape 'lq=3'"), 2);
    ct_complains("--shape", "d= is missing");
    assert_int_equal(clattn("probe --shape 'module lq=3 d=8'"), 2);
    ct_complains("module");
    assert_int_equal(clattn("probe --timeout 0"), 2);
    ct_complains("--timeout 0", "more than 0");
    assert_int_equal(clattn("probe --jsn"), 2);
    ct_complains("--jsn", "--json");
    assert_int_equal(clattn("probe --json --report r.txt"), 2);
    ct_complains("exclude");
}

static void a_report_is_one_whole_file_without_private_names(void **state)
{
    char home[2048], command[4096];
    (void)state;
    remove("report.txt");
    assert_non_null(getcwd(home, sizeof home));
    snprintf(command, sizeof command, "HOME='%s' %s --report report.txt", home, FAKE("wrong"));
    assert_int_equal(clattn("%s", command), 3);
    assert_string_equal(ct_stdout, "");
    char *report = read_whole("report.txt");
    assert_non_null(report);
    assert_null(strstr(report, home));
    assert_non_null(strstr(report, "~/fake"));
    assert_non_null(strstr(report, "item 5 gives"));
    assert_non_null(strstr(report, "kernel-gives-wrong-numbers"));
    free(report);
    assert_int_equal(clattn(FAKE("") "--report no/such/folder.txt"), 1);
    ct_complains("no/such");
}

/* ---- Broken drivers ------------------------------------------------------------------------------------ */

/* Exactly this trouble, whose words hold `part`, in an otherwise whole document. */
static void expect(const cJSON *said, const char *cause, const char *part)
{
    const cJSON *trouble = at(said, "trouble", 0);
    if (size_of(said, "trouble") != 1 || strcmp(text_of(trouble, "cause"), cause) != 0 ||
        !strstr(text_of(trouble, "text"), part))
        fail_msg("not %s with %s alone: %s", cause, part, cJSON_Print(cJSON_GetObjectItem(said, "trouble")));
}

static void a_broken_driver_costs_one_line(void **state)
{
    static const struct {
        const char *word, *options, *end, *cause, *part;
    } broken[] = {
        { "crash", "", "crashed", "driver-crashes", "Segmentation fault" },
        { "hang", "--timeout=4", "timed out", "driver-hangs", "no answer within 4 s" },
        { "exit", "", "exited", "driver-exits", "exit code 7" },
        { "memory", "--memory=0.5", "out of memory", "driver-takes-memory", "more than 0.5 GiB" },
    };
    (void)state;
    for (size_t index = 0; index < sizeof broken / sizeof broken[0]; index++) {
        const char *word = broken[index].word;
        assert_int_equal(clattn("OCL_ICD_VENDORS=$PWD/fake CLATTN_FAKE_ICD=%s -- probe --json %s", word,
                                broken[index].options),
                         3);
        cJSON *said = document();
        assert_string_equal(text_of(at(said, "icds", 0), "end"), broken[index].end);
        expect(said, broken[index].cause, broken[index].part);
        cJSON_Delete(said);
        /* Beside a healthy one, whose device can be used with the one command. */
        assert_int_equal(clattn("OCL_ICD_VENDORS=$PWD/both CLATTN_FAKE_ICD=%s -- probe --json %s", word,
                                broken[index].options),
                         0);
        said = document();
        assert_int_equal(size_of(said, "devices"), 1);
        assert_string_equal(text_of(at(said, "devices", 0), "name"), "Fake GPU");
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(said, "pick")));
        expect(said, broken[index].cause, broken[index].part);
        assert_non_null(strstr(text_of(at(said, "trouble", 0), "command"), "both/healthy.icd"));
        cJSON_Delete(said);
    }
}

static void a_driver_without_platform_or_device_is_no_device(void **state)
{
    (void)state;
    assert_int_equal(clattn(FAKE("no-platform")), 3);
    assert_non_null(strstr(ct_stdout, "no OpenCL device"));
    assert_int_equal(clattn(FAKE("not-found")), 3);
    assert_int_equal(clattn(FAKE("no-device") "--json"), 3);
    cJSON *said = document();
    expect(said, "platform-without-device", "Fake Platform");
    assert_string_equal(text_of(at(at(said, "icds", 0), "platforms", 0), "error"), "CL_DEVICE_NOT_FOUND");
    cJSON_Delete(said);
}

static void a_device_without_compiler_cannot_be_used(void **state)
{
    (void)state;
    assert_int_equal(clattn(FAKE("no-compiler") "--json"), 3);
    cJSON *said = document();
    expect(said, "no-compiler", "Fake GPU");
    cJSON_Delete(said);
    assert_int_equal(clattn(BOTH("no-compiler") "--json"), 0);
    said = document();
    assert_non_null(strstr(text_of(said, "why"), "compiles OpenCL C"));
    cJSON_Delete(said);
}

static void proofs_find_what_is_claimed_and_not_true(void **state)
{
    static const struct {
        const char *word;
        int code, feature;
        const char *proof, *detail, *cause;
    } broken[] = {
        { "none", 0, 0, "ok", "", NULL },
        { "wrong", 3, 0, "wrong", "item 5 gives 2.5, 1.5 is right", "kernel-gives-wrong-numbers" },
        { "build-fails", 3, 0, "fails to build", "error: the fake cannot do this", "kernel-does-not-build" },
        { "lost", 0, 1, "fails", "CL_DEVICE_NOT_AVAILABLE", NULL },
        { "lies-fp16", 0, 3, "fails to build", "error: the fake cannot do this", NULL },
    };
    (void)state;
    for (size_t index = 0; index < sizeof broken / sizeof broken[0]; index++) {
        assert_int_equal(
            clattn("OCL_ICD_VENDORS=$PWD/fake CLATTN_FAKE_ICD=%s -- probe -v --json --timeout 60",
                   broken[index].word),
            broken[index].code);
        cJSON *said = document();
        const cJSON *feature = at(at(said, "devices", 0), "features", broken[index].feature);
        assert_string_equal(text_of(feature, "proof"), broken[index].proof);
        assert_non_null(strstr(text_of(feature, "detail"), broken[index].detail));
        if (broken[index].cause)
            expect(said, broken[index].cause, broken[index].detail);
        cJSON_Delete(said);
    }
}

static void a_device_that_takes_its_process_down_is_listed_all_the_same(void **state)
{
    (void)state;
    assert_int_equal(clattn(BOTH("crash-late") "-v --json"), 0);
    cJSON *said = document();
    assert_int_equal(size_of(said, "devices"), 2);
    expect(said, "driver-crashes", "Illegal instruction");
    cJSON_Delete(said);
    assert_int_equal(clattn(BOTH("crash-late") "-v"), 0);
    check_lines();
    assert_non_null(strstr(ct_stdout, "Illegal instruction"));
}

static void wrong_numbers_are_remembered_by_the_pick(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf cache"), 0);
    assert_int_equal(clattn("CLATTN_CACHE_DIR=$PWD/cache " BOTH("wrong") "-v --json"), 0);
    assert_int_equal(clattn("CLATTN_CACHE_DIR=$PWD/cache " BOTH("none") "--json"), 0);
    cJSON *said = document();
    assert_non_null(strstr(text_of(said, "why"), "gave wrong numbers"));
    cJSON_Delete(said);
    assert_int_equal(clattn(BOTH("none") "--json"), 0);
    said = document();
    assert_non_null(strstr(text_of(said, "why"), "the next is no better"));
    cJSON_Delete(said);
}

static void what_is_proved_comes_before_what_is_claimed(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf cache"), 0);
    assert_int_equal(clattn("CLATTN_CACHE_DIR=$PWD/cache " FAKE("none") "-v --json"), 0);
    assert_int_equal(clattn("CLATTN_CACHE_DIR=$PWD/cache " BOTH("none") "--json"), 0);
    cJSON *said = document();
    assert_string_equal(text_of(said, "why"), "the best of 2 devices: proved before claimed");
    int pick = cJSON_GetObjectItem(said, "pick")->valueint;
    assert_string_equal(text_of(at(said, "devices", pick), "driver"), "1.0");
    cJSON_Delete(said);
}

static void a_driver_known_to_be_bad_comes_last_unless_it_is_wanted(void **state)
{
    (void)state;
    assert_int_equal(clattn(BOTH("clover") "--json"), 0);
    cJSON *said = document();
    expect(said, "known-bad", "Clover");
    assert_non_null(strstr(text_of(said, "why"), "has a driver known to be bad"));
    int pick = cJSON_GetObjectItem(said, "pick")->valueint;
    assert_string_equal(text_of(at(said, "devices", pick), "platform"), "Fake Platform");
    cJSON_Delete(said);
    assert_int_equal(clattn("CLATTN_USE_KNOWN_BAD=1 " BOTH("clover") "--json"), 0);
    said = document();
    assert_non_null(strstr(text_of(said, "why"), "the next is no better"));
    cJSON_Delete(said);
}

static void nothing_that_a_driver_says_is_trusted(void **state)
{
    (void)state;
    assert_int_equal(clattn(FAKE("rubbish") "--json"), 0);
    cJSON_Delete(document());
    assert_int_equal(clattn(FAKE("rubbish")), 0);
    check_lines();
    assert_int_equal(clattn(FAKE("bad-text")), 0);
    check_lines();
    assert_non_null(strstr(ct_stdout, "Fake?[31m ??? GPU???"));
    assert_int_equal(clattn(FAKE("endless-string") "--json"), 0);
    cJSON *said = document();
    assert_string_equal(text_of(at(said, "devices", 0), "name"), "a text of 2147483648 bytes");
    cJSON_Delete(said);
    assert_int_equal(clattn(FAKE("many") "--json"), 0);
    said = document();
    assert_int_equal(size_of(said, "devices"), 64);
    expect(said, "too-many-devices", "10000 devices");
    cJSON_Delete(said);
}

static void a_failing_property_stands_in_its_place_by_name(void **state)
{
    (void)state;
    assert_int_equal(clattn(FAKE("property-fails") "-v --json"), 0);
    cJSON *said = document();
    const cJSON *device = at(said, "devices", 0);
    assert_string_equal(text_of(device, "name"), "CL_INVALID_VALUE (-30)");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(device, "memory_bytes")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(device, "facts"), "opencl_c")));
    assert_string_equal(text_of(cJSON_GetObjectItem(device, "unknown"), "opencl_c"),
                        "CL_INVALID_VALUE (-30)");
    cJSON_Delete(said);
}

static void colour_is_for_terminals_and_not_with_no_color(void **state)
{
    (void)state;
    assert_int_equal(clattn(FAKE("wrong") "-v"), 3);
    assert_null(strchr(ct_stdout, '\033'));
    const char *terminal =
        "OCL_ICD_VENDORS=$PWD/fake CLATTN_FAKE_ICD=none NO_COLOR=%s script -qec '" CLATTN_PROGRAM
        " probe -v' /dev/null </dev/null >terminal.txt";
    for (int without = 0; without < 2; without++) {
        char command[4096];
        snprintf(command, sizeof command, terminal, without ? "1" : "");
        assert_int_equal(system(command), 0);
        char *text = read_whole("terminal.txt");
        assert_non_null(strstr(text, without ? "kernel                    ok" : "\033[32mok\033[0m"));
        assert_int_equal(strchr(text, '\033') == NULL, without);
        free(text);
    }
}

static void without_a_loader_it_says_how_to_get_one(void **state)
{
    (void)state;
    mkdir("none", 0755);
    write_text("none/libOpenCL.so.1", "no library\n");
    assert_int_equal(clattn("LD_LIBRARY_PATH=$PWD/none -- run --list-kernels"), 3);
    ct_complains("no OpenCL loader", "install");
    assert_int_equal(clattn("LD_LIBRARY_PATH=$PWD/none -- probe --json"), 3);
    cJSON *said = document();
    assert_string_equal(text_of(at(said, "trouble", 0), "cause"), "no-loader");
    assert_int_equal(size_of(said, "trouble"), 1);
    cJSON_Delete(said);
    assert_int_equal(clattn("LD_LIBRARY_PATH=$PWD/none -- probe --doctor"), 3);
    assert_non_null(strstr(ct_stdout, "loader          broken"));
}

static void other_commands_are_left_to_the_other_program(void **state)
{
    (void)state;
    assert_int_equal(clattn("--help"), 0);
    assert_non_null(strstr(ct_stdout, "  probe "));
    assert_null(strstr(ct_stdout, "  facts "));
    assert_int_equal(clattn("prob"), 2);
    ct_complains("unknown command prob; the nearest is probe");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_forbids_what_is_not_a_probe),
        cmocka_unit_test(devices_stand_a_line_each_with_the_pick),
        cmocka_unit_test(features_are_proved_on_a_real_device),
        cmocka_unit_test(a_shape_gets_its_kernel_and_its_bytes),
        cmocka_unit_test(a_shape_that_does_not_fit_gets_advice),
        cmocka_unit_test(wrong_usage_names_value_and_rule),
        cmocka_unit_test(a_report_is_one_whole_file_without_private_names),
        cmocka_unit_test(a_broken_driver_costs_one_line),
        cmocka_unit_test(a_driver_without_platform_or_device_is_no_device),
        cmocka_unit_test(a_device_without_compiler_cannot_be_used),
        cmocka_unit_test(proofs_find_what_is_claimed_and_not_true),
        cmocka_unit_test(a_device_that_takes_its_process_down_is_listed_all_the_same),
        cmocka_unit_test(wrong_numbers_are_remembered_by_the_pick),
        cmocka_unit_test(what_is_proved_comes_before_what_is_claimed),
        cmocka_unit_test(a_driver_known_to_be_bad_comes_last_unless_it_is_wanted),
        cmocka_unit_test(nothing_that_a_driver_says_is_trusted),
        cmocka_unit_test(a_failing_property_stands_in_its_place_by_name),
        cmocka_unit_test(colour_is_for_terminals_and_not_with_no_color),
        cmocka_unit_test(without_a_loader_it_says_how_to_get_one),
        cmocka_unit_test(other_commands_are_left_to_the_other_program),
    };
    return cmocka_run_group_tests(tests, before_all, after_all);
}
