/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/meeting.h"

#include <string.h>

#include "base/log.h"
#include "sync/pack.h"

enum { HERE = SHOALI_MEETING_FIRST, CALL, HERE_BYTES = 17, CALL_HEAD = 33, TIMES_MAD = 4 };
enum { SPARE_BYTES = 8 }; /* behind both, where there is time to spare */
enum { BITMAP_MAX = (SHOALI_FINALE_WORKERS + 7) / 8, LEADER_SHIFT = 40 };

static size_t bitmap_bytes(const shoali_world *world)
{
    return (world->workers + 7) / 8;
}

size_t shoali_meeting_bytes(const shoali_world *world)
{
    size_t each = 4 * sizeof(uint64_t) + sizeof(shoali_tempo) + 2 * sizeof(uint32_t) + 1;
    return world->workers * each + sizeof(uint32_t);
}

void shoali_meeting_start(shoali_meeting *meeting, const shoali_world *world,
                          const shoali_finale *finale, const shoali_meeting_options *options,
                          void *memory)
{
    uint32_t workers = world->workers;
    *meeting = (shoali_meeting){.world = world, .finale = finale, .options = *options};
    meeting->versions = memory;
    meeting->weights = meeting->versions + workers;
    meeting->until_us = meeting->weights + workers;
    meeting->called_us = meeting->until_us + workers;
    meeting->tempos = (shoali_tempo *)(meeting->called_us + workers);
    meeting->call.members = (uint32_t *)(meeting->tempos + workers);
    meeting->call.outdated = meeting->call.members + workers;
    meeting->here = (uint8_t *)(meeting->call.outdated + workers + 1);
}

/* ---------------------------------------------------------------- who is there */

static void note_here(shoali_meeting *m, uint32_t worker, uint64_t version, uint64_t weight,
                      uint64_t spare_us, uint64_t now_us)
{
    if (m->called_us[worker] > 0 && !m->here[worker])
        shoali_tempo_add(&m->tempos[worker], now_us - m->called_us[worker]);
    m->here[worker] = 1;
    m->versions[worker] = version;
    m->weights[worker] = weight;
    m->until_us[worker] = spare_us < UINT64_MAX - now_us ? now_us + spare_us : UINT64_MAX;
}

static void say_here(shoali_meeting *m, uint64_t now_us, shoali_actions *actions)
{
    uint8_t bytes[HERE_BYTES + SPARE_BYTES] = {HERE};
    if (m->leader == m->world->me) {
        note_here(m, m->leader, m->version, m->weight, m->spare_us, now_us);
        return;
    }
    shoali_pack_u64(bytes + 1, m->version);
    shoali_pack_u64(bytes + 9, m->weight);
    shoali_pack_u64(bytes + HERE_BYTES, m->spare_us);
    shoali_act_send(actions, m->leader, bytes, HERE_BYTES + (m->spare_us > 0 ? SPARE_BYTES : 0));
}

void shoali_meeting_arrive(shoali_meeting *meeting, uint64_t version, uint64_t weight,
                           uint64_t now_us, shoali_actions *actions)
{
    meeting->version = version;
    meeting->weight = weight;
    meeting->there = true;
    if (!meeting->called)
        say_here(meeting, now_us, actions);
}

/* ---------------------------------------------------------------- calls */

static bool in_bitmap(const uint8_t *bitmap, uint32_t worker)
{
    return (bitmap[worker / 8] >> (worker % 8) & 1) != 0;
}

/* The members and which of them are outdated, from their bitmaps. */
static void fill_call(shoali_meeting *m, uint32_t root, const uint8_t *members,
                      const uint8_t *outdated)
{
    shoali_call *call = &m->call;
    call->member_count = 0;
    call->outdated_count = 0;
    for (uint32_t u = 0; u < m->world->workers; u++)
        if (in_bitmap(members, u))
            call->members[call->member_count++] = u;
    call->outdated[call->outdated_count++] = root;
    for (uint32_t u = 0; u < m->world->workers; u++)
        if (in_bitmap(outdated, u) && u != root)
            call->outdated[call->outdated_count++] = u;
    if (call->outdated_count == 1)
        call->outdated_count = 0;
    m->called = true;
}

