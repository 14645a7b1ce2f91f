/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation itself writes: --timeline and --log, whole or not at all; and who looks on. */
#ifndef SHOALI_DRIVER_SIM_FILES_H
#define SHOALI_DRIVER_SIM_FILES_H

#include <stdatomic.h>

#include "base/new_file.h"
#include "shoal/sim.h"

typedef struct shoali_sim_files {
    shoali_new_file timeline, log; /* without a file: not asked for, or written */
    uint64_t timeline_events;
    bool came_out;       /* the job has ended, however, and what is kept of it is written */
    atomic_bool stopped; /* nobody wants it any more */
} shoali_sim_files;

/** Who looks on while it runs, on its thread: shoal_sim_watch, shoal_sim_serve. */
typedef struct shoali_sim_onlookers {
    void (*tell)(void *ctx, const shoal_sim_progress *progress); /* NULL: nobody asks */
    void *tell_ctx;
    void *ctx;               /* NULL: nobody */
    void (*look)(void *ctx); /* between two events */
    void (*close)(void *ctx);
} shoali_sim_onlookers;

/* sim_report.c */
/** Open what else it writes, once nothing can refuse the simulation any more. */
SHOAL_MUST_USE shoal_status shoali_sim_report_files(shoal_sim *sim, const shoal_sim_desc *desc);
/** All that goes into them is said: before others write what they keep of the run. */
SHOAL_MUST_USE shoal_status shoali_sim_report_flush(shoal_sim *sim);
/** They are whole; an error in writing them is the run's. Without it nothing is left of them. */
SHOAL_MUST_USE shoal_status shoali_sim_report_end(shoal_sim *sim);

#endif
