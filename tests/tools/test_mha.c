/* tests/tools/test_mha.c: the program's mha, driven from outside: names of weights, results, the picture,
 * complaints. Run by ctest and tests/run.sh. */
#include "support/harness.h"

#include "support/program.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define clattn(...) ct_program(CLATTN_PROGRAM, __VA_ARGS__)
#define MINILM CLATTN_TEST_DATA "/minilm.safetensors"
static const char minilm[] = "mha --weights '" MINILM "' --prefix encoder.layer.0.attention. --x '" MINILM
                             ":x' --heads 12 --key-padding '" MINILM ":key_padding'";

/* Two heads over queries of width E and a context of width W. */
enum { B = 2, H = 2, E = 6, W = 5, LQ = 3, LK = 4 };
static float x[B * LQ * E], context[B * LK * W], padding[B * LK];
static float wq[E * E], wk[E * W], wv[E * W], wo[E * E], in_bias[3 * E], out_bias[E];
static float in_weight[3 * E * E];

static void fill(float *values, size_t count, uint64_t seed)
{
    ct_random random = ct_random_from(seed);
    for (size_t index = 0; index < count; index++)
        values[index] = (float)(0.5 * ct_random_normal(&random));
}

static int store_inputs(void **state)
{
    (void)state;
    fill(x, B * LQ * E, 1);
    fill(context, B * LK * W, 2);
    fill(wq, E * E, 3);
    fill(wk, E * W, 4);
    fill(wv, E * W, 5);
    fill(wo, E * E, 6);
    fill(in_bias, 3 * E, 7);
    fill(out_bias, E, 8);
    fill(in_weight, 3 * E * E, 9);
    for (size_t index = 0; index < B * LK; index++)
        padding[index] = index != 3 && index != 5;
    const ct_tensor packed[] = { { "in_proj_weight", in_weight, 3 * E, E },
                                 { "in_proj_bias", in_bias, 3 * E, 0 },
                                 { "out_proj.weight", wo, E, E },
                                 { "out_proj.bias", out_bias, E, 0 } };
    const ct_tensor bert[] = { { "b.self.query.weight", in_weight, E, E },
                               { "b.self.key.weight", in_weight + E * E, E, E },
                               { "b.self.value.weight", in_weight + 2 * E * E, E, E },
                               { "b.self.query.bias", in_bias, E, 0 },
                               { "b.self.key.bias", in_bias + E, E, 0 },
                               { "b.self.value.bias", in_bias + 2 * E, E, 0 },
                               { "b.output.dense.weight", wo, E, E },
                               { "b.output.dense.bias", out_bias, E, 0 } };
    const ct_tensor separate[] = { { "q_proj_weight", wq, E, E },
                                   { "k_proj_weight", wk, E, W },
                                   { "v_proj_weight", wv, E, W },
                                   { "in_proj_bias", in_bias, 3 * E, 0 },
                                   { "out_proj.weight", wo, E, E } };
    ct_store_safetensors("packed.safetensors", packed, 4);
    ct_store_safetensors("bert.safetensors", bert, 8);
    ct_store_safetensors("separate.safetensors", separate, 5);
    ct_store("x.npy", TOOL_F32, x, CT_SHAPE(B, LQ, E));
    ct_store("x2.npy", TOOL_F32, x, CT_SHAPE(LQ, E));
    ct_store("context.npy", TOOL_F32, context, CT_SHAPE(B, LK, W));
    ct_store("padding.npy", TOOL_F32, padding, CT_SHAPE(B, LK));
    return 0;
}

/* ---- The module in double precision
 * -------------------------------------------------------------------------- */

/* out = in weight^T + bias, for rows of `wide` numbers. */
static void project(const float *in, size_t rows, size_t wide, const float *weight, const float *bias,
                    size_t out_wide, double *out)
{
    for (size_t row = 0; row < rows; row++) {
        for (size_t column = 0; column < out_wide; column++) {
            double sum = bias ? bias[column] : 0;
            for (size_t at = 0; at < wide; at++)
                sum += (double)in[row * wide + at] * (double)weight[column * wide + at];
            out[row * out_wide + column] = sum;
        }
    }
}

