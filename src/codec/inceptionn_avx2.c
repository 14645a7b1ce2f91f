/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn with AVX2: the tables, and the layout `planes`. */
#include "codec/inceptionn_avx2.h"

#include <pthread.h>
#include <string.h>

shoali_inc_tables shoali_inc_avx2_tables;

/* ---------------------------------------------------------------- tables */

enum { NOTHING = 0x80 }; /* a control byte that makes a shuffle put 0 */

static uint64_t word_of(const uint8_t bytes[8])
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* The same control for the upper half: every index 8 further. */
static uint64_t eight_further(const uint8_t bytes[8])
{
    uint8_t moved[8];
    for (int i = 0; i < 8; i++)
        moved[i] = bytes[i] == NOTHING ? NOTHING : (uint8_t)(bytes[i] + 8);
    return word_of(moved);
}

static void set(shoali_inc_shuffle *shuffle, unsigned index, const uint8_t control[8])
{
    shuffle->lower[index] = word_of(control);
    shuffle->upper[index] = eight_further(control);
}

static void fill_bitmap_rows(shoali_inc_tables *t, unsigned map)
{
    uint8_t squeeze[8], spread[8];
    uint8_t rank = 0;
    memset(squeeze, NOTHING, sizeof squeeze);
    memset(spread, NOTHING, sizeof spread);
    for (unsigned i = 0; i < 8; i++)
        if ((map >> i & 1) != 0) {
            squeeze[rank] = (uint8_t)i;
            spread[i] = rank++;
            t->apart[map] |= (uint16_t)(1u << 2 * i);
        }
    set(&t->squeeze, map, squeeze);
    set(&t->spread, map, spread);
}

/* Four tags; those with RAW are not used. */
static void fill_tag_rows(shoali_inc_tables *t, unsigned tags)
{
    uint8_t pack[8], unpack[8];
    uint8_t used = 0;
    memset(pack, NOTHING, sizeof pack);
    memset(unpack, NOTHING, sizeof unpack);
    for (uint8_t i = 0; i < 4; i++) {
        unsigned tag = tags >> 2 * i & 3;
        if (tag == SHOALI_INC_WORD) {
            pack[used] = (uint8_t)(2 * i);
            unpack[2 * i] = used++;
        }
        if (tag == SHOALI_INC_WORD || tag == SHOALI_INC_BYTE) {
            pack[used] = (uint8_t)(2 * i + 1);
            unpack[2 * i + 1] = used++;
        }
    }
    t->pack_bytes[tags] = used;
    set(&t->pack, tags, pack);
    set(&t->unpack, tags, unpack);
}

static void fill_tables(void)
{
    for (unsigned i = 0; i < 256; i++) {
        fill_bitmap_rows(&shoali_inc_avx2_tables, i);
        fill_tag_rows(&shoali_inc_avx2_tables, i);
    }
}

void shoali_inc_avx2_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_tables);
}

/* ---------------------------------------------------------------- encode */

enum { STRIDES = SHOALI_INC_BLOCK / SHOALI_INC_STRIDE }; /* words in a block's bitmap */

static unsigned ones(uint32_t bits)
{
    return (unsigned)_mm_popcnt_u32(bits);
}

/* Bytes whose bit is set, packed to dst; up to 8 bytes behind the end are overwritten. */
static inline uint8_t *squeeze(__m128i bytes, uint32_t map, uint8_t *dst)
{
    const shoali_inc_shuffle *table = &shoali_inc_avx2_tables.squeeze;
    __m128i control = shoali_inc_halves(&table->lower[map & 0xff], &table->upper[map >> 8]);
    __m128i packed = _mm_shuffle_epi8(bytes, control);
    _mm_storel_epi64((__m128i *)(void *)dst, packed);
    shoali_inc_store_upper(dst + ones(map & 0xff), packed);
    return dst + ones(map);
}

static inline uint8_t *squeeze32(__m256i bytes, uint32_t map, uint8_t *dst)
{
    dst = squeeze(_mm256_castsi256_si128(bytes), map & 0xffff, dst);
    return squeeze(_mm256_extracti128_si256(bytes, 1), map >> 16, dst);
}

