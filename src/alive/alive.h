/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness, as drivers of protocols and the trainer use it: a protocol machine's ears, who is lost,
 * whether the members are to change, and what those are told who watch. */
#ifndef SHOALI_ALIVE_ALIVE_H
#define SHOALI_ALIVE_ALIVE_H

#include "endpoint/listener.h"
#include "shoal/shoal.h"
#include "wire/control.h"

/** At most one listener per comm. Detach blocks until no call is under way; not from the progress
 * thread. */
SHOAL_MUST_USE shoal_status shoali_comm_attach(shoal_comm *comm,
                                               const shoali_comm_listener *listener);
void shoali_comm_detach(shoal_comm *comm);

/** A message to another endpoint's listener (reliable, ordered per pair). Progress thread only. */
SHOAL_MUST_USE shoal_status shoali_comm_send(shoal_comm *comm, uint32_t endpoint, const void *bytes,
                                             size_t len_bytes);

/** The others go on without this rank, unless all reform: its connections end without a goodbye,
 * which would make a loss look like a rank that left. Progress thread only. */
void shoali_comm_expel(shoal_comm *comm);

/** What is known of a lost endpoint. */
typedef struct shoali_lost_peer {
    uint64_t at_us; /* monotonic; 0: it is not lost, or left with a goodbye */
    const char *host, *why;
    bool dead; /* proven, while its last word was fresh (member/life.h) */
} shoali_lost_peer;
/** Whether an endpoint is lost to this one; out is filled either way. Any thread. */
bool shoali_comm_lost_peer(const shoal_comm *comm, uint32_t endpoint, shoali_lost_peer *out);
/** For workers whose replicas differ, in a job that may change its members; else they do nothing.
 * Where one goes over to reform it says so before it leaves the protocol (goes), and where one has
 * made all its steps, before it waits for the others (ends): then newcomers and losses are no
 * reason to reform any more, only members that do are. The caller's thread. */
void shoali_comm_goes(shoal_comm *comm);
void shoali_comm_ends(shoal_comm *comm);
/** A member goes over to reform. Any thread. */
bool shoali_comm_others_go(const shoal_comm *comm);
/** All are asked to reform at their next boundary. The progress thread. */
void shoali_comm_want_reform(shoal_comm *comm);
/** Whether no endpoint below this one is there any more, and those that are there are a quorum:
 * what is written once for all is this rank's to write. Any thread. */
bool shoali_comm_is_lowest(const shoal_comm *comm);

/** Whom all wait for now, and why (a cause of shoal/watch.h); false: nobody. Any thread. */
bool shoali_comm_slowest(const shoal_comm *comm, uint32_t *rank_out, const char **cause_out);

/** Time in which this process did not run though it had to (SIGSTOP, a frozen virtual machine), in
 * pauses of 0.2 s and more, at least. Any thread. */
uint64_t shoali_comm_paused_us(const shoal_comm *comm);

/** A training step is over: what it took on this rank, and how far the training is. Others hear of
 * it by the next heartbeat. */
typedef struct shoali_stepped {
    double data_us, disk_us; /* making its batch, writing its part of a checkpoint since the last */
    uint32_t samples;
    shoali_progress progress; /* loss NaN: this rank has none, and the last one stays */
} shoali_stepped;
void shoali_comm_stepped(shoal_comm *comm, const shoali_stepped *step);

/** A line for those who watch, until the next one: what the job has decided on its way. Any thread.
 */
void shoali_comm_note(shoal_comm *comm, const char *line);

/** From now on the status socket tells what is in this ring; NULL: nothing any more, and whoever is
 * being told has got his copy. */
struct shoali_kept;
void shoali_comm_tell_events(shoal_comm *comm, const struct shoali_kept *ring);

#endif
