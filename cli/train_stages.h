/* SPDX-License-Identifier: Apache-2.0 */
/* The trainings that `shoal train --admm` strings together: whole matrices, whole matrices pulled
 * towards block-circulant ones, block-circulant ones. Without --admm there is one. */
#ifndef CLI_TRAIN_STAGES_H
#define CLI_TRAIN_STAGES_H

#include "shoal/train.h"

enum { TRAIN_STAGES_MAX = 3 };

typedef struct train_stages {
    shoal_train_desc desc[TRAIN_STAGES_MAX];
    const char *name[TRAIN_STAGES_MAX]; /* NULL: the only one */
    uint32_t count;
    char *owned[5]; /* strings that desc points to */
} train_stages;

/**
 * @param desc  of the last stage; its model is block-circulant, its out is the folder of all.
 * @param whole the model with whole matrices.
 * @param admm  keys of shoal_admm_parse, NULL: none.
 * @return what shoal_admm_parse does | SHOAL_ENOMEM
 */
SHOAL_MUST_USE shoal_status train_stages_make(const shoal_train_desc *desc, const char *whole,
                                              const char *admm, train_stages *stages_out);
void train_stages_free(train_stages *stages);

#endif
