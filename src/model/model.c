/* SPDX-License-Identifier: Apache-2.0 */
/* From layer specs to a model: parse, infer shapes in order, lay tensors out one behind the other.
 */
#include "model/import_model.h"
#include "model/model_text.h"
#include "model/precision.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "model/resize.h"

#define SHOAL_LAYER(name) extern const shoali_layer_row shoali_layer_##name;
#define SHOAL_LAYER_DESCRIBED(name) SHOAL_LAYER(name)
#include "model/layers.def"
#undef SHOAL_LAYER

static const shoali_layer_row *const rows[] = {
#define SHOAL_LAYER(name) &shoali_layer_##name,
#include "model/layers.def"
#undef SHOAL_LAYER
#undef SHOAL_LAYER_DESCRIBED
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

size_t shoali_layer_row_count(void)
{
    return ROW_COUNT;
}

const shoali_layer_row *shoali_layer_row_at(size_t i)
{
    return i < ROW_COUNT ? rows[i] : NULL;
}

const char *shoal_layer_row_name(size_t i)
{
    return i < ROW_COUNT ? rows[i]->name : NULL;
}

const char *shoal_layer_row_help(size_t i)
{
    return i < ROW_COUNT ? rows[i]->help : NULL;
}

/* ---------------------------------------------------------------- building */

static shoal_status find_row(const char *spec, const shoali_layer_row **row_out)
{
    const char *names[ROW_COUNT];
    size_t found;
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i]->name;
    SHOALI_TRY(shoali_spec_find("layer", spec, names, ROW_COUNT, &found));
    *row_out = rows[found];
    return SHOAL_OK;
}

/* Say which layer the error just set is about. */
static shoal_status at_layer(const char *what, uint32_t index, const char *spec)
{
    shoal_error error;
    shoali_error_get(&error);
    (void)shoali_fail(error.status, "%s, layer %u '%.*s': %s", what, index, SHOALI_LAYER_SPEC_MAX,
                      spec, error.text);
    shoali_error_advice("%s", error.advice);
    return error.status;
}

static char *format_name(shoal_arena *arena, const char *format, const char *a, const char *b)
{
    char text[2 * SHOALI_MODEL_NAME_MAX];
    snprintf(text, sizeof text, format, a, b);
    return shoali_arena_strdup(arena, text);
}

shoal_status shoali_layer_tensor(shoal_model *model, shoali_layer *layer, const shoali_param *param,
                                 uint64_t row_count, uint64_t cols, uint32_t flags)
{
    uint64_t count = cols == 0 ? row_count
                               : row_count * cols; /* both below 2^32 by the keys' ranges */
    if (layer->tensor_count == SHOALI_LAYER_TENSORS_MAX)
        return shoali_fail(SHOAL_EINTERNAL, "more than %d tensors in a layer",
                           SHOALI_LAYER_TENSORS_MAX);
    if (count > SHOALI_MODEL_ELEMS_MAX || model->param_count + count > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%llu more parameters exceed the %llu that a model may have",
                           (unsigned long long)count, (unsigned long long)SHOALI_MODEL_ELEMS_MAX);
    shoali_param *own = &model->tensor_params[model->tensor_count];
    *own = *param;
    own->name = format_name(model->arena, "%s.%s", layer->name, param->role);
    if (own->name == NULL)
        return SHOAL_ENOMEM;
    model->tensors[model->tensor_count++] = (shoal_tensor){
        .key = shoali_hash(own->name, strlen(own->name), 0),
        .offset = (size_t)model->param_count,
        .count = (size_t)count,
        .rows = cols == 0 ? 0 : (uint32_t)row_count,
        .cols = (uint32_t)cols,
        .flags = flags,
        .lr_scale = 1.0f,
    };
    layer->tensor_count++;
    layer->param_count += count;
    model->param_count += count;
    return SHOAL_OK;
}

shoal_status shoali_layer_weights(shoal_model *model, shoali_layer *layer, double count)
{
    if (!(count <= (double)SHOALI_DESCRIBED_ELEMS_MAX) ||
        model->param_count > SHOALI_DESCRIBED_ELEMS_MAX - (uint64_t)count)
        return shoali_fail(SHOAL_EINVAL,
                           "%.4g more parameters exceed the %.4g that a description may have",
                           count, (double)SHOALI_DESCRIBED_ELEMS_MAX);
    layer->param_count += (uint64_t)count;
    model->param_count += (uint64_t)count;
    return SHOAL_OK;
}

