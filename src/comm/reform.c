/* SPDX-License-Identifier: Apache-2.0 */
/* From one epoch to the next. While it is agreed upon, the old connections stay: their heartbeats
 * say who is alive, however long its program takes to get here. States of a member:
 *
 *                    what it does                                   until
 *   LEAVING          its operations end EEPOCH, all hear it         nothing is open
 *   LEADING          (lowest that is there) takes visitors at       all that are there have come,
 *                    its door                                       or are dead or silent
 *   VISITING         (others) comes to the leader's door            admitted; leader lost: next one
 *   MEETING          a new communicator at the leader's door        connected to all; else again,
 *                                                                   with a higher epoch
 *   MOVED            says so to who is still in the old epoch, and leaves that
 *   LEFT BEHIND      others have moved without this one: it joins as a newcomer
 *
 * Quorum (quorum.h): those who come have to be more than half of the old epoch's members, or half
 * with the lowest; who is proven dead (proof.h) or has said goodbye does not count, all others do.
 * So of two halves that cannot reach each other only one goes on; the other keeps knocking.
 *
 * Who is silent may be so on one way only, where there are others (several links, relays): then it
 * is astray. It is visited like somebody who is there, and waited for a while. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/door.h"
#include "comm/inner.h"
#include "comm/quorum.h"
#include "wire/messages.h"

enum {
    DEFAULT_REFORM_US = 60 * 1000 * 1000,
    CALL_US = 1000 * 1000, /* by way of others */
    POLL_MS = 20,
    PAUSE_MS = 50,
    MEET_TIMES = 2
};

typedef enum member_state { HERE, LEFT, SILENT, ASTRAY, DEAD, MOVED } member_state;

typedef struct reform {
    shoal_comm *old;
    shoali_door *door;
    uint64_t deadline_us, done, tried;
    uint64_t wait_us; /* for those astray, until then; 0: it has not led yet */
    uint8_t *states;  /* [size] member_state, as of the last survey */
    bool *out;        /* [size] nothing goes by way of them, as of the last survey */
    bool told;        /* that it is a minority */
    shoal_comm *fresh;
    char past_links[SHOALI_PAST_LINKS_BYTES];
    uint32_t candidate;
    shoali_admission in;
    uint32_t *callers; /* [size] by old rank: index of the visitor, SHOALI_NONE */
    void (*lost)(void *ctx, uint32_t endpoint, const shoali_lost_peer *what);
    void *lost_ctx;
} reform;

/* ------------------------------------------------------------------ what members say */

static void say(shoal_comm *comm, uint32_t what)
{
    shoali_reform message = {.what = what};
    uint8_t body[SHOALI_REFORM_MESSAGE_BYTES];
    if (comm->door != NULL)
        memcpy(message.door, comm->door->address, sizeof message.door);
    shoali_reform_encode(&message, body);
    for (uint32_t i = 0; i < comm->size; i++)
        if (i != comm->me && comm->peers[i].up &&
            atomic_load(&comm->peers[i].state) == SHOALI_PEER_HERE)
            shoali_control(comm, i, SHOALI_MESSAGE_reform, body, sizeof body);
}

void shoali_reform_introduce(void *arg)
{
    say(arg, SHOALI_REFORM_DOOR);
}

void shoali_reform_want(void *arg)
{
    shoal_comm *comm = arg;
    if (!atomic_exchange(&comm->wanted, true))
        say(comm, SHOALI_REFORM_WANTED);
}

static void tell_relay(shoal_comm *comm, uint32_t endpoint, const char *door)
{
    const char *port = strrchr(door, ':');
    if (port != NULL)
        shoali_relay_know_door(comm->relay, endpoint, (uint16_t)strtoul(port + 1, NULL, 10));
}

void shoali_reform_on_message(shoal_comm *comm, uint32_t endpoint, const shoali_reform *message)
{
    shoali_peer *peer = &comm->peers[endpoint];
    switch (message->what) {
    case SHOALI_REFORM_DOOR:
        pthread_mutex_lock(&comm->lock);
        memcpy(peer->door, message->door, sizeof peer->door);
        pthread_mutex_unlock(&comm->lock);
        tell_relay(comm, endpoint, message->door);
        break;
    case SHOALI_REFORM_LEAVING:
        peer->leaving = true;
        atomic_store(&comm->wanted, true);
        shoali_run_peer_leaving(comm, endpoint);
        break;
    case SHOALI_REFORM_MOVED:
        peer->moved = true;
        break;
    default:
        atomic_store(&comm->wanted, true);
        break;
    }
}

