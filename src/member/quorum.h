/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of a membership may go on. Pure: who is where goes in, yes or no comes out. */
#ifndef SHOALI_MEMBER_QUORUM_H
#define SHOALI_MEMBER_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

/** What one member knows of another. GONE has to be certain (member/life.h, or a goodbye), as it
 * lets fewer decide. DYING: its end is certain, too, but it may have decided with others before.
 * AWAY is all else: an end of its connections, silence, a refused connection, whatever the network
 * may do. */
typedef enum shoali_vote {
    SHOALI_VOTE_HERE,
    SHOALI_VOTE_AWAY,
    SHOALI_VOTE_DYING,
    SHOALI_VOTE_GONE
} shoali_vote;

/** Starts as {0}. */
typedef struct shoali_tally {
    uint32_t here, away, dying;
    bool lowest_here;
} shoali_tally;

/** All members, one after the other, from the lowest. */
void shoali_tally_add(shoali_tally *tally, shoali_vote vote);
/**
 * Whether those HERE may decide for all: they are more than half of the members that are not GONE,
 * or exactly half with the lowest of these, or nobody else is alive. Of two parts that do not reach
 * each other at most one may, also where one knows of more deaths than the other.
 */
bool shoali_tally_decides(const shoali_tally *tally);

#endif
