/* tests/tools/test_run.c: the program's run, driven from outside: options, results, complaints, files.
 * Run by ctest and tests/run.sh. */
#include "support/harness.h"

#include "reference/attention.h"
#include "support/compare.h"
#include "support/program.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define clattn(...) ct_program(CLATTN_PROGRAM, __VA_ARGS__)

enum { B = 2, HQ = 4, HK = 2, LQ = 5, LK = 7, D = 8, DV = 6 };
static const char qkv[] = "run --q q.npy --k k.npy --v v.npy";

static float q[B * HQ * LQ * D], k[B * HK * LK * D], v[B * HK * LK * DV], bias[HQ * LQ * LK], sinks[HQ];
static uint8_t keep[B * LQ * LK];

static void fill(float *values, size_t count, uint64_t seed)
{
    ct_random random = ct_random_from(seed);
    for (size_t index = 0; index < count; index++)
        values[index] = (float)ct_random_normal(&random);
}

static int store_inputs(void **state)
{
    (void)state;
    fill(q, B * HQ * LQ * D, 1);
    fill(k, B * HK * LK * D, 2);
    fill(v, B * HK * LK * DV, 3);
    fill(bias, HQ * LQ * LK, 4);
    fill(sinks, HQ, 5);
    bias[3] = -INFINITY;
    for (size_t index = 0; index < sizeof keep; index++)
        keep[index] = index % 3 != 0;
    ct_store("q.npy", TOOL_F32, q, CT_SHAPE(B, HQ, LQ, D));
    ct_store("k.npy", TOOL_F32, k, CT_SHAPE(B, HK, LK, D));
    ct_store("v.npy", TOOL_F32, v, CT_SHAPE(B, HK, LK, DV));
    ct_store("bias.npy", TOOL_F32, bias, CT_SHAPE(HQ, LQ, LK));
    ct_store("keys.npy", TOOL_F32, bias, CT_SHAPE(LK));
    ct_store("keep.npy", TOOL_BOOL, keep, CT_SHAPE(B, 1, LQ, LK));
    ct_store("sinks.npy", TOOL_F32, sinks, CT_SHAPE(HQ));
    return 0;
}

static ref_attention reference(void)
{
    return (ref_attention){ .batch = B,
                            .heads_q = HQ,
                            .heads_kv = HK,
                            .len_q = LQ,
                            .len_kv = LK,
                            .d_qk = D,
                            .d_v = DV,
                            .q = { q, { HQ * LQ * D, LQ * D, D, 1 } },
                            .k = { k, { HK * LK * D, LK * D, D, 1 } },
                            .v = { v, { HK * LK * DV, LK * DV, DV, 1 } },
                            .scale = NAN,
                            .window_left = -1,
                            .window_right = -1 };
}

static void assert_near(const tool_array *got, const double *want)
{
    for (size_t index = 0; index < got->elements; index++) {
        double value = tool_array_get(got, index);
        if (!ct_close(value, want[index]) && !(isinf(value) && value == want[index]))
            fail_msg("element %zu is %.9g, not %.9g", index, value, want[index]);
    }
}

/* Runs with these options and compares out, lse and weights with the double-precision reference. */
static void assert_computes(const char *options, const ref_attention *wanted)
{
    static double out[B * HQ * LQ * DV], lse[B * HQ * LQ], weights[B * HQ * LQ * LK];
    assert_true(ref_attention_run(wanted, out, lse, weights));
    if (clattn("%s %s --out o.npy --lse l.npy --weights w.npy", qkv, options) != 0)
        fail_msg("%s: %s", options, ct_stderr);
    tool_array got = ct_load("o.npy", TOOL_F32, CT_SHAPE(B, HQ, LQ, DV));
    assert_near(&got, out);
    tool_array_free(&got);
    got = ct_load("l.npy", TOOL_F32, CT_SHAPE(B, HQ, LQ));
    assert_near(&got, lse);
    tool_array_free(&got);
    got = ct_load("w.npy", TOOL_F32, CT_SHAPE(B, HQ, LQ, LK));
    assert_near(&got, weights);
    tool_array_free(&got);
}

