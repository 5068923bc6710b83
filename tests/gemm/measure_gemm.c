/* tests/gemm/measure_gemm.c: the speed of the host layer's matrix multiplication, in turns with the device's
 * own multiply-adds: the figures of the README. For developers:
 *   measure_gemm [SECONDS [ROW]]    seconds of each case, 1; a row of gemm.c's table, the device's own
 * CLATTN_DEVICE chooses the device. Ends with 1 when a row is refused or its numbers are wrong. */
#include "bench.h"
#include "gemm/gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 10, PEAKS_A_ROUND = 3, SAMPLES_WANTED = 20, ROWS_CHECKED = 4 };

/* 2048 cubed; projections of a layer that is 768 wide, one matrix and four; scores and mix of 12 heads. */
static const struct {
    size_t batch, m, n, k;
    bool transpose_b, bias;
} cases[] = {
    { 1, 2048, 2048, 2048, false, false }, { 1, 2048, 2048, 2048, true, true },
    { 1, 512, 768, 768, false, false },    { 1, 512, 768, 768, true, true },
    { 4, 512, 768, 768, false, false },    { 4, 512, 768, 768, true, true },
    { 12, 512, 512, 64, true, false },     { 12, 512, 64, 512, false, false },
};
enum { CASES = sizeof cases / sizeof cases[0], A = 0, B, BIAS, C, OPERANDS };

typedef struct work {
    cl_command_queue queue;
    ca_gemm *gemm;
    ca_gemm_problem problem;
    tool_array array[OPERANDS];
    cl_mem buffer[OPERANDS];
} work;

