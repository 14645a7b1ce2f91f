/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes the others wait, and why: the verdict over what all ranks measured. Pure. */
#ifndef SHOALI_TRAIN_STRAGGLER_H
#define SHOALI_TRAIN_STRAGGLER_H

#include "shoal/train.h"

enum { SHOALI_STRAGGLER_STEPS = 256 }; /* the last so many steps are looked at */

typedef struct shoali_straggler_input {
    uint32_t ranks, steps;   /* steps <= SHOALI_STRAGGLER_STEPS */
    uint64_t first_step;     /* number of the first one */
    const float *compute_us; /* [steps * ranks] by step, then rank; 0: it had no part in the step */
    const float *sends;      /* [ranks * ranks] bytes per second to, 0: nothing */
    double step_us;          /* mean of a step */
    double wait_us;          /* mean wait of a rank in a step */
} shoali_straggler_input;

/** ranks_out[ranks]: caused_ms, last_share, since_step, sends and receives, cause. */
void shoali_straggler_judge(const shoali_straggler_input *input, shoal_train_rank *ranks_out);

#endif
