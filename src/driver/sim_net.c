/* SPDX-License-Identifier: Apache-2.0 */
/* Time on top of the rates of sim_share.c. A coflow's remainder is brought up to date when its rate
 * changes, and its end goes into a heap; so coming and going costs what it changes. Rates are found
 * anew once per moment: the moment's starts and ends come first. */
#include "driver/sim_net.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"

#define NONE UINT32_MAX

#define NO_BRAKE 1e18 /* bytes per ns */

enum { LOOKS = 16 }; /* of a paced coflow, in its time */

typedef struct coflow {
    const shoali_load *loads;
    uint32_t load_count, cookie;
    uint32_t next_free;
    bool present, paused;
    double peak;       /* bytes on its most loaded link */
    double left;       /* part still to move, 1 .. 0 */
    double speed;      /* part per ns */
    uint64_t since_ns; /* left was true then */
    uint64_t due_ns;
    uint64_t order;    /* of its start */
    uint64_t until_ns; /* paced: its time; 0: it is not */
    uint64_t look_ns;  /* when it next finds out whether it has fallen behind; UINT64_MAX: never */
    uint64_t every_ns;
} coflow;

struct shoali_links {
    shoali_sharing share;
    uint64_t *carried;
    coflow *flows; /* by number: what sim_share and the heap know it by */
    uint32_t capacity, free;
    shoali_heap ends;
    uint64_t started, now_ns;
    bool stale;          /* rates are those of an earlier set of coflows */
    uint32_t links;      /* behind them a paced coflow has one of its own, as fast as it may be */
    shoali_load *braked; /* room for its loads and that */
    uint32_t braked_room;
};

shoali_links *shoali_links_create(const double *bytes_per_ns, uint32_t links)
{
    shoali_links *net = shoali_alloc(sizeof *net);
    if (net == NULL)
        return NULL;
    net->free = NONE;
    net->links = links;
    net->carried = shoali_alloc_array(links, sizeof *net->carried);
    if (net->carried == NULL || shoali_share_init(&net->share, bytes_per_ns, links) != SHOAL_OK) {
        shoali_links_destroy(net);
        return NULL;
    }
    return net;
}

void shoali_links_destroy(shoali_links *net)
{
    if (net == NULL)
        return;
    shoali_share_fini(&net->share);
    shoali_heap_fini(&net->ends);
    shoali_free(net->carried);
    shoali_free(net->flows);
    shoali_free(net->braked);
    shoali_free(net);
}

/* ---------------------------------------------------------------- rates */

static uint64_t due(const coflow *f, uint64_t now_ns)
{
    double ns = ceil(f->left / f->speed - 1e-3); /* rounding is no time */
    return ns < 0x1p62 ? now_ns + (ns > 0 ? (uint64_t)ns : 0) : UINT64_MAX;
}

/* What is left of a coflow now, at the speed that it had. */
static void settle(coflow *f, uint64_t now_ns)
{
    f->left -= f->speed * (double)(now_ns - f->since_ns);
    if (f->left < 0 || f->due_ns <= now_ns)
        f->left = 0;
    f->since_ns = now_ns;
}

static void wait_for(shoali_links *net, uint32_t number)
{
    const coflow *f = &net->flows[number];
    uint64_t at_ns = f->due_ns < f->look_ns ? f->due_ns : f->look_ns;
    shoali_heap_set(&net->ends, number, at_ns, f->order);
}

/* The rates of this moment, for the coflows whose rate is another one. */
static void share(shoali_links *net)
{
    const uint32_t *changed;
    uint32_t count = shoali_share_solve(&net->share, &changed);
    for (uint32_t i = 0; i < count; i++) {
        coflow *f = &net->flows[changed[i]];
        settle(f, net->now_ns);
        f->speed = shoali_share_rate(&net->share, changed[i]) / f->peak;
        f->due_ns = due(f, net->now_ns);
        wait_for(net, changed[i]);
    }
    net->stale = false;
}

