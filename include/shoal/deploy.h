/* SPDX-License-Identifier: Apache-2.0 */
/* From a training run to a small machine: a checkpoint's weights on the test split, in float32 or
 * in fixed point, the same network as C code without any dependency, and what it would cost in
 * hardware.
 *
 *     shoal_deploy_desc desc = SHOAL_DEPLOY_DESC_INIT;
 *     desc.from = "run1", desc.data = "speech";
 *     shoal_deploy *d;
 *     if (shoal_deploy_open(&desc, &d) != SHOAL_OK) ...
 *     shoal_deploy_result r = {.size = sizeof r};
 *     if (shoal_deploy_evaluate(d, 12, &r) != SHOAL_OK) ...
 *
 * Fixed point has words of 12 or 16 bits, block-circulant products in the frequency domain and
 * activations of straight lines; its definition, bit for bit, is in every exported file and in
 * src/kernel/fixed.h. Each tensor's fraction bits follow from its largest magnitude on some samples
 * of the train split. Layers that it knows: dense, framewise, circulant, conv, circulant_conv,
 * maxpool, avgpool, lstm, gru, relu, tanh, onehot, with blocks of powers of two up to 64
 * (docs/circulant.md).
 *
 * Threads: a shoal_deploy belongs to one thread at a time. */
#ifndef SHOAL_DEPLOY_H
#define SHOAL_DEPLOY_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_deploy shoal_deploy;

/** What to look at. Zero means the default in brackets; start from SHOAL_DEPLOY_DESC_INIT. */
typedef struct shoal_deploy_desc {
    size_t size;
    const char *from;   /* out directory of a run: its newest checkpoint; or a safetensors file */
    const char *model;  /* [as the checkpoint says] spec */
    const char *data;   /* [the run's own] directory, as in training */
    uint32_t batch;     /* [16] samples at once */
    uint32_t calibrate; /* [64] samples of the train split by which fractions are chosen */
    uint32_t samples;   /* [all] of the test split */
} shoal_deploy_desc;
#define SHOAL_DEPLOY_DESC_INIT                               \
    {                                                        \
        sizeof(shoal_deploy_desc), NULL, NULL, NULL, 0, 0, 0 \
    }

/**
 * Open checkpoint, model and data.
 * @param deploy_out owned by the caller; shoal_deploy_close.
 * @return SHOAL_OK | EINVAL (names what does not fit) | EIO, ECORRUPT (file and reason) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_deploy_open(const shoal_deploy_desc *desc,
                                                        shoal_deploy **deploy_out);
/** NULL is allowed. */
SHOAL_API void shoal_deploy_close(shoal_deploy *deploy);

/** On the test split. */
typedef struct shoal_deploy_result {
    size_t size;
    uint64_t samples, labels; /* labels: samples, or frames of all sequences */
    double loss, accuracy;    /* mean, nats; percent of labels */
    /** Of sequences: runs of equal labels other than 0, edits from them to the runs of the best
     * scores, and their ratio in percent (phoneme error rate of collapsed frames); else 0, NaN. */
    uint64_t symbols, edits;
    double symbol_error_rate;
    double bits_per_byte; /* of texts as tokens: all bits by all bytes that their labels stand for;
                             else NaN */
} shoal_deploy_result;

/**
 * Run the test split.
 * @param bits 0: float32; 12 or 16: fixed point.
 * @return SHOAL_OK | EINVAL (other bits; weights too large for them) | ENOTSUP (a layer without a
 * form in fixed point) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_deploy_evaluate(shoal_deploy *deploy, uint32_t bits,
                                                            shoal_deploy_result *result_out);

/**
 * Write DIR/NAME.h (code and declarations), DIR/NAME_weights.h (tables, which it includes) and
 * DIR/NAME.safetensors (the same words: int16 spectra, with block sizes, shifts and fractions as
 * metadata). The C needs a compiler and <stdint.h>, nothing else.
 * @param name letters, digits and _; prefix of all that the header declares.
 * @return as shoal_deploy_evaluate | EINVAL (name) | EIO
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_deploy_export(shoal_deploy *deploy, uint32_t bits,
                                                          const char *dir, const char *name);

/**
 * Write the weights in float32 as safetensors, named and shaped as PyTorch's modules do, the
 * layers' names before them; of models of LLaMA's and GPT-2's kind as Hugging Face
 * names them (docs/model-files.md).
 * @param path a file; or a folder, with a '/' at its end: config.json and model.safetensors
 * @return SHOAL_OK | EINVAL (a layer without a counterpart) | EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_deploy_weights(const shoal_deploy *deploy,
                                                           const char *path);

/**
 * Write network and weights in float32 as an ONNX file (opset 17), which runtimes run for any
 * number of samples at once: input "input", scores "scores" (docs/model-files.md). Images come in
 * as the network sees them; the mean and deviation that make them so stand in its metadata.
 * @return SHOAL_OK | EINVAL (no path; a layer without a form there; weights above 2 GiB) | EIO |
 * ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_deploy_onnx(const shoal_deploy *deploy,
                                                        const char *path);

/** A matrix of the network as hardware sees it: blocks of k x k, each a multiplication of k words
 * of spectrum per frame. Estimates by the formulas of E-RNN's second phase (Li et al., HPCA 2019),
 * no synthesis. */
typedef struct shoal_deploy_matrix {
    size_t size;
    char name[96]; /* "lstm1.input", "lstm1.back_input": as in checkpoints */
    uint32_t rows, cols, block;
    uint32_t block_rows, block_cols; /* p, q */
    uint64_t block_products;         /* p q, per frame and place */
    uint64_t weights;                /* p q k words */
    uint32_t multipliers;            /* of one element: 2 k - 2, of k = 1: 1 */
    uint32_t places;                 /* how often a frame takes it: of a convolution, once for each
                                        place of its window, whose columns are taps x channels */
} shoal_deploy_matrix;
/** Matrix i of the net that the latest evaluate or export in fixed point made; false behind the
 * last one. */
SHOAL_API bool shoal_deploy_matrix_of(const shoal_deploy *deploy, uint32_t i,
                                      shoal_deploy_matrix *matrix_out);

/** Cycles of one matrix and frame on `elements` processing elements, each one block product a
 * cycle: places x ceil(p q / elements) + q for the transforms of the first input + `latency` of the
 * pipeline; those of further places run beside the products. */
SHOAL_API uint64_t shoal_deploy_cycles(const shoal_deploy_matrix *matrix, uint32_t elements,
                                       uint32_t latency);

#ifdef __cplusplus
}
#endif
#endif
