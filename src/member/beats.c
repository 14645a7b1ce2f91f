/* SPDX-License-Identifier: Apache-2.0 */
#include "member/beats.h"

enum { ALL_MOST = 32, TURNS_MOST = 8, WATCHERS = 3 };

static uint32_t turns(uint32_t size)
{
    const uint32_t parts = size / ALL_MOST + (size % ALL_MOST != 0);
    return parts < 1 ? 1 : parts > TURNS_MOST ? TURNS_MOST : parts;
}

bool shoali_beats_watches(uint32_t me, uint32_t other, uint32_t size)
{
    if (size <= ALL_MOST)
        return me != other;
    const uint32_t behind = (me + size - other) % size;
    for (uint32_t i = 0; i < WATCHERS; i++)
        if (behind == 1 + i * (size / WATCHERS))
            return true;
    return false;
}

bool shoali_beats_due(uint32_t me, uint32_t other, uint32_t size, uint64_t last, uint64_t beat)
{
    const uint64_t parts = turns(size), at = (uint64_t)other + me;
    return me != other &&
           (shoali_beats_watches(other, me, size) || (at + last) / parts != (at + beat) / parts);
}

uint64_t shoali_beats_turn_us(uint32_t size, uint64_t peer_timeout_us)
{
    return peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT * turns(size);
}
