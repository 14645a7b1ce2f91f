/* SPDX-License-Identifier: Apache-2.0 */
/* Shares: member i with w_i of B blocks ends at T = (B + (P - 2) w_i) / (B r_i), so the smallest T
 * that places all blocks is searched for; a member whose whole vector takes longer than T owns
 * nothing. One link of half the rate among four: r = 1 1 1 1/2, w = 1 1 1 0, T = 5/3 (it: 2); a
 * ring would end at 2 * 3/4 / (1/2) = 3.
 *
 * Order: from member 0 always on to the nearest that is left, in classes of rates a factor of 1.5
 * apart, the lowest index first; so equal links give 0, 1, 2 ..., and members behind one uplink
 * stand side by side.
 *
 * Source: weights for one slow link: OptCC, arXiv 2606.01680. */
#include "collective/rates.h"

#include <string.h>

enum {
    PER_MEMBER = 12,    /* blocks that equal members would own, before common divisors go */
    BLOCKS_MOST = 4096, /* ... and of all */
    FULL_PERCENT = 85   /* what measuring may be wrong by is no difference */
};

/* ------------------------------------------------------------------ from bytes per second */

typedef struct measured {
    const float *to;
    uint32_t shifts, size;
    const uint32_t *place;
    float fastest;
} measured;

/* 1 .. 100; 0: not measured. */
static uint32_t percent_of(float rate, float fastest)
{
    double share = fastest > 0 ? (double)rate / (double)fastest * 100 : 0;
    return !(share > 0) ? 0 : share < 1 ? 1 : share < 100 ? (uint32_t)(share + 0.5) : 100;
}

static float rate_of(const measured *m, uint32_t from, uint32_t to)
{
    uint32_t shift = (to + m->size - from) % m->size;
    return shift >= 1 && shift <= m->shifts ? m->to[(size_t)(shift - 1) * m->size + from] : 0;
}

/* What a member's link has carried at best, the slower of its two directions; 0: it has none. */
static float link_of(const measured *m, uint32_t member)
{
    float up = 0, down = 0;
    for (uint32_t k = 1; k <= m->shifts; k++) {
        uint32_t next = (member + k) % m->size, last = (member + m->size - k) % m->size;
        float out = m->place[next] != m->place[member] ? rate_of(m, member, next) : 0;
        float in = m->place[last] != m->place[member] ? rate_of(m, last, member) : 0;
        up = out > up ? out : up;
        down = in > down ? in : down;
    }
    return up < down ? up : down;
}

static void find_percents(measured *m, uint32_t *percent)
{
    float fastest = 0;
    for (uint32_t i = 0; i < m->size; i++) {
        float rate = link_of(m, i);
        fastest = rate > fastest ? rate : fastest;
    }
    for (uint32_t i = 0; i < m->size; i++) {
        percent[i] = percent_of(link_of(m, i), fastest);
        if (percent[i] == 0 || percent[i] >= FULL_PERCENT)
            percent[i] = 100;
    }
}

/* 0: as the fastest pair there is; each class more: a factor of 1.5. */
static uint32_t class_of(const measured *m, uint32_t a, uint32_t b)
{
    float there = rate_of(m, a, b), back = rate_of(m, b, a);
    float rate = there > 0 && (back <= 0 || there < back) ? there : back;
    uint32_t class = 0, percent = 100 * percent_of(rate, m->fastest);
    if (percent == 0)
        return UINT32_MAX;
    for (; percent < 6700; percent += percent / 2)
        class ++;
    return class;
}

static void find_order(const measured *m, uint32_t *order)
{
    for (uint32_t i = 0; i < m->size; i++)
        order[i] = i;
    for (uint32_t at = 1; at + 1 < m->size; at++) {
        uint32_t best = at, nearest = class_of(m, order[at - 1], order[at]);
        for (uint32_t i = at + 1; i < m->size && nearest > 0; i++) {
            uint32_t class = class_of(m, order[at - 1], order[i]);
            if (class < nearest) {
                nearest = class;
                best = i;
            }
        }
        uint32_t chosen = order[best]; /* the others keep their order */
        memmove(&order[at + 1], &order[at], (best - at) * sizeof *order);
        order[at] = chosen;
    }
}

shoal_status shoali_rates_judge(const float *to, uint32_t shifts, uint32_t size,
                                const uint32_t *place, shoal_arena *arena, shoali_rates *rates_out)
{
    measured m = {.to = to, .shifts = shifts, .size = size, .place = place};
    shoali_rates rates = {.size = size,
                          .percent = shoali_arena_array(arena, size, sizeof(uint32_t)),
                          .order = shoali_arena_array(arena, size, sizeof(uint32_t))};
    if (rates.percent == NULL || rates.order == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < (size_t)shifts * size; i++)
        m.fastest = to[i] > m.fastest ? to[i] : m.fastest;
    find_percents(&m, rates.percent);
    find_order(&m, rates.order);
    *rates_out = rates;
    return SHOAL_OK;
}

/* ------------------------------------------------------------------ shares */

/* Blocks that a member can own and still end at time / 2^16. */
static uint64_t within(uint64_t time, uint32_t percent, uint64_t blocks, uint32_t size)
{
    uint64_t moved = time * percent >> 16;
    uint64_t owned = moved > blocks ? (moved - blocks) / (size - 2) : 0;
    return owned < blocks ? owned : blocks;
}

static uint64_t all_within(uint64_t time, const shoali_rates *rates, uint64_t blocks)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < rates->size; i++)
        sum += within(time, rates->percent[i], blocks, rates->size);
    return sum;
}

/* The time in which all blocks find a place: with 1 percent, a member owns them all by then. */
static uint64_t shortest(const shoali_rates *rates, uint64_t blocks)
{
    uint64_t low = 0, high = (blocks * rates->size) << 16;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (all_within(middle, rates, blocks) >= blocks)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void divide(uint32_t *shares, uint32_t size)
{
    uint32_t common = 0;
    for (uint32_t i = 0; i < size; i++)
        common = divisor(shares[i], common);
    for (uint32_t i = 0; i < size && common > 1; i++)
        shares[i] /= common;
}

void shoali_rates_shares(const shoali_rates *rates, uint32_t size, uint32_t *shares_out)
{
    for (uint32_t i = 0; i < size; i++)
        shares_out[i] = 1;
    if (rates == NULL || rates->size != size || size < 3)
        return; /* of two members each carries everything once, whoever owns it */
    uint64_t blocks = (uint64_t)size * PER_MEMBER;
    if (blocks > BLOCKS_MOST)
        blocks = size > BLOCKS_MOST ? size : BLOCKS_MOST / size * size;
    /* Perhaps a few blocks more than were asked for: so equal links have equal shares. */
    uint64_t time = shortest(rates, blocks);
    for (uint32_t i = 0; i < size; i++)
        shares_out[i] = (uint32_t)within(time, rates->percent[i], blocks, size);
    divide(shares_out, size);
}
