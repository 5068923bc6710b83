/* tools/module.c: finds a module's weights by PyTorch's or BERT's names and makes the library's description
 * and call. Called by mha.c. */
#include "module.h"

#include "files/load.h"
#include "files/safetensors.h"

#include <stdio.h>
#include <string.h>

/* The parts in the order of the fields of clattn_mha_weights. */
enum part { IN_W, Q_W, K_W, V_W, IN_B, Q_B, K_B, V_B, OUT_W, OUT_B };

typedef struct naming {
    const char *whose;
    const char *name[TOOL_MHA_PARTS];
    enum part first; /* by which the naming is recognised */
} naming;

static const naming namings[] = {
    { "PyTorch, packed",
      { [IN_W] = "in_proj_weight",
        [IN_B] = "in_proj_bias",
        [OUT_W] = "out_proj.weight",
        [OUT_B] = "out_proj.bias" },
      IN_W },
    { "PyTorch, separate",
      { [Q_W] = "q_proj_weight",
        [K_W] = "k_proj_weight",
        [V_W] = "v_proj_weight",
        [IN_B] = "in_proj_bias",
        [OUT_W] = "out_proj.weight",
        [OUT_B] = "out_proj.bias" },
      Q_W },
    { "BERT",
      { [Q_W] = "self.query.weight",
        [K_W] = "self.key.weight",
        [V_W] = "self.value.weight",
        [Q_B] = "self.query.bias",
        [K_B] = "self.key.bias",
        [V_B] = "self.value.bias",
        [OUT_W] = "output.dense.weight",
        [OUT_B] = "output.dense.bias" },
      Q_W },
};
enum { NAMINGS = sizeof namings / sizeof namings[0], NAME_BYTES = 512 };

static bool is_weight(int part)
{
    return part <= V_W || part == OUT_W;
}

static bool full_name(const char *prefix, const char *name, char text[NAME_BYTES])
{
    return snprintf(text, NAME_BYTES, "%s%s", prefix, name) < NAME_BYTES;
}

/* Says which prefixes there are when nothing stands under the one that was given. */
static bool fail_prefix(const tool_safetensors *file, const char *prefix, tool_error *error)
{
    char found[256] = "";
    for (size_t index = 0; index < tool_safetensors_count(file); index++) {
        const char *name = tool_safetensors_name(file, index);
        for (size_t which = 0; which < NAMINGS; which++) {
            const char *first = namings[which].name[namings[which].first];
            size_t length = strlen(name), tail = strlen(first), used = strlen(found);
            if (length >= tail && strcmp(name + length - tail, first) == 0 &&
                used + length - tail + 8 < sizeof found)
                snprintf(found + used, sizeof found - used, "%s\"%.*s\"", used ? ", " : "",
                         (int)(length - tail), name);
        }
    }
    return tool_fail(
        error,
        "%s: no in_proj_weight, q_proj_weight or self.query.weight under the prefix \"%s\"; it has them "
        "under %s",
        tool_safetensors_path(file), prefix, *found ? found : "none");
}

static bool read_parts(const tool_mha_values *given, tool_module *module, tool_error *error)
{
    tool_safetensors *file;
    const char *prefix = given->prefix ? given->prefix : "";
    const naming *of = NULL;
    char name[NAME_BYTES];
    if (!tool_safetensors_open(given->weights, &file, error))
        return false;
    for (size_t which = 0; which < NAMINGS && !of; which++) {
        if (full_name(prefix, namings[which].name[namings[which].first], name) &&
            tool_safetensors_has(file, name))
            of = &namings[which];
    }
    bool ok = of ? true : fail_prefix(file, prefix, error);
    for (int part = 0; part < TOOL_MHA_PARTS && ok; part++) {
        tool_array raw;
        if (!of->name[part] || !full_name(prefix, of->name[part], name) ||
            (!is_weight(part) && !tool_safetensors_has(file, name)))
            continue;
        ok = tool_safetensors_read(file, name, &raw, error) &&
             tool_array_convert(&raw, TOOL_F32, name, &module->part[part], error);
        tool_array_free(&raw);
    }
    if (ok)
        module->naming = of->whose;
    tool_safetensors_close(file);
    return ok;
}

