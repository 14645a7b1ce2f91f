/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a world: what alive/view.c, door.c, knock.c, join.c and reform.c do around
 * src/member. */
#include "support/member_world.h"

#include <stdio.h>
#include <string.h>

enum {
    LATE_US = 100 * 1000, /* a tick is never so late but after a stop */
    PAUSE_US = 50 * 1000,
    CALL_US = 400 * 1000, /* a door answers a member so soon, or is none */
    LOADED_US = 1500 * 1000,
    HOPS = 4
};

static world_node *self(world *w, uint8_t node)
{
    return &w->node[node];
}

static void enter_state(world *w, uint8_t node, node_state state)
{
    static const char *names[] = {"absent", "run",  "look", "visit",
                                  "lead",   "seek", "meet", "ended"};
    if (w->trace && self(w, node)->state != state)
        printf("%8.3f node %u: %s\n", (double)w->now_us * 1e-6, node, names[state]);
    if (state == NODE_MEET && world_random(w, 6) == 0)
        world_strike(w);
    self(w, node)->state = state;
}

void node_enter_first(world *w, uint8_t node)
{
    comm_open(w, node, &self(w, node)->comm, 0);
    enter_state(w, node, NODE_RUN);
}

/* ------------------------------------------------------------------ leaving an epoch */

static void begin_reform(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    world_comm *comm = &n->comm;
    comm_say_all(w, comm, node, WORD_LEAVING);
    memset(&n->m, 0, sizeof n->m);
    n->m.me = comm->me;
    n->m.size = comm_size(w, comm);
    n->m.epoch = n->m.tried = w->view[comm->view].place.epoch;
    n->m.peer_timeout_us = WORLD_TIMEOUT_US;
    n->m.done = n->done;
    n->m.states = n->states;
    n->m.identity = n->identities;
    n->m.said_us = n->said_us;
    for (uint32_t i = 0; i < n->m.size; i++) {
        n->identities[i] = w->node[comm_node(w, comm, i)].identity;
        n->said_us[i] = comm->peers[i].said_us;
    }
    n->member = true;
    n->until_us = node_now(w, node) + WORLD_REFORM_US;
    n->pause_us = node_now(w, node) + world_random(w, 100 * 1000); /* operations end */
    enter_state(w, node, NODE_LOOK);
}

static void survey(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    for (uint32_t i = 0; i < n->m.size; i++) {
        const world_peer *peer = &n->comm.peers[i];
        n->states[i] = i == n->comm.me                       ? SHOALI_MEMBER_HERE
                       : peer->moved                         ? SHOALI_MEMBER_MOVED
                       : !peer->lost && !peer->left          ? SHOALI_MEMBER_HERE
                       : peer->death == SHOALI_DEATH_CERTAIN ? SHOALI_MEMBER_DEAD
                       : peer->death == SHOALI_DEATH_DYING   ? SHOALI_MEMBER_DYING
                       : peer->left                          ? SHOALI_MEMBER_LEFT
                                                             : SHOALI_MEMBER_SILENT;
    }
}

static void end(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    comm_close(w, node, &n->comm, WORD_DOWN);
    comm_close(w, node, &n->fresh, WORD_DOWN);
    n->dead_us = w->now_us;
    enter_state(w, node, NODE_ENDED);
}

/* ------------------------------------------------------------------ visits */

static void hang_up(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    if (n->visit != 0)
        world_say(w, node, n->host, WORD_HANG_UP, 0, n->visit, 0);
    n->visit = 0;
}

static void call(world *w, uint8_t node, uint8_t host)
{
    world_node *n = self(w, node);
    n->visit = ++w->visits;
    n->host = host;
    n->answered = false;
    n->visit_us = node_now(w, node);
    world_say(w, node, host, WORD_CALL, 0, n->visit, n->state == NODE_VISIT);
}

