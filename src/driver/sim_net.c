/* SPDX-License-Identifier: Apache-2.0 */
/* Progressive filling. The rate of a coflow is that on its most loaded link, where peak bytes have
 * to go; it moves rate / peak of itself per ns and takes rate * bytes(l) / peak of link l. All
 * rates rise together; when a link is full, the coflows on it are frozen, the others go on. Rates
 * are computed anew when coflows begin or end, once per moment. */
#include "driver/sim_net.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"

typedef struct coflow {
    const shoali_load *loads;
    uint32_t load_count, cookie;
    double peak;       /* bytes on its most loaded link */
    double left;       /* part still to move, 1 .. 0 */
    double speed;      /* part per ns */
    uint64_t since_ns; /* left was true then */
    uint64_t due_ns;
    bool frozen;
} coflow;

/* State of a link during one filling. */
typedef struct filling {
    double used;   /* bytes per ns taken by frozen coflows */
    double demand; /* sum of what the others take per unit of rate */
    uint32_t users;
} filling;

struct shoali_links {
    double *bytes_per_ns;
    uint64_t *carried;
    filling *links;
    uint32_t *touched; /* links in use in this filling */
    uint32_t link_count, touched_count;
    coflow *flows; /* in order of their starts */
    uint32_t count, capacity;
    uint64_t next_ns;
    bool stale; /* rates are those of an earlier set of coflows */
    uint64_t now_ns;
};

shoali_links *shoali_links_create(const double *bytes_per_ns, uint32_t links)
{
    shoali_links *net = shoali_alloc(sizeof *net);
    if (net == NULL)
        return NULL;
    net->bytes_per_ns = shoali_alloc_array(links, sizeof *net->bytes_per_ns);
    net->carried = shoali_alloc_array(links, sizeof *net->carried);
    net->links = shoali_alloc_array(links, sizeof *net->links);
    net->touched = shoali_alloc_array(links, sizeof *net->touched);
    net->link_count = links;
    net->next_ns = UINT64_MAX;
    if (net->bytes_per_ns == NULL || net->carried == NULL || net->links == NULL ||
        net->touched == NULL) {
        shoali_links_destroy(net);
        return NULL;
    }
    memcpy(net->bytes_per_ns, bytes_per_ns, links * sizeof *bytes_per_ns);
    return net;
}

void shoali_links_destroy(shoali_links *net)
{
    if (net == NULL)
        return;
    shoali_free(net->bytes_per_ns);
    shoali_free(net->carried);
    shoali_free(net->links);
    shoali_free(net->touched);
    shoali_free(net->flows);
    shoali_free(net);
}

/* Bring every coflow's remainder to now, before the rates change. */
static void settle(shoali_links *net, uint64_t now_ns)
{
    if (now_ns > net->now_ns)
        (void)shoali_links_next_ns(net);
    for (uint32_t i = 0; i < net->count; i++) {
        coflow *f = &net->flows[i];
        f->left -= f->speed * (double)(now_ns - f->since_ns);
        if (f->left < 0 || (!net->stale && f->due_ns <= now_ns))
            f->left = 0;
        f->since_ns = now_ns;
    }
    net->now_ns = now_ns;
    net->stale = true;
}

shoal_status shoali_links_start(shoali_links *net, uint64_t now_ns, const shoali_load *loads,
                                uint32_t count, uint32_t cookie)
{
    if (net->count == net->capacity) {
        uint32_t capacity = net->capacity > 0 ? 2 * net->capacity : 16;
        coflow *grown = shoali_realloc(net->flows, net->capacity * sizeof *grown,
                                       capacity * sizeof *grown);
        if (grown == NULL)
            return SHOAL_ENOMEM;
        net->flows = grown;
        net->capacity = capacity;
    }
    coflow f = {.loads = loads, .load_count = count, .cookie = cookie, .left = 1};
    for (uint32_t i = 0; i < count; i++)
        f.peak = fmax(f.peak, (double)loads[i].bytes);
    f.since_ns = now_ns;
    settle(net, now_ns);
    net->flows[net->count++] = f;
    return SHOAL_OK;
}

static void drop(shoali_links *net, uint32_t at)
{
    net->count--;
    memmove(&net->flows[at], &net->flows[at + 1], (net->count - at) * sizeof net->flows[0]);
}