static bool read_activations(const char *option, const char *where, tool_array *array, tool_error *error)
{
    tool_array raw;
    char text[TOOL_SHAPE_BYTES];
    bool ok = tool_load(where, &raw, error);
    if (ok && !tool_type_is_float(raw.type))
        ok = tool_fail(error, "%s: %s holds %s, floats are wanted", option, where, tool_types[raw.type].text);
    if (ok && raw.rank != 2 && raw.rank != 3)
        ok = tool_fail(error, "%s: %s has shape %s, (batch, length, width) or (length, width) is wanted",
                       option, where, tool_shape_text(raw.rank, raw.shape, text));
    ok = ok && tool_array_convert(&raw, TOOL_F32, where, array, error);
    tool_array_free(&raw);
    return ok;
}

/* Whether each part has the shape that the widths of x and of the context ask for. */
static bool parts_fit(const tool_module *module, const char *path, tool_error *error)
{
    const int64_t width = module->desc.embed_dim, key = module->desc.kdim, value = module->desc.vdim;
    const int64_t wanted[TOOL_MHA_PARTS][2] = {
        [IN_W] = { 3 * width, width },
        [Q_W] = { width, width },
        [K_W] = { width, key },
        [V_W] = { width, value },
        [IN_B] = { 3 * width },
        [Q_B] = { width },
        [K_B] = { width },
        [V_B] = { width },
        [OUT_W] = { width, width },
        [OUT_B] = { width },
    };
    static const char *const role[TOOL_MHA_PARTS] = {
        "in-projection", "query projection", "key projection", "value projection", "in-projection bias",
        "query bias",    "key bias",         "value bias",     "out-projection",   "out-projection bias"
    };
    for (int part = 0; part < TOOL_MHA_PARTS; part++) {
        const tool_array *array = &module->part[part];
        int rank = is_weight(part) ? 2 : 1;
        char has[TOOL_SHAPE_BYTES], wants[TOOL_SHAPE_BYTES];
        if (!array->data)
            continue;
        if (array->rank != rank || memcmp(array->shape, wanted[part], (size_t)rank * sizeof(int64_t)) != 0)
            return tool_fail(error,
                             "%s: the %s has shape %s, x of width %lld and context of width %lld ask for %s",
                             path, role[part], tool_shape_text(array->rank, array->shape, has),
                             (long long)width, (long long)key, tool_shape_text(rank, wanted[part], wants));
    }
    return true;
}

static bool read_padding(const tool_mha_values *given, tool_module *module, tool_error *error)
{
    const clattn_mha_desc *desc = &module->desc;
    const int64_t wanted[] = { desc->batch, desc->len_kv };
    const char *where = given->key_padding;
    int rank = module->x.rank - 1;
    char has[TOOL_SHAPE_BYTES], wants[TOOL_SHAPE_BYTES];
    tool_array raw;
    bool ok = tool_load(where, &raw, error);
    if (ok && (raw.rank != rank || memcmp(raw.shape, wanted + 2 - rank, (size_t)rank * sizeof(int64_t)) != 0))
        ok = tool_fail(error, "--key-padding: %s has shape %s, the keys have %s", where,
                       tool_shape_text(raw.rank, raw.shape, has),
                       tool_shape_text(rank, wanted + 2 - rank, wants));
    ok = ok && tool_array_create(TOOL_U8, raw.rank, raw.shape, where, &module->padding, error);
    for (size_t index = 0; ok && index < raw.elements; index++) {
        double value = tool_array_get(&raw, index);
        if (value != 0 && value != 1)
            ok = tool_fail(error, "--key-padding: %s: %g at element %zu is neither 0 nor 1", where, value,
                           index);
        ((uint8_t *)module->padding.data)[index] = value == 1;
    }
    tool_array_free(&raw);
    return ok;
}

