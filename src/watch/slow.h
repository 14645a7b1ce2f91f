/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes the others wait, and why: the verdict over what all ranks measured. Pure. A window is a
 * training step, or a second of a communicator's life. */
#ifndef SHOALI_WATCH_SLOW_H
#define SHOALI_WATCH_SLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "shoal/watch.h"

/** Also in a status row: docs/wire.md. */
enum {
    SHOALI_SLOW_NOT,
    SHOALI_SLOW_COMPUTE,
    SHOALI_SLOW_NETWORK,
    SHOALI_SLOW_INPUT, /* making its batches: reading, augmenting */
    SHOALI_SLOW_LOAD,  /* it has more samples than the others */
    SHOALI_SLOW_DISK,  /* writing its checkpoints */
    SHOALI_SLOW_PAUSE, /* its process does not run now and then */
    SHOALI_SLOW_CAUSES
};
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
    /** [windows * ranks] as compute_us; NULL: not known. data_us and samples are of what lies in
     * compute_us, disk_us and paused_us are not, or may be. */
    const float *data_us, *disk_us, *paused_us, *samples;
    /** How often it paused in a step, as paused_us; NULL: a window is a step, and a paused one has
     * one. */
    const float *pauses;
    bool disk_in_step; /* step_us has the time for checkpoints in it */
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
/** "", "compute", "network", "input", "load", "disk" or "pause". */
const char *shoali_slow_name(uint32_t cause);

/** slow_parts.c: whether the time that a rank computes longer than all others, excess_us per step,
 * is for making batches, or for having more samples; otherwise SHOALI_SLOW_COMPUTE. */
uint32_t shoali_slow_why(const shoali_slow_input *input, uint32_t rank, double excess_us);
/** Whose disk, or whose pauses, all wait for; out[ranks].cause of those who have none yet.
 * @param step_us mean of a step */
void shoali_slow_judge_disk(const shoali_slow_input *input, double step_us, shoali_slow *out);
void shoali_slow_judge_pause(const shoali_slow_input *input, shoali_slow *out);

/** The mean of a series and a 98 % interval of it, by a block bootstrap: steps that follow each
 * other are alike, so blocks of them are drawn, always the same ones. */
typedef struct shoali_slow_mean {
    double mean, low, high;
} shoali_slow_mean;
shoali_slow_mean shoali_slow_bootstrap(const double *series, uint32_t count);
/** By how much a rank's values of a table are above the largest of the others'. */
shoali_slow_mean shoali_slow_excess(const shoali_slow_input *input, const float *table,
                                    uint32_t rank);

#endif
