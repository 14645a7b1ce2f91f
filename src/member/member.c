/* SPDX-License-Identifier: Apache-2.0 */
#include "member/member.h"

#include "member/life.h"
#include "member/quorum.h"

static bool is_out_of_reach(const shoali_member *m, uint32_t i)
{
    return m->states[i] == SHOALI_MEMBER_SILENT || m->states[i] == SHOALI_MEMBER_ASTRAY ||
           m->states[i] == SHOALI_MEMBER_MOVED;
}

static bool has_come(const shoali_member *m, const shoali_guests *calls, uint32_t i)
{
    return i == m->me || calls->members[i] != NULL;
}

/* ------------------------------------------------------------------ doubts */

/* Who has certainly not gone on by any proposal, and will not by one that was made before. */
typedef struct presence {
    const shoali_member *m;
    const shoali_guests *calls; /* NULL: before anybody has come, those that are there */
} presence;

static bool is_present(const presence *p, uint32_t i)
{
    return p->calls != NULL ? has_come(p->m, p->calls, i) : p->m->states[i] == SHOALI_MEMBER_HERE;
}

/* The others, as those who might go on by it: HERE. */
static shoali_tally count_others(const presence *p, const shoali_proposal *doubt)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < p->m->size; i++) {
        if (!shoali_proposal_stays(doubt, i))
            continue;
        shoali_tally_add(&tally, is_present(p, i) ? SHOALI_VOTE_AWAY
                                 : is_out_of_reach(p->m, i) || p->m->states[i] == SHOALI_MEMBER_HERE
                                     ? SHOALI_VOTE_HERE
                                     : SHOALI_VOTE_GONE);
    }
    for (uint32_t i = 0; i < doubt->newcomers; i++)
        shoali_tally_add(&tally, SHOALI_VOTE_HERE);
    return tally;
}

/* A member of it that has come with other doubts only: it has not been READY for it, and will not
 * be. */
static bool is_missed(const presence *p, uint32_t i, const shoali_proposal *doubt)
{
    const bool own = i == p->m->me;
    if (!shoali_proposal_stays(doubt, i) || !is_present(p, i) || (!own && p->calls == NULL))
        return false;
    const shoali_proposal *doubts = own ? p->m->doubts : p->calls->members[i]->doubts;
    const uint32_t count = own ? p->m->doubt_count : p->calls->members[i]->come.doubts;
    for (uint32_t d = 0; d < count; d++)
        if (doubts[d].leader == doubt->leader && doubts[d].epoch == doubt->epoch)
            return false;
    return true;
}

/* Nobody goes on by it, or can. */
static bool is_void(const presence *p, const shoali_proposal *doubt)
{
    for (uint32_t i = 0; i < p->m->size; i++)
        if ((p->m->identity[i] == doubt->leader && is_present(p, i)) || is_missed(p, i, doubt))
            return true;
    const shoali_tally others = count_others(p, doubt);
    return !shoali_tally_decides(&others);
}

static bool all_void(const presence *p, const shoali_proposal *doubts, uint32_t count)
{
    bool all = true;
    for (uint32_t i = 0; i < count; i++)
        all = all && is_void(p, &doubts[i]);
    return all;
}

static bool nobody_else(const presence *p, const shoali_proposal *doubts, uint32_t count)
{
    bool nobody = true;
    for (uint32_t i = 0; i < count; i++)
        nobody = nobody && count_others(p, &doubts[i]).here == 0;
    return nobody;
}

/* ------------------------------------------------------------------ where to go */

/* By a proposal that this one has agreed to as well, and that leads nowhere without it? */
static bool moved_in_vain(const shoali_member *m, uint32_t i)
{
    const presence p = {m, NULL};
    for (uint32_t d = 0; d < m->doubt_count; d++)
        if (shoali_proposal_stays(&m->doubts[d], i) && is_void(&p, &m->doubts[d]))
            return true;
    return false;
}

bool shoali_member_is_behind(const shoali_member *m)
{
    for (uint32_t i = 0; i < m->size; i++)
        if (m->states[i] == SHOALI_MEMBER_MOVED && !moved_in_vain(m, i))
            return true;
    return false;
}

uint32_t shoali_member_candidate(const shoali_member *m, uint32_t first)
{
    uint32_t i = first;
    while (i < m->me && m->states[i] != SHOALI_MEMBER_HERE && m->states[i] != SHOALI_MEMBER_ASTRAY)
        i++;
    return i < m->me ? i : m->me;
}

bool shoali_member_stays(const shoali_member *m, uint32_t leader)
{
    return !shoali_member_is_behind(m) &&
           (m->states[leader] == SHOALI_MEMBER_HERE || m->states[leader] == SHOALI_MEMBER_ASTRAY);
}

/* ------------------------------------------------------------------ leading */

/* Who is astray and lower than this rank would lead, not come. */
static bool all_have_come(const shoali_member *m, const shoali_guests *calls, uint64_t now_us)
{
    for (uint32_t i = 0; i < m->size; i++)
        if (!has_come(m, calls, i) &&
            (m->states[i] == SHOALI_MEMBER_HERE ||
             (m->states[i] == SHOALI_MEMBER_ASTRAY && i > m->me && now_us < m->wait_us)))
            return false;
    return true;
}

