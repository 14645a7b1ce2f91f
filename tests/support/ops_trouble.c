/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to the ranks of a life, at an event drawn from its seed. */
#include "support/ops_life.h"

enum { LINK_TOLD_US = 20 * 1000, PAUSE_MOST_US = 1500 * 1000, JUMP_MOST_US = 1500 * 1000 };

static uint32_t any(life *l)
{
    return l->who[life_random(l, l->epoch_size)];
}

static uint64_t told_us(life *l, bool silent)
{
    return l->now_us + (silent ? LIFE_SILENCE_US : 0) + life_delay(l);
}

/* Both live, and neither hears the other any more. */
static void part(life *l, uint32_t a, uint32_t b, bool silent)
{
    if (a == b || l->rank[a].dead || l->rank[b].dead || l->dead_line[a][b])
        return;
    life_tell(l, "ranks %u and %u are parted%s", a, b, silent ? ", in silence" : "");
    l->hurt[a] = l->hurt[b] = true;
    l->dead_line[a][b] = l->dead_line[b][a] = true;
    life_at(l, told_us(l, silent), (life_event){.kind = EVENT_DOWN, .to = a, .from = b});
    life_at(l, told_us(l, silent), (life_event){.kind = EVENT_DOWN, .to = b, .from = a});
}

/* Any part from any other; some pairs may still reach each other. */
static void partition(life *l)
{
    const uint64_t side = life_random(l, 1u << l->epoch_size);
    const bool silent = life_random(l, 2) == 0, whole = life_random(l, 2) == 0;
    for (uint32_t a = 0; a < l->epoch_size; a++)
        for (uint32_t b = 0; b < a; b++)
            if (((side >> a) & 1) != ((side >> b) & 1) && (whole || life_random(l, 4) != 0))
                part(l, l->who[a], l->who[b], silent);
}

/* One of two links between them: half of what is under way is lost, and both are told. */
static void break_link(life *l, uint32_t a, uint32_t b)
{
    if (a == b || l->rank[a].dead || l->rank[b].dead || l->dead_line[a][b])
        return;
    life_tell(l, "a link between ranks %u and %u breaks", a, b);
    l->hurt[a] = l->hurt[b] = true;
    const uint64_t a_us = l->now_us + life_random(l, LINK_TOLD_US),
                   b_us = l->now_us + life_random(l, LINK_TOLD_US);
    l->breaks_until_us[a][b] = l->breaks_until_us[b][a] = a_us < b_us ? a_us : b_us;
    life_cut(l, a, b);
    life_cut(l, b, a);
    life_at(l, a_us, (life_event){.kind = EVENT_BROKE, .to = a, .from = b});
    life_at(l, b_us, (life_event){.kind = EVENT_BROKE, .to = b, .from = a});
}

static void pause_one(life *l, uint32_t r)
{
    const uint64_t for_us = 1 + life_random(l, PAUSE_MOST_US);
    life_tell(l, "rank %u stands for %llu us", r, (unsigned long long)for_us);
    if (l->rank[r].paused_until_us > l->now_us)
        return;
    l->rank[r].paused_until_us = l->now_us + for_us;
    l->rank[r].paused_us += for_us;
}

/* Forward, as after a host has slept; once. */
static void jump(life *l, uint32_t r)
{
    life_rank *rank = &l->rank[r];
    if (rank->jump_us > 0)
        return;
    rank->jump_at_us = l->now_us + 1;
    rank->jump_us = 1 + life_random(l, JUMP_MOST_US);
    life_tell(l, "the clock of rank %u jumps by %llu us", r, (unsigned long long)rank->jump_us);
}

static void leave(life *l, uint32_t r)
{
    if (l->rank[r].dead || l->rank[r].leaving)
        return;
    life_tell(l, "rank %u is about to reform", r);
    l->left = l->rank[r].leaving = true;
    l->running = r;
    shoali_run_all_leaving(&l->rank[r].ops);
    life_say(l, r, EVENT_LEAVING);
}

static void cancel(life *l, uint32_t r)
{
    if (l->rank[r].dead || l->rank[r].gone)
        return;
    life_tell(l, "rank %u destroys its communicator", r);
    l->rank[r].gone = l->rank[r].hangs = l->cancelled[r] = l->hurt[r] = true;
    l->running = r;
    shoali_run_cancel_all(&l->rank[r].ops);
    life_say(l, r, EVENT_GOODBYE);
}

void life_strike(life *l)
{
    const uint64_t kind = life_random(l, 18);
    const bool silent = life_random(l, 2) == 0;
    const uint32_t r = any(l), other = any(l);
    if (kind < 4) {
        for (uint64_t more = 1 + (kind == 0 ? life_random(l, l->epoch_size) : 0), o = r; more > 0;
             more--, o = any(l))
            if (!l->rank[o].dead) {
                life_tell(l, "rank %u dies%s", (uint32_t)o, silent ? ", in silence" : "");
                life_die(l, (uint32_t)o, silent);
            }
    } else if (kind < 6) {
        part(l, r, other, silent);
    } else if (kind < 7) {
        partition(l);
    } else if (kind < 9) {
        break_link(l, r, other);
    } else if (kind < 12) {
        pause_one(l, r);
    } else if (kind < 13) {
        leave(l, r);
    } else if (kind < 14) {
        cancel(l, r);
    } else if (kind < 15) {
        life_tell(l, "rank %u starts nothing more", r);
        l->rank[r].hangs = true;
    } else if (kind < 17) {
        jump(l, r);
    } else {
        l->loss = (double)life_random(l, 50) / 100;
    }
}
