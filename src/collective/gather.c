/* SPDX-License-Identifier: Apache-2.0 */
/* Gather: every member's coded vector goes to every other member, and each adds them up itself, in
 * member order: the carrier of codecs whose sums have no code of their own (topk). Block i is all
 * of member i's vector. Four members:
 *
 *              rank 0            rank 1            rank 2            rank 3
 *     OWN      slot 0            slot 1            slot 2            slot 3
 *   1 PULL     0 to 1, 2, 3      1 to 2, 3, 0      2 to 3, 0, 1      3 to 0, 1, 2
 *
 * Every member starts with its right neighbour, so at any time each receives from one. A ring would
 * move as many elements in P - 1 rounds instead of one.
 *
 * Source: the all-gather of sparse gradients that OmniReduce, SIGCOMM 2021, compares
 *         with (AGsparse).
 * Cost:   sent = received = (P-1) n, added P n, encoded n, decoded P n; one round. */
#include "collective/schedule.h"

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    uint32_t size = args->size, me = args->me;
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, 0, me, me, 1, 1});
    for (uint32_t k = 1; k < size; k++)
        shoali_steps_add(&steps,
                         (shoal_step){SHOAL_SEND, SHOAL_PULL, 1, (me + k) % size, me, 1, 1});
    for (uint32_t k = 1; k < size; k++) {
        uint32_t from = (me + size - k) % size;
        shoali_steps_add(&steps, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, 1, from, from, 1, 1});
    }
    return shoali_steps_end(&steps, size, size > 1 ? 1 : 0, schedule_out);
}

const shoali_collective_row shoali_collective_gather = {
    .name = "gather",
    .paper = "AGsparse in OmniReduce, SIGCOMM 2021",
    .traits = SHOALI_COLL_SLOTS | SHOALI_COLL_UNIFORM,
    .build = build,
};