static double score(const double *q, const double *k, size_t size)
{
    double sum = 0;
    for (size_t at = 0; at < size; at++)
        sum += q[at] * k[at];
    return sum / sqrt((double)size);
}

/* Cross attention with the weights of separate.safetensors; keys of padding 0 are hidden when that is asked
 * for. */
static void cross_reference(bool with_padding, double *out, double *weights)
{
    static double q[B * LQ * E], k[B * LK * E], v[B * LK * E];
    enum { SIZE = E / H };
    project(x, B * LQ, E, wq, in_bias, E, q);
    project(context, B * LK, W, wk, in_bias + E, E, k);
    project(context, B * LK, W, wv, in_bias + 2 * E, E, v);
    for (size_t b = 0; b < B; b++) {
        for (size_t i = 0; i < LQ; i++) {
            double joined[E] = { 0 };
            for (size_t h = 0; h < H; h++) {
                double *row = weights + ((b * H + h) * LQ + i) * LK, sum = 0;
                for (size_t j = 0; j < LK; j++) {
                    bool seen = !with_padding || padding[b * LK + j] != 0;
                    row[j] = seen ? exp(score(q + (b * LQ + i) * E + h * SIZE,
                                              k + (b * LK + j) * E + h * SIZE, SIZE))
                                  : 0;
                    sum += row[j];
                }
                for (size_t j = 0; j < LK; j++) {
                    row[j] /= sum;
                    for (size_t d = 0; d < SIZE; d++)
                        joined[h * SIZE + d] += row[j] * v[(b * LK + j) * E + h * SIZE + d];
                }
            }
            for (size_t column = 0; column < E; column++) {
                double sum = 0;
                for (size_t at = 0; at < E; at++)
                    sum += joined[at] * (double)wo[column * E + at];
                out[(b * LQ + i) * E + column] = sum;
            }
        }
    }
}

static void assert_holds(const char *path, const int64_t *shape, const double *want)
{
    tool_array got = ct_load(path, TOOL_F32, shape);
    for (size_t index = 0; index < got.elements; index++) {
        double value = tool_array_get(&got, index);
        if (!(fabs(value - want[index]) <= 1e-5 * fabs(want[index]) + 2e-6))
            fail_msg("%s: element %zu is %.9g, not %.9g", path, index, value, want[index]);
    }
    tool_array_free(&got);
}

/* ---- Results
 * ------------------------------------------------------------------------------------------------- */

static void minilm_is_pytorchs_within_2e_5(void **state)
{
    (void)state;
    remove("map.png");
    int code = clattn(
        "%s --expect '%s:expected' --tolerance 2e-5 --attention a.npy --tokens '%s/minilm_tokens_0.txt' "
        "--plot map.png --json",
        minilm, MINILM, CLATTN_TEST_DATA);
    if (code != 0)
        fail_msg("%s", ct_stderr);
    cJSON *object = cJSON_ParseWithOpts(ct_stdout, NULL, true);
    assert_non_null(object);
    const cJSON *difference = cJSON_GetObjectItemCaseSensitive(object, "largest_difference");
    assert_true(cJSON_IsNumber(difference) && difference->valuedouble <= 2e-5);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(object, "naming")->valuestring, "BERT");
    cJSON_Delete(object);

    tool_array got = ct_load("a.npy", TOOL_F32, CT_SHAPE(2, 12, 19, 19));
    tool_array want = ct_load(MINILM ":expected_weights", TOOL_F32, CT_SHAPE(2, 12, 19, 19));
    for (size_t index = 0; index < got.elements; index++)
        assert_true(fabs(tool_array_get(&got, index) - tool_array_get(&want, index)) <= 1e-5);
    tool_array_free(&got);
    tool_array_free(&want);

    unsigned char head[24];
    FILE *file = fopen("map.png", "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_true(ftell(file) > 20000);
    fclose(file);
    assert_memory_equal(head, "\x89PNG\r\n\x1a\n", 8);
    int width = head[18] << 8 | head[19], height = head[22] << 8 | head[23];
    assert_true(width > 1200 && width < 4000 && height > 900 && height < 4000);
}