static double number_at(const cJSON *object, const char *outer, const char *inner)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, outer);
    if (inner)
        item = cJSON_GetObjectItemCaseSensitive(item, inner);
    if (!cJSON_IsNumber(item))
        fail_msg("no number %s %s in %s", outer, inner ? inner : "", ct_stdout);
    return item->valuedouble;
}

/* ---- Usage and devices
 * -------------------------------------------------------------------------------------- */

static void wrong_usage_ends_with_2_and_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "rum", "clattn: unknown command rum; the nearest is run" },
        { "--versoin", "the nearest is --version" },
        { "run --kausal", "clattn run: unknown option --kausal; the nearest is --causal" },
        { "run --lenghts-q=3", "unknown option --lenghts-q; the nearest is --lengths-q" },
        { "probe --jsn", "the nearest is --json" },
        { "run q.npy", "q.npy: not an option" },
        { "run --q", "--q: its value FILE is missing" },
        { "run --q --k k.npy", "--q: its value FILE is missing" },
        { "run --q ''", "--q: FILE must not be empty" },
        { "run --q q.npy --v v.npy", "--k is missing" },
        { "run --q q.npy --q q.npy", "--q is given twice" },
        { "run --json=1", "--json takes no value" },
        { "run --scale 1x", "--scale 1x: a finite number is wanted" },
        { "run --scale nan", "--scale nan: a finite number is wanted" },
        { "run --softcap 1e39", "--softcap 1e39: a finite number is wanted" },
        { "run --repeat 0", "--repeat 0: at least 1 is wanted" },
        { "run --repeat 2.5", "--repeat 2.5: a whole number is wanted" },
        { "run --repeat 99999999999999999999", "a whole number is wanted" },
        { "run --dtype f64", "--dtype f64: one of f32|f16|bf16 is wanted" },
        { "run --causal=left", "--causal left: one of bottom-right|top-left is wanted" },
        { "run --lengths-q 1,,2", "--lengths-q 1,,2: whole numbers with commas between are wanted" },
        { "run --lengths-kv 1,-2", "--lengths-kv 1,-2: -2 is less than 0" },
        { "run --window 1,-2", "--window 1,-2: -2 is less than -1" },
        { "run --q q.npy --k k.npy --v v.npy --window 1",
          "--window has 1 numbers, two are wanted: LEFT,RIGHT" },
        { "run --q q.npy --k k.npy --v v.npy --softcap -1", "--softcap -1: 0 or more is wanted" },
        { "run --q q.npy --k k.npy --v v.npy --kernel lane", "--kernel lane: unknown; the nearest is lanes" },
        { "run --q q.npy --k k.npy --v v.npy --lengths-q 1,2,3",
          "--lengths-q has 3 numbers, the batch size is 2" },
        { "run --q q.npy --k k.npy --v v.npy --lengths-kv 1,8",
          "--lengths-kv: length 8 of batch 1 is more than the tensor's 7" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn("%s", cases[index].arguments) != 2)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains(cases[index].part);
    }
    assert_int_equal(clattn(" "), 2);
    assert_non_null(strstr(ct_stderr, "usage: clattn COMMAND"));
}

static void a_selector_that_matches_nothing_is_named(void **state)
{
    (void)state;
    assert_int_equal(clattn("%s --device no-such-device", qkv), 1);
    ct_complains("clattn run: ", "no-such-device");
    assert_int_equal(clattn("%s --device 99", qkv), 1);
    ct_complains("99");
}

static void no_platform_is_one_line(void **state)
{
    (void)state;
    assert_int_equal(clattn("OCL_ICD_VENDORS=/nowhere OCL_ICD_FILENAMES= -- %s --json", qkv), 1);
    ct_complains("clattn run: ", "platform");
}

