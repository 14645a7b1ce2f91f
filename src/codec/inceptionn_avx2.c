/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn with AVX2: the tables, and the layout `planes`. */
#include "codec/inceptionn_avx2.h"

#include <pthread.h>
#include <string.h>

shoali_inc_tables shoali_inc_avx2_tables;

/* ---------------------------------------------------------------- tables */

enum { NOTHING = 0x80 }; /* a control byte that makes a shuffle put 0 */

static uint64_t row_of(const uint8_t control[8])
{
    uint64_t row;
    memcpy(&row, control, sizeof row);
    return row;
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
    t->squeeze[map] = row_of(squeeze);
    t->spread[map] = row_of(spread);
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
    t->pack[tags] = row_of(pack);
    t->unpack[tags] = row_of(unpack);
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

SHOALI_INC_INLINE unsigned ones(uint32_t bits)
{
    return (unsigned)_mm_popcnt_u32(bits);
}

/* Four rows by the bytes of a bitmap: a control for 32 bytes. Broadcasts and blends spare the port
 * that shuffles. */
SHOALI_INC_INLINE __m256i control_of(const uint64_t table[256], uint32_t map)
{
    __m256i a = _mm256_set1_epi64x((long long)table[map & 0xff]);
    __m256i b = _mm256_set1_epi64x((long long)table[map >> 8 & 0xff]);
    __m256i c = _mm256_set1_epi64x((long long)table[map >> 16 & 0xff]);
    __m256i d = _mm256_set1_epi64x((long long)table[map >> 24]);
    return _mm256_blend_epi32(_mm256_blend_epi32(a, b, 0x0c), _mm256_blend_epi32(c, d, 0xc0), 0xf0);
}

/* Bytes whose bit is set, packed to dst; up to 8 bytes behind the end are overwritten. */
SHOALI_INC_INLINE uint8_t *squeeze(__m256i bytes, uint32_t map, uint8_t *dst)
{
    /* indices count in 16 bytes: the upper half's eight are 8 further */
    const __m256i further = _mm256_set_epi64x(0x0808080808080808, 0, 0x0808080808080808, 0);
    __m256i control = _mm256_or_si256(control_of(shoali_inc_avx2_tables.squeeze, map), further);
    __m256i packed = _mm256_shuffle_epi8(bytes, control);
    __m128i first = _mm256_castsi256_si128(packed), second = _mm256_extracti128_si256(packed, 1);
    _mm_storel_epi64((__m128i *)(void *)dst, first);
    shoali_inc_store_upper(dst + ones(map & 0xff), first);
    _mm_storel_epi64((__m128i *)(void *)(dst + ones(map & 0xffff)), second);
    shoali_inc_store_upper(dst + ones(map & 0xffffff), second);
    return dst + ones(map);
}

static uint8_t *copy_raws(const float *src, uint32_t raws, uint8_t *dst)
{
    for (; raws != 0; raws &= raws - 1) {
        memcpy(dst, src + shoali_inc_element((size_t)__builtin_ctz(raws)), sizeof *src);
        dst += sizeof *src;
    }
    return dst;
}

/* Hardware prefetchers stop at the end of a page, where a loop this dense then waits: measured, a
 * lead of 2 KB makes loops over memory up to a third faster, and costs nothing in the cache. */
SHOALI_INC_INLINE void prefetch(const void *at)
{
    enum { LEAD_BYTES = 2048 };
    _mm_prefetch((const char *)((uintptr_t)at + LEAD_BYTES), _MM_HINT_T0);
}

SHOALI_INC_INLINE void prefetch_stride(const float *at)
{
    prefetch(at);
    prefetch(at + SHOALI_INC_STRIDE / 2);
}

SHOALI_INC_INLINE __m256i upper_bytes(__m256i word0, __m256i word1)
{
    return _mm256_packus_epi16(_mm256_srli_epi16(word0, 8), _mm256_srli_epi16(word1, 8));
}

SHOALI_INC_INLINE __m256i lower_bytes(__m256i word0, __m256i word1)
{
    const __m256i lower = _mm256_set1_epi16(0xff);
    return _mm256_packus_epi16(_mm256_and_si256(word0, lower), _mm256_and_si256(word1, lower));
}

static uint8_t *append(uint8_t *dst, const void *bytes, size_t len_bytes)
{
    memcpy(dst, bytes, len_bytes);
    return dst + len_bytes;
}

/* Whole strides; the end. dst has room for a full block whatever their number. With zmap only the
 * bitmaps of live strides, behind the word that tells them: the planes, which were put down behind
 * the room for all bitmaps, then move up. */
SHOALI_INC_INLINE uint8_t *block_encode(const shoali_inc_lanes *lanes, const float *src,
                                        size_t strides, uint8_t *dst, bool zmap)
{
    uint32_t high[SHOALI_INC_STRIDES], low[SHOALI_INC_STRIDES], live = 0;
    uint8_t low_bytes[SHOALI_INC_BLOCK + 8], raw_bytes[SHOALI_INC_BLOCK * sizeof(float)];
    uint8_t *const room = dst + (zmap ? sizeof live : 0) + 8 * strides;
    uint8_t *at = room, *low_at = low_bytes, *raw_at = raw_bytes;
    size_t kept = 0;
    for (size_t i = 0; i < strides; i++, src += SHOALI_INC_STRIDE) {
        prefetch_stride(src);
        prefetch(dst + i * (SHOALI_INC_BLOCK_BYTES / 2 / SHOALI_INC_STRIDES));
        shoali_inc_stride s = shoali_inc_stride_load(lanes, src, false);
        uint32_t words = s.low & s.high, raws = s.low & ~s.high;
        const uint32_t some = !zmap || (s.high | s.low) != 0;
        high[kept] = s.high;
        low[kept] = s.low;
        kept += some;
        live |= some << i;
        if (s.high != 0)
            at = squeeze(upper_bytes(s.word0, s.word1), s.high, at);
        if (words != 0)
            low_at = squeeze(lower_bytes(s.word0, s.word1), words, low_at);
        if (raws != 0)
            raw_at = copy_raws(src, raws, raw_at);
    }
    if (zmap)
        dst = append(dst, &live, sizeof live);
    dst = append(append(dst, high, 4 * kept), low, 4 * kept);
    if (kept < strides) {
        memmove(dst, room, (size_t)(at - room));
        at = dst + (at - room);
    }
    at = append(at, low_bytes, (size_t)(low_at - low_bytes));
    return append(at, raw_bytes, (size_t)(raw_at - raw_bytes));
}

/* Fewer elements than a block: padded with zeros, which cost nothing, and coded beside dst, which
 * may be short. */
static uint8_t *tail_encode(const shoali_inc_lanes *lanes, const float *src, size_t count,
                            uint8_t *dst, bool zmap)
{
    float padded[SHOALI_INC_BLOCK];
    uint8_t bytes[sizeof(uint32_t) + SHOALI_INC_BLOCK_BYTES];
    size_t strides = shoali_inc_strides(count);
    memcpy(padded, src, count * sizeof *src);
    memset(padded + count, 0, (SHOALI_INC_STRIDE * strides - count) * sizeof *src);
    const uint8_t *end = block_encode(lanes, padded, strides, bytes, zmap);
    return append(dst, bytes, (size_t)(end - bytes));
}

SHOALI_INC_INLINE size_t encode_all(const shoali_inc_rule *rule, const float *src, size_t count,
                                    uint8_t *dst, bool zmap)
{
    const shoali_inc_lanes lanes = shoali_inc_lanes_make(rule);
    size_t i = 0;
    uint8_t *at = dst;
    for (; i + SHOALI_INC_BLOCK <= count; i += SHOALI_INC_BLOCK)
        at = block_encode(&lanes, src + i, SHOALI_INC_STRIDES, at, zmap);
    if (i < count)
        at = tail_encode(&lanes, src + i, count - i, at, zmap);
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

/* ---------------------------------------------------------------- decode */

typedef struct reader {
    uint32_t high[SHOALI_INC_STRIDES], low[SHOALI_INC_STRIDES];
    const uint8_t *high_at, *low_at, *raw_at;
    const uint8_t *next; /* to prefetch, a step for each stride: bursts of prefetches stall */
    size_t next_step;
} reader;

/* The bitmaps at src; their bytes. */
SHOALI_INC_INLINE size_t head_open(const uint8_t *src, size_t len_bytes, size_t strides, bool zmap,
                                   reader *r)
{
    if (zmap)
        return shoali_inc_zmap_head(src, len_bytes, strides, r->high, r->low);
    if (len_bytes < 8 * strides)
        return SHOALI_INC_CORRUPT;
    memcpy(r->high, src, 4 * strides);
    memcpy(r->low, src + 4 * strides, 4 * strides);
    return 8 * strides;
}

/* The planes, at src; their bytes, or CORRUPT if there are fewer. Two strides at a time; words
 * beyond the last stride must be 0. */
SHOALI_INC_INLINE size_t planes_open(const uint8_t *src, size_t len_bytes, size_t strides,
                                     reader *r)
{
    size_t highs = 0, words = 0, raws = 0;
    for (size_t i = 0; i < strides; i += 2) {
        uint64_t high, low;
        memcpy(&high, &r->high[i], sizeof high);
        memcpy(&low, &r->low[i], sizeof low);
        highs += (size_t)_mm_popcnt_u64(high);
        words += (size_t)_mm_popcnt_u64(high & low);
        if (__builtin_expect((low & ~high) != 0, 0))
            raws += (size_t)_mm_popcnt_u64(low & ~high);
    }
    size_t bytes = highs + words + raws * sizeof(float);
    r->high_at = src;
    r->low_at = r->high_at + highs;
    r->raw_at = r->low_at + words;
    return bytes <= len_bytes ? bytes : SHOALI_INC_CORRUPT;
}

enum { SPREAD_BEFORE = 8, SPREAD_BEHIND = 16 };

/* 32 bytes, those with a set bit taken from src in turn, 0 elsewhere. Reads up to SPREAD_BEFORE and
 * SPREAD_BEHIND bytes beyond what it takes. */
SHOALI_INC_INLINE __m256i spread(const uint8_t *src, uint32_t map)
{
    const uint8_t *eight[4] = {src, src + ones(map & 0xff) - 8, src + ones(map & 0xffff),
                               src + ones(map & 0xffffff) - 8};
    __m256i lower = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)eight[2]),
                                     _mm_loadu_si128((const __m128i *)(const void *)eight[0]));
    __m256i upper = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(const void *)eight[3]),
                                     _mm_loadu_si128((const __m128i *)(const void *)eight[1]));
    const __m256i further = _mm256_set_epi64x(0x0808080808080808, 0, 0x0808080808080808, 0);
    __m256i control = _mm256_or_si256(control_of(shoali_inc_avx2_tables.spread, map), further);
    return _mm256_shuffle_epi8(_mm256_blend_epi32(lower, upper, 0xcc), control);
}

