/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: BASE, the parameters after the last round, equal on all that took part; MOMENTUM, of the
 * outer step, equal as well; MOVED, what travels. States of a worker:
 *
 *              STEPPING (no round)              MET (a round runs)           behind AFTER, waiting
 *   BEFORE     GO(apply)                        GO(apply)                    .
 *   AFTER      due: MOVED = w (BASE - PARAM),   delay over: -> waiting       .
 *              arrive -> MET; GO if delay > 0   else GO
 *   called     .                                OPs (below)                  OPs
 *   OPs done   .                                .                            outer step, GO
 *      failed  .                                arrive again                 arrive again
 *   FINISH     finale.h                         .                            .
 *   STOP       CANCEL; GO(stop) once nothing is open
 *
 * A round is the sum of MOVED over its members; then, on each, with W the sum of their weights,
 *
 *     MOMENTUM = mu MOMENTUM + MOVED / W
 *     BASE     = BASE - lr (MOVED / W + mu MOMENTUM)        (Nesterov)
 *     PARAM    = (1 - keep) BASE + keep PARAM
 *
 * The weight of a worker is the number of samples since its last round; where all take equally
 * many, an iteration counts as one. Who missed rounds, or whose last one broke off half-way, has an
 * older version; it first takes BASE and MOMENTUM from a member that is up to date (two broadcasts
 * beside the sum). So a crash in the middle of a round costs that round, never the agreement.
 * Fragments follow each other by version, so all members of a round mean the same. */
#include "sync/outer.h"
#include "sync/outer_trust.h"

#include <string.h>

#include "base/log.h"

enum { BASE = SHOALI_SLOT, MOMENTUM, MOVED, FINALE_SLOT = 3, SLOTS = SHOALI_OUTER_SLOTS };
enum { ID_SUM, ID_BASE, ID_MOMENTUM };