/* ---- Results
 * ------------------------------------------------------------------------------------------------ */

static void computes_what_the_reference_computes(void **state)
{
    (void)state;
    const int32_t lengths_q[] = { 5, 3 }, lengths_kv[] = { 4, 7 };
    ref_attention wanted = reference();
    assert_computes("", &wanted);
    wanted.scale = -0.5;
    wanted.softcap = 2;
    assert_computes("--scale -0.5 --softcap=2", &wanted);
    wanted = reference();
    wanted.causal = true;
    assert_computes("--causal", &wanted);
    wanted.top_left = true;
    wanted.sinks = sinks;
    assert_computes("--causal=top-left --sinks sinks.npy", &wanted);
    wanted = reference();
    wanted.window_left = 1;
    wanted.window_right = 2;
    wanted.bias = (ref_view){ bias, { 0, LQ * LK, LK, 1 } };
    assert_computes("--window 1,2 --mask bias.npy", &wanted);
    wanted.bias = (ref_view){ bias, { 0, 0, 0, 1 } };
    assert_computes("--window 1,2 --mask keys.npy", &wanted);
    wanted = reference();
    wanted.keep = keep;
    memcpy(wanted.keep_stride, (int64_t[]){ LQ * LK, 0, LK, 1 }, sizeof wanted.keep_stride);
    wanted.lengths_q = lengths_q;
    wanted.lengths_kv = lengths_kv;
    assert_computes("--mask keep.npy --lengths-q 5,3 --lengths-kv 4,7", &wanted);
}

static void counts_exactly_the_visible_pairs(void **state)
{
    (void)state;
    const int32_t lengths_q[] = { 5, 3 }, lengths_kv[] = { 4, 7 };
    ref_attention wanted = reference();
    wanted.causal = true;
    wanted.window_left = 3;
    wanted.window_right = -1;
    wanted.lengths_q = lengths_q;
    wanted.lengths_kv = lengths_kv;
    wanted.bias = (ref_view){ bias, { 0, LQ * LK, LK, 1 } };
    double pairs = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < HQ; h++)
            for (int64_t i = 0; i < lengths_q[b]; i++)
                for (int64_t j = 0; j < LK; j++)
                    pairs += ref_visible(&wanted, b, h, i, j) && bias[(h * LQ + i) * LK + j] != -INFINITY;
    const char options[] = "--causal --window 3,-1 --lengths-q 5,3 --lengths-kv 4,7 --mask bias.npy";
    assert_int_equal(clattn("%s %s --json --repeat 3", qkv, options), 0);
    assert_string_equal(ct_stderr, "");
    cJSON *object = cJSON_ParseWithOpts(ct_stdout, NULL, true);
    assert_non_null(object);
    assert_true(number_at(object, "visible_pairs", NULL) == pairs);
    double flops = pairs * 2 * (D + DV), warm = number_at(object, "seconds", "warm");
    assert_true(fabs(number_at(object, "gflops", NULL) * warm * 1e9 - flops) < 1e-6 * flops);
    assert_true(number_at(object, "seconds", "warm_calls") == 3);
    assert_true(number_at(object, "shape", "len_kv") == LK);
    assert_true(number_at(object, "out", "not_finite") == 0);
    cJSON_Delete(object);
}

static void without_out_it_prints_a_summary(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "device  ",   "\nkernel  ", "\nshape   batch 2, heads 4 over 2", "\nfirst   ",
        "\nwarm    ", "\nspeed   ", "\nout     (2, 4, 5, 6) f32: min "
    };
    assert_int_equal(clattn("%s", qkv), 0);
    for (size_t index = 0; index < sizeof lines / sizeof lines[0]; index++)
        assert_non_null(strstr(ct_stdout, lines[index]));
    assert_string_equal(ct_stderr, "");
}

