/* SPDX-License-Identifier: Apache-2.0 */
/* By what two workers of a cluster send each other. */
#ifndef SHOALI_MODEL_CLUSTER_WAYS_H
#define SHOALI_MODEL_CLUSTER_WAYS_H

#include "model/cluster.h"

/** The link between two hosts: the listed one, else what their NICs allow. */
shoali_link shoali_cluster_link(const shoali_cluster *cluster, uint32_t from, uint32_t to);
/** What two workers send each other by. Own: by a link of each worker's own, up from the one and
 * down to the other; else by their hosts' NICs, which all workers there share. */
typedef struct shoali_way {
    bool own;
    uint32_t link;      /* own: which of the worker's, below shoali_cluster_own_links */
    double bytes_per_s; /* what is lost not counted; infinity: not said */
    double latency_s, loss;
} shoali_way;

/** Between two different workers. With dimensions: by the outermost in which they differ, the last
 * of which is the NICs. Without: inside a host by its links inside, else by NICs or the link that
 * is listed for the two hosts. */
shoali_way shoali_cluster_way(const shoali_cluster *cluster, uint32_t from, uint32_t to);
/** How many links each worker has for itself, in each direction; and the rate of one of them, what
 * is lost not counted. */
uint32_t shoali_cluster_own_links(const shoali_cluster *cluster);
double shoali_cluster_own_rate(const shoali_cluster *cluster, uint32_t worker, uint32_t link);
/** Rate of one worker into its host by name: "pcie4"; 0: no such name. */
double shoali_cluster_inside(const char *name);
/** What hosts and dimensions say of the same NICs: derive what one of them leaves out. ECORRUPT:
 * they contradict each other. */
SHOAL_MUST_USE shoal_status shoali_cluster_settle(shoali_cluster *cluster);

#endif
