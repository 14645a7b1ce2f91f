/* SPDX-License-Identifier: Apache-2.0 */
/* Time in a life: what happens next, and to whom nothing happens. */
#include "support/check.h"
#include "support/ops_life.h"

enum { MOST_EVENTS = 100 * 1000, ROUNDS = 1000 };

static bool before(const life_event *a, const life_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void push(life *l, const life_event *event)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity == 0 ? 1024 : 2 * l->capacity;
        l->heap = realloc(l->heap, l->capacity * sizeof *l->heap);
        assert_non_null(l->heap);
    }
    uint32_t i = l->count++;
    for (; i > 0 && before(event, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = *event;
}

static life_event pop(life *l)
{
    const life_event first = l->heap[0], last = l->heap[--l->count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < l->count; child = 2 * i + 1) {
        child += child + 1 < l->count && before(&l->heap[child + 1], &l->heap[child]);
        if (!before(&l->heap[child], &last))
            break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = last;
    return first;
}

uint64_t life_local(const life *l, uint32_t r, uint64_t at_us)
{
    const life_rank *rank = &l->rank[r];
    return at_us * rank->rate / 1000 + (at_us >= rank->jump_at_us ? rank->jump_us : 0);
}

static uint64_t at_rate(const life_rank *rank, uint64_t local_us)
{
    return (local_us * 1000 + rank->rate - 1) / rank->rate;
}

uint64_t life_instant(const life *l, uint32_t r, uint64_t local_us)
{
    const life_rank *rank = &l->rank[r];
    const uint64_t plain_us = at_rate(rank, local_us);
    if (plain_us < rank->jump_at_us || rank->jump_us == 0)
        return plain_us;
    const uint64_t left_us = local_us > rank->jump_us ? local_us - rank->jump_us : 0;
    const uint64_t after_us = at_rate(rank, left_us);
    return after_us > rank->jump_at_us ? after_us : rank->jump_at_us;
}

static void set_clocks(life *l)
{
    for (uint32_t r = 0; r < l->size; r++)
        l->rank[r].clock_us = life_local(l, r, l->now_us);
}

void life_at(life *l, uint64_t at_us, life_event event)
{
    event.at_us = at_us > l->now_us ? at_us : l->now_us;
    event.order = l->order++;
    push(l, &event);
}

/* Most are soon there, some far behind those that came later. */
uint64_t life_delay(life *l)
{
    const uint64_t kind = life_random(l, 32);
    return kind == 0 && l->slow ? 1000 + life_random(l, 200 * 1000)
           : kind < 4           ? life_random(l, 2000)
                                : life_random(l, 50);
}

void life_finish_round(life *l, uint32_t r)
{
    life_rank *rank = &l->rank[r];
    uint32_t rounds = 0;
    l->running = r;
    do {
        rank->busy = false;
        shoali_run_timers(&rank->ops, false);
        shoali_run_reap(&rank->ops);
        if (++rounds == ROUNDS)
            life_break(l, "rank %u is busy for ever", r);
    } while (rank->busy && rounds < ROUNDS);
    const uint64_t due_us = shoali_run_next_us(&rank->ops);
    const uint64_t next_us = due_us < UINT64_MAX ? life_instant(l, r, due_us) : UINT64_MAX;
    if (next_us == UINT64_MAX || (rank->wake_us > l->now_us && rank->wake_us <= next_us))
        return;
    rank->wake_us = next_us > l->now_us ? next_us : l->now_us + 1;
    life_at(l, rank->wake_us, (life_event){.kind = EVENT_WAKE, .to = r});
}

/* Whoever stands still takes nothing: it waits, in order. */
static bool stands(life *l, const life_event *e)
{
    const life_rank *rank = &l->rank[e->to];
    if (rank->paused_until_us <= l->now_us || rank->dead)
        return false;
    life_event later = *e;
    later.at_us = rank->paused_until_us;
    push(l, &later);
    return true;
}

void life_run(life *l)
{
    const uint64_t most = l->events + MOST_EVENTS;
    while (l->count > 0 && l->violation[0] == '\0') {
        const life_event e = pop(l);
        l->now_us = e.at_us > l->now_us ? e.at_us : l->now_us;
        set_clocks(l);
        if (stands(l, &e))
            continue;
        if (++l->events > most)
            life_break(l, "it goes on for ever");
        life_happen(l, &e);
        life_finish_round(l, e.to);
        while (l->struck < l->strikes && l->events >= l->strike_at[l->struck]) {
            l->struck++;
            life_strike(l);
            for (uint32_t i = 0; i < l->epoch_size; i++)
                life_finish_round(l, l->who[i]);
        }
    }
}
