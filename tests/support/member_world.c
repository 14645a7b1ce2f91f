/* SPDX-License-Identifier: Apache-2.0 */
#include "support/member_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_US = 20 * 1000,
    STEP_US = 20 * 1000,
    LATE_US = 120 * 1000, /* a word is at most so late: life.h */
    FAULTS = 6,
    STRIKE_US = 1500 * 1000
};

uint64_t world_random(world *w, uint64_t below)
{
    return shoali_rng_next(&w->rng) % below;
}

uint64_t node_now(const world *w, uint8_t node)
{
    return (uint64_t)((double)w->now_us * w->node[node].rate);
}

void world_break(world *w, const char *rule, uint32_t a, uint32_t b)
{
    if (w->violation[0] == '\0')
        snprintf(w->violation, sizeof w->violation, "at %.3f s: %s (%u, %u); plan %d",
                 (double)w->now_us * 1e-6, rule, a, b, (int)w->plan);
}

/* ------------------------------------------------------------------ events */

static bool before(const world_event *a, const world_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void push(world *w, world_event event)
{
    if (w->count == w->capacity) {
        w->capacity = w->capacity * 2 + 1024;
        w->heap = realloc(w->heap, w->capacity * sizeof *w->heap);
        if (w->heap == NULL)
            abort();
    }
    event.order = w->order++;
    uint32_t i = w->count++;
    while (i > 0 && before(&event, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = event;
}

static world_event pop(world *w)
{
    world_event first = w->heap[0], last = w->heap[--w->count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child + 1 < w->count && before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (child >= w->count || !before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

/* Words between two stay in order within a connection: of a view, or of visits. */
void world_say(world *w, uint8_t from, uint8_t to, word_kind kind, uint16_t view, uint16_t visit,
               uint8_t where)
{
    uint64_t *last = &w->last_us[from][to][kind >= WORD_CALL ? 4 : view % 4];
    uint64_t late = 50 + world_random(w, 2000);
    if (w->cut[from][to])
        return;
    if (world_random(w, 20) == 0)
        late = world_random(w, LATE_US);
    uint64_t at = w->now_us + late;
    at = at > *last ? at : *last + 1;
    *last = at;
    push(w, (world_event){at, 0, EVENT_WORD, {kind, from, to, view, visit, where}});
}

/* ------------------------------------------------------------------ what may happen */

/* How two sides part: words get lost; or connections are reset, at one end or both. */
static void cut_one(world *w, uint8_t from, uint8_t to, bool reset)
{
    w->cut[from][to] = true;
    world_node *a = &w->node[from], *b = &w->node[to];
    for (int side = 0; side < 2 && reset; side++) {
        world_node *n = side == 0 ? a : b;
        const uint8_t self = side == 0 ? from : to, other = side == 0 ? to : from;
        world_comm *comms[] = {&n->comm, &n->fresh};
        for (int c = 0; c < 2; c++)
            if (comms[c]->open)
                push(w, (world_event){w->now_us + world_random(w, 30000),
                                      0,
                                      EVENT_WORD,
                                      {WORD_DOWN, other, self, comms[c]->view, 0, 0}});
    }
}

/* Who is in neither side reaches both. */
static void part(world *w, uint32_t side, uint32_t other, bool reset, bool one_way)
{
    for (uint8_t a = 0; a < w->nodes; a++)
        for (uint8_t b = 0; b < w->nodes; b++)
            if ((side >> a & 1) == 1 && (other >> b & 1) == 1) {
                cut_one(w, a, b, reset);
                if (!one_way)
                    cut_one(w, b, a, reset);
            }
}

static void part_somehow(world *w)
{
    const uint32_t all = (1u << w->nodes) - 1, side = 1 + (uint32_t)world_random(w, all);
    const uint32_t bridges = world_random(w, 3) == 0 ? (uint32_t)shoali_rng_next(&w->rng) : 0;
    const bool reset = world_random(w, 2) == 0;
    part(w, side & ~bridges, ~side & ~bridges, reset, world_random(w, 4) == 0);
}

static void heal(world *w)
{
    memset(w->cut, 0, sizeof w->cut);
}

static void kill_one(world *w, uint8_t node)
{
    world_node *n = &w->node[node];
    if (n->dead || n->state == NODE_ABSENT)
        return;
    n->dead = true;
    n->dead_us = w->now_us;
    node_died(w, node);
}

/* Stopped again, it stays so for as long as it would have: what waits for it is read when it runs
 * again. */
static void pause_one(world *w, uint8_t node)
{
    const uint64_t until_us = w->now_us + world_random(w, 3 * WORLD_TIMEOUT_US);
    if (until_us > w->node[node].paused_until_us)
        w->node[node].paused_until_us = until_us;
}

static void fault(world *w)
{
    const uint8_t node = (uint8_t)world_random(w, w->nodes);
    const uint64_t what = world_random(w, 12);
    if (w->trace)
        printf("%8.3f fault %d node %d\n", (double)w->now_us * 1e-6, (int)what, node);
    if (what < 3)
        for (uint64_t more = world_random(w, 3); more < 3; more += 1 + world_random(w, 2))
            kill_one(w, (uint8_t)world_random(w, w->nodes));
    else if (what < 5)
        pause_one(w, node);
    else if (what < 8)
        part_somehow(w);
    else if (what == 8)
        cut_one(w, node, (uint8_t)world_random(w, w->nodes), world_random(w, 2) == 0);
    else
        heal(w);
}

void world_strike(world *w)
{
    push(w, (world_event){w->now_us + world_random(w, STRIKE_US), 0, EVENT_FAULT, {.to = 0}});
}

void world_at_go(world *w, uint16_t view)
{
    const world_view *v = &w->view[view];
    bool die = w->plan == PLAN_RANDOM ? world_random(w, 12) == 0 : w->plan == PLAN_ALL_DIE;
    if (w->plan == PLAN_RANDOM && world_random(w, 3) == 0)
        part_somehow(w); /* some hear it, some do not */
    else if (w->plan == PLAN_LATE_DEATH && !w->turned)
        part(w, 1, ~1u, true, false);
    for (uint32_t i = 1; i < v->size && die && (w->plan == PLAN_RANDOM || !w->turned); i++)
        kill_one(w, v->nodes[i]);
    w->turned = true;
}

void world_at_proposal(world *w, uint8_t node)
{
    if (w->plan == PLAN_LATE_DEATH && w->turned && node == 1)
        push(w,
             (world_event){w->now_us + 5000 + world_random(w, 40000), 0, EVENT_FAULT, {.to = 3}});
}

/* Bursts: what comes while the last trouble is being mended is what nobody has thought of. */
static void plan_faults(world *w)
{
    uint64_t at = 500 * 1000 + world_random(w, 1000 * 1000);
    const uint64_t count = w->plan == PLAN_RANDOM ? 1 + world_random(w, FAULTS) : 0;
    if (w->plan != PLAN_RANDOM)
        push(w, (world_event){at, 0, EVENT_FAULT, {.to = 2}});
    for (uint64_t i = 0; i < count; i++) {
        push(w, (world_event){at, 0, EVENT_FAULT, {.to = 0}});
        at += world_random(w, 3) == 0 ? world_random(w, 2 * WORLD_TIMEOUT_US)
                                      : world_random(w, 300 * 1000);
    }
    push(w, (world_event){at + world_random(w, 30 * 1000 * 1000), 0, EVENT_FAULT, {.to = 1}});
}

/* to: which. */
static void make_trouble(world *w, uint8_t to)
{
    if (to == 0)
        fault(w);
    else if (to == 1)
        heal(w);
    else if (to == 2)
        part(w, 0x1, 0x18, true, false);
    else
        kill_one(w, 2);
}

/* ------------------------------------------------------------------ steps */

static bool descends(const world *w, uint16_t view, uint16_t from)
{
    while (view != from && view != 0)
        view = w->view[view].parent;
    return view == from;
}

static bool makes_step(const world *w, const world_view *view, uint16_t id)
{
    for (uint32_t i = 0; i < view->size; i++) {
        const world_node *n = &w->node[view->nodes[i]];
        if (n->dead || n->state != NODE_RUN || n->comm.view != id || n->paused_until_us > w->now_us)
            return false;
        for (uint32_t j = 0; j < view->size; j++)
            if (n->comm.peers[j].lost || n->comm.peers[j].left ||
                w->cut[view->nodes[i]][view->nodes[j]])
                return false;
    }
    return true;
}

/* Of those who were members before. */
static uint64_t furthest(const world_view *view)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < view->size - view->proposal.newcomers; i++)
        if (view->done[i] > most)
            most = view->done[i];
    return most;
}

/* The last step of some may be one that others have not made. */
static void count_step(world *w, const world_view *view)
{
    const uint64_t behind = world_random(w, 4) == 0 ? world_random(w, view->size) : view->size;
    w->steps++;
    for (uint32_t i = 0; i < view->size; i++)
        w->node[view->nodes[i]].done = i == behind ? w->steps - 1 : w->steps;
}

static void step(world *w, uint16_t id)
{
    world_view *view = &w->view[id];
    if (!descends(w, id, w->stepped))
        world_break(w, "two halves: a step in a view that does not go on from the last step's", id,
                    w->stepped);
    if (id != w->stepped && view->place.epoch <= w->view[w->stepped].place.epoch)
        world_break(w, "the epoch does not grow", id, w->stepped);
    if (!view->stepped && (view->place.done_max != furthest(view) || w->steps > furthest(view) + 1))
        world_break(w, "steps are lost or counted twice", (uint32_t)view->place.done_max,
                    (uint32_t)furthest(view));
    if (!view->stepped)
        w->steps = view->place.done_max;
    view->stepped = true;
    w->stepped = id;
    count_step(w, view);
}

static void make_steps(world *w)
{
    bool tried[WORLD_VIEWS] = {false};
    for (uint8_t i = 0; i < w->nodes; i++) {
        const world_node *n = &w->node[i];
        if (n->dead || n->state != NODE_RUN || tried[n->comm.view])
            continue;
        tried[n->comm.view] = true;
        if (makes_step(w, &w->view[n->comm.view], n->comm.view))
            step(w, n->comm.view);
    }
}

/* ------------------------------------------------------------------ a life */

static void make_first_view(world *w)
{
    world_view *first = &w->view[0];
    *first = (world_view){.size = w->members, .stepped = true};
    for (uint8_t i = 0; i < w->members; i++)
        first->nodes[i] = i;
    w->views = 1;
}

static void begin(world *w, uint64_t seed)
{
    w->rng = (shoali_rng){seed, 77, 0};
    w->plan = world_random(w, 8) == 0 ? 1 + (world_plan)world_random(w, PLANS - 1) : PLAN_RANDOM;
    w->members = w->plan == PLAN_RANDOM ? 2 + (uint32_t)world_random(w, 4) : 5;
    w->nodes = w->members + (uint32_t)world_random(w, 3);
    w->end_us = 75 * 1000 * 1000;
    w->visits = 1;
    make_first_view(w);
    for (uint8_t i = 0; i < w->nodes; i++) {
        world_node *n = &w->node[i];
        n->rate = 0.95 + 0.1 * (double)world_random(w, 1000) / 1000;
        n->identity = 1000 + i;
        w->proof_us[i] = world_random(w, 3) == 0 ? 0 : 1000 + world_random(w, 300 * 1000);
        n->starts_us = world_random(w, 10 * 1000 * 1000);
        if (i < w->members)
            node_enter_first(w, i);
        push(w, (world_event){world_random(w, TICK_US), 0, EVENT_TICK, {.to = i}});
    }
    plan_faults(w);
}

static void tick(world *w, uint8_t node)
{
    const world_node *n = &w->node[node];
    uint64_t next = w->now_us + TICK_US / 2 + world_random(w, TICK_US);
    if (n->dead || n->state == NODE_ENDED)
        return;
    if (n->paused_until_us > w->now_us)
        next = n->paused_until_us + world_random(w, TICK_US);
    else
        node_tick(w, node);
    push(w, (world_event){next, 0, EVENT_TICK, {.to = node}});
}

static void word(world *w, world_event *event)
{
    const world_node *n = &w->node[event->word.to];
    if (n->dead || n->state == NODE_ENDED)
        return;
    if (n->paused_until_us > w->now_us) {
        event->at_us = n->paused_until_us + 1;
        push(w, *event);
        return;
    }
    node_hear(w, event->word.to, &event->word);
}

bool world_live(world *w, uint64_t seed, bool trace)
{
    uint64_t step_us = STEP_US;
    world_event *heap = w->heap;
    uint32_t capacity = w->capacity;
    memset(w, 0, sizeof *w);
    w->heap = heap;
    w->capacity = capacity;
    w->trace = trace;
    begin(w, seed);
    while (w->count > 0 && w->heap[0].at_us < w->end_us && w->violation[0] == '\0') {
        world_event event = pop(w);
        while (step_us <= event.at_us) {
            w->now_us = step_us;
            make_steps(w);
            step_us += STEP_US;
        }
        w->now_us = event.at_us;
        if (event.kind == EVENT_TICK)
            tick(w, event.word.to);
        else if (event.kind == EVENT_WORD)
            word(w, &event);
        else
            make_trouble(w, event.word.to);
    }
    return w->violation[0] == '\0';
}

void world_free(world *w)
{
    free(w->heap);
    w->heap = NULL;
}
