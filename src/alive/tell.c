/* SPDX-License-Identifier: Apache-2.0 */
/* What members of a job that may change its members tell each other on their connections, and how
 * an epoch after the first begins (member/member.h). */
#include "alive/tell.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alive/alive.h"
#include "base/clock.h"
#include "base/error.h"
#include "carry/link.h"
#include "wire/messages.h"

enum { WAIT_MS = 2 };

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
    if (!atomic_exchange(&comm->reform.wanted, true))
        say(comm, SHOALI_REFORM_WANTED);
}

static void go(void *arg)
{
    shoal_comm *comm = arg;
    atomic_store(&comm->reform.wanted, true);
    say(comm, SHOALI_REFORM_GOING);
}

static void end(void *arg)
{
    shoal_comm *comm = arg;
    atomic_store(&comm->reform.ending, true);
    say(comm, SHOALI_REFORM_ENDING);
}

void shoali_comm_goes(shoal_comm *comm)
{
    if (comm->door != NULL)
        shoali_loop_call(&comm->loop, go, comm);
}

void shoali_comm_ends(shoal_comm *comm)
{
    if (comm->door != NULL)
        shoali_loop_call(&comm->loop, end, comm);
}

bool shoali_comm_others_go(const shoal_comm *comm)
{
    return atomic_load(&comm->reform.going);
}

void shoali_comm_want_reform(shoal_comm *comm)
{
    if (comm->door != NULL)
        shoali_reform_want(comm);
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
        pthread_mutex_lock(&comm->loop.lock);
        memcpy(peer->door, message->door, sizeof peer->door);
        pthread_mutex_unlock(&comm->loop.lock);
        tell_relay(comm, endpoint, message->door);
        break;
    case SHOALI_REFORM_LEAVING:
        peer->leaving = true;
        atomic_store(&comm->reform.wanted, true);
        atomic_store(&comm->reform.going, true);
        shoali_run_peer_leaving(&comm->ops, endpoint);
        break;
    case SHOALI_REFORM_MOVED:
        peer->moved = true;
        break;
    case SHOALI_REFORM_READY:
        atomic_fetch_add(&comm->reform.ready, peer->said_ready ? 0 : 1);
        peer->said_ready = true;
        break;
    case SHOALI_REFORM_GO:
        if (endpoint == 0)
            atomic_store(&comm->reform.begun, true);
        break;
    case SHOALI_REFORM_ENDING:
        atomic_store(&comm->reform.ending, true);
        break;
    case SHOALI_REFORM_GOING:
        atomic_store(&comm->reform.wanted, true);
        atomic_store(&comm->reform.going, true);
        break;
    default:
        atomic_store(&comm->reform.wanted, true);
        break;
    }
}

void shoali_reform_leave(void *arg)
{
    shoal_comm *comm = arg;
    comm->reform.leaving = true;
    shoali_run_all_leaving(&comm->ops);
    say(comm, SHOALI_REFORM_LEAVING);
}

void shoali_reform_say_moved(void *arg)
{
    say(arg, SHOALI_REFORM_MOVED);
}

/* ------------------------------------------------------------------ what its door asks */

static bool here(void *ctx, uint32_t rank)
{
    const shoal_comm *comm = ctx;
    return atomic_load(&comm->peers[rank].state) == SHOALI_PEER_HERE;
}

static uint64_t incarnation(void *ctx, uint32_t rank)
{
    const shoal_comm *comm = ctx;
    return comm->peers[rank].incarnation;
}

static bool door_of(void *ctx, uint32_t rank, char out[SHOALI_DOOR_BYTES])
{
    shoal_comm *comm = ctx;
    pthread_mutex_lock(&comm->loop.lock);
    memcpy(out, comm->peers[rank].door, SHOALI_DOOR_BYTES);
    pthread_mutex_unlock(&comm->loop.lock);
    return out[0] != '\0';
}

static bool want(void *ctx)
{
    return shoali_loop_soon(&((shoal_comm *)ctx)->loop, shoali_reform_want, ctx) == SHOAL_OK;
}

shoal_status shoali_reform_open_door(shoal_comm *comm)
{
    const shoali_door_owner owner = {.ctx = comm,
                                     .me = comm->me,
                                     .size = comm->size,
                                     .epoch = comm->epoch,
                                     .here = here,
                                     .incarnation = incarnation,
                                     .door_of = door_of,
                                     .want = want};
    return shoali_door_start(comm->door, &owner);
}

/* ------------------------------------------------------------------ an epoch begins */

static void say_ready(void *arg)
{
    shoal_comm *comm = arg;
    const shoali_reform message = {.what = SHOALI_REFORM_READY};
    uint8_t body[SHOALI_REFORM_MESSAGE_BYTES];
    shoali_control(comm, 0, SHOALI_MESSAGE_reform, body, shoali_reform_encode(&message, body));
}

static void say_go(void *arg)
{
    say(arg, SHOALI_REFORM_GO);
}

/* The leader needs all, the others need the leader. comm->size: nobody is missing. */
static uint32_t missing(const shoal_comm *comm)
{
    const uint32_t needed = comm->me == 0 ? comm->size : 1;
    for (uint32_t i = 0; i < needed; i++)
        if (i != comm->me && atomic_load(&comm->peers[i].state) != SHOALI_PEER_HERE)
            return i;
    return comm->size;
}

static shoal_status cannot_begin(const shoal_comm *comm, uint32_t rank)
{
    if (rank == comm->size)
        return shoali_fail(SHOAL_ETIMEDOUT, "epoch %llu did not begin within %.3g s",
                           (unsigned long long)comm->epoch, (double)comm->join_timeout_us * 1e-6);
    shoal_status status = shoali_fail(SHOAL_EPEER, "before epoch %llu began: %s",
                                      (unsigned long long)comm->epoch, comm->peers[rank].lost_text);
    shoali_error_about((int32_t)rank, comm->peers[rank].host, "reform", -1);
    return status;
}

shoal_status shoali_reform_begin(shoal_comm *comm)
{
    const uint64_t began_us = shoali_now_us();
    const uint64_t from_us = comm->reform.in.ready_us > began_us ? comm->reform.in.ready_us
                                                                 : began_us;
    bool said = false;
    for (;;) {
        const uint64_t now_us = shoali_now_us();
        const uint32_t rank = missing(comm);
        if (comm->me > 0 && atomic_load(&comm->reform.begun))
            return SHOAL_OK;
        if (rank < comm->size || now_us > from_us + (uint64_t)comm->join_timeout_us)
            return cannot_begin(comm, rank);
        if (comm->me == 0 && now_us >= from_us &&
            atomic_load(&comm->reform.ready) == comm->size - 1) {
            shoali_loop_call(&comm->loop, say_go, comm);
            return SHOAL_OK;
        }
        if (comm->me > 0 && now_us >= from_us && !said) {
            said = true;
            if (comm->reform.in.said_ready != NULL)
                *comm->reform.in.said_ready = true;
            shoali_loop_call(&comm->loop, say_ready, comm);
        }
        (void)poll(NULL, 0, WAIT_MS);
    }
}
