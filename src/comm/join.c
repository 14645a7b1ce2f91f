/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: who am I (launch.c) -> transports listen -> records are exchanged (meet.c) -> everyone
 * connects to everyone. One deadline covers it all. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alive/status.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "base/rng.h"
#include "calls/host.h"
#include "calls/serve.h"
#include "carry/link.h"
#include "comm/inner.h"
#include "meet/invite.h"
#include "meet/meet.h"
#include "meet/proof.h"
#include "transport/address.h"

enum {
    DEFAULT_PEER_US = 2500 * 1000,
    DEFAULT_OP_US = 300 * 1000 * 1000,
    DEFAULT_CHUNK_ELEMS = 65536,
    MAX_CHUNK_ELEMS = 1 << 22, /* of float32: a quarter of the longest frame */
    SPIN_US = 20,
    ENTER_TIMES = 2 /* of the peer timeout: to meet for an epoch */
};

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

/* An epoch after the first is a job of its own: rank and size as admitted, the leader's door as
 * meeting point, and another name, so that nobody of an earlier epoch gets in. */
static shoal_status take_epoch(shoal_comm *comm, const shoali_admission *in)
{
    char job[sizeof comm->job];
    comm->reform.in = *in;
    comm->door = in->keeper;
    comm->token = in->keeper->token;
    comm->epoch = in->admit.epoch;
    comm->me = in->admit.rank;
    comm->size = comm->ranks = comm->workers = in->admit.size;
    comm->join_timeout_us = ENTER_TIMES * comm->peer_timeout_us;
    if ((size_t)snprintf(job, sizeof job, "%s#%llu", comm->job, (unsigned long long)comm->epoch) >=
        sizeof job)
        return shoali_fail(SHOAL_EINVAL, "the job's name '%s' is too long for one that reforms",
                           comm->job);
    memcpy(comm->job, job, sizeof job);
    snprintf(comm->launch.rendezvous, sizeof comm->launch.rendezvous, "tcp://%s", in->admit.door);
    snprintf(comm->launch.why, sizeof comm->launch.why, "epoch %llu, met at %s",
             (unsigned long long)comm->epoch, in->admit.door);
    return SHOAL_OK;
}

static shoal_status take_settings(shoal_comm *comm, const shoal_comm_desc *desc,
                                  const shoali_admission *in)
{
    const char *job = desc->job != NULL ? desc->job : getenv("SHOAL_JOB");
    if (job == NULL || job[0] == '\0')
        job = SHOALI_JOB_UNNAMED;
    if (strlen(job) >= sizeof comm->job)
        return shoali_fail(SHOAL_EINVAL, "the job's name '%.20s...' is longer than %zu bytes", job,
                           sizeof comm->job - 1);
    snprintf(comm->job, sizeof comm->job, "%s", job);
    comm->join_timeout_us = desc->join_timeout_us > 0 ? desc->join_timeout_us
                                                      : SHOALI_DEFAULT_JOIN_US;
    comm->peer_timeout_us = desc->peer_timeout_us > 0 ? desc->peer_timeout_us : DEFAULT_PEER_US;
    comm->op_timeout_us = desc->op_timeout_us > 0 ? desc->op_timeout_us : DEFAULT_OP_US;
    comm->chunk_elems = desc->chunk_elems != 0 ? desc->chunk_elems : DEFAULT_CHUNK_ELEMS;
    comm->seed = desc->seed != 0 ? desc->seed : 1;
    if (comm->chunk_elems > MAX_CHUNK_ELEMS)
        return shoali_fail(SHOAL_EINVAL, "chunk_elems %u, at most %d", comm->chunk_elems,
                           MAX_CHUNK_ELEMS);
    if (gethostname(comm->host, sizeof comm->host - 1) != 0)
        snprintf(comm->host, sizeof comm->host, "?");
    if (in != NULL)
        return take_epoch(comm, in);
    SHOALI_TRY(shoali_launch_find(desc, shoali_getenv, NULL, &comm->launch));
    comm->workers = comm->launch.workers;
    if (desc->reform && comm->workers < comm->launch.world_size)
        return shoali_fail(SHOAL_EINVAL,
                           "a job with dedicated servers cannot reform: what a server holds is "
                           "lost with it");
    SHOALI_TRY(take_place(comm, desc));
    if (desc->reform && comm->aggregators > 0)
        return shoali_fail(SHOAL_EINVAL, "a job with aggregators cannot reform");
    return SHOAL_OK;
}

