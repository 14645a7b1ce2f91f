/* SPDX-License-Identifier: Apache-2.0 */
/* DiLoCo: many local steps, then an outer Nesterov step on what the workers have moved on average
 * (the pseudo-gradient). States and formulas: outer.c.
 *
 *     fragments=F, delay=T   streaming: one of F ranges every H/F iterations, on its way while the
 *                            next T iterations compute
 *     --codec ...            of the pseudo-gradient, with error feedback where the codec brings it:
 *                            with chunk_topk:decay=D and momentum=0 this is SparseLoCo
 *     pace                   a round's bytes are spread over the delay (by the median of the last
 *                            steps, less an eighth): links are never full for its sake
 *     trust=median           updates that stand out are refused or shortened: trust.h
 *     quorum=Q, grace=auto   decoupled: a round begins when Q workers are there and the others are
 *                            later than those usually are (median + 4 MAD); means are weighted by
 *                            the samples that a worker has taken since its last round
 *
 * Differs from the papers: a worker that missed rounds takes base and outer momentum from a member
 * of its next one, and adds what it has moved since its own base. */
#include "base/error.h"
#include "shoal/codec.h"
#include "sync/outer.h"
#include "sync/outer_trust.h"

enum { GRACE_AUTO = -1 };
enum { TRUST_MEAN, TRUST_MEDIAN };

typedef struct params {
    int64_t every, fragments, delay, quorum, grace;
    double lr, momentum, keep;
    int32_t trust;
    bool pace;
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
    {"trust", SHOALI_KEY_CHOICE, offsetof(params, trust), 0, 0, "mean|median", "mean",
     "median: updates that are not finite, far too long or not along with the others are refused, "
     "long ones shortened; each travels by itself"},
    {"pace", SHOALI_KEY_FLAG, offsetof(params, pace), 0, 0, NULL, "on",
     "with delay: a round's bytes are spread over the time that it has"},
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

/* Each update is a broadcast: its codec has to work without the others'. */
static shoal_status fits(const void *any, uint32_t codec, uint32_t workers)
{
    const params *p = any;
    const uint32_t shared = SHOAL_CODEC_MEASURE | SHOAL_CODEC_SUMMABLE;
    if (p->trust != TRUST_MEDIAN)
        return SHOAL_OK;
    if (workers == 1 || workers == 2 || workers > SHOALI_TRUST_WORKERS)
        return shoali_fail(SHOAL_EINVAL,
                           "trust=median compares 3 to %d workers: of two nobody can tell which is "
                           "wrong, and an update of each is kept",
                           SHOALI_TRUST_WORKERS);
    if ((codec & SHOAL_CODEC_TRANSFORM) != 0 || (codec & shared) == shared)
        return shoali_fail(SHOAL_EINVAL,
                           "with trust=median each update travels by itself, and this "
                           "codec is for sums: take eden, int8, sign or topk");
    return SHOAL_OK;
}

static uint32_t traits_with(const void *any)
{
    const uint32_t traits = SHOALI_SYNC_SURVIVES | SHOALI_SYNC_SAMPLES | SHOALI_SYNC_CODED;
    return ((const params *)any)->trust == TRUST_MEDIAN ? traits : traits | SHOALI_SYNC_COLLECTIVE;
}

static uint32_t slots(const shoali_world *world)
{
    const params *p = world->params;
    return shoali_outer_slots(world) +
           (p->trust == TRUST_MEDIAN ? shoali_outer_trust_slots(world) : 0);
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
        .trust = p->trust == TRUST_MEDIAN,
        .pace = p->pace && p->delay > 0,
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
    .traits_with = traits_with,
    .fits = fits,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .check = check,
    .state_size = shoali_outer_bytes,
    .slots = slots,
    .carries = carries,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
