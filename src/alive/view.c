/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there. A peer is
 *
 *   HERE  --goodbye--> LEFT    what it sent is on its way: its operations may end, or then fail
 *         --end without goodbye, silence, a broken link--> LOST    its operations fail at once
 *
 * and stays so: the membership is fixed until a reform (reform.c). Any frame is a sign of life.
 * LOST is a suspicion, whatever it rests on: who may go on without the lost is for the quorum to
 * say (member/quorum.h), and of the lost only those do not count whose end is proven (meet/proof.h)
 * while their last word is fresh (member/life.h).
 * Heartbeats say what the sender does, so that an error can tell what a lost peer was last
 * doing. */
#include "alive/view.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "alive/alive.h"
#include "alive/listen.h"
#include "alive/status.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "carry/flight.h"
#include "carry/link.h"
#include "meet/proof.h"
#include "member/beats.h"
#include "member/quorum.h"
#include "wire/member.h"
#include "wire/messages.h"

enum { RELAY_PART = 4 };

static uint32_t state_of(const shoali_peer *peer)
{
    return atomic_load_explicit(&peer->state, memory_order_relaxed);
}

static bool is_there(const shoal_comm *comm, uint32_t endpoint)
{
    return endpoint != comm->me && comm->peers[endpoint].up &&
           state_of(&comm->peers[endpoint]) == SHOALI_PEER_HERE;
}

/* Where the members may change, a beat is a word (member/life.h). */
static bool tells_all(const shoal_comm *comm)
{
    return comm->door != NULL || comm->ears.tells_all;
}

void shoali_view_heartbeat(shoal_comm *comm, uint32_t endpoint, const shoali_heartbeat *beat)
{
    comm->peers[endpoint].doing = *beat;
    comm->peers[endpoint].doing_us = comm->loop.now_us;
    if (comm->loop.now_us >= comm->view.deaf_us)
        comm->peers[endpoint].word_us = comm->loop.now_us;
    shoali_watch_hear(comm->watch, endpoint, beat);
}

void shoali_view_late(shoal_comm *comm, uint64_t late_us)
{
    const uint64_t deaf_us = shoali_life_deaf_us(late_us, (uint64_t)comm->peer_timeout_us);
    for (uint32_t i = 0; i < comm->size; i++) {
        comm->peers[i].heard_us += late_us;
        comm->peers[i].asked_us += comm->peers[i].asked_us > 0 ? late_us : 0;
    }
    if (deaf_us > 0)
        comm->view.deaf_us = comm->loop.now_us + deaf_us;
    /* The others count from our last sign of life, which came a beat or two earlier. */
    if (late_us > (uint64_t)comm->peer_timeout_us / 4 * 3) {
        comm->view.outdated_us = comm->loop.now_us + (uint64_t)comm->peer_timeout_us;
        comm->view.stood_us = late_us;
    }
    const uint64_t cpu_us = shoali_thread_cpu_ns() / 1000;
    const uint64_t worked_us = cpu_us > comm->view.beat_cpu_us ? cpu_us - comm->view.beat_cpu_us
                                                               : 0;
    if (late_us >= worked_us + SHOALI_PAUSE_US) { /* it did not run: it was stopped, or frozen */
        atomic_fetch_add(&comm->view.paused_us, late_us - worked_us);
        comm->view.pauses++;
    }
    shoali_log(DEBUG, "this process was late by %.3f s", (double)late_us * 1e-6);
}

void shoali_view_doing(const shoal_comm *comm, uint32_t endpoint, char *text, size_t text_bytes)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    double ago = (double)(comm->loop.now_us - peer->doing_us + peer->doing.for_us) * 1e-6;
    text[0] = '\0';
    if (peer->doing_us == 0)
        return;
    if (peer->doing.busy)
        snprintf(text, text_bytes, "; it was last in %s, for %.1f s", peer->doing.text, ago);
    else if (peer->doing.text[0] != '\0')
        snprintf(text, text_bytes, "; it was last idle, since %s ended %.1f s ago",
                 peer->doing.text, ago);
    else
        snprintf(text, text_bytes, "; it had not started anything");
}

