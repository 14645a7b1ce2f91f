/* SPDX-License-Identifier: Apache-2.0 */
/* A training job for Prometheus: --metrics. One process of a job serves, the worker of the lowest
 * rank that is there. A launcher listens for its ranks, and each inherits the descriptor: who is
 * lowest after a loss goes on at the same port. */
#ifndef SHOAL_CLI_TRAIN_METRICS_H
#define SHOAL_CLI_TRAIN_METRICS_H

#include "shoal/train.h"

typedef struct train_metrics train_metrics;

typedef struct train_metrics_options {
    const char *address;    /* NULL: no metrics */
    const char *token_file; /* NULL: loopback only */
    const char *verb;       /* NULL: "train" */
} train_metrics_options;

/** Whether --metrics and --metrics-token-file go together. False: printed why not. */
bool train_metrics_fit(const train_metrics_options *options);
/** In the process that launches ranks on this host: listen for them. False: printed why not. */
bool train_metrics_reserve(const train_metrics_options *options);

/** @param job what shoal_train_info tells; borrowed. NULL: no metrics asked for, or no memory. */
train_metrics *train_metrics_create(const train_metrics_options *options,
                                    const shoal_train_desc *job);
/** From now on this process serves; again: nothing. False: printed why not. */
bool train_metrics_serve(train_metrics *metrics, uint32_t rank);
/** Before the first step and after a reform (progress NULL), and after each step, after which the
 * lowest rank that is there begins to serve. */
void train_metrics_step(train_metrics *metrics, uint32_t rank, const shoal_train *train,
                        const shoal_train_progress *progress);
/** The same of a simulation, whose seconds are virtual: what its worker `rank` has counted. */
void train_metrics_simulated(train_metrics *metrics, uint32_t rank, const shoal_train_totals *now,
                             const shoal_train_progress *progress);
/** The next training of several in a row begins: counters go on. */
void train_metrics_stage(train_metrics *metrics);
/** The port; 0: it does not serve. */
unsigned train_metrics_port(const train_metrics *metrics);
/** NULL is allowed, here and above. */
void train_metrics_destroy(train_metrics *metrics);

#endif