static void layout_bshd_swaps_heads_and_length(void **state)
{
    (void)state;
    static float turned[sizeof q / sizeof q[0]];
    static double out[B * HQ * LQ * D];
    ref_attention wanted = reference();
    wanted.heads_kv = HQ;
    wanted.len_kv = LQ;
    wanted.d_v = D;
    wanted.k = wanted.v = wanted.q;
    assert_true(ref_attention_run(&wanted, out, NULL, NULL));
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < HQ; h++)
            for (size_t i = 0; i < LQ; i++)
                memcpy(turned + ((b * LQ + i) * HQ + h) * D, q + ((b * HQ + h) * LQ + i) * D, D * sizeof *q);
    ct_store("turned.npy", TOOL_F32, turned, CT_SHAPE(B, LQ, HQ, D));
    assert_int_equal(clattn("run --q turned.npy --k turned.npy --v turned.npy --layout bshd --out o.npy"), 0);
    tool_array got = ct_load("o.npy", TOOL_F32, CT_SHAPE(B, LQ, HQ, D));
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < HQ; h++)
            for (size_t i = 0; i < LQ; i++)
                for (size_t d = 0; d < D; d++)
                    assert_true(ct_close(tool_array_get(&got, ((b * LQ + i) * HQ + h) * D + d),
                                         out[((b * HQ + h) * LQ + i) * D + d]));
    tool_array_free(&got);
}

static void fewer_axes_mean_one_batch_and_one_head(void **state)
{
    (void)state;
    static double out[HQ * LQ * DV], lse[HQ * LQ];
    ref_attention wanted = reference();
    wanted.batch = 1;
    ct_store("q3.npy", TOOL_F32, q, CT_SHAPE(HQ, LQ, D));
    ct_store("k3.npy", TOOL_F32, k, CT_SHAPE(HK, LK, D));
    ct_store("v3.npy", TOOL_F32, v, CT_SHAPE(HK, LK, DV));
    assert_true(ref_attention_run(&wanted, out, lse, NULL));
    assert_int_equal(clattn("run --q q3.npy --k k3.npy --v v3.npy --out o.npy --lse l.npy"), 0);
    tool_array got = ct_load("o.npy", TOOL_F32, CT_SHAPE(HQ, LQ, DV));
    assert_near(&got, out);
    tool_array_free(&got);
    got = ct_load("l.npy", TOOL_F32, CT_SHAPE(HQ, LQ));
    assert_near(&got, lse);
    tool_array_free(&got);

    wanted.heads_q = wanted.heads_kv = 1;
    ct_store("q2.npy", TOOL_F32, q, CT_SHAPE(LQ, D));
    ct_store("k2.npy", TOOL_F32, k, CT_SHAPE(LK, D));
    ct_store("v2.npy", TOOL_F32, v, CT_SHAPE(LK, DV));
    assert_true(ref_attention_run(&wanted, out, lse, NULL));
    assert_int_equal(clattn("run --q q2.npy --k k2.npy --v v2.npy --out o.npy --weights w.npy"), 0);
    got = ct_load("o.npy", TOOL_F32, CT_SHAPE(LQ, DV));
    assert_near(&got, out);
    tool_array_free(&got);
    got = ct_load("w.npy", TOOL_F32, CT_SHAPE(LQ, LK));
    tool_array_free(&got);
}