void shoali_view_link_down(shoal_comm *comm, uint32_t endpoint, bool lost, const char *text)
{
    shoali_peer *peer = &comm->peers[endpoint];
    if (!peer->link_broke) /* what is to be told is what was lost first */
        snprintf(peer->link_text, sizeof peer->link_text, "rank %u to rank %u (host %.40s): %.250s",
                 comm->me, endpoint, peer->host, text);
    if (peer->link_us == 0 || comm->loop.now_us > peer->link_us + (uint64_t)comm->peer_timeout_us)
        shoali_log(WARN, "%s%s", peer->link_text, lost ? "; what was on its way is lost" : "");
    peer->link_us = comm->loop.now_us;
    if (!lost)
        return;
    peer->link_broke = true;
    comm->view.peers_changed = true;
    comm->loop.busy = true;
}

static void tell_listener(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    if (endpoint < comm->ranks && comm->ears.listening && comm->ears.listener.on_peer_down != NULL)
        comm->ears.listener.on_peer_down(comm->ears.listener.ctx, endpoint, peer->lost_status,
                                         peer->lost_text);
}

static void lose(shoal_comm *comm, uint32_t endpoint, shoal_status why, const char *text)
{
    shoali_peer *peer = &comm->peers[endpoint];
    char doing[160];
    shoali_view_look(comm, endpoint);
    shoali_view_doing(comm, endpoint, doing, sizeof doing);
    peer->lost_status = why == SHOAL_EAUTH || why == SHOAL_EVERSION ? why : SHOAL_EPEER;
    snprintf(peer->lost_text, sizeof peer->lost_text, "rank %u (host %.40s) is lost: %.180s%.100s",
             endpoint, peer->host, text, doing);
    if (comm->view.joined && comm->loop.now_us < comm->view.outdated_us) {
        comm->view.expelled = true;
        peer->lost_status = SHOAL_EEPOCH;
        snprintf(peer->lost_text, sizeof peer->lost_text,
                 "this process stood still for %.1f s, with a peer timeout of %.1f s: rank "
                 "%u (host %.40s) and the others have gone on without it",
                 (double)comm->view.stood_us * 1e-6, (double)comm->peer_timeout_us * 1e-6, endpoint,
                 peer->host);
    }
    if (peer->links > 1 && strstr(text, " - ") != NULL) { /* it names the link that is silent */
        snprintf(peer->link_text, sizeof peer->link_text, "rank %u to rank %u (host %.40s): %.250s",
                 comm->me, endpoint, peer->host, text);
        peer->link_us = comm->loop.now_us;
    }
    peer->lost_us = comm->loop.now_us;
    atomic_store_explicit(&peer->state, SHOALI_PEER_LOST, memory_order_release);
    shoali_log(WARN, "%s", peer->lost_text);
    shoali_links_drop(comm, endpoint, false);
    shoali_flight_recall(comm, NULL, endpoint);
    shoali_agree_forget(&comm->ops, endpoint);
    shoali_run_peer_lost(&comm->ops, endpoint, peer->lost_status, peer->lost_text);
    tell_listener(comm, endpoint);
}

void shoali_comm_expel(shoal_comm *comm)
{
    if (!comm->reform.leaving && !atomic_load(&comm->reform.going) &&
        !atomic_load(&comm->reform.wanted))
        comm->view.expelled = true;
}

bool shoali_comm_lost_peer(const shoal_comm *comm, uint32_t endpoint, shoali_lost_peer *out)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);
    bool lost = state == SHOALI_PEER_LOST;
    *out = (shoali_lost_peer){.at_us = lost ? peer->lost_us : 0,
                              .host = peer->host,
                              .dead = lost && atomic_load(&peer->death) != SHOALI_DEATH_NONE,
                              .why = lost                        ? peer->lost_text
                                     : state == SHOALI_PEER_LEFT ? "it left before the end"
                                                                 : "the others went on without it"};
    return lost;
}

