/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcast: the root's values go to all. They are encoded once, at the root, and the same bytes
 * travel on, so that all members (the root, too) end with the same bits whatever the codec. Four
 * members, root 0, counted from the root:
 *
 *   chain   0 -> 1 -> 2 -> 3          3 rounds; chunks follow one another, so any P takes about n
 *   tree    0 -> 1;  0 -> 2, 1 -> 3   2 rounds; the root sends log2(P) times: for few elements
 *
 * Source: the binomial tree of Thakur, Rabenseifner and Gropp, IJHPCA 2005; the pipelined chain of
 *         Pjesivac-Grbovic et al., "Performance analysis of MPI collective operations", 2007.
 * Cost:   chain: all but the last send n, all but the root receive n; rounds P-1.
 *         tree:  the root sends ceil(log2 P) n; rounds ceil(log2 P). */
#include "collective/schedule.h"

typedef struct params {
    bool tree;
} params;

/* Members are numbered from the root here. In round k + 1 of the tree, the 2^k members that have
 * the values send them 2^k members on. */
static void tree(const shoal_schedule_args *args, uint32_t me, shoali_steps *steps)
{
    uint32_t size = args->size, round = 1;
    for (uint32_t have = 1; have < size; have *= 2, round++) {
        uint32_t to = (me + have + args->root) % size,
                 from = (me - have + args->root + size) % size;
        if (me < have && me + have < size)
            shoali_steps_add(steps, (shoal_step){SHOAL_SEND, SHOAL_PULL, round, to, 0, 1, 1});
        if (me >= have && me < 2 * have)
            shoali_steps_add(steps, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, round, from, 0, 1, 1});
    }
}

static void chain(const shoal_schedule_args *args, uint32_t me, shoali_steps *steps)
{
    uint32_t size = args->size;
    if (me > 0)
        shoali_steps_add(steps, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, me,
                                             (args->me + size - 1) % size, 0, 1, 1});
    if (me + 1 < size)
        shoali_steps_add(
            steps, (shoal_step){SHOAL_SEND, SHOAL_PULL, me + 1, (args->me + 1) % size, 0, 1, 1});
}

static uint32_t tree_rounds(uint32_t size)
{
    uint32_t rounds = 0;
    while (((uint32_t)1 << rounds) < size)
        rounds++;
    return rounds;
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    const params *p = args->params;
    uint32_t size = args->size, me = (args->me + size - args->root) % size;
    shoali_steps steps;
    shoali_steps_begin(arena, &steps);
    if (me == 0)
        shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, 0, args->me, 0, 1, 1});
    (p->tree ? tree : chain)(args, me, &steps);
    return shoali_steps_end(&steps, 1, p->tree ? tree_rounds(size) : size - 1, schedule_out);
}

static const shoali_key keys[] = {
    {"tree", SHOALI_KEY_FLAG, offsetof(params, tree), 0, 0, NULL, "off",
     "binomial tree instead of a pipelined chain: fewer rounds, more volume at the root"},
};

const shoali_collective_row shoali_collective_broadcast = {
    .name = "broadcast",
    .paper = "Thakur, Rabenseifner and Gropp, IJHPCA 2005; Pjesivac-Grbovic et al., 2007",
    .traits = SHOALI_COLL_ROOTED,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .build = build,
};
