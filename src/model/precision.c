/* SPDX-License-Identifier: Apache-2.0 */
/* Key precision of a model: that of each of its layers that have one. */
#include "model/precision.h"

#include <string.h>

#include "base/error.h"
#include "model/model_text.h"

extern const shoali_layer_row shoali_layer_dense, shoali_layer_conv, shoali_layer_framewise,
    shoali_layer_attention, shoali_layer_swiglu;

/* Kinds with the key, and where it is. */
static const struct {
    const shoali_layer_row *row;
    size_t at;
} rounded[] = {{&shoali_layer_dense, offsetof(shoali_dense_params, precision)},
               {&shoali_layer_conv, offsetof(shoali_conv_params, precision)},
               {&shoali_layer_framewise, offsetof(shoali_framewise_params, precision)},
               {&shoali_layer_attention, offsetof(shoali_attention_params, precision)},
               {&shoali_layer_swiglu, offsetof(shoali_swiglu_params, precision)}};
enum { KINDS = sizeof rounded / sizeof *rounded };

static bool is(const char *spec, const char *kind)
{
    return strlen(kind) == shoali_spec_name_len(spec) && strncmp(spec, kind, strlen(kind)) == 0;
}

/* Products that know float32 alone. */
static bool is_fixed(const char *spec)
{
    static const char *const kinds[] = {"lstm",   "gru",         "circulant", "circulant_conv",
                                        "dots",   "sparse",      "embedding", "transformer",
                                        "linear", "unembedding", "product"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is(spec, kinds[i]))
            return true;
    return false;
}

static shoal_status refuse(const char *name, const char *spec)
{
    (void)shoali_fail(SHOAL_ENOTSUP,
                      "model '%.64s' does not train in bf16: the products of '%.64s' are float32's",
                      name, spec);
    shoali_error_advice("conv, dense, framewise, attention and swiglu have precision=bf16; the "
                        "blocks of a language model that planners see are some with :parts "
                        "(docs/models.md).");
    return SHOAL_ENOTSUP;
}

static shoal_status change(const char *name, size_t kind, const char *spec, bool bf16,
                           shoal_arena *arena, const char **spec_out)
{
    union {
        shoali_dense_params dense;
        shoali_conv_params conv;
        shoali_framewise_params framewise;
        shoali_attention_params attention;
        shoali_swiglu_params swiglu;
    } p;
    const shoali_layer_row *row = rounded[kind].row;
    char text[SHOALI_LAYER_SPEC_MAX];
    const int32_t precision = bf16 ? SHOALI_BF16 : SHOALI_FLOAT32;
    SHOALI_TRY(shoali_spec_parse("layer", spec, &row->schema, &p));
    if (bf16 && row == &shoali_layer_framewise && p.framewise.k > 1)
        return refuse(name, spec);
    memcpy((char *)&p + rounded[kind].at, &precision, sizeof precision);
    shoali_spec_format(row->name, &row->schema, &p, text, sizeof text);
    *spec_out = shoali_arena_strdup(arena, text);
    return *spec_out != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

shoal_status shoali_model_round(const char *name, bool bf16, shoal_arena *arena,
                                shoali_model_text *text)
{
    const char **layers = shoali_arena_array(arena, text->layer_count, sizeof *layers);
    bool any = false;
    if (layers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < text->layer_count; i++) {
        const char *spec = text->layers[i];
        layers[i] = spec;
        if (bf16 && is_fixed(spec))
            return refuse(name, spec);
        for (size_t kind = 0; kind < KINDS; kind++)
            if (is(spec, rounded[kind].row->name)) {
                SHOALI_TRY(change(name, kind, spec, bf16, arena, &layers[i]));
                any = true;
            }
    }
    text->layers = layers;
    return any || !bf16 ? SHOAL_OK
                        : shoali_fail(SHOAL_ENOTSUP,
                                      "model '%.64s' has no products that could be bf16", name);
}
