/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up job and the watch of one of its ranks. */
#ifndef SHOALI_TESTS_SUPPORT_WATCHED_H
#define SHOALI_TESTS_SUPPORT_WATCHED_H

#include "watch/watch.h"

enum { WATCHED_RANKS = 4 };

typedef struct watched {
    shoali_watch *watch; /* of rank 1 */
    uint64_t now_us;
    int epoll_fd;
    bool away[WATCHED_RANKS];
    shoal_peer_stats carried[WATCHED_RANKS];
    uint32_t state[WATCHED_RANKS];
    char notes[200];
    char folder[64], old_folder[200]; /* SHOAL_STATUS_DIR now, and before */
} watched;

/** In a status folder of its own, which watched_end removes if it is empty. */
void watched_begin(watched *w, const char *job, uint32_t number);
void watched_end(watched *w);
/** The path of its socket. */
const char *watched_path(const watched *w);

#endif
