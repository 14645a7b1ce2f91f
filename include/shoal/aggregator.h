/* SPDX-License-Identifier: Apache-2.0 */
/* An aggregator: a process that sums for the jobs of others. Collectives with the key `dedicated`
 * (omnireduce) send their contributions to the job's aggregators and get the sums back.
 *
 * A daemon listens at one address and serves several jobs at once. Rank 0 of a job, told of it by
 * SHOAL_AGGREGATORS or shoal_comm_desc.aggregators, invites it before the ranks meet; both prove to
 * each other that they hold the same token. The daemon then joins the job as an endpoint behind the
 * ranks, with connections, heartbeats and errors like every other endpoint, and enters operations
 * when their contributors ask for it. It leaves when the last rank has gone. So a dead aggregator
 * ends the operations of every rank with an error that names it, and a dead rank those of the
 * aggregator.
 *
 * A job that never comes holds one of the daemon's places until its join timeout; invitations with
 * a join or peer timeout above 600 s are refused.
 *
 * Each job has an epoch of its own, which tells apart two jobs of one name, connections of its own,
 * and a limit on the memory that its operations may take together; an operation beyond it fails
 * with ENOMEM on all its members.
 *
 * Where the daemon's machine is the switch between the workers, or a router, `ports` names the
 * interfaces behind which they are: integers of `switchml` are then summed by a program in the
 * kernel where their packets enter, and the daemon only begins and ends operations
 * (docs/in-network.md). The program leaves the kernel with the process, however that ends.
 *
 * Threads: every function may be called from any thread, destroy only once. */
#ifndef SHOAL_AGGREGATOR_H
#define SHOAL_AGGREGATOR_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_aggregator shoal_aggregator;

/** Zero / NULL fields mean the default in brackets; start from SHOAL_AGGREGATOR_DESC_INIT. */
typedef struct shoal_aggregator_desc {
    size_t size;
    const char *listen;          /* ["127.0.0.1:29600"] host:port; port 0: a free one */
    const char *token;           /* [SHOAL_TOKEN_FILE, SHOAL_TOKEN_FD] required off loopback */
    const char *interface;       /* [chosen by the way to the job] for the jobs' connections */
    uint64_t memory_limit_bytes; /* [1 GiB] of each job */
    uint32_t jobs_max;           /* [64] at once; more are refused */
    const char *ports;           /* [none] "sw0,sw1": sum in the kernel, at these interfaces */
    const char *kernel;          /* ["auto"] where it cannot: one warning, and user space; "on": an
                                    error; "off": do not try */
} shoal_aggregator_desc;
#define SHOAL_AGGREGATOR_DESC_INIT                                        \
    {                                                                     \
        sizeof(shoal_aggregator_desc), NULL, NULL, NULL, 0, 0, NULL, NULL \
    }

/**
 * Listen, and serve whoever holds the token until destroyed.
 * @param aggregator_out owned by the caller.
 * @return SHOAL_OK | EINVAL (address, ports) | EAUTH (an address off loopback without a token) |
 *     ENOMEM | ESYSTEM (the port is taken) | ENOTSUP (kernel "on", and it cannot be)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_aggregator_create(const shoal_aggregator_desc *desc,
                                                              shoal_aggregator **aggregator_out);

/** Leave all jobs, whose open operations end ECANCELLED with the aggregator's name, and free
 * everything. NULL is allowed. */
SHOAL_API void shoal_aggregator_destroy(shoal_aggregator *aggregator);

/** The port at which it listens. */
SHOAL_API uint16_t shoal_aggregator_port(const shoal_aggregator *aggregator);

/** Wait until `jobs` jobs have ended since its creation.
 *  @return SHOAL_OK | PENDING: timeout_us passed (-1: never) */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_aggregator_wait(shoal_aggregator *aggregator,
                                                            uint64_t jobs, int64_t timeout_us);

/** A job that is being served. */
typedef struct shoal_aggregator_job {
    size_t size;
    char name[64];
    uint64_t epoch; /* counts the jobs of this daemon, from 1 */
    uint32_t ranks, ranks_gone;
    uint64_t open_operations, operations, failures; /* operations: that ended well */
    uint64_t received_bytes, sent_bytes;            /* payload of operations that have ended */
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes;
    uint64_t kernel_operations; /* of all that began: those given to the kernel */
    uint64_t age_us;
} shoal_aggregator_job;

/** What the daemon has done; jobs that have ended count in the sums. */
typedef struct shoal_aggregator_stats {
    size_t size;
    uint64_t jobs_open, jobs_ended, jobs_refused; /* refused: strangers, and jobs beyond jobs_max */
    uint64_t operations, failures, received_bytes, sent_bytes;
    uint64_t kernel_operations; /* of all that began: those given to the kernel */
    uint32_t in_kernel;         /* 1: the program is there */
} shoal_aggregator_stats;

/**
 * What it does now.
 * @param jobs_out room for `capacity` jobs; may be NULL with capacity 0.
 * @return how many jobs there are, even if more than capacity.
 */
SHOAL_API uint32_t shoal_aggregator_report(shoal_aggregator *aggregator,
                                           shoal_aggregator_stats *stats_out,
                                           shoal_aggregator_job *jobs_out, uint32_t capacity);

#ifdef __cplusplus
}
#endif
#endif
