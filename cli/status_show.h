/* SPDX-License-Identifier: Apache-2.0 */
/* What shoal status shows of jobs. */
#ifndef SHOAL_CLI_STATUS_SHOW_H
#define SHOAL_CLI_STATUS_SHOW_H

#include <jansson.h>

#include "shoal/watch.h"

/** Not there, or soon found not to be: missing, unresponsive, dead. */
bool status_is_lost(const shoal_watch_rank_state *rank);
/** How many are in an operation now, for how long the first of them, and in which. */
typedef struct status_wait {
    uint32_t ranks;
    double doing_s;
    char operation[64];
} status_wait;

/** All ranks are looked at: once per answer. */
status_wait status_waits(const shoal_watch *watch);
/** A sentence about a rank that holds up the others; false: it does not. */
bool status_sentence(const status_wait *others, uint32_t rank, const shoal_watch_rank_state *r,
                     char *out, size_t bytes);
/** How far its training is: of the rank that is farthest, but for the loss, the mean of the running
 * ranks'. step 0: it does not train, or has not made one. NaN: not known. */
typedef struct status_training {
    uint64_t step;
    uint32_t epoch;
    double loss, accuracy;
} status_training;
status_training status_trains(const shoal_watch *watch);
/** "step 128, epoch 5, loss 0.5418, accuracy 91.20 %"; "" where it does not train. */
void status_training_text(const status_training *t, char *out, size_t bytes);
/** A job as an object; NULL: no memory. */
json_t *status_object(const shoal_watch *watch);
/** A job's ranks, and what is wrong with them. */
void status_table(const shoal_watch *watch);
/** A line for each job, with its number. */
void status_list(const shoal_watch *first);
/** CLI_OK, CLI_PEER_LOST (a rank is not there), CLI_DEADLINE (no rank answers). */
int status_code(const shoal_watch *watch);

#endif
