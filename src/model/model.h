/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a model description. nn executes it, plan costs it, driver/sim charges time for it; all
 * read, none writes. */
#ifndef SHOALI_MODEL_MODEL_H
#define SHOALI_MODEL_MODEL_H

#include "base/arena.h"
#include "base/spec.h"
#include "shoal/model.h"

/* Bounds on what a description may ask for: a hostile file must fail here and not in somebody's
 * arithmetic. */
enum {
    SHOALI_MODEL_LAYERS_MAX = 1024,
    SHOALI_MODEL_NAME_MAX = 64,
    SHOALI_LAYER_SPEC_MAX = 160,
    SHOALI_LAYER_TENSORS_MAX = 2
};
#define SHOALI_MODEL_ELEMS_MAX \
    UINT64_C(0x7fffffff) /* of one tensor, of one layer's output, of all parameters */

typedef enum { SHOALI_INIT_HE, SHOALI_INIT_XAVIER } shoali_init_kind;

/* How a tensor's first values are drawn. */
typedef enum { SHOALI_FILL_WEIGHT, SHOALI_FILL_ZERO, SHOALI_FILL_ONE } shoali_fill;

/** One parameter tensor of a layer: its place is in the model's table, the rest is what
 * shoal_tensor does not say. */
typedef struct shoali_param {
    const char *name; /* "conv2.weight" */
    const char *role; /* "weight" */
    shoali_fill fill;
    uint32_t fan_in, fan_out; /* of FILL_WEIGHT */
} shoali_param;

typedef struct shoali_layer {
    const struct shoali_layer_row *row;
    const void *params; /* parsed keys: shoali_dense_params ... */
    const char *name, *spec;
    shoal_shape in, out;
    uint32_t tensor_first, tensor_count;
    uint64_t param_offset, param_count;
    uint64_t state_offset, state_count;
    double forward_flops; /* per sample */
    double weight_flops,
        input_flops; /* backward: gradient of the parameters, gradient of the input */
} shoali_layer;

struct shoal_model {
    shoal_arena *arena; /* everything below lives here */
    const char *name;
    shoal_shape input;
    shoali_init_kind init;
    shoali_layer *layers;
    uint32_t layer_count;
    shoal_tensor *tensors;
    shoali_param *tensor_params; /* beside tensors */
    uint32_t tensor_count;
    uint64_t param_count, state_count;
};

/* Traits of a layer kind. */
enum {
    SHOALI_LAYER_IN_PLACE = 1u << 0, /* may overwrite its input: backward needs the output only */
    SHOALI_LAYER_ALIAS = 1u << 1,    /* the input under another shape: nothing runs */
    SHOALI_LAYER_KEEPS_OUTPUT = 1u << 2, /* backward reads the output: nobody may overwrite it */
    SHOALI_LAYER_RECTIFIES = 1u << 3     /* max(x, 0): the layer before it may do it in passing */
};

/** A layer kind: one line in layers.def, one row here, one executor in nn (src/nn/NAME.c or its
 * family's file). */
typedef struct shoali_layer_row {
    const char *name, *help;
    uint32_t traits;
    shoali_schema schema;
    /**
     * Given in and params, set out, FLOPs and state_count, and declare tensors with
     * shoali_layer_tensor. Sets the last error with what does not fit; the caller adds which layer
     * it is.
     */
    shoal_status (*infer)(shoal_model *model, shoali_layer *layer);
} shoali_layer_row;

size_t shoali_layer_row_count(void);
const shoali_layer_row *shoali_layer_row_at(size_t i);

/**
 * Declare the next parameter tensor of a layer, in infer().
 * @param rows, cols matrix shape; cols 0: a vector of rows elements.
 * @param flags      SHOAL_TENSOR_*; LAST is set by the model.
 */
SHOAL_MUST_USE shoal_status shoali_layer_tensor(shoal_model *model, shoali_layer *layer,
                                                const shoali_param *param, uint64_t rows,
                                                uint64_t cols, uint32_t flags);

static inline uint64_t shoali_shape_elems(shoal_shape shape)
{
    return (uint64_t)shape.channels * shape.height * shape.width;
}

/* Keys of the kinds (integers are int64_t: that is what the spec parser writes). */
typedef struct shoali_dense_params {
    int64_t out;
    bool bias;
} shoali_dense_params;
typedef struct shoali_conv_params {
    int64_t out, kernel, stride, pad;
    bool bias;
} shoali_conv_params;
typedef struct shoali_pool_params {
    int64_t kernel, stride; /* stride 0: kernel */
    bool ceil; /* a last, partial window counts (Caffe, TensorFlow's SAME for even sizes) */
} shoali_pool_params;
typedef struct shoali_dropout_params {
    double rate;
} shoali_dropout_params;
typedef struct shoali_batchnorm_params {
    double momentum, eps;
} shoali_batchnorm_params;

/** A model before its shapes are known: what the zoo holds and what a file says. */
typedef struct shoali_model_text {
    const char *name, *help;
    shoal_shape input;
    shoali_init_kind init;
    const char *const *layers; /* layer specs */
    uint32_t layer_count;
} shoali_model_text;

/** Build a model from layer specs. what: for errors ("model 'lenet'", "nets/mine.json").
 * relu_to_tanh: key act. */
SHOAL_MUST_USE shoal_status shoali_model_build(const char *what, const shoali_model_text *text,
                                               bool relu_to_tanh, shoal_model **model_out);
/** Parse a file's JSON, into strings of arena. */
SHOAL_MUST_USE shoal_status shoali_model_parse_json(const char *what, const char *json,
                                                    size_t len_bytes, shoal_arena *arena,
                                                    shoali_model_text *text_out);
/** The same from a path. */
SHOAL_MUST_USE shoal_status shoali_model_load_json(const char *path, shoal_arena *arena,
                                                   shoali_model_text *text_out);
/** NULL if the zoo has no such name (aliases included). */
const shoali_model_text *shoali_zoo_find(const char *name, size_t len);
const shoali_model_text *shoali_zoo_at(size_t i);

#endif
