/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation that is seen while it runs: the line that says how far it is, its status socket, and
 * its page of metrics. */
#ifndef SHOAL_CLI_SIM_LIVE_H
#define SHOAL_CLI_SIM_LIVE_H

#include "shoal/sim.h"
#include "train_metrics.h"

typedef struct sim_live {
    train_metrics_options options;
    shoal_train_desc about; /* what the page says of the job */
    train_metrics *metrics; /* NULL: not asked for */
    shoal_sim *sim;
    uint32_t workers;
    int64_t looked_ms;
} sim_live;

/** Whether --metrics and its token go together. False: printed why not. */
bool sim_live_fit(sim_live *live);
/** From now on the page is there. False: printed why not. */
bool sim_live_begin(sim_live *live, const shoal_train_desc *job, shoal_sim *sim);
/** Run it, seen by all who ask. */
SHOAL_MUST_USE shoal_status sim_live_run(sim_live *live, bool by_time);
/** The page is gone. */
void sim_live_end(sim_live *live);
/** Run one of which only the line is to be seen. */
SHOAL_MUST_USE shoal_status sim_live_run_aside(shoal_sim *sim);

#endif
