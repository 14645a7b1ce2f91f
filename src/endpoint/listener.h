/* SPDX-License-Identifier: Apache-2.0 */
/* What a protocol machine wants to hear. */
#ifndef SHOALI_ENDPOINT_LISTENER_H
#define SHOALI_ENDPOINT_LISTENER_H

#include "shoal/shoal.h"

/** A protocol machine's ears. All are called on the progress thread; NULL: not interested. */
typedef struct shoali_comm_listener {
    void *ctx;
    void (*on_message)(void *ctx, uint32_t endpoint, const void *bytes, size_t len_bytes);
    void (*on_peer_down)(void *ctx, uint32_t endpoint, shoal_status why, const char *text);
    void (*on_timer)(void *ctx, uint64_t now_us);
    uint64_t (*next_wake_us)(void *ctx); /* UINT64_MAX: never */
    bool goes_on; /* without lost members, as long as a quorum is there: else on_peer_down hears of
                     this endpoint itself, with EEPOCH. Of a loss it hears again once it is proven
                     to be a death */
} shoali_comm_listener;

#endif
