/* SPDX-License-Identifier: Apache-2.0 */
/* Options that describe a configuration, for predict and for calibrate's measured rows. */
#ifndef SHOAL_CLI_PREDICT_ARGS_H
#define SHOAL_CLI_PREDICT_ARGS_H

#include <argp.h>

#include "shoal/predict.h"

enum {
    PREDICT_TENSOR = 2000,
    PREDICT_PIPELINE,
    PREDICT_MICROBATCH,
    PREDICT_INTERLEAVE,
    PREDICT_RECOMPUTE,
    PREDICT_SEQUENCE,
    PREDICT_ZERO,
    PREDICT_EXPERTS,
    PREDICT_CONTEXT,
    PREDICT_OFFLOAD,
    PREDICT_ATTENTION,
    PREDICT_GRADIENT,
    PREDICT_NO_HEAD,
    PREDICT_NO_SCATTER,
    PREDICT_NO_OVERLAP,
    PREDICT_ELEMENT,
    PREDICT_STATE,
    PREDICT_SYNC,
    PREDICT_BUCKET,
    PREDICT_CHUNK
};

/* clang-format off */
#define PREDICT_OPTIONS                                                                           \
    {NULL, 0, NULL, 0, "What to train, and where:", 1},                                           \
    {"model", 'm', "SPEC", 0, "A model of the zoo (shoal model show) or a file", 1},              \
    {"cluster", 'C', "FILE", 0, "Cluster description", 1},                                        \
    {"plan", 'P', "FILE", 0, "Instead of a model: a plan of shoal partition", 1},                 \
    {"workers", 'w', "N", 0, "The first so many of the cluster (all)", 1},                        \
    {"batch", 'b', "N", 0, "Samples per replica and step (64)", 1},                               \
    {"element-bytes", PREDICT_ELEMENT, "N", 0,                                                    \
     "Of weights and activations (4; language models 2)", 1},                                     \
    {"state-bytes", PREDICT_STATE, "N", 0, "Optimiser state per parameter (4; 12 with 2)", 1},    \
    {"gradient-bytes", PREDICT_GRADIENT, "N", 0, "Of a gradient that is kept (4)", 1},            \
    {NULL, 0, NULL, 0, "How it is split:", 2},                                                    \
    {"tensor", PREDICT_TENSOR, "N", 0, "Workers that share each layer (1)", 2},                   \
    {"pipeline", PREDICT_PIPELINE, "N", 0, "Stages (1)", 2},                                      \
    {"microbatch", PREDICT_MICROBATCH, "N", 0, "Samples at a time (batch; 1 with stages)", 2},    \
    {"interleave", PREDICT_INTERLEAVE, "N", 0, "Chunks of the model per stage (1)", 2},           \
    {"recompute", PREDICT_RECOMPUTE, "none|selective|full", 0, "Activations (none)", 2},          \
    {"sequence", PREDICT_SEQUENCE, NULL, 0, "Sequence beside tensor parallelism", 2},             \
    {"zero", PREDICT_ZERO, "0|1|2|3", 0,                                                          \
     "Replicas share optimiser state, gradients, weights, too (0)", 2},                           \
    {"experts", PREDICT_EXPERTS, "N", 0, "Replicas that share a mixture's experts (1)", 2},       \
    {"context", PREDICT_CONTEXT, "N", 0, "Workers that share a sample's tokens (1)", 2},          \
    {"offload", PREDICT_OFFLOAD, "LIST", 0, "To the host's memory: optimizer,activations", 2},     \
    {"attention", PREDICT_ATTENTION, "plain|flash", 0, "Scores in memory or in tiles (plain)", 2}, \
    {"no-head", PREDICT_NO_HEAD, NULL, 0, "Leave a language model's scores out", 2},              \
    {"no-scatter", PREDICT_NO_SCATTER, NULL, 0,                                                   \
     "Each of a tensor group sends all to the next stage, not its part", 2},                      \
    {NULL, 0, NULL, 0, "How gradients are exchanged:", 3},                                        \
    {"sync", PREDICT_SYNC, "SPEC", 0, "all_reduce, param_server, ... (all_reduce)", 3},           \
    {"collective", 'c', "SPEC", 0, "ring, halving_doubling, ... (ring)", 3},                      \
    {"codec", 'k', "SPEC", 0, "identity, fp16, ... (identity)", 3},                               \
    {"bucket", PREDICT_BUCKET, "BYTES", 0, "Gradients of one operation (4M)", 3},                 \
    {"chunk", PREDICT_CHUNK, "ELEMS", 0, "Unit of coding and framing (64k)", 3},                  \
    {"no-overlap", PREDICT_NO_OVERLAP, NULL, 0, "Exchange after the whole backward pass", 3}
/* clang-format on */

/** Read one of them; ARGP_ERR_UNKNOWN: none of these. Texts are argv's. */
error_t predict_parse(int key, char *text, struct argp_state *state, shoal_predict_desc *desc);
/** Set an option by its long name; false: unknown, or not a value for it. */
bool predict_set(shoal_predict_desc *desc, const char *name, const char *value);

#endif
