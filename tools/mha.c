/* tools/mha.c: `clattn mha`: a multi-head attention module with weights and activations from files, and its
 * picture. Called by main.c. */
#include "commands.h"
#include "module.h"
#include "plot.h"
#include "report.h"

#include "files/load.h"
#include "files/output.h"
#include "files/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct result {
    clattn_context *context;
    clattn_mha *mha;
    tool_times times;
    tool_array expected;
    double difference, reach; /* largest |out - expected|, largest |expected| */
    tool_lines tokens, context_tokens;
} result;

static clattn_status call_module(void *state)
{
    void **both = state;
    return clattn_mha_run(both[0], both[1]);
}

static bool calculate(const tool_mha_values *given, tool_module *module, result *made, tool_error *error)
{
    double begin = tool_seconds();
    tool_progress_begin("building kernels");
    if (clattn_mha_create(made->context, &module->desc, &module->weights, &made->mha) != CLATTN_OK)
        return tool_fail_library(error, NULL);
    made->times.build_s = tool_seconds() - begin;
    void *both[] = { made->mha, &module->call };
    return tool_measure(call_module, both, given->repeat, &made->times, error);
}

static bool read_expected(const char *where, const tool_module *module, tool_array *expected,
                          tool_error *error)
{
    char has[TOOL_SHAPE_BYTES], wants[TOOL_SHAPE_BYTES];
    const tool_array *out = &module->out;
    if (!tool_load(where, expected, error))
        return false;
    if (expected->rank == out->rank && memcmp(expected->shape, out->shape, sizeof out->shape) == 0)
        return true;
    return tool_fail(error, "--expect: %s has shape %s, the output has %s", where,
                     tool_shape_text(expected->rank, expected->shape, has),
                     tool_shape_text(out->rank, out->shape, wants));
}

/* A difference that is not a number counts as infinite. */
static bool compare(const tool_mha_values *given, const tool_module *module, result *made, tool_error *error)
{
    for (size_t index = 0; index < made->expected.elements; index++) {
        double wanted = tool_array_get(&made->expected, index);
        double apart = fabs(tool_array_get(&module->out, index) - wanted);
        made->difference = fmax(made->difference, isnan(apart) ? INFINITY : apart);
        made->reach = fmax(made->reach, fabs(wanted));
    }
    if (isnan(given->tolerance) || made->difference <= given->tolerance)
        return true;
    return tool_fail(error, "the largest difference from %s is %.3g, more than --tolerance %g", given->expect,
                     made->difference, given->tolerance);
}

static bool read_tokens(const char *option, const char *path, int64_t length, tool_lines *lines,
                        tool_error *error)
{
    if (!tool_lines_read(path, lines, error))
        return false;
    if (lines->count != (size_t)length)
        return tool_fail(error, "%s: %s has %zu lines, the sequence has %lld tokens", option, path,
                         lines->count, (long long)length);
    return true;
}

/* The length of batch item `item` without the padding at its end. */
static int64_t unpadded(const tool_mha_values *given, const tool_module *module, int64_t item)
{
    int64_t length = module->desc.len_kv;
    const uint8_t *padding = module->padding.data;
    while (padding && length > 1 && padding[item * module->desc.len_kv + length - 1] == given->drop_padding)
        length--;
    return length;
}

/* The picture of one batch item, without its padding where that is known. */
static bool draw(const tool_mha_values *given, const tool_module *module, const result *made, FILE *file,
                 tool_error *error)
{
    const clattn_mha_desc *desc = &module->desc;
    const int64_t columns = unpadded(given, module, given->plot_batch);
    char title[128];
    char *const *tokens = made->tokens.line;
    snprintf(title, sizeof title, "Attention weights, batch item %lld", (long long)given->plot_batch);
    tool_plot plot = {
        .title = title,
        .weights = (const float *)module->attention.data +
                   given->plot_batch * desc->heads * desc->len_q * desc->len_kv,
        .heads = desc->heads,
        .rows = given->context ? desc->len_q : columns,
        .columns = columns,
        .head_stride = desc->len_q * desc->len_kv,
        .row_stride = desc->len_kv,
        .row_labels = tokens,
        .column_labels = given->context ? made->context_tokens.line : tokens,
    };
    return tool_plot_png(&plot, file, given->plot, error);
}

static bool store(const tool_mha_values *given, const tool_module *module, const result *made,
                  tool_error *error)
{
    tool_outputs outputs = { 0 };
    bool ok =
        (!given->out || tool_outputs_add_npy(&outputs, given->out, &module->out, error)) &&
        (!given->attention || tool_outputs_add_npy(&outputs, given->attention, &module->attention, error));
    if (ok && given->plot) {
        FILE *file = tool_outputs_add(&outputs, given->plot, error);
        ok = file && draw(given, module, made, file, error);
    }
    if (ok)
        return tool_outputs_commit(&outputs, error);
    tool_outputs_discard(&outputs);
    return false;
}

