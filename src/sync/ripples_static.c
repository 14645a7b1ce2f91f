/* SPDX-License-Identifier: Apache-2.0 */
/* Four phases, here for four workers per host (numbers are places on the host):
 *
 *   step % 4    place 0              1                    2                3
 *      0        all heads 0          alone                with 3           with 2
 *      1        the whole host .......................................................
 *      2        with 3               all heads 1          alone            with 0
 *      3        the whole host .......................................................
 *
 * One worker per host uses the network in an inter-host phase, and what it learns has crossed the
 * cluster after the next phase. The four lines above are those of the authors' code
 * (laekov/preduce, utils/schedulers.py). For any number m on a host: the head is place h % m, those
 * behind it, counted round the host, pair up, and the first of them is alone if their number is
 * odd. Who takes no part any more is left out before places are counted. */
#include "sync/ripples_static.h"

enum { PHASES = 4 };

/* Present workers of one host: places of order. */
typedef struct host {
    uint32_t from, to, count; /* runs of order; how many of them are present */
} host;

static host host_at(const shoali_world *world, const uint32_t *order, const uint8_t *absent,
                    uint32_t from)
{
    host h = {.from = from, .to = from};
    while (h.to < world->workers && world->hosts[order[h.to]] == world->hosts[order[from]])
        h.count += !absent[order[h.to++]];
    return h;
}

/* The worker at a place among the present ones. */
static uint32_t at_place(const uint32_t *order, const uint8_t *absent, const host *h,
                         uint32_t place)
{
    uint32_t i = h->from;
    for (uint32_t seen = 0;; i++) {
        seen += !absent[order[i]];
        if (seen > place)
            return order[i];
    }
}

static uint32_t add(uint32_t *members, uint32_t count, uint32_t worker)
{
    uint32_t at = count;
    for (; at > 0 && members[at - 1] > worker; at--)
        members[at] = members[at - 1];
    members[at] = worker;
    return count + 1;
}

static uint32_t heads(const shoali_world *world, const uint32_t *order, const uint8_t *absent,
                      uint32_t head, uint32_t *members_out)
{
    uint32_t count = 0;
    for (uint32_t from = 0; from < world->workers;) {
        host h = host_at(world, order, absent, from);
        if (h.count > 0)
            count = add(members_out, count, at_place(order, absent, &h, head % h.count));
        from = h.to;
    }
    return count;
}

static uint32_t whole_host(const uint32_t *order, const uint8_t *absent, const host *h,
                           uint32_t *members_out)
{
    uint32_t count = 0;
    for (uint32_t i = h->from; i < h->to; i++)
        if (!absent[order[i]])
            count = add(members_out, count, order[i]);
    return count;
}

uint32_t shoali_static_group(const shoali_world *world, const uint32_t *order,
                             const uint8_t *absent, uint64_t step, uint32_t *members_out)
{
    uint32_t me = world->me, place = 0, head = step % PHASES == 2 ? 1 : 0;
    host mine = host_at(world, order, absent, 0);
    while (world->hosts[order[mine.from]] != world->hosts[me])
        mine = host_at(world, order, absent, mine.to);
    if (step % 2 == 1)
        return whole_host(order, absent, &mine, members_out);
    while (at_place(order, absent, &mine, place) != me)
        place++;
    head = mine.count > 0 ? head % mine.count : 0;
    if (place == head)
        return heads(world, order, absent, step % PHASES == 2 ? 1 : 0, members_out);
    uint32_t number = mine.count > 0 ? mine.count : 1, rest = number - 1, alone = rest % 2;
    uint32_t behind = (place + number - head - 1) % number;
    uint32_t count = add(members_out, 0, me);
    if (behind < alone)
        return count;
    uint32_t other = (head + 1 + ((behind - alone) ^ 1) + alone) % number;
    return add(members_out, count, at_place(order, absent, &mine, other));
}
