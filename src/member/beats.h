/* SPDX-License-Identifier: Apache-2.0 */
/* Who tells whom that it is alive, and how often. Pure.
 *
 * Among a few members everybody tells everybody at each beat. With N members that is N (N - 1)
 * frames per beat, and on one machine the beats alone take all of it at about a hundred. So beyond
 * 32 members a member has three watchers that hear it at each beat, and tells the others in turn:
 * a part of them per beat, everyone within at most eight beats. What a rank sends for being alive
 * then stays the same from 32 to 256 members, and beyond grows with an eighth of them.
 *
 * Nobody is believed about a third one. Who misses one that it watches says so to all, and they
 * then have no more patience with that one than a watcher has; but each goes by what it has itself
 * heard, which is never older than eight beats, less than the peer timeout. Without such news a
 * member that is told in turn waits for as much longer as a turn lasts.
 *
 * The watchers of a member are far apart from it and from each other, as neighbours tend to
 * share a host and its end. Where a job may change its members all are told at each beat, however
 * many there are: there a beat is the word that a proof of death rests on (life.h). */
#ifndef SHOALI_MEMBER_BEATS_H
#define SHOALI_MEMBER_BEATS_H

#include <stdbool.h>
#include <stdint.h>

enum { SHOALI_BEATS_PER_TIMEOUT = 10 };

/** Whether `me` hears the other at each beat. */
bool shoali_beats_watches(uint32_t me, uint32_t other, uint32_t size);
/** Whether `me` tells the other at its beat number `beat`, the one before having been `last`. */
bool shoali_beats_due(uint32_t me, uint32_t other, uint32_t size, uint64_t last, uint64_t beat);
/** The longest silence between two beats, of one that has others to tell in between. */
uint64_t shoali_beats_turn_us(uint32_t size, uint64_t peer_timeout_us);

#endif
