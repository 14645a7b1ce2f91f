/* SPDX-License-Identifier: Apache-2.0 */
#include "train/weights_hf.h"

#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "base/new_file.h"

extern const shoali_hf_family shoali_hf_llama, shoali_hf_gpt2, shoali_hf_bert;

static const shoali_hf_family *const families[] = {&shoali_hf_llama, &shoali_hf_gpt2,
                                                   &shoali_hf_bert};

const shoali_hf_family *shoali_hf_family_of(const shoal_model *model)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i]->is(model))
            return families[i];
    return NULL;
}

const char *shoali_hf_families(void)
{
    return "LLaMA's, GPT-2's or BERT's kind";
}

shoal_status shoali_hf_config(const shoali_hf_family *family, const shoal_model *model,
                              const char *path)
{
    shoali_new_file out;
    json_t *config = NULL;
    SHOALI_TRY(family->config(model, &config));
    if (config == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = shoali_new_file_open(path, &out);
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
