/* SPDX-License-Identifier: Apache-2.0 */
/* Max-min fair rates of coflows on links, kept up to date as coflows come and go.
 *
 * A coflow takes weight (0 .. 1) times its rate of each of its links, 1 of the most loaded one. All
 * rates rise together until a link is full; the coflows on it then keep their rate, the others rise
 * on. The level of a link is the rate at which it became full (INFINITY: never), and a coflow's
 * rate is the lowest level on its way. */
#ifndef SHOALI_DRIVER_SIM_SHARE_H
#define SHOALI_DRIVER_SIM_SHARE_H

#include <stddef.h>

#include "driver/sim_heap.h"

/** What a coflow asks of one link. */
typedef struct shoali_load {
    uint32_t link;
    uint64_t bytes;
} shoali_load;

typedef struct shoali_share_user shoali_share_user;
typedef struct shoali_share_link shoali_share_link;
typedef struct shoali_share_flow shoali_share_flow;

/** Zero bytes until init. */
typedef struct shoali_sharing {
    shoali_share_link *links;
    shoali_share_flow *flows; /* by the caller's number */
    double *cap;              /* by flow: the lowest level on its way that is known */
    uint32_t link_count, flow_capacity;
    shoali_heap due;    /* links whose level is being found, by the level where to look */
    uint32_t *affected; /* their numbers, in order of discovery */
    uint32_t affected_count;
    uint32_t *changed; /* flows whose rate may be another since the last solve */
    uint32_t changed_count;
} shoali_sharing;

/** capacity[i] >= 0: rate of link i; 0 stops everything on it. */
SHOAL_MUST_USE shoal_status shoali_share_init(shoali_sharing *share, const double *capacity,
                                              uint32_t links);
void shoali_share_fini(shoali_sharing *share);

/** A coflow under a number of the caller's choice, used again only after remove. At least one load
 * has bytes; one entry a link at most. Numbers should be small: they index arrays. */
SHOAL_MUST_USE shoal_status shoali_share_add(shoali_sharing *share, uint32_t flow,
                                             const shoali_load *loads, uint32_t count);
void shoali_share_remove(shoali_sharing *share, uint32_t flow);

/** One more link, with the next number. */
SHOAL_MUST_USE shoal_status shoali_share_extend(shoali_sharing *share, double capacity);
/** A link's rate is another one from now on. */
void shoali_share_resize(shoali_sharing *share, uint32_t link, double capacity);

/**
 * Bring all rates up to date.
 * @param flows_out flows whose rate may have changed, each once, among them all that were added;
 *        valid until the next call. Those that were removed meanwhile are not there.
 * @return how many
 */
uint32_t shoali_share_solve(shoali_sharing *share, const uint32_t **flows_out);
/** Rate of a flow on its most loaded link, as of the last solve. */
double shoali_share_rate(const shoali_sharing *share, uint32_t flow);

#endif
