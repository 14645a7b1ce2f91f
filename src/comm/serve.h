/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's endpoint that is no rank but an aggregator: it enters operations when their
 * contributors ask for it (serve.c). */
#ifndef SHOALI_COMM_SERVE_H
#define SHOALI_COMM_SERVE_H

#include <stdatomic.h>

#include "comm/in_kernel.h"
#include "meet/meet.h"

typedef struct shoali_service {
    /* constant */
    shoali_invite invite;
    const shoali_token *token;
    const char *interface;
    uint64_t memory_limit_bytes;
    shoali_in_kernel *kernel;             /* sums what fits into it; NULL: none */
    const atomic_bool *cancel;            /* set: the join ends early */
    struct shoali_request *first, **last; /* progress: that came during the join */
    /* written by the progress thread */
    _Atomic uint64_t open, operations, failures, received_bytes, sent_bytes;
    _Atomic uint64_t kernel_operations; /* of which the kernel summed, or began to */
    _Atomic uint64_t memory_bytes, memory_peak_bytes;
} shoali_service;

/** As shoal_comm_create, as the aggregator that the service's invitation names. The service must
 * outlive the communicator. */
SHOAL_MUST_USE shoal_status shoali_comm_create_serving(shoali_service *service,
                                                       shoal_comm **comm_out);

#endif
