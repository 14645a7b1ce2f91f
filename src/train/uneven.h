/* SPDX-License-Identifier: Apache-2.0 */
/* Batches for workers of unequal speed: each gets the samples that make all take equally long. */
#ifndef SHOALI_TRAIN_UNEVEN_H
#define SHOALI_TRAIN_UNEVEN_H

#include <stdint.h>

enum { SHOALI_UNEVEN_MOST = 4 }; /* a worker gets at most so many times the mean batch */

/**
 * Divide workers * batch samples in proportion to rates (samples per second, all above 0): every
 * worker gets 1 to SHOALI_UNEVEN_MOST * batch. Depends on the arguments only: ranks that know the
 * same rates agree.
 */
void shoali_uneven_divide(const float *rates, uint32_t workers, uint32_t batch,
                          uint32_t *batches_out);

#endif
