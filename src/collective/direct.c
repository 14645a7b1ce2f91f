/* SPDX-License-Identifier: Apache-2.0 */
/* Direct exchange: every member sends each owner that owner's blocks, and every owner sends its
 * sums to all. Two rounds of latency for any P, one lossy hop per value, and shards may differ:
 * `weights=1/1/1/0` gives member i w_i consecutive blocks, so that a member on a slow link carries
 * little. Four members with those weights:
 *
 *   round      rank 0          rank 1          rank 2          rank 3
 *   1 PUSH     1 to 1, 2 to 2  2 to 2, 0 to 0  0 to 0, 1 to 1  0 to 0, 1 to 1, 2 to 2
 *     OWN      block 0         block 1         block 2
 *   2 PULL     0 to 1, 2, 3    1 to 2, 3, 0    2 to 3, 0, 1
 *
 * Every member starts with its right neighbour, so that no owner gets all of them at once.
 * `weights=auto` shares by what the members have measured of their links (rates.h). With weights
 * all keep step: who has sent an owner a few chunks waits for their sums. Otherwise the fast links
 * fill up with pushes first, and the sums for the slow one, which would have to leave from the
 * beginning on, wait behind them. Measured, one of 8 links at half rate: 1.39 -> 1.23 s of at
 * best 1.12; without a slow link: 1.12 -> 1.00 of at best 0.98.
 *
 * `site=4`: every four members in a row, of one host or site, exchange float32; the codec is for
 * the links between sites. Each member still sends every owner its own values, so nothing is summed
 * before it crosses.
 *
 * Source: the pairwise exchange of Thakur, Rabenseifner and Gropp, IJHPCA 2005; weights
 *         for one slow link: OptCC, arXiv 2606.01680.
 * Cost:   member i with the share v_i = w_i / sum(w) sends and receives (1 - v_i) n + (P-1) v_i n =
 *         (1 + (P-2) v_i) n and adds (P-1) v_i n; with equal shares 2 (P-1)/P n; rounds 2. */
#include <string.h>

#include "base/error.h"
#include "collective/schedule.h"

typedef struct params {
    char weights[SHOALI_KEY_TEXT_BYTES];
    int64_t site;
} params;

enum { CUTS = 64, AHEAD = 4 }; /* chunks of an equal share; of them on their way to one owner */
enum { MAX_WEIGHTS = SHOALI_KEY_TEXT_BYTES / 2, MAX_WEIGHT = 1024 };

/* How many blocks each member owns: as many as its weight, one without weights. */
typedef struct shards {
    uint32_t *weights;
    uint32_t count; /* 0: all 1 */
} shards;

static bool is_auto(const params *p)
{
    return strcmp(p->weights, "auto") == 0;
}

static shoal_status read_shards(const params *p, const shoal_schedule_args *args,
                                shoal_arena *arena, shards *shards_out)
{
    uint32_t size = args->size, sum = 0;
    uint32_t room = size > MAX_WEIGHTS ? size : MAX_WEIGHTS;
    *shards_out = (shards){.weights = shoali_arena_array(arena, room, sizeof(uint32_t))};
    if (shards_out->weights == NULL)
        return SHOAL_ENOMEM;
    if (p->weights[0] == '\0')
        return SHOAL_OK;
    if (is_auto(p)) {
        shoali_rates_shares(args->rates, size, shards_out->weights);
        shards_out->count = size;
        return SHOAL_OK;
    }
    SHOALI_TRY(shoali_read_list("direct:weights", p->weights, 0, MAX_WEIGHT, MAX_WEIGHTS,
                                shards_out->weights, &shards_out->count));
    for (uint32_t i = 0; i < shards_out->count; i++)
        sum += shards_out->weights[i];
    if (shards_out->count != size || sum == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "direct:weights=%s: %u weights with the sum %u for %u members",
                           p->weights, shards_out->count, sum, size);
    return SHOAL_OK;
}

/* The step that moves the blocks which owner owns between this member and peer; none if it owns
 * nothing. */
static void move(const shards *s, uint32_t owner, shoal_step step, shoali_steps *steps)
{
    step.block = owner;
    step.block_count = 1;
    if (s->count > 0) {
        step.block = 0;
        for (uint32_t i = 0; i < owner; i++)
            step.block += s->weights[i];
        step.block_count = s->weights[owner];
    }
    if (step.block_count > 0)
        shoali_steps_add(steps, step);
}

static uint32_t count_blocks(const shards *s, uint32_t size)
{
    uint32_t blocks = s->count > 0 ? 0 : size;
    for (uint32_t i = 0; i < s->count; i++)
        blocks += s->weights[i];
    return blocks;
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    const params *p = args->params;
    uint32_t size = args->size, me = args->me;
    shards s;
    shoali_steps steps;
    SHOALI_TRY(read_shards(p, args, arena, &s));
    SHOALI_TRY(shoali_check_site("direct", p->site, size));
    shoali_steps_begin(arena, &steps);
    for (uint32_t k = 1; k < size; k++) {
        uint32_t to = (me + k) % size, from = (me + size - k) % size;
        move(&s, to, (shoal_step){SHOAL_SEND, SHOAL_PUSH, 1, to, 0, 0, 1}, &steps);
        move(&s, me, (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, 1, from, 0, 0, 1}, &steps);
    }
    move(&s, me, (shoal_step){SHOAL_OWN, SHOAL_PULL, 1, me, 0, 0, size}, &steps);
    for (uint32_t k = 1; k < size; k++) {
        uint32_t to = (me + k) % size, from = (me + size - k) % size;
        move(&s, me, (shoal_step){SHOAL_SEND, SHOAL_PULL, 2, to, 0, 0, size}, &steps);
        move(&s, from, (shoal_step){SHOAL_RECV_SET, SHOAL_PULL, 2, from, 0, 0, size}, &steps);
    }
    SHOALI_TRY(shoali_steps_end(&steps, count_blocks(&s, size), size > 1 ? 2 : 0, schedule_out));
    if (s.count > 0) {
        schedule_out->cuts = CUTS * size;
        schedule_out->ahead = AHEAD;
    }
    schedule_out->site = (uint32_t)p->site;
    return SHOAL_OK;
}

static uint32_t traits_with(const void *params_in)
{
    const params *p = params_in;
    const uint32_t sites = p->site > 0 ? SHOALI_COLL_SITES : 0;
    if (p->weights[0] == '\0')
        return SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM | sites;
    return (is_auto(p) ? SHOALI_COLL_RATED : 0) | sites;
}

static const shoali_key keys[] = {
    {"weights", SHOALI_KEY_TEXT, offsetof(params, weights), 0, 0, NULL, "",
     "shares of the members, as in 1/1/1/0 (equal); 0 owns nothing; auto: by measured links"},
    SHOALI_COLLECTIVE_KEY_SITE(params),
};

const shoali_collective_row shoali_collective_direct = {
    .name = "direct",
    .paper = "Thakur, Rabenseifner and Gropp, IJHPCA 2005; weights: OptCC, arXiv "
             "2606.01680",
    .traits = SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .build = build,
};
