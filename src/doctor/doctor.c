/* SPDX-License-Identifier: Apache-2.0 */
/* The examination, step by step; each step ends in an exchange, so that all ranks are in the same
 * one: meet -> facts -> who reaches whom -> a core at a time -> pairs, in rounds in which each rank
 * has one peer -> the verdict, at rank 0. */
#include "doctor/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "wire/bytes.h"

enum { MEET_US = 20000000, STEP_US = 30000000, ROUND_US = 60000000, CORE_BYTES = 16 };

typedef struct visit {
    shoal_doctor *doctor;
    shoali_talk *talk;
    shoali_pairs *pairs;
    shoali_token token;
    const char *another; /* place to meet: how the user names one */
    char job[64];
    shoali_record record;
    shoali_meeting meeting;
} visit;

/* ---------------------------------------------------------------- who am I */

static shoal_status make(const shoal_comm_desc *desc, visit *v, shoal_comm_desc *full_out)
{
    shoali_launch launch;
    const char *job = desc->job != NULL ? desc->job : getenv("SHOAL_JOB");
    SHOALI_TRY(shoali_launch_find(desc, shoali_getenv, NULL, &launch));
    v->another = launch.another;
    SHOALI_TRY(shoali_token_find(desc, shoali_getenv, NULL, &v->token));
    if (launch.world_size > SHOALI_DOCTOR_MAX_RANKS)
        return shoali_fail(SHOAL_EINVAL, "%u ranks; at most %d are examined together",
                           launch.world_size, SHOALI_DOCTOR_MAX_RANKS);
    if (launch.world_size > 1 && strncmp(launch.rendezvous, "tcp://", 6) != 0)
        return shoali_fail(SHOAL_EINVAL, "ranks of an examination meet at tcp://host:port, not %s",
                           launch.rendezvous);
    shoal_doctor *d = v->doctor;
    d->rank = launch.rank;
    d->ranks = launch.world_size;
    snprintf(d->place, sizeof d->place, "%s", launch.rendezvous);
    snprintf(v->job, sizeof v->job, "doctor:%.50s", job != NULL && job[0] != '\0' ? job : "shoal");
    size_t square = (size_t)d->ranks * d->ranks;
    d->facts = shoali_alloc_array(d->ranks, sizeof *d->facts);
    d->host = shoali_alloc_array(d->ranks, sizeof *d->host);
    d->speed = shoali_alloc_array(d->ranks, sizeof *d->speed);
    d->pair = shoali_alloc_array(square, sizeof *d->pair);
    d->way = shoali_alloc_array(square, sizeof *d->way);
    if (d->facts == NULL || d->host == NULL || d->speed == NULL || d->pair == NULL ||
        d->way == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < d->ranks; i++)
        d->host[i].clock_s = i == 0 ? 0 : (double)NAN;
    *full_out = *desc;
    full_out->rank = (int32_t)d->rank;
    v->record = (shoali_record){.rank = d->rank, .world_size = d->ranks};
    return shoali_random(&v->record.incarnation, sizeof v->record.incarnation);
}

static void keep_facts(shoal_doctor *d, uint32_t rank, const shoali_facts *facts)
{
    shoal_doctor_host *h = &d->host[rank];
    d->facts[rank] = *facts;
    h->here = true;
    snprintf(h->host, sizeof h->host, "%s", facts->host);
    snprintf(h->interface, sizeof h->interface, "%s", facts->interface);
    snprintf(h->address, sizeof h->address, "%s", facts->ip);
    h->mtu = facts->mtu;
    h->port_mbit = facts->port_mbit;
    h->cores = facts->cores;
    h->kernel_tls = facts->kernel_tls;
    h->send_buffer_bytes = facts->send_buffer_bytes;
    h->receive_buffer_bytes = facts->receive_buffer_bytes;
}

/* ---------------------------------------------------------------- the steps */

