/* SPDX-License-Identifier: Apache-2.0 */
/* AD-PSGD: every worker trains on a replica of its own, and once an iteration averages it with that
 * of a random neighbour, in the background. An averaging locks both replicas, so it is atomic:
 * both become their mean; gradients that arrive meanwhile are added to that.
 *
 *              COMPUTE              UPDATE          ENTER (asked)             ENDING
 *   BEFORE     PARAM = live,        .               .                         .
 *              GO(apply) -> UPDATE  (split: not while the lock is taken)
 *   AFTER      .                    -> ENTER        .                         .
 *   LOCK j     j waits in line      in line         in line                   in line
 *   GRANT      average with it      average         average                   average
 *   OP_DONE    live = mean, unlock  remember it     own one done: GO -> COMPUTE  own one done:
 *                                                   and begin the next        FINISH to finale.c
 *   j is gone  its place in line is free; an averaging with it is CANCELled and changes nothing
 *   STOP       goodbye, CANCEL -> LEAVING: GO(stop) once no operation is open
 *
 * The replica's lock, and where an own averaging stands:
 *
 *   NONE --begin, me < peer--> OWN_FIRST --my turn, LOCK to peer--> ASKED --GRANT--> RUNNING
 *     \--begin, me > peer, LOCK to peer--> ASKED --GRANT--> OWN_LAST --my turn--> RUNNING --> NONE
 *
 * Locks are taken by rising endpoint id, so waits have no cycle whoever initiates. In the published
 * form only one side of a bipartite graph initiates, and those who do never wait for each other.
 *
 * Slots: 1 LIVE, the replica with all averagings and all updates that are done; 2 WORK, which
 * travels. While an averaging runs, LIVE stays what it began with: once the caller has updated
 * PARAM in the meantime (moved), the new replica is PARAM + mean - LIVE, so the sum over all
 * replicas is conserved.
 *
 * Forms: `blocking` averages after the update, and waits for it; `still`: who is asked computes
 * nothing meanwhile; `all`: every worker initiates, on any graph; `split`: read and write are two
 * transfers, one after the other, under an exclusive lock: who is asked stands still, and one's own
 * update waits. "blocking,all,split", a model in variables that others reach, is the baseline of
 * later papers; the plain form is the one to use. */
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "sync/finale.h"
#include "sync/graph.h"
#include "sync/pack.h"
#include "sync/rift.h"

enum { LOCK = 1, GRANT, MESSAGE_BYTES = 9, INITIATOR_SHIFT = 40, TIMER_STILL = 1 };
enum { LIVE = SHOALI_SLOT + 1, WORK, STREAM_PARTNER = 0x6164 };
#define CODED(m) ((m)->world->coding == SHOALI_LOSSLESS)
typedef enum phase { COMPUTE, UPDATE, ENTER, ENDING, LEAVING, OVER } phase;
typedef enum own { NONE, OWN_FIRST, ASKED, OWN_LAST, RUNNING } own;

typedef struct params {
    char graph[SHOALI_KEY_TEXT_BYTES];
    bool blocking, still, all, split;
} params;

static const shoali_key keys[] = {
    {"graph", SHOALI_KEY_TEXT, offsetof(params, graph), 0, 0, NULL, "auto",
     "parity, ring, ..., or a file with lines of two workers; bipartite unless all. auto: parity, "
     "or complete with all"},
    {"blocking", SHOALI_KEY_FLAG, offsetof(params, blocking), 0, 0, NULL, "off",
     "wait for every averaging instead of computing meanwhile"},
    {"still", SHOALI_KEY_FLAG, offsetof(params, still), 0, 0, NULL, "off",
     "a worker that is asked computes nothing while it answers"},
    {"all", SHOALI_KEY_FLAG, offsetof(params, all), 0, 0, NULL, "off",
     "every worker initiates, not only one side of the graph"},
    {"split", SHOALI_KEY_FLAG, offsetof(params, split), 0, 0, NULL, "off",
     "read and write are separate transfers under an exclusive lock, without which nothing that "
     "needs the model goes on"},
};

typedef struct request {
    uint64_t number; /* of its initiator's averagings */
    uint32_t from;
} request;

