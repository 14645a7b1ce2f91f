/* SPDX-License-Identifier: Apache-2.0 */
/* Another endpoint, as this one sees it: is it there, what did it say last, what is on its way to
 * it. */
#ifndef SHOALI_COMM_PEER_H
#define SHOALI_COMM_PEER_H

#include <stdatomic.h>

#include "comm/link.h"
#include "meet/door.h"
#include "meet/meet.h"
#include "wire/control.h"
#include "wire/member.h"

enum { SHOALI_LOST_TEXT_BYTES = 400 };

enum { SHOALI_PEER_HERE, SHOALI_PEER_LEFT, SHOALI_PEER_LOST };

typedef struct shoali_peer {
    char host[SHOALI_RECORD_HOST_BYTES]; /* constant */
    uint32_t via;                        /* constant: the relay to it, SHOALI_NONE: a cable */
    uint32_t links;                      /* constant: that both share */
    shoali_link *data;                   /* constant after the join */
    bool up;                             /* the control connection stands */
    bool near, near_up;                  /* added to the same-host transport; and connected there */
    _Atomic uint32_t
        state; /* SHOALI_PEER_*; lost_text and lost_status are constant once it is LOST */
    shoal_status lost_status;
    uint64_t lost_us;
    char lost_text[SHOALI_LOST_TEXT_BYTES];
    _Atomic uint32_t death;       /* shoali_death, once it is LOST */
    bool leaving, moved;          /* HERE or LEFT: it reforms; it is in the next epoch */
    bool said_ready;              /* READY, of an epoch that is to begin */
    uint64_t word_us, said_us;    /* its last word, the last to it: member/life.h */
    uint64_t incarnation;         /* constant after the join */
    char door[SHOALI_DOOR_BYTES]; /* lock */
    bool link_broke;              /* one of several, with what was on its way; handled as gone is */
    char link_text[SHOALI_LOST_TEXT_BYTES]; /* of the last link that is not used any more, or "" */
    uint64_t link_us;                       /* since when */
    bool gone; /* a transport said so; handled at the end of the round */
    shoal_status gone_status;
    char gone_text[SHOALI_LOST_TEXT_BYTES];
    bool settled; /* LEFT: its operations have ended */
    uint64_t left_us, heard_us;
    bool missed;            /* a watcher of it says so, and it has not been heard since */
    shoali_heartbeat doing; /* what it said last, and when */
    uint64_t doing_us;
    uint32_t flights; /* in the transport's hands */
    uint32_t waiting_first, waiting_last;
} shoali_peer;

/* view.c: who is there. */
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
enum { SHOALI_LATE_US = 50 * 1000 };   /* a round may take that long, no longer */
enum { SHOALI_PAUSE_US = 200 * 1000 }; /* so late is no busy machine's scheduler any more */
/** Lateness of this thread is no silence of others. */
void shoali_view_late(shoal_comm *comm, uint64_t late_us);
/** "; it was last doing all-reduce 7 (...) for 0.4 s" or "". */
void shoali_view_doing(const shoal_comm *comm, uint32_t endpoint, char *text, size_t text_bytes);

#endif