static void look_again(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    hang_up(w, node);
    n->pause_us = node_now(w, node) + PAUSE_US;
    n->seek_next = 0;
    enter_state(w, node, n->member ? NODE_LOOK : NODE_SEEK);
}

static void seek(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const uint64_t now_us = node_now(w, node);
    if (n->visit != 0 && (n->answered || now_us < n->visit_us + LOADED_US))
        return;
    hang_up(w, node);
    while (n->seek_next == node ||
           (n->seek_next < w->nodes && w->node[n->seek_next].state == NODE_ABSENT))
        n->seek_next++;
    if (n->seek_next >= w->nodes) {
        look_again(w, node);
        return;
    }
    n->seek_hops = 0;
    enter_state(w, node, NODE_SEEK);
    call(w, node, n->seek_next++);
}

/* ------------------------------------------------------------------ a door */

static uint32_t leader_of(const world *w, const world_node *n)
{
    uint32_t leader = 0;
    (void)w;
    while (leader != n->comm.me && (n->comm.peers[leader].lost || n->comm.peers[leader].left))
        leader++;
    return leader;
}

static void drop_call(world_node *n, uint32_t i)
{
    n->door[i] = n->door[--n->calls];
}

/* Somebody of this epoch, and the first visit of its kind. */
static void let_in(world *w, uint8_t node, const world_word *word)
{
    world_node *n = self(w, node);
    const world_node *guest = &w->node[word->from];
    if (n->calls == 2 * WORLD_NODES)
        return;
    world_call *c = &n->door[n->calls++];
    *c = (world_call){.node = word->from, .visit = word->visit};
    c->member = word->where != 0 && guest->member && n->comm.open &&
                guest->comm.view == n->comm.view;
    if (!c->member)
        return;
    memcpy(c->doubts, guest->m.doubts, sizeof c->doubts);
    c->call = (shoali_guest){.come = {.epoch = guest->m.epoch,
                                      .tried = guest->m.tried,
                                      .done = guest->done,
                                      .incarnation = guest->identity,
                                      .rank = guest->m.me,
                                      .doubts = guest->m.doubt_count},
                             .doubts = c->doubts};
}

/* Polled between reforms and by who leads. Whether there is a reason to reform. */
static bool answer_door(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const uint32_t leader = leader_of(w, n);
    bool wanted = false;
    for (uint32_t i = n->calls; i-- > 0;) {
        world_call *c = &n->door[i];
        const bool leads = leader == n->comm.me;
        if (c->member && c->call.come.epoch != w->view[n->comm.view].place.epoch)
            c->member = false; /* this node has moved meanwhile */
        wanted = wanted || c->member || (leads && comm_size(w, &n->comm) < w->members);
        if (c->held)
            continue;
        c->held = true;
        world_say(w, node, c->node, WORD_HELD, 0, c->visit,
                  leads || c->member ? node : comm_node(w, &n->comm, leader));
        if (!leads && !c->member)
            drop_call(n, i);
    }
    return wanted;
}

/* ------------------------------------------------------------------ leading */

static void gather(world_node *n, const shoali_guest **members, shoali_guests *calls)
{
    for (uint32_t i = 0; i < n->m.size; i++)
        members[i] = NULL;
    *calls = (shoali_guests){.members = members};
    for (uint32_t i = 0; i < n->calls; i++) {
        world_call *c = &n->door[i];
        c->call.doubts = c->doubts; /* calls change their places */
        if (c->member && members[c->call.come.rank] == NULL)
            members[c->call.come.rank] = &c->call;
        calls->newcomers += !c->member;
    }
}

static void meet(world *w, uint8_t node, uint16_t view, uint64_t ready_us)
{
    world_node *n = self(w, node);
    comm_open(w, node, &n->fresh, view);
    n->fresh.ready_us = ready_us;
    n->fresh.until_us = node_now(w, node) + 2 * WORLD_TIMEOUT_US + WORLD_TIMEOUT_US / 4;
    n->fresh.peers[n->fresh.me].up = true;
    enter_state(w, node, NODE_MEET);
    if (n->fresh.me > 0)
        comm_say(w, &n->fresh, node, 0, WORD_ARRIVE);
    else
        n->fresh.arrived = 1;
}