typedef struct machine {
    shoali_finale finale;
    const shoali_world *world;
    const params *params;
    uint32_t *neighbours, degree;
    bool initiates;
    phase phase;
    uint64_t iteration;
    /* those who wait for this replica's lock, in order; [workers + 1] */
    request *line;
    uint32_t waiting;
    /* own averaging */
    own own;
    bool begun; /* blocking: that of this iteration */
    uint32_t target;
    uint64_t number;
    /* who holds the lock */
    bool locked, open, writing; /* its operation; split: the second of two */
    bool done, moved;           /* done during UPDATE; PARAM has moved since the lock was taken */
    uint32_t initiator, other;
    uint64_t op, since_us, still_us;
    bool updating;         /* BEFORE waits for the lock */
    bool stands;           /* since since_us, computing, for somebody else's averaging */
    bool standing, finish; /* still: its time is not over; FINISH waits for the own averaging */
} machine;

/* ---------------------------------------------------------------- small things */

static void say(uint32_t peer, uint8_t kind, uint64_t number, shoali_actions *actions)
{
    uint8_t bytes[MESSAGE_BYTES] = {kind};
    shoali_pack_u64(bytes + 1, number);
    shoali_act_send(actions, peer, bytes, sizeof bytes);
}

static void fail(machine *m, shoal_status status, const char *text, shoali_actions *actions)
{
    shoali_finale_fail(&m->finale, status, text, actions);
    m->phase = OVER;
}

static void mix(const machine *m, uint32_t dst, const shoali_mix_term *terms, uint32_t count,
                shoali_actions *actions)
{
    shoali_act_mix(actions, dst, 0, m->world->count, terms, count);
}

static void copy(const machine *m, uint32_t dst, uint32_t src, shoali_actions *actions)
{
    mix(m, dst, &(shoali_mix_term){src, 1}, 1, actions);
}

/* PARAM takes over what averagings have brought; with moved it is ahead of LIVE already. */
static void commit(const machine *m, shoali_actions *actions)
{
    if (!m->moved)
        copy(m, SHOALI_PARAM, LIVE, actions);
}

static void line_up(machine *m, uint32_t from, uint64_t number)
{
    for (uint32_t i = 0; i < m->waiting; i++)
        if (m->line[i].from == from)
            return; /* nobody asks twice */
    m->line[m->waiting++] = (request){number, from};
}

static void drop_out(machine *m, uint32_t from)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->waiting; i++)
        if (m->line[i].from != from)
            m->line[kept++] = m->line[i];
    m->waiting = kept;
}

/* ---------------------------------------------------------------- an averaging */

/* One's own part of it: the lock is held, the peer's is, or will be. */
static void transfer(machine *m, uint32_t initiator, uint32_t other, uint64_t number,
                     shoali_actions *actions)
{
    const uint32_t members[2] = {initiator, other};
    uint32_t me = m->world->me, peer = me == initiator ? other : initiator;
    m->initiator = initiator;
    m->other = other;
    m->op = 2 * ((uint64_t)initiator << INITIATOR_SHIFT | number);
    m->open = true;
    m->writing = false;
    copy(m, WORK, LIVE, actions);
    if (m->params->split && me == initiator)
        shoali_act_take(actions, m->op, me, peer, WORK, m->world->count, CODED(m), m->iteration);
    else if (m->params->split)
        shoali_act_put(actions, m->op, me, peer, WORK, m->world->count, CODED(m), m->iteration);
    else
        shoali_act_op(actions, &(shoali_sync_op){.id = m->op,
                                                 .kind = SHOALI_SYNC_ALL_REDUCE,
                                                 .members = members,
                                                 .member_count = 2,
                                                 .contributors = 2,
                                                 .tensor = WORK,
                                                 .count = m->world->count,
                                                 .collective = "ring",
                                                 .push_coded = CODED(m),
                                                 .pull_coded = CODED(m),
                                                 .patient = true,
                                                 .iteration = m->iteration});
}

/* split: the initiator has read, and writes the mean. */
static void write_back(machine *m, shoali_actions *actions)
{
    const shoali_mix_term halves[2] = {{WORK, 0.5f}, {LIVE, 0.5f}};
    uint32_t me = m->world->me;
    m->writing = true;
    m->op++;
    if (me == m->initiator) {
        mix(m, WORK, halves, 2, actions);
        shoali_act_put(actions, m->op, me, m->other, WORK, m->world->count, CODED(m), m->iteration);
    } else {
        shoali_act_take(actions, m->op, me, m->initiator, WORK, m->world->count, CODED(m),
                        m->iteration);
    }
}

static void run_own(machine *m, shoali_actions *actions)
{
    m->own = RUNNING;
    transfer(m, m->world->me, m->target, m->number, actions);
}

