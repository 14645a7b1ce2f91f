/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads that meet. */
#ifndef SHOALI_TESTS_SUPPORT_PARTY_H
#define SHOALI_TESTS_SUPPORT_PARTY_H

#include <pthread.h>

#include "meet/meet.h"

enum { PARTY_RANKS = 5, PARTY_LONG_US = 60 * 1000 * 1000 };

typedef struct guest {
    pthread_t thread;
    shoali_meeting meeting;
    shoali_record mine, records[PARTY_RANKS];
    shoali_token token;
    shoal_status status;
    shoal_error error;
} guest;

typedef struct party {
    char place[256];
    int fd;
    uint32_t size;
    guest guests[PARTY_RANKS];
} party;

/** At a fresh place, "tcp" or "file"; everything else of the guests may be changed afterwards. */
void party_prepare(party *p, const char *scheme, uint32_t size, int64_t timeout_us);
/** One guest's thread: shoali_meet. */
void *party_go(void *guest);
/** All but `absent` meet (PARTY_RANKS: all), and the place is released. */
void party_run(party *p, uint32_t absent);
void party_start(guest *g);
void party_end(guest *g);
/** Each has this status, and part in its text (NULL: whatever). */
void party_assert_all(const party *p, shoal_status status, const char *part);
uint16_t party_port(const party *p);

#endif