static void leave_epoch(void *arg)
{
    shoal_comm *comm = arg;
    comm->leaving = true;
    shoali_run_all_leaving(comm);
    say(comm, SHOALI_REFORM_LEAVING);
}

static void say_moved(void *arg)
{
    say(arg, SHOALI_REFORM_MOVED);
}

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

static void take_survey(void *arg)
{
    reform *r = arg;
    find_ways_round(r);
    for (uint32_t i = 0; i < r->old->size; i++) {
        const shoali_peer *peer = &r->old->peers[i];
        uint32_t state = i == r->old->me ? SHOALI_PEER_HERE : atomic_load(&peer->state);
        if (state == SHOALI_PEER_LOST)
            shoali_view_look(r->old, i);
        r->states[i] = peer->moved                 ? MOVED
                       : state == SHOALI_PEER_HERE ? HERE
                       : state == SHOALI_PEER_LEFT ? LEFT
                       : atomic_load(&peer->ended) ? DEAD
                       : has_other_ways(r, i)      ? ASTRAY
                                                   : SILENT;
    }
}

static bool is_silent(const reform *r, uint32_t i)
{
    return r->states[i] == SILENT || r->states[i] == ASTRAY;
}

static uint32_t count_of(const reform *r, member_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->old->size; i++)
        count += r->states[i] == state;
    return count;
}

/* The candidate is still the one to visit, and nobody has gone ahead. */
static bool still_leads(void *arg)
{
    reform *r = arg;
    shoali_call(r->old, take_survey, r);
    uint8_t state = r->states[r->candidate];
    return count_of(r, MOVED) == 0 && (state == HERE || state == ASTRAY);
}

/* ------------------------------------------------------------------ leading */

/* Visitors by old rank. */
static void muster(reform *r)
{
    for (uint32_t i = 0; i < r->old->size; i++)
        r->callers[i] = SHOALI_NONE;
    for (uint32_t c = 0; c < r->door->visitors.count; c++) {
        const shoali_caller *caller = shoali_door_caller(r->door, c);
        if (!caller->member || r->callers[caller->come.rank] != SHOALI_NONE)
            continue;
        r->callers[caller->come.rank] = c;
    }
}

/* Who is astray and lower than this rank would lead, not come. */
static bool all_have_come(const reform *r)
{
    bool wait = shoali_now_us() < r->wait_us;
    for (uint32_t i = 0; i < r->old->size; i++)
        if (i != r->old->me && r->callers[i] == SHOALI_NONE &&
            (r->states[i] == HERE || (r->states[i] == ASTRAY && i > r->old->me && wait)))
            return false;
    return true;
}

static bool has_quorum(const reform *r)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < r->old->size; i++)
        shoali_tally_add(&tally, i == r->old->me || r->callers[i] != SHOALI_NONE ? SHOALI_VOTE_HERE
                                 : is_silent(r, i)                               ? SHOALI_VOTE_AWAY
                                                   : SHOALI_VOTE_GONE);
    return shoali_tally_decides(&tally);
}

static shoal_status no_quorum(reform *r)
{
    char by[64] = "";
    uint32_t first = 0;
    while (first + 1 < r->old->size && !is_silent(r, first))
        first++;
    uint32_t via = r->old->peers[first].via;
    if (via != SHOALI_NONE && r->states[via] != HERE)
        snprintf(by, sizeof by, " (it was reached by way of rank %u, which is lost)", via);
    shoal_status status = shoali_fail(
        SHOAL_EEPOCH,
        "rank %u reaches only a minority of the %u members: rank %u and others may go "
        "on without it%s",
        r->old->me, r->old->size, first, by);
    shoali_error_about((int32_t)first, r->old->peers[first].host, "reform", -1);
    shoali_error_advice("Look at this host's network; a newcomer may take its place meanwhile.");
    if (!r->told)
        shoali_log(WARN, "%s; it goes on looking for them for %.0f s", shoal_last_error()->text,
                   (double)(r->deadline_us - shoali_now_us()) * 1e-6);
    r->told = true;
    return status;
}

static void admit(shoali_caller *caller, const shoali_admit *place)
{
    uint8_t body[SHOALI_ADMIT_BYTES];
    caller->leaves = shoali_meet_stream_put(&caller->base.stream, SHOALI_MESSAGE_admit, body,
                                            shoali_admit_encode(place, body));
}

