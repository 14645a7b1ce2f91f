/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a peer that does as it likes, to every protocol's machine, in the middle of a run:
 * the input chooses the protocol and who I am, then what happens next, message for message. What
 * the machine asks for stays within its world, one GO answers one question, and after FAIL it is
 * heard no more. */
#include <stdlib.h>
#include <string.h>

#include "support/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

enum { WORKERS = 4, TENSORS = 4, OPEN = 64 };
#define NOTHING SHOALI_EV_START /* no question */

static const char *const specs[] = {"all_reduce",
                                    "param_server",
                                    "param_server:servers=1,dedicated,async",
                                    "param_server:servers=1,dedicated,backup=1",
                                    "local_sgd:every=1",
                                    "diloco:every=1,quorum=1",
                                    "diloco:every=2,fragments=2",
                                    "noloco:every=1",
                                    "ripples:static",
                                    "ripples:smart",
                                    "ripples:smart,laggards",
                                    "ripples:random,group=2",
                                    "ad_psgd",
                                    "ad_psgd:blocking,all",
                                    "d_psgd",
                                    "hop:backup=1,skip=4",
                                    "hop:staleness=2",
                                    "hop:notify_ack"};

typedef struct peerless {
    machine m;
    uint64_t open[OPEN], timer, now_us;
    size_t open_count, offset;
    shoali_event_kind asked; /* waits for GO; NOTHING: the caller computes */
    bool updated, over;
} peerless;

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_range(const peerless *p, uint32_t tensor, size_t offset, size_t count)
{
    uint32_t (*slots)(const shoali_world *) = p->m.protocol.row->slots;
    uint32_t most = SHOALI_SLOT + (slots != NULL ? slots(&p->m.world) : 0);
    must(tensor < most && offset <= p->m.world.count && count <= p->m.world.count - offset);
}

static void take_op(peerless *p, const shoali_sync_op *op)
{
    check_range(p, op->tensor, op->offset, op->count);
    must(op->members == NULL || op->member_count <= p->m.world.workers + p->m.world.servers);
    for (uint32_t i = 0; op->members != NULL && i < op->member_count; i++)
        must(op->members[i] < p->m.world.workers + p->m.world.servers);
    for (size_t i = 0; i < p->open_count; i++)
        must(p->open[i] != op->id);
    if (p->open_count < OPEN)
        p->open[p->open_count++] = op->id;
    else
        p->over = true; /* enough of this input */
}

static void take(peerless *p, const shoali_action *a)
{
    switch (a->kind) {
    case SHOALI_ACT_SEND:
        must(a->send.peer == SHOALI_EVERYBODY ||
             a->send.peer < p->m.world.workers + p->m.world.servers);
        break;
    case SHOALI_ACT_OP:
        take_op(p, &a->op);
        break;
    case SHOALI_ACT_MIX:
        check_range(p, a->mix.dst, a->mix.offset, a->mix.count);
        for (uint32_t i = 0; i < a->mix.term_count; i++)
            check_range(p, a->mix.terms[i].tensor, a->mix.offset, a->mix.count);
        break;
    case SHOALI_ACT_APPLY:
        check_range(p, a->apply.tensor, a->apply.offset, a->apply.count);
        break;
    case SHOALI_ACT_GO:
        must(a->go.stop || p->asked != NOTHING);
        p->updated = p->asked == SHOALI_EV_BEFORE;
        p->over |= a->go.stop || p->asked == SHOALI_EV_FINISH;
        p->asked = NOTHING;
        break;
    case SHOALI_ACT_TIMER:
        p->timer = a->timer.at_us == UINT64_MAX ? 0 : a->timer.id;
        break;
    case SHOALI_ACT_FAIL:
        must(a->fail.text[0] != '\0');
        p->over = true;
        break;
    case SHOALI_ACT_CANCEL:
    case SHOALI_ACT_HURRY:
        break;
    }
}

static void feed(peerless *p, shoali_event *event)
{
    const shoali_action *action;
    if (p->over)
        return;
    event->now_us = ++p->now_us;
    must(p->m.protocol.row->on_event(p->m.state, event, &p->m.actions) == SHOAL_OK);
    while ((action = shoali_actions_front(&p->m.actions)) != NULL) {
        if (!p->over)
            take(p, action);
        shoali_actions_pop(&p->m.actions);
    }
}

/* The caller's next call, if it does not wait. */
static void go_on(peerless *p, bool finish)
{
    shoali_event event = {.kind = p->updated ? SHOALI_EV_AFTER : SHOALI_EV_BEFORE};
    if (p->asked != NOTHING || p->over || p->m.world.role == SHOALI_SERVER)
        return;
    if (!p->updated && finish)
        event.kind = SHOALI_EV_FINISH;
    if (event.kind == SHOALI_EV_BEFORE) {
        shoali_event ready = {.kind = SHOALI_EV_READY, .range = {0, p->m.world.count}};
        feed(p, &ready);
    }
    p->asked = event.kind;
    feed(p, &event);
}

static void end_op(peerless *p, uint8_t which, uint8_t how)
{
    static const shoal_status ends[] = {SHOAL_OK,        SHOAL_OK,        SHOAL_EPEER,
                                        SHOAL_ETIMEDOUT, SHOAL_EMISMATCH, SHOAL_ENOTFINITE};
    if (p->open_count == 0)
        return;
    size_t i = which % p->open_count;
    shoali_event event = {
        .kind = SHOALI_EV_OP_DONE,
        .op = {p->open[i], ends[how % (sizeof ends / sizeof *ends)], "as the input wants it"}};
    p->open[i] = p->open[--p->open_count];
    feed(p, &event);
}

/* A record: what, a number, and for a message its length and bytes. How much was read. */
static size_t happen(peerless *p, const uint8_t *at, size_t left)
{
    const uint32_t all = p->m.world.workers + p->m.world.servers, peer = at[1] % all;
    shoali_event event = {.kind = SHOALI_EV_TIMER, .timer = {p->timer}};
    size_t length;
    switch (at[0] % 8) {
    case 0:
    case 1:
        go_on(p, at[1] == 255);
        return 2;
    case 2:
        end_op(p, at[1], at[0] / 8);
        return 2;
    case 3:
        if (p->timer != 0)
            feed(p, &event);
        return 2;
    case 4:
        event = (shoali_event){.kind = SHOALI_EV_PEER_DOWN,
                               .down = {peer, "is lost", (shoali_down)(at[0] % 3)}};
        if (peer != p->m.world.me && at[0] > 128)
            feed(p, &event);
        return 2;
    default:
        length = left > 2 ? at[2] % 64 : 0;
        length = left < 3 + length ? (left < 3 ? 0 : left - 3) : length;
        event = (shoali_event){.kind = SHOALI_EV_MESSAGE, .message = {peer, at + 3, length}};
        if (peer != p->m.world.me && left > 2)
            feed(p, &event);
        return 3 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    static peerless p;
    if (len_bytes < 2)
        return 0;
    const char *spec = specs[bytes[0] % (sizeof specs / sizeof *specs)];
    uint32_t servers = strstr(spec, "dedicated") != NULL ? 1 : 0;
    p = (peerless){.now_us = 1};
    machine_open(&p.m, spec, WORKERS, servers, bytes[1] % (WORKERS + servers), TENSORS);
    shoali_event start = {.kind = SHOALI_EV_START, .world = &p.m.world};
    feed(&p, &start);
    for (size_t at = 2; at + 2 <= len_bytes && !p.over;)
        at += happen(&p, bytes + at, len_bytes - at);
    machine_close(&p.m);
    return 0;
}
