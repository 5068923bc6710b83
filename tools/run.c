/* tools/run.c: `clattn run`: attention over tensors in files.
 * Called by main.c. */
#include "commands.h"
#include "problem.h"
#include "report.h"

#include "files/output.h"

#include <math.h>
#include <stdio.h>

static clattn_status call_plan(void *state)
{
    void **both = state;
    return clattn_attention_plan_run(both[0], both[1]);
}

/* One line or one object for each row of the table; the reasons only when there is a problem to ask about. */
static bool list_kernels(clattn_context *context, const clattn_attention_desc *desc, bool json,
                         tool_error *error)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(object, "kernels");
    bool picked = false;
    const char *name;
    for (size_t index = 0; (name = clattn_kernel_name(index)); index++) {
        cJSON *about = cJSON_CreateObject();
        cJSON_AddItemToArray(list, about);
        cJSON_AddStringToObject(about, "name", name);
        bool accepts = desc && clattn_attention_supports(context, desc, name) == CLATTN_OK;
        const char *refusal = accepts ? "" : clattn_last_message();
        const char *verdict = !accepts ? refusal : picked ? "fits" : "fits, first of the table";
        if (!json)
            printf(desc ? "%-14s %s\n" : "%s\n", name, verdict);
        picked = picked || accepts;
        if (!desc)
            continue;
        cJSON_AddBoolToObject(about, "accepts", accepts);
        if (!accepts)
            cJSON_AddStringToObject(about, "refusal", refusal);
    }
    bool ok = !json || tool_json_print(object, error);
    cJSON_Delete(object);
    return ok;
}

typedef struct result {
    clattn_context *context;
    clattn_attention_plan *plan;
    tool_times times;
    double pairs, gflops;
} result;

static bool calculate(const tool_run_values *given, tool_problem *problem, result *made, tool_error *error)
{
    const clattn_attention_desc *desc = &problem->desc;
    double begin = tool_seconds();
    tool_progress_begin("building kernels");
    if (clattn_attention_plan_create(made->context, desc, &made->plan) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    made->times.build_s = tool_seconds() - begin;
    void *both[] = { made->plan, &problem->call };
    if (!tool_measure(call_plan, both, given->repeat, &made->times, error))
        return false;
    made->pairs = tool_problem_visible_pairs(problem);
    made->gflops = made->pairs * 2 * (double)(desc->d_qk + desc->d_v) / made->times.warm_s * 1e-9;
    return true;
}

static bool store(const tool_run_values *given, const tool_problem *problem, tool_error *error)
{
    tool_outputs outputs = { 0 };
    bool ok = (!given->out || tool_outputs_add_npy(&outputs, given->out, &problem->out, error)) &&
              (!given->lse || tool_outputs_add_npy(&outputs, given->lse, &problem->lse, error)) &&
              (!given->weights || tool_outputs_add_npy(&outputs, given->weights, &problem->weights, error));
    if (ok)
        return tool_outputs_commit(&outputs, error);
    tool_outputs_discard(&outputs);
    return false;
}

static void print_lines(const tool_run_values *given, const tool_problem *problem, const result *made)
{
    const clattn_attention_desc *desc = &problem->desc;
    const clattn_attention_info info = clattn_attention_plan_info(made->plan);
    tool_print_device(made->context, &info);
    printf("shape   batch %lld, heads %lld over %lld, queries %lld, keys %lld, head size %lld, values %lld, "
           "%s\n",
           (long long)desc->batch, (long long)desc->heads_q, (long long)desc->heads_kv,
           (long long)desc->len_q, (long long)desc->len_kv, (long long)desc->d_qk, (long long)desc->d_v,
           tool_types[problem->q.type].text);
    tool_print_times(&made->times);
    printf("speed   %.3g GFLOP/s over %.0f visible pairs\n", made->gflops, made->pairs);
    tool_print_array("out", &problem->out);
    if (given->lse)
        tool_print_array("lse", &problem->lse);
    if (given->weights)
        tool_print_array("weights", &problem->weights);
    const char *const paths[] = { given->out, given->lse, given->weights };
    for (size_t index = 0; index < sizeof paths / sizeof paths[0]; index++) {
        if (paths[index])
            printf("wrote   %s\n", paths[index]);
    }
}

static bool print_json(const tool_run_values *given, const tool_problem *problem, const result *made,
                       tool_error *error)
{
    const clattn_attention_desc *desc = &problem->desc;
    const clattn_attention_info info = clattn_attention_plan_info(made->plan);
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = { { "batch", desc->batch }, { "heads_q", desc->heads_q }, { "heads_kv", desc->heads_kv },
                  { "len_q", desc->len_q }, { "len_kv", desc->len_kv },   { "d_qk", desc->d_qk },
                  { "d_v", desc->d_v } };
    cJSON *object = cJSON_CreateObject();
    tool_json_device(object, made->context, &info);
    cJSON *shape = cJSON_AddObjectToObject(object, "shape");
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++)
        cJSON_AddNumberToObject(shape, sizes[index].name, (double)sizes[index].size);
    cJSON_AddStringToObject(shape, "dtype", tool_types[problem->q.type].text);
    tool_json_times(object, &made->times);
    cJSON_AddNumberToObject(object, "visible_pairs", made->pairs);
    tool_json_number(object, "gflops", made->gflops);
    tool_json_array(object, "out", &problem->out);
    if (given->lse)
        tool_json_array(object, "lse", &problem->lse);
    if (given->weights)
        tool_json_array(object, "weights", &problem->weights);
    bool ok = tool_json_print(object, error);
    cJSON_Delete(object);
    return ok;
}

