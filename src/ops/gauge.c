/* SPDX-License-Identifier: Apache-2.0 */
/* What the links of all ranks carry, measured when the first operation asks for it (a collective
 * with the trait RATED), once per epoch. All ranks send at once, each to the one k further
 * on, so every link carries one stream each way:
 *
 *   k = 1   0 -> 1 -> 2 -> 3 -> 0     every rank times what comes in; the longest time of all is
 *   k = 2   0 -> 2 -> 0, 1 -> 3 -> 1  agreed upon, so that all double or halve the length alike,
 *   k = 3   0 -> 3 -> 2 -> 1 -> 0     and k = 1 is repeated until a time means something
 *
 * That is done twice; the faster time counts. Then all rates are agreed upon in one all-reduce
 * (MAX: every value has one author). Operations that need them wait meanwhile, and all members
 * compute their lists from the same bits. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "ops/inner.h"

enum {
    FIRST_BYTES = 256 << 10,
    MOST_BYTES = 16 << 20,
    SHORT_US = 60 * 1000, /* below, a wait for the processor looks like a slow link */
    LONG_US = 3 * SHORT_US,
    PASSES = 2, /* the faster counts: whatever disturbs, disturbs one way */
    ARENA_BYTES = 1024,
    RELAYED_COST = 16
};
/* A group of its own: no operation of a user has its number. */
static const uint64_t GROUP = UINT64_C(0x7261746573000000);

typedef struct shoali_gauge {
    shoali_ops *ops;
    shoali_rates rates;
    bool known;
    shoal_arena *arena; /* of rates */
    float *out, *in;    /* [most / 4] */
    float *to;          /* as shoali_rates_judge wants it */
    float longest_us;   /* of this round */
    float rate;         /* of what has come in here */
    uint32_t most;      /* bytes */
    uint32_t shifts, shift, passes, round, open;
    size_t count;
    shoal_error error; /* status OK: none */
} shoali_gauge;

static void next_round(shoali_gauge *g);

/* ------------------------------------------------------------------ operations of its own */

static void note_failure(shoali_gauge *g, shoal_status status, const shoal_error *error)
{
    g->open--;
    if (status != SHOAL_OK && g->error.status == SHOAL_OK)
        g->error = *error;
}

static shoal_status start(shoali_gauge *g, shoal_op_desc *desc, uint64_t sequence,
                          void (*done)(void *ctx, shoal_status status, const shoal_error *error,
                                       const shoal_op_stats *stats))
{
    shoal_op *op;
    desc->id = (shoal_op_id){GROUP, sequence, 0, 0};
    desc->label = "rates";
    const shoali_op_extras extras = {.on_done = done, .done_ctx = g};
    SHOALI_TRY(shoali_op_make(g->ops, desc, &extras, SHOALI_MAIN_ROUND + g->round, &op));
    g->open++;
    const shoal_status status = shoali_run_start_own(op);
    g->open -= status != SHOAL_OK;
    return status;
}

/* ------------------------------------------------------------------ the end */

static void give_up_buffers(shoali_gauge *g)
{
    shoali_free(g->out);
    shoali_free(g->in);
    shoali_free(g->to);
    g->out = g->in = g->to = NULL;
}

/* Whoever waited goes on, or fails. */
static void release(shoali_gauge *g)
{
    give_up_buffers(g);
    for (shoal_op *op = g->ops->open; op != NULL; op = op->next_open) {
        if (!op->rounds.waits || op->ended || op->failing)
            continue;
        op->rounds.waits = false;
        if (!g->known) {
            (void)shoali_error_set(&g->error);
            shoali_run_fail(op, true);
        } else {
            shoali_run_go_on(op);
        }
    }
}

static void fail(shoali_gauge *g)
{
    if (g->error.status == SHOAL_OK)
        shoali_error_get(&g->error);
    if (g->open == 0)
        release(g);
}

