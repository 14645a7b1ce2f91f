/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: who am I (launch.c) -> transports listen -> records are exchanged (meet.c) -> everyone
 * connects to everyone. One deadline covers it all. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "comm/inner.h"
#include "comm/meet_stream.h"
#include "transport/address.h"

enum {
    DEFAULT_JOIN_US = 30 * 1000 * 1000,
    DEFAULT_PEER_US = 2500 * 1000,
    DEFAULT_OP_US = 300 * 1000 * 1000,
    DEFAULT_CHUNK_ELEMS = 65536,
    MAX_CHUNK_ELEMS = 1 << 22, /* of float32: a quarter of the longest frame */
    WIRE_VERSION = 1,
    SPIN_US = 20
};

const char *shoali_getenv(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

/* Builds with other kinds of codecs or collectives would misunderstand each other. */
static uint64_t features(void)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < shoali_codec_count(); i++)
        hash = shoali_hash(shoali_codec_row_at(i)->name, strlen(shoali_codec_row_at(i)->name) + 1,
                           hash);
    for (size_t i = 0; i < shoali_collective_count(); i++)
        hash = shoali_hash(shoali_collective_row_at(i)->name,
                           strlen(shoali_collective_row_at(i)->name) + 1, hash);
    return hash;
}

static const char *aggregator_list(const shoal_comm_desc *desc)
{
    const char *list = desc->aggregators != NULL ? desc->aggregators : getenv("SHOAL_AGGREGATORS");
    return list != NULL ? list : "";
}

/* Ranks first, then aggregators. */
static shoal_status take_place(shoal_comm *comm, const shoal_comm_desc *desc)
{
    const shoali_service *service = comm->service;
    comm->ranks = comm->launch.world_size;
    if (service != NULL) {
        char name[sizeof comm->host];
        snprintf(name, sizeof name, "%.38s, aggregator %u", comm->host, service->invite.index);
        memcpy(comm->host, name, sizeof name); /* so every error about it says what it is */
        comm->token = *service->token;
        comm->aggregators = service->invite.aggregators;
        comm->me = comm->ranks + service->invite.index;
    } else {
        SHOALI_TRY(shoali_token_find(desc, shoali_getenv, NULL, &comm->token));
        SHOALI_TRY(shoali_invite_count(aggregator_list(desc), &comm->aggregators));
        comm->me = comm->launch.rank;
    }
    if (comm->aggregators > SHOALI_MAX_ENDPOINTS - comm->ranks)
        return shoali_fail(SHOAL_EINVAL, "%u ranks and %u aggregators: more than %d endpoints",
                           comm->ranks, comm->aggregators, SHOALI_MAX_ENDPOINTS);
    comm->size = comm->ranks + comm->aggregators;
    return SHOAL_OK;
}

static shoal_status take_settings(shoal_comm *comm, const shoal_comm_desc *desc)
{
    const char *job = desc->job != NULL ? desc->job : getenv("SHOAL_JOB");
    if (job == NULL || job[0] == '\0')
        job = "shoal";
    if (strlen(job) >= sizeof comm->job)
        return shoali_fail(SHOAL_EINVAL, "the job's name '%.20s...' is longer than %zu bytes", job,
                           sizeof comm->job - 1);
    snprintf(comm->job, sizeof comm->job, "%s", job);
    comm->join_timeout_us = desc->join_timeout_us > 0 ? desc->join_timeout_us : DEFAULT_JOIN_US;
    comm->peer_timeout_us = desc->peer_timeout_us > 0 ? desc->peer_timeout_us : DEFAULT_PEER_US;
    comm->op_timeout_us = desc->op_timeout_us > 0 ? desc->op_timeout_us : DEFAULT_OP_US;
    comm->chunk_elems = desc->chunk_elems != 0 ? desc->chunk_elems : DEFAULT_CHUNK_ELEMS;
    comm->seed = desc->seed != 0 ? desc->seed : 1;
    if (comm->chunk_elems > MAX_CHUNK_ELEMS)
        return shoali_fail(SHOAL_EINVAL, "chunk_elems %u, at most %d", comm->chunk_elems,
                           MAX_CHUNK_ELEMS);
    if (gethostname(comm->host, sizeof comm->host - 1) != 0)
        snprintf(comm->host, sizeof comm->host, "?");
    SHOALI_TRY(shoali_launch_find(desc, shoali_getenv, NULL, &comm->launch));
    comm->workers = comm->launch.workers;
    return take_place(comm, desc);
}

