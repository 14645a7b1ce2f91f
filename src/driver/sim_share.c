/* SPDX-License-Identifier: Apache-2.0 */
/* What coming and going changes is found by going through the filling again, from low levels to
 * high ones, but only where it differs from the last one:
 *
 *   CALM      the link does what it did last time
 *   AFFECTED  it may not: a coflow on it came, went, or got another rate
 *   RELEASED  the filling has passed its old level, and it was not full there
 *   FINAL     its new level is known
 *
 * The least level that an affected link can have, given what is known below, is found by filling it
 * with the coflows on it; other affected links are taken for endless meanwhile, so it is a lower
 * bound, and of the least of them it is the level. A link that becomes full at another level than
 * before affects those links of its coflows that become full later. Nothing is ever added up from
 * one filling to the next, so errors do not grow. */
#include "driver/sim_share.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"

#define SAME 1e-12 /* relative: levels so close are equal, and nothing follows from them */

enum { CALM, AFFECTED, RELEASED, FINAL };

struct shoali_share_user {
    uint32_t flow, load; /* index in the flow's loads */
    double weight;
};

struct shoali_share_link {
    shoali_share_user *users;
    uint32_t count, room;
    int state;
    bool guessed; /* AFFECTED, and where to look at it does not come from filling it */
    double capacity, level;
};

typedef struct load {
    uint32_t link, place; /* index in the link's users */
} load;

struct shoali_share_flow {
    load *loads;
    uint32_t load_count, room;
    bool present, listed;
    double rate; /* -1: none yet */
};

shoal_status shoali_share_init(shoali_sharing *share, const double *capacity, uint32_t links)
{
    *share = (shoali_sharing){.link_count = links};
    share->links = shoali_alloc_array(links, sizeof *share->links);
    share->affected = shoali_alloc_array(links, sizeof *share->affected);
    if (share->links == NULL || share->affected == NULL ||
        shoali_heap_reserve(&share->due, links) != SHOAL_OK) {
        shoali_share_fini(share);
        return SHOAL_ENOMEM;
    }
    for (uint32_t i = 0; i < links; i++) {
        share->links[i].capacity = capacity[i];
        share->links[i].level = INFINITY;
    }
    return SHOAL_OK;
}

shoal_status shoali_share_extend(shoali_sharing *share, double capacity)
{
    const uint32_t old = share->link_count, room = old + 1;
    shoali_share_link *links = shoali_realloc(share->links, old * sizeof *links,
                                              room * sizeof *links);
    share->links = links != NULL ? links : share->links;
    uint32_t *affected = shoali_realloc(share->affected, old * sizeof *affected,
                                        room * sizeof *affected);
    share->affected = affected != NULL ? affected : share->affected;
    if (links == NULL || affected == NULL || shoali_heap_reserve(&share->due, room) != SHOAL_OK)
        return SHOAL_ENOMEM;
    links[old] = (shoali_share_link){.capacity = capacity, .level = INFINITY};
    share->link_count = room;
    return SHOAL_OK;
}

void shoali_share_fini(shoali_sharing *share)
{
    for (uint32_t i = 0; share->links != NULL && i < share->link_count; i++)
        shoali_free(share->links[i].users);
    for (uint32_t i = 0; i < share->flow_capacity; i++)
        shoali_free(share->flows[i].loads);
    shoali_heap_fini(&share->due);
    shoali_free(share->links);
    shoali_free(share->flows);
    shoali_free(share->cap);
    shoali_free(share->affected);
    shoali_free(share->changed);
    *share = (shoali_sharing){0};
}

/* ---------------------------------------------------------------- what may have changed */

/* Levels are positive doubles: their bits are ordered as they are. */
static uint64_t key_of(double level)
{
    uint64_t key;
    memcpy(&key, &level, sizeof key);
    return key;
}

static void look_at(shoali_sharing *share, uint32_t link, double level)
{
    shoali_heap_set(&share->due, link, key_of(level), link);
}

/* Not later than at this level. */
static void look_by(shoali_sharing *share, uint32_t link, double level)
{
    const shoali_heap *due = &share->due;
    if (due->place[link] > 0 && due->entries[due->place[link] - 1].key > key_of(level))
        look_at(share, link, level);
}

static void list(shoali_sharing *share, uint32_t flow)
{
    if (!share->flows[flow].listed)
        share->changed[share->changed_count++] = flow;
    share->flows[flow].listed = true;
}

/* The lowest known level on a flow's way; a calm one equal to what it was before is the lowest. */
static double lowest(const shoali_sharing *share, const shoali_share_flow *flow, double before)
{
    double cap = INFINITY;
    for (uint32_t i = 0; i < flow->load_count && cap > before; i++) {
        const shoali_share_link *link = &share->links[flow->loads[i].link];
        if ((link->state == CALM || link->state == FINAL) && link->level < cap)
            cap = link->level;
    }
    return cap;
}

