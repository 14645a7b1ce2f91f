/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models as Hugging Face's `transformers` names their tensors, and their config.json: a
 * family is a row of weights_hf.c and a file of its own (weights_llama.c, _gpt2.c, _bert.c). */
#ifndef SHOALI_FILES_WEIGHTS_HF_H
#define SHOALI_FILES_WEIGHTS_HF_H

#include <string.h>

#include "model/model.h"

struct json_t;

enum { SHOALI_HF_NAME_BYTES = 160 };

/** Where a tensor of ours lies in their file. */
typedef struct shoali_hf_place {
    char name[SHOALI_HF_NAME_BYTES];
    uint32_t tensors; /* of ours, this and those behind it, that theirs holds; 0: one before did */
    bool transposed;  /* [in, out] */
} shoali_hf_place;

typedef struct shoali_hf_family {
    const char *what;   /* "LLaMA" */
    const char *prefix; /* of names, which files of a model without its head leave out; "": none */
    const char *const *buffers; /* ends of names that hold nothing learned; NULL behind the last */
    const char *const *heads;   /* starts of names that a file may lack where a run begins with it;
                                 NULL behind the last */
    uint8_t front, block;       /* layers before the blocks, and of one */
    uint8_t attention;          /* which of a block looks */
    uint8_t sums[2];            /* which two of a block give what is added */
    const char *drops[3]; /* what config.json calls dropout behind the front, of what is added, of
                             attention's weights; NULL: it has none */
    /** Whether a model is of this kind. */
    bool (*is)(const shoal_model *model);
    /** Tensor `role` of a layer of such a model. place: zeroed, tensors 1. */
    void (*place)(const shoal_model *model, const shoali_layer *layer, const char *role,
                  shoali_hf_place *place);
    /** config.json, *json_out: json_decref. @return SHOAL_OK | EINVAL (what it cannot say) | ENOMEM
     */
    shoal_status (*config)(const shoal_model *model, struct json_t **json_out);
} shoali_hf_family;

/** A model as its family sees it: without layers of dropout, which hold nothing. */
typedef struct shoali_hf_view {
    shoal_model model; /* layers and adds' reach are the view's, all else the model's own */
    const shoali_hf_family *family; /* NULL: of none */
    uint32_t *places;               /* [layer_count of the model]: where its layers are */
    double *drops;                  /* [model.layer_count]: rate of dropout behind each */
    shoal_arena *arena;
} shoali_hf_view;
/** @return SHOAL_OK | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_hf_open(const shoal_model *model, shoali_hf_view *view_out);
void shoali_hf_close(shoali_hf_view *view);
/** Where tensor `role` of the model's layer `index` lies, as place below says it. */
void shoali_hf_place_of(const shoali_hf_view *view, uint32_t index, const char *role,
                        shoali_hf_place *place_out);
/** Their names, for errors: "LLaMA's, GPT-2's or BERT's kind". */
const char *shoali_hf_families(void);
/** Write config.json. @return SHOAL_OK | EINVAL (blocks that differ, ...) | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_hf_config(const shoali_hf_view *view, const char *path);

/* ---------------------------------------------------------------- for the families */

static inline bool shoali_hf_is(const shoal_model *model, uint32_t layer, const char *kind)
{
    return strcmp(model->layers[layer].row->name, kind) == 0;
}
/** Whether layers [first, first + count) repeat the kinds, adds reaching so far back. */
bool shoali_hf_repeats(const shoal_model *model, uint32_t first, uint32_t count,
                       const char *const *kinds, const uint8_t *backs, uint32_t period);
/** EINVAL with the first of layers [first, first + count) that differs from its like in the first
 * block. */
SHOAL_MUST_USE shoal_status shoali_hf_alike(const shoal_model *model, uint32_t first,
                                            uint32_t count, uint32_t period);
/** EINVAL: config.json cannot say what the layer is. */
shoal_status shoali_hf_differs(const shoali_layer *layer, const char *why);

#endif
