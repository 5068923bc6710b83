/* tests/support/attention_run.c: runs a case on the rows of the kernel table and compares. Owns the kept
 * plans and the count of accepted cases that each test program prints at its end. */
#include "support/attention_case.h"
#include "support/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static clattn_attention_plan *plans[CT_MAX_ROWS];
static clattn_attention_desc plans_desc;
static bool plans_open;
static unsigned long accepted[CT_MAX_ROWS], refused[CT_MAX_ROWS];

static void close_plans(void)
{
    for (size_t row = 0; row < CT_MAX_ROWS; row++) {
        clattn_attention_plan_destroy(plans[row]);
        plans[row] = NULL;
    }
    plans_open = false;
}

static void finish(void)
{
    char line[1024] = "";
    for (size_t row = 0; row < clattn_kernel_count(); row++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s %s %lu of %lu", row ? "," : "", clattn_kernel_name(row),
                 accepted[row], accepted[row] + refused[row]);
    }
    print_message("[   INFO   ] cases accepted:%s\n", line);
    ct_print_largest_errors();
    close_plans();
}

static bool same_desc(const clattn_attention_desc *a, const clattn_attention_desc *b)
{
    return a->batch == b->batch && a->heads_q == b->heads_q && a->heads_kv == b->heads_kv &&
           a->len_q == b->len_q && a->len_kv == b->len_kv && a->d_qk == b->d_qk && a->d_v == b->d_v &&
           a->dtype == b->dtype && memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 &&
           a->softcap == b->softcap && a->causal == b->causal && a->alignment == b->alignment &&
           a->window_left == b->window_left && a->window_right == b->window_right && a->keep == b->keep &&
           a->bias == b->bias && a->bias_dtype == b->bias_dtype && a->lengths_q == b->lengths_q &&
           a->lengths_kv == b->lengths_kv && a->packed == b->packed && a->sinks == b->sinks &&
           a->lse == b->lse && a->weights == b->weights && a->workspace_bytes == b->workspace_bytes;
}

clattn_attention_plan *ct_case_plan(ct_case *c, size_t row)
{
    char text[512];
    clattn_attention_desc desc = c->desc;
    desc.kernel = clattn_kernel_name(row);
    ct_case_describe(c, text, sizeof text);
    ct_subject("plan of %s: %s", desc.kernel, text);
    assert_true(row < CT_MAX_ROWS);
    assert_non_null(desc.kernel);
    ct_at_teardown(finish);
    if (plans_open && !same_desc(&plans_desc, &c->desc))
        close_plans();
    plans_desc = c->desc;
    plans_open = true;
    if (plans[row])
        return plans[row];
    clattn_status status = clattn_attention_supports(ct_context(), &c->desc, desc.kernel);
    if (status != CLATTN_OK) {
        clattn_attention_plan *none = NULL;
        ct_rejects(status, CLATTN_UNSUPPORTED, "");
        ct_rejects(clattn_attention_plan_create(ct_context(), &desc, &none), CLATTN_UNSUPPORTED, desc.kernel);
        assert_null(none);
        return NULL;
    }
    if (ct_suite_size() != CT_FULL && strcmp(desc.kernel, "steps-clblast") == 0)
        return NULL; /* where compiling is slow, tests/gemm is enough of CLBlast */
    ct_ok(clattn_attention_plan_create(ct_context(), &desc, &plans[row]));
    assert_string_equal(clattn_attention_plan_info(plans[row]).kernel, desc.kernel);
    return plans[row];
}

void ct_case_call(const ct_case *c, clattn_attention_call *call)
{
    memset(call, 0, sizeof *call);
    call->batch = c->batch;
    call->len_q = c->len_q;
    call->len_kv = c->len_kv;
    if (c->desc.packed) {
        call->total_q = c->q.extent[2];
        call->total_kv = c->k.extent[2];
    }
    call->q = ct_array_input(&c->q);
    call->k = ct_array_input(&c->k);
    call->v = ct_array_input(&c->v);
    call->keep = ct_array_input(&c->keep);
    call->bias = ct_array_input(&c->bias);
    call->sinks = ct_array_input(&c->sinks);
    call->lengths_q = ct_array_input(&c->lengths_q);
    call->lengths_kv = ct_array_input(&c->lengths_kv);
    call->cu_seqlens_q = ct_array_input(&c->cu_q);
    call->cu_seqlens_kv = ct_array_input(&c->cu_kv);
    call->out = ct_array_output(&c->out);
    call->lse = ct_array_output(&c->lse);
    call->weights = ct_array_output(&c->weights);
}

enum { INPUTS = 10, OUTPUTS = 3 };

static void list_arrays(ct_case *c, ct_array *inputs[INPUTS], ct_array *outputs[OUTPUTS])
{
    ct_array *in[INPUTS] = { &c->q,     &c->k,         &c->v,          &c->keep, &c->bias,
                             &c->sinks, &c->lengths_q, &c->lengths_kv, &c->cu_q, &c->cu_kv };
    ct_array *out[OUTPUTS] = { &c->out, &c->lse, &c->weights };
    memcpy(inputs, in, sizeof in);
    memcpy(outputs, out, sizeof out);
}