static bool make_operand(work *made, clattn_context *context, int index, tool_type type, size_t batch,
                         size_t height, size_t width, tool_error *error)
{
    static const char name[] = "an operand";
    const int64_t shape[] = { (int64_t)batch, (int64_t)height, (int64_t)width };
    tool_array wide;
    cl_int status;
    if (!tool_array_create(TOOL_F32, 3, shape, name, &wide, error))
        return false;
    uint32_t state = 1 + (uint32_t)index;
    for (size_t element = 0; element < wide.elements; element++) {
        state = state * 1664525 + 1013904223; /* Numerical Recipes, 7.1 */
        ((float *)wide.data)[element] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    bool ok = tool_array_convert(&wide, type, name, &made->array[index], error);
    tool_array_free(&wide);
    if (!ok)
        return false;
    made->buffer[index] = clCreateBuffer(clattn_context_cl(context), CL_MEM_COPY_HOST_PTR,
                                         made->array[index].elements * tool_types[type].bytes,
                                         made->array[index].data, &status);
    return status == CL_SUCCESS || tool_fail(error, "clCreateBuffer gave %d", status);
}

static bool create(work *made, clattn_context *context, const char *row, int index, int dtype,
                   tool_error *error)
{
    static const tool_type storage[] = {
        [CLATTN_F32] = TOOL_F32, [CLATTN_F16] = TOOL_F16, [CLATTN_BF16] = TOOL_BF16
    };
    const size_t batch = cases[index].batch, m = cases[index].m, n = cases[index].n, k = cases[index].k;
    const bool transpose = cases[index].transpose_b;
    made->queue = clattn_context_queue(context);
    if (ca_gemm_create(context, row, (clattn_dtype)dtype, (clattn_dtype)dtype, &made->gemm) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    if (!make_operand(made, context, A, storage[dtype], batch, m, k, error) ||
        !make_operand(made, context, B, storage[dtype], batch, transpose ? n : k, transpose ? k : n, error) ||
        !make_operand(made, context, BIAS, TOOL_F32, 1, 1, n, error) ||
        !make_operand(made, context, C, TOOL_F32, batch, m, n, error))
        return false;
    made->problem = (ca_gemm_problem){ .batch = batch,
                                       .m = m,
                                       .n = n,
                                       .k = k,
                                       .transpose_b = transpose,
                                       .alpha = 1,
                                       .a = { made->buffer[A], 0, k, m * k },
                                       .b = { made->buffer[B], 0, transpose ? k : n, n * k },
                                       .c = { made->buffer[C], 0, n, m * n },
                                       .bias = cases[index].bias ? made->buffer[BIAS] : NULL };
    return true;
}

static void destroy(work *made)
{
    ca_gemm_destroy(made->gemm);
    for (int index = 0; index < OPERANDS; index++) {
        if (made->buffer[index])
            clReleaseMemObject(made->buffer[index]);
        tool_array_free(&made->array[index]);
    }
}

static bool call(work *made, tool_error *error)
{
    if (ca_gemm_enqueue(made->gemm, made->queue, &made->problem) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    cl_int status = clFinish(made->queue);
    return status == CL_SUCCESS || tool_fail(error, "clFinish gave %d", status);
}

/* Element (r, c) of matrix z may be off by what rounding each product and sum can make. */
static bool check_element(const work *made, size_t z, size_t r, size_t c, tool_error *error)
{
    const ca_gemm_problem *p = &made->problem;
    double sum = p->bias ? tool_array_get(&made->array[BIAS], c) : 0, sizes = fabs(sum);
    for (size_t i = 0; i < p->k; i++) {
        size_t b = z * p->b.stride + (p->transpose_b ? c * p->k + i : i * p->n + c);
        double product = tool_array_get(&made->array[A], z * p->a.stride + r * p->k + i) *
                         tool_array_get(&made->array[B], b);
        sum += product;
        sizes += fabs(product);
    }
    double got = tool_array_get(&made->array[C], z * p->c.stride + r * p->n + c);
    return fabs(got - sum) <= 1e-6 * sizes ||
           tool_fail(error, "element %zu of row %zu of matrix %zu is %.9g and not %.9g", c, r, z, got, sum);
}

static bool check(work *made, tool_error *error)
{
    const ca_gemm_problem *p = &made->problem;
    tool_array *out = &made->array[C];
    cl_int status;
    if (!call(made, error))
        return false;
    status = clEnqueueReadBuffer(made->queue, made->buffer[C], CL_TRUE, 0, out->elements * sizeof(float),
                                 out->data, 0, NULL, NULL);
    bool ok = status == CL_SUCCESS || tool_fail(error, "clEnqueueReadBuffer gave %d", status);
    for (size_t row = 0; ok && row < ROWS_CHECKED; row++)
        for (size_t c = 0; ok && c < p->n; c++)
            ok = check_element(made, row * (p->batch - 1) / (ROWS_CHECKED - 1),
                               row * (p->m - 1) / (ROWS_CHECKED - 1), c, error);
    return ok;
}

/* The first launch, which may find cores asleep, does not count. */
static bool take_peaks(bench_peak *peak, bench_series *peaks, tool_error *error)
{
    double value;
    for (int index = 0; index <= PEAKS_A_ROUND; index++) {
        if (!bench_peak_fma(peak, &value, error) || (index > 0 && !bench_series_add(peaks, value, error)))
            return false;
    }
    return true;
}

static bool measure(work *made, bench_peak *peak, double seconds, bench_series *times, bench_series *peaks,
                    tool_error *error)
{
    for (int round = 0; round < ROUNDS || times->count < SAMPLES_WANTED; round++) {
        double begin = tool_seconds(), start;
        do {
            start = tool_seconds();
            if (!call(made, error) || !bench_series_add(times, tool_seconds() - start, error))
                return false;
        } while (tool_seconds() - begin < seconds / ROUNDS);
        if (!take_peaks(peak, peaks, error))
            return false;
    }
    return true;
}

static bool run_case(clattn_context *context, bench_peak *peak, const char *row, double seconds, int index,
                     int dtype, tool_error *error)
{
    work made = { 0 };
    bench_series times = { 0 }, peaks = { 0 };
    bench_spread time, most;
    bool ok = create(&made, context, row, index, dtype, error) && check(&made, error) &&
              measure(&made, peak, seconds, &times, &peaks, error) && bench_spread_of(&times, &time, error) &&
              bench_spread_of(&peaks, &most, error);
    if (ok) {
        const ca_gemm_problem *p = &made.problem;
        double gflops = 2e-9 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k / time.median;
        printf("%2zu x %4zu x %4zu x %4zu %s %-4s %-4s %-7s %9.3f %9.3f %9.3f %7.1f %6.1f\n", p->batch, p->m,
               p->n, p->k, p->transpose_b ? "A B^T" : "A B  ", cases[index].bias ? "bias" : "",
               bench_dtypes[dtype], ca_gemm_name(made.gemm), time.median * 1e3, time.p10 * 1e3,
               time.p90 * 1e3, gflops, 100 * gflops / most.median);
        fflush(stdout);
    }
    bench_series_free(&times);
    bench_series_free(&peaks);
    destroy(&made);
    return ok;
}

int main(int count, char **argument)
{
    double seconds = count > 1 ? strtod(argument[1], NULL) : 1;
    const char *row = count > 2 ? argument[2] : NULL;
    clattn_context *context = NULL;
    bench_peak *peak = NULL;
    tool_error error;
    bool ok = seconds > 0 || tool_fail(&error, "%s seconds: must be above 0", argument[1]);
    ok = ok && tool_open(NULL, &context, &error) && bench_peak_create(context, CLATTN_F32, &peak, &error);
    if (ok)
        printf("%s\nbatch  m      n      k             type row        median       p10       p90 GFLOP/s  "
               "%%peak\n",
               clattn_context_device(context)->name);
    for (int dtype = CLATTN_F32; ok && dtype <= CLATTN_BF16; dtype++)
        for (int index = 0; ok && index < CASES; index++)
            ok = run_case(context, peak, row, seconds, index, dtype, &error);
    if (!ok)
        fprintf(stderr, "measure_gemm: %s\n", error.text);
    bench_peak_destroy(peak);
    clattn_context_destroy(context);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
