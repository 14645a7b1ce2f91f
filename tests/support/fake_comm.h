/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator without threads or sockets: control frames are kept for the test to read. */
#ifndef SHOALI_TESTS_SUPPORT_FAKE_COMM_H
#define SHOALI_TESTS_SUPPORT_FAKE_COMM_H

#include "endpoint/endpoint.h"

enum { FAKE_FRAMES = 1024, FAKE_BYTES = 512, FAKE_TIMEOUT_US = 2500 * 1000 };

typedef struct fake_frame {
    uint32_t to;
    uint16_t kind;
    uint8_t bytes[FAKE_BYTES]; /* the first ones */
    size_t len_bytes;
} fake_frame;

typedef struct fake_wire {
    fake_frame sent[FAKE_FRAMES];
    uint32_t count, drops, dropped; /* dropped: the last one */
    uint32_t adds, added;           /* added: the last one */
    shoal_status answer;            /* to what is sent or added */
} fake_wire;

/** All endpoints are ranks that are there; its clock is the real one's, now. */
shoal_comm *fake_comm_make(uint32_t me, uint32_t size, fake_wire *wire);
void fake_comm_free(shoal_comm *comm);

#endif