static void empty_tensors_give_empty_or_zero_outputs(void **state)
{
    (void)state;
    const double zeros[B * HQ * LQ * DV] = { 0 };
    ct_store("q0.npy", TOOL_F32, q, CT_SHAPE(B, 0, LQ, D));
    ct_store("k0.npy", TOOL_F32, k, CT_SHAPE(B, HK, 0, D));
    ct_store("v0.npy", TOOL_F32, v, CT_SHAPE(B, HK, 0, DV));
    ct_store("mask0.npy", TOOL_BOOL, keep, CT_SHAPE(0, LQ, LK));
    assert_int_equal(clattn("run --q q0.npy --k k.npy --v v.npy --mask mask0.npy --out o.npy"), 0);
    assert_non_null(strstr(ct_stdout, "over 0 visible pairs"));
    tool_array got = ct_load("o.npy", TOOL_F32, CT_SHAPE(B, 0, LQ, DV));
    tool_array_free(&got);
    assert_int_equal(clattn("run --q q.npy --k k0.npy --v v0.npy --out o.npy --lse l.npy"), 0);
    got = ct_load("o.npy", TOOL_F32, CT_SHAPE(B, HQ, LQ, DV));
    assert_near(&got, zeros);
    tool_array_free(&got);
    got = ct_load("l.npy", TOOL_F32, CT_SHAPE(B, HQ, LQ));
    for (size_t index = 0; index < got.elements; index++)
        assert_true(tool_array_get(&got, index) == -INFINITY);
    tool_array_free(&got);
}

static void dtype_rounds_inputs_and_output_to_16_bits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        tool_type stored, written;
        double step; /* of two neighbours, relative */
    } types[] = { { "f16", TOOL_F16, TOOL_F16, 0x1p-10 }, { "bf16", TOOL_BF16, TOOL_F32, 0x1p-7 } };
    for (size_t type = 0; type < 2; type++) {
        static double out[B * HQ * LQ * DV];
        static float rounded[3][B * HQ * LQ * D];
        const char *const files[] = { "q.npy", "k.npy", "v.npy" };
        ref_attention wanted = reference();
        ref_view *views[] = { &wanted.q, &wanted.k, &wanted.v };
        const int64_t widths[] = { D, D, DV }, heads[] = { HQ, HK, HK }, lengths[] = { LQ, LK, LK };
        for (size_t index = 0; index < 3; index++) {
            tool_array wide =
                ct_load(files[index], TOOL_F32, CT_SHAPE(B, heads[index], lengths[index], widths[index]));
            tool_array narrow;
            tool_error error;
            assert_true(tool_array_convert(&wide, types[type].stored, "rounded", &narrow, &error));
            for (size_t at = 0; at < narrow.elements; at++)
                rounded[index][at] = (float)tool_array_get(&narrow, at);
            views[index]->data = rounded[index];
            tool_array_free(&wide);
            tool_array_free(&narrow);
        }
        assert_true(ref_attention_run(&wanted, out, NULL, NULL));
        assert_int_equal(clattn("%s --dtype %s --out o.npy", qkv, types[type].name), 0);
        tool_array got = ct_load("o.npy", types[type].written, CT_SHAPE(B, HQ, LQ, DV));
        for (size_t index = 0; index < got.elements; index++)
            assert_true(fabs(tool_array_get(&got, index) - out[index]) <=
                        types[type].step * fabs(out[index]) + 1e-6);
        tool_array_free(&got);
    }
}

static void list_kernels_gives_each_row_or_its_refusal(void **state)
{
    (void)state;
    assert_int_equal(clattn("run --list-kernels"), 0);
    for (size_t index = 0; clattn_kernel_name(index); index++)
        assert_non_null(strstr(ct_stdout, clattn_kernel_name(index)));
    assert_int_equal(clattn("%s --list-kernels", qkv), 0);
    assert_non_null(strstr(ct_stdout, "fits, first of the table\n"));
    assert_int_equal(clattn("%s --list-kernels --json", qkv), 0);
    cJSON *object = cJSON_ParseWithOpts(ct_stdout, NULL, true);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(object, "kernels"), *kernel;
    assert_int_equal(cJSON_GetArraySize(kernels), clattn_kernel_count());
    cJSON_ArrayForEach(kernel, kernels)
    {
        bool accepts = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(kernel, "accepts"));
        const cJSON *refusal = cJSON_GetObjectItemCaseSensitive(kernel, "refusal");
        assert_true(accepts ? refusal == NULL : refusal && refusal->valuestring[0]);
    }
    cJSON_Delete(object);
}

