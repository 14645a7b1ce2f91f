/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's endpoint that is no rank but an aggregator (ops/serve.h), and what sums in its
 * place. */
#ifndef SHOALI_CALLS_SERVE_H
#define SHOALI_CALLS_SERVE_H

#include <stdatomic.h>

#include "collective/slot.h"
#include "meet/meet.h"
#include "ops/op.h"
#include "ops/serve.h"

/** A share that something else sums, in its own terms. */
typedef struct shoali_kernel_sum {
    uint64_t key; /* as in the packets */
    uint32_t first_cell, slots, workers;
} shoali_kernel_sum;

/** What can sum shares in a service's place: the daemon's kernel (aggregator/in_kernel.h says what
 * these do). From any thread. */
typedef struct shoali_summer {
    void *ctx;
    uint32_t block_most;
    shoal_status (*begin)(void *ctx, const shoali_slot_share *share, const shoali_ip *workers,
                          shoali_kernel_sum *sum_out);
    void (*end)(void *ctx, const shoali_kernel_sum *sum);
    void (*counted)(void *ctx, const shoali_kernel_sum *sum, uint64_t *received_bytes_out,
                    uint64_t *sent_bytes_out);
    bool (*missing)(void *ctx, const shoali_kernel_sum *sum, uint32_t *slot_out,
                    uint32_t *round_out, uint32_t *worker_out);
} shoali_summer;

typedef struct shoali_service {
    /* constant */
    shoali_invite invite;
    const shoali_token *token;
    const char *interface;
    const shoali_summer *summer;        /* of what fits into it; NULL: none */
    const atomic_bool *cancel;          /* set: the join ends early */
    shoali_serving serving;             /* its job and limit are the caller's to set */
    _Atomic uint64_t kernel_operations; /* of serving.operations: the kernel summed, or began to */
} shoali_service;

/** Who else can sum for the operation; NULL: nobody. */
const shoali_offload *shoali_serve_offload(shoal_op *op);

#endif