/* "conv2": the kind and its ordinal in the model, so that names survive edits of other kinds. */
static const char *layer_name(shoal_model *model, const shoali_layer *layer)
{
    uint32_t ordinal = 1;
    char number[16];
    for (const shoali_layer *other = model->layers; other < layer; other++)
        ordinal += other->row == layer->row;
    snprintf(number, sizeof number, "%u", ordinal);
    return format_name(model->arena, "%s%s", layer->row->name, number);
}

static shoal_status parse_layer(shoal_model *model, const char *spec, shoali_layer *layer)
{
    char canonical[SHOALI_LAYER_SPEC_MAX];
    if (layer->row == NULL)
        SHOALI_TRY(find_row(spec, &layer->row));
    const shoali_schema *schema = &layer->row->schema;
    void *params = shoali_arena_alloc(model->arena, schema->params_size);
    if (params == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_spec_parse("layer", spec, schema, params));
    shoali_spec_format(layer->row->name, schema, params, canonical, sizeof canonical);
    layer->params = params;
    layer->name = layer_name(model, layer);
    layer->spec = shoali_arena_strdup(model->arena, canonical);
    return layer->name == NULL || layer->spec == NULL ? SHOAL_ENOMEM : SHOAL_OK;
}

/* row: NULL, the one of the table that the spec names. */
static shoal_status add_layer(shoal_model *model, const shoali_layer_row *row, const char *spec)
{
    shoali_layer *layer = &model->layers[model->layer_count];
    layer->row = row;
    layer->in = model->layer_count == 0 ? model->input : layer[-1].out;
    layer->tensor_first = model->tensor_count;
    layer->param_offset = model->param_count;
    layer->state_offset = model->state_count;
    SHOALI_TRY(parse_layer(model, spec, layer));
    SHOALI_TRY(layer->row->infer(model, layer));
    layer->described = layer->described || (layer->row->traits & SHOALI_LAYER_DESCRIBED) != 0;
    if (layer->described && model->described == NULL)
        model->described = layer;
    if (shoali_shape_elems(layer->out) >
        (layer->described ? SHOALI_DESCRIBED_ELEMS_MAX : SHOALI_MODEL_ELEMS_MAX))
        return shoali_fail(SHOAL_EINVAL, "an output of %u x %u x %u is too large",
                           layer->out.channels, layer->out.height, layer->out.width);
    model->state_count += layer->state_count;
    model->layer_count++;
    return SHOAL_OK;
}

static shoal_status check_text(const char *what, const shoali_model_text *text)
{
    shoal_shape in = text->input;
    if (in.channels == 0 || in.height == 0 || in.width == 0 ||
        in.channels > SHOALI_MODEL_SIDE_MAX || in.height > SHOALI_MODEL_SIDE_MAX ||
        in.width > SHOALI_MODEL_SIDE_MAX || shoali_shape_elems(in) > SHOALI_MODEL_ELEMS_MAX)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: an input of %u x %u x %u; each must be 1 .. %d, and all together "
                           "not too large",
                           what, in.channels, in.height, in.width, SHOALI_MODEL_SIDE_MAX);
    if (text->layer_count == 0 || text->layer_count > SHOALI_MODEL_LAYERS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%s: %u layers; there must be 1 .. %d", what,
                           text->layer_count, SHOALI_MODEL_LAYERS_MAX);
    return SHOAL_OK;
}

/* The last layer with parameters feeds the loss: codecs may treat it apart (TernGrad's unquantised
 * logits). */
static void mark_last(shoal_model *model)
{
    for (uint32_t i = model->layer_count; i-- > 0;) {
        const shoali_layer *layer = &model->layers[i];
        for (uint32_t t = 0; t < layer->tensor_count; t++)
            model->tensors[layer->tensor_first + t].flags |= SHOAL_TENSOR_LAST;
        if (layer->param_count > 0)
            return;
    }
}