SHOALI_INC_INLINE __m256i unsign(__m256i word)
{
    return _mm256_sign_epi16(_mm256_and_si256(word, _mm256_set1_epi16(0x7fff)), word);
}

SHOALI_INC_INLINE void put8(__m256i units, __m256 unit, float *dst, bool add)
{
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(units), unit);
    if (add)
        value = _mm256_add_ps(_mm256_loadu_ps(dst), value);
    _mm256_storeu_ps(dst, value);
}

/* Words of 16 elements; unpacking puts them into order and shifts them by 16. */
SHOALI_INC_INLINE void put16(__m256i words, __m256 unit, float *dst, bool add)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i value = unsign(words);
    put8(_mm256_unpacklo_epi16(zero, value), unit, dst, add);
    put8(_mm256_unpackhi_epi16(zero, value), unit, dst + 8, add);
}

SHOALI_INC_INLINE void stride_put(reader *r, uint32_t high, uint32_t words, __m256 unit, float *dst,
                                  bool add)
{
    __m256i upper = spread(r->high_at, high), lower = _mm256_setzero_si256();
    r->high_at += ones(high);
    if (words != 0)
        lower = spread(r->low_at, words);
    r->low_at += ones(words);
    put16(_mm256_unpacklo_epi8(lower, upper), unit, dst, add);
    put16(_mm256_unpackhi_epi8(lower, upper), unit, dst + 16, add);
}

