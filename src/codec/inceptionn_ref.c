/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn in plain C: the definition that the vector loops are tested against. */
#include <string.h>

#include "codec/inceptionn.h"

enum { BIAS = 127, MAGNITUDE = 0x7fff, SIGN = 0x8000 };

shoali_inc_rule shoali_inc_rule_make(uint32_t k, uint32_t power, bool strict)
{
    uint32_t middle =
        k / 2; /* the published MID = EB + ceil((127 - EB) / 2), EB = 127 - k, for an even k */
    uint32_t word_from_bits = 0x7fffu & ~((1u << (15 - middle)) - 1u);
    uint32_t kept_bits = strict ? 0xffu & ~((1u << (15 - k)) - 1u) : 0;
    return (shoali_inc_rule){
        .power = power,
        .byte_from = (BIAS - k - power) << 23,
        .raw_from = (BIAS - power) << 23,
        .byte_bits = (uint16_t)(1u << (15 - k)),
        .word_bits = (uint16_t)(word_from_bits | kept_bits),
        .strict = strict,
    };
}

unsigned shoali_inc_classify(const shoali_inc_rule *rule, float x, uint16_t *payload_out)
{
    uint32_t bits, magnitude, a;
    memcpy(&bits, &x, sizeof bits);
    a = bits & 0x7fffffffu;
    *payload_out = 0;
    if (a >= rule->raw_from)
        return SHOALI_INC_RAW;
    if (a < rule->byte_from)
        return SHOALI_INC_ZERO;
    /* 24 bits with the leading one, shifted so that bit 23 would weigh 2^0; the upper 15 below it
     * are kept. */
    uint32_t shift = BIAS - rule->power - (a >> 23);
    magnitude = ((a & 0x7fffffu) | 0x800000u) >> (shift + 8);
    uint32_t sign = bits >> 16 & SIGN;
    if ((magnitude & rule->word_bits) != 0) {
        *payload_out = (uint16_t)(sign | magnitude);
        return SHOALI_INC_WORD;
    }
    if (magnitude > 0xff) /* otherwise the byte is zero, and a zero has no sign */
        *payload_out = (uint16_t)(sign | magnitude);
    return SHOALI_INC_BYTE;
}

float shoali_inc_value(const shoali_inc_rule *rule, uint16_t payload)
{
    uint32_t bits = (BIAS - 15 - rule->power) << 23;
    float unit; /* 2^-15 / 2^power */
    memcpy(&unit, &bits, sizeof unit);
    int magnitude = payload & MAGNITUDE;
    return (float)((payload & SIGN) != 0 ? -magnitude : magnitude) * unit;
}

static void put(float *dst, float value, bool add)
{
    *dst = add ? *dst + value : value;
}

static void put_raw(float *dst, const uint8_t *src, bool add)
{
    float value;
    memcpy(&value, src, sizeof value);
    put(dst, value, add);
}

static void put_zeros(float *dst, size_t count, bool add)
{
    if (!add)
        memset(dst, 0, count * sizeof *dst);
}

/* ---------------------------------------------------------------- interleaved */

size_t shoali_inc_group_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                               uint8_t *dst)
{
    uint32_t tags = 0;
    uint8_t *at = dst + 2;
    for (size_t i = 0; i < count; i++) {
        uint16_t payload;
        unsigned tag = shoali_inc_classify(rule, src[i], &payload);
        tags |= tag << 2 * i;
        if (tag == SHOALI_INC_WORD)
            *at++ = (uint8_t)payload;
        if (tag == SHOALI_INC_WORD || tag == SHOALI_INC_BYTE)
            *at++ = (uint8_t)(payload >> 8);
        if (tag == SHOALI_INC_RAW) {
            memcpy(at, &src[i], sizeof *src);
            at += sizeof *src;
        }
    }
    dst[0] = (uint8_t)tags;
    dst[1] = (uint8_t)(tags >> 8);
    return (size_t)(at - dst);
}

/* Bytes of a group with its tag word. */
static size_t group_bytes(uint32_t tags)
{
    static const uint8_t payload_bytes[4] = {0, 1, 2, 4};
    size_t bytes = 2;
    for (; tags != 0; tags >>= 2)
        bytes += payload_bytes[tags & 3];
    return bytes;
}

size_t shoali_inc_group_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                               float *dst, size_t count, bool add)
{
    if (len_bytes < 2)
        return SHOALI_INC_CORRUPT;
    uint32_t tags = src[0] | (uint32_t)src[1] << 8;
    size_t bytes = group_bytes(tags);
    if (bytes > len_bytes || (count < SHOALI_INC_GROUP && tags >> 2 * count != 0))
        return SHOALI_INC_CORRUPT;
    if (tags == 0) {
        put_zeros(dst, count, add);
        return bytes;
    }
    const uint8_t *at = src + 2;
    for (size_t i = 0; i < count; i++, tags >>= 2)
        switch (tags & 3) {
        case SHOALI_INC_ZERO:
            put(dst + i, 0, add);
            break;
        case SHOALI_INC_BYTE:
            put(dst + i, shoali_inc_value(rule, (uint16_t)(at[0] << 8)), add);
            at += 1;
            break;
        case SHOALI_INC_WORD:
            put(dst + i, shoali_inc_value(rule, (uint16_t)(at[0] | at[1] << 8)), add);
            at += 2;
            break;
        default:
            put_raw(dst + i, at, add);
            at += 4;
        }
    return bytes;
}

