/* tests/gemm/test_gemm.c: batched matrix multiplication, every row of its table, against sums in double. Also
 * proves that CLBlast's strided batched call is wrong where we avoid it. */
#include "support/harness.h"

#include "gemm/gemm.h"
#include "support/array.h"
#include "support/cl_shim.h"
#include "support/clblast.h"
#include "support/compare.h"

#include <clblast_c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gemm_case {
    int64_t batch, m, n, k;
    bool transpose_b;
    double alpha, beta;
    int64_t offset;    /* elements before the first */
    int64_t row_gap;   /* elements between rows */
    int64_t batch_gap; /* elements between matrices */
    bool share_b;      /* batch stride 0 */
    bool interleave;   /* C (and A) as (m, batch, columns): the batch lies within a row */
    int64_t overlap;   /* elements that rows of A and B share with the next */
} gemm_case;

/* What only some cases have. */
typedef struct gemm_more {
    bool bias;
    clattn_dtype a, b; /* how the operands are stored */
} gemm_more;

typedef struct operands {
    ct_array a, b, c, bias;
    double *want;
} operands;

static void lay_out(ct_array *array, const gemm_case *g, clattn_dtype dtype, int64_t height, int64_t width,
                    bool share, int64_t overlap)
{
    const int64_t batch = share ? 1 : g->batch;
    const int64_t ld = (g->interleave && !share ? g->batch * width : width) + g->row_gap - overlap;
    const int64_t stride = share ? 0 : g->interleave ? width : height * ld + overlap + g->batch_gap;
    const int64_t extent[4] = { batch, 1, height, width };
    const int64_t strides[4] = { stride, 0, ld, 1 };
    ct_array_make(array, ct_type_of(dtype), extent, strides, (size_t)g->offset * clattn_dtype_bytes(dtype));
}

static void fill(ct_array *array, ct_random *random, double scale)
{
    for (int64_t z = 0; z < array->extent[0]; z++)
        for (int64_t r = 0; r < array->extent[2]; r++)
            for (int64_t c = 0; c < array->extent[3]; c++)
                ct_array_set(array, z, 0, r, c, scale * ct_random_normal(random));
}

static operands make_operands(const gemm_case *g, gemm_more more)
{
    operands o = { 0 };
    ct_random random = ct_random_from((uint64_t)(g->m * 1000003 + g->n * 1009 + g->k));
    lay_out(&o.a, g, more.a, g->m, g->k, false, g->overlap);
    lay_out(&o.b, g, more.b, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->share_b,
            g->overlap);
    lay_out(&o.c, g, CLATTN_F32, g->m, g->n, false, 0);
    const int64_t bias_extent[4] = { 1, 1, 1, g->n }, bias_strides[4] = { g->n, g->n, g->n, 1 };
    ct_array_make(&o.bias, CT_F32, bias_extent, bias_strides, (size_t)g->offset * sizeof(float));
    fill(&o.bias, &random, 1);
    fill(&o.a, &random, g->k ? 0.125 / sqrt((double)g->k) : 1);
    fill(&o.b, &random, 1);
    if (g->beta != 0)
        fill(&o.c, &random, 1);
    o.want = ct_alloc((size_t)(g->batch * g->m * g->n + 1) * sizeof(double));
    for (int64_t z = 0, at = 0; z < g->batch; z++)
        for (int64_t r = 0; r < g->m; r++)
            for (int64_t c = 0; c < g->n; c++, at++) {
                const int64_t zb = g->share_b ? 0 : z;
                double sum = 0;
                for (int64_t p = 0; p < g->k; p++)
                    sum +=
                        ct_array_get(&o.a, z, 0, r, p) *
                        (g->transpose_b ? ct_array_get(&o.b, zb, 0, c, p) : ct_array_get(&o.b, zb, 0, p, c));
                o.want[at] = g->alpha * sum + (g->beta != 0 ? g->beta * ct_array_get(&o.c, z, 0, r, c) : 0) +
                             (more.bias ? ct_array_get(&o.bias, 0, 0, 0, c) : 0);
            }
    ct_array_upload(&o.a, CL_MEM_READ_ONLY);
    ct_array_upload(&o.b, CL_MEM_READ_ONLY);
    ct_array_upload(&o.bias, CL_MEM_READ_ONLY);
    ct_array_upload(&o.c, CL_MEM_READ_WRITE);
    return o;
}