/* What counts is when it ended: now at the latest, and where its launcher says so, before. */
void shoali_view_look(shoal_comm *comm, uint32_t endpoint)
{
    shoali_peer *peer = &comm->peers[endpoint];
    uint64_t at_us = 0;
    if (comm->addresses == NULL || atomic_load(&peer->death) != SHOALI_DEATH_NONE)
        return;
    const shoali_address *theirs = &comm->addresses[endpoint];
    const bool told = shoali_proof_by_launcher(theirs, comm->launch.ledger, &at_us);
    const uint64_t ended_us = at_us > 0 && at_us < comm->loop.now_us ? at_us : comm->loop.now_us;
    const uint64_t silent_us = ended_us > peer->word_us ? ended_us - peer->word_us : 0;
    const shoali_death death = shoali_life_end(peer->leaving, silent_us,
                                               (uint64_t)comm->peer_timeout_us);
    if (death != SHOALI_DEATH_NONE &&
        (told || shoali_proof_by_kernel(&comm->addresses[comm->me], theirs)))
        atomic_store(&peer->death, death);
}

static shoali_vote vote_of(const shoal_comm *comm, uint32_t i)
{
    const shoali_peer *peer = &comm->peers[i];
    const uint32_t state = i == comm->me ? SHOALI_PEER_HERE : state_of(peer);
    const uint32_t death = atomic_load(&peer->death);
    return state == SHOALI_PEER_HERE       ? SHOALI_VOTE_HERE
           : state == SHOALI_PEER_LEFT     ? SHOALI_VOTE_GONE
           : death == SHOALI_DEATH_CERTAIN ? SHOALI_VOTE_GONE
           : death == SHOALI_DEATH_DYING   ? SHOALI_VOTE_DYING
                                           : SHOALI_VOTE_AWAY;
}

/* Those that this rank reaches may not decide for all (quorum.h). */
static bool is_minority(const shoal_comm *comm, shoali_tally *tally_out)
{
    shoali_tally tally = {0};
    for (uint32_t i = 0; i < comm->ranks; i++)
        shoali_tally_add(&tally, vote_of(comm, i));
    *tally_out = tally;
    return !shoali_tally_decides(&tally);
}

bool shoali_comm_is_lowest(const shoal_comm *comm)
{
    shoali_tally tally;
    for (uint32_t i = 0; i < comm->me; i++)
        if (state_of(&comm->peers[i]) == SHOALI_PEER_HERE)
            return false;
    return !is_minority(comm, &tally);
}

/* The listener hears of the loss once more when it is proven. */
static void look_again(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    const bool knew = atomic_load(&peer->death) != SHOALI_DEATH_NONE;
    shoali_view_look(comm, endpoint);
    if (!knew && atomic_load(&peer->death) != SHOALI_DEATH_NONE)
        tell_listener(comm, endpoint);
}

/* A protocol that goes on without the lost does so only with a quorum: else the others do, or
 * nobody. Proof of a death may come a little after the end of its connections. */
static void check_quorum(shoal_comm *comm)
{
    char text[SHOALI_LOST_TEXT_BYTES];
    shoali_tally tally;
    if (!comm->ears.listening || !comm->ears.listener.goes_on || comm->view.minority_told)
        return;
    for (uint32_t i = 0; i < comm->ranks; i++)
        if (i != comm->me && state_of(&comm->peers[i]) == SHOALI_PEER_LOST)
            look_again(comm, i);
    if (!is_minority(comm, &tally)) {
        comm->view.minority_us = 0;
        return;
    }
    comm->view.minority_us = comm->view.minority_us > 0 ? comm->view.minority_us
                                                        : comm->loop.now_us;
    if (comm->loop.now_us < comm->view.minority_us + (uint64_t)comm->peer_timeout_us)
        return;
    comm->view.minority_told = comm->view.expelled = true;
    snprintf(
        text, sizeof text,
        "rank %u (host %.40s) reaches only %u of the %u members that may be alive, for %.1f s: "
        "the others may go on without it",
        comm->me, comm->host, tally.here, tally.here + tally.away + tally.dying,
        (double)shoali_since(comm, comm->view.minority_us) * 1e-6);
    shoali_log(WARN, "%s", text);
    comm->ears.listener.on_peer_down(comm->ears.listener.ctx, comm->me, SHOAL_EEPOCH, text);
}