void ct_case_run_buffers(ct_case *c, clattn_attention_plan *plan)
{
    ct_array *inputs[INPUTS], *outputs[OUTPUTS];
    clattn_attention_call call;
    cl_event event = NULL;
    list_arrays(c, inputs, outputs);
    for (size_t i = 0; i < INPUTS; i++)
        if (inputs[i]->type)
            ct_array_upload(inputs[i], CL_MEM_READ_ONLY);
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->type) {
            ct_array_poison(outputs[i]);
            ct_array_upload(outputs[i], CL_MEM_READ_WRITE);
        }
    ct_case_call(c, &call);
    ct_ok(clattn_attention_enqueue(plan, ct_queue(), &call, 0, NULL, &event));
    assert_non_null(event);
    ct_cl_ok(clWaitForEvents(1, &event));
    ct_cl_ok(clReleaseEvent(event));
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->type) {
            ct_array_download(outputs[i]);
            ct_array_release_buffer(outputs[i]);
        }
    for (size_t i = 0; i < INPUTS; i++)
        ct_array_release_buffer(inputs[i]);
}

void ct_case_run_host(ct_case *c, clattn_attention_plan *plan)
{
    ct_array *inputs[INPUTS], *outputs[OUTPUTS];
    unsigned char *copies[INPUTS] = { NULL };
    clattn_attention_call call;
    list_arrays(c, inputs, outputs);
    for (size_t i = 0; i < INPUTS; i++)
        if (inputs[i]->type && !inputs[i]->owner) {
            copies[i] = ct_alloc(inputs[i]->bytes);
            memcpy(copies[i], inputs[i]->memory, inputs[i]->bytes);
        }
    for (size_t i = 0; i < OUTPUTS; i++)
        if (outputs[i]->type)
            ct_array_poison(outputs[i]);
    ct_case_call(c, &call);
    ct_ok(clattn_attention_plan_run(plan, &call));
    for (size_t i = 0; i < INPUTS; i++)
        if (copies[i]) {
            if (memcmp(copies[i], inputs[i]->memory, inputs[i]->bytes) != 0)
                ct_fail("input %zu of the call was written", i);
            free(copies[i]);
        }
}

/* The oracle's rows in the order of the array, which is packed where the case is. */
static double *reorder(const ct_case *c, const ct_array *array, const double *want, int64_t columns)
{
    double *ordered = ct_alloc((size_t)ct_array_elements(array) * sizeof *ordered);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->desc.heads_q; h++)
            for (int64_t i = 0; i < c->len_q; i++) {
                int64_t to = (b * c->desc.heads_q + h) * c->len_q + i;
                if (c->desc.packed) {
                    int64_t first = (int64_t)ct_array_get(&c->cu_q, 0, 0, 0, b);
                    if (i >= (int64_t)ct_array_get(&c->cu_q, 0, 0, 0, b + 1) - first)
                        continue;
                    to = h * array->extent[2] + first + i;
                }
                memcpy(ordered + to * columns, want + ((b * c->desc.heads_q + h) * c->len_q + i) * columns,
                       (size_t)columns * sizeof *want);
            }
    return ordered;
}

static void compare_rows(const ct_case *c, const ct_array *array, const double *want, int64_t columns,
                         const char *name)
{
    double *ordered = reorder(c, array, want, columns);
    ct_expect(array, ordered, name);
    ct_array_check_canaries(array, name);
    free(ordered);
}

void ct_case_compare(const ct_case *c)
{
    compare_rows(c, &c->out, c->want_out, c->desc.d_v, "out");
    if (c->desc.lse)
        compare_rows(c, &c->lse, c->want_lse, 1, "lse");
    if (c->desc.weights != CLATTN_WEIGHTS_NONE) {
        ct_expect(&c->weights, c->want_weights, "weights");
        ct_array_check_canaries(&c->weights, "weights");
    }
}

void ct_case_describe(const ct_case *c, char *text, size_t bytes)
{
    static const char *const forms[] = { "bhsd", "bshd", "loose", "fused", "repeated" };
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    const clattn_attention_desc *d = &c->desc;
    snprintf(text, bytes,
             "B%lld H%lld/%lld L%lldx%lld (plan %lldx%lldx%lld) D%lld/%lld %s %s%s scale %g softcap %g "
             "causal %d/%d window %lld,%lld keep %d bias %d/%s lengths %d,%d packed %d sinks %d lse %d "
             "weights %d case %d seed %llu/%llu",
             (long long)c->batch, (long long)d->heads_q, (long long)d->heads_kv, (long long)c->len_q,
             (long long)c->len_kv, (long long)d->batch, (long long)d->len_q, (long long)d->len_kv,
             (long long)d->d_qk, (long long)d->d_v, dtypes[d->dtype], forms[c->form],
             c->unaligned ? " unaligned" : "", (double)d->scale, (double)d->softcap, d->causal,
             (int)d->alignment, (long long)d->window_left, (long long)d->window_right, d->keep, d->bias,
             dtypes[d->bias_dtype], d->lengths_q, d->lengths_kv, d->packed, d->sinks, d->lse, (int)d->weights,
             c->number, (unsigned long long)c->seed, (unsigned long long)ct_seed());
}

void ct_case_check_wanted(ct_case *c)
{
    char text[512];
    ct_case_describe(c, text, sizeof text);
    c->accepted = 0;
    for (size_t row = 0; clattn_kernel_name(row); row++) {
        clattn_attention_plan *plan = ct_case_plan(c, row);
        if (!plan) {
            refused[row]++;
            continue;
        }
        accepted[row]++;
        c->accepted |= 1u << row;
        ct_subject("%s, buffers: %s", clattn_kernel_name(row), text);
        ct_case_run_buffers(c, plan);
        ct_case_compare(c);
        if (!c->one_face) {
            ct_subject("%s, host arrays: %s", clattn_kernel_name(row), text);
            ct_case_run_host(c, plan);
            ct_case_compare(c);
        }
    }
    ct_subject("%s", "");
    if (!c->accepted)
        ct_fail("no row of the table accepts %s", text);
}

void ct_case_check(ct_case *c)
{
    ct_case_expect(c);
    ct_case_check_wanted(c);
}
