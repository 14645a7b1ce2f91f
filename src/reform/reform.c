/* SPDX-License-Identifier: Apache-2.0 */
/* From one epoch to the next. While it is agreed upon, the old connections stay: their heartbeats
 * say who is alive, however long its program takes to get here. member/member.h decides; this is
 * what it sees and does:
 *
 *                    what it does                                   until
 *   LEAVING          its operations end EEPOCH, all hear it         nothing is open
 *   LEADING          (lowest that is there) takes visitors at       all that are there have come,
 *                    its door                                       or are dead or silent
 *   VISITING         (others) comes to the leader's door            admitted; leader lost: next one
 *   MEETING          a new communicator at the leader's door        connected to all, READY, and
 *                                                                   the leader's GO; else again,
 *                                                                   with a higher epoch
 *   MOVED            says so to who is still in the old epoch, and leaves that
 *   LEFT BEHIND      others have moved without this one: it joins as a newcomer
 *
 * Who is silent may be so on one way only, where there are others (several links, relays): then it
 * is astray. It is visited like somebody who is there, and waited for a while. */
#include "reform/reform.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alive/tell.h"
#include "alive/view.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/enter.h"
#include "endpoint/endpoint.h"
#include "meet/door.h"
#include "member/member.h"

enum {
    DEFAULT_REFORM_US = 60 * 1000 * 1000,
    CALL_US = 1000 * 1000, /* by way of others */
    POLL_MS = 20,
    PAUSE_MS = 50
};

typedef struct reform {
    shoal_comm *old;
    shoali_door *door;
    shoali_member m;
    uint64_t deadline_us;
    bool *out; /* [size] nothing goes by way of them, as of the last survey */
    bool told; /* that it is a minority */
    shoal_comm *fresh;
    char past_links[SHOALI_PAST_LINKS_BYTES];
    uint32_t candidate;
    shoali_admission in;
    const shoali_guest **calls; /* [size] by old rank; NULL: it has not come */
    uint32_t *callers;          /* [size] by old rank: index of the visitor */
    shoali_proposal proposal;
    void (*lost)(void *ctx, uint32_t endpoint, const shoali_lost_peer *what);
    void *lost_ctx;
} reform;

/* ------------------------------------------------------------------ who is there */

static bool is_lost(const reform *r, uint32_t i)
{
    return i != r->old->me && atomic_load(&r->old->peers[i].state) == SHOALI_PEER_LOST;
}

/* Whose own cable is silent or dead, or who is lost though the relay to it is there. */
static void find_ways_round(reform *r)
{
    bool changed = false;
    for (uint32_t i = 0; i < r->old->size; i++) {
        uint32_t via = r->old->peers[i].via;
        bool out = is_lost(r, i) && (via == SHOALI_NONE || !is_lost(r, via));
        changed = changed || out != r->out[i];
        r->out[i] = out;
    }
    if (changed)
        shoali_relay_avoid(r->old->relay, r->out);
}

static bool has_other_ways(const reform *r, uint32_t i)
{
    shoali_way way;
    return r->old->peers[i].links > 1 || shoali_relay_way(r->old->relay, i, &way);
}

static shoali_member_state state_of(const reform *r, uint32_t i)
{
    const shoali_peer *peer = &r->old->peers[i];
    if (i == r->old->me)
        return SHOALI_MEMBER_HERE;
    if (peer->moved)
        return SHOALI_MEMBER_MOVED;
    switch (atomic_load(&peer->state)) {
    case SHOALI_PEER_HERE:
        return SHOALI_MEMBER_HERE;
    case SHOALI_PEER_LEFT:
        return SHOALI_MEMBER_LEFT;
    default:
        shoali_view_look(r->old, i);
    }
    switch (atomic_load(&peer->death)) {
    case SHOALI_DEATH_CERTAIN:
        return SHOALI_MEMBER_DEAD;
    case SHOALI_DEATH_DYING:
        return SHOALI_MEMBER_DYING;
    default:
        return has_other_ways(r, i) ? SHOALI_MEMBER_ASTRAY : SHOALI_MEMBER_SILENT;
    }
}

static void take_survey(void *arg)
{
    reform *r = arg;
    find_ways_round(r);
    for (uint32_t i = 0; i < r->old->size; i++) {
        r->m.states[i] = (uint8_t)state_of(r, i);
        r->m.identity[i] = i == r->old->me ? r->old->incarnation : r->old->peers[i].incarnation;
        r->m.said_us[i] = r->old->peers[i].said_us;
    }
}