/* A flow is no longer held back at the old level of a link: others on its way may fill earlier, but
 * not below that level. */
static void loosen(shoali_sharing *share, uint32_t number, double before)
{
    const shoali_share_flow *flow = &share->flows[number];
    share->cap[number] = lowest(share, flow, before);
    if (share->cap[number] == before)
        return;
    list(share, number);
    for (uint32_t i = 0; i < flow->load_count; i++)
        look_by(share, flow->loads[i].link, before);
}

/* A link may be full at another level than before, and at none below this. */
static void affect(shoali_sharing *share, uint32_t number, double level, bool guessed)
{
    shoali_share_link *link = &share->links[number];
    if (link->state != CALM)
        return;
    link->state = AFFECTED;
    link->guessed = guessed;
    share->affected[share->affected_count++] = number;
    look_at(share, number, level);
    for (uint32_t i = 0; i < link->count; i++) {
        uint32_t flow = link->users[i].flow;
        if (share->cap[flow] == link->level && link->level < INFINITY)
            loosen(share, flow, link->level);
    }
}

/* ---------------------------------------------------------------- coming and going */

static bool grow_flows(shoali_sharing *share, uint32_t need)
{
    uint32_t old = share->flow_capacity, room = old > 0 ? old : 16;
    while (room < need)
        room *= 2;
    if (room == old)
        return true;
    shoali_share_flow *flows = shoali_realloc(share->flows, old * sizeof *flows,
                                              room * sizeof *flows);
    share->flows = flows != NULL ? flows : share->flows;
    double *cap = shoali_realloc(share->cap, old * sizeof *cap, room * sizeof *cap);
    share->cap = cap != NULL ? cap : share->cap;
    uint32_t *changed = shoali_realloc(share->changed, old * sizeof *changed,
                                       room * sizeof *changed);
    share->changed = changed != NULL ? changed : share->changed;
    if (flows == NULL || cap == NULL || changed == NULL)
        return false;
    share->flow_capacity = room;
    return true;
}

static bool grow_link(shoali_share_link *link)
{
    if (link->count < link->room)
        return true;
    uint32_t room = link->room > 0 ? 2 * link->room : 4;
    shoali_share_user *users = shoali_realloc(link->users, link->room * sizeof *users,
                                              room * sizeof *users);
    if (users == NULL)
        return false;
    link->users = users;
    link->room = room;
    return true;
}

/* All memory that add needs, so that it fails before it changes anything. */
static bool reserve(shoali_sharing *share, uint32_t number, const shoali_load *loads,
                    uint32_t count)
{
    if (!grow_flows(share, number + 1))
        return false;
    shoali_share_flow *flow = &share->flows[number];
    if (count > flow->room) {
        shoali_free(flow->loads);
        flow->loads = shoali_alloc_array(count, sizeof *flow->loads);
        flow->room = flow->loads != NULL ? count : 0;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!grow_link(&share->links[loads[i].link]))
            return false;
    return flow->room >= count;
}

shoal_status shoali_share_add(shoali_sharing *share, uint32_t number, const shoali_load *loads,
                              uint32_t count)
{
    uint64_t peak = 0;
    if (!reserve(share, number, loads, count))
        return SHOAL_ENOMEM;
    shoali_share_flow *flow = &share->flows[number];
    flow->present = true;
    flow->rate = -1;
    flow->load_count = 0;
    share->cap[number] = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        peak = loads[i].bytes > peak ? loads[i].bytes : peak;
    for (uint32_t i = 0; i < count; i++) {
        shoali_share_link *link = &share->links[loads[i].link];
        if (loads[i].bytes == 0)
            continue;
        affect(share, loads[i].link, 0, false);
        flow->loads[flow->load_count] = (load){loads[i].link, link->count};
        link->users[link->count++] = (shoali_share_user){number, flow->load_count++,
                                                         (double)loads[i].bytes / (double)peak};
    }
    list(share, number);
    return SHOAL_OK;
}

void shoali_share_remove(shoali_sharing *share, uint32_t number)
{
    shoali_share_flow *flow = &share->flows[number];
    for (uint32_t i = 0; i < flow->load_count; i++) {
        shoali_share_link *link = &share->links[flow->loads[i].link];
        const shoali_share_user last = link->users[--link->count];
        link->users[flow->loads[i].place] = last;
        share->flows[last.flow].loads[last.load].place = flow->loads[i].place;
        affect(share, flow->loads[i].link, 0, false);
    }
    flow->load_count = 0;
    flow->present = false;
}