/* Why this rank did not get through to rank 0, in the words of who meets. */
static shoal_status not_met(visit *v, shoal_status status)
{
    shoal_doctor *d = v->doctor;
    const char *name = d->facts[d->rank].loopback_name;
    char why[200];
    snprintf(why, sizeof why, "%.190s", shoal_last_error()->text);
    if (status == SHOAL_ENOMEM || status == SHOAL_ESYSTEM || status == SHOAL_EINTERNAL)
        return status;
    if (name[0] != '\0')
        return shoali_findings_add(
            d, "name", d->rank, -1,
            "Correct /etc/hosts (Debian's 127.0.1.1 line), or use rank 0's address in the place of "
            "its name.",
            "the host of %.100s resolves to loopback (%s) on rank %u, which is not rank 0's",
            d->place, name, d->rank);
    if (status == SHOAL_EINVAL)
        return shoali_findings_add(d, "name", d->rank, -1,
                                   "Use a name that every host can resolve, or an address.", "%s",
                                   why);
    if (status == SHOAL_EAUTH || status == SHOAL_EVERSION)
        return shoali_findings_add(d, "token", d->rank, 0,
                                   "Give every rank the same SHOAL_TOKEN_FILE and version of "
                                   "Shoal.",
                                   "%s", why);
    return shoali_findings_add(
        d, "port", d->rank, 0,
        "Is rank 0 running, is this its address and port, and does its firewall let it through?",
        "rank %u does not reach rank 0 at %.100s: %s", d->rank, d->place, why);
}

static shoal_status exchange_facts(visit *v, shoali_facts *mine)
{
    shoal_doctor *d = v->doctor;
    uint8_t body[SHOALI_DOCTOR_FACTS_BYTES];
    SHOALI_TRY(shoali_random(&mine->nonce, sizeof mine->nonce));
    SHOALI_TRY(shoali_talk_exchange(v->talk, body, shoali_facts_encode(mine, body),
                                    v->meeting.deadline_us - v->meeting.started_us));
    for (uint32_t i = 0; i < d->ranks; i++) {
        shoali_facts facts;
        size_t length;
        const uint8_t *word = shoali_talk_word(v->talk, i, &length);
        if (shoali_facts_decode(word, length, &facts))
            keep_facts(d, i, &facts);
    }
    return SHOAL_OK;
}

static shoal_status exchange_ways(visit *v)
{
    shoal_doctor *d = v->doctor;
    uint8_t way[SHOALI_DOCTOR_MAX_RANKS];
    SHOALI_TRY(shoali_pairs_connect(v->pairs, d, way));
    SHOALI_TRY(shoali_talk_exchange(v->talk, way, d->ranks, STEP_US));
    for (uint32_t i = 0; i < d->ranks; i++) {
        size_t length;
        const uint8_t *word = shoali_talk_word(v->talk, i, &length);
        if (length != d->ranks)
            continue;
        memcpy(d->way + (size_t)i * d->ranks, word, length);
        for (uint32_t j = 0; j < d->ranks; j++)
            d->pair[(size_t)i * d->ranks + j].reached = word[j] == SHOALI_WAY_OPEN;
    }
    return SHOAL_OK;
}

/* Which turn a rank has among those of its host; how many turns there are. */
static uint32_t turn_of(const shoal_doctor *d, uint32_t rank)
{
    uint32_t turn = 0;
    for (uint32_t i = 0; i < rank; i++)
        turn += d->host[i].here && strcmp(d->facts[i].host, d->facts[rank].host) == 0;
    return turn;
}

static void keep_core(shoal_doctor *d, uint32_t rank, const uint8_t *word)
{
    d->host[rank].cpu_share = fmin(1, (double)shoali_get_u64(word) * 1e-6);
    d->speed[rank] = (double)shoali_get_u64(word + 8);
}

/* One core at a time on each host: the others of the host sleep meanwhile. */
static shoal_status exchange_cores(visit *v)
{
    shoal_doctor *d = v->doctor;
    uint32_t turns = 0;
    for (uint32_t i = 0; i < d->ranks; i++)
        turns = d->host[i].here && turn_of(d, i) + 1 > turns ? turn_of(d, i) + 1 : turns;
    for (uint32_t turn = 0; turn < turns; turn++) {
        uint8_t word[CORE_BYTES] = {0};
        if (turn_of(d, d->rank) == turn) {
            double share, speed;
            shoali_facts_core(&share, &speed);
            shoali_put_u64(word, (uint64_t)(share * 1e6));
            shoali_put_u64(word + 8, (uint64_t)speed);
        }
        SHOALI_TRY(shoali_talk_exchange(v->talk, word, sizeof word, STEP_US));
        for (uint32_t i = 0; i < d->ranks; i++) {
            size_t length;
            const uint8_t *said = shoali_talk_word(v->talk, i, &length);
            if (length == CORE_BYTES && d->host[i].here && turn_of(d, i) == turn)
                keep_core(d, i, said);
        }
    }
    return SHOAL_OK;
}

