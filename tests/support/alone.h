/* SPDX-License-Identifier: Apache-2.0 */
/* Real communicators within this process: of one rank, where every call goes its whole way and
 * nobody else has a part in it; and of two, each made by a thread of its own. */
#ifndef SHOALI_TESTS_SUPPORT_ALONE_H
#define SHOALI_TESTS_SUPPORT_ALONE_H

#include "shoal/shoal.h"

/** The descriptor of a job of one. */
shoal_comm_desc alone_desc(void);
shoal_comm *alone_make(void);

typedef struct pair {
    shoal_comm_desc desc[2]; /* to be changed before pair_join */
    shoal_comm *comm[2];
    shoal_status status[2];
    shoal_error error[2];
    char place[256];
    int place_fd;
} pair;

void pair_init(pair *p);
/** Both at once, whatever comes of it. */
void pair_join(pair *p);
/** fn(p, rank) on a thread for each of both, until both have returned. */
void pair_both(pair *p, void (*fn)(pair *p, uint32_t rank));
/** Destroy what is there, both at once. */
void pair_free(pair *p);

#endif
