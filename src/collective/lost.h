/* SPDX-License-Identifier: Apache-2.0 */
/* What lost packets cost a collective over streams such as TCP's, beyond the part of the rate that
 * carries them twice. Constants are the kernel's, none is fitted (docs/predict.md):
 *
 *     inside a message  all wait for the link that loses most in a round; and who loses one of the
 *                       last packets of a window waits a round trip, in which its window lies in
 *                       the queue, for it to come again
 *     at its end        nothing follows that would show that the last packet is lost: the timer of
 *                       200 ms does, and doubles; unless the next round goes the same way
 *     on long ways      a window that losses keep at sqrt(3 / (2 loss)) packets does not fill the
 *                       link */
#ifndef SHOALI_COLLECTIVE_LOST_H
#define SHOALI_COLLECTIVE_LOST_H

#include "collective/schedule.h"

/** Messages of a schedule that can be lost, of all members, by round. */
typedef struct shoali_lost {
    double loss, latency_s;     /* the largest of any way */
    uint32_t rounds, size;      /* of the schedule, of its members */
    uint32_t *messages, *tails; /* [rounds]; tails: whose way the next round does not go */
    uint16_t *last;             /* [size] */
} shoali_lost;

/** The way of a member's message; false: nothing is lost there. */
typedef struct shoali_lost_way {
    bool (*ask)(void *ctx, uint32_t peer, double *loss_out, double *latency_out);
    void *ctx;
} shoali_lost_way;

/** Room for so many rounds, from the arena. */
SHOAL_MUST_USE shoal_status shoali_lost_open(shoali_lost *lost, shoal_arena *arena, uint32_t rounds,
                                             uint32_t size);
/** Count one member's list, `times` members that have the same. */
void shoali_lost_count(shoali_lost *lost, const shoal_schedule *schedule, shoali_lost_way way,
                       uint32_t times);
/** Messages of a round, on average of those that have any; and how many these are. */
double shoali_lost_messages(const shoali_lost *lost, uint32_t *rounds_out);

/** The rounds of a schedule as links see them. */
typedef struct shoali_lost_load {
    double loss, latency_s;
    double packets;  /* of the busiest link, in all rounds */
    double packet_s; /* one of them on it */
    double links;    /* as busy as that one */
    double messages; /* on their ways at once */
    double rounds, chunks;
} shoali_lost_load;

/** Seconds on top of what the busiest link takes, lost packets' second way included there. */
double shoali_lost_rounds_s(const shoali_lost_load *load);
/** What the last packets of so many messages cost who waits for all: on average, and where a number
 * between 0 and 1 is drawn. */
double shoali_lost_tails_s(double loss, double latency_s, double messages);
double shoali_lost_draw_s(double loss, double latency_s, double messages, double drawn);

/** Payload of a packet of an Ethernet frame, with TCP's timestamps. */
#define SHOALI_PACKET_BYTES 1448.0

#endif
