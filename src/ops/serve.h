/* SPDX-License-Identifier: Apache-2.0 */
/* Operations at an endpoint that is no rank but sums for them: an aggregator. */
#ifndef SHOALI_OPS_SERVE_H
#define SHOALI_OPS_SERVE_H

#include <stdatomic.h>
#include <stdint.h>

/** What such an endpoint keeps of what it sums. Zero, but for what is constant; it outlives the
 * operations. Counters may be read by any thread. */
typedef struct shoali_serving {
    /* constant */
    const char *job; /* whose operations these are */
    uint64_t memory_limit_bytes;
    /* the owner's thread */
    bool joined; /* all members are connected */
    struct shoali_request *first, *last;
    _Atomic uint64_t open, operations, failures, received_bytes, sent_bytes;
    _Atomic uint64_t memory_bytes, memory_peak_bytes;
} shoali_serving;

#endif
