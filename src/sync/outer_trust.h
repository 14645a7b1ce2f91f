/* SPDX-License-Identifier: Apache-2.0 */
/* diloco's `trust=median`: in place of one sum each member's update goes to all others as a
 * broadcast of its own, and everybody judges all of them (trust.h): a sum has no parts to look at.
 * What a codec leaves out of an update comes with the next one, as with error feedback. */
#ifndef SHOALI_SYNC_OUTER_TRUST_H
#define SHOALI_SYNC_OUTER_TRUST_H

#include "sync/outer.h"

/** Slots beside outer's own: what codecs left, and an update of each worker. */
uint32_t shoali_outer_trust_slots(const shoali_world *world);
/** MOVED is what this worker has moved: what was left of the last ones comes on top. */
void shoali_outer_trust_moved(const shoali_outer *outer, shoali_actions *actions);
/** A broadcast from each member of the call. */
void shoali_outer_trust_send(shoali_outer *outer, const shoali_call *call, shoali_actions *actions);
/** A worker's codec has no code for what is not finite: its broadcast failed so for all, who then
 *  have that in its place. */
void shoali_outer_trust_spoil(const shoali_outer *outer, uint64_t id, shoali_actions *actions);
/** All are there: MOVED becomes the sum of those that can be trusted. */
void shoali_outer_trust_judge(const shoali_outer *outer, shoali_actions *actions);
/** A word to all its broadcasts. */
void shoali_outer_trust_tell(const shoali_outer *outer, shoali_outer_word word,
                             shoali_actions *actions);
/** The id of a call, of an operation that may be one of its broadcasts. */
uint64_t shoali_outer_trust_base(uint64_t id);

#endif