static void leave(shoal_comm *comm, uint32_t endpoint)
{
    shoali_peer *peer = &comm->peers[endpoint];
    peer->lost_status = SHOAL_OK;
    snprintf(peer->lost_text, sizeof peer->lost_text, "rank %u (host %.40s) has said goodbye",
             endpoint, peer->host);
    peer->left_us = comm->loop.now_us;
    atomic_store_explicit(&peer->state, SHOALI_PEER_LEFT, memory_order_release);
    shoali_log(DEBUG, "%s", peer->lost_text);
    tell_listener(comm, endpoint);
}

/* This process may have stood still since the round began: then it is not the others that went. */
static void look_at_clock(shoal_comm *comm)
{
    const uint64_t now_us = shoali_now_us(), began_us = comm->loop.now_us;
    if (now_us <= began_us + SHOALI_LATE_US)
        return;
    comm->loop.now_us = now_us;
    shoali_view_late(comm, now_us - began_us);
}

static void act_on_gone(shoal_comm *comm)
{
    comm->view.peers_changed = false;
    look_at_clock(comm);
    for (uint32_t i = 0; i < comm->size; i++) {
        shoali_peer *peer = &comm->peers[i];
        if (peer->link_broke && state_of(peer) == SHOALI_PEER_HERE)
            shoali_run_link_broke(&comm->ops, i, peer->link_text);
        peer->link_broke = false;
        if (peer->gone && peer->gone_status == SHOAL_OK && state_of(peer) == SHOALI_PEER_HERE)
            leave(comm, i);
        else if (peer->gone && peer->gone_status != SHOAL_OK && state_of(peer) != SHOALI_PEER_LOST)
            lose(comm, i, peer->gone_status, peer->gone_text);
    }
}

/* What a peer that left had sent may still arrive, for as long as a peer may be silent; then it is
 * missing for good. */
static void settle_left(shoal_comm *comm, uint32_t endpoint)
{
    shoali_peer *peer = &comm->peers[endpoint];
    if (comm->loop.now_us < peer->left_us + (uint64_t)comm->peer_timeout_us)
        return;
    if (shoali_run_involves(&comm->ops, endpoint))
        lose(comm, endpoint, SHOAL_EPEER, "it said goodbye before its operations were over");
    else
        shoali_links_drop(comm, endpoint, false);
    peer->settled = true;
}

/* member/beats.h */
static shoali_silence silence_of(const shoal_comm *comm, uint32_t endpoint)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    return (shoali_silence){
        .watches = tells_all(comm) || shoali_beats_watches(comm->me, endpoint, comm->size),
        .asked = peer->asked_us > 0,
        .missed = peer->missed,
        .silent_us = shoali_since(comm, peer->heard_us),
        .asked_us = peer->asked_us > 0 ? shoali_since(comm, peer->asked_us) : 0};
}

/* Whether this rank is in operations with the others, or was just now. */
static bool works(const shoal_comm *comm)
{
    return comm->ops.open != NULL || comm->ears.listening ||
           shoali_since(comm, comm->ops.last_us) <= (uint64_t)comm->peer_timeout_us;
}

/* Whose relay is silent is so through no fault of its own: the relay is named first. */
static uint64_t limit_us(const shoal_comm *comm, uint32_t endpoint)
{
    const uint64_t timeout_us = (uint64_t)comm->peer_timeout_us;
    return timeout_us + (comm->peers[endpoint].via != SHOALI_NONE ? timeout_us / RELAY_PART : 0);
}

/* Of one that this rank watches, to those that hear it more rarely. */
static void tell_of(shoal_comm *comm, uint32_t endpoint, uint16_t kind)
{
    const shoali_missed about = {endpoint};
    uint8_t body[SHOALI_MISSED_BYTES];
    if (!shoali_beats_watches(comm->me, endpoint, comm->size))
        return;
    (void)shoali_missed_encode(&about, body);
    for (uint32_t i = 0; i < comm->size; i++)
        if (i != endpoint && is_there(comm, i) && !shoali_beats_watches(i, endpoint, comm->size))
            shoali_control(comm, i, kind, body, sizeof body);
}

