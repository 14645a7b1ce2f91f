/* SPDX-License-Identifier: Apache-2.0 */
/* Who tells whom that it is alive, and how often. Pure.
 *
 * Among a few members everybody tells everybody at each beat. With N members that is N (N - 1)
 * frames per beat, and on one machine the beats alone take all of it at about a hundred. So beyond
 * 32 members a member has three watchers that hear it at each beat, and tells the others in turn:
 * a part of them per beat, everyone within at most eight beats while it works, within 128 while it
 * has nothing to do with the others. What a rank that works sends for being alive then stays the
 * same from 32 to 256 members, and beyond grows with an eighth of them.
 *
 * Nobody is believed alone about a third one. Who has missed one that it watches for half of the
 * peer timeout asks it, and tells all to ask it; whoever is asked says something at once. After the
 * whole timeout the watcher tells all that it has lost it: who has no answer by then, and has heard
 * nothing for the timeout, loses it, too. Who works and has not heard another one for more than a
 * turn asks by itself, and waits for the whole timeout. Only who does neither, hears of no watcher
 * and is not told either waits for as much longer as a rare turn lasts.
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
/** Whether `me` tells the other at its beat number `beat`, the one before having been `last`.
 * works: it is in an operation, or was within the peer timeout. */
bool shoali_beats_due(uint32_t me, uint32_t other, uint32_t size, bool works, uint64_t last,
                      uint64_t beat);
/** The longest silence between two beats, of one that has others to tell in between. */
uint64_t shoali_beats_turn_us(uint32_t size, bool works, uint64_t peer_timeout_us);

/** What a member knows of another one that it does not hear. */
typedef struct shoali_silence {
    bool watches;       /* it hears it at each beat */
    bool asked, missed; /* it has asked it since; a watcher says that it has lost it */
    uint64_t silent_us; /* since its last sign of life */
    uint64_t asked_us;  /* since it asked */
} shoali_silence;
/** Whether it is time to ask; works: the one that asks. */
bool shoali_beats_asks(const shoali_silence *s, uint32_t size, bool works,
                       uint64_t peer_timeout_us);
/** Whether a member that is told to ask one does: it has not just heard it, nor asked before. */
bool shoali_beats_asks_too(const shoali_silence *s, uint64_t peer_timeout_us);
/** Whether it is lost. */
bool shoali_beats_lost(const shoali_silence *s, uint32_t size, uint64_t peer_timeout_us);

#endif