static uint8_t *copy_raws(const float *src, uint32_t raws, uint8_t *dst)
{
    for (; raws != 0; raws &= raws - 1) {
        memcpy(dst, src + __builtin_ctz(raws), sizeof *src);
        dst += sizeof *src;
    }
    return dst;
}

/* Up to 32 whole strides. dst has room for a full block whatever their number. */
static size_t block_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                           size_t map_bytes, uint8_t *dst)
{
    uint32_t high[STRIDES], low[STRIDES];
    uint8_t low_bytes[SHOALI_INC_BLOCK + 8], raw_bytes[SHOALI_INC_BLOCK * 4];
    uint8_t *at = dst + 2 * map_bytes, *low_at = low_bytes, *raw_at = raw_bytes;
    const __m256i lower = _mm256_set1_epi16(0xff);
    for (size_t i = 0; i < count; i += SHOALI_INC_STRIDE) {
        shoali_inc_stride s = shoali_inc_stride_load(rule, src + i);
        high[i / SHOALI_INC_STRIDE] = s.high;
        low[i / SHOALI_INC_STRIDE] = s.low;
        if (s.high != 0)
            at = squeeze32(_mm256_packus_epi16(_mm256_srli_epi16(s.word[0], 8),
                                               _mm256_srli_epi16(s.word[1], 8)),
                           s.high, at);
        if ((s.low & s.high) != 0)
            low_at = squeeze32(_mm256_packus_epi16(_mm256_and_si256(s.word[0], lower),
                                                   _mm256_and_si256(s.word[1], lower)),
                               s.low & s.high, low_at);
        if ((s.low & ~s.high) != 0)
            raw_at = copy_raws(src + i, s.low & ~s.high, raw_at);
    }
    memcpy(dst, high, map_bytes);
    memcpy(dst + map_bytes, low, map_bytes);
    memcpy(at, low_bytes, (size_t)(low_at - low_bytes));
    at += low_at - low_bytes;
    memcpy(at, raw_bytes, (size_t)(raw_at - raw_bytes));
    return (size_t)(at - dst) + (size_t)(raw_at - raw_bytes);
}

/* Fewer elements than a block: padded with zeros, which cost nothing, and coded beside dst, which may be short. */
static size_t tail_encode(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    float padded[SHOALI_INC_BLOCK];
    uint8_t bytes[SHOALI_INC_BLOCK_BYTES];
    memcpy(padded, src, count * sizeof *src);
    memset(padded + count, 0, (SHOALI_INC_BLOCK - count) * sizeof *src);
    size_t used = block_encode(rule, padded, count, (count + 7) / 8, bytes);
    memcpy(dst, bytes, used);
    return used;
}

static size_t planes_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                            uint8_t *dst)
{
    const shoali_inc_rule local = *rule; /* stays in registers: dst cannot overlap it */
    size_t i = 0;
    uint8_t *at = dst;
    for (; i + SHOALI_INC_BLOCK <= count; i += SHOALI_INC_BLOCK)
        at += block_encode(&local, src + i, SHOALI_INC_BLOCK, SHOALI_INC_BLOCK / 8, at);
    if (i < count)
        at += tail_encode(&local, src + i, count - i, at);
    return (size_t)(at - dst);
}

/* ---------------------------------------------------------------- decode */

typedef struct block {
    uint32_t high[STRIDES], low[STRIDES];
    const uint8_t *high_at, *low_at, *raw_at;
} block;

/* Bytes of the block at src, or CORRUPT. */
static size_t block_open(const uint8_t *src, size_t len_bytes, size_t count, block *b)
{
    size_t map_bytes = (count + 7) / 8, highs = 0, words = 0, raws = 0;
    if (len_bytes < 2 * map_bytes)
        return SHOALI_INC_CORRUPT;
    if (count < SHOALI_INC_BLOCK) {
        if (count % 8 != 0 && (src[map_bytes - 1] | src[2 * map_bytes - 1]) >> count % 8 != 0)
            return SHOALI_INC_CORRUPT;
        memset(b->high, 0, sizeof b->high);
        memset(b->low, 0, sizeof b->low);
    }
    memcpy(b->high, src, map_bytes);
    memcpy(b->low, src + map_bytes, map_bytes);
    for (size_t i = 0; i < STRIDES; i++) {
        highs += ones(b->high[i]);
        words += ones(b->high[i] & b->low[i]);
        raws += ones(b->low[i] & ~b->high[i]);
    }
    size_t bytes = 2 * map_bytes + highs + words + raws * sizeof(float);
    b->high_at = src + 2 * map_bytes;
    b->low_at = b->high_at + highs;
    b->raw_at = b->low_at + words;
    return bytes <= len_bytes ? bytes : SHOALI_INC_CORRUPT;
}