void shoali_share_resize(shoali_sharing *share, uint32_t link, double capacity)
{
    share->links[link].capacity = capacity;
    affect(share, link, 0, false);
}

/* ---------------------------------------------------------------- filling */

/* The level at which a link is full, its flows held back by what is known of other links. Each pass
 * goes on from the last one's level, with the flows that this has not held back, so it only rises.
 */
static double fill(const shoali_sharing *share, const shoali_share_link *link)
{
    double level = 0;
    for (uint32_t held = 0, before = UINT32_MAX;; before = held) {
        double used = 0, demand = 0;
        held = 0;
        for (uint32_t i = 0; i < link->count; i++) {
            double weight = link->users[i].weight, cap = share->cap[link->users[i].flow];
            double free = (double)(cap >= level); /* no branch: nobody can foretell it */
            used += weight * (cap < level ? cap : level);
            demand += weight * free;
            held += cap < level;
        }
        if (held == before)
            return level;
        if (held == link->count)
            return INFINITY;
        level += fmax(link->capacity - used, 0) / demand;
    }
}

/* The link is full at this level, and holds back what nothing below has held back. Links that see
 * a flow take less than before are full at their old level or later; those that see it take more
 * have been affected when its old level was passed. */
static void freeze(shoali_sharing *share, uint32_t number, double level)
{
    shoali_share_link *link = &share->links[number];
    for (uint32_t i = 0; i < link->count; i++) {
        uint32_t f = link->users[i].flow;
        const shoali_share_flow *flow = &share->flows[f];
        if (share->cap[f] <= level)
            continue;
        share->cap[f] = level;
        list(share, f);
        for (uint32_t k = 0; flow->rate > level && k < flow->load_count; k++) {
            double old = share->links[flow->loads[k].link].level;
            if (old > level)
                affect(share, flow->loads[k].link, old, true);
        }
    }
    link->state = FINAL; /* not before: loosen would freeze flows before their turn */
    link->level = level;
    shoali_heap_remove(&share->due, number);
}

/* The link is not full at its old level: its flows go on, and reach others that did not see them.
 */
static void release(shoali_sharing *share, uint32_t number)
{
    shoali_share_link *link = &share->links[number];
    link->state = RELEASED;
    for (uint32_t i = 0; i < link->count; i++) {
        uint32_t f = link->users[i].flow;
        const shoali_share_flow *flow = &share->flows[f];
        if (flow->rate != link->level || share->cap[f] <= link->level)
            continue;
        for (uint32_t k = 0; k < flow->load_count; k++) {
            uint32_t other = flow->loads[k].link;
            if (share->links[other].guessed)
                look_by(share, other, link->level);
            if (share->links[other].level > link->level)
                affect(share, other, link->level, false);
        }
    }
}

/* One look at the link that may be full next; false: no affected link will ever be full. */
static bool step(shoali_sharing *share)
{
    const shoali_heap_entry *first = shoali_heap_first(&share->due);
    if (first == NULL || first->key == key_of(INFINITY))
        return false;
    uint32_t number = first->item;
    shoali_share_link *link = &share->links[number];
    double full = fill(share, link);
    link->guessed = false;
    if (link->state == AFFECTED && fabs(full - link->level) <= SAME * fmin(full, link->level))
        full = link->level;
    double next = link->state == RELEASED ? full : fmin(full, link->level);
    if (key_of(next) > first->key) {
        look_at(share, number, next);
    } else if (link->state == AFFECTED && full > link->level) {
        release(share, number);
        look_at(share, number, full);
    } else {
        freeze(share, number, full);
    }
    return true;
}

uint32_t shoali_share_solve(shoali_sharing *share, const uint32_t **flows_out)
{
    uint32_t kept = 0;
    while (step(share))
        continue;
    for (uint32_t i = 0; i < share->affected_count; i++) {
        shoali_share_link *link = &share->links[share->affected[i]];
        link->level = link->state == FINAL ? link->level : INFINITY;
        link->state = CALM;
        link->guessed = false;
        shoali_heap_remove(&share->due, share->affected[i]);
    }
    share->affected_count = 0;
    for (uint32_t i = 0; i < share->changed_count; i++) {
        shoali_share_flow *flow = &share->flows[share->changed[i]];
        bool differs = flow->present && flow->rate != share->cap[share->changed[i]];
        flow->listed = false;
        flow->rate = share->cap[share->changed[i]];
        if (differs)
            share->changed[kept++] = share->changed[i];
    }
    share->changed_count = 0;
    *flows_out = share->changed;
    return kept;
}

double shoali_share_rate(const shoali_sharing *share, uint32_t flow)
{
    return share->flows[flow].rate;
}
