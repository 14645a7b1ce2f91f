/* SPDX-License-Identifier: Apache-2.0 */
/* Links in virtual time. A coflow is one operation: it loads some links with some bytes each and
 * moves on all of them in step. Coflows share links max-min: all get the same rate (on their most
 * loaded link) until a link is full; the others share what is left. Two single flows on one link
 * get half of it each, as two TCP connections do.
 *
 * Time is integer nanoseconds; a coflow ends at the first nanosecond at which all is through. */
#ifndef SHOALI_DRIVER_SIM_NET_H
#define SHOALI_DRIVER_SIM_NET_H

#include "driver/sim_share.h"

typedef struct shoali_links shoali_links;

/** bytes_per_ns[i] >= 0: the rate of link i, 0: nothing passes. Copied. NULL: no memory. */
shoali_links *shoali_links_create(const double *bytes_per_ns, uint32_t links);
void shoali_links_destroy(shoali_links *net);

/** Begin a coflow. loads (one entry a link at most) stay valid until it is done or cancelled. */
SHOAL_MUST_USE shoal_status shoali_links_start(shoali_links *net, uint64_t now_ns,
                                               const shoali_load *loads, uint32_t count,
                                               uint32_t cookie);
/** Take a coflow back; false: there is none with this cookie. */
bool shoali_links_cancel(shoali_links *net, uint64_t now_ns, uint32_t cookie);
/** Let a coflow stand still, or go on. */
SHOAL_MUST_USE shoal_status shoali_links_pause(shoali_links *net, uint64_t now_ns, uint32_t cookie,
                                               bool pause);
/** Let a coflow that has begun take until that moment: at any time it moves no faster than it needs
 * to, and as fast as it can behind the moment, which may be now. */
SHOAL_MUST_USE shoal_status shoali_links_pace(shoali_links *net, uint64_t now_ns, uint32_t cookie,
                                              uint64_t until_ns);
/** A link has another rate from now on. */
void shoali_links_rate(shoali_links *net, uint64_t now_ns, uint32_t link, double bytes_per_ns);
/** When the next coflow ends, or may have to move faster; UINT64_MAX: none does. */
uint64_t shoali_links_next_ns(shoali_links *net);
/** One coflow that has ended by now_ns (those of one moment in order of their starts); false: none.
 */
bool shoali_links_finished(shoali_links *net, uint64_t now_ns, uint32_t *cookie_out);
/** Bytes carried so far by a link, of ended coflows. */
uint64_t shoali_links_carried_bytes(const shoali_links *net, uint32_t link);

#endif
