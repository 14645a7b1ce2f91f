/* SPDX-License-Identifier: Apache-2.0 */
/* The factors of a fit, and what each of them does to a cluster: the fit evaluates clusters that
 * were changed by the same function that changes the file that is written. */
#ifndef SHOALI_PLAN_FIT_H
#define SHOALI_PLAN_FIT_H

#include "model/cluster.h"
#include "shoal/predict.h"

enum { SHOALI_FIT_ROWS_MAX = 1000 };
enum {
    SHOALI_FIT_MATRIX,
    SHOALI_FIT_MEMORY,
    SHOALI_FIT_INSIDE,
    SHOALI_FIT_NETWORK,
    SHOALI_FACTORS
};

/** No factor makes anything more than so many times as slow. */
#define SHOALI_FACTOR_MAX 1000.0

/** The smallest factors that leave every rate at or below the one that the cluster names. */
void shoali_fit_bounds(const shoali_cluster *cluster, double low_out[SHOALI_FACTORS]);

/** Give every accelerator the tables that factors act on: a table that is not there is a share
 *  of 1. */
SHOAL_MUST_USE shoal_status shoali_fit_prepare(shoali_cluster *cluster);

/** Change a prepared cluster from one set of factors to another, both on what its file says. */
void shoali_fit_scale(shoali_cluster *cluster, const double from[SHOALI_FACTORS],
                      const double to[SHOALI_FACTORS]);

/** Of the scores of rows that were not fitted (shoal_calibrate_spread); sorts them. */
double shoali_fit_spread(double *score, uint32_t count);

#endif