static shoal_status alloc_tables(shoal_comm *comm)
{
    comm->peers = shoali_alloc_array(comm->size, sizeof *comm->peers);
    if (comm->peers == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoali_host_init(comm));
    for (uint32_t i = 0; i < comm->size; i++)
        comm->peers[i].waiting_first = comm->peers[i].waiting_last = comm->peers[i]
                                                                         .via = SHOALI_NONE;
    return SHOAL_OK;
}

static shoal_status fill_record(const shoal_comm *comm, shoali_record *record_out)
{
    *record_out = (shoali_record){.wire_version = SHOAL_WIRE_VERSION,
                                  .rank = comm->me,
                                  .world_size = comm->size,
                                  .workers = comm->workers,
                                  .chunk_elems = comm->chunk_elems,
                                  .features = features(),
                                  .seed = comm->seed};
    snprintf(record_out->software, sizeof record_out->software, "%s", shoal_version());
    snprintf(record_out->job, sizeof record_out->job, "%s", comm->job);
    snprintf(record_out->host, sizeof record_out->host, "%s", comm->host);
    return shoali_random(&record_out->incarnation, sizeof record_out->incarnation);
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
        const uint32_t state = atomic_load(&peer->state);
        if (i == comm->me || state == SHOALI_PEER_LEFT) /* what it began in between is whole */
            continue;
        if (state != SHOALI_PEER_HERE) {
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

/* By address where it says enough, else by name. */
static bool together(const shoali_record *a, const shoali_record *b)
{
    shoali_address one, other;
    bool known = shoali_address_parse(a->address, &one) == SHOAL_OK &&
                 shoali_address_parse(b->address, &other) == SHOAL_OK;
    return known && one.boot[0] != '\0' && other.boot[0] != '\0'
               ? shoali_address_same_host(&one, &other)
               : strcmp(a->host, b->host) == 0;
}

static void find_neighbours(shoal_comm *comm, const shoali_record *records)
{
    for (uint32_t i = 0; i < comm->size; i++) {
        uint32_t first = 0;
        while (first < i &&
               !(comm->ops.peers[first].place == first && together(&records[first], &records[i])))
            first++;
        comm->ops.peers[i].place = first;
    }
}

/* Off loopback; where all ranks are on one host there is nothing to pass on. */
static shoal_status open_relay(shoal_comm *comm, shoali_record *mine)
{
    shoali_address address;
    char host[256], port[8] = "0";
    if (comm->token.len_bytes == 0 || comm->service != NULL ||
        shoali_address_parse(mine->address, &address) != SHOAL_OK || address.ip_count == 0 ||
        shoali_ip_is_loopback(&address.ips[0]))
        return SHOAL_OK;
    (void)shoali_meet_parse(comm->launch.rendezvous, host, sizeof host, port, sizeof port);
    const shoali_relay_desc desc = {.me = comm->me,
                                    .size = comm->size,
                                    .incarnation = comm->incarnation,
                                    .job = comm->job,
                                    .token = comm->token.bytes,
                                    .token_bytes = comm->token.len_bytes,
                                    .deadline_us = comm->peer_timeout_us,
                                    .find_port = (uint16_t)strtoul(port, NULL, 10)};
    SHOALI_TRY(shoali_relay_open(&desc, &address, &comm->relay));
    address.relay_port = shoali_relay_port(comm->relay);
    shoali_address_format(&address, mine->address);
    return SHOAL_OK;
}

/* Who may prove that this process has ended. */
static shoal_status add_identity(shoali_record *mine)
{
    shoali_address address;
    if (shoali_address_parse(mine->address, &address) != SHOAL_OK || address.ip_count == 0)
        return SHOAL_OK; /* a transport of tests */
    shoali_proof_self(&address);
    shoali_proof_name(getenv("SHOAL_LAUNCH_ID"), &address);
    shoali_address_format(&address, mine->address);
    return SHOAL_OK;
}

static shoal_status learn_ways(shoal_comm *comm, const shoali_record *records)
{
    shoali_address *all = shoali_alloc_array(comm->size, sizeof *all);
    comm->addresses = all;
    if (all == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < comm->size; i++)
        SHOALI_TRY(shoali_address_parse(records[i].address, &all[i]));
    if (comm->relay != NULL)
        SHOALI_TRY(shoali_relay_learn(comm->relay, all, comm->size));
    for (uint32_t i = 0; i < comm->size; i++)
        if (i != comm->me)
            comm->peers[i].links = shoali_address_choose(&all[comm->me], &all[i]);
    return SHOAL_OK;
}

/* Its own addresses are tried first: who shares no subnet with us may still be behind a router. */
static shoal_status add_peer(shoal_comm *comm, uint32_t peer, const shoali_record *record)
{
    shoali_address address;
    shoali_way way;
    char text[SHOALI_ADDRESS_BYTES];
    if (comm->relay == NULL || !shoali_relay_way(comm->relay, peer, &way))
        return shoali_links_add(comm, peer, record->address, record->near_address);
    SHOALI_TRY(shoali_address_parse(record->address, &address));
    address.via = way.ip;
    address.via_rank = comm->peers[peer].via = way.rank;
    address.pid = 0; /* the dialler's text has no room for what it does not need */
    address.launch[0] = '\0';
    shoali_address_format(&address, text);
    return shoali_links_add(comm, peer, text, record->near_address);
}

static shoal_status connect_all(shoal_comm *comm, const shoali_record *records,
                                uint64_t deadline_us)
{
    for (uint32_t i = 0; i < comm->size; i++) {
        snprintf(comm->peers[i].host, sizeof comm->peers[i].host, "%s", records[i].host);
        comm->peers[i].incarnation = records[i].incarnation;
        comm->peers[i].heard_us = shoali_now_us();
        comm->peers[i].word_us = comm->peers[i].said_us = comm->peers[i].heard_us;
        if (i != comm->me)
            SHOALI_TRY(add_peer(comm, i, &records[i]));
    }
    shoal_status status;
    while ((status = connected(comm)) == SHOAL_PENDING) {
        if (comm->service != NULL)
            SHOALI_TRY(shoali_meet_cancelled(comm->service->cancel));
        if (comm->loop.now_us >= deadline_us)
            return not_connected(comm);
        shoali_loop_once(&comm->loop, deadline_us);
    }
    for (uint32_t i = 0; i < comm->size; i++)
        if (comm->peers[i].near && comm->peers[i].near_up)
            comm->peers[i].data = &comm->links.near;
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

/* ------------------------------------------------------------------ members that may change */

static shoal_status open_door(shoal_comm *comm, const shoal_comm_desc *desc,
                              const shoali_record *mine)
{
    shoali_address address;
    SHOALI_TRY(shoali_address_parse(mine->address, &address));
    if (address.ip_count == 0)
        return shoali_fail(SHOAL_ENOTSUP, "the transport %s has no address for newcomers",
                           comm->links.control.kind->name);
    const shoali_door_first first = {.desc = desc,
                                     .token = &comm->token,
                                     .job = comm->job,
                                     .rendezvous = comm->launch.rendezvous,
                                     .mine = mine,
                                     .at = &address};
    return shoali_door_open(&first, &comm->door);
}

/* OK: this is the start of the job. EEPOCH: it runs, and comm->reform.in is the way in. */
static shoal_status look_for_job(shoal_comm *comm, bool wait, uint64_t deadline_us)
{
    shoali_admission *in = &comm->reform.in;
    shoal_status status = shoali_seek(comm->door, wait, deadline_us, &in->admit);
    if (status == SHOAL_PENDING && !wait)
        return SHOAL_OK;
    if (status == SHOAL_PENDING)
        return shoali_fail(SHOAL_ETIMEDOUT,
                           "the running job did not take this process in within "
                           "%.3g s",
                           (double)comm->join_timeout_us * 1e-6);
    if (status != SHOAL_OK)
        return status;
    in->keeper = comm->door;
    return shoali_fail(SHOAL_EEPOCH, "the job runs already");
}

/* Others than rank 0 of tcp:// find out where they meet. */
static bool looks_first(const shoal_comm *comm, const shoal_comm_desc *desc)
{
    return desc->spare || comm->me == 0 || comm->door->desc.doors != NULL ||
           strncmp(comm->launch.rendezvous, "file://", 7) == 0;
}

static shoal_status meet(shoal_comm *comm, const shoal_comm_desc *desc, shoali_meeting *meeting,
                         shoali_record *records)
{
    if (!desc->reform || comm->epoch > 0)
        return shoali_meet(meeting, records);
    SHOALI_TRY(open_door(comm, desc, meeting->mine));
    if (looks_first(comm, desc))
        SHOALI_TRY(look_for_job(comm, desc->spare, meeting->deadline_us));
    shoal_status status = shoali_meet(meeting, records);
    return status == SHOAL_EEPOCH ? look_for_job(comm, true, meeting->deadline_us) : status;
}

static shoal_status meet_and_connect(shoal_comm *comm, const shoal_comm_desc *desc,
                                     shoali_record *records, uint64_t started_us)
{
    shoali_record mine;
    SHOALI_TRY(fill_record(comm, &mine));
    comm->incarnation = mine.incarnation;
    SHOALI_TRY(shoali_links_open(comm, desc, mine.incarnation, &shoali_link_events));
    comm->links.control.row->address(comm->links.control.state, mine.address);
    if (comm->links.near.open)
        comm->links.near.row->address(comm->links.near.state, mine.near_address);
    SHOALI_TRY(open_relay(comm, &mine));
    SHOALI_TRY(add_identity(&mine));
    shoali_meeting meeting = {.place = comm->launch.rendezvous,
                              .another = comm->launch.another,
                              .job = comm->job,
                              .token = &comm->token,
                              .mine = &mine,
                              .ranks = comm->ranks,
                              .started_us = started_us,
                              .deadline_us = started_us + (uint64_t)comm->join_timeout_us,
                              .relay = comm->relay,
                              .cancel = comm->service != NULL ? comm->service->cancel : NULL,
                              .listener = comm->epoch > 0 ? &comm->door->listener : NULL};
    shoal_error refusal;
    if (comm->me == 0 && comm->aggregators > 0 &&
        invite_aggregators(comm, desc, &meeting) != SHOAL_OK) {
        shoali_error_get(&refusal);
        meeting.refusal = &refusal; /* the other ranks shall hear it, too */
    }
    SHOALI_TRY(meet(comm, desc, &meeting, records));
    SHOALI_TRY(shoali_status_open(comm, (uint32_t)(records[0].incarnation >> 32)));
    find_neighbours(comm, records);
    SHOALI_TRY(learn_ways(comm, records));
    SHOALI_TRY(connect_all(comm, records, meeting.deadline_us));
    comm->loop.spin_us = spin_for(comm, records);
    if (comm->me == 0 && strncmp(meeting.place, "file://", 7) == 0)
        unlink(meeting.place + 7); /* everyone is connected, so everyone has read it */
    return SHOAL_OK;
}

shoal_status shoali_join(shoal_comm *comm, const shoal_comm_desc *desc, const shoali_admission *in)
{
    SHOALI_TRY(take_settings(comm, desc, in));
    const char *ledger = getenv("SHOAL_LAUNCH_PROOF");
    if (ledger != NULL && strlen(ledger) < sizeof comm->launch.ledger)
        strcpy(comm->launch.ledger, ledger);
    SHOALI_TRY(alloc_tables(comm));
    shoali_log_set_rank((int32_t)comm->me, (int32_t)comm->size);
    shoali_log(INFO, "rank %u of %u: %s", comm->me, comm->size, comm->launch.why);
    uint64_t started_us = comm->loop.now_us = shoali_now_us();
    snprintf(comm->peers[comm->me].host, sizeof comm->peers[comm->me].host, "%s", comm->host);
    if (comm->size == 1)
        return shoali_links_check(desc);
    shoali_record *records = shoali_alloc_array(comm->size, sizeof *records);
    if (records == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = meet_and_connect(comm, desc, records, started_us);
    shoali_free(records);
    return status;
}