bool shoali_links_cancel(shoali_links *net, uint64_t now_ns, uint32_t cookie)
{
    for (uint32_t i = 0; i < net->count; i++)
        if (net->flows[i].cookie == cookie) {
            settle(net, now_ns);
            drop(net, i);
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- rates */

static void enter_loads(shoali_links *net, coflow *f)
{
    f->frozen = f->peak <= 0;
    for (uint32_t i = 0; i < f->load_count && !f->frozen; i++) {
        filling *link = &net->links[f->loads[i].link];
        if (f->loads[i].bytes == 0)
            continue;
        if (link->users++ == 0)
            net->touched[net->touched_count++] = f->loads[i].link;
        link->demand += (double)f->loads[i].bytes / f->peak;
    }
}

/* The rate at which the next link is full. */
static double next_level(const shoali_links *net)
{
    double level = INFINITY;
    for (uint32_t i = 0; i < net->touched_count; i++) {
        const filling *link = &net->links[net->touched[i]];
        if (link->users > 0)
            level = fmin(level, (net->bytes_per_ns[net->touched[i]] - link->used) / link->demand);
    }
    return level;
}

static bool on_full_link(const shoali_links *net, const coflow *f, double level)
{
    for (uint32_t i = 0; i < f->load_count; i++) {
        uint32_t l = f->loads[i].link;
        double full = net->bytes_per_ns[l] * (1 - 1e-9);
        if (f->loads[i].bytes > 0 && net->links[l].used + level * net->links[l].demand >= full)
            return true;
    }
    return false;
}

/* Mark first, then move: what freezes at this level is decided by the loads before it. */
static uint32_t freeze(shoali_links *net, double level)
{
    uint32_t frozen = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        coflow *f = &net->flows[i];
        f->speed = !f->frozen && on_full_link(net, f, level) ? level / f->peak : f->speed;
    }
    for (uint32_t i = 0; i < net->count; i++) {
        coflow *f = &net->flows[i];
        if (f->frozen || f->speed <= 0)
            continue;
        f->frozen = true;
        frozen++;
        for (uint32_t k = 0; k < f->load_count; k++) {
            filling *link = &net->links[f->loads[k].link];
            if (f->loads[k].bytes == 0)
                continue;
            double part = (double)f->loads[k].bytes / f->peak;
            link->used += level * part;
            link->demand -= part;
            link->users--;
        }
    }
    return frozen;
}

static void share(shoali_links *net)
{
    uint32_t open = 0;
    net->touched_count = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        enter_loads(net, &net->flows[i]);
        net->flows[i].speed = 0;
        open += !net->flows[i].frozen;
    }
    while (open > 0) {
        uint32_t frozen = freeze(net, next_level(net));
        open -= frozen;
        if (frozen == 0)
            break; /* cannot be: the link that set the level is full */
    }
    for (uint32_t i = 0; i < net->touched_count; i++)
        net->links[net->touched[i]] = (filling){0};
}

static uint64_t due(const coflow *f, uint64_t now_ns)
{
    double ns = f->peak > 0 ? ceil(f->left / f->speed - 1e-3) : 0; /* rounding is no time */
    return ns < 0x1p62 ? now_ns + (uint64_t)ns : UINT64_MAX - 1;
}

uint64_t shoali_links_next_ns(shoali_links *net)
{
    if (net->stale) {
        share(net);
        net->next_ns = UINT64_MAX;
        for (uint32_t i = 0; i < net->count; i++) {
            coflow *f = &net->flows[i];
            f->due_ns = due(f, net->now_ns);
            net->next_ns = f->due_ns < net->next_ns ? f->due_ns : net->next_ns;
        }
        net->stale = false;
    }
    return net->next_ns;
}

bool shoali_links_finished(shoali_links *net, uint64_t now_ns, uint32_t *cookie_out)
{
    if (shoali_links_next_ns(net) > now_ns)
        return false;
    for (uint32_t i = 0; i < net->count; i++) {
        coflow *f = &net->flows[i];
        if (f->due_ns > now_ns)
            continue;
        *cookie_out = f->cookie;
        for (uint32_t k = 0; k < f->load_count; k++)
            net->carried[f->loads[k].link] += f->loads[k].bytes;
        settle(net, now_ns);
        drop(net, i);
        return true;
    }
    return false;
}

uint64_t shoali_links_carried_bytes(const shoali_links *net, uint32_t link)
{
    return net->carried[link];
}
