/* SPDX-License-Identifier: Apache-2.0 */
/* Ears of a protocol machine. */
#ifndef SHOALI_COMM_LISTEN_H
#define SHOALI_COMM_LISTEN_H

#include "comm/comm.h"

enum { SHOALI_EARLY_BYTES = 16 << 20 }; /* protocol messages that wait for a listener */

/** The progress thread's. */
typedef struct shoali_ears {
    bool listening, tells_all; /* tells_all: a protocol that goes on without the lost has begun */
    shoali_comm_listener listener;
    struct shoali_early *early, **early_last; /* messages before a listener came */
    size_t early_bytes;
} shoali_ears;

void shoali_listen_init(shoali_ears *ears);
void shoali_listen_free(shoali_ears *ears);
void shoali_listen_message(shoal_comm *comm, uint32_t endpoint, const uint8_t *bytes,
                           size_t len_bytes);

#endif