static bool is_silent(const reform *r, uint32_t i)
{
    return r->m.states[i] == SHOALI_MEMBER_SILENT || r->m.states[i] == SHOALI_MEMBER_ASTRAY ||
           r->m.states[i] == SHOALI_MEMBER_MOVED;
}

/* The candidate is still the one to visit, and nobody has gone ahead. */
static bool still_leads(void *arg)
{
    reform *r = arg;
    shoali_loop_call(&r->old->loop, take_survey, r);
    return shoali_member_stays(&r->m, r->candidate);
}

/* ------------------------------------------------------------------ leading */

/* Visitors by old rank, and newcomers. */
static shoali_guests muster(reform *r)
{
    uint32_t newcomers = 0;
    for (uint32_t i = 0; i < r->old->size; i++)
        r->calls[i] = NULL;
    for (uint32_t c = 0; c < r->door->visitors.count; c++) {
        const shoali_caller *caller = shoali_door_caller(r->door, c);
        const uint32_t rank = caller->call.come.rank;
        if (caller->member && r->calls[rank] == NULL) {
            r->calls[rank] = &caller->call;
            r->callers[rank] = c;
        }
        newcomers += caller->newcomer;
    }
    return (shoali_guests){
        .members = r->calls, .newcomers = newcomers, .room = r->door->mine.world_size};
}

static shoal_status no_quorum(reform *r, bool doubt)
{
    char by[64] = "";
    uint32_t first = 0;
    while (first + 1 < r->old->size && !is_silent(r, first))
        first++;
    uint32_t via = r->old->peers[first].via;
    if (via != SHOALI_NONE && r->m.states[via] != SHOALI_MEMBER_HERE)
        snprintf(by, sizeof by, " (it was reached by way of rank %u, which is lost)", via);
    shoal_status status = doubt ? shoali_fail(SHOAL_EEPOCH,
                                              "rank %u cannot tell whether rank %u and others have "
                                              "gone on without it: they were cut off in the middle "
                                              "of a reform%s",
                                              r->old->me, first, by)
                                : shoali_fail(SHOAL_EEPOCH,
                                              "rank %u reaches only a minority of the %u members: "
                                              "rank %u and others may go on without it%s",
                                              r->old->me, r->old->size, first, by);
    shoali_error_about((int32_t)first, r->old->peers[first].host, "reform", -1);
    shoali_error_advice("Look at this host's network; a newcomer may take its place meanwhile.");
    if (!r->told)
        shoali_log(WARN, "%s; it goes on looking for them for %.0f s", shoal_last_error()->text,
                   (double)(r->deadline_us - shoali_now_us()) * 1e-6);
    r->told = true;
    return status;
}

static void admit(const reform *r, uint32_t visitor, shoali_admit *place)
{
    uint8_t body[SHOALI_ADMIT_BYTES + SHOALI_PROPOSAL_BYTES];
    shoali_caller *caller = shoali_door_caller(r->door, visitor);
    _Static_assert(sizeof body <= SHOALI_MEET_BODY_BYTES, "a frame");
    place->rank++;
    size_t length = shoali_admit_encode(place, body);
    length += shoali_proposal_encode(&r->proposal, body + length);
    caller->leaves = shoali_meet_stream_put(&caller->base.stream, SHOALI_MESSAGE_admit, body,
                                            length);
}

/* Members in their old order, then newcomers as they came. False: look again. */
static bool decide(reform *r, const shoali_guests *calls)
{
    shoali_door *door = r->door;
    shoali_admit place;
    shoali_member_propose(&r->m, calls, &r->proposal, &place);
    if (!shoali_member_agree(&r->m, &r->proposal))
        return false;
    memcpy(place.door, door->address, sizeof place.door);
    r->in.admit = place;
    for (uint32_t i = 0; i < r->old->size; i++)
        if (r->calls[i] != NULL)
            admit(r, r->callers[i], &place);
    for (uint32_t c = 0; c < door->visitors.count && place.rank + 1 < place.size; c++)
        if (shoali_door_caller(door, c)->newcomer)
            admit(r, c, &place);
    for (uint32_t c = door->visitors.count; c-- > 0;)
        if (shoali_door_caller(door, c)->leaves) {
            shoali_meet_stream_try(&shoali_door_caller(door, c)->base.stream);
            shoali_visitors_drop(&door->visitors, c);
        }
    return true;
}

