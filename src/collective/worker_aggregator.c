/* SPDX-License-Identifier: Apache-2.0 */
/* Worker-aggregator: C workers send their vectors to S servers, each of which sums one block and
 * sends it back. Both legs overlap, because every chunk goes back as soon as it is summed. The
 * servers are the first S workers, or with `dedicated` the S members behind the workers, which
 * contribute nothing. Three workers, one dedicated server 3:
 *
 *   round      rank 0          rank 1          rank 2          rank 3
 *   1 PUSH     block 0 to 3    block 0 to 3    block 0 to 3    sets 0, adds 1, adds 2
 *     OWN                                                      block 0
 *   2 PULL     sets block 0    sets block 0    sets block 0    block 0 to 0, 1, 2
 *
 * TCP shares a server's link unevenly among many senders, and the slowest holds back every chunk's
 * sum, so that the way back idles. Hence no worker is more than `ahead` chunks before the others:
 * it sends the next chunk when the one `ahead` before has come back (measured with 4 workers at 1
 * Gbit/s: 5.0 S/B without, 4.3 with).
 *
 * Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014;
 *         the baseline of INCEPTIONN, MICRO 2018, figure 1(a), there with one aggregator and
 *         without overlap of the legs.
 * Cost:   a worker sends and receives n (its own share, if it serves, stays); a server sends,
 *         receives and adds C n/S (co-located: (C-1) n/S); rounds 2. A lone server's link carries C
 *         n each way: N S/B, whatever the overlap. */
#include "base/error.h"
#include "collective/schedule.h"

typedef struct params {
    int64_t servers;
    bool dedicated;
    int64_t ahead;
} params;

/* Where the servers sit in the member list. */
typedef struct layout {
    uint32_t workers, servers, first_server;
    bool dedicated;
} layout;

static shoal_status lay_out(const shoal_schedule_args *args, layout *layout_out)
{
    const params *p = args->params;
    layout l = {args->contributors, (uint32_t)p->servers, p->dedicated ? args->contributors : 0,
                p->dedicated};
    uint32_t extra = args->size - args->contributors;
    if (p->dedicated && l.servers != extra)
        return shoali_fail(SHOAL_EINVAL,
                           "worker_aggregator:servers=%u,dedicated: %u members beyond the %u "
                           "contributors could serve",
                           l.servers, extra, l.workers);
    if (!p->dedicated && extra > 0)
        return shoali_fail(
            SHOAL_EINVAL,
            "worker_aggregator: %u members contribute nothing; let them serve with 'dedicated'",
            extra);
    if (!p->dedicated && l.servers > l.workers)
        return shoali_fail(SHOAL_EINVAL,
                           "worker_aggregator:servers=%u: only %u workers to place them on",
                           l.servers, l.workers);
    *layout_out = l;
    return SHOAL_OK;
}

/* Workers start at different servers, so that no server gets all of them at once. */
static void work(const layout *l, uint32_t me, uint8_t kind, uint8_t leg, shoali_steps *steps)
{
    for (uint32_t k = 0; k < l->servers; k++) {
        uint32_t block = (me + k) % l->servers, server = l->first_server + block;
        uint32_t parts = leg == SHOAL_PUSH ? 1 : l->workers;
        if (server != me)
            shoali_steps_add(
                steps, (shoal_step){kind, leg, leg == SHOAL_PUSH ? 1 : 2, server, block, 1, parts});
    }
}

static void serve(const layout *l, uint32_t me, shoali_steps *steps)
{
    uint32_t block = me - l->first_server;
    bool empty = l->dedicated; /* the first arrival starts the sum */
    for (uint32_t k = 1; k <= l->workers; k++) {
        uint32_t worker = (block + k) % l->workers;
        if (worker == me)
            continue;
        uint8_t kind = empty ? SHOAL_RECV_SET : SHOAL_RECV_ADD;
        shoali_steps_add(steps, (shoal_step){kind, SHOAL_PUSH, 1, worker, block, 1, 1});
        empty = false;
    }
    shoali_steps_add(steps, (shoal_step){SHOAL_OWN, SHOAL_PULL, 1, me, block, 1, l->workers});
    for (uint32_t k = 1; k <= l->workers; k++) {
        uint32_t worker = (block + k) % l->workers;
        if (worker != me)
            shoali_steps_add(steps,
                             (shoal_step){SHOAL_SEND, SHOAL_PULL, 2, worker, block, 1, l->workers});
    }
}

static shoal_status build(const shoal_schedule_args *args, shoal_arena *arena,
                          shoal_schedule *schedule_out)
{
    layout l;
    shoali_steps steps;
    uint32_t me = args->me;
    SHOALI_TRY(lay_out(args, &l));
    shoali_steps_begin(arena, &steps);
    if (me < l.workers)
        work(&l, me, SHOAL_SEND, SHOAL_PUSH, &steps);
    if (me >= l.first_server && me - l.first_server < l.servers)
        serve(&l, me, &steps);
    if (me < l.workers)
        work(&l, me, SHOAL_RECV_SET, SHOAL_PULL, &steps);
    SHOALI_TRY(shoali_steps_end(&steps, l.servers, args->size > 1 ? 2 : 0, schedule_out));
    schedule_out->ahead = (uint32_t)((const params *)args->params)->ahead;
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"servers", SHOALI_KEY_INT, offsetof(params, servers), 1, SHOALI_MEMBERS_MAX, NULL, "1",
     "aggregators, each with an equal share of the elements"},
    {"dedicated", SHOALI_KEY_FLAG, offsetof(params, dedicated), 0, 0, NULL, "off",
     "the members beyond the contributors serve, instead of the first workers"},
    {"ahead", SHOALI_KEY_INT, offsetof(params, ahead), 0, 1 << 20, NULL, "8",
     "chunks that a worker may send before the first of them has come back; 0: no limit"},
};

const shoali_collective_row shoali_collective_worker_aggregator = {
    .name = "worker_aggregator",
    .paper = "Li et al., OSDI 2014; baseline of INCEPTIONN, MICRO 2018, figure 1(a), here with "
             "overlapping legs",
    .traits = SHOALI_COLL_DEDICATED,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .build = build,
};