static shoal_status alloc_tables(shoal_comm *comm)
{
    comm->peers = shoali_alloc_array(comm->size, sizeof *comm->peers);
    comm->finished = shoali_alloc_array(SHOALI_FINISHED_KEPT, sizeof *comm->finished);
    comm->scratch = shoali_scratch_create();
    if (comm->peers == NULL || comm->finished == NULL || comm->scratch == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < comm->size; i++)
        comm->peers[i].waiting_first = comm->peers[i].waiting_last = SHOALI_NONE;
    return SHOAL_OK;
}

static shoal_status fill_record(const shoal_comm *comm, shoali_record *record_out)
{
    *record_out = (shoali_record){.wire_version = WIRE_VERSION,
                                  .rank = comm->me,
                                  .world_size = comm->size,
                                  .workers = comm->workers,
                                  .chunk_elems = comm->chunk_elems,
                                  .features = features(),
                                  .seed = comm->seed};
    snprintf(record_out->software, sizeof record_out->software, "%s", shoal_version());
    snprintf(record_out->job, sizeof record_out->job, "%s", comm->job);
    snprintf(record_out->host, sizeof record_out->host, "%s", comm->host);
    return shoali_meet_random(&record_out->incarnation, sizeof record_out->incarnation);
}

/* Spinning for a moment saves a wake-up, and costs others their turn unless there are cores to
 * spare. Ranks in network namespaces of one machine have addresses of their own, but its name. */
static uint32_t spin_for(const shoal_comm *comm, const shoali_record *records)
{
    cpu_set_t cores;
    uint32_t here = 0;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 0;
    for (uint32_t i = 0; i < comm->size; i++)
        here += strcmp(records[i].host, records[comm->me].host) == 0;
    return (uint32_t)CPU_COUNT(&cores) > here ? SPIN_US : 0;
}

static shoal_status not_connected(const shoal_comm *comm)
{
    char who[160];
    bool *in = shoali_alloc_array(comm->size, sizeof *in);
    if (in == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < comm->size; i++)
        in[i] = i == comm->me || comm->peers[i].up;
    shoali_meet_missing(in, comm->size, who, sizeof who);
    shoali_free(in);
    shoal_status status = shoali_fail(SHOAL_ETIMEDOUT,
                                      "%s of %u did not connect to rank %u within %.3g s", who,
                                      comm->size, comm->me, (double)comm->join_timeout_us * 1e-6);
    shoali_error_about(-1, NULL, "join", comm->join_timeout_us);
    shoali_error_advice(
        "They met, so they run: is there a firewall between the hosts, or a wrong --interface?");
    return status;
}

/* PENDING: some are not connected yet. */
static shoal_status connected(const shoal_comm *comm)
{
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < comm->size; i++) {
        const shoali_peer *peer = &comm->peers[i];
        if (i == comm->me)
            continue;
        if (atomic_load(&peer->state) != SHOALI_PEER_HERE) {
            status = shoali_fail(peer->lost_status != SHOAL_OK ? peer->lost_status : SHOAL_EPEER,
                                 "during the join: %s", peer->lost_text);
            shoali_error_about((int32_t)i, peer->host, "join", -1);
            return status;
        }
        if (!peer->up || (peer->near && !peer->near_up))
            status = SHOAL_PENDING;
    }
    return status;
}