/* The first of them that would have to wait says how long the round may take. */
static uint64_t spare_us(const shoali_meeting *m, uint64_t now_us)
{
    uint64_t until_us = UINT64_MAX;
    for (uint32_t u = 0; u < m->world->workers; u++)
        if (m->here[u] && m->until_us[u] < until_us)
            until_us = m->until_us[u];
    return until_us > now_us ? until_us - now_us : 0;
}

static void call_round(shoali_meeting *m, uint64_t now_us, shoali_actions *actions)
{
    uint8_t bytes[CALL_HEAD + 2 * BITMAP_MAX + SPARE_BYTES] = {CALL};
    size_t len = CALL_HEAD + 2 * bitmap_bytes(m->world);
    uint8_t *members = bytes + CALL_HEAD, *outdated = members + bitmap_bytes(m->world);
    uint32_t workers = m->world->workers, root = UINT32_MAX;
    shoali_call call = m->call;
    call.id = ((uint64_t)m->world->me << LEADER_SHIFT) + ++m->calls * SHOALI_MEETING_IDS;
    call.version = call.weight = 0;
    for (uint32_t u = 0; u < workers; u++) {
        if (!m->here[u])
            continue;
        members[u / 8] |= (uint8_t)(1u << (u % 8));
        call.weight += m->weights[u];
        if (root == UINT32_MAX || m->versions[u] > call.version) {
            root = u;
            call.version = m->versions[u];
        }
    }
    for (uint32_t u = 0; u < workers; u++)
        if (m->here[u] && m->versions[u] < call.version)
            outdated[u / 8] |= (uint8_t)(1u << (u % 8));
    shoali_pack_u64(bytes + 1, call.id);
    shoali_pack_u64(bytes + 9, call.version);
    shoali_pack_u64(bytes + 17, call.weight);
    shoali_pack_u64(bytes + 25, root);
    call.spare_us = spare_us(m, now_us);
    shoali_pack_u64(bytes + len, call.spare_us);
    len += call.spare_us > 0 ? SPARE_BYTES : 0;
    for (uint32_t u = 0; u < workers; u++) {
        if (!m->here[u])
            continue;
        m->called_us[u] = now_us;
        if (u != m->world->me)
            shoali_act_send(actions, u, bytes, len);
    }
    if (m->here[m->world->me]) {
        m->call = call;
        fill_call(m, root, members, outdated);
    }
    memset(m->here, 0, workers);
    m->quorum_us = 0;
}

/* What stands behind the first so many bytes of a message. */
static uint64_t spare_in(const shoali_event *event, size_t at)
{
    return event->message.len_bytes > at ? shoali_unpack_u64(event->message.bytes + at) : 0;
}

static void on_call(shoali_meeting *m, const shoali_event *event)
{
    const uint8_t *bytes = event->message.bytes, *members = bytes + CALL_HEAD;
    const uint8_t *outdated = members + bitmap_bytes(m->world);
    uint64_t id = shoali_unpack_u64(bytes + 1), root = shoali_unpack_u64(bytes + 25);
    if (id >> LEADER_SHIFT != event->message.peer || root >= m->world->workers ||
        !in_bitmap(members, m->world->me) || !in_bitmap(members, (uint32_t)root))
        return;
    m->call.id = id;
    m->call.version = shoali_unpack_u64(bytes + 9);
    m->call.weight = shoali_unpack_u64(bytes + 17);
    m->call.spare_us = spare_in(event, CALL_HEAD + 2 * bitmap_bytes(m->world));
    fill_call(m, (uint32_t)root, members, outdated);
}

void shoali_meeting_take(shoali_meeting *meeting)
{
    meeting->called = meeting->there = false;
}

/* ---------------------------------------------------------------- the leader */

static bool takes_part(const shoali_meeting *m, uint32_t worker)
{
    uint8_t flags = SHOALI_PEER_GONE | SHOALI_PEER_FINISHED;
    return (m->finale->peers[worker] & flags) == 0;
}

