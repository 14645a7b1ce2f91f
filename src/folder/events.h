/* SPDX-License-Identifier: Apache-2.0 */
/* OUT/events.jsonl: what happened to a run, a line each, of all its ranks and all its parts: it
 * begins, goes on, writes checkpoints, changes its members, ends; and whatever the log warned of.
 * Lines are only added: one write each, so that those of several ranks never mix. */
#ifndef SHOALI_FOLDER_EVENTS_H
#define SHOALI_FOLDER_EVENTS_H

#include <jansson.h>

#include "worker/worker.h"

/** Open it, and have warnings of this process added. Rank 0 cuts off what a crash has left behind
 * the last whole line. Without OUT: nothing. @return SHOAL_OK | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_events_open(shoal_train *train);
/** That the run begins, or goes on, here: by rank 0. */
SHOAL_MUST_USE shoal_status shoali_events_begin(const shoal_train *train);
/** Add an event; `more` are its further members, given away (NULL: none). @return SHOAL_OK | EIO |
 * ENOMEM */
SHOAL_MUST_USE shoal_status shoali_events_add(const shoal_train *train, const char *event,
                                              json_t *more);
/** Whom a verdict names, with its evidence: the members of a "slow" event. NULL: no memory. */
json_t *shoali_events_verdict(uint32_t rank, const shoal_train_rank *r);
/** Add a line, which is given away (NULL: ENOMEM), to folder/events.jsonl, which fd is. @return
 * SHOAL_OK | EIO | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_events_put(int fd, const char *folder, json_t *line);
/** At the end of a run, by the worker that tells its result: that it ended, and who was slow. */
SHOAL_MUST_USE shoal_status shoali_events_end(const shoal_train *train);
void shoali_events_close(shoal_train *train);

#endif