/* Changes of an earlier moment take effect there. */
static void advance(shoali_links *net, uint64_t now_ns)
{
    if (now_ns > net->now_ns && net->stale)
        share(net);
    net->now_ns = now_ns;
}

uint64_t shoali_links_next_ns(shoali_links *net)
{
    const shoali_heap_entry *first = shoali_heap_first(&net->ends);
    if (net->stale && (first == NULL || first->key > net->now_ns)) {
        share(net);
        first = shoali_heap_first(&net->ends);
    }
    return first != NULL ? first->key : UINT64_MAX;
}

/* ---------------------------------------------------------------- coming and going */

static bool grow(shoali_links *net)
{
    uint32_t capacity = net->capacity > 0 ? 2 * net->capacity : 16;
    coflow *grown = shoali_realloc(net->flows, net->capacity * sizeof *grown,
                                   capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    net->flows = grown;
    if (shoali_heap_reserve(&net->ends, capacity) != SHOAL_OK)
        return false;
    for (uint32_t i = capacity; i-- > net->capacity;) {
        grown[i].next_free = net->free;
        net->free = i;
    }
    net->capacity = capacity;
    return true;
}

/* Put a coflow on its links. */
static shoal_status join(shoali_links *net, uint32_t number)
{
    const coflow *f = &net->flows[number];
    if (f->until_ns == 0)
        return shoali_share_add(&net->share, number, f->loads, f->load_count);
    if (net->braked_room <= f->load_count) {
        shoali_free(net->braked);
        net->braked = shoali_alloc_array(f->load_count + 1, sizeof *net->braked);
        net->braked_room = net->braked != NULL ? f->load_count + 1 : 0;
    }
    if (net->braked == NULL)
        return SHOAL_ENOMEM;
    memcpy(net->braked, f->loads, f->load_count * sizeof *f->loads);
    net->braked[f->load_count] = (shoali_load){net->links + number, (uint64_t)f->peak};
    return shoali_share_add(&net->share, number, net->braked, f->load_count + 1);
}

shoal_status shoali_links_start(shoali_links *net, uint64_t now_ns, const shoali_load *loads,
                                uint32_t count, uint32_t cookie)
{
    if (net->free == NONE && !grow(net))
        return SHOAL_ENOMEM;
    uint32_t number = net->free;
    coflow *f = &net->flows[number];
    coflow fresh = {.loads = loads,
                    .load_count = count,
                    .cookie = cookie,
                    .next_free = f->next_free,
                    .present = true,
                    .left = 1,
                    .since_ns = now_ns,
                    .due_ns = UINT64_MAX,
                    .look_ns = UINT64_MAX,
                    .order = net->started++};
    for (uint32_t i = 0; i < count; i++)
        fresh.peak = fmax(fresh.peak, (double)loads[i].bytes);
    advance(net, now_ns);
    if (fresh.peak > 0 && shoali_share_add(&net->share, number, loads, count) != SHOAL_OK)
        return SHOAL_ENOMEM;
    net->stale = net->stale || fresh.peak > 0;
    net->free = fresh.next_free;
    *f = fresh;
    shoali_heap_set(&net->ends, number, fresh.peak > 0 ? UINT64_MAX : now_ns, fresh.order);
    return SHOAL_OK;
}

static void drop(shoali_links *net, uint32_t number)
{
    coflow *f = &net->flows[number];
    shoali_heap_remove(&net->ends, number);
    if (f->peak > 0 && !f->paused) {
        shoali_share_remove(&net->share, number);
        net->stale = true;
    }
    f->present = false;
    f->next_free = net->free;
    net->free = number;
}

static uint32_t find(const shoali_links *net, uint32_t cookie)
{
    for (uint32_t i = 0; i < net->capacity; i++)
        if (net->flows[i].present && net->flows[i].cookie == cookie)
            return i;
    return NONE;
}

bool shoali_links_cancel(shoali_links *net, uint64_t now_ns, uint32_t cookie)
{
    uint32_t number = find(net, cookie);
    if (number == NONE)
        return false;
    advance(net, now_ns);
    drop(net, number);
    return true;
}

shoal_status shoali_links_pause(shoali_links *net, uint64_t now_ns, uint32_t cookie, bool pause)
{
    uint32_t number = find(net, cookie);
    if (number == NONE || net->flows[number].paused == pause)
        return SHOAL_OK;
    coflow *f = &net->flows[number];
    advance(net, now_ns);
    if (!pause && f->peak > 0)
        SHOALI_TRY(join(net, number));
    if (pause && f->peak > 0)
        shoali_share_remove(&net->share, number);
    settle(f, now_ns);
    f->speed = 0;
    f->paused = pause;
    f->due_ns = pause || f->peak > 0 ? UINT64_MAX : now_ns;
    if (pause)
        shoali_heap_set(&net->ends, number, UINT64_MAX, f->order);
    else
        wait_for(net, number);
    net->stale = true;
    return SHOAL_OK;
}

/* As fast as it has to be from now on, and when it looks again. */
static void brake(shoali_links *net, uint32_t number, uint64_t now_ns)
{
    coflow *f = &net->flows[number];
    const bool late = now_ns >= f->until_ns;
    const double rate = late ? NO_BRAKE : f->left * f->peak / (double)(f->until_ns - now_ns);
    shoali_share_resize(&net->share, net->links + number, rate);
    f->look_ns = late                                 ? UINT64_MAX
                 : f->until_ns - now_ns > f->every_ns ? now_ns + f->every_ns
                                                      : f->until_ns;
    net->stale = true;
}

/* Another moment, for a coflow that is paced. */
static void hurry(shoali_links *net, uint32_t number, uint64_t now_ns, uint64_t until_ns)
{
    coflow *f = &net->flows[number];
    if (f->until_ns == 0)
        return;
    f->until_ns = until_ns;
    if (f->paused)
        return;
    settle(f, now_ns);
    brake(net, number, now_ns);
    wait_for(net, number);
}

shoal_status shoali_links_pace(shoali_links *net, uint64_t now_ns, uint32_t cookie,
                               uint64_t until_ns)
{
    uint32_t number = find(net, cookie);
    if (number == NONE || !(net->flows[number].peak > 0))
        return SHOAL_OK;
    coflow *f = &net->flows[number];
    advance(net, now_ns);
    if (f->paused || f->until_ns > 0 || until_ns <= now_ns) {
        hurry(net, number, now_ns, until_ns);
        return SHOAL_OK;
    }
    while (net->share.link_count <= net->links + number)
        SHOALI_TRY(shoali_share_extend(&net->share, NO_BRAKE));
    f->until_ns = until_ns;
    f->every_ns = (until_ns - now_ns) / LOOKS + 1;
    shoali_share_remove(&net->share, number);
    SHOALI_TRY(join(net, number));
    settle(f, now_ns);
    brake(net, number, now_ns);
    wait_for(net, number);
    return SHOAL_OK;
}

void shoali_links_rate(shoali_links *net, uint64_t now_ns, uint32_t link, double bytes_per_ns)
{
    advance(net, now_ns);
    shoali_share_resize(&net->share, link, bytes_per_ns);
    net->stale = true;
}

bool shoali_links_finished(shoali_links *net, uint64_t now_ns, uint32_t *cookie_out)
{
    advance(net, now_ns);
    uint32_t number;
    for (;;) {
        if (shoali_links_next_ns(net) > now_ns)
            return false;
        number = shoali_heap_first(&net->ends)->item;
        if (net->flows[number].look_ns > now_ns || net->flows[number].due_ns <= now_ns)
            break;
        settle(&net->flows[number], now_ns);
        brake(net, number, now_ns);
        wait_for(net, number);
    }
    const coflow *f = &net->flows[number];
    *cookie_out = f->cookie;
    for (uint32_t k = 0; k < f->load_count; k++)
        net->carried[f->loads[k].link] += f->loads[k].bytes;
    drop(net, number);
    return true;
}

uint64_t shoali_links_carried_bytes(const shoali_links *net, uint32_t link)
{
    return net->carried[link];
}
