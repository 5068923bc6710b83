/* tools/bench_check.c: a sample of a result's rows beside the same in double precision, by the formula.
 * Called by bench_measure.c. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_ROWS = 4, MOST_ROWS = 64 };
static const double products_at_most = 1e8; /* multiplications, unless the fewest rows need more */

/* What the comparison reads, as floats, and room for one row. */
typedef struct reference {
    const bench_case *of;
    tool_array wide[BENCH_TENSORS]; /* those that are stored otherwise */
    const float *in[BENCH_TENSORS];
    double *score; /* [len_kv] */
    double *out;   /* [d_v], of a module [width] */
    double *mixed; /* of a module: [width] each */
    double *turned;
} reference;

static void reference_free(reference *made)
{
    for (int index = 0; index < BENCH_TENSORS; index++)
        tool_array_free(&made->wide[index]);
    free(made->score);
    free(made->out);
    free(made->mixed);
    free(made->turned);
}

static bool reference_create(const bench_work *work, reference *made, tool_error *error)
{
    size_t width = (size_t)(work->of.heads_q * work->of.d_qk);
    memset(made, 0, sizeof *made);
    made->of = &work->of;
    for (int index = 0; index < BENCH_TENSORS; index++) {
        const tool_array *array = &work->array[index];
        bool is_wide = !array->data || array->type == TOOL_F32;
        if (!is_wide && !tool_array_convert(array, TOOL_F32, work->of.name, &made->wide[index], error))
            goto fail;
        made->in[index] = is_wide ? array->data : made->wide[index].data;
    }
    made->score = calloc((size_t)work->of.len_kv, sizeof *made->score);
    made->out = calloc(width + (size_t)work->of.d_v, sizeof *made->out);
    made->mixed = calloc(width, sizeof *made->mixed);
    made->turned = calloc(width, sizeof *made->turned);
    if (made->score && made->out && made->mixed && made->turned)
        return true;
    tool_fail(error, "%s: no memory for the check", work->of.name);
fail:
    reference_free(made);
    return false;
}

/* The weights of the keys that `row` sees, in score[first..end), from scores of any size. */
static void soften(double *score, int64_t first, int64_t end)
{
    double most = -INFINITY, sum = 0;
    for (int64_t key = first; key < end; key++)
        most = fmax(most, score[key]);
    for (int64_t key = first; key < end; key++)
        sum += score[key] = exp(score[key] - most);
    for (int64_t key = first; key < end; key++)
        score[key] /= sum;
}

/* Row `index` of the output of attention, counted over batches, heads and queries. */
static void attention_row(reference *made, int64_t index)
{
    const bench_case *of = made->of;
    int64_t row = index % of->len_q, head = index / of->len_q % of->heads_q,
            batch = index / of->len_q / of->heads_q, first, end;
    int64_t keys = (batch * of->heads_kv + head / (of->heads_q / of->heads_kv)) * of->len_kv;
    const float *q = made->in[0] + index * of->d_qk;
    const float *k = made->in[1] + keys * of->d_qk, *v = made->in[2] + keys * of->d_v;
    bench_visible(of, row, &first, &end);
    for (int64_t key = first; key < end; key++) {
        double sum = 0;
        for (int64_t d = 0; d < of->d_qk; d++)
            sum += (double)q[d] * (double)k[key * of->d_qk + d];
        made->score[key] = sum / sqrt((double)of->d_qk);
    }
    soften(made->score, first, end);
    memset(made->out, 0, (size_t)of->d_v * sizeof *made->out);
    for (int64_t key = first; key < end; key++)
        for (int64_t d = 0; d < of->d_v; d++)
            made->out[d] += made->score[key] * (double)v[key * of->d_v + d];
}

/* sum[0..columns) = bias + weight x, weight (columns, width). */
static void project(const float *weight, const float *bias, int64_t columns, int64_t width, const double *x,
                    double *sum)
{
    for (int64_t c = 0; c < columns; c++) {
        sum[c] = (double)bias[c];
        for (int64_t i = 0; i < width; i++)
            sum[c] += (double)weight[c * width + i] * x[i];
    }
}