/* A short stride, or one with RAW elements: by way of a buffer. */
static void odd_stride(reader *r, uint32_t high, uint32_t low, __m256 unit, float *dst,
                       size_t count, bool add)
{
    float value[SHOALI_INC_STRIDE];
    stride_put(r, high, high & low, unit, value, false);
    for (uint32_t raws = low & ~high; raws != 0; raws &= raws - 1) {
        memcpy(&value[shoali_inc_element((size_t)__builtin_ctz(raws))], r->raw_at, sizeof *value);
        r->raw_at += sizeof *value;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = add ? dst[i] + value[i] : value[i];
}

SHOALI_INC_INLINE void put_zeros(float *dst)
{
    for (size_t i = 0; i < SHOALI_INC_STRIDE; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_setzero_ps());
}

SHOALI_INC_INLINE void strides_decode(reader *from, size_t strides, __m256 unit, float *dst,
                                      bool add)
{
    reader r = {.high_at = from->high_at, .low_at = from->low_at, .raw_at = from->raw_at};
    for (size_t i = 0; i < strides; i++, dst += SHOALI_INC_STRIDE) {
        uint32_t high = from->high[i], low = from->low[i];
        prefetch(from->next + i * from->next_step);
        if (!add || high != 0) /* sums of sparse data leave most of dst alone */
            prefetch_stride(dst);
        if ((low & ~high) != 0)
            odd_stride(&r, high, low, unit, dst, SHOALI_INC_STRIDE, add);
        else if (high != 0)
            stride_put(&r, high, low, unit, dst, add);
        else if (!add)
            put_zeros(dst);
    }
    from->high_at = r.high_at, from->low_at = r.low_at, from->raw_at = r.raw_at;
}

/* The last block of a piece, if short or at the very end of src: by way of a copy with room on both
 * sides. */
static size_t tail_decode(const uint8_t *src, size_t len_bytes, __m256 unit, float *dst,
                          size_t count, bool add, bool zmap)
{
    uint8_t copy[SPREAD_BEFORE + SHOALI_INC_BLOCK_BYTES + SPREAD_BEHIND];
    size_t strides = shoali_inc_strides(count), full = count / SHOALI_INC_STRIDE;
    reader r = {.high = {0}, .next = src};
    const size_t head = head_open(src, len_bytes, strides, zmap, &r);
    if (head == SHOALI_INC_CORRUPT)
        return head;
    size_t bytes = planes_open(copy + SPREAD_BEFORE, len_bytes - head, strides, &r);
    if (bytes == SHOALI_INC_CORRUPT)
        return bytes;
    memcpy(copy + SPREAD_BEFORE, src + head, bytes);
    strides_decode(&r, full, unit, dst, add);
    if (full == strides)
        return head + bytes;
    uint32_t high = r.high[full], low = r.low[full];
    size_t rest = count - full * SHOALI_INC_STRIDE;
    if (((high | low) & ~shoali_inc_stride_bits(rest)) != 0)
        return SHOALI_INC_CORRUPT;
    if ((high | low) != 0)
        odd_stride(&r, high, low, unit, dst + full * SHOALI_INC_STRIDE, rest, add);
    else if (!add)
        memset(dst + full * SHOALI_INC_STRIDE, 0, rest * sizeof *dst);
    return head + bytes;
}

SHOALI_INC_INLINE size_t decode_all(const shoali_inc_rule *rule, const uint8_t *src,
                                    size_t len_bytes, float *dst, size_t count, bool add, bool zmap)
{
    const __m256 unit = shoali_inc_unit(rule, 16);
    size_t used = 0, i = 0;
    for (; i + SHOALI_INC_BLOCK <= count; i += SHOALI_INC_BLOCK) {
        reader r;
        const size_t head = head_open(src + used, len_bytes - used, SHOALI_INC_STRIDES, zmap, &r);
        if (head == SHOALI_INC_CORRUPT)
            return head;
        const size_t left = len_bytes - used - head;
        size_t bytes = planes_open(src + used + head, left, SHOALI_INC_STRIDES, &r);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        if (left - bytes < SPREAD_BEHIND)
            break;
        used += head + bytes;
        r.next = src + used;
        r.next_step = bytes / SHOALI_INC_STRIDES; /* the next block will be about as long */
        strides_decode(&r, SHOALI_INC_STRIDES, unit, dst + i, add);
    }
    while (i < count) {
        size_t n = count - i < SHOALI_INC_BLOCK ? count - i : SHOALI_INC_BLOCK;
        size_t bytes = tail_decode(src + used, len_bytes - used, unit, dst + i, n, add, zmap);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        i += n;
        used += bytes;
    }
    return used;
}

static size_t planes_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                            float *dst, size_t count, bool add)
{
    return add ? decode_all(rule, src, len_bytes, dst, count, true, false)
               : decode_all(rule, src, len_bytes, dst, count, false, false);
}

static size_t zmap_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                          float *dst, size_t count, bool add)
{
    return add ? decode_all(rule, src, len_bytes, dst, count, true, true)
               : decode_all(rule, src, len_bytes, dst, count, false, true);
}

const shoali_inc_loops shoali_inc_avx2_planes = {planes_encode, planes_decode};
const shoali_inc_loops shoali_inc_avx2_zmap = {zmap_encode, zmap_decode};