/* The lock is free: whoever is first in line gets it. Not while the caller writes to PARAM. */
static void lock_next(machine *m, shoali_actions *actions)
{
    bool writing = m->phase == UPDATE || m->updating;
    if (m->locked || m->waiting == 0 || writing || m->phase >= LEAVING)
        return;
    request first = m->line[0];
    drop_out(m, first.from);
    m->locked = true;
    if (first.from != m->world->me) {
        say(first.from, GRANT, first.number, actions);
        transfer(m, first.from, m->world->me, first.number, actions);
    } else if (m->own == OWN_LAST) {
        run_own(m, actions);
    } else {
        m->own = ASKED;
        say(m->target, LOCK, m->number, actions);
    }
}

/* still: count the time in which the caller computes, or makes up for it, and somebody else has the
 * lock. */
static void count_still(machine *m, uint64_t now_us)
{
    bool other = m->locked && m->open && m->initiator != m->world->me;
    bool computes = (m->phase == COMPUTE && !m->updating) || m->standing;
    if (m->stands)
        m->still_us += now_us - m->since_us;
    m->stands = other && computes;
    m->since_us = now_us;
}

static void unlock(machine *m)
{
    if (m->own == RUNNING && m->initiator == m->world->me)
        m->own = NONE;
    m->locked = m->open = m->done = m->moved = false;
}

/* The mean of both is in WORK (their sum, unless split). */
static void settle(machine *m, shoali_actions *actions)
{
    float part = m->params->split ? 1.0f : 0.5f;
    const shoali_mix_term mean[3] = {{WORK, part}, {SHOALI_PARAM, 1}, {LIVE, -1}};
    mix(m, LIVE, mean, m->moved ? 3 : 1, actions);
    unlock(m);
    if (m->phase == ENDING)
        commit(m, actions);
}

/* It came to nothing. */
static void give_up(machine *m, shoali_actions *actions)
{
    if (m->moved)
        copy(m, LIVE, SHOALI_PARAM, actions);
    unlock(m);
}

/* ---------------------------------------------------------------- an own averaging */

static uint32_t partner(const machine *m)
{
    uint32_t alive = 0, found = 0;
    for (uint32_t i = 0; i < m->degree; i++)
        alive += !shoali_finale_is_gone(&m->finale, m->neighbours[i]);
    if (alive == 0)
        return m->world->me;
    uint64_t pick = shoali_rng_below(m->world->seed, shoali_mix(STREAM_PARTNER, m->world->me),
                                     m->number, alive);
    for (uint32_t i = 0; i < m->degree; i++)
        if (!shoali_finale_is_gone(&m->finale, m->neighbours[i]) && pick-- == 0)
            found = m->neighbours[i];
    return found;
}

static void begin_own(machine *m, shoali_actions *actions)
{
    m->begun = true;
    if (!m->initiates)
        return;
    m->number++;
    m->target = partner(m);
    if (m->target == m->world->me)
        return;
    if (m->world->me < m->target) {
        m->own = OWN_FIRST;
        line_up(m, m->world->me, m->number);
    } else {
        m->own = ASKED;
        say(m->target, LOCK, m->number, actions);
    }
}

static void on_grant(machine *m, uint32_t peer, uint64_t number, shoali_actions *actions)
{
    if (m->own != ASKED || peer != m->target || number != m->number)
        return;
    if (m->world->me < m->target) {
        run_own(m, actions);
    } else {
        m->own = OWN_LAST;
        line_up(m, m->world->me, m->number);
    }
}

/* ---------------------------------------------------------------- events */

static const char *graph_of(const params *p)
{
    return strcmp(p->graph, "auto") != 0 ? p->graph : p->all ? "complete" : "parity";
}

static void on_gone(machine *m, uint32_t peer, shoali_actions *actions)
{
    bool waits = m->own == ASKED || m->own == OWN_FIRST || m->own == OWN_LAST;
    shoal_status status = shoali_rift_check(graph_of(m->params), &m->finale);
    if (status != SHOAL_OK) {
        shoali_finale_cut(&m->finale, status, shoal_last_error()->text, actions);
        m->phase = OVER;
        return;
    }
    drop_out(m, peer);
    if (m->open && (m->initiator == peer || m->other == peer))
        shoali_act_cancel(actions, m->op); /* its OP_DONE gives up */
    if (waits && m->target == peer) {
        bool mine = m->own == ASKED && m->world->me < m->target;
        m->own = NONE;
        drop_out(m, m->world->me);
        if (mine)
            give_up(m, actions);
    }
}