/* Row `index` of the output of a module, counted over batches and queries. The query is turned into the
 * space of x, so that keys and values need no projection: q (Wk x + bk) = (q Wk) x + q bk. */
static void module_row(reference *made, int64_t index)
{
    const bench_case *of = made->of;
    const int64_t size = of->d_qk, width = of->heads_q * size, batch = index / of->len_q;
    const float *x = made->in[0] + batch * of->len_kv * width, *weight = made->in[1], *bias = made->in[2];
    double *query = made->out, *mixed = made->mixed, *turned = made->turned;
    int64_t first, end;
    bench_visible(of, index % of->len_q, &first, &end);
    for (int64_t i = 0; i < width; i++)
        turned[i] = (double)made->in[0][index * width + i];
    project(weight, bias, width, width, turned, query);
    for (int64_t head = 0; head < of->heads_q; head++) {
        const float *wk = weight + (width + head * size) * width, *bk = bias + width + head * size;
        const float *wv = wk + width * width, *bv = bk + width;
        double constant = 0;
        memset(turned, 0, (size_t)width * sizeof *turned);
        for (int64_t d = 0; d < size; d++) {
            constant += query[head * size + d] * (double)bk[d];
            for (int64_t i = 0; i < width; i++)
                turned[i] += query[head * size + d] * (double)wk[d * width + i];
        }
        for (int64_t key = first; key < end; key++) {
            double sum = constant;
            for (int64_t i = 0; i < width; i++)
                sum += turned[i] * (double)x[key * width + i];
            made->score[key] = sum / sqrt((double)size);
        }
        soften(made->score, first, end);
        memset(turned, 0, (size_t)width * sizeof *turned);
        for (int64_t key = first; key < end; key++)
            for (int64_t i = 0; i < width; i++)
                turned[i] += made->score[key] * (double)x[key * width + i];
        project(wv, bv, size, width, turned, mixed + head * size);
    }
    project(made->in[3], made->in[4], width, width, mixed, made->out);
}

bool bench_check_rows(const bench_work *work, double tolerance, bench_check *check, tool_error *error)
{
    static const double step[] = { [CLATTN_F32] = 0, [CLATTN_F16] = 0x1p-10, [CLATTN_BF16] = 0x1p-7 };
    const bench_case *of = &work->of;
    const int64_t columns = of->is_module ? of->heads_q * of->d_v : of->d_v;
    const int64_t rows = (int64_t)(work->array[BENCH_OUT].elements / (size_t)columns);
    double products = (double)of->len_kv * (double)(of->d_qk + of->d_v);
    if (of->is_module)
        products *= (double)of->heads_q * (double)of->heads_q;
    int64_t sample = (int64_t)fmin(fmax(products_at_most / products, FEWEST_ROWS), MOST_ROWS);
    reference made;
    if (!reference_create(work, &made, error))
        return false;
    *check = (bench_check){ .rows = sample < rows ? sample : rows, .ok = true };
    double worst = -1;
    for (int64_t at = 0; at < check->rows; at++) {
        int64_t row = check->rows > 1 ? at * (rows - 1) / (check->rows - 1) : 0;
        (of->is_module ? module_row : attention_row)(&made, row);
        for (int64_t c = 0; c < columns; c++) {
            double apart = fabs((double)made.in[BENCH_OUT][row * columns + c] - made.out[c]);
            double allowed = tolerance + step[of->dtype] * fabs(made.out[c]);
            if (isnan(apart))
                apart = INFINITY;
            if (apart - allowed > worst || at + c == 0) {
                worst = apart - allowed;
                check->allowed = allowed;
            }
            check->difference = fmax(check->difference, apart);
            check->ok = check->ok && apart <= allowed;
        }
    }
    reference_free(&made);
    return true;
}