static void fill_weights(tool_module *module)
{
    clattn_mha_weights *weights = &module->weights;
    const void **field[TOOL_MHA_PARTS] = {
        [IN_W] = &weights->in_proj_weight,   [Q_W] = &weights->q_proj_weight,
        [K_W] = &weights->k_proj_weight,     [V_W] = &weights->v_proj_weight,
        [IN_B] = &weights->in_proj_bias,     [Q_B] = &weights->q_proj_bias,
        [K_B] = &weights->k_proj_bias,       [V_B] = &weights->v_proj_bias,
        [OUT_W] = &weights->out_proj_weight, [OUT_B] = &weights->out_proj_bias,
    };
    weights->dtype = CLATTN_F32;
    for (int part = 0; part < TOOL_MHA_PARTS; part++)
        *field[part] = module->part[part].data;
}

static bool describe(const tool_mha_values *given, tool_module *module, tool_error *error)
{
    const tool_array *x = &module->x, *keys = given->context ? &module->context : x;
    if (keys->rank != x->rank)
        return tool_fail(error, "--context has %d axes, --x has %d", keys->rank, x->rank);
    if (x->rank == 3 && keys->shape[0] != x->shape[0])
        return tool_fail(error, "--context has batch size %lld, --x has %lld", (long long)keys->shape[0],
                         (long long)x->shape[0]);
    const int64_t *last = x->shape + x->rank - 1, *last_key = keys->shape + keys->rank - 1;
    clattn_mha_desc_init(&module->desc, x->rank == 3 ? x->shape[0] : 1, last[-1], last_key[-1], last[0],
                         given->heads);
    module->desc.kdim = module->desc.vdim = last_key[0];
    if (given->key_padding)
        module->desc.key_padding = given->drop_padding ? CLATTN_MASK_DROP : CLATTN_MASK_KEEP;
    if (given->attention || given->plot)
        module->desc.weights = CLATTN_WEIGHTS_FULL;
    module->desc.kernel = given->kernel;
    module->desc.gemm = given->gemm;
    return true;
}

static bool make_outputs(tool_module *module, tool_error *error)
{
    const clattn_mha_desc *desc = &module->desc;
    const int64_t weights[] = { desc->batch, desc->heads, desc->len_q, desc->len_kv };
    int rank = module->x.rank + 1;
    return tool_array_create(TOOL_F32, module->x.rank, module->x.shape, "the output", &module->out, error) &&
           (desc->weights == CLATTN_WEIGHTS_NONE ||
            tool_array_create(TOOL_F32, rank, weights + 4 - rank, "the attention", &module->attention,
                              error));
}

bool tool_module_create(const tool_mha_values *given, tool_module *module, tool_error *error)
{
    memset(module, 0, sizeof *module);
    if (!read_activations("--x", given->x, &module->x, error) ||
        (given->context && !read_activations("--context", given->context, &module->context, error)) ||
        !describe(given, module, error) || !read_parts(given, module, error) ||
        !parts_fit(module, given->weights, error) ||
        (given->key_padding && !read_padding(given, module, error)) || !make_outputs(module, error)) {
        tool_module_free(module);
        return false;
    }
    const tool_array *keys = given->context ? &module->context : &module->x;
    clattn_mha_call *call = &module->call;
    fill_weights(module);
    clattn_mha_call_init(&module->desc, call);
    call->query.host = module->x.data;
    call->key.host = call->value.host = keys->data;
    call->key_padding.host = module->padding.data;
    call->out.host = module->out.data;
    call->attention.host = module->attention.data;
    return true;
}

void tool_module_free(tool_module *module)
{
    tool_array *arrays[] = { &module->x, &module->context, &module->padding, &module->out,
                             &module->attention };
    for (size_t index = 0; index < sizeof arrays / sizeof arrays[0]; index++)
        tool_array_free(arrays[index]);
    for (int part = 0; part < TOOL_MHA_PARTS; part++)
        tool_array_free(&module->part[part]);
    memset(module, 0, sizeof *module);
}