static void kernel_forces_a_row_or_says_why_not(void **state)
{
    (void)state;
    enum { WIDE = 300 }; /* a head size that not every row takes */
    const char *last = clattn_kernel_name(clattn_kernel_count() - 1);
    assert_int_equal(clattn("%s --kernel %s", qkv, last), 0);
    char line[128];
    snprintf(line, sizeof line, "\nkernel  %s: ", last);
    assert_non_null(strstr(ct_stdout, line));

    static const float zeros[2 * WIDE];
    const char wide[] = "run --q wide.npy --k wide.npy --v wide.npy";
    ct_store("wide.npy", TOOL_F32, zeros, CT_SHAPE(2, WIDE));
    assert_int_equal(clattn("%s --list-kernels", wide), 0);
    const char *refused = ct_stdout;
    while (sscanf(refused, "%63s fit%c", line, &(char){ 0 }) == 2)
        refused = strchr(refused, '\n') + 1;
    assert_int_equal(clattn("%s --kernel %s", wide, line), 1);
    ct_complains(line);
}

/* ---- Complaints
 * --------------------------------------------------------------------------------------------- */

static void mismatched_shapes_name_options_and_both_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "--q q.npy --k wide.npy --v v.npy", "--k has head size 9, --q has 8" },
        { "--q q.npy --k k.npy --v short.npy", "--v has length 3, --k has 7" },
        { "--q q.npy --k k.npy --v k3.npy", "--v has batch size 1, --q has 2" },
        { "--q q.npy --k k.npy --v q.npy", "--v has length 5, --k has 7" },
        { "--q q.npy --k three.npy --v three.npy", "--q has 4 heads, not a multiple of the 3 of --k" },
        { "--q sinks.npy --k k.npy --v v.npy", "--q: sinks.npy has shape (4,), 2 to 4 axes are wanted" },
        { "--q keep.npy --k k.npy --v v.npy", "--q: keep.npy holds bool, numbers are wanted" },
        { "--q q.npy --k k.npy --v v.npy --mask q.npy", "--mask" },
        { "--q q.npy --k k.npy --v v.npy --mask whole.npy", "--mask: whole.npy holds i32; a mask is bool" },
        { "--q q.npy --k k.npy --v v.npy --sinks q.npy",
          "--sinks: q.npy has shape (2, 4, 5, 8), --q has 4 heads" },
        { "--q q.npy --k k.npy --v huge.npy --dtype f16",
          "huge.npy: 1000000 at element 0 is too large for f16" },
    };
    const float huge[] = { 1e6f };
    ct_store("wide.npy", TOOL_F32, q, CT_SHAPE(B, HK, LK, D + 1));
    ct_store("short.npy", TOOL_F32, v, CT_SHAPE(B, HK, 3, DV));
    ct_store("k3.npy", TOOL_F32, k, CT_SHAPE(HK, LK, D));
    ct_store("three.npy", TOOL_F32, k, CT_SHAPE(B, 3, 2, D));
    ct_store("huge.npy", TOOL_F32, huge, CT_SHAPE(1, 1));
    ct_store("whole.npy", TOOL_I32, keep, CT_SHAPE(1, LK));
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn("run %s --json", cases[index].arguments) != 1)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains("clattn run: ", cases[index].part);
    }
}

static void bad_files_are_named(void **state)
{
    (void)state;
    FILE *file = fopen("cut.npy", "wb");
    assert_non_null(file);
    fputs("\x93NUMPY\x01", file);
    fclose(file);
    assert_int_equal(clattn("run --q cut.npy --k k.npy --v v.npy"), 1);
    ct_complains("clattn run: cut.npy: truncated");
    assert_int_equal(clattn("run --q absent.npy --k k.npy --v v.npy"), 1);
    ct_complains("clattn run: absent.npy: No such file or directory");
    assert_int_equal(clattn("run --q q.npy --k k.npy --v ."), 1);
    ct_complains("clattn run: .: not a regular file");
    assert_int_equal(clattn("run --q q.npy --k k.npy --v cut.safetensors"), 1);
    ct_complains("name the tensor, as in cut.safetensors:NAME");
}