static size_t at_most(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

static size_t interleaved_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                                 uint8_t *dst)
{
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i += SHOALI_INC_GROUP)
        at += shoali_inc_group_encode(rule, src + i, at_most(count - i, SHOALI_INC_GROUP), at);
    return (size_t)(at - dst);
}

static size_t interleaved_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                                 float *dst, size_t count, bool add)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_GROUP) {
        size_t n = at_most(count - i, SHOALI_INC_GROUP);
        size_t bytes = shoali_inc_group_decode(rule, src + used, len_bytes - used, dst + i, n, add);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        used += bytes;
    }
    return used;
}

const shoali_inc_loops shoali_inc_ref_interleaved = {interleaved_encode, interleaved_decode};

/* ---------------------------------------------------------------- planes */

static bool bit(const uint8_t *bitmap, size_t i)
{
    return (bitmap[i / 8] >> i % 8 & 1) != 0;
}

static size_t block_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                           uint8_t *dst)
{
    uint8_t low_bytes[SHOALI_INC_BLOCK];
    size_t map_bytes = (count + 7) / 8, lows = 0, raws = 0;
    uint8_t *high = dst, *low = dst + map_bytes, *at = low + map_bytes;
    memset(dst, 0, 2 * map_bytes);
    for (size_t i = 0; i < count; i++) {
        uint16_t payload;
        unsigned tag = shoali_inc_classify(rule, src[i], &payload);
        if (tag == SHOALI_INC_BYTE || tag == SHOALI_INC_WORD) {
            high[i / 8] |= (uint8_t)(1u << i % 8);
            *at++ = (uint8_t)(payload >> 8);
        }
        if (tag == SHOALI_INC_WORD || tag == SHOALI_INC_RAW)
            low[i / 8] |= (uint8_t)(1u << i % 8);
        if (tag == SHOALI_INC_WORD)
            low_bytes[lows++] = (uint8_t)payload;
        raws += tag == SHOALI_INC_RAW;
    }
    memcpy(at, low_bytes, lows);
    at += lows;
    for (size_t i = 0; raws > 0; i++)
        if (bit(low, i) && !bit(high, i)) {
            memcpy(at, &src[i], sizeof *src);
            at += sizeof *src;
            raws--;
        }
    return (size_t)(at - dst);
}

typedef struct block {
    const uint8_t *high, *low;                    /* bitmaps */
    const uint8_t *high_bytes, *low_bytes, *raws; /* planes */
} block;

/* Bytes of the block at src, or CORRUPT: too long for len_bytes, or bits set beyond its last
 * element. */
static size_t block_open(const uint8_t *src, size_t len_bytes, size_t count, block *block_out)
{
    size_t map_bytes = (count + 7) / 8, highs = 0, words = 0, raws = 0;
    if (len_bytes < 2 * map_bytes)
        return SHOALI_INC_CORRUPT;
    const uint8_t *high = src, *low = src + map_bytes;
    if (count % 8 != 0 && (high[map_bytes - 1] | low[map_bytes - 1]) >> count % 8 != 0)
        return SHOALI_INC_CORRUPT;
    for (size_t i = 0; i < count; i++) {
        highs += bit(high, i);
        words += bit(high, i) && bit(low, i);
        raws += !bit(high, i) && bit(low, i);
    }
    size_t bytes = 2 * map_bytes + highs + words + raws * sizeof(float);
    if (bytes > len_bytes)
        return SHOALI_INC_CORRUPT;
    const uint8_t *planes = src + 2 * map_bytes;
    *block_out = (block){high, low, planes, planes + highs, planes + highs + words};
    return bytes;
}

/* One stride of at most 32 elements from element `first` of the block on. */
static void stride_decode(const shoali_inc_rule *rule, block *b, size_t first, size_t count,
                          float *dst, bool add)
{
    bool empty = true;
    for (size_t i = first; i < first + count; i += 8)
        empty &= (b->high[i / 8] | b->low[i / 8]) == 0;
    if (empty) {
        put_zeros(dst, count, add);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool high = bit(b->high, first + i), low = bit(b->low, first + i);
        if (low && !high) {
            put_raw(dst + i, b->raws, add);
            b->raws += sizeof *dst;
            continue;
        }
        uint16_t payload = high ? (uint16_t)(*b->high_bytes++ << 8) : 0;
        if (low)
            payload |= *b->low_bytes++;
        put(dst + i, shoali_inc_value(rule, payload), add);
    }
}

static size_t planes_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                            uint8_t *dst)
{
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK)
        at += block_encode(rule, src + i, at_most(count - i, SHOALI_INC_BLOCK), at);
    return (size_t)(at - dst);
}

static size_t planes_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                            float *dst, size_t count, bool add)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK) {
        block b;
        size_t n = at_most(count - i, SHOALI_INC_BLOCK);
        size_t bytes = block_open(src + used, len_bytes - used, n, &b);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        for (size_t j = 0; j < n; j += SHOALI_INC_STRIDE)
            stride_decode(rule, &b, j, at_most(n - j, SHOALI_INC_STRIDE), dst + i + j, add);
        used += bytes;
    }
    return used;
}

const shoali_inc_loops shoali_inc_ref_planes = {planes_encode, planes_decode};
