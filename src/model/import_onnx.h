/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the ONNX importer: chains of images and vectors (import_onnx.c), and graphs whose samples
 * are sequences (import_onnx_tokens.c), where shapes are followed dimension by dimension and what
 * is computed from them is computed here, too (import_onnx_fold.c). */
#ifndef SHOALI_MODEL_IMPORT_ONNX_H
#define SHOALI_MODEL_IMPORT_ONNX_H

#include <uthash.h>

#include "model/import_model.h"
#include "onnx_min.pb-c.h"

enum { SHOALI_ONNX_RANK = 8, SHOALI_ONNX_INTS = 16, SHOALI_ONNX_NODES = 20000 };
#define SHOALI_ONNX_ELEMS ((int64_t)1 << 40)

typedef Shoal__Onnx__Node shoali_onnx_node;
typedef Shoal__Onnx__Tensor shoali_onnx_tensor;

shoal_status shoali_onnx_refuse(const shoali_onnx_node *node, const char *why);
const Shoal__Onnx__Attribute *shoali_onnx_attribute(const shoali_onnx_node *node, const char *name);
int64_t shoali_onnx_integer(const shoali_onnx_node *node, const char *name, int64_t fallback);

/** A list whose entries are all the same (square windows, even padding); absent: fallback. */
SHOAL_MUST_USE shoal_status shoali_onnx_same(const shoali_onnx_node *node, const char *name,
                                             int64_t min, int64_t fallback, int64_t *out);
/** Borders that a node leaves to its reader: refused. */
SHOAL_MUST_USE shoal_status shoali_onnx_check_auto_pad(const shoali_onnx_node *node);
/** The layer of a node that pools an image of this shape, which becomes the result's. */
SHOAL_MUST_USE shoal_status shoali_onnx_pool(const shoali_onnx_node *node, const char *kind,
                                             shoal_shape *shape,
                                             char spec_out[SHOALI_LAYER_SPEC_MAX]);

/** Two outputs meet in a product: an activation's with what it was computed from. The layer that
 *  stands for both (x times its sigmoid: silu), or -1. */
int64_t shoali_onnx_gate(shoali_layer_list *list, int64_t a, int64_t b);

enum { SHOALI_ONNX_FILE_MAX = 1 << 30 };

/** A weight of the file: a tensor's of layer `layer`, which has it in this role. */
typedef struct shoali_onnx_taken {
    int64_t layer;
    const char *role;
    const shoali_onnx_tensor *tensor;
    bool turned; /* [in][out] */
} shoali_onnx_taken;

/** Those of a graph of images or vectors. */
typedef struct shoali_onnx_takes {
    shoali_onnx_taken *items;
    size_t count, room;
    const shoali_onnx_node *other; /* computes something else than its layer; NULL: none */
} shoali_onnx_takes;

/** A file's bytes as a graph, in arena. ECORRUPT: it is none, or takes more memory than its size
 * lets expect. */
SHOAL_MUST_USE shoal_status shoali_onnx_unpack(const char *what, const uint8_t *bytes,
                                               size_t len_bytes, shoal_arena *arena,
                                               Shoal__Onnx__Model **file_out);
/** A model's name by its file's, in arena; NULL: no memory. */
const char *shoali_onnx_name_of(const char *what, shoal_arena *arena);
/** A failure with the file's name in front. */
SHOAL_MUST_USE shoal_status shoali_onnx_in_file(const char *what, shoal_status status);

/** shoali_import_onnx, and what to do with the weights while the file is in memory. */
typedef shoal_status (*shoali_onnx_use)(void *ctx, const shoali_model_text *text,
                                        const shoali_onnx_takes *takes);
SHOAL_MUST_USE shoal_status shoali_import_onnx_use(const char *what, const uint8_t *bytes,
                                                   size_t len_bytes, shoal_arena *arena,
                                                   shoali_model_text *text_out, shoali_onnx_use use,
                                                   void *ctx);

/** A value by its name. */
typedef struct shoali_onnx_value {
    const char *name;
    const shoali_onnx_tensor *weight; /* what it is, or is made of by moving data; NULL: none */
    bool constant;                    /* a weight, or computed from shapes alone */
    bool known;                       /* its elements are ints[] */
    int64_t layer;                    /* else: whose output it is made of; -1: the input */
    uint32_t rank, count;             /* count: of ints */
    int64_t dims[SHOALI_ONNX_RANK], ints[SHOALI_ONNX_INTS];
    UT_hash_handle hh;
} shoali_onnx_value;

/** Elements of a value; its dimensions are bounded by SHOALI_ONNX_ELEMS together. */
int64_t shoali_onnx_elems(const shoali_onnx_value *v);
/** A tensor of the file as a value: a weight, with its elements if they are few whole numbers. */
bool shoali_onnx_of_tensor(const shoali_onnx_tensor *tensor, shoali_onnx_value *out);
/** What a node gives whose inputs, in[0..count-1] (NULL: left out), are all constant, or whose
 *  operator only asks for a shape. False: it cannot be told. */
bool shoali_onnx_fold(const shoali_onnx_node *node, const shoali_onnx_value *const *in,
                      size_t count, shoali_onnx_value *out);
/** New dimensions from a list that may hold -1 and 0, as Reshape has it; false: they do not fit. */
bool shoali_onnx_reshape(const shoali_onnx_value *from, const shoali_onnx_value *shape,
                         shoali_onnx_value *out);

/** What an operator gives that moves data; in[0] is there, at least one input is no constant. */
SHOAL_MUST_USE shoal_status shoali_onnx_move(const shoali_onnx_node *node,
                                             const shoali_onnx_value *const *in, size_t count,
                                             shoali_onnx_value *out);
/** One of the outputs of Split. */
SHOAL_MUST_USE shoal_status shoali_onnx_split(const shoali_onnx_node *node,
                                              const shoali_onnx_value *const *in, size_t count,
                                              size_t part, shoali_onnx_value *out);

/** The graph's samples are sequences: tokens, or [batch, length, width], or vectors that go through
 *  what only this importer knows. */
bool shoali_onnx_is_tokens(const Shoal__Onnx__Graph *graph);
SHOAL_MUST_USE shoal_status shoali_onnx_tokens(const Shoal__Onnx__Graph *graph, shoal_arena *arena,
                                               shoali_model_text *text);

#endif