/* What a relay carries takes the links of others: the order around a ring follows cables. */
static void discount_relays(shoali_gauge *g)
{
    const shoali_ops *ops = g->ops;
    const uint32_t ranks = ops->ranks;
    for (uint32_t k = 1; k <= g->shifts; k++)
        for (uint32_t from = 0; from < ranks; from++)
            if (ops->host.relayed(ops->host.ctx, from, (from + k) % ranks))
                g->to[(size_t)(k - 1) * ranks + from] /= RELAYED_COST;
}

static shoal_status judge(shoali_gauge *g)
{
    const shoali_ops *ops = g->ops;
    discount_relays(g);
    uint32_t *place = shoali_arena_array(g->arena, ops->ranks, sizeof *place);
    if (place == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < ops->ranks; i++)
        place[i] = ops->peers[i].place;
    SHOALI_TRY(shoali_rates_judge(g->to, g->shifts, ops->ranks, place, g->arena, &g->rates));
    if (ops->me == 0)
        for (uint32_t i = 0; i < ops->ranks; i++)
            if (g->rates.percent[i] < 100)
                shoali_log(INFO, "the link of rank %u (host %.40s) carries %u %% of the fastest's",
                           i, ops->peers[i].host, g->rates.percent[i]);
    return SHOAL_OK;
}

static void told_all(void *ctx, shoal_status status, const shoal_error *error,
                     const shoal_op_stats *stats)
{
    shoali_gauge *g = ctx;
    (void)stats;
    note_failure(g, status, error);
    if (g->error.status == SHOAL_OK && judge(g) == SHOAL_OK) {
        g->known = true;
        release(g);
    } else {
        fail(g);
    }
}

static shoal_status tell_all(shoali_gauge *g)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.reduce = SHOAL_MAX;
    desc.buf = g->to;
    desc.count = (size_t)g->shifts * g->ops->ranks;
    desc.collective = "halving_doubling";
    return start(g, &desc, g->ops->ranks + 2, told_all);
}

/* ------------------------------------------------------------------ a round */

static void keep_rate(shoali_gauge *g)
{
    const uint32_t ranks = g->ops->ranks, from = (g->ops->me + ranks - g->shift) % ranks;
    float *kept = &g->to[(size_t)(g->shift - 1) * ranks + from];
    *kept = g->rate > *kept ? g->rate : *kept;
}

/* All ranks come here with the same longest_us. Short times do not count: a shaper lets the first
 * bytes through at once. */
static void round_over(void *ctx, shoal_status status, const shoal_error *error,
                       const shoal_op_stats *stats)
{
    shoali_gauge *g = ctx;
    (void)stats;
    note_failure(g, status, error);
    bool brief = g->longest_us < SHORT_US && g->count < g->most / sizeof(float);
    if (brief)
        g->count *= 2;
    else if (g->longest_us > LONG_US && g->count > 1024)
        g->count /= 2;
    if (!brief || g->shift > 1) {
        keep_rate(g);
        g->shift++;
    }
    if (g->shift > g->shifts && ++g->passes < PASSES)
        g->shift = 1;
    g->round++;
    next_round(g);
}

static shoal_status compare_times(shoali_gauge *g)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.reduce = SHOAL_MAX;
    desc.buf = &g->longest_us;
    desc.count = 1;
    desc.collective = "halving_doubling";
    return start(g, &desc, g->ops->ranks + 1, round_over);
}

static void streamed(shoali_gauge *g)
{
    if (g->open == 0 && (g->error.status != SHOAL_OK || compare_times(g) != SHOAL_OK))
        fail(g);
}

static void sent(void *ctx, shoal_status status, const shoal_error *error,
                 const shoal_op_stats *stats)
{
    shoali_gauge *g = ctx;
    (void)stats;
    note_failure(g, status, error);
    streamed(g);
}

static void received(void *ctx, shoal_status status, const shoal_error *error,
                     const shoal_op_stats *stats)
{
    shoali_gauge *g = ctx;
    note_failure(g, status, error);
    g->longest_us = stats->duration_us > 0 ? (float)stats->duration_us : 1;
    g->rate = (float)(g->count * sizeof(float)) / g->longest_us * 1e6f;
    streamed(g);
}

