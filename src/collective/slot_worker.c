/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's half. Everything that a contribution says is in the slot's state and in the buffer,
 * where a block stays as it was until its sum has come: a repetition is the same bytes again.
 *
 * Its timers: most round trips may be long because a packet was lost, at this worker or another,
 * so a mean of them would grow without end. A lower quartile does not, up to 5 % loss; a slot's
 * first patience is four times that. It is a last resort: the aggregator tells most losses sooner,
 * and a probe that comes too early costs a second copy of a result that is on its way. (1.25 times:
 * 24 % more time at 1 % loss; twice: 7 to 10 %; four times: 3 %.) Where nearly every round has lost
 * something, the quartile holds waits, and waits that follow it would grow without end, too (438 s
 * instead of 6 s in the test, at 30 %). A probe's answer takes a round trip whatever others lose:
 * its median bounds the first patience, and is what is waited for from then on. Waits double only
 * after a few of one length, since with a third of all packets lost half of all probes stay
 * unanswered; and a probe of one worker makes the aggregator tell the others that are missing
 * (slot_aggregator.c). With 8 workers, round trips of 2 ms and 30 % loss, in virtual time: 2.5 s
 * before all of that, 0.6 s with it.
 *
 * Where many contributions are lost (the aggregator says so of each: what is only late does not
 * count) nearly every round waits for somebody's timer, and patience is all that it takes: it falls
 * to little more than a round trip. 0.25 s then, 0.06 at 1 %.
 *
 * Links have rates, and queues that grow with what is asked: waits that stay below what a queue
 * takes ask again and again, each answer is a whole result, and the queue grows (at 50 Mbit/s and
 * 30 % loss 84 s and 9.7 million packets where 1 % takes 0.14 s and 7 thousand). So results that
 * come a third time lengthen all waits, once in each, by half; and nobody sends again what it has
 * sent, or asks again for what it has asked for, within a round trip, whoever wants it. 0.7 s. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "collective/slot.h"
#include "kernel/kernel.h"

enum {
    FIRST_RTT_US = 20 * 1000,
    SLACK_US = 5 * 1000, /* threads sleep for whole milliseconds */
    ECHOES = 4,          /* the longest first patience, in round trips of a probe */
    HASTY_SLACK_US = 500,
    EARLY_MOST_US = 1000 * 1000,
    OFTEN = 2,        /* a result again: once it may have crossed a probe for the sake of others */
    LOST_MEMORY = 16, /* rounds */
    PATIENT = 3,      /* waits of one length, then they double: a packet in three may be lost */
    DOUBLINGS = 3     /* of a wait: of others, or of an aggregator that says nothing */
};
static const double FEW_LOST = 0.05, MANY_LOST = 0.2, HASTY_ECHOES = 1.1, EARLIER = 1.5,
                    LATER = 0.95;

