/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster's description (docs/cluster.md) as the network that can be made of it on one machine:
 *
 *     char text[SHOAL_CLUSTER_LAB_MAX];
 *     uint32_t workers;
 *     if (shoal_cluster_lab("two-racks.json", &workers, text, sizeof text) != SHOAL_OK) ...
 *
 * text is then what `shoal train --lab` takes: "hosts=2,link=0:100mbit,link=1:20mbit/50mbit,
 * slow=3:4x,loss=1%". What a cluster may say and a lab cannot make is refused by name.
 *
 * Threads: any. */
#ifndef SHOAL_CLUSTER_H
#define SHOAL_CLUSTER_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHOAL_CLUSTER_LAB_MAX = 4096 };

/**
 * The keys of --lab that make this cluster's hosts, links, losses and stragglers. What its
 * accelerators compute is no part of it: the workers are processes of the machine at hand.
 * @param workers_out how many ranks the cluster has
 * @return SHOAL_OK | EINVAL (what a lab cannot make, by shoal_last_error; text_out too short) | EIO
 *         | ECORRUPT | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_cluster_lab(const char *path, uint32_t *workers_out,
                                                        char *text_out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