/* OK: decided. PENDING: look again who is to lead. */
static shoal_status lead(reform *r)
{
    while (shoali_now_us() < r->deadline_us) {
        shoali_door_poll(r->door, POLL_MS);
        shoali_loop_call(&r->old->loop, take_survey, r);
        const shoali_guests calls = muster(r);
        switch (shoali_member_lead(&r->m, &calls, shoali_now_us())) {
        case SHOALI_LEAD_WAIT:
            continue;
        case SHOALI_LEAD_GIVE_WAY:
            return SHOAL_PENDING;
        case SHOALI_LEAD_PROPOSE:
            return decide(r, &calls) ? SHOAL_OK : SHOAL_PENDING;
        case SHOALI_LEAD_MINORITY:
            return no_quorum(r, false);
        case SHOALI_LEAD_DOUBT:
            return no_quorum(r, true);
        }
    }
    return SHOAL_PENDING;
}

/* ------------------------------------------------------------------ the others */

/* A member's door by its n-th address: of the links that both share, else of all. */
static bool door_of(shoal_comm *old, uint32_t rank, uint32_t n, char out[SHOALI_DOOR_BYTES])
{
    const shoali_address *at = &old->addresses[rank];
    char door[SHOALI_DOOR_BYTES], ip[SHOALI_IP_TEXT_BYTES];
    pthread_mutex_lock(&old->loop.lock);
    memcpy(door, old->peers[rank].door, sizeof door);
    pthread_mutex_unlock(&old->loop.lock);
    const char *port = strrchr(door, ':');
    if (port == NULL || n >= (old->peers[rank].links > 0 ? old->peers[rank].links : at->ip_count))
        return false;
    shoali_ip_format(&at->ips[n], ip);
    snprintf(out, SHOALI_DOOR_BYTES,
             at->ips[n].any.sa_family == AF_INET6 ? "[%.46s]%.8s" : "%.46s%.8s", ip, port);
    return true;
}

/* Knock at a member's door by every way there is. */
static shoal_status knock(reform *r, uint32_t rank, shoali_visit_words *words)
{
    char door[SHOALI_DOOR_BYTES];
    shoal_comm *old = r->old;
    bool (*goes_on)(void *ctx) = words->call != NULL ? still_leads : NULL;
    for (uint32_t n = 0; door_of(old, rank, n, door); n++) {
        shoal_status status = shoali_knock(r->door, door, -1, r->deadline_us, goes_on, r, words);
        if (status != SHOAL_PENDING || words->held.count > 0)
            return status;
        if (goes_on != NULL && !goes_on(r))
            return SHOAL_PENDING;
    }
    int fd = shoali_relay_call_door(old->relay, rank, shoali_now_us() + CALL_US);
    if (fd < 0)
        return SHOAL_PENDING;
    return shoali_knock(r->door, old->peers[rank].door, fd, r->deadline_us, goes_on, r, words);
}

static shoal_status visit(reform *r)
{
    const shoal_comm *old = r->old;
    const shoali_guest call = {.come = {.epoch = old->epoch,
                                        .tried = r->m.tried,
                                        .done = r->m.done,
                                        .incarnation = old->incarnation,
                                        .rank = old->me,
                                        .doubts = r->m.doubt_count},
                               .doubts = r->m.doubts};
    shoali_visit_words words = {.call = &call};
    SHOALI_TRY(knock(r, r->candidate, &words));
    r->proposal = words.proposal;
    r->in.admit = words.admit;
    return shoali_member_agree(&r->m, &r->proposal) ? SHOAL_OK : SHOAL_PENDING;
}