static void propose(world *w, uint8_t node, const shoali_guests *calls)
{
    world_node *n = self(w, node);
    const uint16_t id = (uint16_t)w->views;
    world_view *view = &w->view[id];
    if (w->views == WORLD_VIEWS) {
        look_again(w, node);
        return;
    }
    *view = (world_view){.parent = n->comm.view};
    shoali_member_propose(&n->m, calls, &view->proposal, &view->place);
    if (!shoali_member_agree(&n->m, &view->proposal)) {
        look_again(w, node);
        return;
    }
    if (++w->views > 0 && view->place.size > w->members)
        world_break(w, "more members than there may be", view->place.size, w->members);
    view->nodes[view->size++] = node;
    for (uint32_t i = 0; i < n->m.size; i++)
        if (i != n->m.me && shoali_proposal_stays(&view->proposal, i))
            view->nodes[view->size++] = comm_node(w, &n->comm, i);
    for (uint32_t i = 0; i < n->calls && view->size < view->place.size; i++)
        if (!n->door[i].member)
            view->nodes[view->size++] = n->door[i].node;
    for (uint32_t i = 0; i < view->size; i++)
        view->done[i] = w->node[view->nodes[i]].done;
    for (uint32_t i = 0; i < n->m.size; i++)
        if (calls->members[i] != NULL && view->place.epoch <= calls->members[i]->come.tried)
            world_break(w, "a member is asked into an epoch of before", i, node);
    for (uint32_t i = n->calls; i-- > 0;)
        for (uint32_t j = 1; j < view->size; j++)
            if (i < n->calls && n->door[i].node == view->nodes[j]) {
                world_say(w, node, n->door[i].node, WORD_ADMIT, id, n->door[i].visit, 0);
                drop_call(n, i);
            }
    if (w->trace)
        printf("%8.3f node %u: proposes view %u of %u, epoch %u\n", (double)w->now_us * 1e-6, node,
               id, view->size, (unsigned)view->place.epoch);
    world_at_proposal(w, node);
    meet(w, node, id, shoali_member_ready_us(&n->m, &view->proposal));
}

static void lead(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const shoali_guest *members[WORLD_NODES];
    shoali_guests calls;
    (void)answer_door(w, node);
    gather(n, members, &calls);
    calls.room = w->members;
    switch (shoali_member_lead(&n->m, &calls, node_now(w, node))) {
    case SHOALI_LEAD_WAIT:
        return;
    case SHOALI_LEAD_PROPOSE:
        propose(w, node, &calls);
        return;
    case SHOALI_LEAD_GIVE_WAY:
        look_again(w, node);
        return;
    default:
        n->seek_next = 0;
        seek(w, node);
    }
}

/* ------------------------------------------------------------------ meeting */

static void abandon(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const shoali_proposal *unready = n->fresh.said_ready ? NULL : &w->view[n->fresh.view].proposal;
    comm_close(w, node, &n->fresh, WORD_DOWN);
    if (n->member)
        shoali_member_failed(&n->m, unready, node_now(w, node));
    look_again(w, node);
}

static void move(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const world_view *view = &w->view[n->fresh.view];
    if (n->comm.open) {
        w->returned += n->fresh.me >= view->size - view->proposal.newcomers;
        comm_say_all(w, &n->comm, node, WORD_MOVED);
        comm_close(w, node, &n->comm, WORD_GOODBYE);
    }
    n->comm = n->fresh;
    n->fresh.open = false;
    n->member = false;
    n->done = view->place.done_max;
    enter_state(w, node, NODE_RUN);
}

static bool all_are(const world *w, const world_comm *comm, bool ready)
{
    for (uint32_t i = 0; i < comm_size(w, comm); i++)
        if (i != comm->me && !(ready ? comm->peers[i].ready : comm->peers[i].up))
            return false;
    return true;
}

