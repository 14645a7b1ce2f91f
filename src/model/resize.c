/* SPDX-License-Identifier: Apache-2.0 */
#include "model/resize.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/model_text.h"

/* Another text for layer i, in a list of the arena's own. */
static shoal_status change(shoal_arena *arena, uint32_t i, const char *spec,
                           shoali_model_text *text)
{
    const char **layers = shoali_arena_array(arena, text->layer_count, sizeof *layers);
    char *kept = shoali_arena_strdup(arena, spec);
    if (layers == NULL || kept == NULL)
        return SHOAL_ENOMEM;
    memcpy(layers, text->layers, text->layer_count * sizeof *layers);
    layers[i] = kept;
    text->layers = layers;
    return SHOAL_OK;
}

static bool is(const shoali_layer *layer, const char *kind)
{
    return strcmp(layer->row->name, kind) == 0;
}

/* ---------------------------------------------------------------- another side */

/* Of a whole image one mean per channel. */
static bool covers_all(const shoali_layer *layer)
{
    const shoali_pool_params *p = layer->params;
    return is(layer, "avgpool") && p->kernel > 1 && p->kernel == layer->in.height &&
           p->kernel == layer->in.width;
}

/* What stands before layer i, to see what it gives. */
static shoal_status build_before(const char *name, const shoali_model_text *text, uint32_t i,
                                 shoal_model **model_out)
{
    shoali_model_text before = *text;
    before.layer_count = i;
    return shoali_model_build(name, &before, false, model_out);
}

/* Such a mean stays one. */
static shoal_status cover_again(const char *name, shoal_arena *arena, uint32_t i,
                                shoali_model_text *text)
{
    char spec[SHOALI_LAYER_SPEC_MAX];
    shoal_shape shape = text->input;
    if (i > 0) {
        shoal_model *before = NULL;
        SHOALI_TRY(build_before(name, text, i, &before));
        shape = before->layers[i - 1].out;
        shoal_model_close(before);
    }
    snprintf(spec, sizeof spec, "avgpool:kernel=%u", shape.height);
    return change(arena, i, spec, text);
}

shoal_status shoali_model_side(const char *name, int64_t side, shoal_arena *arena,
                               shoali_model_text *text)
{
    shoal_model *as_it_was = NULL;
    if (text->input.height < 2 || text->input.width != text->input.height)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' reads %u x %u x %u: no square image whose side could be "
                           "set",
                           name, text->input.channels, text->input.height, text->input.width);
    SHOALI_TRY(shoali_model_build(name, text, false, &as_it_was));
    text->input.height = text->input.width = (uint32_t)side;
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < as_it_was->layer_count && status == SHOAL_OK; i++)
        if (covers_all(&as_it_was->layers[i]))
            status = cover_again(name, arena, i, text);
    shoal_model_close(as_it_was);
    return status;
}

/* ---------------------------------------------------------------- other classes */

/* The layer that gives the scores: the last with parameters, if nothing behind it changes how many
 * there are. */
static const shoali_layer *scores_of(const shoal_model *model)
{
    const shoali_layer *last = &model->layers[model->layer_count - 1];
    const uint64_t scores = shoali_shape_elems(last->out);
    while (last > model->layers && last->param_count == 0)
        last--;
    return is(last, "dense") && shoali_shape_elems(last->out) == scores ? last : NULL;
}

shoal_status shoali_model_classes(const char *name, int64_t classes, shoal_arena *arena,
                                  shoali_model_text *text)
{
    shoal_model *model = NULL;
    char spec[SHOALI_LAYER_SPEC_MAX];
    SHOALI_TRY(shoali_model_build(name, text, false, &model));
    const shoali_layer *scores = scores_of(model);
    const shoali_dense_params *p = scores != NULL ? scores->params : NULL;
    const uint32_t at = scores != NULL ? (uint32_t)(scores - model->layers) : 0;
    snprintf(spec, sizeof spec, "dense:out=%lld,bias=%s", (long long)classes,
             p != NULL && p->bias ? "on" : "off");
    shoal_model_close(model);
    if (p == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "model '%.64s' does not end in a dense layer whose outputs could be so "
                           "many classes",
                           name);
    return change(arena, at, spec, text);
}
