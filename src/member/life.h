/* SPDX-License-Identifier: Apache-2.0 */
/* When the proof that a process has ended (meet/proof.h) counts for the quorum. Pure.
 *
 * A proof is of now: who was out of reach before it may have gone on with others, and then its
 * death gives nobody the right to go on without those. So it counts only for as long as its last
 * word is fresh, and whoever agrees to go on without somebody who may be alive has been quiet
 * towards that one for longer than a word is fresh: a lease. What is left between the two is for
 * words on their way, for clocks that do not run alike, and for a process that is late itself. Who
 * was late for longer takes nothing that it then finds waiting for a fresh word.
 *
 * A proof that is seen later cannot be kept, not even as that of one that may have decided before
 * (SHOALI_DEATH_DYING): what counts is when the process ended, and who looks knows only when it
 * looked. In between the dead may have left this member out, gone on alone and ended; the lives of
 * tests/sim/member_faults_test.c find two halves at once. A witness that tells a moment by which
 * it had ended, by a clock that both have, makes it safe: a launcher on this host (meet/proof.h).
 *
 * Words are what says that its sender goes on as a member of the epoch: heartbeats, until it has
 * said that it leaves. Who has been silent for a while is not spoken to either, so that by the time
 * it counts as lost, the others have been quiet for long enough. */
#ifndef SHOALI_MEMBER_LIFE_H
#define SHOALI_MEMBER_LIFE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum shoali_death {
    SHOALI_DEATH_NONE,
    SHOALI_DEATH_DYING,  /* after it had begun to leave its epoch: quorum.h */
    SHOALI_DEATH_CERTAIN /* as a member that went on as all others did */
} shoali_death;

/** What a proof, seen now, says of a member. @param leaving it has said that it reforms
 * @param silent_us since its last word */
shoali_death shoali_life_end(bool leaving, uint64_t silent_us, uint64_t peer_timeout_us);

/** For how long who leaves somebody out has to have been quiet. */
uint64_t shoali_life_quiet_us(uint64_t peer_timeout_us);
/** Whether somebody who has been silent for so long is to be told that this member goes on. */
bool shoali_life_speaks(uint64_t silent_us, uint64_t peer_timeout_us);
/** For how long nothing counts as a word to a process that finds itself late. */
uint64_t shoali_life_deaf_us(uint64_t late_us, uint64_t peer_timeout_us);

#endif
