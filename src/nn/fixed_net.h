/* SPDX-License-Identifier: Apache-2.0 */
/* A trained model as a net in fixed point (kernel/fixed.h): weights become spectra of 12 or 16
 * bits, every tensor gets its fraction bits.
 *
 * Fractions: of a weight spectrum per bin, as large as its largest word allows; of the input and of
 * what matrices and projections give, by the largest magnitude seen on samples; of what enters a
 * gate or a tanh, W - 4; of what leaves one, W - 1. */
#ifndef SHOALI_NN_FIXED_NET_H
#define SHOALI_NN_FIXED_NET_H

#include "kernel/fixed.h"
#include "model/model.h"

typedef struct shoali_fixed_model {
    shoal_arena *arena; /* owns all of this */
    shoali_fixed_net net;
    shoali_fixed_layer *layers; /* those of net */
    uint32_t *sources;          /* [net.count] which layer of the model each is */
    uint32_t in, out;           /* words of a frame */
    unsigned in_frac, out_frac;
} shoali_fixed_model;

/**
 * @param params float32, of model's table.
 * @param most   float32[layer_count + 1]: largest magnitude of the input and of each layer's
 * output (shoali_net_magnitudes).
 * @return SHOAL_OK | EINVAL (bits; weights too large for them) | ENOTSUP (a layer without a form in
 * fixed point: named) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_fixed_create(const shoal_model *model, const float *params,
                                                uint32_t bits, const float *most,
                                                shoali_fixed_model **model_out);
void shoali_fixed_destroy(shoali_fixed_model *model);

/** Words of W bits: x * 2^frac, rounded to nearest (half up), saturated. */
void shoali_fixed_quantise(const float *x, size_t count, unsigned frac, uint32_t bits,
                           int16_t *words_out);

/** Words of a matrix's spectra. */
size_t shoali_fixed_weights(const shoali_fixed_matrix *m);

#endif