/* At the doors of all that may be somewhere, as a newcomer. */
static shoal_status rejoin(reform *r)
{
    for (uint32_t i = 0; i < r->old->size; i++) {
        shoali_visit_words words = {.call = NULL};
        char door[SHOALI_DOOR_BYTES];
        if (i == r->old->me || r->m.states[i] == SHOALI_MEMBER_DEAD ||
            r->m.states[i] == SHOALI_MEMBER_LEFT)
            continue;
        shoal_status status = knock(r, i, &words);
        for (int hops = 0;
             status == SHOAL_PENDING && !words.held.stay && words.held.count > 0 && hops < 4;
             hops++) {
            memcpy(door, words.held.doors[0], sizeof door);
            status = shoali_knock(r->door, door, -1, r->deadline_us, NULL, NULL, &words);
        }
        r->in.admit = words.admit;
        r->proposal = (shoali_proposal){.certain = 1}; /* as a newcomer it leaves nobody out */
        if (status != SHOAL_PENDING)
            return status;
    }
    return SHOAL_PENDING;
}

/* One attempt to be admitted to the next epoch. */
static shoal_status enter(reform *r)
{
    shoali_loop_call(&r->old->loop, take_survey, r);
    if (shoali_member_is_behind(&r->m))
        return rejoin(r);
    r->candidate = shoali_member_candidate(&r->m, 0);
    while (r->candidate < r->old->me) {
        bool here = r->m.states[r->candidate] == SHOALI_MEMBER_HERE;
        shoal_status status = visit(r);
        if (status != SHOAL_PENDING || here)
            return status;
        r->candidate = shoali_member_candidate(&r->m, r->candidate + 1);
    }
    shoal_status status = lead(r);
    if (status != SHOAL_EEPOCH)
        return status;
    shoal_error why;
    shoali_error_get(&why);
    status = rejoin(r);
    return status != SHOAL_PENDING ? status : shoali_error_set(&why);
}

/* ------------------------------------------------------------------ moving */

/* Which links broke, as far as there is room, for shoal status: the next epoch may not even know
 * that they were there. */
static void note_links(reform *r)
{
    const shoal_comm *old = r->old;
    size_t used = (size_t)snprintf(r->past_links, sizeof r->past_links, "%s",
                                   old->reform.past_links);
    for (uint32_t i = 0; i < old->size; i++) {
        const shoali_peer *peer = &old->peers[i];
        char line[SHOALI_LOST_TEXT_BYTES + 40];
        if (peer->link_us == 0)
            continue;
        int length = snprintf(line, sizeof line, "in epoch %llu, %s\n",
                              (unsigned long long)old->epoch, peer->link_text);
        if (length <= 0 || used + (size_t)length >= sizeof r->past_links)
            break;
        memcpy(r->past_links + used, line, (size_t)length + 1);
        used += (size_t)length;
    }
}

static void tell_lost(const reform *r)
{
    shoali_lost_peer what;
    for (uint32_t i = 0; i < r->old->size && r->lost != NULL; i++)
        if (i != r->old->me && shoali_comm_lost_peer(r->old, i, &what))
            r->lost(r->lost_ctx, i, &what);
}

static void steal(void *arg)
{
    reform *r = arg;
    note_links(r);
    tell_lost(r);
    r->in.residuals = r->old->ops.residuals;
    r->old->ops.residuals = NULL;
    shoali_residuals_reform(r->in.residuals);
}

static void adopt(void *arg)
{
    reform *r = arg;
    r->fresh->ops.residuals = r->fresh->reform.in.residuals;
    memcpy(r->fresh->reform.past_links, r->past_links, sizeof r->past_links);
}

static shoal_status move(reform *r, shoal_comm **comm)
{
    shoal_comm *fresh = NULL;
    r->in.keeper = r->door;
    bool said_ready = false;
    r->in.ready_us = shoali_member_ready_us(&r->m, &r->proposal);
    r->in.said_ready = &said_ready;
    shoal_status status = shoali_comm_enter(&r->in, &fresh);
    if (status != SHOAL_OK) {
        shoali_member_failed(&r->m, said_ready ? NULL : &r->proposal, shoali_now_us());
        return status;
    }
    fresh->reform.in.said_ready = NULL;
    shoali_loop_call(&r->old->loop, shoali_reform_say_moved, r->old);
    shoali_loop_call(&r->old->loop, steal, r);
    fresh->reform.in.residuals = r->in.residuals;
    r->fresh = fresh;
    shoali_loop_call(&fresh->loop, adopt, r);
    fresh->protocols = r->old->protocols;
    (void)shoali_comm_take_door(r->old); /* it is the new epoch's */
    shoal_comm_destroy(r->old);
    *comm = fresh;
    return SHOAL_OK;
}

