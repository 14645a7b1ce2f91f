/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's side of ripples. At every worker, as each may have to take over:
 *
 *              NOT MINE (another controls)   COLLECTING (not ready)        READY
 *   REQUEST    note that w wants             note                          groups to their members
 *   DONE       .                             .                             one less pending
 *   HELLO      note                          note; all said it -> READY    .
 *   mine now   -> COLLECTING                 .                             .
 *   w leaves   .                             was it the last? -> READY     a laggard may be served
 *
 * READY begins a term: numbers of groups start above all that anybody has seen, and those who want
 * a group get one. */
#include <string.h>

#include "sync/pack.h"
#include "sync/ripples.h"

static void hand_out(shoali_ripples *m, const shoali_group *group, shoali_actions *actions)
{
    uint8_t bytes[HEAD_BYTES + BITMAP_MAX] = {GROUP};
    const uint32_t *members = m->generator.members + group->first;
    shoali_pack_u64(bytes + 1, group->id);
    for (uint32_t i = 0; i < group->count; i++)
        bytes[HEAD_BYTES + members[i] / 8] |= (uint8_t)(1u << (members[i] % 8));
    for (uint32_t i = 0; i < group->count; i++)
        if (members[i] != m->world->me)
            shoali_act_send(actions, members[i], bytes,
                            HEAD_BYTES + shoali_ripples_bitmap_bytes(m->world));
}

/* Mine go last: they may lead to the next request. */
static void keep_mine(shoali_ripples *m, shoali_actions *actions)
{
    uint8_t bitmaps[2][BITMAP_MAX] = {{0}};
    uint64_t ids[2];
    uint32_t found = 0;
    for (uint32_t g = 0; g < m->generator.group_count && found < 2; g++) {
        const shoali_group *group = &m->generator.groups[g];
        const uint32_t *members = m->generator.members + group->first;
        bool mine = false;
        for (uint32_t i = 0; i < group->count; i++) {
            mine |= members[i] == m->world->me;
            bitmaps[found][members[i] / 8] |= (uint8_t)(1u << (members[i] % 8));
        }
        if (mine)
            ids[found++] = group->id;
        else
            memset(bitmaps[found], 0, shoali_ripples_bitmap_bytes(m->world));
    }
    for (uint32_t i = 0; i < found; i++)
        shoali_ripples_keep(m, ids[i], bitmaps[i], actions);
}

void shoali_ripples_request(shoali_ripples *m, uint32_t worker, uint64_t asked, uint64_t busy_us,
                            shoali_actions *actions)
{
    if (m->generator.out[worker])
        return;
    if (!m->ready) {
        m->flags[worker] |= WANTS;
        m->generator.asked[worker] = asked;
        return;
    }
    shoali_generator_request(&m->generator, worker, asked, busy_us);
    for (uint32_t g = 0; g < m->generator.group_count; g++)
        hand_out(m, &m->generator.groups[g], actions);
    keep_mine(m, actions);
}

/* Every worker that still takes part has said HELLO: the term of this controller begins. */
static void begin_term(shoali_ripples *m, shoali_actions *actions)
{
    for (uint32_t u = 0; u < m->world->workers; u++)
        if (!m->generator.out[u] && (m->flags[u] & HEARD) == 0)
            return;
    m->ready = true;
    m->generator.next = ((m->seen >> TERM_SHIFT) + 1) << TERM_SHIFT;
    for (uint32_t u = 0; u < m->world->workers; u++)
        if ((m->flags[u] & WANTS) != 0)
            shoali_ripples_request(m, u, m->generator.asked[u], UINT64_MAX, actions);
}

void shoali_ripples_hello(shoali_ripples *m, uint32_t worker, uint64_t asked, uint64_t seen,
                          bool wants, shoali_actions *actions)
{
    m->flags[worker] = wants ? HEARD | WANTS : HEARD;
    m->generator.asked[worker] = asked;
    m->generator.pending[worker] = 0;
    m->seen = seen > m->seen ? seen : m->seen;
    if (m->controller == m->world->me && !m->ready)
        begin_term(m, actions);
}

/* The controller is gone: the lowest live worker is the next one. */
void shoali_ripples_change(shoali_ripples *m, shoali_actions *actions)
{
    uint32_t me = m->world->me;
    while (shoali_finale_is_gone(&m->finale, m->controller))
        m->controller++;
    m->count = 0;
    if (m->open != 0)
        shoali_act_cancel(actions, m->open_op);
    if (m->phase >= FINISHED && m->controller != me)
        return;
    bool wants = m->phase == ASKING;
    if (m->controller != me)
        shoali_ripples_say(m->controller, HELLO, m->asked << 1 | wants, m->seen, actions);
    else
        shoali_ripples_hello(m, me, m->asked, m->seen, wants, actions);
}

void shoali_ripples_fewer(shoali_ripples *m, shoali_actions *actions)
{
    if (m->controller != m->world->me)
        return;
    if (!m->ready)
        begin_term(m, actions);
    for (uint32_t u; (u = shoali_generator_overdue(&m->generator)) != UINT32_MAX;)
        shoali_ripples_request(m, u, m->generator.asked[u], UINT64_MAX, actions);
}