static void free_operands(operands *o)
{
    ct_array *arrays[] = { &o->a, &o->b, &o->c, &o->bias };
    for (int i = 0; i < 4; i++) {
        ct_array_release_buffer(arrays[i]);
        ct_array_free(arrays[i]);
    }
    free(o->want);
}

static ca_matrix matrix_of(const ct_array *array)
{
    return (ca_matrix){ array->buffer, array->offset_bytes / ct_type_bytes(array->type),
                        (size_t)array->stride[2], (size_t)array->stride[0] };
}

static ca_gemm_problem problem_of(const gemm_case *g, const operands *o)
{
    return (ca_gemm_problem){ .batch = (size_t)g->batch,
                              .m = (size_t)g->m,
                              .n = (size_t)g->n,
                              .k = (size_t)g->k,
                              .transpose_b = g->transpose_b,
                              .alpha = (float)g->alpha,
                              .beta = (float)g->beta,
                              .a = matrix_of(&o->a),
                              .b = matrix_of(&o->b),
                              .c = matrix_of(&o->c) };
}

static void check_case_with(ca_gemm *gemm, const gemm_case *g, gemm_more more)
{
    char name[160];
    snprintf(name, sizeof name,
             "%s: batch %d m %d n %d k %d transpose_b %d alpha %g beta %g bias %d offset %d gaps %d %d",
             ca_gemm_name(gemm), (int)g->batch, (int)g->m, (int)g->n, (int)g->k, g->transpose_b, g->alpha,
             g->beta, more.bias, (int)g->offset, (int)g->row_gap, (int)g->batch_gap);
    operands o = make_operands(g, more);
    ca_gemm_problem problem = problem_of(g, &o);
    if (more.bias) {
        problem.bias = o.bias.buffer;
        problem.bias_offset = o.bias.offset_bytes / sizeof(float);
    }
    ct_ok(ca_gemm_enqueue(gemm, ct_queue(), &problem));
    ct_cl_ok(clFinish(ct_queue()));
    ct_array_download(&o.c);
    ct_expect(&o.c, o.want, name);
    ct_array_check_canaries(&o.c, name);
    free_operands(&o);
}

static void check_case(ca_gemm *gemm, const gemm_case *g)
{
    check_case_with(gemm, g, (gemm_more){ false, CLATTN_F32, CLATTN_F32 });
}

enum { INDIRECT = 0, DIRECT = 2097151 };

static void override_path(size_t min_indirect_size)
{
    const char *names[] = { "XGEMM_MIN_INDIRECT_SIZE" };
    ct_clblast_override("GemmRoutine", 1, names, &min_indirect_size);
}

/* Calls `check` with a multiplier of every row that takes these types on the device; at least one does. */
static void for_each_row_of(clattn_dtype a, clattn_dtype b, void (*check)(ca_gemm *gemm))
{
    int checked = 0;
    for (size_t i = 0; ca_gemm_row_name(i); i++) {
        if (ca_gemm_refusal(ct_context(), ca_gemm_row_name(i), a, b))
            continue;
        ca_gemm *gemm = NULL;
        ct_ok(ca_gemm_create(ct_context(), ca_gemm_row_name(i), a, b, &gemm));
        assert_string_equal(ca_gemm_name(gemm), ca_gemm_row_name(i));
        check(gemm);
        ca_gemm_destroy(gemm);
        checked++;
    }
    assert_true(checked > 0);
}

static void for_each_row(void (*check)(ca_gemm *gemm))
{
    for_each_row_of(CLATTN_F32, CLATTN_F32, check);
}

static const gemm_more with_bias = { true, CLATTN_F32, CLATTN_F32 };

