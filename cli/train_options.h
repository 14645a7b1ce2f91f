/* SPDX-License-Identifier: Apache-2.0 */
/* The options of shoal train, read into what it starts. */
#ifndef SHOAL_CLI_TRAIN_OPTIONS_H
#define SHOAL_CLI_TRAIN_OPTIONS_H

#include <argp.h>

#include "launch.h"
#include "shoal/train.h"
#include "train_kept.h"
#include "train_metrics.h"
#include "train_stages.h"

typedef struct train_args {
    launch_desc launch;
    lab_desc lab;
    shoal_train_desc train;
    shoal_comm_desc comm;
    uint32_t workers, asked_workers;                    /* asked: on the command line, 0: not */
    char *plan_model, *circulant_model, *rounded_model; /* owned */
    const char *circulant, *precision, *admm, *whole_model;
    train_stages stages;
    train_metrics_options metrics;
    const char *tensorboard;
    train_kept kept;  /* what the run folder is to know */
    uint64_t planned; /* elements per step that the plan says */
    bool json, quiet, dry_run;
    uint64_t given; /* which options, by their place in train_options */
} train_args;

extern const struct argp_option train_options[];
/** Take an option of a run that goes on, --hosts and its like included, by its long name: 2: the
 * command line excludes it, 1: taken, 0: a bad value, -1: unknown. text is borrowed; "": a switch.
 */
int train_take_named(void *args, const char *name, const char *text);
/** Of argp; its input is a train_args. */
error_t train_parse(int key, char *text, struct argp_state *state);
/** Options that say nothing without another one, or beside another one: a usage error is printed.
 * A run that is resumed goes on in its folder, where --out says no other. @return whether there is
 * none. */
bool train_given_fit(train_args *args);

#endif
