/* SPDX-License-Identifier: Apache-2.0 */
#include "member/life.h"

/* Of the peer timeout, of which heartbeats are a tenth. Being silent for FRESH ends in being quiet
 * for QUIET before the timeout is over. */
enum { FRESH = 5, QUIET_TENTHS = 4, LATE = 10 };

static uint64_t tenths(uint64_t us, uint64_t count)
{
    return us / 10 * count;
}

uint64_t shoali_life_quiet_us(uint64_t peer_timeout_us)
{
    return tenths(peer_timeout_us, QUIET_TENTHS);
}

bool shoali_life_speaks(uint64_t silent_us, uint64_t peer_timeout_us)
{
    return silent_us < tenths(peer_timeout_us, 10 - QUIET_TENTHS);
}

uint64_t shoali_life_deaf_us(uint64_t late_us, uint64_t peer_timeout_us)
{
    return late_us > peer_timeout_us / LATE ? peer_timeout_us / LATE : 0;
}

shoali_death shoali_life_end(bool leaving, uint64_t silent_us, uint64_t peer_timeout_us)
{
    if (silent_us > peer_timeout_us / FRESH)
        return SHOALI_DEATH_NONE;
    return leaving ? SHOALI_DEATH_DYING : SHOALI_DEATH_CERTAIN;
}
