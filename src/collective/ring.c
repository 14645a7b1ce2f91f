/* SPDX-License-Identifier: Apache-2.0 */
/* Ring all-reduce: partial sums travel once around the ring, then the sums do. P members, blocks 0
 * .. P-1, 2(P-1) rounds. Four members, what each sends to its right neighbour (a+b: summed so far
 * from ranks a and b):
 *
 *   round        rank 0        rank 1        rank 2        rank 3
 *   1 PUSH       block 3: 0    block 0: 1    block 1: 2    block 2: 3
 *   2 PUSH       block 2: 3+0  block 3: 0+1  block 0: 1+2  block 1: 2+3
 *   3 PUSH       block 1: ..   block 2: ..   block 3: ..   block 0: 1+2+3
 *     OWN        block 0       block 1       block 2       block 3
 *   4-6 PULL     0, 3, 2       1, 0, 3       2, 1, 0       3, 2, 1
 *
 * `both` uses both directions at once: the members on the left half of a block's owner send theirs
 * rightwards, those on the right half leftwards, and they meet at the owner; the way back mirrors
 * it. The volume is the ring's, rounds and lossy hops are half as many. With P even one side is
 * longer by one; the way back swaps the sides, so that both directions carry P - 1 blocks in all.
 * Four members, block 0:
 *
 *   rounds 1, 2 PUSH   2 -> 3 -> 0 <- 1       rounds 3, 4 PULL   2 <- 3 <- 0 -> 1
 *
 * `order=auto` goes around by measured links (rates.h): the lists are made for places in the ring,
 * and then name the members that stand there.
 *
 * Source: Gibiansky, "Bringing HPC techniques to deep learning", 2017, after Patarasuk and Yuan,
 *         JPDC 2009; Li et al., "A network-centric hardware/algorithm co-design ...", MICRO 2018
 *         (INCEPTIONN), Algorithm 1, where worker i ends with block i + 1; here it is block i.
 * Cost:   sent = received = 2 (P-1)/P n, added (P-1)/P n, encoded n; rounds 2(P-1), both: 2
 *         floor(P/2). */
#include "base/error.h"
#include "collective/schedule.h"

enum { ORDER_RANK, ORDER_AUTO };

typedef struct params {
    bool both;
    int32_t order;
} params;

static void one_way(uint32_t size, uint32_t me, shoali_steps *steps)
{
    uint32_t right = (me + 1) % size, left = (me + size - 1) % size;
    for (uint32_t r = 1; r < size; r++) {
        uint32_t block = (me + size - r) % size, next = (block + size - 1) % size;
        shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, r, right, block, 1, r});
        shoali_steps_add(steps, (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, r, left, next, 1, r});
    }
    shoali_steps_add(steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, size - 1, me, me, 1, size});
    for (uint32_t r = 1; r < size; r++) {
        uint32_t block = (me + size - r + 1) % size, next = (block + size - 1) % size,
                 round = size - 1 + r;
        shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PULL, round, right, block, 1, size});
        shoali_steps_add(steps,
                         (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, round, left, next, 1, size});
    }
}

/* Members that send to the owner from its left; the others come from its right. */
static uint32_t longer_side(uint32_t size)
{
    return size / 2;
}

static void both_push(uint32_t size, uint32_t me, shoali_steps *steps)
{
    uint32_t right = (me + 1) % size, left = (me + size - 1) % size;
    uint32_t lefts = longer_side(size), rights = size - 1 - lefts;
    for (uint32_t r = 1; r <= lefts; r++) {
        uint32_t rightward = (me + lefts - r + 1) % size,
                 leftward = (me + size - rights + r - 1) % size;
        shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, r, right, rightward, 1, r});
        if (r <= rights)
            shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PUSH, r, left, leftward, 1, r});
        shoali_steps_add(steps, (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, r, left,
                                             (rightward + size - 1) % size, 1, r});
        if (r <= rights)
            shoali_steps_add(steps, (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, r, right,
                                                 (leftward + 1) % size, 1, r});
    }
}

static void both_pull(uint32_t size, uint32_t me, shoali_steps *steps)
{
    uint32_t right = (me + 1) % size, left = (me + size - 1) % size;
    uint32_t leftwards = longer_side(size), rightwards = size - 1 - leftwards;
    for (uint32_t r = 1; r <= leftwards; r++) {
        uint32_t leftward = (me + r - 1) % size, rightward = (me + size - r + 1) % size,
                 round = leftwards + r;
        shoali_steps_add(steps,
                         (shoal_step){SHOAL_SEND, SHOAL_PULL, round, left, leftward, 1, size});
        if (r <= rightwards)
            shoali_steps_add(
                steps, (shoal_step){SHOAL_SEND, SHOAL_PULL, round, right, rightward, 1, size});
        shoali_steps_add(steps, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, round, right,
                                             (leftward + 1) % size, 1, size});
        if (r <= rightwards)
            shoali_steps_add(steps, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, round, left,
                                                 (rightward + size - 1) % size, 1, size});
    }
}

static shoal_status build_places(bool both, uint32_t size, uint32_t me, shoal_arena *arena,
                                 shoal_schedule *schedule_out)
{
    uint32_t half = longer_side(size);
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    if (!both) {
        one_way(size, me, &steps);
        return shoali_steps_end(&steps, size, 2 * (size - 1), schedule_out);
    }
    both_push(size, me, &steps);
    shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, half, me, me, 1, size});
    both_pull(size, me, &steps);
    return shoali_steps_end(&steps, size, 2 * half, schedule_out);
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    const params *p = args->params;
    const uint32_t *order = p->order == ORDER_AUTO && args->rates != NULL &&
                                    args->rates->size == args->size
                                ? args->rates->order
                                : NULL;
    uint32_t place = order == NULL ? args->me : 0;
    while (order != NULL && order[place] != args->me)
        place++;
    SHOALI_TRY(build_places(p->both, args->size, place, arena, schedule_out));
    for (uint32_t s = 0; order != NULL && s < schedule_out->count; s++) {
        shoal_step *step = &schedule_out->steps[s];
        step->peer = order[step->peer];
        step->block = order[step->block]; /* each step has one block: a member's shard stays its */
    }
    return SHOAL_OK;
}

static uint32_t traits_with(const void *params_in)
{
    const params *p = params_in;
    return SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM |
           (p->order == ORDER_AUTO ? SHOALI_COLL_RATED : 0);
}

static const shoali_key keys[] = {
    {"both", SHOALI_KEY_FLAG, offsetof(params, both), 0, 0, NULL, "off",
     "use both directions of the ring at once: half the rounds"},
    {"order", SHOALI_KEY_CHOICE, offsetof(params, order), 0, 0, "rank|auto", "rank",
     "who follows whom: rank, or auto: by measured links, slow ones are crossed seldom"},
};

const shoali_collective_row shoali_collective_ring = {
    .name = "ring",
    .paper = "Patarasuk and Yuan, JPDC 2009; INCEPTIONN, MICRO 2018, Algorithm 1 (there worker i "
             "ends with block i+1)",
    .traits = SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .build = build,
};
