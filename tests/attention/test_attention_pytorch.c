/* tests/attention/test_attention_pytorch.c: the stored problems of tests/data/attention.safetensors: the
 * oracle and every row of the table give what PyTorch gave. */
#include "support/attention_case.h"
#include "support/compare.h"

#include "files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_PROBLEMS = 30, NAME_BYTES = 128 };

static tool_safetensors *file;

static int open_file(void **state)
{
    tool_error error;
    if (!tool_safetensors_open(CLATTN_TEST_DATA "/attention.safetensors", &file, &error)) {
        print_error("%s\n", error.text);
        return 1;
    }
    return ct_setup(state);
}

static int close_file(void **state)
{
    tool_safetensors_close(file);
    return ct_teardown(state);
}

static bool has(const char *problem, const char *part)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s.%s", problem, part);
    return tool_safetensors_has(file, name);
}

static tool_array load(const char *problem, const char *part)
{
    char name[NAME_BYTES];
    tool_array array;
    tool_error error;
    snprintf(name, sizeof name, "%s.%s", problem, part);
    if (!tool_safetensors_read(file, name, &array, &error))
        ct_fail("%s", error.text);
    return array;
}

/* Sets all elements from a stored tensor that has as many, or fewer along axes that repeat. */
static void set(ct_array *to, const char *problem, const char *part)
{
    tool_array from = load(problem, part);
    int64_t stride[4] = { 0, 0, 0, 0 };
    int64_t step = 1;
    for (int axis = from.rank - 1; axis >= 0; axis--) {
        int64_t full = to->extent[4 - from.rank + axis];
        assert_true(from.shape[axis] == full || from.shape[axis] == 1);
        stride[4 - from.rank + axis] = from.shape[axis] == 1 ? 0 : step;
        step *= from.shape[axis];
    }
    for (int64_t b = 0; b < to->extent[0]; b++)
        for (int64_t h = 0; h < to->extent[1]; h++)
            for (int64_t r = 0; r < to->extent[2]; r++)
                for (int64_t c = 0; c < to->extent[3]; c++) {
                    int64_t at = b * stride[0] + h * stride[1] + r * stride[2] + c * stride[3];
                    ct_array_set(to, b, h, r, c, tool_array_get(&from, (size_t)at));
                }
    tool_array_free(&from);
}

static void mask_shape(const char *problem, const char *part, int64_t extent[4])
{
    tool_array mask = load(problem, part);
    assert_int_equal(mask.rank, 4);
    memcpy(extent, mask.shape, 4 * sizeof *extent);
    tool_array_free(&mask);
}

static void make_case(const char *problem, ct_case *c)
{
    tool_array sizes = load(problem, "sizes");
    tool_array scale = load(problem, "scale");
    int64_t n[12];
    assert_int_equal(sizes.elements, 12);
    for (size_t i = 0; i < 12; i++)
        n[i] = (int64_t)tool_array_get(&sizes, i);
    ct_case_init(c, n[0], n[1], n[2], n[3], n[4], n[5], n[6]);
    c->desc.dtype = (clattn_dtype)n[7];
    c->desc.causal = n[8] != 0;
    c->desc.alignment = (clattn_alignment)n[9];
    c->desc.window_left = n[10];
    c->desc.window_right = n[11];
    c->desc.scale = (float)tool_array_get(&scale, 0);
    c->desc.softcap = (float)tool_array_get(&scale, 1);
    c->desc.lse = true;
    c->desc.weights = CLATTN_WEIGHTS_FULL;
    c->desc.keep = has(problem, "keep");
    c->desc.bias = has(problem, "bias");
    c->desc.sinks = has(problem, "sinks");
    c->desc.lengths_q = c->desc.lengths_kv = has(problem, "lengths");
    if (c->desc.keep)
        mask_shape(problem, "keep", c->keep_extent);
    if (c->desc.bias)
        mask_shape(problem, "bias", c->bias_extent);
    if (c->desc.lengths_q) {
        tool_array lengths = load(problem, "lengths");
        for (int64_t b = 0; b < c->batch; b++) {
            c->rows_q[b] = (int32_t)tool_array_get(&lengths, (size_t)b);
            c->rows_kv[b] = (int32_t)tool_array_get(&lengths, (size_t)(c->batch + b));
        }
        tool_array_free(&lengths);
    }
    tool_array_free(&sizes);
    tool_array_free(&scale);
    ct_case_fill(c);
    set(&c->q, problem, "q");
    set(&c->k, problem, "k");
    set(&c->v, problem, "v");
    if (c->desc.keep)
        set(&c->keep, problem, "keep");
    if (c->desc.bias)
        set(&c->bias, problem, "bias");
    if (c->desc.sinks)
        set(&c->sinks, problem, "sinks");
}

/* The oracle's numbers go through the outputs of the case, so that one comparison serves: rounded to the
 * storage type and then as near PyTorch's as two roundings allow. */
static void compare_oracle(ct_case *c, const char *problem)
{
    ct_case_expect(c);
    ct_array_set_all(&c->out, c->want_out);
    ct_array_set_all(&c->lse, c->want_lse);
    ct_array_set_all(&c->weights, c->want_weights);
    const char *const parts[] = { "out", "lse", "weights" };
    double *const want[] = { c->want_out, c->want_lse, c->want_weights };
    for (int n = 0; n < 3; n++) {
        tool_array stored = load(problem, parts[n]);
        for (size_t i = 0; i < stored.elements; i++)
            want[n][i] = tool_array_get(&stored, i);
        tool_array_free(&stored);
    }
    ct_subject("the oracle: %s", problem);
    ct_case_compare(c);
}

/* Problems in the file's order: the name before the point, once. */
static size_t each_problem(void (*body)(const char *problem))
{
    size_t count = 0;
    for (size_t i = 0; i < tool_safetensors_count(file); i++) {
        char problem[NAME_BYTES];
        const char *name = tool_safetensors_name(file, i);
        const char *point = strchr(name, '.');
        assert_non_null(point);
        if (strcmp(point, ".q") != 0)
            continue;
        snprintf(problem, sizeof problem, "%.*s", (int)(point - name), name);
        body(problem);
        count++;
    }
    return count;
}

static void check_oracle(const char *problem)
{
    ct_case c;
    make_case(problem, &c);
    compare_oracle(&c, problem);
    ct_case_free(&c);
}

static void oracle_gives_what_pytorch_gives(void **state)
{
    (void)state;
    assert_true(each_problem(check_oracle) >= FEWEST_PROBLEMS);
}

/* The smaller suites leave out what needs kernels for more head sizes. */
static void check_rows(const char *problem)
{
    ct_case c;
    make_case(problem, &c);
    if (ct_suite_size() == CT_FULL || (c.desc.d_qk == 8 && c.desc.d_v == 8 && c.desc.dtype == CLATTN_F32)) {
        compare_oracle(&c, problem);
        ct_case_check_wanted(&c);
    }
    ct_case_free(&c);
}

static void every_row_gives_what_pytorch_gives(void **state)
{
    (void)state;
    each_problem(check_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_gives_what_pytorch_gives),
        cmocka_unit_test(every_row_gives_what_pytorch_gives),
    };
    return cmocka_run_group_tests(tests, open_file, close_file);
}
