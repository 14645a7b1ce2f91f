/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn:zmap, our extension of the layout `planes`: bitmaps only of strides that hold
 * something. The published format spends 2 bits on every element and so ends at 16 times fewer
 * bytes; gradients late in training are mostly runs of zeros.
 *
 * The loops over planes do the work, a block at a time; the bitmaps are thinned out behind the
 * encoder, and filled up in front of the decoder in a copy that stays in the first cache. */
#include <string.h>

#include "codec/inceptionn.h"

enum { LIVE_BYTES = 4, SLACK_BYTES = 64 };

static size_t block_of(size_t left)
{
    return left < SHOALI_INC_BLOCK ? left : SHOALI_INC_BLOCK;
}

/* A planes block of len_bytes behind the live word's place becomes a zmap block; its length. */
static size_t thin_out(uint8_t *block, size_t strides, size_t len_bytes)
{
    uint32_t high[SHOALI_INC_STRIDES], low[SHOALI_INC_STRIDES], live = 0;
    uint32_t bitmaps[2 * SHOALI_INC_STRIDES];
    size_t count = 0, head = 8 * strides;
    memcpy(high, block + LIVE_BYTES, 4 * strides);
    memcpy(low, block + LIVE_BYTES + 4 * strides, 4 * strides);
    for (size_t i = 0; i < strides; i++)
        live |= (uint32_t)((high[i] | low[i]) != 0) << i;
    for (uint32_t left = live; left != 0; left &= left - 1)
        bitmaps[count++] = high[__builtin_ctz(left)];
    for (uint32_t left = live; left != 0; left &= left - 1)
        bitmaps[count++] = low[__builtin_ctz(left)];
    memcpy(block, &live, LIVE_BYTES);
    memcpy(block + LIVE_BYTES, bitmaps, 4 * count);
    if (4 * count < head)
        memmove(block + LIVE_BYTES + 4 * count, block + LIVE_BYTES + head, len_bytes - head);
    return LIVE_BYTES + 4 * count + len_bytes - head;
}

static size_t encode(const shoali_inc_loops *planes, const shoali_inc_rule *rule, const float *src,
                     size_t count, uint8_t *dst)
{
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK) {
        size_t n = block_of(count - i);
        size_t bytes = planes->encode(rule, src + i, n, at + LIVE_BYTES);
        at += thin_out(at, shoali_inc_strides(n), bytes);
    }
    return (size_t)(at - dst);
}

/* The planes block that a zmap block at src stands for; bytes of src, or CORRUPT: more than there
 * are, or a live stride beyond the last. */
static size_t fill_up(const uint8_t *src, size_t len_bytes, size_t strides, uint8_t *block)
{
    uint32_t live, high[SHOALI_INC_STRIDES] = {0}, low[SHOALI_INC_STRIDES] = {0};
    size_t payload = 0;
    if (len_bytes < LIVE_BYTES)
        return SHOALI_INC_CORRUPT;
    memcpy(&live, src, LIVE_BYTES);
    const size_t lives = (size_t)__builtin_popcount(live), head = LIVE_BYTES + 8 * lives;
    if (len_bytes < head || (strides < SHOALI_INC_STRIDES && live >> strides != 0))
        return SHOALI_INC_CORRUPT;
    const uint8_t *at = src + LIVE_BYTES;
    for (uint32_t left = live; left != 0; left &= left - 1, at += 4) {
        const int i = __builtin_ctz(left);
        memcpy(&high[i], at, 4);
        memcpy(&low[i], at + 4 * lives, 4);
        const uint32_t words = high[i] & low[i], raws = low[i] & ~high[i];
        payload += (size_t)(__builtin_popcount(high[i]) + __builtin_popcount(words) +
                            4 * __builtin_popcount(raws));
    }
    if (payload > len_bytes - head)
        return SHOALI_INC_CORRUPT;
    memcpy(block, high, 4 * strides);
    memcpy(block + 4 * strides, low, 4 * strides);
    memcpy(block + 8 * strides, src + head, payload);
    return head + payload;
}

static size_t decode(const shoali_inc_loops *planes, const shoali_inc_rule *rule,
                     const uint8_t *src, size_t len_bytes, float *dst, size_t count, bool add)
{
    uint8_t block[SHOALI_INC_BLOCK_BYTES + SLACK_BYTES] = {0};
    size_t used = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK) {
        size_t n = block_of(count - i);
        size_t bytes = fill_up(src + used, len_bytes - used, shoali_inc_strides(n), block);
        if (bytes == SHOALI_INC_CORRUPT ||
            planes->decode(rule, block, sizeof block, dst + i, n, add) == SHOALI_INC_CORRUPT)
            return SHOALI_INC_CORRUPT;
        used += bytes;
    }
    return used;
}

static size_t ref_encode(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    return encode(&shoali_inc_ref_planes, rule, src, count, dst);
}

static size_t ref_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                         float *dst, size_t count, bool add)
{
    return decode(&shoali_inc_ref_planes, rule, src, len_bytes, dst, count, add);
}

const shoali_inc_loops shoali_inc_ref_zmap = {ref_encode, ref_decode};

#if defined(__x86_64__)
static size_t avx2_encode(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    return encode(&shoali_inc_avx2_planes, rule, src, count, dst);
}

static size_t avx2_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                          float *dst, size_t count, bool add)
{
    return decode(&shoali_inc_avx2_planes, rule, src, len_bytes, dst, count, add);
}

const shoali_inc_loops shoali_inc_avx2_zmap = {avx2_encode, avx2_decode};
#endif