static void meet_on(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    world_comm *comm = &n->fresh;
    const uint64_t now_us = node_now(w, node);
    for (uint32_t i = 0; i < comm_size(w, comm); i++)
        if (comm->peers[i].lost && (i == 0 || comm->me == 0 || !comm->said_ready)) {
            abandon(w, node);
            return;
        }
    if (now_us > comm->until_us) {
        abandon(w, node);
        return;
    }
    if (!all_are(w, comm, false) || now_us < comm->ready_us)
        return;
    if (comm->me > 0 && !comm->said_ready) {
        comm->said_ready = true;
        comm_say(w, comm, node, 0, WORD_READY);
    }
    if (comm->me == 0 && all_are(w, comm, true)) {
        world_at_go(w, comm->view);
        comm_say_all(w, comm, node, WORD_GO);
        comm->go = true;
    }
    if (comm->go)
        move(w, node);
}

/* ------------------------------------------------------------------ what it hears */

static void hear_meeting(world *w, uint8_t node, world_comm *comm, uint32_t from, word_kind kind)
{
    if (kind == WORD_ARRIVE && ++comm->arrived == comm_size(w, comm)) {
        comm_say_all(w, comm, node, WORD_TABLE);
        comm_say_all(w, comm, node, WORD_HELLO);
    } else if (kind == WORD_TABLE) {
        comm_say_all(w, comm, node, WORD_HELLO);
    } else if (kind == WORD_HELLO) {
        comm->peers[from].up = true;
    } else if (kind == WORD_READY) {
        comm->peers[from].ready = true;
    } else if (kind == WORD_GO) {
        comm->go = true;
    }
}

static void hear_in_view(world *w, uint8_t node, world_comm *comm, const world_word *word)
{
    uint32_t from = 0;
    while (from < comm_size(w, comm) && comm_node(w, comm, from) != word->from)
        from++;
    world_peer *peer = &comm->peers[from];
    if (from == comm_size(w, comm) || peer->lost || peer->left)
        return;
    if (word->kind == WORD_DOWN) {
        comm_lose(w, node, comm, from);
        return;
    }
    peer->heard_us = node_now(w, node);
    if (word->kind == WORD_BEAT && peer->heard_us >= self(w, node)->deaf_until_us)
        peer->word_us = peer->heard_us;
    peer->leaving = peer->leaving || word->kind == WORD_LEAVING;
    peer->moved = peer->moved || word->kind == WORD_MOVED;
    peer->left = peer->left || word->kind == WORD_GOODBYE;
    hear_meeting(w, node, comm, from, word->kind);
}

static void hear_visit(world *w, uint8_t node, const world_word *word)
{
    world_node *n = self(w, node);
    if (word->kind == WORD_CALL) {
        let_in(w, node, word);
    } else if (word->kind == WORD_HANG_UP && word->visit != n->visit) {
        for (uint32_t i = n->calls; i-- > 0;)
            if (n->door[i].visit == word->visit)
                drop_call(n, i);
    } else if (word->visit != n->visit || n->visit == 0) {
        return;
    } else if (word->kind == WORD_HANG_UP) {
        n->visit = 0;
        look_again(w, node);
    } else if (word->kind == WORD_HELD) {
        n->answered = true;
        if (word->where != word->from && n->state == NODE_SEEK && n->seek_hops++ < HOPS) {
            hang_up(w, node);
            call(w, node, word->where);
        }
    } else if (word->kind == WORD_ADMIT) {
        const shoali_proposal *proposal = &w->view[word->view].proposal;
        bool as_member = n->state == NODE_VISIT;
        hang_up(w, node);
        if (as_member && !shoali_member_agree(&n->m, proposal))
            look_again(w, node);
        else
            meet(w, node, word->view, as_member ? shoali_member_ready_us(&n->m, proposal) : 0);
    }
}

