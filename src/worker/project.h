/* SPDX-License-Identifier: Apache-2.0 */
/* A model beside the same one with matrices that are kept as circulant blocks: which belong
 * together, and the way from one to the other. */
#ifndef SHOALI_WORKER_PROJECT_H
#define SHOALI_WORKER_PROJECT_H

#include "model/model.h"

/** A matrix that is whole in one model and block-circulant in the other; of a convolution, one for
 * each tap of its window. */
typedef struct shoali_projection {
    uint32_t rows, cols;
    uint32_t taps;  /* matrices, of a convolution: [rows][cols][tap] whole; else 1 */
    uint32_t block; /* of the other model's, first column; 1: both keep the same values */
    size_t count;   /* values of the other model's */
} shoali_projection;

/** How tensor i of `from` becomes tensor i of `to`; EINVAL (both named) if their sizes do not
 * fit. */
SHOAL_MUST_USE shoal_status shoali_projection_of(const shoal_model *from, const shoal_model *to,
                                                 uint32_t i, shoali_projection *projection_out);

/** Values of the whole matrices. */
size_t shoali_projection_whole(const shoali_projection *projection);
/** Kept values of the nearest block-circulant matrices: means over wrapped diagonals, without
 * padding. room: rows x cols values of scratch. */
void shoali_project(const shoali_projection *projection, const float *dense, float *room,
                    float *values_out);
/** And the whole matrices of kept values. */
void shoali_unfold(const shoali_projection *projection, const float *values, float *room,
                   float *dense_out);

#endif
