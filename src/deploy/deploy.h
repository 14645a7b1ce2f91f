/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a shoal_deploy: what evaluates it, and what writes it out. */
#ifndef SHOALI_DEPLOY_DEPLOY_H
#define SHOALI_DEPLOY_DEPLOY_H

#include "files/safetensors.h"
#include "nn/fixed_net.h"
#include "shoal/deploy.h"
#include "worker/worker.h"

struct shoal_deploy {
    shoal_deploy_desc desc; /* defaults filled in; strings are the trainer's */
    shoal_train *train;     /* model, data, net with the checkpoint's weights; never steps */
    float *most;            /* [layer_count + 1]: magnitudes of the samples to calibrate with */
    bool calibrated;
    shoali_fixed_model *fixed; /* of the latest number of bits; NULL: none yet */
};

/** Make deploy->fixed what was asked for. */
SHOAL_MUST_USE shoal_status shoali_deploy_fix(shoal_deploy *deploy, uint32_t bits);

/** Name and matrix i of the fixed net, with the layer that it is of, and how often a frame takes
 * it; NULL behind the last one. */
const shoali_fixed_matrix *shoali_deploy_matrix(const shoal_deploy *deploy, uint32_t i,
                                                char name_out[96], uint32_t *places_out);

#endif
