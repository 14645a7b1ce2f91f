/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal watch has seen of a job so far: how many operations ended per second on each rank, and
 * what changed. A job whose ranks met anew, or another job, begins anew; what changed stays. */
#ifndef SHOAL_CLI_WATCH_HISTORY_H
#define SHOAL_CLI_WATCH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/watch.h"

enum { WATCH_SAMPLES = 120, WATCH_CHANGES = 32, WATCH_CHANGE_BYTES = 160 };

typedef struct watch_ranks watch_ranks; /* one rank's samples */

typedef struct watch_history {
    char job[64];
    uint32_t ranks, samples; /* samples: of each rank, WATCH_SAMPLES at most */
    uint64_t most;           /* operations that had ended, when last seen */
    int64_t seen_ms;         /* when that was; 0: never */
    watch_ranks *rank;       /* [ranks] */
    char change[WATCH_CHANGES]
               [WATCH_CHANGE_BYTES]; /* "14:03:11 rank 2 (c) is dead", oldest first */
    uint32_t changes;
} watch_history;

/** Take an answer in that came at now_ms. @return false: no memory; what was is forgotten */
bool watch_history_add(watch_history *h, const shoal_watch *watch, int64_t now_ms);
/** Operations per second on a rank over the last five samples; negative: not known yet. */
double watch_history_rate(const watch_history *h, uint32_t rank);
/** The median of the ranks that run; negative: not known. */
double watch_history_pace(const watch_history *h, const shoal_watch *watch);
/** The last `width` samples as bars, the newest on the right, blanks where there are none; all
 * ranks share one scale. bytes: 4 * width + 1 hold it. */
void watch_history_bars(const watch_history *h, uint32_t rank, unsigned width, bool unicode,
                        char *out, size_t bytes);
void watch_history_free(watch_history *h);

#endif
