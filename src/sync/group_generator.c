/* SPDX-License-Identifier: Apache-2.0 */
/* Luo et al., "Prague", ASPLOS 2020, as far as its text tells: Group Buffer (a worker that has a
 * group gets no new one), Group Division (one request prepares groups for all that are free),
 * inter-intra synchronisation, slowdown filter. Of a worker's buffer only the number of its groups
 * is kept: groups go to their members as soon as they are made.
 *
 *   four hosts a-d of four, all free, inter-intra:   1st  {a2 b0 c3 d1} {a0 a1 a3} {b1 b2 b3} ..
 *                                                    2nd  {a0 a1 a2 a3} {b0 b1 b2 b3} .. */
#include "sync/group_generator.h"

#include <string.h>

#include "base/rng.h"

enum { STREAM_GROUPS = 0x6767, ROOM = 4 };

uint32_t shoali_generator_room(const shoali_world *world, shoali_division division)
{
    return division == SHOALI_DIVIDE_NONE ? world->workers + ROOM : ROOM;
}

/* Insertion: a launcher that fills host after host has sorted them already. */
void shoali_host_order(const shoali_world *world, uint32_t *order_out)
{
    for (uint32_t u = 0; u < world->workers; u++) {
        uint32_t at = u;
        for (; at > 0 && world->hosts[order_out[at - 1]] > world->hosts[u]; at--)
            order_out[at] = order_out[at - 1];
        order_out[at] = u;
    }
}

/* Inter-intra: heads, and every host at most as rest, whole and its laggards alone. */
static size_t most_members(const shoali_world *world)
{
    return 3 * (size_t)world->workers + 1;
}

size_t shoali_generator_bytes(const shoali_world *world)
{
    size_t workers = world->workers;
    return workers * (2 * sizeof(uint64_t) + 3 * sizeof(uint32_t) + sizeof(shoali_tempo)) +
           most_members(world) * (sizeof(shoali_group) + sizeof(uint32_t)) + 2 * workers;
}

void shoali_generator_init(shoali_generator *generator, const shoali_world *world,
                           const shoali_generator_options *options, void *memory)
{
    *generator = (shoali_generator){.world = world, .options = *options, .next = 1};
    generator->asked = memory;
    generator->paces = generator->asked + world->workers;
    generator->groups = (shoali_group *)(generator->paces + world->workers);
    generator->tempos = (shoali_tempo *)(generator->groups + most_members(world));
    generator->members = (uint32_t *)(generator->tempos + world->workers);
    generator->pending = generator->members + most_members(world);
    generator->free = generator->pending + world->workers;
    generator->order = generator->free + world->workers;
    generator->out = (uint8_t *)(generator->order + world->workers);
    generator->waiting = generator->out + world->workers;
    shoali_host_order(world, generator->order);
}

/* Below bound. */
static uint32_t draw(shoali_generator *g, uint32_t bound)
{
    uint64_t stream = shoali_mix(STREAM_GROUPS, g->next >> 40);
    return (uint32_t)shoali_rng_below(g->world->seed, stream, g->draws++, bound);
}

/* ---------------------------------------------------------------- handing out */

static void begin(shoali_generator *g)
{
    g->groups[g->group_count] = (shoali_group){.id = g->next, .first = g->member_count};
}

static void put(shoali_generator *g, uint32_t worker)
{
    g->members[g->member_count++] = worker;
    g->groups[g->group_count].count++;
    g->pending[worker]++;
    g->waiting[worker] = 0;
}

static void end(shoali_generator *g)
{
    if (g->groups[g->group_count].count == 0)
        return;
    g->group_count++;
    g->next++;
}

static void sort(uint32_t *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t value = list[i], at = i;
        for (; at > 0 && list[at - 1] > value; at--)
            list[at] = list[at - 1];
        list[at] = value;
    }
}

/* ---------------------------------------------------------------- divisions */

/* What a division goes by. */
static void learn_crowd(shoali_generator *g)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < g->world->workers; u++) {
        uint64_t pace = g->out[u] ? 0 : shoali_tempo_median_us(&g->tempos[u]);
        if (pace > 0)
            g->paces[count++] = pace;
    }
    g->crowd_us = 2 * count > g->world->workers ? shoali_median(g->paces, count) : 0;
}

/* Half as slow again as most. */
static bool is_laggard(const shoali_generator *g, uint32_t worker)
{
    uint64_t pace = g->options.laggards ? shoali_tempo_median_us(&g->tempos[worker]) : 0;
    return g->crowd_us > 0 && 2 * pace > 3 * g->crowd_us;
}

/* Too far behind the worker that asks. */
static bool is_behind(const shoali_generator *g, uint32_t u, uint32_t worker)
{
    uint32_t threshold = g->options.threshold;
    if (g->options.laggards)
        return is_laggard(g, u);
    return threshold > 0 && g->asked[worker] >= g->asked[u] + threshold;
}