static void ask(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_missed about = {endpoint};
    uint8_t body[SHOALI_MISSED_BYTES];
    comm->peers[endpoint].asked_us = comm->loop.now_us;
    shoali_control(comm, endpoint, SHOALI_MESSAGE_there, body, shoali_missed_encode(&about, body));
}

static void ask_if_quiet(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_silence silence = silence_of(comm, endpoint);
    if (!comm->view.joined || tells_all(comm) || comm->peers[endpoint].gone ||
        !shoali_beats_asks(&silence, comm->size, works(comm), limit_us(comm, endpoint)))
        return;
    ask(comm, endpoint);
    tell_of(comm, endpoint, SHOALI_MESSAGE_there);
}

static void ask_too(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_silence silence = silence_of(comm, endpoint);
    if (is_there(comm, endpoint) &&
        shoali_beats_asks_too(&silence, (uint64_t)comm->peer_timeout_us))
        ask(comm, endpoint);
}

void shoali_view_asked(shoal_comm *comm, uint32_t endpoint, const shoali_missed *about)
{
    if (about->endpoint == comm->me) {
        comm->peers[endpoint].asks = comm->view.answers = true;
        return;
    }
    if (about->endpoint < comm->size)
        ask_too(comm, about->endpoint);
}

void shoali_view_missed(shoal_comm *comm, const shoali_missed *missed)
{
    if (missed->endpoint < comm->size && missed->endpoint != comm->me)
        comm->peers[missed->endpoint].missed = comm->view.look_for_missed = true;
}

static bool is_silent(const shoal_comm *comm, uint32_t endpoint)
{
    const shoali_silence silence = silence_of(comm, endpoint);
    return comm->view.joined && comm->peers[endpoint].up &&
           state_of(&comm->peers[endpoint]) == SHOALI_PEER_HERE &&
           shoali_beats_lost(&silence, comm->size, limit_us(comm, endpoint));
}

/* On a machine that is busy this thread may have come too late to read what has long arrived, and
 * one round reads a part of the connections: before anyone is blamed, all is read. */
static void read_all(shoal_comm *comm)
{
    struct pollfd more = {.fd = comm->links.control.row->fd(comm->links.control.state),
                          .events = POLLIN};
    for (uint32_t i = 0; i < comm->size && poll(&more, 1, 0) == 1; i++)
        comm->links.control.row->progress(comm->links.control.state, comm->loop.now_us);
}

static void check_silence(shoal_comm *comm, uint32_t endpoint)
{
    const shoali_peer *peer = &comm->peers[endpoint];
    if (is_silent(comm, endpoint))
        read_all(comm);
    if (!is_silent(comm, endpoint))
        return;
    const uint64_t silent_us = shoali_since(comm, peer->heard_us);
    char text[80 + SHOALI_LINKS_TEXT_BYTES], by[40] = "", links[SHOALI_LINKS_TEXT_BYTES] = "";
    if (peer->via != SHOALI_NONE)
        snprintf(by, sizeof by, ", by way of rank %u", peer->via);
    else if (comm->links.control.row->links != NULL)
        comm->links.control.row->links(comm->links.control.state, endpoint, links);
    snprintf(text, sizeof text, "silent for %.1f s%s%s%s", (double)silent_us * 1e-6, by,
             links[0] != '\0' ? ": " : "", links);
    tell_of(comm, endpoint, SHOALI_MESSAGE_missed);
    shoali_peer_gone(comm, endpoint, SHOAL_EPEER, text);
}

static void look_for_missed(shoal_comm *comm)
{
    comm->view.look_for_missed = false;
    for (uint32_t i = 0; i < comm->size; i++)
        if (comm->peers[i].missed) {
            ask_too(comm, i);
            check_silence(comm, i);
        }
}

