/* SPDX-License-Identifier: Apache-2.0 */
/* The page of shoal watch, and its line where no page can be shown. */
#ifndef SHOAL_CLI_WATCH_FRAME_H
#define SHOAL_CLI_WATCH_FRAME_H

#include <stddef.h>

#include "screen.h"
#include "shoal/watch.h"
#include "watch_history.h"

typedef struct watch_place {
    uint32_t first, shown; /* ranks on the page: the first, set right where there are fewer; how
                              many, an answer */
    double silent_s;       /* since the last answer, where the job has stopped answering; else 0 */
} watch_place;

/** A job with its ranks. */
void watch_frame_job(screen *s, const shoal_watch *watch, const watch_history *h, watch_place *at);
/** The jobs of this user, a line each. */
void watch_frame_list(screen *s, const shoal_watch *first, double silent_s);
/** "job night: 4 ranks, 3 running, 1 dead; up 312 s; 26.9 operations/s; rank 2 (c) is dead ...", as
 * much as fits; what a terminal would obey is '?'. h NULL: no rate. */
void watch_frame_line(const shoal_watch *watch, const watch_history *h, char *out, size_t bytes);
/** "4 ranks, all running" or "4 ranks, 3 running, 1 dead" */
void watch_frame_states(const shoal_watch *watch, char *out, size_t bytes);
/** Where nothing is said of any rank: why ("no straggler"). Else "". */
const char *watch_frame_verdict(const shoal_watch *watch);

#endif
