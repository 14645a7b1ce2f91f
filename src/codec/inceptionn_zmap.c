/* SPDX-License-Identifier: Apache-2.0 */
/* What `zmap` adds to the layout `planes` when it is read. */
#include <string.h>

#include "codec/inceptionn.h"

size_t shoali_inc_zmap_head(const uint8_t *src, size_t len_bytes, size_t strides,
                            uint32_t high[SHOALI_INC_STRIDES], uint32_t low[SHOALI_INC_STRIDES])
{
    enum { BITMAP_BYTES = 4 * SHOALI_INC_STRIDES };
    uint32_t live;
    if (len_bytes < sizeof live)
        return SHOALI_INC_CORRUPT;
    memcpy(&live, src, sizeof live);
    const uint8_t *at = src + sizeof live;
    const size_t lives = (size_t)__builtin_popcount(live), head = sizeof live + 8 * lives;
    if (len_bytes < head || (strides < SHOALI_INC_STRIDES && live >> strides != 0))
        return SHOALI_INC_CORRUPT;
    if (live == UINT32_MAX) {
        memcpy(high, at, BITMAP_BYTES);
        memcpy(low, at + BITMAP_BYTES, BITMAP_BYTES);
        return head;
    }
    memset(high, 0, BITMAP_BYTES);
    memset(low, 0, BITMAP_BYTES);
    for (uint32_t left = live; left != 0; left &= left - 1, at += 4) {
        memcpy(&high[__builtin_ctz(left)], at, 4);
        memcpy(&low[__builtin_ctz(left)], at + 4 * lives, 4);
    }
    return head;
}
