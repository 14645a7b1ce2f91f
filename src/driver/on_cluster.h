/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation for who has a cluster open already, perhaps changed since it was read, and knows how
 * long each worker computes: the planners. */
#ifndef SHOALI_DRIVER_ON_CLUSTER_H
#define SHOALI_DRIVER_ON_CLUSTER_H

#include "model/cluster.h"
#include "shoal/sim.h"

/**
 * As shoal_sim_create, on `cluster` in place of desc->cluster.
 * @param cluster stays the caller's, and open until the simulation is destroyed.
 * @param pass_s [desc->workers] of each worker's forward and backward pass, before what slows it
 *     down according to the cluster; in place of the time in desc->compute.
 */
SHOAL_MUST_USE shoal_status shoali_sim_create_on(const shoal_sim_desc *desc,
                                                 shoali_cluster *cluster, const double *pass_s,
                                                 shoal_sim **sim_out);

#endif
