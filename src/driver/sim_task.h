/* SPDX-License-Identifier: Apache-2.0 */
/* What a simulation trains if it is given from outside: the trainer's networks. The quadratic of
 * sim_problem.h needs none of this. */
#ifndef SHOALI_DRIVER_SIM_TASK_H
#define SHOALI_DRIVER_SIM_TASK_H

#include "shoal/sim.h"

/** An endpoint's optimiser on [offset, offset + count); pointers are at offset. */
typedef struct shoali_task_step {
    uint32_t endpoint;
    uint64_t iteration;
    size_t offset, count;
    const float *params, *grads;
    float *params_out; /* may be params or grads */
    float scale;       /* of the gradients */
} shoali_task_step;

/** Of the gradient that was computed last. */
typedef struct shoali_task_made {
    double loss, lr;            /* mean of its samples */
    uint32_t samples;           /* 0: nothing is known */
    uint32_t total;             /* of all workers in this iteration */
    uint64_t first, step_first; /* serials of the first sample of this worker, of all of them */
    uint64_t steps_per_epoch;
} shoali_task_made;

/** All results are functions of the arguments and of what was called before: runs repeat. */
typedef struct shoali_task {
    void *ctx;
    /** Before all else: the endpoints behind the workers are servers. iterations_inout: of every
     * worker; 0: what the task takes for a whole run. */
    shoal_status (*open)(void *ctx, uint32_t workers, uint32_t endpoints,
                         uint64_t *iterations_inout);
    /** First parameters, the same at every endpoint. */
    void (*start)(void *ctx, float *params_out);
    /** A worker's gradient of all parameters, at the first range that becomes ready: they do not
     * change before its backward pass is over. */
    shoal_status (*gradient)(void *ctx, uint32_t worker, uint64_t iteration, const float *params,
                             float *grads_out);
    /** NULL: nothing is told of gradients. */
    shoali_task_made (*made)(void *ctx);
    void (*step)(void *ctx, const shoali_task_step *step);
    /** A worker comes back with another one's optimiser and statistics. */
    void (*adopt)(void *ctx, uint32_t from, uint32_t to);
    /** Mean loss of the samples of all gradients since it was asked last; NaN: there were none. */
    double (*loss)(void *ctx);
    /** Accuracy in percent of one worker's model; NaN: not tested. */
    shoal_status (*test_worker)(void *ctx, uint32_t worker, const float *params,
                                double *accuracy_out);
    /** The job's model at the end: losses and accuracy into results. */
    shoal_status (*test)(void *ctx, const float *params, shoal_sim_results *results);
    void (*close)(void *ctx);
} shoali_task;

/** As shoal_sim_create; the simulation closes the task, and so does a failure. desc->problem is
 * not read. */
SHOAL_MUST_USE shoal_status shoali_sim_create_task(const shoal_sim_desc *desc,
                                                   const shoali_task *task, shoal_sim **sim_out);

#endif