/* The circle method: in `even - 1` rounds everyone meets everyone. */
static uint32_t partner(uint32_t rank, uint32_t round, uint32_t even)
{
    uint32_t cycle = even - 1;
    if (rank == cycle)
        return (uint32_t)((uint64_t)round * (even / 2) % cycle);
    uint32_t other = (round + cycle - rank) % cycle;
    return other == rank ? cycle : other;
}

static void keep_pair(shoal_doctor *d, uint32_t rank, const uint8_t *bytes, size_t length)
{
    shoali_pair_word word;
    if (!shoali_pair_word_decode(bytes, length, &word) || word.peer >= d->ranks ||
        word.peer == rank)
        return;
    shoal_doctor_pair *in = &d->pair[(size_t)word.peer * d->ranks + rank];
    shoal_doctor_pair *out = &d->pair[(size_t)rank * d->ranks + word.peer];
    in->bytes_per_s = (double)word.in_bytes_s;
    if (word.rtt_ns != 0)
        in->rtt_s = out->rtt_s = (double)word.rtt_ns * 1e-9;
    if (word.hole) /* 1: none of any size; 0 means that there is no hole */
        in->hole_bytes = word.hole_bytes != 0 ? word.hole_bytes : 1;
    if (rank == 0 && word.clock_us != INT64_MIN)
        d->host[word.peer].clock_s = (double)word.clock_us * 1e-6;
}

static bool can_meet(const shoal_doctor *d, uint32_t i, uint32_t j)
{
    return j < d->ranks && d->host[i].here && d->host[j].here &&
           (d->pair[(size_t)i * d->ranks + j].reached || d->pair[(size_t)j * d->ranks + i].reached);
}

static shoal_status exchange_pairs(visit *v)
{
    shoal_doctor *d = v->doctor;
    uint32_t even = d->ranks + d->ranks % 2;
    for (uint32_t round = 0; round + 1 < even; round++) {
        uint32_t peer = partner(d->rank, round, even);
        shoali_pair_word word = {.peer = UINT32_MAX};
        uint8_t body[SHOALI_PAIR_WORD_BYTES];
        if (can_meet(d, d->rank, peer))
            shoali_pairs_measure(v->pairs, d, peer, &word);
        SHOALI_TRY(
            shoali_talk_exchange(v->talk, body, shoali_pair_word_encode(&word, body), ROUND_US));
        for (uint32_t i = 0; i < d->ranks; i++) {
            size_t length;
            const uint8_t *said = shoali_talk_word(v->talk, i, &length);
            keep_pair(d, i, said, length);
        }
    }
    return SHOAL_OK;
}

/* What a lone rank can say of itself. */
static shoal_status alone(visit *v, const shoali_facts *mine)
{
    shoal_doctor *d = v->doctor;
    keep_facts(d, d->rank, mine);
    d->met = true;
    shoali_facts_core(&d->host[d->rank].cpu_share, &d->speed[d->rank]);
    return shoali_findings_make(d);
}

