/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator tells those who watch it (src/watch). */
#include "alive/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alive/alive.h"
#include "base/clock.h"
#include "member/beats.h"

enum { UNRESPONSIVE_PARTS = 5 /* of the peer timeout: two of them */ };

static bool here(void *ctx, uint32_t rank)
{
    const shoal_comm *comm = ctx;
    return comm->peers[rank].up &&
           atomic_load_explicit(&comm->peers[rank].state, memory_order_relaxed) == SHOALI_PEER_HERE;
}

static void carried(void *ctx, uint32_t rank, shoal_peer_stats *stats)
{
    const shoal_comm *comm = ctx;
    comm->links.control.row->peer_stats(comm->links.control.state, rank, stats);
}

/* What the job has decided; which links are not used any more. */
static size_t notes(void *ctx, char out[SHOALI_WATCH_NOTES_BYTES])
{
    shoal_comm *comm = ctx;
    size_t used = strlen(comm->reform.past_links);
    memcpy(out, comm->reform.past_links, used);
    pthread_mutex_lock(&comm->stepped.lock);
    if (comm->stepped.note[0] != '\0' &&
        used + sizeof comm->stepped.note < SHOALI_WATCH_NOTES_BYTES)
        used += (size_t)snprintf(out + used, SHOALI_WATCH_NOTES_BYTES - used, "%s\n",
                                 comm->stepped.note);
    pthread_mutex_unlock(&comm->stepped.lock);
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const shoali_peer *peer = &comm->peers[i];
        char line[SHOALI_LOST_TEXT_BYTES + 40];
        if (peer->link_us == 0)
            continue;
        int length = snprintf(line, sizeof line, "%s, for %.0f s\n", peer->link_text,
                              (double)shoali_since(comm, peer->link_us) * 1e-6);
        if (length <= 0 || used + (size_t)length >= SHOALI_WATCH_NOTES_BYTES)
            break;
        memcpy(out + used, line, (size_t)length);
        used += (size_t)length;
    }
    return used;
}

static uint32_t state_of(const shoal_comm *comm, uint32_t rank, uint64_t silent_us)
{
    const shoali_peer *peer = &comm->peers[rank];
    uint32_t state = atomic_load_explicit(&peer->state, memory_order_relaxed);
    if (state == SHOALI_PEER_LOST)
        return SHOALI_RANK_DEAD;
    if (state == SHOALI_PEER_LEFT)
        return SHOALI_RANK_LEFT;
    if (!peer->up)
        return SHOALI_RANK_MISSING;
    const uint64_t timeout_us = (uint64_t)comm->peer_timeout_us;
    const uint64_t seldom_us = shoali_beats_watches(comm->me, rank, comm->size) ? 0
                               : peer->asked_us > 0 /* it would have answered by now */
                                   ? silent_us - shoali_since(comm, peer->asked_us)
                                   : shoali_beats_turn_us(comm->size, false, timeout_us);
    return silent_us >= seldom_us + 2 * timeout_us / UNRESPONSIVE_PARTS ? SHOALI_RANK_UNRESPONSIVE
                                                                        : SHOALI_RANK_RUNNING;
}

static void row(void *ctx, uint32_t rank, shoali_status_row *out)
{
    const shoal_comm *comm = ctx;
    const shoali_peer *peer = &comm->peers[rank];
    const shoal_op *open = comm->ops.open;
    snprintf(out->host, sizeof out->host, "%s", peer->host);
    if (rank == comm->me) {
        out->state = SHOALI_RANK_RUNNING;
        out->busy = open != NULL;
        out->for_us = shoali_since(comm, open != NULL ? open->started_us : comm->ops.last_us);
        snprintf(out->text, sizeof out->text, "%s",
                 open != NULL ? open->name : comm->ops.last_name);
        return;
    }
    out->last_seen_us = shoali_since(comm, peer->heard_us);
    out->state = state_of(comm, rank, out->last_seen_us);
    out->busy = peer->doing.busy;
    out->for_us = peer->doing.for_us + shoali_since(comm, peer->doing_us);
    snprintf(out->text, sizeof out->text, "%s", peer->doing.text);
}

shoal_status shoali_status_open(shoal_comm *comm, uint32_t number)
{
    comm->loop.now_us = comm->ops.last_us = shoali_now_us();
    const shoali_watch_desc desc = {
        .me = comm->me,
        .ranks = comm->ranks,
        .size = comm->size,
        .number = number,
        .job = comm->job,
        .rendezvous = comm->launch.rendezvous,
        .epoll_fd = comm->loop.epoll_fd,
        .now_us = &comm->loop.now_us,
        .host = {.ctx = comm, .here = here, .carried = carried, .row = row, .notes = notes}};
    return shoali_watch_open(&desc, &comm->watch);
}

void shoali_status_fares(shoal_comm *comm, shoali_heartbeat *beat)
{
    beat->fares[SHOALI_FARE_PAUSED_US] = atomic_load(&comm->view.paused_us);
    beat->fares[SHOALI_FARE_PAUSES] = comm->view.pauses;
    pthread_mutex_lock(&comm->stepped.lock);
    beat->fares[SHOALI_FARE_DATA_US] = (uint64_t)comm->stepped.data_us;
    beat->fares[SHOALI_FARE_DISK_US] = (uint64_t)comm->stepped.disk_us;
    beat->fares[SHOALI_FARE_SAMPLES] = comm->stepped.samples;
    beat->progress = comm->stepped.progress;
    pthread_mutex_unlock(&comm->stepped.lock);
}

void shoali_comm_note(shoal_comm *comm, const char *line)
{
    pthread_mutex_lock(&comm->stepped.lock);
    snprintf(comm->stepped.note, sizeof comm->stepped.note, "%s", line);
    pthread_mutex_unlock(&comm->stepped.lock);
}

void shoali_comm_stepped(shoal_comm *comm, const shoali_stepped *step)
{
    pthread_mutex_lock(&comm->stepped.lock);
    const float loss = comm->stepped.progress.loss;
    comm->stepped.data_us += step->data_us;
    comm->stepped.disk_us += step->disk_us;
    comm->stepped.samples += step->samples;
    comm->stepped.progress = step->progress;
    if (isnan(step->progress.loss))
        comm->stepped.progress.loss = loss;
    pthread_mutex_unlock(&comm->stepped.lock);
}

typedef struct telling {
    shoal_comm *comm;
    const shoali_kept *ring;
} telling;

static void set_ring(void *arg)
{
    const telling *t = arg;
    if (t->comm->watch != NULL)
        t->comm->watch->ring = t->ring;
}

void shoali_comm_tell_events(shoal_comm *comm, const shoali_kept *ring)
{
    telling t = {comm, ring};
    shoali_loop_call(&comm->loop, set_ring, &t);
}

uint64_t shoali_comm_paused_us(const shoal_comm *comm)
{
    return atomic_load(&comm->view.paused_us);
}

bool shoali_comm_slowest(const shoal_comm *comm, uint32_t *rank_out, const char **cause_out)
{
    return shoali_watch_slowest(comm->watch, rank_out, cause_out);
}