/* From one rank to the one k further on. */
static shoal_status stream(shoali_gauge *g, uint32_t from, float *buf)
{
    const uint32_t members[] = {from, (from + g->shift) % g->ops->ranks};
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_BROADCAST;
    desc.members = members;
    desc.member_count = 2;
    desc.buf = buf;
    desc.count = g->count;
    return start(g, &desc, from + 1, from == g->ops->me ? sent : received);
}

static void next_round(shoali_gauge *g)
{
    const uint32_t ranks = g->ops->ranks, me = g->ops->me;
    shoal_status status = g->error.status;
    if (status == SHOAL_OK && g->shift > g->shifts) {
        status = tell_all(g);
    } else if (status == SHOAL_OK) {
        g->open++; /* until both are started */
        status = stream(g, (me + ranks - g->shift) % ranks, g->in);
        if (status == SHOAL_OK)
            status = stream(g, me, g->out);
        g->open--;
        if (status == SHOAL_OK) {
            streamed(g);
            return;
        }
    }
    if (status != SHOAL_OK)
        fail(g);
}

/* ------------------------------------------------------------------ from outside */

const shoali_rates *shoali_gauge_rates(const shoali_ops *ops)
{
    return ops->gauge != NULL && ops->gauge->known ? &ops->gauge->rates : NULL;
}

/* On one host no link is used: it is enough to see who is there. */
static uint32_t most_bytes(const shoali_ops *ops)
{
    for (uint32_t i = 1; i < ops->ranks; i++)
        if (ops->peers[i].place != ops->peers[0].place)
            return MOST_BYTES;
    return FIRST_BYTES;
}

static shoal_status open_gauge(shoali_ops *ops)
{
    const uint32_t most = most_bytes(ops);
    uint32_t shifts = ops->ranks - 1 < SHOALI_RATES_SHIFTS_MAX ? ops->ranks - 1
                                                               : SHOALI_RATES_SHIFTS_MAX;
    shoali_gauge *g = ops->gauge = shoali_alloc(sizeof *g);
    if (g == NULL)
        return SHOAL_ENOMEM;
    *g = (shoali_gauge){.ops = ops,
                        .arena = shoali_arena_create(ARENA_BYTES),
                        .out = shoali_alloc(most),
                        .in = shoali_alloc(most),
                        .most = most,
                        .to = shoali_alloc_array((size_t)shifts * ops->ranks, sizeof(float)),
                        .shifts = shifts,
                        .shift = 1,
                        .count = FIRST_BYTES / sizeof(float)};
    return g->arena != NULL && g->out != NULL && g->in != NULL && g->to != NULL ? SHOAL_OK
                                                                                : SHOAL_ENOMEM;
}

bool shoali_gauge_wanted(shoal_op *op)
{
    shoali_ops *ops = op->ops;
    if ((op->plan->collective.traits & SHOALI_COLL_RATED) == 0 || op->plan->member_count < 3 ||
        shoali_gauge_rates(ops) != NULL)
        return false;
    bool first = ops->gauge == NULL;
    op->rounds.waits = true;
    if (first && open_gauge(ops) != SHOAL_OK) {
        shoali_gauge_free(ops); /* the next one tries again */
        shoali_run_fail(op, true);
    } else if (first) {
        next_round(ops->gauge);
    } else if (ops->gauge->error.status != SHOAL_OK) {
        (void)shoali_error_set(&ops->gauge->error);
        shoali_run_fail(op, true);
    }
    return true;
}

void shoali_gauge_free(shoali_ops *ops)
{
    shoali_gauge *g = ops->gauge;
    if (g == NULL)
        return;
    give_up_buffers(g);
    shoali_arena_destroy(g->arena);
    shoali_free(g);
    ops->gauge = NULL;
}