static bool has_quorum(const shoali_member *m, const shoali_guests *calls)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < m->size; i++)
        shoali_tally_add(&tally, has_come(m, calls, i)                 ? SHOALI_VOTE_HERE
                                 : is_out_of_reach(m, i)               ? SHOALI_VOTE_AWAY
                                 : m->states[i] == SHOALI_MEMBER_DYING ? SHOALI_VOTE_DYING
                                                                       : SHOALI_VOTE_GONE);
    return shoali_tally_decides(&tally);
}

shoali_lead shoali_member_lead(shoali_member *m, const shoali_guests *calls, uint64_t now_us)
{
    const presence p = {m, calls};
    if (m->wait_us == 0)
        m->wait_us = now_us + m->peer_timeout_us;
    if (shoali_member_is_behind(m))
        return SHOALI_LEAD_GIVE_WAY;
    if (!all_have_come(m, calls, now_us))
        return SHOALI_LEAD_WAIT;
    if (!has_quorum(m, calls))
        return SHOALI_LEAD_MINORITY;
    bool clear = all_void(&p, m->doubts, m->doubt_count);
    for (uint32_t i = 0; i < m->size; i++)
        if (calls->members[i] != NULL)
            clear = clear &&
                    all_void(&p, calls->members[i]->doubts, calls->members[i]->come.doubts);
    return clear ? SHOALI_LEAD_PROPOSE : SHOALI_LEAD_DOUBT;
}

/* Nobody who may be alive is left out: of this epoch, or of one that was agreed to. */
static bool is_certain(const shoali_member *m, const shoali_guests *calls)
{
    const presence p = {m, calls};
    bool certain = nobody_else(&p, m->doubts, m->doubt_count);
    for (uint32_t i = 0; i < m->size; i++) {
        const shoali_guest *call = calls->members[i];
        if (call != NULL)
            certain = certain && nobody_else(&p, call->doubts, call->come.doubts);
        else
            certain = certain && !is_out_of_reach(m, i);
    }
    return certain;
}

/* The place of who has come last is known when all are counted. */
static void take_in(const shoali_guest *call, uint32_t rank, shoali_admit *place)
{
    const shoali_come *come = &call->come;
    place->epoch = come->tried > place->epoch ? come->tried : place->epoch;
    place->done_min = come->done < place->done_min ? come->done : place->done_min;
    if (come->done > place->done_max) {
        place->done_max = come->done;
        place->done_rank = rank;
    }
}

void shoali_member_propose(const shoali_member *m, const shoali_guests *calls,
                           shoali_proposal *proposal_out, shoali_admit *place_out)
{
    shoali_admit place = {.epoch = m->tried, .size = 1, .done_min = m->done, .done_max = m->done};
    *proposal_out = (shoali_proposal){.leader = m->identity[m->me], .size = m->size};
    for (uint32_t i = 0; i < m->size; i++) {
        if (!has_come(m, calls, i))
            continue;
        proposal_out->stays[i / 8] |= (uint8_t)(1u << i % 8);
        if (i != m->me)
            take_in(calls->members[i], place.size++, &place);
    }
    while (proposal_out->newcomers < calls->newcomers && place.size < calls->room) {
        proposal_out->newcomers++;
        place.size++;
    }
    proposal_out->epoch = ++place.epoch;
    proposal_out->certain = is_certain(m, calls);
    *place_out = place;
}

/* ------------------------------------------------------------------ agreeing */

/* Of one leader only the last proposal can be open: it gives one up before it makes the next. */
bool shoali_member_agree(shoali_member *m, const shoali_proposal *proposal)
{
    uint32_t kept = 0;
    if (proposal->epoch <= m->tried || proposal->size != m->size ||
        !shoali_proposal_stays(proposal, m->me))
        return false;
    for (uint32_t i = 0; i < m->doubt_count; i++)
        if (m->doubts[i].leader != proposal->leader)
            m->doubts[kept++] = m->doubts[i];
    m->doubt_count = kept;
    if (kept == SHOALI_DOUBTS)
        return false;
    m->doubts[m->doubt_count++] = *proposal;
    m->tried = proposal->epoch;
    return true;
}

uint64_t shoali_member_ready_us(const shoali_member *m, const shoali_proposal *proposal)
{
    uint64_t last_us = m->failed_us;
    if (proposal->certain)
        return 0;
    for (uint32_t i = 0; i < m->size; i++)
        if (!shoali_proposal_stays(proposal, i) && m->said_us[i] > last_us)
            last_us = m->said_us[i];
    return last_us + shoali_life_quiet_us(m->peer_timeout_us);
}

void shoali_member_failed(shoali_member *m, const shoali_proposal *unready, uint64_t now_us)
{
    const uint32_t last = m->doubt_count - 1;
    m->failed_us = now_us;
    if (unready != NULL && m->doubt_count > 0 && m->doubts[last].epoch == unready->epoch &&
        m->doubts[last].leader == unready->leader)
        m->doubt_count--;
}
