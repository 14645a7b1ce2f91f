/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator's half of lossy aggregation (src/collective/slot.h) where a packet lies: it is
 * taken, and turned into its answer, in place. No heap, no calls, loops with fixed ends: clang
 * compiles it for the kernel (switchml.bpf.c), and any compiler for the tests, which hold it to the
 * same rules as slot_aggregator.c. It cannot include that file, whose state is made of pointers.
 *
 *   values[round % 2]   of this round, added up     values of the round before: its result
 *
 * The first values of a round overwrite those of the round before last, of which nobody can still
 * need a copy: whoever sends in round r has the result of round r - 1 (slot.h). */
#ifndef SHOALI_XDP_SLOTS_H
#define SHOALI_XDP_SLOTS_H

#include "wire/kernel_maps.h"
#include "wire/packet.h"

#ifdef __bpf__
#define SLOTS_INLINE static __attribute__((always_inline)) inline
#else
#define SLOTS_INLINE static inline
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SLOTS_16(x) __builtin_bswap16(x)
#define SLOTS_32(x) __builtin_bswap32(x)
#else
#define SLOTS_16(x) (x)
#define SLOTS_32(x) (x)
#endif

enum slots_verdict {
    SLOTS_DROP,  /* taken, or to be ignored */
    SLOTS_SEND,  /* the head is the result's now: to all workers */
    SLOTS_ANSWER /* the head is an answer's now: back to the sender */
};

/** What belongs behind an answer's head. */
struct slots_body {
    uint32_t values;  /* how many, 0: none */
    uint32_t half;    /* of the cell's values */
    uint32_t missing; /* instead: 32 bytes of who is missing */
    uint64_t seen;
};

SLOTS_INLINE void slots_write_result(const shoali_kernel_cell *cell, uint32_t block,
                                     struct shoali_packet_wire *p, struct slots_body *body)
{
    p->version_kind = SHOALI_PACKET_VERSION << 4 | SHOALI_PACKET_RESULT;
    p->worker = 0;
    p->exponent = (int16_t)SLOTS_16((uint16_t)cell->last_exponent);
    p->round = SLOTS_32(cell->round - 1);
    p->next = SLOTS_32(cell->last_next);
    body->values = cell->last_any ? block : 0;
    body->half = (cell->round - 1) & 1;
}

/** The round is complete: it becomes the round before. */
SLOTS_INLINE void slots_complete(shoali_kernel_job *job, shoali_kernel_cell *cell)
{
    const uint32_t last = cell->next == SHOALI_PACKET_NONE;
    uint32_t after = SHOALI_PACKET_NONE;
    if (!job->sparse && !last) {
        const uint32_t given = __sync_fetch_and_add(&job->unassigned, 1);
        after = given < job->blocks ? given : SHOALI_PACKET_NONE;
    }
    cell->last_next = job->sparse ? cell->next : after;
    cell->last_any = cell->any;
    cell->last_exponent = cell->exponent;
    cell->round++;
    cell->block = cell->next;
    cell->next = job->sparse ? SHOALI_PACKET_NONE : after;
    cell->exponent = SHOALI_EXPONENT_ZERO;
    cell->count = 0;
    cell->any = 0;
    cell->seen = 0;
    cell->finished = last;
}

SLOTS_INLINE int slots_possible(const shoali_kernel_job *job, const shoali_kernel_cell *cell,
                                uint32_t slot, uint32_t next, uint32_t count)
{
    const uint32_t block = cell->block;
    if (count != 0 && (count != job->block || block == SHOALI_PACKET_NONE))
        return 0;
    if (!job->sparse)
        return next == cell->next;
    return next == SHOALI_PACKET_NONE ||
           (next < job->blocks && job->slots != 0 && next % job->slots == slot &&
            (block == SHOALI_PACKET_NONE || next > block));
}

/** All but the values: whether they are to be added (add_out: 1 overwrite, 2 add), and what the
 *  packet has become. The caller holds the cell's lock, adds, and then calls slots_end. */
SLOTS_INLINE enum slots_verdict slots_begin(shoali_kernel_job *job, shoali_kernel_cell *cell,
                                            struct shoali_packet_wire *p, uint32_t count,
                                            uint32_t *add_out, struct slots_body *body)
{
    const uint32_t round = SLOTS_32(p->round), next = SLOTS_32(p->next);
    const uint32_t kind = p->version_kind & 15, worker = p->worker;
    const int32_t exponent = (int16_t)SLOTS_16((uint16_t)p->exponent);
    *add_out = 0;
    if (kind == SHOALI_PACKET_PROBE && round + 1 == cell->round) {
        slots_write_result(cell, job->block, p, body);
        return SLOTS_ANSWER;
    }
    if (worker >= job->workers || worker >= SHOALI_KERNEL_WORKERS || round != cell->round ||
        cell->finished)
        return SLOTS_DROP;
    if (kind == SHOALI_PACKET_PROBE) {
        p->version_kind = SHOALI_PACKET_VERSION << 4 | SHOALI_PACKET_STATE;
        body->missing = 1;
        body->seen = cell->seen;
        return SLOTS_ANSWER;
    }
    if (kind != SHOALI_PACKET_CONTRIBUTION || (cell->seen >> worker & 1) != 0 ||
        !slots_possible(job, cell, SLOTS_16(p->slot), next, count))
        return SLOTS_DROP;
    cell->seen |= (uint64_t)1 << worker;
    cell->count++;
    if (next < cell->next) {
        cell->next = next;
        cell->exponent = exponent;
    } else if (next == cell->next && exponent > cell->exponent) {
        cell->exponent = exponent;
    }
    if (count != 0) {
        *add_out = cell->any ? 2 : 1;
        cell->any = 1;
    }
    return SLOTS_SEND;
}

/** After a contribution's values have been added. */
SLOTS_INLINE enum slots_verdict slots_end(shoali_kernel_job *job, shoali_kernel_cell *cell,
                                          struct shoali_packet_wire *p, struct slots_body *body)
{
    if (cell->count < job->workers)
        return SLOTS_DROP;
    slots_complete(job, cell);
    slots_write_result(cell, job->block, p, body);
    return SLOTS_SEND;
}

/** Byte i of the 32 of a state. */
SLOTS_INLINE uint8_t slots_missing_byte(const shoali_kernel_job *job, const struct slots_body *body,
                                        uint32_t i)
{
    const uint64_t all = job->workers >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << job->workers) - 1;
    return i < 8 ? (uint8_t)((all & ~body->seen) >> (8 * i)) : 0;
}

#endif
