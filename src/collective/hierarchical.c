/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchical: members form a grid of any number of dimensions. Reduce-scatter inside the first
 * dimension, inside the second on the shard that is left, and so on up; then all-gather back down.
 * Only 1/d0 of the vector leaves the first dimension, so with d0 ranks per host (the first
 * dimension counts consecutive members) hosts exchange little. Member i has the coordinates i % d0,
 * i / d0 % d1, ... and so has block i. dims=2/2, four members:
 *
 *   round      rank 0 (0,0)    rank 1 (1,0)    rank 2 (0,1)    rank 3 (1,1)
 *   1 PUSH     1, 3 to 1       0, 2 to 0       1, 3 to 3       0, 2 to 2         inside dimension 0
 *   2 PUSH     2 to 2          3 to 3          0 to 0          1 to 1            inside dimension 1
 *     OWN      block 0         block 1         block 2         block 3
 *   3 PULL     0 to 2          1 to 3          2 to 0          3 to 1
 *   4 PULL     0, 2 to 1       1, 3 to 0       0, 2 to 3       1, 3 to 2
 *
 * Each dimension runs a ring (`inner=ring`) or a direct exchange (`inner=direct`). Without dims,
 * the prime factors of P, largest first, are the dimensions: the fewest rounds.
 *
 * `site=4`, the product of the first dimensions: members of one host or site exchange float32, and
 * the codec is for the links between sites, which sums of whole sites cross once each way.
 * Dimensions beyond the site pull first, so what comes into a site coded is handed on there as what
 * it decodes to: the same bits everywhere.
 *
 * Source: INCEPTIONN, MICRO 2018, figure 1(c), in the reading of parallel upper rings, one per
 *         shard; Ueno and Yokota, "Exhaustive study of hierarchical AllReduce patterns", CCGrid
 *         2019.
 * Cost:   sent = received = 2 (P-1)/P n and added (P-1)/P n for any dims; of it, dimension k
 *         carries 2 (d_k - 1) n / (d_0 .. d_k). Rounds: ring 2 sum(d_k - 1), direct 2 per dimension
 *         longer than 1. */
#include "base/error.h"
#include "collective/schedule.h"

typedef struct params {
    char dims[SHOALI_KEY_TEXT_BYTES];
    int32_t inner;
    int64_t site;
} params;

enum { INNER_RING, INNER_DIRECT, MAX_DIMS = SHOALI_KEY_TEXT_BYTES / 2 };

typedef struct grid {
    uint32_t dims[MAX_DIMS], count;
    uint32_t size, me;
    bool direct;
} grid;

/* One dimension as one member sees it: its line of `length` members `stride` apart, of which it is
 * number `at`. */
typedef struct line {
    uint32_t length, stride, at;
} line;

static uint32_t largest_prime(uint32_t n)
{
    for (uint32_t p = 2; p * p <= n; p++)
        while (n % p == 0 && n > p)
            n /= p;
    return n;
}

static shoal_status make_grid(const shoal_schedule_args *args, grid *grid_out)
{
    const params *p = args->params;
    grid g = {.size = args->size, .me = args->me, .direct = p->inner == INNER_DIRECT};
    uint64_t product = 1;
    if (p->dims[0] != '\0')
        SHOALI_TRY(shoali_read_list("hierarchical:dims", p->dims, 1, SHOALI_MEMBERS_MAX, MAX_DIMS,
                                    g.dims, &g.count));
    else
        for (uint32_t rest = args->size; rest > 1; rest /= g.dims[g.count++])
            g.dims[g.count] = largest_prime(rest);
    for (uint32_t k = 0; k < g.count && product <= args->size; k++)
        product *= g.dims[k];
    if (product != args->size)
        return shoali_fail(SHOAL_EINVAL,
                           "hierarchical:dims=%s: the product has to be the number of members, %u",
                           p->dims, args->size);
    *grid_out = g;
    return SHOAL_OK;
}

/* A site is made of whole dimensions, so that each of them is inside or between. Without dims, it
 * is the first one. */
static shoal_status with_site(const shoal_schedule_args *args, grid *g)
{
    const params *p = args->params;
    const uint32_t site = (uint32_t)p->site; /* at most SHOALI_MEMBERS_MAX */
    uint64_t product = 1;
    SHOALI_TRY(shoali_check_site("hierarchical", p->site, args->size));
    if (site == 0)
        return SHOAL_OK;
    if (p->dims[0] == '\0') {
        g->count = 0;
        if (site > 1)
            g->dims[g->count++] = site;
        for (uint32_t rest = args->size / site; rest > 1;) {
            const uint32_t prime = largest_prime(rest);
            g->dims[g->count++] = prime;
            rest /= prime;
        }
    }
    for (uint32_t k = 0; k < g->count && product < site; k++)
        product *= g->dims[k];
    if (product != site)
        return shoali_fail(SHOAL_EINVAL,
                           "hierarchical:dims=%s,site=%u: a site has to be the product of the "
                           "first dimensions",
                           p->dims, site);
    return SHOAL_OK;
}

