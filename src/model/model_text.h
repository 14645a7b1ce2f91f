/* SPDX-License-Identifier: Apache-2.0 */
/* A model before its shapes are known: what files say and what the zoo holds, and how a model
 * is built of it. */
#ifndef SHOALI_MODEL_MODEL_TEXT_H
#define SHOALI_MODEL_MODEL_TEXT_H

#include "model/model.h"

/** A model before its shapes are known: what the zoo holds and what a file says. */
typedef struct shoali_model_text {
    const char *name, *help;
    shoal_shape input;
    shoali_init_kind init;
    const char *const *layers; /* layer specs */
    uint32_t layer_count;
    double dropout;  /* the largest that a file asks for and its layers do not say */
    bool parts;      /* described blocks become layers that train, unasked */
    bool say_length; /* the input's length is what the model bears, not what anybody trains on */
} shoali_model_text;

/** Sides of the circulant blocks that the keys of a model ask for; 0 and 1: none. */
typedef struct shoali_blocks {
    int64_t all;  /* dense layers but the last, which gives the scores, and all matrices of cells */
    int64_t conv; /* convolutions but the first, whose channels are few */
    int64_t x, r, y; /* of cells, other than `all`: input, recurrent, and output matrices: an lstm's
                        projection, and framewise layers (which `all` leaves dense) */
} shoali_blocks;

/** Whether a layer is to be block-circulant; a layer of cells whose own spec says how stays as it
 * is. If so, its new spec in spec_out[SHOALI_LAYER_SPEC_MAX]. */
bool shoali_layer_circulate(const shoali_model_text *text, uint32_t index,
                            const shoali_blocks *blocks, char *spec_out);

/** Layers that planners see (embedding, transformer, unembedding) into those that train, and
 * another vocabulary for them (parts.c). ENOTSUP: the key of what nothing here runs. */
SHOAL_MUST_USE shoal_status shoali_model_parts(const char *name, shoal_arena *arena,
                                               shoali_model_text *text);
SHOAL_MUST_USE shoal_status shoali_model_vocab(const char *name, int64_t vocab, shoal_arena *arena,
                                               shoali_model_text *text);
SHOAL_MUST_USE shoal_status shoali_model_undrop(shoal_arena *arena, shoali_model_text *text);
/** What stands behind the last transformer: "masked", "pooler" or "mean" in place of it. */
SHOAL_MUST_USE shoal_status shoali_model_head(const char *name, const char *head,
                                              shoal_arena *arena, shoali_model_text *text);

/** Build a model from layer specs. what: for errors ("model 'lenet'", "nets/mine.json").
 * relu_to_tanh: key act. */
SHOAL_MUST_USE shoal_status shoali_model_build(const char *what, const shoali_model_text *text,
                                               bool relu_to_tanh, shoal_model **model_out);
/** A model of one layer, whose row need not be in the table: for tests of rows. */
SHOAL_MUST_USE shoal_status shoali_model_of_row(const shoali_layer_row *row, const char *spec,
                                                shoal_shape input, shoal_model **model_out);
/** Parse a file's JSON, into strings of arena. */
SHOAL_MUST_USE shoal_status shoali_model_parse_json(const char *what, const char *json,
                                                    size_t len_bytes, shoal_arena *arena,
                                                    shoali_model_text *text_out);
/** The same from a path. */
SHOAL_MUST_USE shoal_status shoali_model_load_json(const char *path, shoal_arena *arena,
                                                   shoali_model_text *text_out);
struct json_t;
/** A built model as such JSON, which says all of it (NULL: no memory), and a model from that. */
struct json_t *shoali_model_to_json(const shoal_model *model);
SHOAL_MUST_USE shoal_status shoali_model_from_json(const char *what, const char *json,
                                                   shoal_model **model_out);
/** A model under construction: layer specs in an arena. The first failure sticks. */
typedef struct shoali_layer_list {
    shoal_arena *arena;
    const char **layers;
    uint32_t count, capacity;
    bool failed;
} shoali_layer_list;
void shoali_layer_list_add(shoali_layer_list *list, const char *format, ...) SHOAL_PRINTF(2, 3);
/** Set text's layers. ENOMEM if anything failed. */
SHOAL_MUST_USE shoal_status shoali_layer_list_end(const shoali_layer_list *list,
                                                  shoali_model_text *text);

/** A model of the zoo: written out in zoo.c, or made by rule in zoo_large.c (then text holds no
 * layers). */
typedef struct shoali_zoo_row {
    shoali_model_text text;
    void (*make)(shoali_layer_list *list, int variant);
    int variant; /* what make is to make: "resnet-50" and "resnet-152" are one function */
} shoali_zoo_row;
extern const shoali_zoo_row shoali_zoo_large[];
extern const size_t shoali_zoo_large_count;
/** By name, aliases included; layers made in arena. */
SHOAL_MUST_USE shoal_status shoali_zoo_find(const char *name, shoal_arena *arena,
                                            shoali_model_text *text_out, bool *found_out);

#endif