static shoal_status connect_all(shoal_comm *comm, const shoali_record *records,
                                uint64_t deadline_us)
{
    for (uint32_t i = 0; i < comm->size; i++) {
        snprintf(comm->peers[i].host, sizeof comm->peers[i].host, "%s", records[i].host);
        comm->peers[i].heard_us = shoali_now_us();
        if (i != comm->me)
            SHOALI_TRY(shoali_links_add(comm, i, records[i].address, records[i].near_address));
    }
    shoal_status status;
    while ((status = connected(comm)) == SHOAL_PENDING) {
        if (comm->service != NULL)
            SHOALI_TRY(shoali_meet_cancelled(comm->service->cancel));
        if (comm->now_us >= deadline_us)
            return not_connected(comm);
        shoali_progress_once(comm, deadline_us);
    }
    for (uint32_t i = 0; i < comm->size; i++)
        if (comm->peers[i].near)
            comm->peers[i].data = &comm->near;
    return status;
}

static shoal_status invite_aggregators(const shoal_comm *comm, const shoal_comm_desc *desc,
                                       const shoali_meeting *meeting)
{
    shoali_invite invite = {.ranks = comm->ranks,
                            .workers = comm->workers,
                            .aggregators = comm->aggregators,
                            .chunk_elems = comm->chunk_elems,
                            .seed = comm->seed,
                            .join_timeout_us = (uint64_t)comm->join_timeout_us,
                            .peer_timeout_us = (uint64_t)comm->peer_timeout_us};
    if (desc->transport != NULL && strlen(desc->transport) >= sizeof invite.transport)
        return shoali_fail(SHOAL_EINVAL, "the transport '%.40s...' is too long for an aggregator",
                           desc->transport);
    snprintf(invite.transport, sizeof invite.transport, "%s",
             desc->transport != NULL ? desc->transport : "");
    return shoali_invite_all(aggregator_list(desc), meeting, &invite);
}

static shoal_status meet_and_connect(shoal_comm *comm, const shoal_comm_desc *desc,
                                     shoali_record *records, uint64_t started_us)
{
    shoali_record mine;
    SHOALI_TRY(fill_record(comm, &mine));
    SHOALI_TRY(shoali_links_open(comm, desc, mine.incarnation));
    comm->control.row->address(comm->control.state, mine.address);
    if (comm->near.open)
        comm->near.row->address(comm->near.state, mine.near_address);
    shoali_meeting meeting = {.place = comm->launch.rendezvous,
                              .job = comm->job,
                              .token = &comm->token,
                              .mine = &mine,
                              .ranks = comm->ranks,
                              .started_us = started_us,
                              .deadline_us = started_us + (uint64_t)comm->join_timeout_us,
                              .cancel = comm->service != NULL ? comm->service->cancel : NULL};
    shoal_error refusal;
    if (comm->me == 0 && comm->aggregators > 0 &&
        invite_aggregators(comm, desc, &meeting) != SHOAL_OK) {
        shoali_error_get(&refusal);
        meeting.refusal = &refusal; /* the other ranks shall hear it, too */
    }
    SHOALI_TRY(shoali_meet(&meeting, records));
    SHOALI_TRY(shoali_watch_open(comm));
    SHOALI_TRY(connect_all(comm, records, meeting.deadline_us));
    comm->spin_us = spin_for(comm, records);
    if (comm->me == 0 && strncmp(meeting.place, "file://", 7) == 0)
        unlink(meeting.place + 7); /* everyone is connected, so everyone has read it */
    return SHOAL_OK;
}

shoal_status shoali_join(shoal_comm *comm, const shoal_comm_desc *desc)
{
    SHOALI_TRY(take_settings(comm, desc));
    SHOALI_TRY(alloc_tables(comm));
    shoali_log_set_rank((int32_t)comm->me, (int32_t)comm->size);
    shoali_log(INFO, "rank %u of %u: %s", comm->me, comm->size, comm->launch.why);
    uint64_t started_us = comm->now_us = shoali_now_us();
    snprintf(comm->peers[comm->me].host, sizeof comm->peers[comm->me].host, "%s", comm->host);
    if (comm->size == 1)
        return SHOAL_OK;
    shoali_record *records = shoali_alloc_array(comm->size, sizeof *records);
    if (records == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = meet_and_connect(comm, desc, records, started_us);
    shoali_free(records);
    return status;
}