shoal_status shoali_slot_worker_init(shoali_slot_worker *w, const shoali_slot_share *share,
                                     float *x, uint32_t me, shoal_arena *arena)
{
    *w = (shoali_slot_worker){.share = *share,
                              .x = x,
                              .me = me,
                              .open = share->slots,
                              .rtt_us = FIRST_RTT_US,
                              .echo_us = FIRST_RTT_US,
                              .wake_us = UINT64_MAX,
                              .not_finite = SIZE_MAX};
    w->slots = shoali_arena_array(arena, share->slots, sizeof *w->slots);
    return w->slots != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* ------------------------------------------------------------------ blocks */

static size_t elems_of(const shoali_slot_share *s, uint32_t block)
{
    const size_t left = s->count - (size_t)block * s->block;
    return left < s->block ? left : s->block;
}

static float *at(const shoali_slot_worker *w, uint32_t block)
{
    return w->x + (size_t)block * w->share.block;
}

static void prepare(const shoali_slot_worker *w, uint32_t block)
{
    if (w->prepare != NULL)
        w->prepare(w->prepare_ctx, at(w, block), elems_of(&w->share, block));
}

/* The column's next block, from `from` on, that is not zero; those that only equal zero become it,
 * or they would differ among workers in the sign. */
static uint32_t look_ahead(shoali_slot_worker *w, uint64_t from)
{
    const shoali_slot_share *s = &w->share;
    for (uint64_t b = from; b < s->blocks; b += s->slots) {
        const size_t n = elems_of(s, (uint32_t)b);
        prepare(w, (uint32_t)b);
        const uint32_t bits = shoali_kernel()->or_bits(at(w, (uint32_t)b), n);
        if (bits << 1 != 0)
            return (uint32_t)b;
        if (bits != 0)
            memset(at(w, (uint32_t)b), 0, n * sizeof(float));
    }
    return SHOALI_PACKET_NONE;
}

static void set_next(shoali_slot_worker *w, shoali_slot_sender *s, uint32_t next)
{
    s->next = next;
    s->ahead = SHOALI_EXPONENT_ZERO;
    if (next == SHOALI_PACKET_NONE)
        return;
    const size_t n = elems_of(&w->share, next);
    if (!w->share.sparse)
        prepare(w, next); /* else looking ahead did */
    s->ahead = shoali_slot_exponent(at(w, next), n);
    if (s->ahead == SHOALI_EXPONENT_NOT_FINITE) {
        const size_t bad = (size_t)next * w->share.block +
                           shoali_kernel()->first_nonfinite(at(w, next), n);
        if (bad < w->not_finite)
            w->not_finite = bad;
    }
}

/* ------------------------------------------------------------------ timers */

/* From 0 while few contributions are lost to 1 where every fifth is: then a probe that comes too
 * early costs little beside all that is lost anyway. */
static double haste(const shoali_slot_worker *w)
{
    const double over = (w->lost - FEW_LOST) / (MANY_LOST - FEW_LOST);
    return over < 0 ? 0 : over > 1 ? 1 : over;
}

static double less(const shoali_slot_worker *w, double patient, double hasty)
{
    return patient + haste(w) * (hasty - patient);
}

static double slack_us(const shoali_slot_worker *w, double patient_us)
{
    const double usual_us = less(w, patient_us, HASTY_SLACK_US);
    return usual_us > w->early_us ? usual_us : w->early_us;
}

uint64_t shoali_slot_worker_patience_us(const shoali_slot_worker *w)
{
    const double most_us = less(w, ECHOES, HASTY_ECHOES) * w->echo_us,
                 usual_us = less(w, 4, HASTY_ECHOES) * w->rtt_us;
    return (uint64_t)((usual_us < most_us ? usual_us : most_us) + slack_us(w, SLACK_US));
}

/* How long what was just sent need not be sent again. */
static uint64_t on_its_way_us(const shoali_slot_worker *w)
{
    return (uint64_t)(w->echo_us + w->early_us);
}

/* A result that was here: it was on its way when it was asked for again. */
static void came_often(shoali_slot_worker *w, uint64_t now_us)
{
    if (now_us < w->raised_us + shoali_slot_worker_patience_us(w))
        return; /* asked for before it grew */
    w->raised_us = now_us;
    w->early_us = EARLIER * (w->early_us > HASTY_SLACK_US ? w->early_us : HASTY_SLACK_US);
    if (w->early_us > EARLY_MOST_US)
        w->early_us = EARLY_MOST_US;
}

static void arm(shoali_slot_worker *w, shoali_slot_sender *s, uint64_t due_us)
{
    s->due_us = due_us;
    if (s->due_us < w->wake_us)
        w->wake_us = s->due_us;
}

/* The n-th wait in a row, from 0 on. */
static uint64_t doubled_us(uint64_t wait_us, uint32_t n)
{
    const uint32_t doublings = n < PATIENT ? 0 : n - PATIENT;
    return wait_us << (doublings < DOUBLINGS ? doublings : DOUBLINGS);
}

/* How long what was just sent may stay unanswered: nobody else's losses delay the aggregator. */
static uint64_t answer_us(const shoali_slot_worker *w, const shoali_slot_sender *s)
{
    const double echo_us = w->echo_us < w->rtt_us ? w->echo_us : w->rtt_us;
    return doubled_us((uint64_t)(less(w, 2, HASTY_ECHOES) * echo_us + slack_us(w, SLACK_US / 2)),
                      s->unanswered);
}

/* A quarter of all steps goes down, three quarters of them up by a third as much. */
static void measure(shoali_slot_worker *w, double round_trip_us)
{
    w->rtt_us *= round_trip_us > w->rtt_us ? 1.025 : 0.925;
}

/* The answer to the only probe since the aggregator spoke of the slot, as to what is sent twice
 * nobody knows which was answered: half of all steps go up. */
static void hear_echo(shoali_slot_worker *w, const shoali_slot_sender *s, uint64_t now_us)
{
    const double echo_us = (double)(now_us - s->probed_us);
    if (s->unanswered != 1)
        return;
    if (!w->echoed)
        w->echo_us = echo_us < w->echo_us ? echo_us : w->echo_us;
    else
        w->echo_us *= echo_us > w->echo_us ? 1.1 : echo_us > w->echo_us / 4 ? 1 / 1.1 : 0.5;
    w->echoed = true;
}

static void send_anew(shoali_slot_worker *w, shoali_slot_sender *s, uint64_t now_us)
{
    s->others = s->unanswered = 0;
    s->lost = false;
    s->resent_us = 0;
    s->again = 0;
    s->timed = s->round > 0; /* the first shows when the others enter, not how far they are */
    s->missing = SHOALI_PACKET_NONE;
    s->sent_us = now_us;
    arm(w, s, now_us + shoali_slot_worker_patience_us(w));
}

uint32_t shoali_slot_worker_due(shoali_slot_worker *w, uint64_t now_us)
{
    if (now_us < w->wake_us)
        return SHOALI_PACKET_NONE;
    w->wake_us = UINT64_MAX;
    for (uint32_t i = 0; i < w->share.slots; i++) {
        shoali_slot_sender *s = &w->slots[i];
        if (s->finished)
            continue;
        if (s->due_us <= now_us) {
            s->probed_us = now_us;
            arm(w, s, now_us + answer_us(w, s));
            w->wake_us = now_us; /* others may be due as well */
            s->unanswered += s->unanswered < UINT8_MAX;
            return i;
        }
        if (s->due_us < w->wake_us)
            w->wake_us = s->due_us;
    }
    return SHOALI_PACKET_NONE;
}

uint64_t shoali_slot_worker_wake_us(const shoali_slot_worker *w)
{
    return w->open > 0 ? w->wake_us : UINT64_MAX;
}

/* ------------------------------------------------------------------ packets out */

void shoali_slot_worker_begin(shoali_slot_worker *w, uint64_t now_us)
{
    for (uint32_t i = 0; i < w->share.slots; i++) {
        shoali_slot_sender *s = &w->slots[i];
        *s = (shoali_slot_sender){.block = SHOALI_PACKET_NONE};
        set_next(w, s, w->share.sparse ? look_ahead(w, i) : i);
        send_anew(w, s, now_us);
    }
}

static void head_of(const shoali_slot_worker *w, uint32_t slot, uint8_t kind, uint8_t *out)
{
    const shoali_slot_sender *s = &w->slots[slot];
    const shoali_packet head = {.kind = kind,
                                .worker = (uint8_t)w->me,
                                .slot = (uint16_t)slot,
                                .exponent = s->ahead,
                                .key = w->share.key,
                                .round = s->round,
                                .next = s->next};
    shoali_packet_encode(&head, out);
}

size_t shoali_slot_worker_contribution(shoali_slot_worker *w, uint32_t slot, uint8_t *out)
{
    const shoali_slot_sender *s = &w->slots[slot];
    head_of(w, slot, SHOALI_PACKET_CONTRIBUTION, out);
    if (!s->owns)
        return SHOALI_PACKET_BYTES;
    const size_t n = elems_of(&w->share, s->block);
    uint8_t *values = out + SHOALI_PACKET_BYTES;
    shoali_slot_quantise(at(w, s->block), n, shoali_slot_share_scale(&w->share, s->exponent),
                         values);
    memset(values + 4 * n, 0, 4 * (w->share.block - n));
    return SHOALI_PACKET_BYTES + 4 * (size_t)w->share.block;
}

size_t shoali_slot_worker_probe(shoali_slot_worker *w, uint32_t slot, uint8_t *out)
{
    w->probes++;
    head_of(w, slot, SHOALI_PACKET_PROBE, out);
    return SHOALI_PACKET_BYTES;
}

/* ------------------------------------------------------------------ packets in */

/* The sum of the slot's block. */
static void store(shoali_slot_worker *w, const shoali_slot_sender *s, const uint8_t *values,
                  uint32_t count)
{
    if (s->block == SHOALI_PACKET_NONE)
        return;
    const size_t n = elems_of(&w->share, s->block);
    float *x = at(w, s->block);
    if (s->exponent == SHOALI_EXPONENT_NOT_FINITE) {
        w->sum_not_finite = true;
        for (size_t i = 0; i < n; i++)
            x[i] = NAN;
    } else if (count == 0) {
        memset(x, 0, n * sizeof *x);
    } else {
        shoali_slot_dequantise(values, n, shoali_slot_share_scale(&w->share, s->exponent), x);
    }
}

/* Can this be the result that the slot waits for? */
static bool possible(const shoali_slot_worker *w, const shoali_slot_sender *s, uint32_t slot,
                     const shoali_packet *head, uint32_t count)
{
    const shoali_slot_share *share = &w->share;
    if (head->round != s->round ||
        (count != 0 && (count != share->block || s->block == SHOALI_PACKET_NONE ||
                        shoali_slot_scale(s->exponent, share->workers) == 0)))
        return false;
    if (share->sparse) /* at most this worker's own next, and of this column */
        return head->next <= s->next && (head->next != s->next || head->exponent >= s->ahead) &&
               (head->next == SHOALI_PACKET_NONE ||
                (head->next < share->blocks && head->next % share->slots == slot &&
                 (s->block == SHOALI_PACKET_NONE || head->next > s->block)));
    return head->exponent >= s->ahead && /* next is the one after this worker's next */
           (head->next == SHOALI_PACKET_NONE ||
            (head->next < share->blocks && s->next != SHOALI_PACKET_NONE));
}

static shoali_slot_verdict take_result(shoali_slot_worker *w, const shoali_packet *head,
                                       const uint8_t *values, uint32_t count, uint64_t now_us)
{
    shoali_slot_sender *s = &w->slots[head->slot];
    if (!possible(w, s, head->slot, head, count))
        return SHOALI_SLOT_IGNORED;
    store(w, s, values, count);
    if (s->timed)
        measure(w, (double)(now_us - s->sent_us));
    w->lost += ((s->lost ? 1 : 0) - w->lost) / LOST_MEMORY;
    w->early_us *= LATER;
    const uint32_t next = w->share.sparse ? head->next : s->next;
    if (next == SHOALI_PACKET_NONE) {
        s->finished = true;
        w->open--;
        return SHOALI_SLOT_TAKEN;
    }
    const bool mine = next == s->next;
    s->round++;
    s->block = next;
    s->exponent = head->exponent;
    s->owns = mine && s->ahead != SHOALI_EXPONENT_ZERO &&
              head->exponent != SHOALI_EXPONENT_NOT_FINITE;
    if (!w->share.sparse)
        set_next(w, s, head->next);
    else if (mine)
        set_next(w, s, look_ahead(w, (uint64_t)next + w->share.slots));
    send_anew(w, s, now_us);
    return SHOALI_SLOT_SEND;
}

/* The round is not complete: because of this worker, or of whom? */
static shoali_slot_verdict take_state(shoali_slot_worker *w, const shoali_packet *head,
                                      const uint8_t *missing, uint64_t now_us)
{
    shoali_slot_sender *s = &w->slots[head->slot];
    if (head->round == s->round + 1) { /* then the result of this one was lost */
        if (s->unanswered > 0 && now_us < s->probed_us + on_its_way_us(w))
            return SHOALI_SLOT_TAKEN; /* and was asked for */
        s->probed_us = now_us;
        s->unanswered += s->unanswered < UINT8_MAX;
        arm(w, s, now_us + answer_us(w, s));
        return SHOALI_SLOT_PROBE;
    }
    if (head->round != s->round)
        return SHOALI_SLOT_IGNORED;
    hear_echo(w, s, now_us);
    s->unanswered = 0;
    s->missing = SHOALI_PACKET_NONE;
    for (uint32_t i = w->share.workers; i-- > 0;)
        if ((missing[i / 8] >> i % 8 & 1) != 0 && (i != w->me || s->missing == SHOALI_PACKET_NONE))
            s->missing = i;
    if ((missing[w->me / 8] >> w->me % 8 & 1) == 0) {
        arm(w, s, now_us + doubled_us(shoali_slot_worker_patience_us(w), s->others));
        s->others += s->others < UINT8_MAX;
        return SHOALI_SLOT_TAKEN;
    }
    s->timed = false;
    s->lost = true;
    arm(w, s, now_us + answer_us(w, s));
    if (s->resent_us != 0 && now_us < s->resent_us + on_its_way_us(w))
        return SHOALI_SLOT_TAKEN; /* that was said before the last one came */
    s->resent_us = now_us;
    w->resent++;
    return SHOALI_SLOT_SEND;
}

shoali_slot_verdict shoali_slot_worker_take(shoali_slot_worker *w, const shoali_packet *head,
                                            const uint8_t *values, uint32_t count, uint64_t now_us)
{
    if (head->key != w->share.key || head->slot >= w->share.slots)
        return SHOALI_SLOT_IGNORED;
    if (head->kind == SHOALI_PACKET_RESULT && head->round + 1 == w->slots[head->slot].round &&
        ++w->slots[head->slot].again == OFTEN)
        came_often(w, now_us);
    if (w->slots[head->slot].finished)
        return SHOALI_SLOT_IGNORED;
    if (head->kind == SHOALI_PACKET_RESULT)
        return take_result(w, head, values, count, now_us);
    return head->kind == SHOALI_PACKET_STATE ? take_state(w, head, values, now_us)
                                             : SHOALI_SLOT_IGNORED;
}
