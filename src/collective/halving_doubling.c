/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive halving, then recursive doubling: 2 log2(Q) rounds, for short vectors among many
 * members. Q is the largest power of two <= P; each member i >= Q first adds its whole vector to
 * member i - Q, and gets the result last. Four members, blocks 0 .. 3 (0-1: blocks 0 and 1):
 *
 *   round      rank 0          rank 1          rank 2          rank 3
 *   1 PUSH     2-3 to 2        2-3 to 3        0-1 to 0        0-1 to 1
 *   2 PUSH     1 to 1          0 to 0          3 to 3          2 to 2
 *     OWN      block 0         block 1         block 2         block 3
 *   3 PULL     0 to 1          1 to 0          2 to 3          3 to 2
 *   4 PULL     0-1 to 2        0-1 to 3        2-3 to 0        2-3 to 1
 *
 * Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004;
 *         the folding of the members beyond Q is its simplest form.
 * Cost:   P = Q: sent = received = 2 (Q-1)/Q n, added (Q-1)/Q n; rounds 2 log2 Q. Else member i - Q
 *         also receives, adds and sends n, member i sends and receives n, and there are two more
 *         rounds. */
#include "collective/schedule.h"

/* Members 0 .. q-1 exchange halves; member i < folded also stands for member i + q. */
typedef struct plan {
    uint32_t q, log2_q, folded;
} plan;

static plan make_plan(uint32_t size)
{
    plan p = {1, 0, 0};
    while (2 * p.q <= size) {
        p.q *= 2;
        p.log2_q++;
    }
    p.folded = size - p.q;
    return p;
}

/* Contributors summed at member me once it has exchanged over all distances >= distance: those
 * whose lower bits equal its own, and the members folded into them. */
static uint32_t parts_at(const plan *p, uint32_t me, uint32_t distance)
{
    uint32_t low = me % distance;
    uint32_t folded = p->folded > low ? (p->folded - low - 1) / distance + 1 : 0;
    return p->q / distance + folded;
}

/* First block of the aligned run of `length` blocks that holds block. */
static uint32_t run_start(uint32_t block, uint32_t length)
{
    return block - block % length;
}

static void halve(const plan *p, uint32_t me, uint32_t round, shoali_steps *steps)
{
    for (uint32_t d = p->q / 2; d > 0; d /= 2, round++) {
        uint32_t peer = me ^ d, mine = run_start(me, d), theirs = run_start(peer, d);
        uint32_t sent = parts_at(p, me, 2 * d), got = parts_at(p, peer, 2 * d);
        shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, round, peer, theirs, d, sent});
        shoali_steps_add(steps,
                         (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, round, peer, mine, d, got});
    }
}

static void twofold(const plan *p, uint32_t me, uint32_t round, uint32_t size, shoali_steps *steps)
{
    for (uint32_t d = 1; d < p->q; d *= 2, round++) {
        uint32_t peer = me ^ d, mine = run_start(me, d), theirs = run_start(peer, d);
        shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PULL, round, peer, mine, d, size});
        shoali_steps_add(steps,
                         (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, round, peer, theirs, d, size});
    }
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    uint32_t size = args->size, me = args->me;
    plan p = make_plan(size);
    uint32_t fold = p.folded > 0 ? 1 : 0, rounds = 2 * (p.log2_q + fold),
             pull = fold + p.log2_q + 1;
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    if (me >= p.q) {
        shoali_steps_add(&steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, 1, me - p.q, 0, p.q, 1});
        shoali_steps_add(&steps,
                         (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, rounds, me - p.q, 0, p.q, size});
        return shoali_steps_end(&steps, p.q, rounds, schedule_out);
    }
    if (me < p.folded)
        shoali_steps_add(&steps, (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, 1, me + p.q, 0, p.q, 1});
    halve(&p, me, 1 + fold, &steps);
    shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, pull - 1, me, me, 1, size});
    twofold(&p, me, pull, size, &steps);
    if (me < p.folded)
        shoali_steps_add(&steps,
                         (shoal_step){SHOAL_SEND, SHOAL_PULL, rounds, me + p.q, 0, p.q, size});
    return shoali_steps_end(&steps, p.q, rounds, schedule_out);
}

const shoali_collective_row shoali_collective_halving_doubling = {
    .name = "halving_doubling",
    .paper = "Rabenseifner, ICCS 2004",
    .build = build,
};