static void allow_for_lateness(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const uint64_t now_us = node_now(w, node);
    world_comm *comms[] = {&n->comm, &n->fresh};
    const uint64_t late_us = n->tick_us > 0 && now_us > n->tick_us + LATE_US ? now_us - n->tick_us
                                                                             : 0;
    const uint64_t deaf_us = shoali_life_deaf_us(late_us, WORLD_TIMEOUT_US);
    for (int c = 0; c < 2; c++)
        for (uint32_t i = 0; i < WORLD_NODES; i++)
            comms[c]->peers[i].heard_us += late_us;
    if (deaf_us > 0)
        n->deaf_until_us = now_us + deaf_us;
    n->tick_us = now_us;
}

void node_hear(world *w, uint8_t node, const world_word *word)
{
    world_node *n = self(w, node);
    if (n->state == NODE_ABSENT)
        return;
    allow_for_lateness(w, node);
    if (word->kind >= WORD_CALL) {
        hear_visit(w, node, word);
        return;
    }
    if (n->comm.open && n->comm.view == word->view)
        hear_in_view(w, node, &n->comm, word);
    else if (n->fresh.open && n->fresh.view == word->view)
        hear_in_view(w, node, &n->fresh, word);
}

void node_died(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    comm_close(w, node, &n->comm, WORD_DOWN);
    comm_close(w, node, &n->fresh, WORD_DOWN);
    hang_up(w, node);
    for (uint32_t i = 0; i < n->calls; i++)
        world_say(w, node, n->door[i].node, WORD_HANG_UP, 0, n->door[i].visit, 0);
}

/* ------------------------------------------------------------------ what it does */

static void run(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    bool wanted = answer_door(w, node);
    for (uint32_t i = 0; i < comm_size(w, &n->comm); i++)
        wanted = wanted || n->comm.peers[i].lost || n->comm.peers[i].leaving;
    if (wanted)
        begin_reform(w, node);
}

static void look(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    if (shoali_member_is_behind(&n->m)) {
        seek(w, node);
        return;
    }
    const uint32_t candidate = shoali_member_candidate(&n->m, 0);
    enter_state(w, node, candidate == n->m.me ? NODE_LEAD : NODE_VISIT);
    if (candidate != n->m.me)
        call(w, node, comm_node(w, &n->comm, candidate));
}

static uint32_t rank_of_host(const world *w, const world_node *n)
{
    uint32_t rank = 0;
    while (comm_node(w, &n->comm, rank) != n->host)
        rank++;
    return rank;
}

static void visit(world *w, uint8_t node)
{
    const world_node *n = self(w, node);
    if (!shoali_member_stays(&n->m, rank_of_host(w, n)) ||
        (!n->answered && node_now(w, node) > n->visit_us + CALL_US))
        look_again(w, node);
}

void node_tick(world *w, uint8_t node)
{
    world_node *n = self(w, node);
    const uint64_t now_us = node_now(w, node);
    if (n->state == NODE_ABSENT) {
        if (now_us < n->starts_us)
            return;
        n->until_us = now_us + WORLD_REFORM_US;
        enter_state(w, node, NODE_SEEK);
    }
    allow_for_lateness(w, node);
    comm_watch(w, node, &n->comm);
    comm_watch(w, node, &n->fresh);
    if (n->member)
        survey(w, node);
    if (n->state != NODE_RUN && n->state != NODE_MEET && now_us > n->until_us) {
        end(w, node);
        return;
    }
    if (n->state == NODE_RUN)
        run(w, node);
    else if (n->state == NODE_MEET)
        meet_on(w, node);
    else if (now_us < n->pause_us)
        return;
    else if (n->state == NODE_LOOK)
        look(w, node);
    else if (n->state == NODE_VISIT)
        visit(w, node);
    else if (n->state == NODE_LEAD)
        lead(w, node);
    else if (n->state == NODE_SEEK)
        seek(w, node);
}
