/* SPDX-License-Identifier: Apache-2.0 */
/* Two parts A and B of M without a member in common, D the dead, of whom each part knows some. A
 * may decide if |A| >= (|M| - |D_A|) / 2 >= (|M| - |D|) / 2. As |A| + |B| <= |M| - |D|, both may
 * only if both are exactly half and know all the dead: then the lowest of the living is in one. */
#include "member/quorum.h"

void shoali_tally_add(shoali_tally *tally, shoali_vote vote)
{
    if (vote == SHOALI_VOTE_GONE)
        return;
    if (tally->here + tally->away + tally->dying == 0)
        tally->lowest_here = vote == SHOALI_VOTE_HERE;
    tally->here += vote == SHOALI_VOTE_HERE;
    tally->away += vote == SHOALI_VOTE_AWAY;
    tally->dying += vote == SHOALI_VOTE_DYING;
}

bool shoali_tally_decides(const shoali_tally *tally)
{
    const uint32_t others = tally->away + tally->dying;
    if (tally->here == 0)
        return false;
    return tally->away == 0 || tally->here > others ||
           (tally->here == others && tally->lowest_here);
}
