/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames on their way to one connection: a queue that grows, and never shrinks, so that a
 * frame costs no allocation once the queue has had its longest. */
#ifndef SHOALI_TRANSPORT_OUTBOX_H
#define SHOALI_TRANSPORT_OUTBOX_H

#include "transport/transport.h"
#include "wire/frame.h"

typedef struct shoali_out {
    uint8_t header[SHOALI_FRAME_BYTES];
    const uint8_t *body; /* the caller's, until sent(cookie) */
    uint32_t body_bytes;
    bool goodbye; /* ours: nobody waits for it */
    uint64_t cookie;
} shoali_out;

typedef struct shoali_outbox {
    shoali_out *ring;
    uint32_t capacity, head, count; /* capacity: power of two */
    size_t front_done;              /* bytes of the front frame, header included, that have gone */
    uint64_t queued_bytes;          /* bodies */
    bool guarded;                   /* headers: guard.h */
} shoali_outbox;

/** Encode and append a data frame; checksum: of the body, too. */
SHOAL_MUST_USE shoal_status shoali_outbox_put(shoali_outbox *box, const shoali_transport_args *args,
                                              bool checksum, const shoal_data *head,
                                              const void *body, uint64_t cookie);
SHOAL_MUST_USE shoal_status shoali_outbox_put_goodbye(shoali_outbox *box);
/** The i-th frame from the front; i < count. */
const shoali_out *shoali_outbox_at(const shoali_outbox *box, uint32_t i);
/** bytes more of the front have gone. True: that frame is complete and now out of the box, in
 *  *done_out; ask again with 0 bytes for the next one. */
bool shoali_outbox_advance(shoali_outbox *box, size_t bytes, shoali_out *done_out);
/** Take every frame out; cookies go back by sent(status). */
void shoali_outbox_return_all(shoali_outbox *box, const shoali_transport_events *events,
                              uint32_t peer, shoal_status status);
void shoali_outbox_free(shoali_outbox *box);

#endif