static void check_shapes(ca_gemm *gemm)
{
    static const int64_t shapes[][4] = {
        { 1, 1, 1, 1 },    { 2, 5, 3, 7 },      { 1, 9, 33, 17 },    { 1, 1, 70, 20 },   { 1, 40, 1, 33 },
        { 3, 32, 32, 16 }, { 2, 31, 63, 129 },  { 1, 130, 65, 300 }, { 1, 17, 97, 801 }, { 2, 9, 400, 40 },
        { 2, 8, 48, 128 }, { 1, 128, 32, 128 }, { 1, 129, 31, 127 }, { 5, 16, 100, 64 },
    };
    const size_t count = (size_t)ct_by_size(3, 10, sizeof shapes / sizeof shapes[0]);
    for (size_t i = 0; i < count; i++)
        for (int transpose = 0; transpose < 2; transpose++) {
            const int64_t *s = shapes[i];
            check_case(gemm,
                       &(gemm_case){ s[0], s[1], s[2], s[3], transpose, 1, 0, 0, 0, 0, false, false, 0 });
            check_case_with(
                gemm, &(gemm_case){ s[0], s[1], s[2], s[3], transpose, 0.5, -1.5, 5, 3, 11, false, false, 0 },
                with_bias);
        }
}

static void multiplies_all_shapes(void **state)
{
    (void)state;
    for_each_row(check_shapes);
}

static void check_factors(ca_gemm *gemm)
{
    static const double factors[][2] = { { 1, 1 }, { -2, 0 }, { 0.25, 1 }, { 0, 2 } };
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        const gemm_case g = { 2, 6, 11, 5, true, factors[i][0], factors[i][1], 1, 0, 0, false, false, 0 };
        check_case(gemm, &g);
        check_case_with(gemm, &g, with_bias);
    }
}

static void applies_alpha_beta_and_bias(void **state)
{
    (void)state;
    for_each_row(check_factors);
}

static void check_layouts(ca_gemm *gemm)
{
    for (int transpose = 0; transpose < 2; transpose++) {
        check_case(gemm, &(gemm_case){ 3, 6, 10, 9, transpose, 1, 0, 0, 0, 0, true, false, 0 });
        check_case(gemm, &(gemm_case){ 3, 6, 10, 9, transpose, 1, 1, 7, 0, 0, false, true, 0 });
        check_case(gemm, &(gemm_case){ 4, 1, 12, 9, transpose, 1, 0, 0, 2, 0, true, true, 0 });
        check_case(gemm, &(gemm_case){ 2, 6, 10, 9, transpose, 1, 0, 0, 0, 0, false, false, 5 });
    }
}

static void reads_shared_and_interleaved_matrices(void **state)
{
    (void)state;
    for_each_row(check_layouts);
}

static void check_empty(ca_gemm *gemm)
{
    for (int transpose = 0; transpose < 2; transpose++) {
        check_case(gemm, &(gemm_case){ 2, 7, 40, 0, transpose, 1, 0, 0, 0, 0, false, false, 0 });
        check_case(gemm, &(gemm_case){ 2, 7, 40, 0, transpose, 1, 0.5, 3, 2, 1, false, false, 0 });
        check_case_with(gemm, &(gemm_case){ 2, 7, 40, 0, transpose, 1, 0, 3, 2, 1, false, false, 0 },
                        with_bias);
        check_case(gemm, &(gemm_case){ 0, 7, 40, 5, transpose, 1, 0, 0, 0, 0, false, false, 0 });
        check_case(gemm, &(gemm_case){ 2, 0, 40, 5, transpose, 1, 0, 0, 0, 0, false, false, 0 });
        check_case(gemm, &(gemm_case){ 2, 7, 0, 5, transpose, 1, 0, 0, 0, 0, false, false, 0 });
    }
}

static void takes_sizes_of_zero(void **state)
{
    (void)state;
    for_each_row(check_empty);
}

static void check_types(ca_gemm *gemm, clattn_dtype a, clattn_dtype b)
{
    for (int transpose = 0; transpose < 2; transpose++) {
        check_case_with(gemm, &(gemm_case){ 2, 10, 70, 37, transpose, 1, 0, 0, 0, 0, false, false, 0 },
                        (gemm_more){ false, a, b });
        check_case_with(gemm, &(gemm_case){ 1, 3, 20, 8, transpose, 2, 1, 3, 1, 0, false, false, 0 },
                        (gemm_more){ true, a, b });
    }
}