static void all_three_namings_give_the_same_output(void **state)
{
    (void)state;
    assert_int_equal(clattn("mha --weights packed.safetensors --x x.npy --heads 2 --out packed.npy"), 0);
    assert_non_null(strstr(ct_stdout, "weights named as by PyTorch, packed\n"));
    assert_int_equal(
        clattn("mha --weights bert.safetensors --prefix b. --x x.npy --heads 2 --expect packed.npy "
               "--tolerance 1e-6"),
        0);
    assert_non_null(strstr(ct_stdout, "weights named as by BERT\n"));
    assert_non_null(strstr(ct_stdout, "\nexpect  largest difference "));
    const ct_tensor separate[] = { { "q_proj_weight", in_weight, E, E },
                                   { "k_proj_weight", in_weight + E * E, E, E },
                                   { "v_proj_weight", in_weight + 2 * E * E, E, E },
                                   { "in_proj_bias", in_bias, 3 * E, 0 },
                                   { "out_proj.weight", wo, E, E },
                                   { "out_proj.bias", out_bias, E, 0 } };
    ct_store_safetensors("square.safetensors", separate, 6);
    assert_int_equal(
        clattn("mha --weights square.safetensors --x x.npy --heads 2 --expect packed.npy --tolerance 1e-6"),
        0);
    assert_non_null(strstr(ct_stdout, "weights named as by PyTorch, separate\n"));
}

static void known_weights_give_known_numbers(void **state)
{
    (void)state;
    const float identities[] = { 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 }, twice[] = { 2, 0, 0, 2 },
                ones[] = { 1, 1 };
    const ct_tensor tensors[] = { { "in_proj_weight", identities, 6, 2 },
                                  { "out_proj.weight", twice, 2, 2 },
                                  { "out_proj.bias", ones, 2, 0 } };
    const double want[] = { 2.3395231, 1.6604769, 1.6604769, 2.3395231 };
    ct_store_safetensors("known.safetensors", tensors, 3);
    ct_store("eye.npy", TOOL_F32, identities, CT_SHAPE(2, 2));
    assert_int_equal(clattn("mha --weights known.safetensors --x eye.npy --heads 1 --out o.npy"), 0);
    assert_holds("o.npy", CT_SHAPE(2, 2), want);
}

static void cross_attention_reads_the_context(void **state)
{
    (void)state;
    static double out[B * LQ * E], weights[B * H * LQ * LK];
    const char run[] =
        "mha --weights separate.safetensors --x x.npy --context context.npy --heads 2 --out o.npy "
        "--attention a.npy";
    cross_reference(false, out, weights);
    assert_int_equal(clattn("%s", run), 0);
    assert_holds("o.npy", CT_SHAPE(B, LQ, E), out);
    assert_holds("a.npy", CT_SHAPE(B, H, LQ, LK), weights);
    cross_reference(true, out, weights);
    assert_int_equal(clattn("%s --key-padding padding.npy", run), 0);
    assert_holds("o.npy", CT_SHAPE(B, LQ, E), out);
    assert_holds("a.npy", CT_SHAPE(B, H, LQ, LK), weights);
}

static void key_padding_is_keep_unless_drop_is_asked_for(void **state)
{
    (void)state;
    bool keep[B * LQ], drop[B * LQ];
    for (size_t index = 0; index < B * LQ; index++)
        drop[index] = !(keep[index] = index != 2 && index != 4);
    ct_store("keep.npy", TOOL_BOOL, keep, CT_SHAPE(B, LQ));
    ct_store("drop.npy", TOOL_BOOL, drop, CT_SHAPE(B, LQ));
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --key-padding keep.npy --out kept.npy"),
        0);
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --key-padding drop.npy --drop-padding "
               "--expect kept.npy --tolerance 0"),
        0);
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --expect kept.npy --tolerance 1e-3"), 1);
    ct_complains("the largest difference from kept.npy is", "more than --tolerance 0.001");
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --expect kept.npy --tolerance -1"), 2);
    ct_complains("--tolerance -1: at least 0 is wanted");
}