/* What layer a loss stands behind would else be trained by another one, without a word. */
static shoal_status check_loss(const shoal_model *model, bool last)
{
    const uint32_t losses = SHOALI_LAYER_CTC | SHOALI_LAYER_HINGE | SHOALI_LAYER_MASKED;
    if (last || (model->layers[model->layer_count - 1].row->traits & losses) == 0)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "a loss stands at the end, behind all other layers");
}

static shoal_status make_room(shoal_model *model, const shoali_model_text *text)
{
    size_t most_tensors = (size_t)text->layer_count * SHOALI_LAYER_TENSORS_MAX;
    model->name = shoali_arena_strdup(model->arena, text->name);
    model->layers = shoali_arena_array(model->arena, text->layer_count, sizeof *model->layers);
    model->tensors = shoali_arena_array(model->arena, most_tensors, sizeof *model->tensors);
    model->tensor_params = shoali_arena_array(model->arena, most_tensors,
                                              sizeof *model->tensor_params);
    model->input = text->input;
    model->init = text->init;
    return model->name != NULL && model->layers != NULL && model->tensors != NULL &&
                   model->tensor_params != NULL
               ? SHOAL_OK
               : SHOAL_ENOMEM;
}

static void read_traits(shoal_model *model)
{
    const shoali_layer *last = &model->layers[model->layer_count - 1];
    model->sequence = (last->row->traits & SHOALI_LAYER_FRAMES) != 0 && !last->described;
    model->ctc = (last->row->traits & SHOALI_LAYER_CTC) != 0;
    model->hinge = (last->row->traits & SHOALI_LAYER_HINGE) != 0;
    model->masked = (last->row->traits & SHOALI_LAYER_MASKED) != 0;
    model->pairs = (model->layers[0].row->traits & SHOALI_LAYER_PAIRS) != 0;
}

/* row: of the only layer; NULL: the rows of the table that the specs name. */
static shoal_status fill_model(shoal_model *model, const char *what, const shoali_model_text *text,
                               const shoali_layer_row *row, bool relu_to_tanh)
{
    SHOALI_TRY(make_room(model, text));
    for (uint32_t i = 0; i < text->layer_count; i++) {
        bool swap = relu_to_tanh && strcmp(text->layers[i], "relu") == 0;
        if (add_layer(model, row, swap ? "tanh" : text->layers[i]) != SHOAL_OK ||
            check_loss(model, i + 1 == text->layer_count) != SHOAL_OK)
            return at_layer(what, i + 1, text->layers[i]);
    }
    read_traits(model);
    mark_last(model);
    return SHOAL_OK;
}

static shoal_status build(const char *what, const shoali_model_text *text,
                          const shoali_layer_row *row, bool relu_to_tanh, shoal_model **model_out)
{
    SHOALI_TRY(check_text(what, text));
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_model *model = arena != NULL ? shoali_arena_alloc(arena, sizeof *model) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (model != NULL) {
        model->arena = arena;
        status = fill_model(model, what, text, row, relu_to_tanh);
    }
    if (status != SHOAL_OK)
        shoali_arena_destroy(arena);
    else
        *model_out = model;
    return status;
}

shoal_status shoali_model_build(const char *what, const shoali_model_text *text, bool relu_to_tanh,
                                shoal_model **model_out)
{
    return build(what, text, NULL, relu_to_tanh, model_out);
}

shoal_status shoali_model_of_row(const shoali_layer_row *row, const char *spec, shoal_shape input,
                                 shoal_model **model_out)
{
    const shoali_model_text text = {
        .name = row->name, .input = input, .layers = &spec, .layer_count = 1};
    return build(row->name, &text, row, false, model_out);
}

/* ---------------------------------------------------------------- opening */

typedef struct open_params {
    int32_t init, act, loss, head;
    int64_t length, vocab, side, classes;
    bool parts;
    int32_t dropout, precision;
    shoali_blocks blocks;
} open_params;

#define BLOCK(name, field, text)                                                            \
    {                                                                                       \
        name, SHOALI_KEY_INT, offsetof(open_params, blocks.field), 0, 1024, NULL, "0", text \
    }