static line line_of(const grid *g, uint32_t dim)
{
    uint32_t stride = 1;
    for (uint32_t k = 0; k < dim; k++)
        stride *= g->dims[k];
    const uint32_t size = g->dims[dim] > 1 ? g->dims[dim] : 1; /* never 0: make_grid */
    return (line){size, stride, g->me / stride % size};
}

static uint32_t rounds_of(const grid *g, uint32_t dim)
{
    uint32_t length = g->dims[dim];
    return g->direct ? (length > 1 ? 1 : 0) : length - 1;
}

/* One step per block of a shard: the blocks that agree with this member in all lower dimensions and
 * have the coordinate `shard` in this one. peer counts along the line, like shard. */
static void move(const grid *g, line l, uint32_t shard, shoal_step step, shoali_steps *steps)
{
    step.peer = g->me + (step.peer - l.at) * l.stride;
    step.block_count = 1;
    for (uint32_t block = g->me % l.stride + shard * l.stride; block < g->size;
         block += l.length * l.stride) {
        step.block = block;
        shoali_steps_add(steps, step);
    }
}

static void scatter(const grid *g, uint32_t dim, uint32_t round, shoali_steps *steps)
{
    line l = line_of(g, dim);
    uint32_t right = (l.at + 1) % l.length, left = (l.at + l.length - 1) % l.length;
    for (uint32_t r = 1; r < l.length; r++) {
        uint32_t ahead = (l.at + r) % l.length, behind = (l.at + l.length - r) % l.length;
        shoal_step send = {SHOAL_SEND, SHOAL_PUSH, round + r, right, 0, 0, l.stride * r};
        shoal_step receive = {SHOAL_RECV_ADD, SHOAL_PUSH, round + r, left, 0, 0, l.stride * r};
        if (g->direct) {
            send = (shoal_step){SHOAL_SEND, SHOAL_PUSH, round + 1, ahead, 0, 0, l.stride};
            receive = (shoal_step){SHOAL_RECV_ADD, SHOAL_PUSH, round + 1, behind, 0, 0, l.stride};
        }
        move(g, l, g->direct ? ahead : behind, send, steps);
        move(g, l, g->direct ? l.at : (behind + l.length - 1) % l.length, receive, steps);
    }
}

static void collect(const grid *g, uint32_t dim, uint32_t round, shoali_steps *steps)
{
    line l = line_of(g, dim);
    uint32_t right = (l.at + 1) % l.length, left = (l.at + l.length - 1) % l.length;
    for (uint32_t r = 1; r < l.length; r++) {
        uint32_t ahead = (l.at + r) % l.length, behind = (l.at + l.length - r) % l.length;
        shoal_step send = {SHOAL_SEND, SHOAL_PULL, round + r, right, 0, 0, g->size};
        shoal_step receive = {SHOAL_RECV_SET, SHOAL_PULL, round + r, left, 0, 0, g->size};
        if (g->direct) {
            send.round = receive.round = (uint16_t)(round + 1);
            send.peer = ahead;
            receive.peer = behind;
        }
        move(g, l, g->direct ? l.at : (behind + 1) % l.length, send, steps);
        move(g, l, behind, receive, steps);
    }
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    grid g;
    shoali_steps steps;
    uint32_t round = 0;
    SHOALI_TRY(make_grid(args, &g));
    SHOALI_TRY(with_site(args, &g));
    shoali_steps_begin(arena, &steps);
    for (uint32_t dim = 0; dim < g.count; dim++) {
        scatter(&g, dim, round, &steps);
        round += rounds_of(&g, dim);
    }
    shoali_steps_add(&steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, round, g.me, g.me, 1, g.size});
    for (uint32_t dim = g.count; dim-- > 0;) {
        collect(&g, dim, round, &steps);
        round += rounds_of(&g, dim);
    }
    SHOALI_TRY(shoali_steps_end(&steps, g.size, round, schedule_out));
    schedule_out->site = (uint32_t)((const params *)args->params)->site;
    return SHOAL_OK;
}

static uint32_t traits_with(const void *params_in)
{
    const params *p = params_in;
    return SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM | (p->site > 0 ? SHOALI_COLL_SITES : 0);
}

static const shoali_key keys[] = {
    {"dims", SHOALI_KEY_TEXT, offsetof(params, dims), 0, 0, NULL, "",
     "sizes of the dimensions, innermost first, as in 4/2 (prime factors, largest first)"},
    {"inner", SHOALI_KEY_CHOICE, offsetof(params, inner), 0, 0, "ring|direct", "ring",
     "exchange inside each dimension"},
    SHOALI_COLLECTIVE_KEY_SITE(params),
};

const shoali_collective_row shoali_collective_hierarchical = {
    .name = "hierarchical",
    .paper = "INCEPTIONN, MICRO 2018, figure 1(c) with one upper ring per shard; Ueno and Yokota, "
             "CCGrid 2019",
    .traits = SHOALI_COLL_SHARDED | SHOALI_COLL_UNIFORM,
    .traits_with = traits_with,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .build = build,
};
