/* SPDX-License-Identifier: Apache-2.0 */
/* Model files: {"name": .., "input": [channels, height, width] or [n], "init": "he", "layers":
 * [spec, ...]}. */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/new_file.h"
#include "model/import_model.h"
#include "model/model_text.h"

/* Put the file's name before the error just set. */
static shoal_status in_file(const char *what, shoal_status status)
{
    shoal_error error;
    shoali_error_get(&error);
    (void)shoali_fail(status, "%s: %s", what, error.text);
    shoali_error_advice("A model file is {\"name\": \"n\", \"input\": [1, 28, 28], \"layers\": "
                        "[\"dense:out=10\"]}.");
    return status;
}

static shoal_status read_name(const json_t *root, shoal_arena *arena, const char **name_out)
{
    const char *name;
    SHOALI_TRY(shoali_json_string(root, "name", "model", &name));
    size_t len = strlen(name);
    bool clean = len > 0 && len < SHOALI_MODEL_NAME_MAX;
    for (size_t i = 0; clean && i < len; i++)
        clean = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL;
    if (!clean)
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"name\" must be 1 .. %d letters, digits, '.', '_' or '-'",
                           SHOALI_MODEL_NAME_MAX - 1);
    *name_out = shoali_arena_strdup(arena, name);
    return *name_out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status read_input(const json_t *root, shoal_shape *shape_out)
{
    const json_t *input = json_object_get(root, "input");
    size_t count = json_array_size(input);
    uint32_t sides[3] = {1, 1, 1};
    if (count != 1 && count != 3)
        return shoali_fail(SHOAL_ECORRUPT,
                           "\"input\" must be [channels, height, width] or [elements]");
    for (size_t i = 0; i < count; i++) {
        const json_t *side = json_array_get(input, i);
        json_int_t value = json_integer_value(side);
        if (!json_is_integer(side) || value < 1 || value > SHOALI_MODEL_SIDE_MAX)
            return shoali_fail(SHOAL_ECORRUPT, "\"input\"[%zu] must be an integer of 1 .. %d", i,
                               SHOALI_MODEL_SIDE_MAX);
        sides[i] = (uint32_t)value;
    }
    *shape_out = (shoal_shape){sides[0], sides[1], sides[2]};
    return SHOAL_OK;
}

static shoal_status read_init(const json_t *root, shoali_init_kind *init_out)
{
    const char *init;
    SHOALI_TRY(shoali_json_string(root, "init", "he", &init));
    if (strcmp(init, "he") != 0 && strcmp(init, "xavier") != 0)
        return shoali_fail(SHOAL_ECORRUPT, "\"init\" is \"%.32s\"; it must be \"he\" or \"xavier\"",
                           init);
    *init_out = strcmp(init, "he") == 0 ? SHOALI_INIT_HE : SHOALI_INIT_XAVIER;
    return SHOAL_OK;
}

static shoal_status read_layers(const json_t *root, shoal_arena *arena, shoali_model_text *text)
{
    const json_t *list = json_object_get(root, "layers");
    size_t count = json_array_size(list);
    if (count == 0 || count > SHOALI_MODEL_LAYERS_MAX)
        return shoali_fail(SHOAL_ECORRUPT, "\"layers\" must be an array of 1 .. %d layer specs",
                           SHOALI_MODEL_LAYERS_MAX);
    const char **layers = shoali_arena_array(arena, count, sizeof *layers);
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *spec = json_string_value(json_array_get(list, i));
        if (spec == NULL || strlen(spec) >= SHOALI_LAYER_SPEC_MAX)
            return shoali_fail(SHOAL_ECORRUPT,
                               "\"layers\"[%zu] must be a layer spec of less than %d characters", i,
                               SHOALI_LAYER_SPEC_MAX);
        layers[i] = shoali_arena_strdup(arena, spec);
        if (layers[i] == NULL)
            return SHOAL_ENOMEM;
    }
    text->layers = layers;
    text->layer_count = (uint32_t)count;
    return SHOAL_OK;
}