/* 16 bytes, those with a set bit taken from src in turn, 0 elsewhere. Reads up to 8 bytes too many. */
static inline __m128i spread(const uint8_t *src, uint32_t map)
{
    const shoali_inc_shuffle *table = &shoali_inc_avx2_tables.spread;
    __m128i control = shoali_inc_halves(&table->lower[map & 0xff], &table->upper[map >> 8]);
    return _mm_shuffle_epi8(shoali_inc_halves(src, src + ones(map & 0xff)), control);
}

static inline __m256i spread32(const uint8_t *src, uint32_t map)
{
    return _mm256_set_m128i(spread(src + ones(map & 0xffff), map >> 16), spread(src, map & 0xffff));
}

static inline void stride_put(block *b, uint32_t high, uint32_t words, __m256 unit, float *dst,
                              bool add)
{
    __m256i upper = spread32(b->high_at, high), lower = _mm256_setzero_si256();
    b->high_at += ones(high);
    if (words != 0)
        lower = spread32(b->low_at, words);
    b->low_at += ones(words);
    shoali_inc_put(_mm256_unpacklo_epi8(lower, upper), _mm256_unpackhi_epi8(lower, upper), unit,
                   dst, add);
}

/* count < 32 at the end of the piece, or some element is RAW: by way of a buffer. */
static void odd_stride(block *b, size_t s, __m256 unit, float *dst, size_t count, bool add)
{
    float value[SHOALI_INC_STRIDE];
    stride_put(b, b->high[s], b->high[s] & b->low[s], unit, value, false);
    for (uint32_t raws = b->low[s] & ~b->high[s]; raws != 0; raws &= raws - 1) {
        memcpy(&value[__builtin_ctz(raws)], b->raw_at, sizeof *value);
        b->raw_at += sizeof *value;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = add ? dst[i] + value[i] : value[i];
}

static inline void block_decode(block *b, __m256 unit, float *dst, size_t count, bool add)
{
    for (size_t s = 0; s * SHOALI_INC_STRIDE < count; s++, dst += SHOALI_INC_STRIDE) {
        size_t left = count - s * SHOALI_INC_STRIDE;
        left = left < SHOALI_INC_STRIDE ? left : SHOALI_INC_STRIDE;
        if ((b->high[s] | b->low[s]) == 0) {
            if (!add)
                memset(dst, 0, left * sizeof *dst);
        } else if (left < SHOALI_INC_STRIDE || (b->low[s] & ~b->high[s]) != 0) {
            odd_stride(b, s, unit, dst, left, add);
        } else {
            stride_put(b, b->high[s], b->low[s], unit, dst, add);
        }
    }
}

static inline size_t decode_all(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                                float *dst, size_t count, bool add)
{
    const __m256 unit = shoali_inc_unit(rule);
    uint8_t copy[SHOALI_INC_BLOCK_BYTES + 8];
    size_t used = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_BLOCK) {
        size_t n = count - i < SHOALI_INC_BLOCK ? count - i : SHOALI_INC_BLOCK;
        block b;
        size_t bytes = block_open(src + used, len_bytes - used, n, &b);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        if (len_bytes - used - bytes < 8) { /* spread() would read beyond the end */
            memcpy(copy, src + used, bytes);
            b.high_at = copy + (b.high_at - (src + used));
            b.low_at = copy + (b.low_at - (src + used));
            b.raw_at = copy + (b.raw_at - (src + used));
        }
        block_decode(&b, unit, dst + i, n, add);
        used += bytes;
    }
    return used;
}

static size_t planes_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                            float *dst, size_t count, bool add)
{
    return add ? decode_all(rule, src, len_bytes, dst, count, true)
               : decode_all(rule, src, len_bytes, dst, count, false);
}

const shoali_inc_loops shoali_inc_avx2_planes = {planes_encode, planes_decode};