static void check_f16_times_bf16(ca_gemm *gemm)
{
    check_types(gemm, CLATTN_F16, CLATTN_BF16);
}

static void check_bf16_times_f16(ca_gemm *gemm)
{
    check_types(gemm, CLATTN_BF16, CLATTN_F16);
}

static void reads_f16_and_bf16(void **state)
{
    (void)state;
    for_each_row_of(CLATTN_F16, CLATTN_BF16, check_f16_times_bf16);
    for_each_row_of(CLATTN_BF16, CLATTN_F16, check_bf16_times_f16);
}

static void names_the_type_that_a_row_cannot_read(void **state)
{
    (void)state;
    ca_gemm *gemm = NULL;
    ct_rejects(ca_gemm_create(ct_context(), "clblast", CLATTN_F32, CLATTN_F16, &gemm), CLATTN_UNSUPPORTED,
               "clblast", "f32");
    assert_null(gemm);
    ct_ok(ca_gemm_create(ct_context(), NULL, CLATTN_F32, CLATTN_F32, &gemm));
    const bool refuses = ca_gemm_refusal(ct_context(), ca_gemm_name(gemm), CLATTN_F16, CLATTN_F16) != NULL;
    assert_int_equal(ca_gemm_reads(ct_context(), NULL, CLATTN_F16), refuses ? CLATTN_F32 : CLATTN_F16);
    ca_gemm_destroy(gemm);
}

static void check_rejections(ca_gemm *gemm)
{
    const gemm_case g = { 2, 6, 7, 8, false, 1, 0, 0, 0, 0, false, false, 0 };
    operands o = make_operands(&g, with_bias);
    const ca_gemm_problem good = problem_of(&g, &o);
    ca_gemm_problem bad = good;
    bad.c.stride = 0;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_INVALID_ARGUMENT, "matrix c", "stride of 0");
    bad = good;
    bad.a.buffer = NULL;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_INVALID_ARGUMENT, "matrix a", "no buffer");
    bad = good;
    bad.c.ld = 6;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_INVALID_SHAPE, "matrix c", "7", "6");
    bad = good;
    bad.a.stride = 1000000;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_BUFFER_TOO_SMALL, "matrix a");
    bad = good;
    bad.bias = o.bias.buffer;
    bad.bias_offset = 1000000;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_BUFFER_TOO_SMALL, "matrix bias");
    bad = good;
    bad.c.offset = SIZE_MAX / 2;
    ct_rejects(ca_gemm_enqueue(gemm, ct_queue(), &bad), CLATTN_SIZE_OVERFLOW, "matrix c");
    ct_cl_ok(clFinish(ct_queue()));
    ct_array_download(&o.c);
    assert_true(isnan(ct_array_get(&o.c, 0, 0, 0, 0)));
    free_operands(&o);
}

static void rejects_bad_problems_and_writes_nothing(void **state)
{
    (void)state;
    for_each_row(check_rejections);
}

static void names_an_unknown_row(void **state)
{
    (void)state;
    ca_gemm *gemm = NULL;
    assert_non_null(ca_gemm_refusal(ct_context(), "fast", CLATTN_F32, CLATTN_F32));
    ct_rejects(ca_gemm_create(ct_context(), "fast", CLATTN_F32, CLATTN_F32, &gemm), CLATTN_UNSUPPORTED,
               "fast");
    assert_null(gemm);
}

static void picks_the_first_row_that_does_not_refuse(void **state)
{
    (void)state;
    size_t first = 0;
    while (ca_gemm_refusal(ct_context(), ca_gemm_row_name(first), CLATTN_F32, CLATTN_F32))
        first++;
    ca_gemm *gemm = NULL;
    ct_ok(ca_gemm_create(ct_context(), NULL, CLATTN_F32, CLATTN_F32, &gemm));
    assert_string_equal(ca_gemm_name(gemm), ca_gemm_row_name(first));
    ca_gemm_destroy(gemm);
}

/* ---- CLBlast ---------------------------------------------------------------------------------------- */