/* Until when those who are missing are waited for. */
static uint64_t patience_us(const shoali_meeting *m)
{
    uint64_t until_us = 0;
    if (m->options.grace_us != UINT64_MAX)
        return m->quorum_us + m->options.grace_us;
    for (uint32_t u = 0; u < m->world->workers; u++) {
        uint64_t usual_us = shoali_tempo_deadline_us(&m->tempos[u], TIMES_MAD);
        if (!m->here[u])
            continue;
        if (usual_us == 0)
            return UINT64_MAX; /* not known yet: everybody is waited for */
        until_us = m->called_us[u] + usual_us > until_us ? m->called_us[u] + usual_us : until_us;
    }
    return until_us;
}

static void log_patience(const shoali_meeting *m, uint64_t now_us, uint64_t until_us)
{
    for (uint32_t u = 0; u < m->world->workers; u++)
        if (takes_part(m, u) && !m->here[u])
            shoali_log(DEBUG,
                       "worker %u is not there; it usually takes %.3f s, the others are waited for "
                       "by it for %.3f s more",
                       u, (double)shoali_tempo_median_us(&m->tempos[u]) * 1e-6,
                       until_us > now_us ? (double)(until_us - now_us) * 1e-6 : 0.0);
}

static void lead(shoali_meeting *m, uint64_t now_us, shoali_actions *actions)
{
    uint32_t here = 0, all = 0;
    for (uint32_t u = 0; u < m->world->workers; u++) {
        m->here[u] &= takes_part(m, u);
        here += m->here[u];
        all += takes_part(m, u);
    }
    if (here == 0)
        return;
    if (here == all) {
        call_round(m, now_us, actions);
        return;
    }
    if (m->options.quorum == 0 || here < m->options.quorum)
        return;
    m->quorum_us = m->quorum_us > 0 ? m->quorum_us : now_us;
    uint64_t until_us = patience_us(m);
    if (now_us >= until_us) {
        log_patience(m, now_us, until_us);
        call_round(m, now_us, actions);
    } else if (until_us != UINT64_MAX && until_us != m->timer_us) {
        log_patience(m, now_us, until_us);
        m->timer_us = until_us;
        shoali_act_timer(actions, SHOALI_MEETING_TIMER, until_us);
    }
}

bool shoali_meeting_poll(shoali_meeting *meeting, uint64_t now_us, shoali_actions *actions)
{
    uint32_t before = meeting->leader;
    while (meeting->leader + 1 < meeting->world->workers &&
           shoali_finale_is_gone(meeting->finale, meeting->leader))
        meeting->leader++;
    if (meeting->leader != before && meeting->there && !meeting->called)
        say_here(meeting, now_us, actions);
    if (meeting->leader == meeting->world->me)
        lead(meeting, now_us, actions);
    return meeting->called && meeting->there;
}

bool shoali_meeting_event(shoali_meeting *meeting, const shoali_event *event,
                          shoali_actions *actions)
{
    (void)actions;
    if (event->kind == SHOALI_EV_TIMER && event->timer.id == SHOALI_MEETING_TIMER) {
        meeting->timer_us = 0;
        return true;
    }
    if (event->kind != SHOALI_EV_MESSAGE || event->message.len_bytes == 0 ||
        event->message.peer >= meeting->world->workers)
        return false;
    const uint8_t *bytes = event->message.bytes;
    size_t head = bytes[0] == HERE ? HERE_BYTES : CALL_HEAD + 2 * bitmap_bytes(meeting->world);
    if (event->message.len_bytes != head && event->message.len_bytes != head + SPARE_BYTES)
        return false;
    if (bytes[0] == HERE)
        note_here(meeting, event->message.peer, shoali_unpack_u64(bytes + 1),
                  shoali_unpack_u64(bytes + 9), spare_in(event, HERE_BYTES), event->now_us);
    else if (bytes[0] == CALL)
        on_call(meeting, event);
    else
        return false;
    return true;
}
