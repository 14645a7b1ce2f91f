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

uint32_t shoali_inc_stride_bits(size_t count)
{
    uint32_t bits = 0;
    for (size_t j = 0; j < SHOALI_INC_STRIDE; j++)
        bits |= (uint32_t)(shoali_inc_element(j) < count) << j;
    return bits;
}

/* What a block's encoder has made so far. */
typedef struct maker {
    uint32_t high[SHOALI_INC_STRIDES], low[SHOALI_INC_STRIDES];
    size_t highs, lows, raws; /* bytes in the planes */
    uint8_t high_bytes[SHOALI_INC_BLOCK], low_bytes[SHOALI_INC_BLOCK];
    uint8_t raw_bytes[SHOALI_INC_BLOCK * sizeof(float)];
} maker;

static void make_element(maker *m, const shoali_inc_rule *rule, float x, size_t stride, size_t j)
{
    uint16_t payload;
    unsigned tag = shoali_inc_classify(rule, x, &payload);
    if (tag == SHOALI_INC_BYTE || tag == SHOALI_INC_WORD) {
        m->high[stride] |= 1u << j;
        m->high_bytes[m->highs++] = (uint8_t)(payload >> 8);
    }
    if (tag == SHOALI_INC_WORD || tag == SHOALI_INC_RAW)
        m->low[stride] |= 1u << j;
    if (tag == SHOALI_INC_WORD)
        m->low_bytes[m->lows++] = (uint8_t)payload;
    if (tag == SHOALI_INC_RAW) {
        memcpy(m->raw_bytes + m->raws, &x, sizeof x);
        m->raws += sizeof x;
    }
}

static uint8_t *append(uint8_t *dst, const void *bytes, size_t len_bytes)
{
    memcpy(dst, bytes, len_bytes);
    return dst + len_bytes;
}

/* With zmap the word that tells live strides, and only their bitmaps. */
static uint8_t *append_head(uint8_t *dst, const maker *m, size_t strides, bool zmap)
{
    uint32_t live = 0;
    for (size_t i = 0; i < strides; i++)
        live |= (uint32_t)(!zmap || (m->high[i] | m->low[i]) != 0) << i;
    if (zmap)
        dst = append(dst, &live, sizeof live);
    for (uint32_t left = live; left != 0; left &= left - 1)
        dst = append(dst, &m->high[__builtin_ctz(left)], sizeof *m->high);
    for (uint32_t left = live; left != 0; left &= left - 1)
        dst = append(dst, &m->low[__builtin_ctz(left)], sizeof *m->low);
    return dst;
}

static uint8_t *block_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                             uint8_t *dst, bool zmap)
{
    size_t strides = shoali_inc_strides(count);
    maker m = {.highs = 0};
    for (size_t i = 0; i < strides * SHOALI_INC_STRIDE; i++) {
        size_t stride = i / SHOALI_INC_STRIDE, j = i % SHOALI_INC_STRIDE;
        size_t element = stride * SHOALI_INC_STRIDE + shoali_inc_element(j);
        if (element < count)
            make_element(&m, rule, src[element], stride, j);
    }
    uint8_t *at = append_head(dst, &m, strides, zmap);
    at = append(at, m.high_bytes, m.highs);
    at = append(at, m.low_bytes, m.lows);
    return append(at, m.raw_bytes, m.raws);
}

/* A block that is being read. */
typedef struct reader {
    uint32_t high[SHOALI_INC_STRIDES], low[SHOALI_INC_STRIDES];
    const uint8_t *high_at, *low_at, *raw_at;
} reader;

static size_t ones(uint32_t bits)
{
    return (size_t)__builtin_popcount(bits);
}

/* The bitmaps at src; their bytes. */
static size_t head_open(const uint8_t *src, size_t len_bytes, size_t strides, bool zmap, reader *r)
{
    if (zmap)
        return shoali_inc_zmap_head(src, len_bytes, strides, r->high, r->low);
    if (len_bytes < 8 * strides)
        return SHOALI_INC_CORRUPT;
    memcpy(r->high, src, 4 * strides);
    memcpy(r->low, src + 4 * strides, 4 * strides);
    return 8 * strides;
}

/* Bytes of the block at src, or CORRUPT: more than len_bytes, or bits beyond its last element. */
static size_t block_open(const uint8_t *src, size_t len_bytes, size_t count, bool zmap, reader *r)
{
    size_t strides = shoali_inc_strides(count), highs = 0, words = 0, raws = 0;
    const size_t head = head_open(src, len_bytes, strides, zmap, r);
    if (head == SHOALI_INC_CORRUPT)
        return head;
    for (size_t i = 0; i < strides; i++) {
        highs += ones(r->high[i]);
        words += ones(r->high[i] & r->low[i]);
        raws += ones(r->low[i] & ~r->high[i]);
    }
    uint32_t last = r->high[strides - 1] | r->low[strides - 1];
    size_t bytes = head + highs + words + raws * sizeof(float);
    r->high_at = src + head;
    r->low_at = r->high_at + highs;
    r->raw_at = r->low_at + words;
    if (bytes > len_bytes || (last & ~shoali_inc_stride_bits(count - 32 * (strides - 1))) != 0)
        return SHOALI_INC_CORRUPT;
    return bytes;
}

static void stride_decode(const shoali_inc_rule *rule, reader *r, size_t stride, float *dst,
                          size_t count, bool add)
{
    uint32_t high = r->high[stride], low = r->low[stride];
    if ((high | low) == 0) {
        put_zeros(dst, count, add);
        return;
    }
    for (size_t j = 0; j < SHOALI_INC_STRIDE; j++, high >>= 1, low >>= 1) {
        size_t i = shoali_inc_element(j);
        if (i >= count)
            continue;
        if ((low & ~high & 1) != 0) {
            put_raw(dst + i, r->raw_at, add);
            r->raw_at += sizeof *dst;
            continue;
        }
        uint16_t payload = (high & 1) != 0 ? (uint16_t)(*r->high_at++ << 8) : 0;
        if ((low & 1) != 0)
            payload |= *r->low_at++;
        put(dst + i, shoali_inc_value(rule, payload), add);
    }
}

static size_t encode_all(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst,
                         bool zmap)
{
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK)
        at = block_encode(rule, src + i, at_most(count - i, SHOALI_INC_BLOCK), at, zmap);
    return (size_t)(at - dst);
}

static size_t planes_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                            uint8_t *dst)
{
    return encode_all(rule, src, count, dst, false);
}

static size_t zmap_encode(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    return encode_all(rule, src, count, dst, true);
}

static size_t decode_all(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                         float *dst, size_t count, bool add, bool zmap)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK) {
        reader r;
        size_t n = at_most(count - i, SHOALI_INC_BLOCK);
        size_t bytes = block_open(src + used, len_bytes - used, n, zmap, &r);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        for (size_t j = 0; j < n; j += SHOALI_INC_STRIDE)
            stride_decode(rule, &r, j / SHOALI_INC_STRIDE, dst + i + j,
                          at_most(n - j, SHOALI_INC_STRIDE), add);
        used += bytes;
    }
    return used;
}

static size_t planes_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                            float *dst, size_t count, bool add)
{
    return decode_all(rule, src, len_bytes, dst, count, add, false);
}

static size_t zmap_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                          float *dst, size_t count, bool add)
{
    return decode_all(rule, src, len_bytes, dst, count, add, true);
}

const shoali_inc_loops shoali_inc_ref_planes = {planes_encode, planes_decode};
const shoali_inc_loops shoali_inc_ref_zmap = {zmap_encode, zmap_decode};
