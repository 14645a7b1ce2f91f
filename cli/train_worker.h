/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of shoal train, from its first step to the report, with other workers if some are
 * lost. */
#ifndef SHOAL_CLI_TRAIN_WORKER_H
#define SHOAL_CLI_TRAIN_WORKER_H

#include "shoal/train.h"
#include "train_board.h"
#include "train_metrics.h"

typedef struct train_worker {
    const shoal_train_desc *train; /* what is reported */
    uint64_t planned;              /* elements per step that a plan says */
    bool json, quiet;
    const char *interrupted; /* what Ctrl-C does; NULL: a launcher says it */
    bool reports;            /* the last of several trainings in a row */
    train_board *board;      /* NULL: nothing for TensorBoard */
    train_metrics *metrics;  /* NULL: none are asked for */
    const char *name;        /* of this process, in what it says */
    bool *unwritten;         /* a file beside the result could not be written: that was told */
} train_worker;

/** Whether it is members that ended something: then others may go on. */
bool train_about_members(shoal_status status);
/** comm and view: in and out. */
shoal_status train_work(const train_worker *args, shoal_train *train, shoal_comm **comm,
                        shoal_view *view);
/** With may_stop: SIGTERM came to some worker, and all have ended with a checkpoint. */
bool train_has_stopped(void);

#endif