static void on_op_done(machine *m, const shoali_event *event, shoali_actions *actions)
{
    shoal_status status = event->op.status;
    bool going = status == SHOAL_EPEER || status == SHOAL_ECANCELLED || m->phase >= LEAVING;
    if (!m->open || event->op.id != m->op)
        return;
    if (status == SHOAL_OK && m->params->split && !m->writing && m->phase < LEAVING)
        write_back(m, actions);
    else if (status == SHOAL_OK && m->phase == UPDATE)
        m->done = true;
    else if (status == SHOAL_OK)
        settle(m, actions);
    else if (!going)
        fail(m, status, event->op.text, actions);
    else
        give_up(m, actions);
}

static void on_message(machine *m, const shoali_event *event, shoali_actions *actions)
{
    uint32_t peer = event->message.peer;
    bool neighbour = false;
    for (uint32_t i = 0; i < m->degree; i++)
        neighbour |= m->neighbours[i] == peer;
    if (!neighbour || event->message.len_bytes != MESSAGE_BYTES ||
        shoali_finale_is_gone(&m->finale, peer))
        return;
    const uint64_t number = shoali_unpack_u64(event->message.bytes + 1);
    if (event->message.bytes[0] == LOCK && number >> INITIATOR_SHIFT == 0)
        line_up(m, peer, number);
    else if (event->message.bytes[0] == GRANT)
        on_grant(m, peer, number, actions);
}

/* still: what the caller computed while it should have stood is made up for now; what comes in
 * between counts again. */
static void stand(machine *m, uint64_t now_us, shoali_actions *actions)
{
    m->standing = (m->params->still || m->params->split) && m->still_us > 0;
    if (m->standing)
        shoali_act_timer(actions, TIMER_STILL, now_us + m->still_us);
    m->still_us = 0;
}

static void on_after(machine *m, const shoali_event *event, shoali_actions *actions)
{
    m->phase = ENTER;
    m->begun = false;
    m->moved = m->locked;
    if (!m->locked)
        copy(m, LIVE, SHOALI_PARAM, actions);
    else if (m->done)
        settle(m, actions);
    stand(m, event->now_us, actions);
}

static void on_stop(machine *m, shoali_actions *actions)
{
    (void)shoali_finale_leave(&m->finale, actions);
    m->phase = LEAVING;
    if (m->open)
        shoali_act_cancel(actions, m->op);
}

/* BEFORE: the caller may update PARAM now. */
static void let_update(machine *m, shoali_actions *actions)
{
    const shoal_verdict apply = {.apply = true, .grad_scale = 1, .iteration = m->iteration};
    if (!m->updating || m->phase != COMPUTE || (m->params->split && m->locked))
        return;
    commit(m, actions);
    m->updating = false;
    m->phase = UPDATE;
    shoali_act_go(actions, &apply);
}

/* Whatever has changed: hand the lock on, and answer the caller if nothing holds that up. */
static void proceed(machine *m, shoali_actions *actions)
{
    let_update(m, actions);
    lock_next(m, actions);
    if (m->phase == LEAVING && !m->open && !m->finale.open) {
        m->phase = OVER;
        shoali_act_go(actions, &(shoal_verdict){.stop = true, .iteration = m->iteration});
    }
    if (m->phase != ENTER || m->standing)
        return;
    if (m->params->blocking && !m->begun) {
        begin_own(m, actions);
        lock_next(m, actions);
    }
    if (m->own != NONE)
        return;
    commit(m, actions);
    m->iteration++;
    m->phase = COMPUTE;
    if (!m->params->blocking)
        begin_own(m, actions);
    lock_next(m, actions);
    shoali_act_go(actions, &(shoal_verdict){.iteration = m->iteration});
}

/* ---------------------------------------------------------------- the start */

