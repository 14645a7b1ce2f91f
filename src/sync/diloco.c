/* SPDX-License-Identifier: Apache-2.0 */
/* DiLoCo: many local steps, then an outer Nesterov step on what the workers have moved on average
 * (the pseudo-gradient). States and formulas: outer.c.
 *
 *     fragments=F, delay=T   streaming: one of F ranges every H/F iterations, on its way while the
 *                            next T iterations compute
 *     --codec ...            of the pseudo-gradient, with error feedback where the codec brings it:
 *                            with chunk_topk:decay=D and momentum=0 this is SparseLoCo
 *     quorum=Q, grace=auto   decoupled: a round begins when Q workers are there and the others are
 *                            later than those usually are (median + 4 MAD); means are weighted by
 *                            the samples that a worker has taken since its last round
 *
 * Differs from the papers: a worker that missed rounds takes base and outer momentum from a member
 * of its next one, and adds what it has moved since its own base. */
#include "base/error.h"
#include "sync/outer.h"

enum { GRACE_AUTO = -1 };

typedef struct params {
    int64_t every, fragments, delay, quorum, grace;
    double lr, momentum, keep;
} params;

static const shoali_key keys[] = {
    {"every", SHOALI_KEY_INT, offsetof(params, every), 1, 1 << 20, NULL, "128",
     "iterations from one outer step to the next of the same fragment"},
    {"lr", SHOALI_KEY_FLOAT, offsetof(params, lr), 0, 10, NULL, "0.7", "of the outer step"},
    {"momentum", SHOALI_KEY_FLOAT, offsetof(params, momentum), 0, 0.999, NULL, "0.9",
     "of the outer step, after Nesterov"},
    {"fragments", SHOALI_KEY_INT, offsetof(params, fragments), 1, 1024, NULL, "1",
     "ranges of whole tensors that take turns; divides every"},
    {"delay", SHOALI_KEY_INT, offsetof(params, delay), 0, 1 << 20, NULL, "0",
     "iterations that a round may take behind the compute's back; below every / fragments"},
    {"keep", SHOALI_KEY_FLOAT, offsetof(params, keep), 0, 0.99, NULL, "0",
     "part of a worker's own parameters that stays after a round"},
    {"quorum", SHOALI_KEY_INT, offsetof(params, quorum), 0, 1 << 14, NULL, "0",
     "workers that are enough for a round; 0: all have to be there"},
    {"grace", SHOALI_KEY_INT, offsetof(params, grace), GRACE_AUTO, 1 << 30, NULL, "-1",
     "milliseconds that a quorum waits for the others; -1: auto, as long as they usually take"},
};

static uint32_t max_staleness(const void *any)
{
    const params *p = any;
    return p->quorum > 0 ? SHOALI_STALENESS_UNBOUNDED : (uint32_t)p->every;
}

static shoal_status check(const void *any)
{
    const params *p = any;
    if (p->every % p->fragments != 0)
        return shoali_fail(SHOAL_EINVAL, "diloco: every=%lld is no multiple of fragments=%lld",
                           (long long)p->every, (long long)p->fragments);
    if (p->delay >= p->every / p->fragments)
        return shoali_fail(SHOAL_EINVAL, "diloco: delay=%lld is not below every / fragments = %lld",
                           (long long)p->delay, (long long)(p->every / p->fragments));
    return SHOAL_OK;
}

static shoali_outer_options options_of(const params *p)
{
    uint64_t grace = p->grace == GRACE_AUTO ? UINT64_MAX : (uint64_t)p->grace * 1000;
    return (shoali_outer_options){
        .name = "diloco",
        .every = (uint64_t)p->every,
        .delay = (uint64_t)p->delay,
        .fragments = (uint32_t)p->fragments,
        .lr = (float)p->lr,
        .momentum = (float)p->momentum,
        .keep = (float)p->keep,
        .coded = true,
        .meeting = {.quorum = (uint32_t)p->quorum, .grace_us = grace},
    };
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    shoali_outer_options options = {.name = NULL};
    if (event->kind == SHOALI_EV_START)
        options = options_of(event->world->params);
    shoali_outer_event(state, &options, event, actions);
    return SHOAL_OK;
}

static bool carries(const shoali_world *world, uint32_t *slot_out)
{
    *slot_out = shoali_outer_momentum_slot();
    return ((const params *)world->params)->momentum > 0;
}

const shoali_sync_row shoali_sync_diloco = {
    .name = "diloco",
    .paper = "Douillard et al., arXiv 2311.08105; streaming: 2501.18512; decoupled: 2604.21428",
    .traits = SHOALI_SYNC_SURVIVES | SHOALI_SYNC_SAMPLES | SHOALI_SYNC_CODED |
              SHOALI_SYNC_COLLECTIVE,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .check = check,
    .state_size = shoali_outer_bytes,
    .slots = shoali_outer_slots,
    .carries = carries,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