static const shoali_key open_keys[] = {
    {"init", SHOALI_KEY_CHOICE, offsetof(open_params, init), 0, 0, "own|he|xavier", "own",
     "first weights: as the model says, He's normal or Xavier's uniform"},
    {"act", SHOALI_KEY_CHOICE, offsetof(open_params, act), 0, 0, "own|tanh", "own",
     "tanh: in place of every relu"},
    {"length", SHOALI_KEY_INT, offsetof(open_params, length), 0, 1 << 24, NULL, "0",
     "tokens of a language model's sample; at most: frames of a sequence, pairs of a sparse "
     "sample; 0: as the model says"},
    {"parts", SHOALI_KEY_FLAG, offsetof(open_params, parts), 0, 0, NULL, "off",
     "of a language model that planners see: its blocks as layers that train"},
    {"head", SHOALI_KEY_CHOICE, offsetof(open_params, head), 0, 0, "own|masked|pooler|mean", "own",
     "of a model like BERT: scores of masked tokens, the first frame's vector, or the frames' mean "
     "in place of what stands behind its blocks"},
    {"dropout", SHOALI_KEY_CHOICE, offsetof(open_params, dropout), 0, 0, "own|off", "own",
     "off: of a model that asks for dropout, the model without"},
    {"precision", SHOALI_KEY_CHOICE, offsetof(open_params, precision), 0, 0, "own|float32|bf16",
     "own", "operands of all products (docs/models.md)"},
    {"vocab", SHOALI_KEY_INT, offsetof(open_params, vocab), 0, 1 << 24, NULL, "0",
     "tokens that a language model knows, features of a sparse one; 0: as the model says"},
    {"side", SHOALI_KEY_INT, offsetof(open_params, side), 0, 65536, NULL, "0",
     "pixels of a side of a model's square images; 0: as the model says"},
    {"classes", SHOALI_KEY_INT, offsetof(open_params, classes), 0, 65536, NULL, "0",
     "outputs of the dense layer at a model's end, or, with head=pooler and head=mean, of one "
     "more; "
     "0: as the model says"},
    {"loss", SHOALI_KEY_CHOICE, offsetof(open_params, loss), 0, 0, "own|ctc|hinge", "own",
     "ctc: of a model of sequences, connectionist temporal classification; hinge: as support "
     "vector machines"},
    BLOCK(
        "circulant", all,
        "block-circulant dense layers, but the last, and cells, with blocks of so many; 0: as the "
        "model says"),
    BLOCK("circulant_conv", conv, "the same of convolutions, but the first, over their channels"),
    BLOCK("circulant_x", x, "the same of cells' input matrices; 0: as circulant"),
    BLOCK("circulant_r", r, "the same of cells' recurrent matrices; 0: as circulant"),
    BLOCK("circulant_y", y, "the same of projections (0: as circulant) and of framewise layers"),
};
static const shoali_schema open_schema = {open_keys, sizeof open_keys / sizeof open_keys[0],
                                          sizeof(open_params)};

static bool is_path(const char *name)
{
    size_t len = strlen(name);
    return strchr(name, '/') != NULL || (len > 5 && strcmp(name + len - 5, ".json") == 0);
}

static shoal_status unknown_model(const char *spec)
{
    const char *names[64];
    size_t count = 0;
    while (count < sizeof names / sizeof names[0] && shoal_model_zoo_name(count) != NULL) {
        names[count] = shoal_model_zoo_name(count);
        count++;
    }
    shoal_status status = shoali_spec_unknown("model", spec, names, count);
    if (shoal_last_error()->advice[0] == '\0')
        shoali_error_advice("A model of your own is a path: it holds a '/' or ends in .json.");
    return status;
}

static shoal_status set_length(const char *name, int64_t length, shoali_model_text *text)
{
    bool frames = false;
    for (uint32_t i = 0; i < text->layer_count; i++)
        frames = frames || strncmp(text->layers[i], "lstm", 4) == 0 ||
                 strncmp(text->layers[i], "gru", 3) == 0 ||
                 strncmp(text->layers[i], "sparse", 6) == 0;
    if (text->input.channels != 1 || (text->input.width != 1 && !frames))
        return shoali_fail(SHOAL_EINVAL, "model '%.64s' has no sequence whose length could be set",
                           name);
    text->input.height = (uint32_t)length;
    return SHOAL_OK;
}

