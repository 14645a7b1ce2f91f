/* SPDX-License-Identifier: Apache-2.0 */
/* How rank 0 invites the daemons (`shoal aggregator`) that become endpoints of its job. */
#ifndef SHOALI_MEET_INVITE_H
#define SHOALI_MEET_INVITE_H

#include "meet/meet.h"

/** A job's name is in the invitation; before it, both ends shake hands under this one. */
#define SHOALI_INVITE_JOB "shoal aggregator"

/** How many addresses "host:port,host:port" names; EINVAL: malformed. */
SHOAL_MUST_USE shoal_status shoali_invite_count(const char *list, uint32_t *count_out);

/** Invite all of them to the meeting's job; blocks. invite: all but index, job and place, which are
 * filled in here. */
SHOAL_MUST_USE shoal_status shoali_invite_all(const char *list, const shoali_meeting *meeting,
                                              shoali_invite *invite);

#endif
