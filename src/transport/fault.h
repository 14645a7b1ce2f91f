/* SPDX-License-Identifier: Apache-2.0 */
/* A transport that stands in front of another and does harm by a seeded plan, for tests of what
 * stands above. Random faults hit data frames on their way out, one draw per frame and fault; `cut`
 * silences a link in both directions without closing it, as a pulled cable does; `kill` ends this
 * process by SIGKILL. A plan given to all processes (SHOAL_FAULT) names the rank that it is meant
 * for. */
#ifndef SHOALI_TRANSPORT_FAULT_H
#define SHOALI_TRANSPORT_FAULT_H

#include "transport/transport.h"

typedef struct shoali_fault_params {
    double drop, dup, reorder, corrupt; /* probability per frame */
    int64_t delay_us;                   /* each frame waits for a random time up to this */
    int64_t cut, kill;                  /* after so many frames; -1: never */
    int64_t peer, rank;                 /* act towards this endpoint, and at this one; -1: all */
    int64_t seed;
    char over[SHOALI_KEY_TEXT_BYTES]; /* name of the transport behind, with its defaults */
    /* Set by the caller after parsing, to wrap one with parameters; NULL: `over`. */
    const shoali_transport_row *inner;
    const void *inner_params;
} shoali_fault_params;

extern const shoali_transport_row shoali_transport_fault;

#endif