static size_t round_up(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

size_t shoali_outer_bytes(const shoali_world *world)
{
    return round_up(sizeof(shoali_outer)) + round_up(shoali_finale_bytes(world)) +
           shoali_meeting_bytes(world);
}

uint32_t shoali_outer_slots(const shoali_world *world)
{
    (void)world;
    return SLOTS;
}

uint32_t shoali_outer_momentum_slot(void)
{
    return MOMENTUM - SHOALI_SLOT;
}

/* AFTER has its answer, or a worker that wants to finish is through with its last round. */
static void go(shoali_outer *o, uint64_t now_us, shoali_actions *actions)
{
    const shoali_event finish = {.kind = SHOALI_EV_FINISH};
    uint32_t gone;
    o->waiting = false;
    o->went_us = now_us;
    if (o->finishing) {
        (void)shoali_finale_event(&o->finale, &finish, &gone, actions);
        return;
    }
    shoali_act_go(actions, &(shoal_verdict){.iteration = o->iteration});
}

static void fail(shoali_outer *o, shoal_status status, const char *text, shoali_actions *actions)
{
    o->over = true;
    shoali_finale_fail(&o->finale, status, text, actions);
}

/* ---------------------------------------------------------------- fragments */

static void choose_fragment(shoali_outer *o, uint64_t version)
{
    uint32_t parts = o->options.fragments, part = (uint32_t)(version % parts);
    o->offset = shoali_tensor_boundary(o->world, part, parts);
    o->count = shoali_tensor_boundary(o->world, part + 1, parts) - o->offset;
}

/* ---------------------------------------------------------------- a round */

/* Samples of a regular worker from one round to the next. */
static float regular(const shoali_outer *o)
{
    return (float)(o->options.every * o->batch);
}

/* w (BASE - PARAM), where a regular worker has w = 1; one without a base of its own adds none. */
static void snapshot(shoali_outer *o, shoali_actions *actions)
{
    float weight = (float)o->counted / regular(o);
    const shoali_mix_term moved[] = {{BASE, weight}, {SHOALI_PARAM, -weight}};
    choose_fragment(o, o->version);
    o->later = 0;
    if (o->count > 0)
        shoali_act_mix(actions, MOVED, o->offset, o->count, moved, o->lost ? 0 : 2);
    if (o->options.trust && o->count > 0)
        shoali_outer_trust_moved(o, actions);
}

/* How long this worker computes on before it waits for the round that it arrives for. */
static uint64_t spare_us(const shoali_outer *o)
{
    uint64_t steps = o->due + o->options.delay - o->iteration;
    bool waits = o->iteration >= o->due + o->options.delay || o->finishing;
    return o->options.pace && !waits ? steps * shoali_tempo_median_us(&o->steps) : 0;
}

static void arrive(shoali_outer *o, uint64_t now_us, shoali_actions *actions)
{
    snapshot(o, actions);
    o->meeting.spare_us = spare_us(o);
    shoali_meeting_arrive(&o->meeting, o->lost ? 0 : o->version, o->lost ? 0 : o->counted, now_us,
                          actions);
}

static void start_sum(shoali_outer *o, const shoali_call *call, shoali_actions *actions)
{
    if (o->count == 0)
        return; /* a fragment without a tensor */
    if (o->options.trust) {
        shoali_outer_trust_send(o, call, actions);
        return;
    }
    shoali_act_op(actions, &(shoali_sync_op){.id = call->id + ID_SUM,
                                             .kind = SHOALI_SYNC_ALL_REDUCE,
                                             .members = call->members,
                                             .member_count = call->member_count,
                                             .contributors = call->member_count,
                                             .tensor = MOVED,
                                             .offset = o->offset,
                                             .count = o->count,
                                             .push_coded = o->options.coded,
                                             .pull_coded = o->options.coded,
                                             .within_us = o->within_us,
                                             .iteration = o->iteration});
    o->open++;
}

static void start_copy(shoali_outer *o, const shoali_call *call, uint32_t which, uint32_t tensor,
                       shoali_actions *actions)
{
    shoali_act_op(actions, &(shoali_sync_op){.id = call->id + which,
                                             .kind = SHOALI_SYNC_BROADCAST,
                                             .members = call->outdated,
                                             .member_count = call->outdated_count,
                                             .contributors = call->outdated_count,
                                             .tensor = tensor,
                                             .count = o->world->count,
                                             .within_us = o->within_us,
                                             .iteration = o->iteration});
    o->open++;
}

static void conclude(shoali_outer *o, uint64_t now_us, shoali_actions *actions);

static void run_call(shoali_outer *o, uint64_t now_us, shoali_actions *actions)
{
    const shoali_call *call = &o->meeting.call;
    bool behind = o->version < call->version || o->lost, copies = false;
    for (uint32_t i = 0; i < call->outdated_count; i++)
        copies |= call->outdated[i] == o->world->me;
    shoali_meeting_take(&o->meeting);
    o->base_id = call->id;
    o->weight = call->weight;
    o->next_version = call->version + 1;
    o->failed = o->nonfinite = false;
    o->within_us = o->finishing ? 0 : call->spare_us / 8 * 7; /* the rest: for what comes late */
    if (o->within_us > 0)
        shoali_log(DEBUG, "nobody waits for this round for %.3f s: it takes %.3f s of them",
                   (double)call->spare_us * 1e-6, (double)o->within_us * 1e-6);
    if (behind && o->options.fragments > 1) { /* what moved is of another fragment */
        choose_fragment(o, call->version);
        shoali_act_mix(actions, MOVED, o->offset, o->count, NULL, 0);
    }
    start_sum(o, call, actions);
    if (copies && o->world->count > 0) {
        o->lost |= behind; /* until the copies are there */
        start_copy(o, call, ID_BASE, BASE, actions);
        if (o->options.momentum > 0)
            start_copy(o, call, ID_MOMENTUM, MOMENTUM, actions);
    }
    if (o->open == 0)
        conclude(o, now_us, actions);
}

static void outer_step(const shoali_outer *o, shoali_actions *actions)
{
    float mu = o->options.momentum, lr = o->options.lr;
    float mean = o->weight > 0 ? regular(o) / (float)o->weight : 0;
    const shoali_mix_term momentum[] = {{MOMENTUM, mu}, {MOVED, mean}};
    const shoali_mix_term nesterov[] = {{BASE, 1}, {MOVED, -lr * mean}, {MOMENTUM, -lr * mu}};
    if (mu > 0)
        shoali_act_mix(actions, MOMENTUM, o->offset, o->count, momentum, 2);
    shoali_act_mix(actions, BASE, o->offset, o->count, nesterov, mu > 0 ? 3 : 2);
}

static void take_base(const shoali_outer *o, size_t offset, size_t count, shoali_actions *actions)
{
    const shoali_mix_term terms[] = {{SHOALI_PARAM, o->options.keep}, {BASE, 1 - o->options.keep}};
    if (o->options.keep > 0)
        shoali_act_mix(actions, SHOALI_PARAM, offset, count, terms, 2);
    else
        shoali_act_mix(actions, SHOALI_PARAM, offset, count, &terms[1], 1);
}

/* The caller waits and all operations of the round are done. */
static void conclude(shoali_outer *o, uint64_t now_us, shoali_actions *actions)
{
    bool copied = o->lost || o->version + 1 < o->next_version;
    if (o->base_id == 0 || o->open > 0)
        return;
    if (!o->waiting)
        return;
    if (o->failed) {
        o->base_id = 0;
        arrive(o, now_us, actions);
        return;
    }
    if (o->options.trust && o->count > 0)
        shoali_outer_trust_judge(o, actions);
    if (!o->nonfinite && o->count > 0)
        outer_step(o, actions);
    if (copied)
        take_base(o, 0, o->world->count, actions);
    else if (o->count > 0)
        take_base(o, o->offset, o->count, actions);
    o->version = o->next_version;
    o->counted = o->later;
    o->base_id = 0;
    o->due = UINT64_MAX;
    o->lost = false;
    go(o, now_us, actions);
}

/* ---------------------------------------------------------------- events */

static void after(shoali_outer *o, const shoali_event *event, shoali_actions *actions)
{
    uint64_t interval = o->options.every / o->options.fragments, now_us = event->now_us;
    uint32_t samples = event->step.batch > 0 ? event->step.samples : 1;
    o->batch = event->step.batch > 0 ? event->step.batch : 1;
    if (o->went_us > 0)
        shoali_tempo_add(&o->steps, now_us - o->went_us);
    o->iteration++;
    o->counted += samples;
    o->later += samples;
    if (o->due == UINT64_MAX && o->iteration % interval == 0) {
        o->due = o->iteration;
        arrive(o, now_us, actions);
    }
    o->waiting = true;
    if (o->due == UINT64_MAX || o->iteration - o->due < o->options.delay)
        go(o, now_us, actions);
    else
        conclude(o, now_us, actions);
}

static bool is_void(shoal_status status)
{
    return status == SHOAL_EPEER || status == SHOAL_ECANCELLED || status == SHOAL_ETIMEDOUT ||
           status == SHOAL_EMISMATCH;
}

static void go_stop(shoali_outer *o, shoali_actions *actions)
{
    if (o->open > 0 || o->finale.open)
        return;
    o->over = true;
    shoali_act_go(actions, &(shoal_verdict){.iteration = o->iteration, .stop = true});
}

static void op_done(shoali_outer *o, const shoali_event *event, shoali_actions *actions)
{
    shoal_status status = event->op.status;
    uint64_t which = shoali_outer_trust_base(event->op.id) - o->base_id;
    if (o->open == 0 || which >= SHOALI_MEETING_IDS)
        return;
    o->open--;
    if (o->leaving) {
        go_stop(o, actions);
        return;
    }
    if (o->options.trust && status == SHOAL_ENOTFINITE) {
        shoali_outer_trust_spoil(o, event->op.id, actions);
        status = SHOAL_OK;
    }
    bool skip = o->world->nonfinite == SHOAL_NONFINITE_SKIP && which == ID_SUM;
    if (status == SHOAL_ENOTFINITE && skip) {
        o->nonfinite = true;
    } else if (status != SHOAL_OK && !is_void(status)) {
        fail(o, status, event->op.text, actions);
        return;
    }
    o->failed |= status != SHOAL_OK && status != SHOAL_ENOTFINITE;
    conclude(o, event->now_us, actions);
}

static void tell_all(const shoali_outer *o, shoali_outer_word word, shoali_actions *actions)
{
    for (uint64_t which = 0; o->open > 0 && which <= ID_MOMENTUM; which++)
        word(actions, o->base_id + which);
    if (o->options.trust && o->open > 0)
        shoali_outer_trust_tell(o, word, actions);
}

static void cancel_all(const shoali_outer *o, shoali_actions *actions)
{
    tell_all(o, shoali_act_cancel, actions);
}

static void start(shoali_outer *o, const shoali_outer_options *options, const shoali_world *world,
                  shoali_actions *actions)
{
    uint8_t *at = (uint8_t *)o + round_up(sizeof *o);
    o->world = world;
    o->options = *options;
    o->iteration = world->iteration;
    o->due = UINT64_MAX;
    shoali_finale_start(&o->finale, world, FINALE_SLOT, at);
    if (options->trust)
        o->finale.source = BASE; /* nobody has judged what PARAM is */
    at += round_up(shoali_finale_bytes(world));
    shoali_meeting_start(&o->meeting, world, &o->finale, &options->meeting, at);
    if (world->servers == 0 && world->workers <= SHOALI_FINALE_WORKERS)
        return;
    o->over = true;
    shoali_act_fail(actions, SHOAL_EINVAL, -1,
                    "%s has no use for %u dedicated servers, and room for %d workers",
                    options->name, world->servers, SHOALI_FINALE_WORKERS);
}

/* The base is what PARAM holds before the first step of all. */
static void before(shoali_outer *o, shoali_actions *actions)
{
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    if (!o->begun)
        shoali_act_mix(actions, BASE, 0, o->world->count, &param, 1);
    o->begun = true;
    shoali_act_go(actions,
                  &(shoal_verdict){.apply = true, .grad_scale = 1, .iteration = o->iteration});
}

static void own_event(shoali_outer *o, const shoali_event *event, shoali_actions *actions)
{
    switch (event->kind) {
    case SHOALI_EV_BEFORE:
        before(o, actions);
        break;
    case SHOALI_EV_AFTER:
        after(o, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        op_done(o, event, actions);
        break;
    case SHOALI_EV_MESSAGE:
        fail(o, SHOAL_ECORRUPT, "a peer sent bytes that are no message of this protocol", actions);
        break;
    case SHOALI_EV_STOP:
        o->leaving = true;
        (void)shoali_finale_leave(&o->finale, actions);
        cancel_all(o, actions);
        go_stop(o, actions);
        break;
    default: /* READY: gradients do not travel */
        break;
    }
}

/* Others may be in the round that is under way: it comes first. */
static void finish(shoali_outer *o, uint64_t now_us, shoali_actions *actions)
{
    o->finale.iteration = o->iteration;
    o->finishing = o->waiting = true;
    if (o->within_us > 0)
        tell_all(o, shoali_act_hurry, actions);
    if (o->due == UINT64_MAX)
        go(o, now_us, actions);
    else
        conclude(o, now_us, actions);
}

void shoali_outer_event(shoali_outer *o, const shoali_outer_options *options,
                        const shoali_event *event, shoali_actions *actions)
{
    uint32_t gone;
    if (event->kind == SHOALI_EV_START) {
        start(o, options, event->world, actions);
        return;
    }
    if (o->over)
        return;
    shoali_finale_news news = SHOALI_TAKEN;
    if (event->kind == SHOALI_EV_FINISH)
        finish(o, event->now_us, actions);
    else
        news = shoali_finale_event(&o->finale, event, &gone, actions);
    if (o->leaving && news != SHOALI_NOT_MINE) {
        go_stop(o, actions);
        return;
    }
    if (news == SHOALI_NOT_MINE && !shoali_meeting_event(&o->meeting, event, actions))
        own_event(o, event, actions);
    bool mine = shoali_meeting_poll(&o->meeting, event->now_us, actions);
    if (mine && !o->over && !o->leaving && !o->finale.asked) {
        if (o->open == 0)
            run_call(o, event->now_us, actions);
        else
            cancel_all(o, actions);
    }
}
