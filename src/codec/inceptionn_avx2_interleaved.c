/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn with AVX2, layout `interleaved`. Eight elements are one group: its words are packed in
 * two halves of four, because a table by four tags fits the first cache and one by eight does not.
 * Decoding has to know one group's tags before it can find the next: that chain, not arithmetic,
 * sets its speed. */
#include <string.h>

#include "codec/inceptionn_avx2.h"

/* Room that a group may use, and that its stores and loads may touch. */
enum { GROUP_MOST = 2 + 4 * SHOALI_INC_GROUP };

/* A group without RAW elements. */
SHOALI_INC_INLINE uint8_t *group_pack(__m128i words, uint32_t high, uint32_t low, uint8_t *dst)
{
    const shoali_inc_tables *t = &shoali_inc_avx2_tables;
    /* BYTE is high alone, WORD is both: 1 and 2 */
    uint32_t tags = t->apart[high ^ low] | (uint32_t)t->apart[low] << 1;
    const __m128i further = _mm_set_epi64x(0x0808080808080808, 0); /* the upper half's bytes */
    __m128i control = shoali_inc_control(t->pack, tags & 0xff, tags >> 8);
    control = _mm_or_si128(control, further);
    __m128i packed = _mm_shuffle_epi8(words, control);
    memcpy(dst, &(uint16_t){(uint16_t)tags}, 2);
    _mm_storel_epi64((__m128i *)(void *)(dst + 2), packed);
    shoali_inc_store_upper(dst + 2 + t->pack_bytes[tags & 0xff], packed);
    return dst + 2 + _mm_popcnt_u32(high) + _mm_popcnt_u32(low);
}

static uint8_t *groups_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                              uint8_t *dst)
{
    for (size_t i = 0; i < count; i += SHOALI_INC_GROUP) {
        size_t n = count - i < SHOALI_INC_GROUP ? count - i : SHOALI_INC_GROUP;
        dst += shoali_inc_group_encode(rule, src + i, n, dst);
    }
    return dst;
}

static size_t interleaved_encode(const shoali_inc_rule *rule, const float *src, size_t count,
                                 uint8_t *dst)
{
    const shoali_inc_lanes lanes = shoali_inc_lanes_make(rule);
    uint8_t *at = dst;
    size_t i = 0;
    for (; i + SHOALI_INC_STRIDE <= count; i += SHOALI_INC_STRIDE) {
        shoali_inc_stride s = shoali_inc_stride_load(&lanes, src + i, true);
        if ((s.low & ~s.high) != 0) {
            at = groups_encode(rule, src + i, SHOALI_INC_STRIDE, at);
        } else if (s.high == 0) {
            memset(at, 0, 8);
            at += 8;
        } else {
            at = group_pack(_mm256_castsi256_si128(s.word0), s.high & 0xff, s.low & 0xff, at);
            at = group_pack(_mm256_castsi256_si128(s.word1), s.high >> 8 & 0xff, s.low >> 8 & 0xff,
                            at);
            at = group_pack(_mm256_extracti128_si256(s.word0, 1), s.high >> 16 & 0xff,
                            s.low >> 16 & 0xff, at);
            at = group_pack(_mm256_extracti128_si256(s.word1, 1), s.high >> 24, s.low >> 24, at);
        }
    }
    return (size_t)(groups_encode(rule, src + i, count - i, at) - dst);
}

SHOALI_INC_INLINE void group_put(const uint8_t *payload, uint32_t tags, __m256 unit, float *dst,
                                 bool add)
{
    const shoali_inc_tables *t = &shoali_inc_avx2_tables;
    const __m128i further = _mm_set_epi64x(0x0808080808080808, 0);
    __m128i control = shoali_inc_control(t->unpack, tags & 0xff, tags >> 8);
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)payload);
    bytes = shoali_inc_join(bytes, payload + t->pack_bytes[tags & 0xff]);
    __m128i words = _mm_shuffle_epi8(bytes, _mm_or_si128(control, further));
    words = _mm_sign_epi16(_mm_and_si128(words, _mm_set1_epi16(0x7fff)), words);
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(words)), unit);
    if (add)
        value = _mm256_add_ps(_mm256_loadu_ps(dst), value);
    _mm256_storeu_ps(dst, value);
}

/* Whole groups of 8 while a group of any size, read 8 bytes at a time, lies within the input. */
SHOALI_INC_INLINE size_t groups_decode(const shoali_inc_rule *rule, const uint8_t *src,
                                       size_t len_bytes, float *dst, size_t count, bool add,
                                       size_t *done_out)
{
    const __m256 unit = shoali_inc_unit(rule, 0);
    const uint8_t *at = src;
    size_t i = 0;
    for (; i + SHOALI_INC_GROUP <= count && len_bytes - (size_t)(at - src) >= GROUP_MOST;
         i += SHOALI_INC_GROUP) {
        uint16_t tags;
        memcpy(&tags, at, sizeof tags);
        if (tags == 0) {
            if (!add)
                _mm256_storeu_ps(dst + i, _mm256_setzero_ps());
            at += 2;
        } else if ((tags & tags >> 1 & 0x5555) != 0) {
            at += shoali_inc_group_decode(rule, at, GROUP_MOST, dst + i, SHOALI_INC_GROUP, add);
        } else {
            group_put(at + 2, tags, unit, dst + i, add);
            at += 2 + _mm_popcnt_u32(tags) + _mm_popcnt_u32(tags & 0xaaaa);
        }
    }
    *done_out = i;
    return (size_t)(at - src);
}

static size_t interleaved_decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                                 float *dst, size_t count, bool add)
{
    size_t i, used;
    used = add ? groups_decode(rule, src, len_bytes, dst, count, true, &i)
               : groups_decode(rule, src, len_bytes, dst, count, false, &i);
    for (; i < count; i += SHOALI_INC_GROUP) {
        size_t n = count - i < SHOALI_INC_GROUP ? count - i : SHOALI_INC_GROUP;
        size_t bytes = shoali_inc_group_decode(rule, src + used, len_bytes - used, dst + i, n, add);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        used += bytes;
    }
    return used;
}

const shoali_inc_loops shoali_inc_avx2_interleaved = {interleaved_encode, interleaved_decode};
