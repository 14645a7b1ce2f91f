/* SPDX-License-Identifier: Apache-2.0 */
#include "member/beats.h"

enum { ALL_MOST = 32, TURNS_MOST = 8, WATCHERS = 3, RARE_TURNS = 128 };

static uint32_t turns(uint32_t size, bool works)
{
    const uint32_t parts = size / ALL_MOST + (size % ALL_MOST != 0);
    if (parts <= 1)
        return 1;
    return !works ? RARE_TURNS : parts > TURNS_MOST ? TURNS_MOST : parts;
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

bool shoali_beats_due(uint32_t me, uint32_t other, uint32_t size, bool works, uint64_t last,
                      uint64_t beat)
{
    const uint64_t parts = turns(size, works), at = (uint64_t)other + me;
    return me != other &&
           (shoali_beats_watches(other, me, size) || (at + last) / parts != (at + beat) / parts);
}

uint64_t shoali_beats_turn_us(uint32_t size, bool works, uint64_t peer_timeout_us)
{
    return peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT * turns(size, works);
}

/* Half a beat beyond a turn: who works has told everyone by then, if its thread runs. */
bool shoali_beats_asks(const shoali_silence *s, uint32_t size, bool works, uint64_t peer_timeout_us)
{
    const uint64_t beat_us = peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT;
    if (s->asked || size <= ALL_MOST)
        return false;
    return s->watches ? s->silent_us > peer_timeout_us / 2
                      : works && s->silent_us > shoali_beats_turn_us(size, true, peer_timeout_us) +
                                                    beat_us / 2;
}

bool shoali_beats_asks_too(const shoali_silence *s, uint64_t peer_timeout_us)
{
    const uint64_t beat_us = peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT;
    return !s->watches && !s->asked && s->silent_us > 2 * beat_us;
}

/* Watchers tell of a loss half a timeout after they have told to ask, and a beat is for the way. */
bool shoali_beats_lost(const shoali_silence *s, uint32_t size, uint64_t peer_timeout_us)
{
    const uint64_t beat_us = peer_timeout_us / SHOALI_BEATS_PER_TIMEOUT;
    if (s->silent_us <= peer_timeout_us)
        return false;
    if (s->watches || (s->asked && s->asked_us >= peer_timeout_us) ||
        (s->asked && s->missed && s->asked_us > peer_timeout_us / 2 - beat_us))
        return true;
    return s->silent_us >
           peer_timeout_us + shoali_beats_turn_us(size, false, peer_timeout_us) - beat_us;
}
