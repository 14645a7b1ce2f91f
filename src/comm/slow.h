/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes the others wait, and why: the verdict over what all ranks measured. Pure. A window is a
 * training step, or a second of a communicator's life. */
#ifndef SHOALI_COMM_SLOW_H
#define SHOALI_COMM_SLOW_H

#include <stdint.h>

enum { SHOALI_SLOW_NOT, SHOALI_SLOW_COMPUTE, SHOALI_SLOW_NETWORK, SHOALI_SLOW_CAUSES };

typedef struct shoali_slow_input {
    uint32_t ranks, windows;
    const float *compute_us; /* [windows * ranks] by window, then rank; 0: it had no part in it */
    const double *sends, *receives; /* [ranks] bytes per second of its best connection; 0: none */
    double step_us;                 /* mean of a step */
    double wait_us;                 /* mean wait of a rank in a step */
} shoali_slow_input;

typedef struct shoali_slow {
    double caused_us;     /* a step would be as much shorter without it */
    double last_share;    /* of the windows */
    uint32_t last_since;  /* from this window on it was last in nearly all; `windows`: never */
    uint32_t cause;       /* SHOALI_SLOW_* */
    double median_link_s; /* bytes per second: what the median rank's best connection does */
} shoali_slow;

/** out[ranks]. */
void shoali_slow_judge(const shoali_slow_input *input, shoali_slow *out);
/** "", "compute" or "network". */
const char *shoali_slow_name(uint32_t cause);

#endif
