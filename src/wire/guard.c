/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/guard.h"

#include "wire/bytes.h"

static const uint32_t GUARD = 1u << 30;
enum { KEPT_SHIFT = 23, KEPT_WORD = 1 };

void shoali_guard(uint8_t *bytes, size_t words)
{
    uint32_t kept = 0, shift = KEPT_SHIFT;
    for (size_t i = 0; i < words; i++) {
        uint32_t word = shoali_get_u32(bytes + 4 * i);
        if (i != KEPT_WORD)
            kept |= (word >> 30 & 1) << shift++;
        shoali_put_u32(bytes + 4 * i, word | GUARD);
    }
    uint8_t *at = bytes + (size_t)4 * KEPT_WORD;
    shoali_put_u32(at, shoali_get_u32(at) | kept);
}

bool shoali_unguard(uint8_t *bytes, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if ((shoali_get_u32(bytes + 4 * i) & GUARD) == 0)
            return false;
    uint8_t *at = bytes + (size_t)4 * KEPT_WORD;
    uint32_t kept = shoali_get_u32(at) >> KEPT_SHIFT;
    for (size_t i = 0; i < words; i++) {
        uint32_t word = shoali_get_u32(bytes + 4 * i) & ~GUARD;
        if (i == KEPT_WORD) {
            word &= ~(0x7fu << KEPT_SHIFT);
        } else {
            word |= (kept & 1) << 30;
            kept >>= 1;
        }
        shoali_put_u32(bytes + 4 * i, word);
    }
    return true;
}
