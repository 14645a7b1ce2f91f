/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the messages of machines: little-endian, as on the wire everywhere. */
#ifndef SHOALI_SYNC_PACK_H
#define SHOALI_SYNC_PACK_H

#include <stdint.h>

static inline void shoali_pack_u64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t shoali_unpack_u64(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