static void two_axes_mean_one_batch(void **state)
{
    (void)state;
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x2.npy --heads 2 --out o.npy --attention a.npy"), 0);
    tool_array got = ct_load("o.npy", TOOL_F32, CT_SHAPE(LQ, E));
    tool_array_free(&got);
    got = ct_load("a.npy", TOOL_F32, CT_SHAPE(H, LQ, LQ));
    for (size_t row = 0; row < H * LQ; row++) {
        double sum = 0;
        for (size_t column = 0; column < LQ; column++)
            sum += tool_array_get(&got, row * LQ + column);
        assert_true(fabs(sum - 1) < 1e-5);
    }
    tool_array_free(&got);
}

static void says_device_kernel_shape_and_times(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "device  ",   "\nkernel  ", "\nshape   batch 2, heads 12, queries 19, keys 19",
        "\nfirst   ", "\nwarm    ", "\nout     (2, 19, 384) f32: min "
    };
    assert_int_equal(clattn("%s --repeat 3", minilm), 0);
    for (size_t index = 0; index < sizeof lines / sizeof lines[0]; index++)
        assert_non_null(strstr(ct_stdout, lines[index]));
    assert_non_null(strstr(ct_stdout, "median of 3 calls"));
    assert_int_equal(clattn("%s --gemm plain", minilm), 0);
    assert_non_null(strstr(ct_stdout, "\ngemm    plain\n"));
    assert_int_equal(clattn("%s --gemm no-such-row", minilm), 1);
    ct_complains("clattn mha: ", "gemm no-such-row: there is no matrix multiplication of that name");
}

static void help_names_every_option_and_gives_an_example(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "--weights ",        "--prefix ",     "--x ",
        "--context ",        "--heads ",      "--key-padding ",
        "--drop-padding ",   "--out ",        "--attention ",
        "--plot ",           "--plot-batch ", "--tokens ",
        "--context-tokens ", "--expect ",     "--tolerance ",
        "--device ",         "--kernel ",     "--gemm ",
        "--repeat ",         "--json ",       "example:\n  clattn mha --weights"
    };
    assert_int_equal(clattn("mha --help"), 0);
    for (size_t index = 0; index < sizeof parts / sizeof parts[0]; index++) {
        if (!strstr(ct_stdout, parts[index]))
            fail_msg("no %s in %s", parts[index], ct_stdout);
    }
}

/* ---- Complaints
 * ---------------------------------------------------------------------------------------------- */

