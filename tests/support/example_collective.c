/* SPDX-License-Identifier: Apache-2.0 */
/* Tree: sums climb a binomial tree to member 0, and the total comes down the same way. Few steps
 * for each member, but member 0 moves log2(P) vectors each way: for few elements. Four members:
 *
 *   round      rank 0        rank 1        rank 2        rank 3
 *   1 PUSH     adds 1        all to 0      adds 3        all to 2
 *   2 PUSH     adds 2                      all to 0
 *     OWN      all
 *   3 PULL     all to 2                    sets all
 *   4 PULL     all to 1      sets all      all to 3      sets all
 *
 * Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005 (binomial tree).
 * Cost:   member 0 sends, receives and adds ceil(log2 P) n; rounds 2 ceil(log2 P). */
#include "collective/schedule.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* One edge of the tree, from either end: member upper + half speaks for itself and for those behind
 * it, at most `half` members together. */
static void edge(const shoal_schedule_args *args, uint32_t half, uint32_t round, uint8_t leg,
                 shoali_steps *steps)
{
    uint32_t me = args->me, upper = me - me % (2 * half), lower = upper + half;
    uint32_t parts = leg == SHOAL_PUSH ? smaller(half, args->size - lower) : args->size;
    bool up = leg == SHOAL_PUSH;
    if (lower >= args->size)
        return;
    if (me == upper)
        shoali_steps_add(
            steps, (shoal_step){up ? SHOAL_RECV_ADD : SHOAL_SEND, leg, round, lower, 0, 1, parts});
    if (me == lower)
        shoali_steps_add(
            steps, (shoal_step){up ? SHOAL_SEND : SHOAL_RECV_SET, leg, round, upper, 0, 1, parts});
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    uint32_t half = 1, round = 0;
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    for (; half < args->size; half *= 2)
        edge(args, half, ++round, SHOAL_PUSH, &steps);
    if (args->me == 0)
        shoali_steps_add(&steps,
                         (shoal_step){SHOAL_OWN, SHOAL_PULL, round, args->me, 0, 1, args->size});
    while (half > 1) {
        half /= 2;
        edge(args, half, ++round, SHOAL_PULL, &steps);
    }
    return shoali_steps_end(&steps, 1, round, schedule_out);
}

const shoali_collective_row shoali_collective_tree = {
    .name = "tree",
    .paper = "Thakur, Rabenseifner and Gropp, IJHPCA 2005",
    .build = build,
};