static shoal_status append_layer(shoal_arena *arena, const char *spec, shoali_model_text *text)
{
    const char **layers = shoali_arena_array(arena, text->layer_count + 1u, sizeof *layers);
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < text->layer_count; i++)
        layers[i] = text->layers[i];
    layers[text->layer_count++] = spec;
    text->layers = layers;
    return SHOAL_OK;
}

/* Layers of the text in other words, where the keys ask for it. */
static shoal_status circulate(const char *name, const open_params *keys, shoal_arena *arena,
                              shoali_model_text *text)
{
    const shoali_blocks *b = &keys->blocks;
    if (b->all <= 1 && b->conv <= 1 && b->x <= 1 && b->r <= 1 && b->y <= 1)
        return SHOAL_OK;
    const char **layers = shoali_arena_array(arena, text->layer_count, sizeof *layers);
    bool changed = false;
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        char spec[SHOALI_LAYER_SPEC_MAX];
        bool changes = shoali_layer_circulate(text, i, &keys->blocks, spec);
        layers[i] = changes ? shoali_arena_strdup(arena, spec) : text->layers[i];
        if (layers[i] == NULL)
            return SHOAL_ENOMEM;
        changed = changed || changes;
    }
    text->layers = layers;
    if (!changed)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' has no hidden dense layer, no cells (no second "
                           "convolution) that could be block-circulant",
                           name);
    return SHOAL_OK;
}

static bool is_onnx(const char *name)
{
    size_t len = strlen(name);
    return len > 5 && strcmp(name + len - 5, ".onnx") == 0;
}

static shoal_status check_dropout(const char *name, const open_params *keys,
                                  const shoali_model_text *text)
{
    if (text->dropout == 0 || !keys->parts || keys->dropout > 0)
        return SHOAL_OK;
    (void)shoali_fail(SHOAL_ENOTSUP,
                      "%s asks for dropout (%g) where its blocks do not have any here", name,
                      text->dropout);
    shoali_error_advice("To run it without: %s:parts,dropout=off", name);
    return SHOAL_ENOTSUP;
}

static const char *const heads[] = {"own", "masked", "pooler", "mean"};

/* What ends in a vector gets a layer of scores. */
static shoal_status set_classes(const char *name, const open_params *keys, shoal_arena *arena,
                                shoali_model_text *text)
{
    char spec[SHOALI_LAYER_SPEC_MAX];
    if (keys->head < 2)
        return shoali_model_classes(name, keys->classes, arena, text);
    snprintf(spec, sizeof spec, "dense:out=%lld", (long long)keys->classes);
    const char *kept = shoali_arena_strdup(arena, spec);
    return kept != NULL ? append_layer(arena, kept, text) : SHOAL_ENOMEM;
}

static shoal_status open_named(const char *spec, const char *name, shoal_arena *arena,
                               shoal_model **model_out)
{
    open_params keys;
    shoali_model_text text;
    SHOALI_TRY(shoali_spec_parse("model", spec, &open_schema, &keys));
    if (is_onnx(name)) {
        SHOALI_TRY(shoali_import_onnx_file(name, arena, &text));
    } else if (is_path(name)) {
        SHOALI_TRY(shoali_model_load_json(name, arena, &text));
    } else {
        bool found = false;
        SHOALI_TRY(shoali_zoo_find(name, arena, &text, &found));
        if (!found)
            return unknown_model(spec);
    }
    if (keys.init > 0)
        text.init = keys.init == 1 ? SHOALI_INIT_HE : SHOALI_INIT_XAVIER;
    if (keys.length > 0)
        SHOALI_TRY(set_length(name, keys.length, &text));
    else if (text.say_length)
        return shoali_fail(
            SHOAL_EINVAL,
            "%s bears %u tokens, which says nothing of how many a sample has: say so "
            "with %s:length=4096",
            name, text.input.height, name);
    if (keys.vocab > 0)
        SHOALI_TRY(shoali_model_vocab(name, keys.vocab, arena, &text));
    SHOALI_TRY(check_dropout(name, &keys, &text));
    if (keys.dropout > 0)
        SHOALI_TRY(shoali_model_undrop(arena, &text));
    if (keys.head > 0)
        SHOALI_TRY(shoali_model_head(name, heads[keys.head], arena, &text));
    if (keys.parts || text.parts)
        SHOALI_TRY(shoali_model_parts(name, arena, &text));
    if (keys.side > 0)
        SHOALI_TRY(shoali_model_side(name, keys.side, arena, &text));
    if (keys.classes > 0)
        SHOALI_TRY(set_classes(name, &keys, arena, &text));
    SHOALI_TRY(circulate(name, &keys, arena, &text));
    if (keys.precision > 0)
        SHOALI_TRY(shoali_model_round(name, keys.precision == 2, arena, &text));
    if (keys.loss > 0)
        SHOALI_TRY(append_layer(arena, keys.loss == 1 ? "ctc" : "hinge", &text));
    return shoali_model_build(name, &text, keys.act > 0, model_out);
}