static shoal_status check(const void *any)
{
    return shoali_graph_both_ways(graph_of(any));
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t state_size(const shoali_world *world)
{
    return rounded(sizeof(machine)) + rounded(shoali_finale_bytes(world)) +
           rounded(((size_t)world->workers + 1) * sizeof(request)) +
           world->workers * sizeof(uint32_t);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 3;
}

static uint32_t max_staleness(const void *any)
{
    (void)any;
    return SHOALI_STALENESS_UNBOUNDED;
}

/* Which side of the graph this worker is on; 1 initiates. */
static shoal_status find_side(machine *m, uint32_t *side_out)
{
    const shoali_world *world = m->world;
    const params *p = m->params;
    shoali_graph graph;
    *side_out = world->me % 2;
    if (p->all || strcmp(graph_of(p), "parity") == 0)
        return SHOAL_OK;
    SHOALI_TRY(shoali_graph_open(p->graph, world->workers, &graph));
    bool bipartite = shoali_graph_sides(&graph, m->neighbours); /* room for all, filled later */
    shoali_graph_close(&graph);
    *side_out = m->neighbours[world->me];
    if (!bipartite)
        return shoali_fail(SHOAL_EINVAL,
                           "ad_psgd: graph=%s of %u workers is not bipartite; take an even ring, "
                           "parity, or `all`",
                           p->graph, world->workers);
    return SHOAL_OK;
}

static void on_start(machine *m, const shoali_world *world, shoali_actions *actions)
{
    uint8_t *memory = (uint8_t *)m + rounded(sizeof *m);
    uint32_t side = 0;
    m->world = world;
    m->params = world->params;
    m->iteration = world->iteration;
    m->line = (request *)(void *)(memory + rounded(shoali_finale_bytes(world)));
    m->neighbours = (uint32_t *)(void *)((uint8_t *)m->line +
                                         rounded(((size_t)world->workers + 1) * sizeof(request)));
    shoali_finale_start(&m->finale, world, 0, memory);
    shoal_status status = SHOAL_OK;
    if (world->workers > SHOALI_FINALE_WORKERS || world->servers > 0)
        status = shoali_fail(SHOAL_EINVAL, "ad_psgd: %u workers and %u servers", world->workers,
                             world->servers);
    if (status == SHOAL_OK)
        status = find_side(m, &side);
    if (status == SHOAL_OK)
        status = shoali_graph_neighbours(graph_of(m->params), world->workers, world->me,
                                         m->neighbours, &m->degree);
    if (status != SHOAL_OK) {
        fail(m, status, shoal_last_error()->text, actions);
        return;
    }
    m->initiates = m->params->all || side == 1;
    copy(m, LIVE, SHOALI_PARAM, actions);
    if (!m->params->blocking)
        begin_own(m, actions);
}

static void on_own_event(machine *m, const shoali_event *event, shoali_actions *actions)
{
    switch (event->kind) {
    case SHOALI_EV_BEFORE:
        m->updating = true;
        break;
    case SHOALI_EV_AFTER:
        on_after(m, event, actions);
        break;
    case SHOALI_EV_MESSAGE:
        on_message(m, event, actions);
        break;
    case SHOALI_EV_OP_DONE:
        on_op_done(m, event, actions);
        break;
    case SHOALI_EV_TIMER:
        stand(m, event->now_us, actions);
        break;
    case SHOALI_EV_STOP:
        on_stop(m, actions);
        break;
    default:
        break;
    }
}

/* FINISH reaches the finale once no averaging of one's own is under way. */
static void on_finish(machine *m, const shoali_event *event, shoali_actions *actions)
{
    const shoali_event finish = {.kind = SHOALI_EV_FINISH, .now_us = event->now_us};
    uint32_t peer;
    m->finish |= event->kind == SHOALI_EV_FINISH;
    if (event->kind == SHOALI_EV_FINISH) {
        m->phase = ENDING;
        m->finale.iteration = m->iteration;
        commit(m, actions);
    }
    if (!m->finish || m->own != NONE || m->phase != ENDING)
        return;
    m->finish = false;
    (void)shoali_finale_event(&m->finale, &finish, &peer, actions);
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    machine *m = state;
    uint32_t peer;
    if (m->phase == OVER || event->kind == SHOALI_EV_READY)
        return SHOAL_OK;
    if (event->kind == SHOALI_EV_START) {
        on_start(m, event->world, actions);
    } else if (event->kind != SHOALI_EV_FINISH) {
        count_still(m, event->now_us);
        shoali_finale_news news = shoali_finale_event(&m->finale, event, &peer, actions);
        if (news == SHOALI_SOMEBODY_LEFT)
            on_gone(m, peer, actions);
        else if (news == SHOALI_NOT_MINE)
            on_own_event(m, event, actions);
    }
    if (m->phase == OVER)
        return SHOAL_OK;
    on_finish(m, event, actions);
    proceed(m, actions);
    count_still(m, event->now_us);
    return SHOAL_OK;
}

const shoali_sync_row shoali_sync_ad_psgd = {
    .name = "ad_psgd",
    .paper = "Lian et al., ICML 2018; slower than all_reduce where 2 models / rate > compute time",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES | SHOALI_SYNC_APART | SHOALI_SYNC_MODELS,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(params)},
    .check = check,
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};