static bool outputs_possible(const tool_run_values *given, tool_error *error)
{
    const char *const outputs[] = { given->out, given->lse, given->weights };
    const char *const inputs[] = { given->q, given->k, given->v, given->mask, given->sinks };
    return tool_outputs_check(outputs, sizeof outputs / sizeof outputs[0], inputs,
                              sizeof inputs / sizeof inputs[0], error);
}

/* What the table of options cannot say. */
static int check_usage(const tool_run_values *given)
{
    bool any = given->q || given->k || given->v;
    if (given->list_kernels && !any)
        return TOOL_GO_ON;
    if (!given->q || !given->k || !given->v)
        return tool_usage(&tool_run_command, "%s is missing", !given->q ? "--q" : !given->k ? "--k" : "--v");
    if (given->window.value && given->window.count != 2)
        return tool_usage(&tool_run_command, "--window has %zu numbers, two are wanted: LEFT,RIGHT",
                          given->window.count);
    if (given->softcap < 0)
        return tool_usage(&tool_run_command, "--softcap %g: 0 or more is wanted", given->softcap);
    return tool_kernel_check(&tool_run_command, given->kernel, NULL);
}

static int run(int argc, char **argv)
{
    tool_run_values given = { .scale = NAN, .causal = -1, .repeat = 1 };
    tool_problem problem = { .lengths_q = NULL };
    result made = { .context = NULL };
    tool_error error;
    int code = tool_options_read(&tool_run_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    code = check_usage(&given);
    if (code != TOOL_GO_ON)
        goto done;
    bool ok;
    if (given.list_kernels && !given.q) {
        ok = list_kernels(NULL, NULL, given.json, &error);
    } else {
        ok = outputs_possible(&given, &error) && tool_problem_create(&given, &problem, &error) &&
             tool_open(given.device, &made.context, &error);
        if (ok && given.list_kernels)
            ok = list_kernels(made.context, &problem.desc, given.json, &error);
        else if (ok)
            ok = calculate(&given, &problem, &made, &error) && store(&given, &problem, &error);
        if (ok && !given.list_kernels && given.json)
            ok = print_json(&given, &problem, &made, &error);
        else if (ok && !given.list_kernels)
            print_lines(&given, &problem, &made);
    }
    code = tool_finish(&tool_run_command, ok, &error);
done:
    clattn_attention_plan_destroy(made.plan);
    clattn_context_destroy(made.context);
    tool_problem_free(&problem);
    tool_options_free(&tool_run_command, &given);
    return code;
}

#define FIELD(name) offsetof(tool_run_values, name)

static const tool_option options[] = {
    { "--q", TOOL_TEXT, FIELD(q), "FILE", "queries (batch, heads, length, head size)", 0 },
    { "--k", TOOL_TEXT, FIELD(k), "FILE", "keys; their heads divide those of the queries", 0 },
    { "--v", TOOL_TEXT, FIELD(v), "FILE", "values; their head size is free", 0 },
    { "--layout", TOOL_WORD, FIELD(layout), "bhsd|bshd",
      "order of heads and sequence in q, k, v and out; default bhsd", 0 },
    { "--out", TOOL_TEXT, FIELD(out), "FILE", "write the output: f16 as f2, f32 and bf16 as f4", 0 },
    { "--lse", TOOL_TEXT, FIELD(lse), "FILE", "write the log-sum-exp of each row, f4", 0 },
    { "--weights", TOOL_TEXT, FIELD(weights), "FILE", "write the softmax weights, f4", 0 },
    { "--scale", TOOL_REAL, FIELD(scale), "X", "factor on the scores; default 1 / sqrt(head size)", 0 },
    { "--softcap", TOOL_REAL, FIELD(softcap), "X", "cap on the scores, X tanh(score / X); default 0, none",
      0 },
    { "--mask", TOOL_TEXT, FIELD(mask), "FILE", "bool: true = attend; float: added to the scores, -inf hides",
      0 },
    { "--causal", TOOL_WORD_OR_BARE, FIELD(causal), "bottom-right|top-left",
      "hide later keys; the last query is level with the last key, or the first with the first", 0 },
    { "--window", TOOL_LIST, FIELD(window), "LEFT,RIGHT", "keys this far from the diagonal; -1 = open", -1 },
    { "--lengths-q", TOOL_LIST, FIELD(lengths_q), "N,N,...", "queries in use, a number for each batch", 0 },
    { "--lengths-kv", TOOL_LIST, FIELD(lengths_kv), "N,N,...", "keys in use, a number for each batch", 0 },
    { "--sinks", TOOL_TEXT, FIELD(sinks), "FILE", "a logit for each query head in the softmax's denominator",
      0 },
    { "--dtype", TOOL_WORD, FIELD(dtype), "f32|f16|bf16",
      "storage of q, k, v and out on the device; default f32", 0 },
    { "--device", TOOL_TEXT, FIELD(device), "SELECTOR", "index of clattn probe, cpu, gpu, or part of a name",
      0 },
    { "--kernel", TOOL_TEXT, FIELD(kernel), "NAME", "this row of the table, or say why not", 0 },
    { "--list-kernels", TOOL_FLAG, FIELD(list_kernels), NULL,
      "the rows of the table; with tensors, what each says to them", 0 },
    { "--repeat", TOOL_WHOLE, FIELD(repeat), "N", "warm calls, of which the median counts; default 1", 1 },
    { "--json", TOOL_FLAG, FIELD(json), NULL, "one JSON object on stdout", 0 },
};

const tool_command tool_run_command = {
    .name = "run",
    .usage = "--q FILE --k FILE --v FILE [options]",
    .summary = "attention over tensors in files: softmax(scale q k^T + mask) v",
    .notes = "\n"
             "FILE is X.npy or X.safetensors:NAME. Tensors have 4 axes; with 3 there is one batch, with 2 "
             "one batch and\n"
             "one head. A mask is (batch, heads, queries, keys), without its first axes if need be, each 1 "
             "or full.\n"
             "Written files are .npy and have the axes of --q.\n",
    .example = "  clattn run --q Q.npy --k K.npy --v V.npy --causal --out O.npy --repeat 10\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = run,
};
