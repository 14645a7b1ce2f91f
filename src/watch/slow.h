/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes the others wait, and why: the verdict over what all ranks measured. Pure. A window is a
 * training step, or a second of a communicator's life. */
#ifndef SHOALI_WATCH_SLOW_H
#define SHOALI_WATCH_SLOW_H

#include <stdint.h>

#include "shoal/watch.h"

enum { SHOALI_SLOW_NOT, SHOALI_SLOW_COMPUTE, SHOALI_SLOW_NETWORK, SHOALI_SLOW_CAUSES };
enum {
    SHOALI_SLOW_WINDOWS = 256,    /* looked at: the last */
    SHOALI_SLOW_RATE_US = 100000, /* a link's rate is known after so much sending */
};

typedef struct shoali_slow_input {
    uint32_t ranks, windows;
    uint32_t steps;          /* in all windows */
    const float *compute_us; /* [windows * ranks] by window, then rank; 0: it had no part in it */
    const float *step_us;    /* [windows] mean of a step; 0: there was none */
    const double *sends, *receives; /* [ranks] bytes per second of its best connection; 0: none */
    double wait_us;                 /* mean wait of a rank in a step */
} shoali_slow_input;

typedef struct shoali_slow {
    double caused_us;     /* a step would be as much shorter without it */
    double last_share;    /* of the windows */
    uint32_t last_since;  /* from this window on it was last in nearly all; `windows`: never */
    uint32_t cause;       /* SHOALI_SLOW_*: at most one rank has each but NOT */
    double median_link_s; /* bytes per second: what the median rank's best connection does */
} shoali_slow;

/** out[ranks]. */
void shoali_slow_judge(const shoali_slow_input *input, shoali_slow *out);
/** Bytes per second of a connection, at most line_bytes_s (0: no limit is known); 0: it has not
 * sent for long enough. */
double shoali_slow_rate(double acked_bytes, double busy_us, double line_bytes_s);
/** "", "compute" or "network". */
const char *shoali_slow_name(uint32_t cause);

/** The mean of a series and a 98 % interval of it, by a block bootstrap: steps that follow each
 * other are alike, so blocks of them are drawn, always the same ones. */
typedef struct shoali_slow_mean {
    double mean, low, high;
} shoali_slow_mean;
shoali_slow_mean shoali_slow_bootstrap(const double *series, uint32_t count);

#endif