/* Who takes part, host by host. */
static uint32_t find_free(shoali_generator *g, uint32_t worker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->world->workers; i++) {
        uint32_t u = g->order[i];
        bool there = u == worker || g->waiting[u]; /* nobody has to wait for it */
        if (!g->out[u] && g->pending[u] == 0 && (there || !is_behind(g, u, worker)))
            g->free[count++] = u;
    }
    return count;
}

/* End of the run of free workers from `from` on one host. */
static uint32_t host_end(const shoali_generator *g, uint32_t from, uint32_t count)
{
    uint32_t to = from;
    while (to < count && g->world->hosts[g->free[to]] == g->world->hosts[g->free[from]])
        to++;
    return to;
}

/* The head of every host draws its number once; heads of the division that is being made are marked
 * by what they have pending. */
static void inter(shoali_generator *g, uint32_t count)
{
    begin(g);
    for (uint32_t from = 0, to; from < count; from = to) {
        to = host_end(g, from, count);
        put(g, g->free[from + draw(g, to - from)]);
    }
    end(g);
    for (uint32_t from = 0, to; from < count; from = to) {
        to = host_end(g, from, count);
        begin(g);
        for (uint32_t i = from; i < to; i++)
            if (g->pending[g->free[i]] == 0)
                put(g, g->free[i]);
        end(g);
    }
}

static void intra(shoali_generator *g, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        to = host_end(g, from, count);
        begin(g);
        for (uint32_t i = from; i < to; i++)
            if (!is_laggard(g, g->free[i]))
                put(g, g->free[i]);
        end(g);
    }
}

static void shuffle(shoali_generator *g, uint32_t from, uint32_t count)
{
    for (uint32_t i = from; i + 1 < count; i++) {
        uint32_t j = i + draw(g, count - i), value = g->free[i];
        g->free[i] = g->free[j];
        g->free[j] = value;
    }
}

/* free[from .. count) in random groups. */
static void divide_randomly(shoali_generator *g, uint32_t count)
{
    uint32_t size = g->options.group;
    shuffle(g, 0, count);
    for (uint32_t from = 0; from < count; from += size) {
        uint32_t part = count - from < size ? count - from : size;
        sort(g->free + from, part);
        begin(g);
        for (uint32_t i = from; i < from + part; i++)
            put(g, g->free[i]);
        end(g);
    }
}

/* The worker and group - 1 random others that have room. */
static void pick_randomly(shoali_generator *g, uint32_t worker)
{
    uint32_t count = 1, room = shoali_generator_room(g->world, SHOALI_DIVIDE_NONE);
    g->free[0] = worker;
    for (uint32_t u = 0; u < g->world->workers; u++)
        if (!g->out[u] && u != worker && g->pending[u] < room)
            g->free[count++] = u;
    shuffle(g, 1, count);
    count = count < g->options.group ? count : g->options.group;
    sort(g->free, count);
    begin(g);
    for (uint32_t i = 0; i < count; i++)
        put(g, g->free[i]);
    end(g);
}

/* Somebody is there who will ask and does not lag. */
static bool anybody_else(const shoali_generator *g, uint32_t worker)
{
    for (uint32_t u = 0; u < g->world->workers; u++)
        if (u != worker && !g->out[u] && !is_laggard(g, u))
            return true;
    return false;
}

void shoali_generator_request(shoali_generator *generator, uint32_t worker, uint64_t asked,
                              uint64_t busy_us)
{
    shoali_generator *g = generator;
    g->group_count = g->member_count = 0;
    g->asked[worker] = asked;
    if (busy_us != UINT64_MAX)
        shoali_tempo_add(&g->tempos[worker], busy_us);
    if (g->pending[worker] > 0 || g->out[worker])
        return;
    if (g->options.laggards)
        learn_crowd(g);
    if (is_laggard(g, worker) && anybody_else(g, worker)) {
        g->waiting[worker] = 1;
        return;
    }
    if (g->options.division == SHOALI_DIVIDE_NONE) {
        pick_randomly(g, worker);
        return;
    }
    uint32_t count = find_free(g, worker);
    if (g->options.division == SHOALI_DIVIDE_RANDOM) {
        divide_randomly(g, count);
        return;
    }
    inter(g, count);
    intra(g, count);
}

void shoali_generator_done(shoali_generator *generator, uint32_t worker)
{
    if (generator->pending[worker] > 0)
        generator->pending[worker]--;
}

void shoali_generator_leave(shoali_generator *generator, uint32_t worker)
{
    generator->out[worker] = 1;
    generator->pending[worker] = 0;
    generator->waiting[worker] = 0;
}

uint32_t shoali_generator_overdue(const shoali_generator *generator)
{
    for (uint32_t u = 0; u < generator->world->workers; u++)
        if (generator->waiting[u] && !anybody_else(generator, u))
            return u;
    return UINT32_MAX;
}