/* from: the number of the last beat. Those that this thread came too late for are made up for. */
static bool is_to_be_told(const shoal_comm *comm, uint32_t endpoint, uint64_t from)
{
    const uint64_t heard_us = comm->peers[endpoint].heard_us;
    if (tells_all(comm))
        return shoali_life_speaks(shoali_since(comm, heard_us), (uint64_t)comm->peer_timeout_us);
    return shoali_beats_due(comm->me, endpoint, comm->size, works(comm), from, comm->view.beats);
}

static shoali_heartbeat word_of(shoal_comm *comm)
{
    shoali_heartbeat now = {.busy = comm->ops.open != NULL,
                            .for_us = comm->loop.now_us - comm->ops.last_us};
    snprintf(now.text, sizeof now.text, "%s",
             comm->ops.open != NULL ? comm->ops.open->name : comm->ops.last_name);
    shoali_status_fares(comm, &now);
    if (comm->ops.open != NULL)
        now.for_us = shoali_since(comm, comm->ops.open->started_us);
    return now;
}

static void tell(shoal_comm *comm, uint32_t endpoint, shoali_heartbeat *now)
{
    uint8_t body[SHOALI_HEARTBEAT_BYTES];
    if (!comm->reform.leaving)
        comm->peers[endpoint].said_us = comm->loop.now_us;
    if (comm->watch != NULL)
        now->to_you_bytes_s = shoali_watch_rate_to(comm->watch, endpoint);
    shoali_heartbeat_encode(now, body);
    shoali_control(comm, endpoint, SHOALI_MESSAGE_heartbeat, body, sizeof body);
}

static void answer(shoal_comm *comm)
{
    shoali_heartbeat now = word_of(comm);
    comm->view.answers = false;
    for (uint32_t i = 0; i < comm->size; i++)
        if (comm->peers[i].asks && is_there(comm, i))
            tell(comm, i, &now);
    for (uint32_t i = 0; i < comm->size; i++)
        comm->peers[i].asks = false;
}

static void beat(shoal_comm *comm)
{
    shoali_heartbeat now = word_of(comm);
    const uint64_t from = comm->view.beats;
    comm->view.beats = comm->loop.now_us /
                       ((uint64_t)comm->peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT);
    shoali_watch_say(comm->watch, &now);
    for (uint32_t i = 0; i < comm->size; i++)
        if (is_there(comm, i) && is_to_be_told(comm, i, from))
            tell(comm, i, &now);
}

/* While ranks join, they are as busy with each other as they will ever be: who hears nothing of a
 * connected one for a while waits for the end of the join, which has a deadline of its own. */
void shoali_view_begin(shoal_comm *comm)
{
    comm->view.joined = true;
    comm->loop.now_us = shoali_now_us();
    for (uint32_t i = 0; i < comm->size; i++)
        comm->peers[i].heard_us = comm->loop.now_us;
}

void shoali_view_timers(shoal_comm *comm)
{
    if (comm->loop.now_us >= comm->view.next_beat_us) {
        comm->view.next_beat_us = comm->loop.now_us +
                                  (uint64_t)comm->peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT;
        comm->view.beat_cpu_us = shoali_thread_cpu_ns() / 1000;
        if (comm->watch != NULL) {
            beat(comm);
            shoali_watch_judge(comm->watch);
        }
        for (uint32_t i = 0; i < comm->size; i++) {
            shoali_peer *peer = &comm->peers[i];
            if (i == comm->me || !peer->up)
                continue;
            if (state_of(peer) == SHOALI_PEER_HERE) {
                check_silence(comm, i);
                ask_if_quiet(comm, i);
            } else if (state_of(peer) == SHOALI_PEER_LEFT && !peer->settled)
                settle_left(comm, i);
        }
        check_quorum(comm);
    }
    if (comm->view.look_for_missed)
        look_for_missed(comm);
    if (comm->view.answers)
        answer(comm);
    if (comm->view.peers_changed)
        act_on_gone(comm);
}

uint64_t shoali_view_next_us(const shoal_comm *comm)
{
    return comm->size > 1 ? comm->view.next_beat_us : UINT64_MAX;
}