static void print_lines(const tool_mha_values *given, const tool_module *module, const result *made)
{
    const clattn_mha_desc *desc = &module->desc;
    const clattn_attention_info info = clattn_mha_info(made->mha);
    tool_print_device(made->context, &info);
    printf("shape   batch %lld, heads %lld, queries %lld, keys %lld, width %lld, weights named as by %s\n",
           (long long)desc->batch, (long long)desc->heads, (long long)desc->len_q, (long long)desc->len_kv,
           (long long)desc->embed_dim, module->naming);
    tool_print_times(&made->times);
    tool_print_array("out", &module->out);
    if (given->expect)
        printf("expect  largest difference %.3g from %s, whose numbers go up to %.3g\n", made->difference,
               given->expect, made->reach);
    const char *const paths[] = { given->out, given->attention, given->plot };
    for (size_t index = 0; index < sizeof paths / sizeof paths[0]; index++) {
        if (paths[index])
            printf("wrote   %s\n", paths[index]);
    }
}

static bool print_json(const tool_mha_values *given, const tool_module *module, const result *made,
                       tool_error *error)
{
    const clattn_mha_desc *desc = &module->desc;
    const clattn_attention_info info = clattn_mha_info(made->mha);
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = { { "batch", desc->batch },   { "heads", desc->heads },         { "len_q", desc->len_q },
                  { "len_kv", desc->len_kv }, { "embed_dim", desc->embed_dim }, { "kdim", desc->kdim },
                  { "vdim", desc->vdim } };
    cJSON *object = cJSON_CreateObject();
    tool_json_device(object, made->context, &info);
    cJSON *shape = cJSON_AddObjectToObject(object, "shape");
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++)
        cJSON_AddNumberToObject(shape, sizes[index].name, (double)sizes[index].size);
    cJSON_AddStringToObject(object, "naming", module->naming);
    tool_json_times(object, &made->times);
    tool_json_array(object, "out", &module->out);
    if (given->expect)
        tool_json_number(object, "largest_difference", made->difference);
    bool ok = tool_json_print(object, error);
    cJSON_Delete(object);
    return ok;
}

static bool outputs_possible(const tool_mha_values *given, tool_error *error)
{
    const char *const outputs[] = { given->out, given->attention, given->plot };
    const char *const inputs[] = { given->weights, given->x,      given->context,       given->key_padding,
                                   given->expect,  given->tokens, given->context_tokens };
    return tool_outputs_check(outputs, sizeof outputs / sizeof outputs[0], inputs,
                              sizeof inputs / sizeof inputs[0], error);
}

static bool read_extras(const tool_mha_values *given, const tool_module *module, result *made,
                        tool_error *error)
{
    const clattn_mha_desc *desc = &module->desc;
    if (given->plot && given->plot_batch >= desc->batch)
        return tool_fail_usage(error, "--plot-batch %lld: the batch has %lld items, counted from 0",
                               (long long)given->plot_batch, (long long)desc->batch);
    return (!given->expect || read_expected(given->expect, module, &made->expected, error)) &&
           (!given->tokens || read_tokens("--tokens", given->tokens, desc->len_q, &made->tokens, error)) &&
           (!given->context_tokens || read_tokens("--context-tokens", given->context_tokens, desc->len_kv,
                                                  &made->context_tokens, error));
}

/* What the table of options cannot say. */
static int check_usage(const tool_mha_values *given)
{
    const struct {
        const char *name, *needs;
        bool is_given, has;
    } pairs[] = {
        { "--drop-padding", "--key-padding", given->drop_padding, given->key_padding != NULL },
        { "--tolerance", "--expect", !isnan(given->tolerance), given->expect != NULL },
        { "--tokens", "--plot", given->tokens != NULL, given->plot != NULL },
        { "--context-tokens", "--context", given->context_tokens != NULL, given->context != NULL },
        { "--context-tokens", "--plot", given->context_tokens != NULL, given->plot != NULL },
    };
    const char *missing = !given->weights     ? "--weights"
                          : !given->x         ? "--x"
                          : given->heads == 0 ? "--heads"
                                              : NULL;
    if (missing)
        return tool_usage(&tool_mha_command, "%s is missing", missing);
    for (size_t index = 0; index < sizeof pairs / sizeof pairs[0]; index++) {
        if (pairs[index].is_given && !pairs[index].has)
            return tool_usage(&tool_mha_command, "%s needs %s", pairs[index].name, pairs[index].needs);
    }
    if (given->tolerance < 0)
        return tool_usage(&tool_mha_command, "--tolerance %g: at least 0 is wanted", given->tolerance);
    return tool_kernel_check(&tool_mha_command, given->kernel, NULL);
}

