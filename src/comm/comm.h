/* SPDX-License-Identifier: Apache-2.0 */
/* What other rooms (driver/real.c) use of a communicator beyond include/shoal/shoal.h. One progress
 * thread per comm owns sockets, timers, heartbeats, the engine and protocol machines; a work
 * thread, made on demand, runs long jobs. */
#ifndef SHOALI_COMM_COMM_H
#define SHOALI_COMM_COMM_H

#include "ops/extras.h"
#include "ops/residual.h"
#include "shoal/shoal.h"
#include "wire/control.h"

struct shoali_task;

/** A protocol machine's ears. All are called on the progress thread; NULL: not interested. */
typedef struct shoali_comm_listener {
    void *ctx;
    void (*on_message)(void *ctx, uint32_t endpoint, const void *bytes, size_t len_bytes);
    void (*on_peer_down)(void *ctx, uint32_t endpoint, shoal_status why, const char *text);
    void (*on_timer)(void *ctx, uint64_t now_us);
    uint64_t (*next_wake_us)(void *ctx); /* UINT64_MAX: never */
    bool goes_on; /* without lost members, as long as a quorum is there: else on_peer_down hears of
                     this endpoint itself, with EEPOCH. Of a loss it hears again once it is proven
                     to be a death */
} shoali_comm_listener;

/** At most one listener per comm. Detach blocks until no call is under way; not from the progress
 * thread. */
SHOAL_MUST_USE shoal_status shoali_comm_attach(shoal_comm *comm,
                                               const shoali_comm_listener *listener);
void shoali_comm_detach(shoal_comm *comm);

/** Run fn(arg) on the progress thread, soon, in order of posting. From any thread. Fails only when
 * the comm is stopping. */
SHOAL_MUST_USE shoal_status shoali_comm_post(shoal_comm *comm, void (*fn)(void *arg), void *arg);

/** A task to post often without an allocation: the caller's, to shoali_free, but from its post
 * until it runs. NULL: no memory. */
struct shoali_task *shoali_comm_task(void (*fn)(void *arg), void *arg);
SHOAL_MUST_USE shoal_status shoali_comm_post_task(shoal_comm *comm, struct shoali_task *task);

/** Run work(arg) on the work thread, then done(arg, status of work) on the progress thread. Jobs
 * run one at a time, in order. */
SHOAL_MUST_USE shoal_status shoali_comm_work(shoal_comm *comm, shoal_status (*work)(void *arg),
                                             void (*done)(void *arg, shoal_status status),
                                             void *arg);

/** A message to another endpoint's listener (reliable, ordered per pair). Progress thread only. */
SHOAL_MUST_USE shoal_status shoali_comm_send(shoal_comm *comm, uint32_t endpoint, const void *bytes,
                                             size_t len_bytes);

/** As shoal_op_start; with extras->on_done, op_out may be NULL. Any thread. */
SHOAL_MUST_USE shoal_status shoali_op_start(shoal_comm *comm, const shoal_op_desc *desc,
                                            const shoali_op_extras *extras, shoal_op **op_out);

/** Start a public operation and wait for its end, beside whoever waits in next_done. */
SHOAL_MUST_USE shoal_status shoali_comm_run(shoal_comm *comm, const shoal_op_desc *desc,
                                            shoal_op_stats *stats_out);

/** The job goes on without lost ranks: whoever launched it should know. */
void shoali_comm_goes_on(void);
/** Tell shoal's launcher that this process keeps its state when it is told to end. */
void shoali_comm_keeps(void);

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
/** As shoal_comm_reform; told, unless NULL, hears of each endpoint of the left epoch that was lost
 * to it by then, on the progress thread. */
SHOAL_MUST_USE shoal_status shoali_comm_reform(
    shoal_comm **comm, uint64_t done, int64_t timeout_us, shoal_view *view_out,
    void (*told)(void *ctx, uint32_t endpoint, const shoali_lost_peer *what), void *ctx);
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

/** Residuals of error feedback, by tensor key, and states of transforms, by a hash of codec and
 * tensor table: for checkpoints. Blocks while operations are open: call between steps. */
size_t shoali_comm_residuals(shoal_comm *comm, shoali_residual *out,
                             size_t capacity); /* returns how many there are */
SHOAL_MUST_USE shoal_status shoali_comm_set_residual(shoal_comm *comm, uint64_t key,
                                                     const float *values, size_t count);
/** On top of `want`, a rank's gradients [tensors]: what error feedback adds before it encodes them
 * in this codec. Delivered + what is owed then = the sum of what all ranks wanted. Nothing where
 * the codec has no feedback. Call between steps. @return SHOAL_OK | EINVAL | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_comm_add_owed(shoal_comm *comm, const char *codec,
                                                 const shoal_tensor *tensors, uint32_t count,
                                                 float *want);
/** Drop them all, states of transforms, too. Blocks while operations are open. */
void shoali_comm_forget_residuals(shoal_comm *comm);

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

/** For drivers of protocols: the job's seed, and the default deadline of its operations. */
uint64_t shoali_comm_seed(const shoal_comm *comm);
int64_t shoali_comm_op_timeout_us(const shoal_comm *comm);
/** The lowest rank on the same host and in its network namespace: a lab's hosts are several, with
 * one name. The same answer on all ranks. */
uint32_t shoali_comm_neighbour(const shoal_comm *comm, uint32_t rank);
/** How many protocols have run on this comm; counted by driver/real.c, on the caller's thread. */
uint64_t *shoali_comm_protocols(shoal_comm *comm);

#endif