/* What is common to all places of the next epoch. */
static shoali_admit plan(const reform *r)
{
    shoali_admit a = {.epoch = r->tried, .size = 1, .done_min = r->done, .done_max = r->done};
    for (uint32_t i = 0; i < r->old->size; i++) {
        if (r->callers[i] == SHOALI_NONE)
            continue;
        const shoali_come *come = &shoali_door_caller(r->door, r->callers[i])->come;
        a.epoch = come->tried > a.epoch ? come->tried : a.epoch;
        a.done_min = come->done < a.done_min ? come->done : a.done_min;
        if (come->done > a.done_max) {
            a.done_max = come->done;
            a.done_rank = a.size;
        }
        a.size++;
    }
    a.epoch++;
    for (uint32_t c = 0; c < r->door->visitors.count; c++)
        a.size += shoali_door_caller(r->door, c)->newcomer && a.size < r->door->mine.world_size;
    return a;
}

/* Members in their old order, then newcomers as they came. */
static void decide(reform *r)
{
    shoali_door *door = r->door;
    shoali_admit place = plan(r);
    memcpy(place.door, door->address, sizeof place.door);
    r->in.admit = place;
    for (uint32_t i = 0; i < r->old->size; i++)
        if (r->callers[i] != SHOALI_NONE) {
            place.rank++;
            admit(shoali_door_caller(door, r->callers[i]), &place);
        }
    for (uint32_t c = 0; c < door->visitors.count && place.rank + 1 < place.size; c++)
        if (shoali_door_caller(door, c)->newcomer && !shoali_door_caller(door, c)->leaves) {
            place.rank++;
            admit(shoali_door_caller(door, c), &place);
        }
    for (uint32_t c = door->visitors.count; c-- > 0;)
        if (shoali_door_caller(door, c)->leaves) {
            shoali_meet_stream_try(&shoali_door_caller(door, c)->base.stream);
            shoali_visitors_drop(&door->visitors, c);
        }
}

/* OK: decided. PENDING: look again who is to lead. */
static shoal_status lead(reform *r)
{
    if (r->wait_us == 0)
        r->wait_us = shoali_now_us() + (uint64_t)r->old->peer_timeout_us;
    while (shoali_now_us() < r->deadline_us) {
        shoali_door_poll(r->door, POLL_MS);
        shoali_call(r->old, take_survey, r);
        muster(r);
        if (count_of(r, MOVED) > 0)
            return SHOAL_PENDING;
        if (!all_have_come(r))
            continue;
        if (!has_quorum(r))
            return no_quorum(r);
        decide(r);
        return SHOAL_OK;
    }
    return SHOAL_PENDING;
}

/* ------------------------------------------------------------------ the others */

/* A member's door by its n-th address: of the links that both share, else of all. */
static bool door_of(shoal_comm *old, uint32_t rank, uint32_t n, char out[SHOALI_DOOR_BYTES])
{
    const shoali_address *at = &old->addresses[rank];
    char door[SHOALI_DOOR_BYTES], ip[SHOALI_IP_TEXT_BYTES];
    pthread_mutex_lock(&old->lock);
    memcpy(door, old->peers[rank].door, sizeof door);
    pthread_mutex_unlock(&old->lock);
    const char *port = strrchr(door, ':');
    if (port == NULL || n >= (old->peers[rank].links > 0 ? old->peers[rank].links : at->ip_count))
        return false;
    shoali_ip_format(&at->ips[n], ip);
    snprintf(out, SHOALI_DOOR_BYTES,
             at->ips[n].any.sa_family == AF_INET6 ? "[%.46s]%.8s" : "%.46s%.8s", ip, port);
    return true;
}

/* Knock at a member's door by every way there is. come NULL: as a newcomer. */
static shoal_status knock(reform *r, uint32_t rank, const shoali_come *come, shoali_held *held_out)
{
    char door[SHOALI_DOOR_BYTES];
    shoal_comm *old = r->old;
    bool (*goes_on)(void *ctx) = come != NULL ? still_leads : NULL;
    for (uint32_t n = 0; door_of(old, rank, n, door); n++) {
        shoal_status status = shoali_knock(r->door, door, -1, come, r->deadline_us, goes_on, r,
                                           held_out, &r->in.admit);
        if (status != SHOAL_PENDING || held_out->count > 0)
            return status;
        if (goes_on != NULL && !goes_on(r))
            return SHOAL_PENDING;
    }
    int fd = shoali_relay_call_door(old->relay, rank, shoali_now_us() + CALL_US);
    if (fd < 0)
        return SHOAL_PENDING;
    return shoali_knock(r->door, old->peers[rank].door, fd, come, r->deadline_us, goes_on, r,
                        held_out, &r->in.admit);
}