shoal_status shoal_model_open(const char *spec, shoal_model **model_out)
{
    if (spec == NULL || model_out == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_model_open needs a spec and a place for the model");
    shoal_arena *arena = shoali_arena_create(4096);
    char *name = arena != NULL ? shoali_arena_strdup(arena, spec) : NULL;
    shoal_status status = SHOAL_ENOMEM;
    if (name != NULL) {
        name[shoali_spec_name_len(name)] = '\0';
        status = open_named(spec, name, arena, model_out);
    }
    shoali_arena_destroy(arena);
    return status;
}

void shoal_model_close(shoal_model *model)
{
    if (model != NULL)
        shoali_arena_destroy(model->arena);
}

/* ---------------------------------------------------------------- reading */

static double backward_flops(const shoal_model *model)
{
    double sum = 0;
    bool needed = false; /* nobody needs the gradient of what only the input feeds */
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        sum += layer->weight_flops + (needed ? layer->input_flops : 0.0);
        needed = needed || layer->param_count > 0;
    }
    return sum;
}

shoal_status shoal_model_describe(const shoal_model *model, shoal_model_info *info_out)
{
    if (model == NULL || info_out == NULL || info_out->size != sizeof *info_out)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_model_describe needs a model and an info of this version's size");
    shoal_model_info info = {.size = sizeof info, .name = model->name, .input = model->input};
    shoal_shape out = model->layers[model->layer_count - 1].out;
    info.described = model->described != NULL;
    info.smooths = !model->ctc && !model->hinge;
    info.classes = info.described    ? out.channels
                   : model->sequence ? out.width
                                     : (uint32_t)shoali_shape_elems(out);
    info.layer_count = model->layer_count;
    info.tensor_count = model->tensor_count;
    info.param_count = model->param_count;
    info.state_count = model->state_count;
    info.backward_flops = backward_flops(model);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        info.forward_flops += layer->forward_flops;
        if ((layer->row->traits & (SHOALI_LAYER_IN_PLACE | SHOALI_LAYER_ALIAS)) == 0)
            info.activation_count += shoali_shape_elems(layer->out);
    }
    *info_out = info;
    return SHOAL_OK;
}

shoal_status shoal_model_layer(const shoal_model *model, uint32_t index, shoal_layer_info *info_out)
{
    if (model == NULL || info_out == NULL || info_out->size != sizeof *info_out)
        return shoali_fail(SHOAL_EINVAL,
                           "shoal_model_layer needs a model and an info of this version's size");
    if (index >= model->layer_count)
        return shoali_fail(SHOAL_EINVAL, "layer %u of a model with %u", index, model->layer_count);
    const shoali_layer *layer = &model->layers[index];
    *info_out = (shoal_layer_info){
        .size = sizeof *info_out,
        .name = layer->name,
        .kind = layer->row->name,
        .spec = layer->spec,
        .in = layer->in,
        .out = layer->out,
        .tensor_first = layer->tensor_first,
        .tensor_count = layer->tensor_count,
        .param_offset = layer->param_offset,
        .param_count = layer->param_count,
        .state_offset = layer->state_offset,
        .state_count = layer->state_count,
        .forward_flops = layer->forward_flops,
        .backward_flops = layer->weight_flops + layer->input_flops,
        .described = layer->described,
    };
    return SHOAL_OK;
}

const shoal_tensor *shoal_model_tensors(const shoal_model *model, uint32_t *count_out)
{
    *count_out = model->tensor_count;
    return model->tensors;
}

const char *shoal_model_tensor_name(const shoal_model *model, uint32_t index)
{
    return index < model->tensor_count ? model->tensor_params[index].name : NULL;
}