static shoal_status attempts(reform *r, shoal_comm **comm)
{
    shoal_status status = SHOAL_PENDING;
    shoal_error minority = {.status = SHOAL_OK};
    while (shoali_now_us() < r->deadline_us) {
        status = enter(r);
        if (status == SHOAL_EEPOCH)
            shoali_error_get(&minority);
        if (status == SHOAL_OK)
            status = move(r, comm);
        if (status == SHOAL_OK || status == SHOAL_ENOMEM || status == SHOAL_ECANCELLED)
            return status;
        shoali_log(DEBUG, "reform: %s", shoal_last_error()->text);
        (void)poll(NULL, 0, PAUSE_MS);
    }
    if (minority.status != SHOAL_OK)
        return shoali_error_set(&minority);
    return shoali_fail(SHOAL_ETIMEDOUT, "rank %u found no epoch after %llu that it can enter",
                       r->old->me, (unsigned long long)r->old->epoch);
}

static shoal_status alloc_tables(reform *r)
{
    const uint32_t size = r->old->size;
    r->m.states = shoali_alloc_array(size, sizeof *r->m.states);
    r->m.identity = shoali_alloc_array(size, sizeof *r->m.identity);
    r->m.said_us = shoali_alloc_array(size, sizeof *r->m.said_us);
    r->calls = shoali_alloc_array(size, sizeof(const shoali_guest *));
    r->callers = shoali_alloc_array(size, sizeof *r->callers);
    r->out = shoali_alloc_array(size, sizeof *r->out);
    bool all = r->m.states != NULL && r->m.identity != NULL && r->m.said_us != NULL &&
               r->calls != NULL && r->callers != NULL && r->out != NULL;
    return all ? SHOAL_OK : SHOAL_ENOMEM;
}

static void free_tables(reform *r)
{
    shoali_free(r->m.states);
    shoali_free(r->m.identity);
    shoali_free(r->m.said_us);
    shoali_free(r->calls);
    shoali_free(r->callers);
    shoali_free(r->out);
    shoali_free(r);
}

static shoal_status run(reform *r, shoal_comm **comm)
{
    shoal_comm *old = r->old;
    SHOALI_TRY(alloc_tables(r));
    shoali_loop_call(&old->loop, shoali_reform_leave, old);
    shoali_comm_quiet(old);
    shoali_door_stop(r->door);
    shoal_status status = attempts(r, comm);
    if (status != SHOAL_OK && !r->door->running) { /* visitors hear of the end from destroy */
        shoal_error why;
        shoali_error_get(&why);
        return shoali_error_set(&why);
    }
    return status;
}

shoal_status shoal_comm_reform(shoal_comm **comm, uint64_t done, int64_t timeout_us,
                               shoal_view *view_out)
{
    return shoali_comm_reform(comm, done, timeout_us, view_out, NULL, NULL);
}

shoal_status shoali_comm_reform(
    shoal_comm **comm, uint64_t done, int64_t timeout_us, shoal_view *view_out,
    void (*told)(void *ctx, uint32_t endpoint, const shoali_lost_peer *what), void *ctx)
{
    if (comm == NULL || *comm == NULL || (*comm)->door == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "this communicator's members are fixed: create it with reform = true");
    if (atomic_load(&(*comm)->loop.forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    reform *r = shoali_alloc(sizeof *r);
    if (r == NULL)
        return SHOAL_ENOMEM;
    r->old = *comm;
    r->door = (*comm)->door;
    r->lost = told;
    r->lost_ctx = ctx;
    r->deadline_us = shoali_now_us() + (uint64_t)(timeout_us > 0 ? timeout_us : DEFAULT_REFORM_US);
    r->m = (shoali_member){.me = r->old->me,
                           .size = r->old->size,
                           .epoch = r->old->epoch,
                           .tried = r->old->epoch,
                           .done = done,
                           .peer_timeout_us = (uint64_t)r->old->peer_timeout_us};
    shoal_status status = run(r, comm);
    free_tables(r);
    if (status != SHOAL_OK || view_out == NULL)
        return status;
    return shoal_comm_view(*comm, view_out);
}

bool shoal_comm_reform_wanted(const shoal_comm *comm)
{
    return comm != NULL && atomic_load(&comm->reform.wanted) &&
           (atomic_load(&comm->reform.going) || !atomic_load(&comm->reform.ending));
}
