/* SPDX-License-Identifier: Apache-2.0 */
/* Training towards block-circulant matrices by the alternating direction method of multipliers
 * (E-RNN: Li et al., HPCA 2019). The loss f of a model with whole matrices W is minimised under
 * W = Z with Z block-circulant; U is the scaled multiplier:
 *
 *     W  <-  some epochs of f(W) + rho / 2 |W - Z + U|^2   (the optimiser; pull() is its gradient)
 *     Z  <-  the nearest block-circulant matrix to W + U   (turn())
 *     U  <-  U + W - Z
 *
 * rho grows by a factor per iteration, and U, which is a multiplier over rho, shrinks by it. At the
 * end W is nearly block-circulant; whoever takes its weights over (desc.start of a block-circulant
 * model) projects them and trains on. */
#ifndef SHOALI_WORKER_ADMM_H
#define SHOALI_WORKER_ADMM_H

#include "shoal/train.h"

typedef struct shoali_admm shoali_admm;

/** From desc.admm and desc.admm_model. Z is the projection of the weights as they are, U is 0.
 * SHOAL_OK without doing anything if desc.admm is NULL. */
SHOAL_MUST_USE shoal_status shoali_admm_create(shoal_train *train);

/** Add the penalty's slope to gradients that the optimiser will multiply by grad_scale. */
void shoali_admm_pull(shoal_train *train, float grad_scale);
/** A step is done: if it ends an iteration, take new Z and U. */
SHOAL_MUST_USE shoal_status shoali_admm_turn(shoal_train *train);
/** |W - Z| / |W| after the latest iteration, over all matrices; NaN without ADMM, before the first
 * and in a resumed run. */
double shoali_admm_gap(const shoal_train *train);

/** For checkpoints: float32[parameters] Z - U and U; where Z and U are not defined they are 0. */
float *shoali_admm_state(const shoal_train *train, float **dual_out);

#endif