static void wrong_usage_ends_with_2_and_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "--x x.npy --heads 2", "--weights is missing" },
        { "--weights w --heads 2", "--x is missing" },
        { "--weights w --x x.npy", "--heads is missing" },
        { "--weights w --x x.npy --heads 0", "--heads 0: at least 1 is wanted" },
        { "--weigths w", "the nearest is --weights" },
        { "--weights w --x x.npy --heads 2 --drop-padding", "--drop-padding needs --key-padding" },
        { "--weights w --x x.npy --heads 2 --tolerance 1", "--tolerance needs --expect" },
        { "--weights w --x x.npy --heads 2 --tokens t", "--tokens needs --plot" },
        { "--weights w --x x.npy --heads 2 --plot p --context-tokens t", "--context-tokens needs --context" },
        { "--weights w --x x.npy --heads 2 --kernel no-such-row", "--kernel no-such-row: unknown" },
        { "--weights packed.safetensors --x x.npy --heads 2 --plot p.png --plot-batch 2",
          "--plot-batch 2: the batch has 2 items" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn("mha %s", cases[index].arguments) != 2)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains("clattn mha: ", cases[index].part);
    }
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *part;
    } cases[] = {
        { "--weights bert.safetensors --x x.npy --heads 2",
          "under the prefix \"\"; it has them under \"b.\"" },
        { "--weights x.npy --x x.npy --heads 2", "x.npy: header of" },
        { "--weights packed.safetensors --x padding.npy --heads 2",
          "packed.safetensors: the in-projection has shape (18, 6), x of width 4 and context of width 4 ask "
          "for (12, 4)" },
        { "--weights packed.safetensors --x x.npy --context context.npy --heads 2 --json", "clattn mha: " },
        { "--weights separate.safetensors --x x.npy --heads 2", "the key projection has shape (6, 5)" },
        { "--weights packed.safetensors --x x.npy --heads 4", "4" },
        { "--weights packed.safetensors --x x.npy --context x2.npy --heads 2",
          "--context has 2 axes, --x has 3" },
        { "--weights packed.safetensors --x whole.npy --heads 2",
          "--x: whole.npy holds i32, floats are wanted" },
        { "--weights packed.safetensors --x x.npy --heads 2 --key-padding padding.npy",
          "--key-padding: padding.npy has shape (2, 4), the keys have (2, 3)" },
        { "--weights packed.safetensors --x x.npy --heads 2 --key-padding two.npy",
          "two.npy: 2 at element 1 is neither 0 nor 1" },
        { "--weights packed.safetensors --x x.npy --heads 2 --expect padding.npy",
          "--expect: padding.npy has shape (2, 4), the output has (2, 3, 6)" },
        { "--weights packed.safetensors --x x.npy --heads 2 --plot p.png --tokens two.txt",
          "--tokens: two.txt has 2 lines, the sequence has 3 tokens" },
        { "--weights absent.safetensors --x x.npy --heads 2",
          "absent.safetensors: No such file or directory" },
        { "--weights packed.safetensors --x packed.safetensors:in_proj --heads 2",
          "no tensor in_proj; the nearest of its 4 is in_proj_bias" },
    };
    const int32_t twos[B * LQ] = { 1, 2, 1, 1, 1, 1 };
    ct_store("two.npy", TOOL_I32, twos, CT_SHAPE(B, LQ));
    ct_store("whole.npy", TOOL_I32, twos, CT_SHAPE(1, E));
    FILE *file = fopen("two.txt", "wb");
    assert_non_null(file);
    fputs("one\ntwo\n", file);
    fclose(file);
    remove("p.png");
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        if (clattn("mha %s", cases[index].arguments) != 1)
            fail_msg("%s: %s", cases[index].arguments, ct_stderr);
        ct_complains("clattn mha: ", cases[index].part);
    }
    assert_false(ct_is_file("p.png"));
}

static void a_failed_picture_leaves_no_output(void **state)
{
    (void)state;
    remove("never.npy");
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --out never.npy --plot /dev/full"), 1);
    ct_complains("/dev/full: cannot");
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --out never.npy --plot nowhere/p.png"),
        1);
    ct_complains("nowhere/p.png: cannot write");
    assert_int_equal(
        clattn("mha --weights packed.safetensors --x x.npy --heads 2 --out never.npy --expect x.npy "
               "--tolerance 0"),
        1);
    ct_complains("more than --tolerance 0");
    assert_false(ct_is_file("never.npy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minilm_is_pytorchs_within_2e_5),
        cmocka_unit_test(all_three_namings_give_the_same_output),
        cmocka_unit_test(known_weights_give_known_numbers),
        cmocka_unit_test(cross_attention_reads_the_context),
        cmocka_unit_test(key_padding_is_keep_unless_drop_is_asked_for),
        cmocka_unit_test(two_axes_mean_one_batch),
        cmocka_unit_test(says_device_kernel_shape_and_times),
        cmocka_unit_test(help_names_every_option_and_gives_an_example),
        cmocka_unit_test(wrong_usage_ends_with_2_and_one_line),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(a_failed_picture_leaves_no_output),
    };
    return cmocka_run_group_tests(tests, store_inputs, NULL);
}
