/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: PUSH (a gradient comes), FINISH, LEAVE. Both legs are operations of one worker and one
 * server; k counts a worker's iterations. A worker, per server:
 *
 *              COMPUTE                        WAIT (asked)
 *   READY      PUSH, push k                   .
 *   push done  pull k, patiently              pull k, patiently
 *   pull done  .                              all: PARAM = GRAD, GO
 *   FINISH     FINISH, pull of the end        .
 *
 * A server, per worker:
 *
 *              push k done                             all through with a step, or w left
 *   alone      APPLY at 1 / workers; owe w weights     .
 *   together   same base: add; else drop it, owe w     APPLY at 1 / added; owe all who gave
 *   owed       pull, once w is at most `staleness` ahead of the slowest
 *   FINISH w   .                                       all FINISHed: owe everybody the end
 *   LEAVE w, w lost: forget it. All forgotten: GO(stop)
 *
 * A gradient alone counts 1 / workers: an epoch moves weights as far as in lockstep, for the same
 * learning rate. A slot per worker holds its gradient, then its weights; one more the sum. */
#include "sync/served.h"

#include <stdio.h>

#include "sync/pack.h"

enum { PUSH = 1, FINISH, LEAVE, MESSAGE_BYTES = 9 };
enum { LEG_PUSH, LEG_PULL, LEGS };

size_t shoali_served_bytes(const shoali_world *world)
{
    size_t clients = world->workers * sizeof(shoali_client);
    size_t legs = world->servers * sizeof(shoali_leg);
    return sizeof(shoali_served) + (world->role == SHOALI_SERVER ? clients : legs);
}

uint32_t shoali_served_slots(const shoali_world *world)
{
    return world->role == SHOALI_SERVER ? world->workers + 1 : 0;
}

/* ---------------------------------------------------------------- names */

static uint64_t leg_id(const shoali_served *d, uint32_t worker, uint32_t server, uint64_t k,
                       uint32_t leg)
{
    const shoali_world *w = d->world;
    return ((k * w->workers + worker) * w->servers + (server - w->workers)) * LEGS + leg;
}

static void say(uint32_t peer, uint8_t kind, uint64_t value, shoali_actions *actions)
{
    uint8_t bytes[MESSAGE_BYTES] = {kind};
    shoali_pack_u64(bytes + 1, value);
    shoali_act_send(actions, peer, bytes, sizeof bytes);
}

static void start_leg(shoali_served *d, uint32_t worker, uint32_t server, uint64_t k, uint32_t leg,
                      uint32_t tensor, size_t offset, size_t count, shoali_actions *actions)
{
    const uint32_t members[] = {worker, server};
    shoali_act_op(actions, &(shoali_sync_op){.id = leg_id(d, worker, server, k, leg),
                                             .kind = SHOALI_SYNC_BROADCAST,
                                             .members = members,
                                             .member_count = 2,
                                             .contributors = 2,
                                             .root = leg == LEG_PUSH ? 0 : 1,
                                             .tensor = tensor,
                                             .offset = offset,
                                             .count = count,
                                             .pull_coded = leg == LEG_PUSH || d->options.pull_coded,
                                             .patient = leg == LEG_PULL,
                                             .checked = leg == LEG_PUSH,
                                             .iteration = k});
    d->open++;
}

static void go_stop(shoali_served *d, shoali_actions *actions)
{
    if (d->open > 0)
        return;
    if (!d->leaving) /* because a server left: the others shall not wait */
        say(SHOALI_EVERYBODY, LEAVE, 0, actions);
    d->over = true;
    shoali_act_go(actions, &(shoal_verdict){.iteration = d->iteration, .stop = true});
}

static void fail(shoali_served *d, shoal_status status, int32_t peer, const char *text,
                 shoali_actions *actions)
{
    say(SHOALI_EVERYBODY, LEAVE, 0, actions);
    d->over = true;
    shoali_act_fail(actions, status, peer, "%s", text);
}

void shoali_served_start(shoali_served *d, const shoali_world *world,
                         const shoali_served_options *options)
{
    d->world = world;
    d->options = *options;
    d->iteration = world->iteration;
    if (world->role == SHOALI_SERVER) {
        uint32_t mine = world->me - world->workers;
        d->clients = (shoali_client *)(d + 1);
        d->offset = shoali_tensor_boundary(world, mine, world->servers);
        d->count = shoali_tensor_boundary(world, mine + 1, world->servers) - d->offset;
        d->iteration = 0;
        for (uint32_t w = 0; w < world->workers; w++)
            d->clients[w].clock = world->iteration;
        return;
    }
    d->legs = (shoali_leg *)(d + 1);
    for (uint32_t s = 0; s < world->servers; s++) {
        d->legs[s].offset = shoali_tensor_boundary(world, s, world->servers);
        d->legs[s].count = shoali_tensor_boundary(world, s + 1, world->servers) - d->legs[s].offset;
        d->legs[s].done = d->legs[s].count == 0;
    }
}