static void a_failed_output_leaves_no_other(void **state)
{
    (void)state;
    remove("kept.npy");
    assert_int_equal(clattn("%s --out kept.npy --lse nowhere/l.npy", qkv), 1);
    ct_complains("nowhere/l.npy: cannot write", "No such file or directory");
    assert_int_equal(clattn("%s --out kept.npy --lse /dev/full", qkv), 1);
    ct_complains("/dev/full: cannot write: No space left on device");
    assert_int_equal(clattn("%s --out kept.npy --lse kept.npy", qkv), 1);
    ct_complains("kept.npy: two outputs go to this file");
    assert_int_equal(clattn("%s --out kept.npy --lse ./kept.npy", qkv), 1);
    ct_complains("./kept.npy: two outputs go to this file");
    assert_int_equal(clattn("%s --weights ./q.npy", qkv), 1);
    ct_complains("./q.npy: an output must not replace the input q.npy");
    assert_int_equal(clattn("%s --out .", qkv), 1);
    ct_complains(".: cannot write: it is a folder");
    assert_false(ct_is_file("kept.npy"));
    assert_int_equal(system("ls -A | grep -q '^[.]clattn-'") == 0, 0);
}

/* The table's first row is refused by name before another is taken, which only the log tells. */
static void verbose_sends_the_log_to_stderr(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static const float zeros[MANY];
    ct_store("many.npy", TOOL_F32, zeros, CT_SHAPE(MANY, 1));
    const char many[] = "run --q many.npy --k many.npy --v many.npy --json";
    assert_int_equal(clattn("%s", many), 0);
    assert_string_equal(ct_stderr, "");
    assert_int_equal(clattn("CLATTN_VERBOSE= -- %s", many), 0);
    assert_string_equal(ct_stderr, "");
    assert_int_equal(clattn("CLATTN_VERBOSE=1 -- %s", many), 0);
    assert_memory_equal(ct_stderr, "clattn: ", 8);
    assert_non_null(strstr(ct_stderr, clattn_kernel_name(0)));
    cJSON *object = cJSON_ParseWithOpts(ct_stdout, NULL, true);
    assert_non_null(object);
    cJSON_Delete(object);
}

static void cache_dir_of_the_environment_gets_the_kernels(void **state)
{
    (void)state;
    assert_int_equal(clattn("CLATTN_CACHE_DIR=kernels -- %s", qkv), 0);
    assert_int_equal(system("ls kernels/*.program >kernels.list && rm -r kernels"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_ends_with_2_and_one_line),
        cmocka_unit_test(a_selector_that_matches_nothing_is_named),
        cmocka_unit_test(no_platform_is_one_line),
        cmocka_unit_test(computes_what_the_reference_computes),
        cmocka_unit_test(counts_exactly_the_visible_pairs),
        cmocka_unit_test(without_out_it_prints_a_summary),
        cmocka_unit_test(layout_bshd_swaps_heads_and_length),
        cmocka_unit_test(fewer_axes_mean_one_batch_and_one_head),
        cmocka_unit_test(empty_tensors_give_empty_or_zero_outputs),
        cmocka_unit_test(dtype_rounds_inputs_and_output_to_16_bits),
        cmocka_unit_test(list_kernels_gives_each_row_or_its_refusal),
        cmocka_unit_test(kernel_forces_a_row_or_says_why_not),
        cmocka_unit_test(mismatched_shapes_name_options_and_both_numbers),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(a_failed_output_leaves_no_other),
        cmocka_unit_test(verbose_sends_the_log_to_stderr),
        cmocka_unit_test(cache_dir_of_the_environment_gets_the_kernels),
    };
    return cmocka_run_group_tests(tests, store_inputs, NULL);
}
