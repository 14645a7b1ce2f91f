/* SPDX-License-Identifier: Apache-2.0 */
#include "files/weights_hf.h"

#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"

extern const shoali_hf_family shoali_hf_llama, shoali_hf_gpt2, shoali_hf_bert;

static const shoali_hf_family *const families[] = {&shoali_hf_llama, &shoali_hf_gpt2,
                                                   &shoali_hf_bert};

/* ---------------------------------------------------------------- views */

/* How far back an add reaches where layers of dropout are left out. before[i]: layers that are
 * kept in front of layer i; what comes from such a layer is of the one before it. */
static shoal_status shorten_add(const uint32_t *before, uint32_t index, shoal_arena *arena,
                                shoali_layer *add)
{
    const shoali_branch_params *old = add->params;
    shoali_branch_params *p = shoali_arena_alloc(arena, sizeof *p);
    if (p == NULL)
        return SHOAL_ENOMEM;
    /* past the first layer lies the model's input */
    p->back = index + 1 < old->back ? old->back
                                    : before[index] + 1 - (int64_t)before[index + 1 - old->back];
    add->params = p;
    return SHOAL_OK;
}

static shoal_status fill(const shoal_model *model, shoali_hf_view *view)
{
    shoali_layer *layers = view->model.layers;
    uint32_t *before = view->places, count = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        before[i] = count;
        if (shoali_hf_is(model, i, "dropout") && count > 0 && view->drops[count - 1] == 0) {
            view->drops[count - 1] = ((const shoali_dropout_params *)model->layers[i].params)->rate;
            continue; /* one in front of all, or twice, stays: no family has it */
        }
        layers[count] = model->layers[i];
        if (shoali_hf_is(model, i, "add"))
            SHOALI_TRY(shorten_add(before, i, view->arena, &layers[count]));
        count++;
    }
    view->model.layer_count = count;
    return SHOAL_OK;
}

shoal_status shoali_hf_open(const shoal_model *model, shoali_hf_view *view_out)
{
    shoali_hf_view view = {.model = *model, .arena = shoali_arena_create(4096)};
    const size_t count = (size_t)model->layer_count + 1;
    if (view.arena == NULL)
        return SHOAL_ENOMEM;
    view.model.layers = shoali_arena_array(view.arena, count, sizeof *view.model.layers);
    view.places = shoali_arena_array(view.arena, count, sizeof *view.places);
    view.drops = shoali_arena_array(view.arena, count, sizeof *view.drops);
    if (view.model.layers == NULL || view.places == NULL || view.drops == NULL ||
        fill(model, &view) != SHOAL_OK) {
        shoali_hf_close(&view);
        return SHOAL_ENOMEM;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families && view.family == NULL; i++)
        if (families[i]->is(&view.model))
            view.family = families[i];
    *view_out = view;
    return SHOAL_OK;
}

void shoali_hf_close(shoali_hf_view *view)
{
    shoali_arena_destroy(view->arena);
}

void shoali_hf_place_of(const shoali_hf_view *view, uint32_t index, const char *role,
                        shoali_hf_place *place_out)
{
    *place_out = (shoali_hf_place){.tensors = 1};
    view->family->place(&view->model, &view->model.layers[view->places[index]], role, place_out);
}

const char *shoali_hf_families(void)
{
    return "LLaMA's, GPT-2's or BERT's kind";
}

/* ---------------------------------------------------------------- config.json */

/* Rates of dropout, each the same wherever config.json has one word for it. */
typedef struct drops {
    double rates[3];
    bool known[3];
} drops;

static shoal_status take_drop(const shoali_hf_view *view, uint32_t layer, int which, double rate,
                              drops *d)
{
    const char *const *keys = view->family->drops;
    if (rate > 0 && keys[which] == NULL)
        return shoali_hf_differs(&view->model.layers[layer], "it has no word for this dropout");
    for (int k = 0; k < 3; k++)
        if (keys[which] != NULL && keys[k] != NULL && strcmp(keys[k], keys[which]) == 0 &&
            d->known[k] && d->rates[k] != rate)
            return shoali_hf_differs(&view->model.layers[layer],
                                     "dropout behind it is another than elsewhere");
    d->rates[which] = rate;
    d->known[which] = true;
    return SHOAL_OK;
}

static shoal_status add_drops(const shoali_hf_view *view, json_t *config)
{
    const shoali_hf_family *f = view->family;
    const shoal_model *model = &view->model;
    drops d = {0};
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const uint32_t at = i < f->front ? f->block : (i - f->front) % f->block;
        const bool inside = at < f->block &&
                            shoali_hf_is(model, i - at + f->attention, "attention");
        if (i + 1 == f->front)
            SHOALI_TRY(take_drop(view, i, 0, view->drops[i], &d));
        else if (inside && (at == f->sums[0] || at == f->sums[1]))
            SHOALI_TRY(take_drop(view, i, 1, view->drops[i], &d));
        else if (view->drops[i] > 0)
            return shoali_hf_differs(&model->layers[i], "it has no word for dropout behind it");
        if (shoali_hf_is(model, i, "attention"))
            SHOALI_TRY(take_drop(
                view, i, 2, ((const shoali_attention_params *)model->layers[i].params)->drop, &d));
    }
    for (int k = 0; k < 3; k++)
        if (f->drops[k] != NULL &&
            json_object_set_new(config, f->drops[k], json_real(d.rates[k])) != 0)
            return SHOAL_ENOMEM;
    return SHOAL_OK;
}

shoal_status shoali_hf_config(const shoali_hf_view *view, const char *path)
{
    shoali_new_file out;
    json_t *config = NULL;
    SHOALI_TRY(view->family->config(&view->model, &config));
    if (config == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = add_drops(view, config);
    if (status == SHOAL_OK)
        status = shoali_new_file_open(path, &out);
    if (status == SHOAL_OK) {
        json_dumpf(config, out.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', out.file);
        status = shoali_new_file_commit(&out);
    }
    json_decref(config);
    return status;
}

/* ---------------------------------------------------------------- for the families */

bool shoali_hf_repeats(const shoal_model *model, uint32_t first, uint32_t count,
                       const char *const *kinds, const uint8_t *backs, uint32_t period)
{
    for (uint32_t i = 0; i < count; i++) {
        const shoali_branch_params *add = model->layers[first + i].params;
        const uint32_t at = i % period;
        if (!shoali_hf_is(model, first + i, kinds[at]) || (backs[at] > 0 && add->back != backs[at]))
            return false;
    }
    return count % period == 0;
}

shoal_status shoali_hf_alike(const shoal_model *model, uint32_t first, uint32_t count,
                             uint32_t period)
{
    for (uint32_t i = 0; i < count; i++) {
        const shoali_layer *layer = &model->layers[first + i];
        if (strcmp(layer->spec, model->layers[first + i % period].spec) != 0)
            return shoali_hf_differs(layer, "all blocks are alike");
    }
    return SHOAL_OK;
}

shoal_status shoali_hf_differs(const shoali_layer *layer, const char *why)
{
    return shoali_fail(SHOAL_EINVAL, "config.json cannot say what layer %s (%s) is: %s",
                       layer->name, layer->spec, why);
}