/* ---------------------------------------------------------------- a worker */

static void push_ready(shoali_served *d, size_t low, shoali_actions *actions)
{
    for (uint32_t s = d->world->servers; s-- > 0 && !d->ending;) {
        shoali_leg *leg = &d->legs[s];
        uint32_t server = d->world->workers + s;
        if (leg->pushing || leg->pulling || leg->done || leg->offset < low)
            continue;
        leg->pushing = true;
        say(server, PUSH, d->iteration, actions);
        start_leg(d, d->world->me, server, d->iteration, LEG_PUSH, SHOALI_GRAD, leg->offset,
                  leg->count, actions);
    }
}

static void pull(shoali_served *d, uint32_t s, shoali_actions *actions)
{
    shoali_leg *leg = &d->legs[s];
    leg->pulling = true;
    start_leg(d, d->world->me, d->world->workers + s, d->iteration, LEG_PULL, SHOALI_GRAD,
              leg->offset, leg->count, actions);
}

/* All weights are here and the caller waits. */
static void conclude(shoali_served *d, shoali_actions *actions)
{
    const shoali_mix_term grad = {SHOALI_GRAD, 1};
    for (uint32_t s = 0; s < d->world->servers; s++)
        if (!d->legs[s].done)
            return;
    if (!d->asked)
        return;
    shoal_verdict verdict = {.skipped = d->skipped,
                             .grad_scale = 1.0f / (float)d->world->workers,
                             .iteration = d->iteration};
    d->asked = d->skipped = false;
    shoali_act_mix(actions, SHOALI_PARAM, 0, d->world->count, &grad, 1);
    shoali_act_go(actions, &verdict);
}

static void next(shoali_served *d, shoali_actions *actions)
{
    d->iteration++;
    for (uint32_t s = 0; s < d->world->servers; s++)
        d->legs[s].pushing = d->legs[s].pulling = d->legs[s].done = false;
    for (uint32_t s = 0; s < d->world->servers; s++)
        d->legs[s].done = d->legs[s].count == 0;
    if (d->ending)
        go_stop(d, actions);
    else
        shoali_act_go(actions, &(shoal_verdict){.grad_scale = 1.0f / (float)d->world->workers,
                                                .iteration = d->iteration});
}

/* Everybody gets the same weights, once the last worker has finished. */
static void finish(shoali_served *d, shoali_actions *actions)
{
    d->asked = true;
    for (uint32_t s = 0; s < d->world->servers; s++) {
        say(d->world->workers + s, FINISH, d->iteration, actions);
        if (!d->legs[s].done)
            pull(d, s, actions);
    }
}

static void worker_op_done(shoali_served *d, const shoali_event *event, shoali_actions *actions)
{
    shoal_status status = event->op.status;
    uint64_t first = leg_id(d, d->world->me, d->world->workers, d->iteration, LEG_PUSH);
    uint64_t which = event->op.id - first;
    shoali_leg *leg = which < (uint64_t)d->world->servers * LEGS ? &d->legs[which / LEGS] : NULL;
    bool pushed = which % LEGS == LEG_PUSH;
    d->open--;
    if (d->leaving || (d->ending && d->asked)) {
        go_stop(d, actions);
        return;
    }
    if (leg == NULL || d->ending)
        return;
    bool skip = status == SHOAL_ENOTFINITE && d->world->nonfinite == SHOAL_NONFINITE_SKIP;
    if (status == SHOAL_ECANCELLED) {
        d->ending = true; /* the server ends its job */
        if (d->asked)
            go_stop(d, actions);
        return;
    }
    if (status != SHOAL_OK && !skip) {
        fail(d, status, -1, event->op.text, actions);
        return;
    }
    d->skipped |= skip;
    if (pushed) {
        pull(d, (uint32_t)(which / LEGS), actions);
        return;
    }
    leg->done = true;
    conclude(d, actions);
}

static void cancel_legs(const shoali_served *d, shoali_actions *actions)
{
    const shoali_world *w = d->world;
    for (uint32_t s = 0; s < w->servers; s++)
        for (uint32_t leg = 0; leg < LEGS; leg++)
            shoali_act_cancel(actions, leg_id(d, w->me, w->workers + s, d->iteration, leg));
}

