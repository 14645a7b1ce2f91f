/* SPDX-License-Identifier: Apache-2.0 */
/* Models: one description for the trainer that runs it, the planners that cost it and the simulator
 * that charges time for it. A model is an input shape and a chain of layers; it ends in the scores
 * of its classes, and the loss is softmax cross-entropy. Describing costs no memory for weights.
 *
 * A model is named by a spec string, the same in C, on the command line and in Python:
 *
 *     lenet                  one of the built-in zoo (shoal_model_zoo_name lists it)
 *     mlp:act=tanh           every relu becomes a tanh
 *     nets/mine.json         a file, if the name holds a '/' or ends in .json
 *     nets/mine.onnx         ONNX: shapes and layers, no weights (docs/model-files.md)
 *     llama/config.json      Hugging Face's description of a language model
 *     gpt-3:length=1024      tokens of a language model's sample
 *     mlp:circulant=8        dense layers but the last become block-circulant (docs/circulant.md)
 *     lenet:init=xavier      how shoal_model_open's user draws the first weights
 *
 * A file is {"name": "mine", "input": [1, 28, 28], "init": "he", "layers": ["conv:out=20,kernel=5",
 * "relu", ...]}: layers are spec strings, too (shoal_layer_row_name lists the kinds). Files are
 * hostile input: every size is bounded, and errors name the file, the layer and what was wrong.
 *
 * A layer goes on from the one before, unless branches and joints make a graph of it:
 * "branch:back=3" goes on from the output of three layers before, "add:back=3" and
 * "concat:back=3/7" join it again (docs/models.md).
 *
 * Networks that nothing here can train are described all the same, for planners: grouped
 * convolutions, and language models, whose sample is a sequence:
 * "embedding:vocab=50257,width=768,positions=1024", "transformer:heads=12,ff=3072" once per block,
 * "unembedding:vocab=50257". Such models have `described` set; their layers count parameters but
 * have no tensors.
 *
 * Threads: a model never changes after open, so any number of threads may read it. */
#ifndef SHOAL_MODEL_H
#define SHOAL_MODEL_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_model shoal_model;

/** Shape of one sample between two layers, as it lies in memory. A vector is {n, 1, 1}. */
typedef struct shoal_shape {
    uint32_t channels, height, width;
} shoal_shape;

/**
 * Open a model.
 * @param spec      see the head of this file.
 * @param model_out owned by the caller; shoal_model_close.
 * @return SHOAL_OK | EINVAL (unknown name, key, layer kind; shapes that do not fit) |
 *         ECORRUPT (file) | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_model_open(const char *spec, shoal_model **model_out);

/** Free a model and every string got from it. NULL is allowed. */
SHOAL_API void shoal_model_close(shoal_model *model);

/** What a model is as a whole. Counts are elements, not bytes; FLOPs are per sample, a multiply-add
 * counts as 2. */
typedef struct shoal_model_info {
    size_t size;      /* set to sizeof(shoal_model_info) by the caller */
    const char *name; /* "lenet"; lives as long as the model */
    shoal_shape input;
    uint32_t classes; /* elements of the last layer's output */
    uint32_t layer_count, tensor_count;
    uint64_t param_count; /* elements of the parameter arena, and of the gradient arena */
    uint64_t state_count; /* elements that training changes without gradients: batch norm's running
                             statistics */
    uint64_t activation_count; /* elements per sample of all layer outputs that own memory */
    double forward_flops;
    double backward_flops; /* without the first layer's input gradient, which nobody needs */
    bool described; /* planners may cost it, but some layer has no executor: it cannot train */
    bool smooths;   /* its loss has labels to smooth: it is neither CTC nor the hinge loss */
} shoal_model_info;
#define SHOAL_MODEL_INFO_INIT                                                           \
    {                                                                                   \
        sizeof(shoal_model_info), NULL, {0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, false, false \
    }
SHOAL_API SHOAL_MUST_USE shoal_status shoal_model_describe(const shoal_model *model,
                                                           shoal_model_info *info_out);

/** One layer. */
typedef struct shoal_layer_info {
    size_t size;      /* set to sizeof(shoal_layer_info) by the caller */
    const char *name; /* unique in the model: kind and ordinal, "conv2" */
    const char *kind; /* "conv" */
    const char *spec; /* canonical: "conv:out=50,kernel=5" */
    shoal_shape in, out;
    uint32_t tensor_first, tensor_count; /* of shoal_model_tensors */
    uint64_t param_offset, param_count;  /* elements: view of the parameter arena */
    uint64_t state_offset, state_count;
    double forward_flops, backward_flops;
    bool described; /* nothing executes it */
} shoal_layer_info;
#define SHOAL_LAYER_INFO_INIT                                                                     \
    {                                                                                             \
        sizeof(shoal_layer_info), NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, \
            false                                                                                 \
    }
SHOAL_API SHOAL_MUST_USE shoal_status shoal_model_layer(const shoal_model *model, uint32_t index,
                                                        shoal_layer_info *info_out);

/**
 * The tensor table of the parameter arena, ready for a shoal_op_desc or shoal_sync_desc: in order
 * of the layers, without gaps. Keys are hashes of the tensors' names, so they survive edits
 * elsewhere in the model.
 * @return shoal_tensor[*count_out], lives as long as the model.
 */
SHOAL_API const shoal_tensor *shoal_model_tensors(const shoal_model *model, uint32_t *count_out);

/** Name of a tensor ("conv2.weight"), as in checkpoints; NULL beyond the last. Lives as long as the
 * model. */
SHOAL_API const char *shoal_model_tensor_name(const shoal_model *model, uint32_t index);

/** Bytes that one worker's training takes, without what every process has and what an exchange
 * keeps. */
typedef struct shoal_model_memory {
    size_t size;      /* set to sizeof(shoal_model_memory) by the caller */
    uint32_t samples; /* per pass: the batch, or more, which the test takes */
    uint64_t parameters, gradients;
    uint64_t optimizer; /* momentum, squares, averages */
    uint64_t state;     /* batch norm's running statistics */
    uint64_t input;
    uint64_t outputs; /* of layers, kept until the way back; less what works in place */
    uint64_t kept;    /* more that a layer keeps until the way back */
    uint64_t slopes;  /* gradients of outputs, in buffers that are used in turn */
    uint64_t work;    /* of the layer that takes the most within a call */
    uint64_t total;
} shoal_model_memory;
#define SHOAL_MODEL_MEMORY_INIT                                     \
    {                                                               \
        sizeof(shoal_model_memory), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }
/** @param optimizer as in shoal_train_desc; NULL: "sgd:momentum=0.9"
 * @return SHOAL_OK | EINVAL (batch 0 or above 2^20; no optimiser) | ENOTSUP (nothing runs the
 * model) | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_model_memory_of(const shoal_model *model,
                                                            uint32_t batch, const char *optimizer,
                                                            shoal_model_memory *memory_out);

/** Write the model as a file that shoal_model_open reads; replaces an existing one in one step
 * (rename). */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_model_save(const shoal_model *model, const char *path);

/** Name i of the zoo / kind i of the layer table, for listings and --help; NULL at the end. */
SHOAL_API const char *shoal_model_zoo_name(size_t i);
SHOAL_API const char *shoal_layer_row_name(size_t i);
/** One line about them. NULL at the end. */
SHOAL_API const char *shoal_model_zoo_help(size_t i);
SHOAL_API const char *shoal_layer_row_help(size_t i);

#ifdef __cplusplus
}
#endif
#endif
