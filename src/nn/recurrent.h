/* SPDX-License-Identifier: Apache-2.0 */
/* What layers with memory share: the way through the frames in either direction, and the products
 * that need not wait for it. Arrays are float32[count][frames][values]; one step of all samples is
 * a matrix whose rows are frames * values apart.
 *
 * Samples end at their own length. The backward direction starts at the longest one's end: cells of
 * a sample are held at 0 where it has no frame, so each starts with its own last frame. */
#ifndef SHOALI_NN_RECURRENT_H
#define SHOALI_NN_RECURRENT_H

#include "nn/exec.h"
#include "nn/matrix.h"

typedef struct shoali_walk {
    uint32_t count, frames, longest;
    const uint32_t *lengths; /* NULL: all frames */
    bool reverse;
    uint32_t from; /* forward: frames before it are not computed again */
} shoali_walk;

shoali_walk shoali_walk_of(const shoali_node *node, const shoali_pass *pass, bool reverse);

static inline uint32_t shoali_walk_length(const shoali_walk *walk, uint32_t sample)
{
    return walk->lengths != NULL ? walk->lengths[sample] : walk->frames;
}

/** Frame of step 0 .. longest - 1, and the one before it in walking order (step > 0). */
static inline uint32_t shoali_walk_frame(const shoali_walk *walk, uint32_t step)
{
    return walk->reverse ? walk->longest - 1 - step : step;
}

/** y = 0 behind a sample's end. */
void shoali_walk_clear(const shoali_walk *walk, float *y, size_t values);

/** out = bias (NULL: 0) + x W^T in all frames that samples have and that are computed. */
void shoali_walk_apply(const shoali_walk *walk, const shoali_matrix *w, const float *bias,
                       const float *x, float *out, size_t out_values);
/** dx += or = dout W, and 0 behind a sample's end. */
void shoali_walk_back(const shoali_walk *walk, const shoali_matrix *w, const float *dout,
                      size_t dout_values, float *dx, bool add);
/** dW += dout^T x over all frames. */
void shoali_walk_learn(const shoali_walk *walk, shoali_matrix *w, const float *dout,
                       size_t dout_values, const float *x, size_t x_values);
/** dW += dout^T h with h of the frame before. */
void shoali_walk_learn_before(const shoali_walk *walk, shoali_matrix *w, const float *dout,
                              size_t dout_values, const float *h, size_t h_values);
/** dbias[values] = sum over all frames. */
void shoali_walk_bias(const shoali_walk *walk, const float *dout, uint32_t values, float *dbias);

/** Outputs of one direction into y, or from dy. At `first` of `values` per frame; 0 behind a
 * sample's end. */
void shoali_walk_give(const shoali_walk *walk, const float *h, uint32_t width, float *y,
                      uint32_t first, uint32_t values, bool add);
void shoali_walk_take(const shoali_walk *walk, const float *dy, uint32_t first, uint32_t values,
                      float *dh, uint32_t width);

#endif
