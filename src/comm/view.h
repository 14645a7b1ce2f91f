/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: signs of life, losses, and whether this rank is among those that go on. */
#ifndef SHOALI_COMM_VIEW_H
#define SHOALI_COMM_VIEW_H

#include <stdatomic.h>

#include "shoal/shoal.h"
#include "wire/control.h"
#include "wire/member.h"

/** The progress thread's, of all peers together; peer.h is what is kept of each. */
typedef struct shoali_liveness {
    bool joined; /* every connection stands */
    uint64_t next_beat_us, beats;
    uint64_t beat_cpu_us;       /* of this thread's processor time, at the last beat */
    _Atomic uint64_t paused_us; /* in pauses of SHOALI_PAUSE_US and more, since the beginning */
    uint64_t pauses;            /* so many */
    bool peers_changed;         /* some peer is gone or has left */
    bool look_for_missed;       /* some peer's `missed` is new */
    uint64_t deaf_us;           /* until then nothing is a word: member/life.h */
    uint64_t outdated_us; /* until then a lost peer means that the others gave this rank up: */
    uint64_t stood_us;    /* it stood still for so long, beyond the peer timeout */
    uint64_t minority_us; /* since when this rank reaches no quorum; 0: it does */
    bool minority_told;   /* the listener has heard so */
    bool expelled;        /* the others go on without this rank: it says no goodbye */
} shoali_liveness;

void shoali_view_heard(shoal_comm *comm, uint32_t endpoint);
void shoali_view_gone(shoal_comm *comm, uint32_t endpoint, shoal_status why, const char *text);
/** One of several links to it is not used any more. lost: what was on its way there may be. */
void shoali_view_link_down(shoal_comm *comm, uint32_t endpoint, bool lost, const char *text);
void shoali_view_heartbeat(shoal_comm *comm, uint32_t endpoint, const shoali_heartbeat *beat);
/** Another endpoint misses one that it watches. */
void shoali_view_missed(shoal_comm *comm, const shoali_missed *missed);
/** The join is over: from here on silence counts. */
void shoali_view_begin(shoal_comm *comm);
void shoali_view_timers(shoal_comm *comm);
/** Look whether the process behind an endpoint has certainly ended, for peer->ended. */
void shoali_view_look(shoal_comm *comm, uint32_t endpoint);
uint64_t shoali_view_next_us(const shoal_comm *comm);
enum { SHOALI_PAUSE_US = 200 * 1000 }; /* so late is no busy machine's scheduler any more */
/** Lateness of this thread is no silence of others. */
void shoali_view_late(shoal_comm *comm, uint64_t late_us);
/** "; it was last doing all-reduce 7 (...) for 0.4 s" or "". */
void shoali_view_doing(const shoal_comm *comm, uint32_t endpoint, char *text, size_t text_bytes);

#endif
