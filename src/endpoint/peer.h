/* SPDX-License-Identifier: Apache-2.0 */
/* Another endpoint, as this one sees it: is it there, what did it say last, what is on its way to
 * it. */
#ifndef SHOALI_ENDPOINT_PEER_H
#define SHOALI_ENDPOINT_PEER_H

#include <stdatomic.h>

#include "meet/door.h"
#include "meet/meet.h"
#include "shoal/shoal.h"
#include "transport/fault.h"
#include "transport/transport.h"
#include "wire/control.h"
#include "wire/member.h"

/** A transport in use. row NULL: none. */
typedef struct shoali_link {
    shoal_comm *comm;
    const shoali_transport_row *row; /* what is used: kind, or the fault decorator in front of it */
    const shoali_transport_row *kind;
    void *state, *params;       /* of row; of kind */
    shoali_fault_params *fault; /* NULL: none */
    bool open;
} shoali_link;

typedef struct shoali_transports {
    shoali_link control, near; /* near: to those on the same host, beside the first */
} shoali_transports;

enum { SHOALI_LOST_TEXT_BYTES = 400 };

enum { SHOALI_PEER_HERE, SHOALI_PEER_LEFT, SHOALI_PEER_LOST };

typedef struct shoali_peer {
    /* A look at each of many peers per beat shall cost a line of memory each. */
    _Alignas(64) uint64_t heard_us;
    uint64_t asked_us;         /* it was asked, and has not been heard since; 0: it was not */
    uint64_t word_us, said_us; /* its last word, the last to it: member/life.h */
    uint64_t left_us;
    _Atomic uint32_t
        state;          /* SHOALI_PEER_*; lost_text and lost_status are constant once it is LOST */
    uint32_t via;       /* constant: the relay to it, SHOALI_NONE: a cable */
    bool up;            /* the control connection stands */
    bool near, near_up; /* added to the same-host transport; and connected there */
    bool missed;        /* a watcher of it says so, and it has not been heard since */
    bool asks;          /* it wants to hear something at once */
    bool gone;          /* a transport said so; handled at the end of the round */
    bool link_broke;    /* one of several, with what was on its way; handled as gone is */
    bool settled;       /* LEFT: its operations have ended */
    char host[SHOALI_RECORD_HOST_BYTES]; /* constant */
    uint32_t links;                      /* constant: that both share */
    shoali_link *data;                   /* constant after the join */
    shoal_status lost_status;
    uint64_t lost_us;
    char lost_text[SHOALI_LOST_TEXT_BYTES];
    _Atomic uint32_t death;                 /* shoali_death, once it is LOST */
    bool leaving, moved;                    /* HERE or LEFT: it reforms; it is in the next epoch */
    bool said_ready;                        /* READY, of an epoch that is to begin */
    uint64_t incarnation;                   /* constant after the join */
    char door[SHOALI_DOOR_BYTES];           /* lock */
    char link_text[SHOALI_LOST_TEXT_BYTES]; /* of the last link that is not used any more, or "" */
    uint64_t link_us;                       /* since when */
    shoal_status gone_status;
    char gone_text[SHOALI_LOST_TEXT_BYTES];
    shoali_heartbeat doing; /* what it said last, and when */
    uint64_t doing_us;
    uint32_t flights; /* in the transport's hands */
    uint32_t waiting_first, waiting_last;
} shoali_peer;

/** A sign of life. */
void shoali_peer_heard(shoal_comm *comm, uint32_t endpoint);
/** A transport, or silence, says that it is gone. Acted upon at the end of the round, outside of
 * its calls. why OK: it said goodbye. */
void shoali_peer_gone(shoal_comm *comm, uint32_t endpoint, shoal_status why, const char *text);

#endif
