/* SPDX-License-Identifier: Apache-2.0 */
/* Models without the dropout that their layers ask for. A dropout layer stays, with rate 0: others
 * count layers backwards. */
#include <string.h>

#include "base/error.h"
#include "model/model_text.h"

extern const shoali_layer_row shoali_layer_embedding, shoali_layer_transformer,
    shoali_layer_attention, shoali_layer_dropout;

static const shoali_layer_row *const rows[] = {&shoali_layer_embedding, &shoali_layer_transformer,
                                               &shoali_layer_attention, &shoali_layer_dropout};

static const shoali_layer_row *row_of(const char *spec)
{
    const size_t length = shoali_spec_name_len(spec);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i]->name) == length && strncmp(spec, rows[i]->name, length) == 0)
            return rows[i];
    return NULL;
}

static shoal_status undrop(const shoali_layer_row *row, const char *spec, shoal_arena *arena,
                           const char **spec_out)
{
    union {
        shoali_embedding_params embedding;
        shoali_transformer_params transformer;
        shoali_attention_params attention;
        shoali_dropout_params dropout;
    } p;
    char text[SHOALI_LAYER_SPEC_MAX];
    SHOALI_TRY(shoali_spec_parse("layer", spec, &row->schema, &p));
    if (row == &shoali_layer_embedding)
        p.embedding.drop = 0;
    else if (row == &shoali_layer_transformer)
        p.transformer.drop = p.transformer.attdrop = 0;
    else if (row == &shoali_layer_attention)
        p.attention.drop = 0;
    else
        p.dropout.rate = 0;
    shoali_spec_format(row->name, &row->schema, &p, text, sizeof text);
    *spec_out = shoali_arena_strdup(arena, text);
    return *spec_out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_model_undrop(shoal_arena *arena, shoali_model_text *text)
{
    const char **layers = shoali_arena_array(arena, text->layer_count, sizeof *layers);
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        const shoali_layer_row *row = row_of(text->layers[i]);
        layers[i] = text->layers[i];
        if (row != NULL)
            SHOALI_TRY(undrop(row, text->layers[i], arena, &layers[i]));
    }
    text->layers = layers;
    return SHOAL_OK;
}
