/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a model description. nn executes it, plan costs it, driver/sim charges time for it; all
 * read, none writes. */
#ifndef SHOALI_MODEL_MODEL_H
#define SHOALI_MODEL_MODEL_H

#include "base/arena.h"
#include "base/spec.h"
#include "model/layer_params.h"
#include "shoal/model.h"

/* Bounds on what a description may ask for: a hostile file must fail here and not in somebody's
 * arithmetic. */
enum {
    SHOALI_MODEL_LAYERS_MAX = 1024,
    SHOALI_MODEL_NAME_MAX = 64,
    SHOALI_MODEL_SIDE_MAX = 1 << 20, /* of an input: channels, height, width */
    SHOALI_LAYER_SPEC_MAX = 256,
    SHOALI_LAYER_TENSORS_MAX = 10, /* an LSTM's, both directions */
    SHOALI_LAYER_INPUTS_MAX = 17   /* of a concat: 16 earlier outputs and the one before */
};
#define SHOALI_MODEL_ELEMS_MAX \
    UINT64_C(0x7fffffff) /* of one tensor, of one layer's output, of all parameters */
#define SHOALI_DESCRIBED_ELEMS_MAX \
    (UINT64_C(1) << 50) /* the same of what is described only: nobody takes memory for it */

typedef enum { SHOALI_INIT_HE, SHOALI_INIT_XAVIER } shoali_init_kind;

/* How a tensor's first values are drawn. */
typedef enum {
    SHOALI_FILL_WEIGHT,
    SHOALI_FILL_BALANCED, /* so, but the entries of a large circulant block sum up to 0 */
    SHOALI_FILL_ZERO,
    SHOALI_FILL_ONE,
    SHOALI_FILL_SPAN /* 1 from fan_in to before fan_out, 0 elsewhere: a bias of gates */
} shoali_fill;

/** One parameter tensor of a layer: its place is in the model's table, the rest is what
 * shoal_tensor does not say. */
typedef struct shoali_param {
    const char *name; /* "conv2.weight" */
    const char *role; /* "weight" */
    shoali_fill fill;
    uint32_t fan_in, fan_out; /* of FILL_WEIGHT and _BALANCED */
    uint32_t block;           /* above 1: circulant blocks of this side, shoali_matrix_count; the
                                 gradient is the mean over the block entries that share a value */
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
    bool described;  /* nothing here executes it: by its kind, or by a key */
    bool lends;      /* of lookup: a later layer works with its table, too */
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
    const shoali_layer *described; /* the first layer that nothing executes; NULL: it can train */
    bool sequence;                 /* scores for every frame: the output is {1, frames, classes} */
    bool ctc;    /* trained by CTC on the frames' labels, repeats and class 0 left out */
    bool hinge;  /* trained by the hinge loss of the largest other score */
    bool masked; /* trained to tell tokens that are hidden from it (nn/masked.h) */
    bool pairs;  /* its input is pairs of a feature's number and value, {1, pairs, 2} */
};

/* Traits of a layer kind. */
enum {
    SHOALI_LAYER_IN_PLACE =
        1u << 0, /* may overwrite its (last) input: backward needs the output only */
    SHOALI_LAYER_ALIAS = 1u << 1,        /* the input under another shape: nothing runs */
    SHOALI_LAYER_KEEPS_OUTPUT = 1u << 2, /* backward reads the output: nobody may overwrite it */
    SHOALI_LAYER_RECTIFIES = 1u << 3,    /* max(x, 0): the layer before it may do it in passing */
    SHOALI_LAYER_DESCRIBED = 1u << 4,    /* planners cost it, nothing executes it */
    SHOALI_LAYER_FRAMES = 1u << 5, /* sequences {1, frames, values}: frames stay apart, and those
                                      behind a sample's end are 0 */
    SHOALI_LAYER_CTC = 1u << 6,    /* what comes out is trained by CTC */
    SHOALI_LAYER_HINGE = 1u << 7,  /* so by the hinge loss */
    SHOALI_LAYER_MASKED = 1u << 9, /* so by tokens that are hidden in what goes in */
    SHOALI_LAYER_PAIRS = 1u << 8   /* reads pairs of a feature's number and value */
};

/** A layer kind: one line in layers.def, a row, and an executor in nn unless it is DESCRIBED; both
 * in src/nn/NAME.c, or in their families' files (docs/add-op.md). */
typedef struct shoali_layer_row {
    const char *name, *help;
    const char *probe; /* a spec that fits a small input, for the gradient test; NULL: the name */
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

/** The same of a matrix that param->block may make block-circulant: the table then says
 * [values / block][block]. */
SHOAL_MUST_USE shoal_status shoali_layer_matrix(shoal_model *model, shoali_layer *layer,
                                                const shoali_param *param, uint64_t rows,
                                                uint64_t cols);

/**
 * Count parameters of a described layer, in infer(): no tensors, no place in an arena.
 * @param count a whole number, computed in double so that hostile keys cannot wrap around.
 */
SHOAL_MUST_USE shoal_status shoali_layer_weights(shoal_model *model, shoali_layer *layer,
                                                 double count);

/** What a layer `back` layers before this one gives (1: the one before; 0 means 1), the model's
 * input beyond the first; for kinds with several inputs. EINVAL if it reaches further. */
SHOAL_MUST_USE shoal_status shoali_layer_back(const shoal_model *model, const shoali_layer *layer,
                                              int64_t back, shoal_shape *shape_out);

/**
 * What a layer reads, as values: 0 is the model's input, i + 1 what layer i gives. Views (flatten,
 * branch) are looked through: it is the layer that computes which is named. The last input is
 * that of the layer before; those of add and concat stand in front, in the order of their keys.
 * @return how many, 1 or more. Of kinds that are described only: the layer before.
 */
uint32_t shoali_layer_inputs(const shoal_model *model, uint32_t index,
                             uint32_t inputs_out[SHOALI_LAYER_INPUTS_MAX]);
/** The value behind views: the value itself if a layer computes it. */
uint32_t shoali_layer_value(const shoal_model *model, uint32_t value);

static inline uint64_t shoali_shape_elems(shoal_shape shape)
{
    return (uint64_t)shape.channels * shape.height * shape.width;
}

/** Values that a matrix of rows x cols keeps. block 1: all, row by row. Else circulant blocks
 * [ceil(rows / block)][ceil(cols / block)][block], each by its first column: entry (a, b) of a
 * block is value (a - b) mod block; what reaches over the edge of the matrix is not used. */
static inline uint64_t shoali_matrix_count(uint64_t rows, uint64_t cols, uint64_t block)
{
    return (rows + block - 1) / block * ((cols + block - 1) / block) * block;
}

#endif
