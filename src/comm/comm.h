/* SPDX-License-Identifier: Apache-2.0 */
/* What other rooms (driver/real.c) use of a communicator beyond include/shoal/shoal.h. One progress
 * thread per comm owns sockets, timers, heartbeats, the engine and protocol machines; a work
 * thread, made on demand, runs long jobs. */
#ifndef SHOALI_COMM_COMM_H
#define SHOALI_COMM_COMM_H

#include "alive/alive.h"
#include "calls/calls.h"
#include "shoal/shoal.h"

struct shoali_task;

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

/** The job goes on without lost ranks: whoever launched it should know. */
void shoali_comm_goes_on(void);
/** Tell shoal's launcher that this process keeps its state when it is told to end. */
void shoali_comm_keeps(void);
/** Tell the launcher that a file beside the result is missing. */
void shoali_comm_lacks(void);

/** For drivers of protocols: the job's seed, and the default deadline of its operations. */
uint64_t shoali_comm_seed(const shoal_comm *comm);
int64_t shoali_comm_op_timeout_us(const shoal_comm *comm);
/** The lowest rank on the same host and in its network namespace: a lab's hosts are several, with
 * one name. The same answer on all ranks. */
uint32_t shoali_comm_neighbour(const shoal_comm *comm, uint32_t rank);
/** How many protocols have run on this comm; counted by driver/real.c, on the caller's thread. */
uint64_t *shoali_comm_protocols(shoal_comm *comm);

/** As shoal_comm_create, as the aggregator that the service's invitation names. The service must
 * outlive the communicator. */
struct shoali_service;
SHOAL_MUST_USE shoal_status shoali_comm_create_serving(struct shoali_service *service,
                                                       shoal_comm **comm_out);

#endif
