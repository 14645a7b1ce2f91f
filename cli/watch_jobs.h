/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs that the page of shoal watch shows: those that run, and those that have ended while it
 * looked. */
#ifndef SHOAL_CLI_WATCH_JOBS_H
#define SHOAL_CLI_WATCH_JOBS_H

#include <jansson.h>
#include <stdint.h>

#include "shoal/watch.h"

typedef struct watch_jobs watch_jobs;

watch_jobs *watch_jobs_new(void); /* NULL: no memory */
/** Take in what all jobs answered at now_ms: one, or those of shoal_watch_all. NULL: there is none
 * (any more). @return false: no memory */
bool watch_jobs_take(watch_jobs *jobs, const shoal_watch *first, int64_t now_ms);
/** There are sockets, but nobody answers: jobs are as they were. */
void watch_jobs_silent(watch_jobs *jobs, int64_t now_ms);
/** {"jobs": [...]}, those that run first; NULL: no memory. Each is what shoal status --json says,
 * and "id", "state" ("running", "meeting": its ranks are nowhere for a moment, "silent", "over"),
 * "for_s" (since it last answered), "count" and "verdict" (sentences), "far" (how far its training
 * is), "pace", "changes", "rates": [[s, least, median, most], ...], "losses": [[step, loss], ...];
 * of each rank "rate" and "waits_for". */
json_t *watch_jobs_object(const watch_jobs *jobs, int64_t now_ms);
void watch_jobs_free(watch_jobs *jobs);

#endif