/* A server has left: nothing can be had any more. */
static void end_with_server(shoali_served *d, shoali_actions *actions)
{
    d->ending = true;
    cancel_legs(d, actions);
    if (d->asked)
        go_stop(d, actions);
}

/* ---------------------------------------------------------------- a server */

static uint32_t active(const shoali_served *d)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < d->world->workers; w++)
        count += !d->clients[w].out && !d->clients[w].finished;
    return count;
}

static uint64_t slowest(const shoali_served *d)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < d->world->workers; w++)
        if (!d->clients[w].out && !d->clients[w].finished && d->clients[w].clock < least)
            least = d->clients[w].clock;
    return least;
}

static bool may_go_on(const shoali_served *d, const shoali_client *client)
{
    if (client->finished)
        return active(d) == 0;
    if (d->options.together || d->options.staleness == SHOALI_STALENESS_UNBOUNDED)
        return true;
    return client->clock <= slowest(d) + d->options.staleness;
}

/* Send weights to all who are owed them and may have them. */
static void pay(shoali_served *d, shoali_actions *actions)
{
    const shoali_mix_term param = {SHOALI_PARAM, 1};
    for (uint32_t w = 0; w < d->world->workers; w++) {
        shoali_client *client = &d->clients[w];
        uint64_t k = client->finished ? client->clock : client->clock - 1;
        if (d->count == 0 || client->out || !client->owed || client->pulling ||
            !may_go_on(d, client))
            continue;
        client->owed = false;
        client->pulling = true;
        client->base = d->iteration;
        shoali_act_mix(actions, SHOALI_SLOT + w, d->offset, d->count, &param, 1);
        start_leg(d, w, d->world->me, k, LEG_PULL, SHOALI_SLOT + w, d->offset, d->count, actions);
    }
}

/* Together: enough gradients for a step? */
static void step_together(shoali_served *d, shoali_actions *actions)
{
    uint32_t there = active(d), sum = SHOALI_SLOT + d->world->workers;
    uint32_t enough = there > d->options.backup ? there - d->options.backup : 1;
    if (!d->options.together || d->got == 0 || d->got < enough)
        return;
    if (d->added > 0)
        shoali_act_apply(actions, sum, d->offset, d->count, d->iteration, 1.0f / (float)d->added);
    for (uint32_t w = 0; w < d->world->workers; w++) {
        shoali_client *client = &d->clients[w];
        bool gave = client->clock > 0 && client->base == UINT64_MAX;
        client->owed |= gave;
    }
    d->iteration++;
    d->got = d->added = 0;
}

static void take_gradient(shoali_served *d, uint32_t w, bool finite, shoali_actions *actions)
{
    shoali_client *client = &d->clients[w];
    uint32_t sum = SHOALI_SLOT + d->world->workers;
    const shoali_mix_term terms[] = {{SHOALI_SLOT + w, 1}, {sum, 1}};
    client->clock++;
    if (!d->options.together) {
        if (finite)
            shoali_act_apply(actions, SHOALI_SLOT + w, d->offset, d->count, client->clock - 1,
                             1.0f / (float)d->world->workers);
        client->owed = true;
        return;
    }
    if (client->base != d->iteration) { /* too late for its step */
        client->owed = true;
        return;
    }
    if (finite)
        shoali_act_mix(actions, sum, d->offset, d->count, terms, d->added > 0 ? 2 : 1);
    d->added += finite;
    d->got++;
    client->base = UINT64_MAX; /* it gave */
}

/* After any change of who is there. */
static void serve(shoali_served *d, shoali_actions *actions)
{
    bool anybody = false;
    step_together(d, actions);
    pay(d, actions);
    for (uint32_t w = 0; w < d->world->workers; w++)
        anybody |= !d->clients[w].out;
    if (!anybody) {
        d->leaving = true;
        go_stop(d, actions);
    }
}

static void cancel_client(const shoali_served *d, uint32_t w, shoali_actions *actions)
{
    const shoali_client *client = &d->clients[w];
    uint64_t k = client->pushing || client->finished ? client->clock : client->clock - 1;
    if (client->pushing)
        shoali_act_cancel(actions, leg_id(d, w, d->world->me, k, LEG_PUSH));
    if (client->pulling)
        shoali_act_cancel(actions, leg_id(d, w, d->world->me, k, LEG_PULL));
}

static void forget(shoali_served *d, uint32_t w, shoali_actions *actions)
{
    if (w >= d->world->workers || d->clients[w].out)
        return;
    cancel_client(d, w, actions);
    d->clients[w].out = true;
    serve(d, actions);
}

