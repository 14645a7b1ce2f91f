/* SPDX-License-Identifier: Apache-2.0 */
/* Those who have connected to one of our listeners. Strangers, who have not yet said who they are,
 * are bounded in number and time, and the oldest makes room: a listener that stops accepting when
 * it is full would be closed to its own ranks by anybody who can reach it. Whoever has sent nothing
 * at all goes first, as our own ranks speak at once.
 *
 * Owned by one thread, which polls. */
#ifndef SHOALI_MEET_VISITORS_H
#define SHOALI_MEET_VISITORS_H

#include <poll.h>

#include "meet/net.h"
#include "meet/stream.h"

enum {
    SHOALI_STRANGERS = 256,          /* and as many as can be known: our own may all come at once */
    SHOALI_STRANGER_US = 1000 * 1000 /* one may take so long to prove the token */
};

/** The first member of what an owner keeps of each. */
typedef struct shoali_visitor {
    shoali_meet_stream stream;
    char from[SHOALI_MEET_FROM_BYTES]; /* "10.0.0.7:40123" */
    uint64_t since_us;
    bool known; /* the owner's: it has said who it is */
} shoali_visitor;

typedef struct shoali_visitors {
    const shoali_meeting *meeting; /* for handshakes; the owner's */
    size_t each_bytes;             /* of what begins with a visitor */
    uint32_t count, limit;         /* limit: of those who are known */
    shoali_visitor **all;          /* [shoali_visitors_room] */
    uint64_t turned_away;          /* strangers that made room */
    bool exhausted;                /* no descriptor was left: for one round nobody is accepted */
    void (*forget)(shoali_visitor *visitor); /* of what the owner keeps of each; NULL: nothing */
} shoali_visitors;

/** @param limit how many can be known; the owner drops those beyond. */
SHOAL_MUST_USE shoal_status shoali_visitors_open(const shoali_meeting *meeting, size_t each_bytes,
                                                 uint32_t limit, shoali_visitors *out);
/** Hang up on all. Allowed where open failed, and twice. */
void shoali_visitors_close(shoali_visitors *visitors);

/** Entries that shoali_visitors_want can fill. */
static inline uint32_t shoali_visitors_room(const shoali_visitors *visitors)
{
    return 2 * visitors->limit + SHOALI_STRANGERS + 1;
}
/** What to poll for: polls[i] is visitor i's. */
void shoali_visitors_want(const shoali_visitors *visitors, struct pollfd *polls);
/** What to poll a listener for. */
struct pollfd shoali_visitors_listen(shoali_visitors *visitors, int listener);

/** Take in some of those who wait. @param wanted is asked about each, NULL: all are */
void shoali_visitors_accept(shoali_visitors *visitors, int listener,
                            bool (*wanted)(void *ctx, int fd), void *ctx);
/** How many are known. */
uint32_t shoali_visitors_known(const shoali_visitors *visitors);
/** Hang up; the last one takes its index. */
void shoali_visitors_drop(shoali_visitors *visitors, uint32_t index);
/** ETIMEDOUT, with text: it has not proved itself in time. */
SHOAL_MUST_USE shoal_status shoali_visitor_in_time(const shoali_visitor *visitor, uint64_t now_us);

#endif
