/* SPDX-License-Identifier: Apache-2.0 */
/* A training problem small enough to check by hand: worker i holds f_i(x) = sum_j a_j (x_j -
 * c_ij)^2 / 2 and sees its gradient with noise; all together minimise the mean of f_i, whose
 * minimum is the mean of the c_i. Plain or momentum SGD. Every value depends on (seed, worker,
 * iteration, index) only. */
#ifndef SHOALI_DRIVER_SIM_PROBLEM_H
#define SHOALI_DRIVER_SIM_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/spec.h"

typedef struct shoali_problem shoali_problem;

/** Spec "cost" (no numbers at all: *problem_out is NULL), "quadratic:lr=0.1,...", or "mixing":
 * a random gradient in the first iteration and none later, so only exchange moves parameters. */
SHOAL_MUST_USE shoal_status shoali_problem_open(const char *spec, uint32_t workers, size_t count,
                                                uint64_t seed, shoali_problem **problem_out);
void shoali_problem_close(shoali_problem *problem);

/** The same start on all workers. */
void shoali_problem_start(const shoali_problem *problem, float *params_out);
/** Worker's gradient of elements [offset, offset + count) at params in this iteration. */
void shoali_problem_gradient(const shoali_problem *problem, uint32_t worker, uint64_t iteration,
                             const float *params, size_t offset, size_t count, float *grads_out);
/** One SGD step on a range: velocity = momentum * velocity + scale * grads; out = params - lr *
 *  velocity. out may be grads or params. */
void shoali_problem_step(const shoali_problem *problem, float *velocity, const float *params,
                         const float *grads, float scale, size_t offset, size_t count,
                         float *params_out);
/** Mean of all f_i at params, above its minimum. */
double shoali_problem_excess(const shoali_problem *problem, const float *params);

#endif