static void clblast_row_is_right_on_its_indirect_path(void **state)
{
    (void)state;
    override_path(INDIRECT);
    ca_gemm *gemm = NULL;
    ct_ok(ca_gemm_create(ct_context(), "clblast", CLATTN_F32, CLATTN_F32, &gemm));
    const int64_t side = ct_by_size(16, 64, 64);
    for (int run = 0; run < 16; run += (int)ct_by_size(5, 1, 1)) {
        const int64_t offset = run & 1 ? side * side : 0, gap = run & 2 ? side : 0,
                      row_gap = run & 8 ? side : 0;
        check_case(gemm,
                   &(gemm_case){ 2, side, side, side, run & 4, 1, 0, offset, row_gap, gap, false, false, 0 });
    }
    check_case(gemm, &(gemm_case){ 2, 9, 20, 10, true, 1, 1, 0, 0, 0, false, false, 0 });
    check_case(gemm, &(gemm_case){ 2, 9, 20, 10, false, 2, 1, 0, 0, 0, false, false, 0 });
    ca_gemm_destroy(gemm);
    override_path(DIRECT);
}

static void clblast_strided_batched_is_wrong_where_we_avoid_it(void **state)
{
    (void)state;
    override_path(INDIRECT);
    const int64_t side = ct_by_size(16, 64, 64);
    const gemm_case g = { 2, side, side, side, false, 1, 0, side * side, 0, 0, false, false, 0 };
    operands o = make_operands(&g, with_bias);
    const ca_gemm_problem p = problem_of(&g, &o);
    cl_command_queue queue = ct_queue();
    assert_int_equal(CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo,
                                                p.m, p.n, p.k, 1, p.a.buffer, p.a.offset, p.a.ld, p.a.stride,
                                                p.b.buffer, p.b.offset, p.b.ld, p.b.stride, 0, p.c.buffer,
                                                p.c.offset, p.c.ld, p.c.stride, p.batch, &queue, NULL),
                     CLBlastSuccess);
    ct_cl_ok(clFinish(queue));
    ct_array_download(&o.c);
    const ct_difference difference = ct_compare(&o.c, o.want);
    assert_false(ct_same(&difference));
    free_operands(&o);
    override_path(DIRECT);
}

static void clblast_keeps_nothing_after_the_last_context(void **state)
{
    (void)state;
    cl_device_id device = ct_device();
    cl_int error;
    const cl_shim_counts before = cl_shim_count();
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    ct_cl_ok(error);
    clattn_context *context = NULL;
    ct_ok(clattn_context_wrap(cl, device, NULL, &context));
    ca_gemm *gemm = NULL;
    ct_ok(ca_gemm_create(context, "clblast", CLATTN_F32, CLATTN_F32, &gemm));
    ct_cl_ok(clFinish(clattn_context_queue(context)));
    ca_gemm_destroy(gemm);
    clattn_context_destroy(context);
    ct_cl_ok(clReleaseContext(cl));
    const cl_shim_counts after = cl_shim_count();
    if (!cl_shim_same_live(&before, &after))
        fail_msg("left behind: %s", cl_shim_live_text(&after));
}

static int set_up(void **state)
{
    const int failed = ct_setup(state);
    override_path(DIRECT);
    return failed;
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(multiplies_all_shapes),
        cmocka_unit_test(applies_alpha_beta_and_bias),
        cmocka_unit_test(reads_shared_and_interleaved_matrices),
        cmocka_unit_test(takes_sizes_of_zero),
        cmocka_unit_test(reads_f16_and_bf16),
        cmocka_unit_test(names_the_type_that_a_row_cannot_read),
        cmocka_unit_test(rejects_bad_problems_and_writes_nothing),
        cmocka_unit_test(names_an_unknown_row),
        cmocka_unit_test(picks_the_first_row_that_does_not_refuse),
        cmocka_unit_test(clblast_row_is_right_on_its_indirect_path),
        cmocka_unit_test(clblast_strided_batched_is_wrong_where_we_avoid_it),
    };
    const struct CMUnitTest last[] = { cmocka_unit_test(clblast_keeps_nothing_after_the_last_context) };
    const int failed = cmocka_run_group_tests_name("gemm", own, set_up, ct_teardown);
    return failed + cmocka_run_group_tests_name("gemm, after its context", last, set_up, ct_teardown);
}