static void server_op_done(shoali_served *d, const shoali_event *event, shoali_actions *actions)
{
    const shoali_world *world = d->world;
    uint32_t w = (uint32_t)(event->op.id / LEGS / world->servers % world->workers);
    shoali_client *client = &d->clients[w];
    shoal_status status = event->op.status;
    bool pushed = event->op.id % LEGS == LEG_PUSH;
    bool bad = status == SHOAL_ENOTFINITE;
    d->open--;
    if (d->leaving) {
        go_stop(d, actions);
        return;
    }
    if (bad && world->nonfinite == SHOAL_NONFINITE_STOP) {
        fail(d, status, -1, event->op.text, actions);
        return;
    }
    if (pushed)
        client->pushing = false;
    else
        client->pulling = false;
    if (client->out)
        return;
    if (status != SHOAL_OK && !bad) { /* it left, or is lost: without it */
        forget(d, w, actions);
        return;
    }
    if (pushed)
        take_gradient(d, w, !bad, actions);
    serve(d, actions);
}

static void on_push(shoali_served *d, uint32_t w, uint64_t k, shoali_actions *actions)
{
    shoali_client *client = &d->clients[w];
    if (client->out || client->pushing || k != client->clock)
        return; /* nothing that a worker of ours says */
    client->pushing = true;
    start_leg(d, w, d->world->me, k, LEG_PUSH, SHOALI_SLOT + w, d->offset, d->count, actions);
}

static void server_message(shoali_served *d, uint32_t peer, uint8_t kind, uint64_t value,
                           shoali_actions *actions)
{
    if (kind == PUSH) {
        on_push(d, peer, value, actions);
    } else if (kind == LEAVE) {
        forget(d, peer, actions);
    } else if (!d->clients[peer].out) {
        d->clients[peer].finished = d->clients[peer].owed = true;
        serve(d, actions);
    }
}

/* ---------------------------------------------------------------- events */

static void message(shoali_served *d, const shoali_event *event, shoali_actions *actions)
{
    const uint8_t *bytes = event->message.bytes;
    uint32_t peer = event->message.peer;
    bool from_server = peer >= d->world->workers, server = d->clients != NULL;
    if (event->message.len_bytes != MESSAGE_BYTES || bytes[0] < PUSH || bytes[0] > LEAVE) {
        char text[96];
        snprintf(text, sizeof text,
                 "endpoint %u sent %zu bytes that are no message of a "
                 "parameter server",
                 peer, event->message.len_bytes);
        fail(d, SHOAL_ECORRUPT, (int32_t)peer, text, actions);
    } else if (server && !from_server) {
        server_message(d, peer, bytes[0], shoali_unpack_u64(bytes + 1), actions);
    } else if (!server && from_server && bytes[0] == LEAVE) {
        end_with_server(d, actions);
    }
}

static void peer_down(shoali_served *d, const shoali_event *event, shoali_actions *actions)
{
    char text[384];
    bool server = event->down.peer >= d->world->workers;
    if (d->clients != NULL) {
        forget(d, event->down.peer, actions);
    } else if (server && !d->ending) {
        snprintf(text, sizeof text, "server %u was lost: %s", event->down.peer, event->down.text);
        fail(d, SHOAL_EPEER, (int32_t)event->down.peer, text, actions);
    }
}

static void stop(shoali_served *d, shoali_actions *actions)
{
    d->leaving = true;
    say(SHOALI_EVERYBODY, LEAVE, 0, actions);
    if (d->clients == NULL)
        cancel_legs(d, actions);
    for (uint32_t w = 0; d->clients != NULL && w < d->world->workers; w++)
        cancel_client(d, w, actions);
    go_stop(d, actions);
}

void shoali_served_event(shoali_served *d, const shoali_event *event, shoali_actions *actions)
{
    if (d->over)
        return;
    switch (event->kind) {
    case SHOALI_EV_READY:
        push_ready(d, event->range.offset, actions);
        break;
    case SHOALI_EV_BEFORE:
        d->asked = true;
        if (d->ending)
            go_stop(d, actions);
        else
            conclude(d, actions);
        break;
    case SHOALI_EV_AFTER:
        next(d, actions);
        break;
    case SHOALI_EV_FINISH:
        if (d->ending)
            go_stop(d, actions);
        else
            finish(d, actions);
        break;
    case SHOALI_EV_MESSAGE:
        message(d, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        if (d->clients != NULL)
            server_op_done(d, event, actions);
        else
            worker_op_done(d, event, actions);
        break;
    case SHOALI_EV_PEER_DOWN:
        peer_down(d, event, actions);
        break;
    case SHOALI_EV_STOP:
        stop(d, actions);
        break;
    default:
        break;
    }
}