static shoal_status visit(reform *r)
{
    const shoal_comm *old = r->old;
    const shoali_come come = {.epoch = old->epoch,
                              .tried = r->tried,
                              .done = r->done,
                              .incarnation = old->incarnation,
                              .rank = old->me};
    shoali_held held;
    return knock(r, r->candidate, &come, &held);
}

/* At the doors of all that may be somewhere, as a newcomer. */
static shoal_status rejoin(reform *r)
{
    for (uint32_t i = 0; i < r->old->size; i++) {
        shoali_held held = {0};
        char door[SHOALI_DOOR_BYTES];
        if (i == r->old->me || r->states[i] == DEAD || r->states[i] == LEFT)
            continue;
        shoal_status status = knock(r, i, NULL, &held);
        for (int hops = 0; status == SHOAL_PENDING && !held.stay && held.count > 0 && hops < 4;
             hops++) {
            memcpy(door, held.doors[0], sizeof door);
            status = shoali_knock(r->door, door, -1, NULL, r->deadline_us, NULL, NULL, &held,
                                  &r->in.admit);
        }
        if (status != SHOAL_PENDING)
            return status;
    }
    return SHOAL_PENDING;
}

/* One attempt to be admitted to the next epoch. */
static shoal_status enter(reform *r)
{
    shoali_call(r->old, take_survey, r);
    if (count_of(r, MOVED) > 0)
        return rejoin(r);
    for (r->candidate = 0; r->candidate < r->old->me; r->candidate++) {
        uint8_t state = r->states[r->candidate];
        shoal_status status = state == HERE || state == ASTRAY ? visit(r) : SHOAL_PENDING;
        if (status != SHOAL_PENDING || state == HERE)
            return status;
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
    size_t used = (size_t)snprintf(r->past_links, sizeof r->past_links, "%s", old->past_links);
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
    r->in.residuals = r->old->residuals;
    r->old->residuals = NULL;
}

static void adopt(void *arg)
{
    reform *r = arg;
    r->fresh->residuals = r->fresh->in.residuals;
    memcpy(r->fresh->past_links, r->past_links, sizeof r->past_links);
}

static shoal_status move(reform *r, shoal_comm **comm)
{
    shoal_comm *fresh = NULL;
    r->tried = r->in.admit.epoch > r->tried ? r->in.admit.epoch : r->tried;
    r->in.keeper = r->door;
    SHOALI_TRY(shoali_comm_enter(&r->in, &fresh));
    shoali_call(r->old, say_moved, r->old);
    shoali_call(r->old, steal, r);
    fresh->in.residuals = r->in.residuals;
    r->fresh = fresh;
    shoali_call(fresh, adopt, r);
    fresh->protocols = r->old->protocols;
    r->old->door = NULL;
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

static shoal_status run(reform *r, shoal_comm **comm)
{
    shoal_comm *old = r->old;
    r->states = shoali_alloc_array(old->size, sizeof *r->states);
    r->callers = shoali_alloc_array(old->size, sizeof *r->callers);
    r->out = shoali_alloc_array(old->size, sizeof *r->out);
    if (r->states == NULL || r->callers == NULL || r->out == NULL)
        return SHOAL_ENOMEM;
    shoali_call(old, leave_epoch, old);
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
    if (atomic_load(&(*comm)->forked))
        return shoali_fail(SHOAL_EFORKED, "this communicator belongs to the parent process");
    reform r = {.old = *comm,
                .door = (*comm)->door,
                .done = done,
                .lost = told,
                .lost_ctx = ctx,
                .tried = (*comm)->epoch,
                .deadline_us = shoali_now_us() +
                               (uint64_t)(timeout_us > 0 ? timeout_us : DEFAULT_REFORM_US)};
    shoal_status status = run(&r, comm);
    shoali_free(r.states);
    shoali_free(r.callers);
    shoali_free(r.out);
    if (status != SHOAL_OK || view_out == NULL)
        return status;
    return shoal_comm_view(*comm, view_out);
}

bool shoal_comm_reform_wanted(const shoal_comm *comm)
{
    return comm != NULL && atomic_load(&comm->wanted);
}