static int mha(int argc, char **argv)
{
    tool_mha_values given = { .repeat = 1, .tolerance = NAN };
    tool_module module = { .naming = NULL };
    result made = { .context = NULL };
    tool_error error;
    int code = tool_options_read(&tool_mha_command, argc, argv, &given);
    if (code != TOOL_GO_ON)
        return code;
    code = check_usage(&given);
    if (code != TOOL_GO_ON)
        return code;
    bool ok = outputs_possible(&given, &error) && tool_module_create(&given, &module, &error) &&
              read_extras(&given, &module, &made, &error) && tool_open(given.device, &made.context, &error) &&
              calculate(&given, &module, &made, &error) && compare(&given, &module, &made, &error) &&
              store(&given, &module, &made, &error);
    if (ok && given.json)
        ok = print_json(&given, &module, &made, &error);
    else if (ok)
        print_lines(&given, &module, &made);
    code = tool_finish(&tool_mha_command, ok, &error);
    clattn_mha_destroy(made.mha);
    clattn_context_destroy(made.context);
    tool_lines_free(&made.tokens);
    tool_lines_free(&made.context_tokens);
    tool_array_free(&made.expected);
    tool_module_free(&module);
    return code;
}

#define FIELD(name) offsetof(tool_mha_values, name)

static const tool_option options[] = {
    { "--weights", TOOL_TEXT, FIELD(weights), "FILE", "W.safetensors with the module's weights", 0 },
    { "--prefix", TOOL_TEXT, FIELD(prefix), "TEXT", "what stands before each weight's name", 0 },
    { "--x", TOOL_TEXT, FIELD(x), "FILE", "queries (batch, length, width) or (length, width)", 0 },
    { "--context", TOOL_TEXT, FIELD(context), "FILE",
      "keys and values, for cross attention; default: those of --x", 0 },
    { "--heads", TOOL_WHOLE, FIELD(heads), "N", "number of heads; divides the width", 1 },
    { "--key-padding", TOOL_TEXT, FIELD(key_padding), "FILE",
      "(batch, keys): 1 or true = attend, 0 = padding", 0 },
    { "--drop-padding", TOOL_FLAG, FIELD(drop_padding), NULL, "the other way round: 1 or true = padding", 0 },
    { "--out", TOOL_TEXT, FIELD(out), "FILE", "write the output, .npy", 0 },
    { "--attention", TOOL_TEXT, FIELD(attention), "FILE",
      "write the weights (batch, heads, queries, keys), .npy", 0 },
    { "--plot", TOOL_TEXT, FIELD(plot), "FILE", "draw the weights of one batch item, a map a head, PNG", 0 },
    { "--plot-batch", TOOL_WHOLE, FIELD(plot_batch), "N", "which batch item; default 0", 0 },
    { "--tokens", TOOL_TEXT, FIELD(tokens), "FILE", "text for the picture's axes, one token of --x a line",
      0 },
    { "--context-tokens", TOOL_TEXT, FIELD(context_tokens), "FILE", "the same for --context", 0 },
    { "--expect", TOOL_TEXT, FIELD(expect), "FILE", "say how far the output is from this one", 0 },
    { "--tolerance", TOOL_REAL, FIELD(tolerance), "X", "fail when it is further than this", 0 },
    { "--device", TOOL_TEXT, FIELD(device), "SELECTOR", "index of clattn probe, cpu, gpu, or part of a name",
      0 },
    { "--kernel", TOOL_TEXT, FIELD(kernel), "NAME", "this row of the attention table, or say why not", 0 },
    { "--gemm", TOOL_TEXT, FIELD(gemm), "NAME", "the projections by lanes, clblast or plain, or say why not",
      0 },
    { "--repeat", TOOL_WHOLE, FIELD(repeat), "N", "warm calls, of which the median counts; default 1", 1 },
    { "--json", TOOL_FLAG, FIELD(json), NULL, "one JSON object on stdout", 0 },
};

const tool_command tool_mha_command = {
    .name = "mha",
    .usage = "--weights FILE --x FILE --heads N [options]",
    .summary = "multi-head attention with its projections, weights from .safetensors",
    .notes =
        "\n"
        "FILE is X.npy or X.safetensors:NAME where a tensor is wanted. Weights are found by PyTorch's names\n"
        "(in_proj_weight or q_proj_weight, ..., out_proj.weight) or BERT's (self.query.weight, ...,\n"
        "output.dense.weight) behind the prefix; a bias that is not there is zero.\n",
    .example = "  clattn mha --weights model.safetensors --prefix encoder.layer.0.attention. --x X.npy "
               "--heads 12 \\\n"
               "      --out O.npy --plot attention.png --tokens tokens.txt\n",
    .options = options,
    .count = sizeof options / sizeof options[0],
    .run = mha,
};