static shoal_status examine(visit *v, const shoal_comm_desc *desc)
{
    shoal_doctor *d = v->doctor;
    shoali_facts mine;
    uint64_t join_us = desc->join_timeout_us > 0 ? (uint64_t)desc->join_timeout_us : MEET_US;
    shoal_status status = shoali_facts_find(desc, d->place, &v->token, &mine);
    d->facts[d->rank] = mine;
    if (status == SHOAL_EINVAL)
        return shoali_findings_add(d, "interface", d->rank, -1, shoal_last_error()->advice,
                                   "rank %u: %.200s", d->rank, shoal_last_error()->text);
    SHOALI_TRY(status);
    if (d->ranks == 1)
        return alone(v, &mine);
    SHOALI_TRY(shoali_pairs_open(&mine, &v->pairs));
    v->meeting = (shoali_meeting){.place = d->place,
                                  .another = v->another,
                                  .job = v->job,
                                  .token = &v->token,
                                  .mine = &v->record,
                                  .started_us = shoali_now_us(),
                                  .deadline_us = shoali_now_us() + join_us};
    status = shoali_talk_open(&v->meeting, d->ranks, &v->talk);
    if (status == SHOAL_OK)
        status = exchange_facts(v, &mine);
    if (status != SHOAL_OK)
        return not_met(v, status);
    d->met = true;
    if (status == SHOAL_OK)
        status = exchange_ways(v);
    if (status == SHOAL_OK)
        status = exchange_cores(v);
    if (status == SHOAL_OK)
        status = exchange_pairs(v);
    if (status != SHOAL_OK && d->rank != 0) {
        d->met = false;
        return not_met(v, status);
    }
    SHOALI_TRY(status);
    return d->rank == 0 ? shoali_findings_make(d) : SHOAL_OK;
}

shoal_status shoal_doctor_run(const shoal_comm_desc *desc, shoal_doctor **doctor_out)
{
    shoal_comm_desc full;
    if (desc == NULL || desc->size < sizeof *desc)
        return shoali_fail(SHOAL_EINVAL, "start from SHOAL_COMM_DESC_INIT");
    visit *v = shoali_alloc(sizeof *v);
    if (v == NULL)
        return SHOAL_ENOMEM;
    v->doctor = shoali_alloc(sizeof *v->doctor);
    shoal_status status = v->doctor != NULL ? make(desc, v, &full) : SHOAL_ENOMEM;
    if (status == SHOAL_OK) {
        shoali_log_set_rank((int32_t)v->doctor->rank, (int32_t)v->doctor->ranks);
        status = examine(v, &full);
    }
    shoali_talk_close(v->talk);
    shoali_pairs_close(v->pairs);
    if (status == SHOAL_OK)
        *doctor_out = v->doctor;
    else
        shoal_doctor_destroy(v->doctor);
    shoali_free(v);
    return status;
}

/* ---------------------------------------------------------------- what was found */

void shoal_doctor_place(const shoal_doctor *doctor, uint32_t *rank_out, uint32_t *ranks_out,
                        bool *met_out)
{
    *rank_out = doctor->rank;
    *ranks_out = doctor->ranks;
    *met_out = doctor->met;
}

uint32_t shoal_doctor_count(const shoal_doctor *doctor)
{
    return doctor->count;
}

shoal_status shoal_doctor_finding(const shoal_doctor *doctor, uint32_t i,
                                  shoal_finding *finding_out)
{
    if (i >= doctor->count)
        return shoali_fail(SHOAL_EINVAL, "finding %u of %u", i, doctor->count);
    *finding_out = doctor->findings[i];
    return SHOAL_OK;
}

shoal_status shoal_doctor_host_of(const shoal_doctor *doctor, uint32_t rank,
                                  shoal_doctor_host *host_out)
{
    if (rank >= doctor->ranks)
        return shoali_fail(SHOAL_EINVAL, "rank %u of %u", rank, doctor->ranks);
    *host_out = doctor->host[rank];
    host_out->size = sizeof *host_out;
    return SHOAL_OK;
}

shoal_status shoal_doctor_pair_of(const shoal_doctor *doctor, uint32_t from, uint32_t to,
                                  shoal_doctor_pair *pair_out)
{
    if (from >= doctor->ranks || to >= doctor->ranks || from == to)
        return shoali_fail(SHOAL_EINVAL, "pair %u, %u of %u ranks", from, to, doctor->ranks);
    *pair_out = doctor->pair[(size_t)from * doctor->ranks + to];
    pair_out->size = sizeof *pair_out;
    return SHOAL_OK;
}

void shoal_doctor_destroy(shoal_doctor *doctor)
{
    if (doctor == NULL)
        return;
    shoali_free(doctor->facts);
    shoali_free(doctor->host);
    shoali_free(doctor->speed);
    shoali_free(doctor->pair);
    shoali_free(doctor->way);
    shoali_free(doctor->findings);
    shoali_free(doctor);
}
