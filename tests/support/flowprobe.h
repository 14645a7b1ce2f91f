/* SPDX-License-Identifier: Apache-2.0 */
/* One flow alone, with a sink that records what it asks for: for tests that play the other
 * members. */
#ifndef SHOALI_TESTS_SUPPORT_FLOWPROBE_H
#define SHOALI_TESTS_SUPPORT_FLOWPROBE_H

#include "collective/flow.h"

enum { FLOWPROBE_SENDS = 4096 };

typedef struct flowprobe_send {
    uint32_t peer;
    shoal_data head;
    const void *body;
    uint64_t cookie;
} flowprobe_send;

typedef struct flowprobe_job {
    size_t offset, count;
    uint64_t cookie;
} flowprobe_job;

typedef struct flowprobe {
    const shoali_flow_row *row;
    void *state;
    flowprobe_send sends[FLOWPROBE_SENDS];
    flowprobe_job jobs[64];
    size_t send_count, job_count;
    bool done;
    shoal_status status;
    char why[256];
} flowprobe;

/** Made and started, with what is due at once done. Fails the test on error. */
flowprobe *flowprobe_open(const shoali_flow_row *row, const shoali_flow_args *args);
void flowprobe_close(flowprobe *probe);

/** Call on_timer as long as the flow asks for it. */
void flowprobe_settle(flowprobe *probe);
void flowprobe_grant(flowprobe *probe, uint32_t peer, uint32_t slot);
/** place, fill with len_bytes of body, on_frames, settle; false: refused. */
bool flowprobe_receive(flowprobe *probe, uint32_t peer, shoal_data head, const void *body);
/** on_sent of the i-th send, then settle. */
void flowprobe_sent(flowprobe *probe, size_t i);

#endif