static shoal_status check_keys(json_t *root)
{
    static const char *const known[] = {"name", "input", "init", "layers"};
    if (!json_is_object(root))
        return shoali_fail(SHOAL_ECORRUPT, "a model is a JSON object");
    for (void *at = json_object_iter(root); at != NULL; at = json_object_iter_next(root, at)) {
        const char *key = json_object_iter_key(at);
        size_t i = 0;
        while (i < 4 && strcmp(known[i], key) != 0)
            i++;
        if (i == 4)
            return shoali_fail(SHOAL_ECORRUPT,
                               "unknown key \"%.32s\"; known: name, input, init, layers", key);
    }
    return SHOAL_OK;
}

static shoal_status read_text(json_t *root, shoal_arena *arena, shoali_model_text *text)
{
    *text = (shoali_model_text){0};
    if (shoali_is_hf_config(root))
        return shoali_import_hf_config(root, arena, text);
    SHOALI_TRY(check_keys(root));
    SHOALI_TRY(read_name(root, arena, &text->name));
    SHOALI_TRY(read_input(root, &text->input));
    SHOALI_TRY(read_init(root, &text->init));
    return read_layers(root, arena, text);
}

static shoal_status take_json(const char *what, json_t *root, shoal_arena *arena,
                              shoali_model_text *text_out)
{
    shoal_status status = read_text(root, arena, text_out);
    json_decref(root);
    return status != SHOAL_OK && status != SHOAL_ENOMEM ? in_file(what, status) : status;
}

shoal_status shoali_model_parse_json(const char *what, const char *json, size_t len_bytes,
                                     shoal_arena *arena, shoali_model_text *text_out)
{
    json_t *root;
    SHOALI_TRY(shoali_json_parse(what, json, len_bytes, &root));
    return take_json(what, root, arena, text_out);
}

shoal_status shoali_model_load_json(const char *path, shoal_arena *arena,
                                    shoali_model_text *text_out)
{
    json_t *root;
    SHOALI_TRY(shoali_json_load(path, &root));
    return take_json(path, root, arena, text_out);
}

/* ---------------------------------------------------------------- writing */

json_t *shoali_model_to_json(const shoal_model *model)
{
    const shoal_shape in = model->input;
    json_t *layers = json_array();
    for (uint32_t i = 0; i < model->layer_count; i++)
        json_array_append_new(layers, json_string(model->layers[i].spec));
    return json_pack("{s:s, s:[i, i, i], s:s, s:o}", "name", model->name, "input", (int)in.channels,
                     (int)in.height, (int)in.width, "init",
                     model->init == SHOALI_INIT_HE ? "he" : "xavier", "layers", layers);
}

shoal_status shoali_model_from_json(const char *what, const char *json, shoal_model **model_out)
{
    shoali_model_text text;
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_status status = arena != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        status = shoali_model_parse_json(what, json, strlen(json), arena, &text);
    if (status == SHOAL_OK)
        status = shoali_model_build(what, &text, false, model_out);
    shoali_arena_destroy(arena);
    return status;
}

/* Names and canonical specs hold nothing that JSON would have to escape. */
static void write_text(const shoal_model *model, FILE *file)
{
    fprintf(
        file,
        "{\n  \"name\": \"%s\",\n  \"input\": [%u, %u, %u],\n  \"init\": \"%s\",\n  \"layers\": [",
        model->name, model->input.channels, model->input.height, model->input.width,
        model->init == SHOALI_INIT_HE ? "he" : "xavier");
    for (uint32_t i = 0; i < model->layer_count; i++)
        fprintf(file, "%s\n    \"%s\"", i == 0 ? "" : ",", model->layers[i].spec);
    fprintf(file, "\n  ]\n}\n");
}

shoal_status shoal_model_save(const shoal_model *model, const char *path)
{
    shoali_new_file out;
    if (model == NULL || path == NULL)
        return shoali_fail(SHOAL_EINVAL, "shoal_model_save needs a model and a path");
    SHOALI_TRY(shoali_new_file_open(path, &out));
    write_text(model, out.file);
    return shoali_new_file_commit(&out);
}
