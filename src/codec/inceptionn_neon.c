/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn with NEON, layout `planes`, with and without zmap; interleaved bytes are the plain
 * loops' own. 32 elements become 16-bit words and two bitmaps, in the order of the layout by the
 * order in which they are loaded; tables of 8 bits say how a lookup squeezes bytes together and
 * spreads them again. */
#include <arm_neon.h>
#include <pthread.h>
#include <string.h>

#include "codec/inceptionn.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    STRIDE = SHOALI_INC_STRIDE,
    STRIDES = SHOALI_INC_STRIDES,
    BLOCK = SHOALI_INC_BLOCK,
    NOTHING = 0xff, /* an index that a lookup answers with 0 */
    BEHIND = 8      /* a lookup reads and writes eight bytes, however few it takes */
};

/* Where eight words of a stride lie: four elements from each place on. */
static const uint8_t places[4][2] = {{0, 8}, {16, 24}, {4, 12}, {20, 28}};

/* ---------------------------------------------------------------- tables */

/* By 8 bits of a bitmap: bytes whose bit is set to the front, and back. */
static uint8_t squeezes[256][8], spreads[256][8];

static void fill_tables(void)
{
    memset(squeezes, NOTHING, sizeof squeezes);
    memset(spreads, NOTHING, sizeof spreads);
    for (unsigned map = 0; map < 256; map++) {
        uint8_t rank = 0;
        for (uint8_t i = 0; i < 8; i++)
            if ((map >> i & 1) != 0) {
                squeezes[map][rank] = i;
                spreads[map][i] = rank++;
            }
    }
}

void shoali_inc_neon_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_tables);
}

INLINE size_t ones(uint32_t bits)
{
    return (size_t)__builtin_popcount(bits);
}

/* ---------------------------------------------------------------- encode */

/* The rule in registers. */
typedef struct lanes {
    float32x4_t scale; /* to units of 2^-15 after the prescale */
    uint16x8_t byte_bits, word_bits;
    uint16x8_t below_sign; /* largest magnitude whose sign is not sent */
    uint32_t raw_from;
} lanes;

static lanes lanes_make(const shoali_inc_rule *rule)
{
    return (lanes){
        .scale = vreinterpretq_f32_u32(vdupq_n_u32((127 + 15 + rule->power) << 23)),
        .byte_bits = vdupq_n_u16(rule->byte_bits),
        .word_bits = vdupq_n_u16(rule->word_bits),
        /* A BYTE of magnitude 0 has no sign. Strict mode makes none, but WORDs that small. */
        .below_sign = vdupq_n_u16(rule->strict ? 0 : 0xff),
        .raw_from = rule->raw_from,
    };
}

typedef struct stride {
    uint16x8_t words[4]; /* of RAW elements: anything */
    uint32_t high, low;
} stride;

/* Bitmap of 32 lanes that are all ones or zero. */
INLINE uint32_t bitmap(const uint16x8_t masks[4])
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t weight = vld1q_u8(weights);
    const uint8x16_t a = vcombine_u8(vmovn_u16(masks[0]), vmovn_u16(masks[1]));
    const uint8x16_t b = vcombine_u8(vmovn_u16(masks[2]), vmovn_u16(masks[3]));
    uint8x16_t sums = vpaddq_u8(vandq_u8(a, weight), vandq_u8(b, weight));
    sums = vpaddq_u8(sums, sums);
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(sums), 0);
}

/* Four elements truncated to words in two's complement; the largest magnitude bits seen. */
INLINE int16x4_t truncate(const lanes *r, const float *src, uint32x4_t *largest)
{
    const float32x4_t x = vld1q_f32(src);
    *largest = vmaxq_u32(*largest, vreinterpretq_u32_f32(vabsq_f32(x)));
    return vqmovn_s32(vcvtq_s32_f32(vmulq_f32(x, r->scale)));
}

static __attribute__((noinline, cold)) uint32_t raw_bits(const lanes *r, const float *src)
{
    uint32_t bits = 0;
    for (size_t j = 0; j < STRIDE; j++) {
        uint32_t x;
        memcpy(&x, src + shoali_inc_element(j), sizeof x);
        bits |= (uint32_t)((x & 0x7fffffffu) >= r->raw_from) << j;
    }
    return bits;
}

INLINE stride stride_load(const lanes *r, const float *src)
{
    stride s;
    uint32x4_t largest = vdupq_n_u32(0);
    uint16x8_t high[4], low[4];
    for (int i = 0; i < 4; i++) {
        const int16x8_t word = vcombine_s16(truncate(r, src + places[i][0], &largest),
                                            truncate(r, src + places[i][1], &largest));
        const uint16x8_t magnitude = vreinterpretq_u16_s16(vqabsq_s16(word));
        const uint16x8_t sign = vandq_u16(vreinterpretq_u16_s16(word),
                                          vcgtq_u16(magnitude, r->below_sign));
        high[i] = vcgeq_u16(magnitude, r->byte_bits);
        low[i] = vandq_u16(vtstq_u16(magnitude, r->word_bits), high[i]);
        s.words[i] = vorrq_u16(magnitude, vandq_u16(sign, vdupq_n_u16(0x8000)));
    }
    s.high = bitmap(high);
    s.low = bitmap(low);
    if (__builtin_expect(vmaxvq_u32(largest) >= r->raw_from, 0)) {
        const uint32_t raw = raw_bits(r, src);
        s.high &= ~raw;
        s.low = (s.low & ~raw) | raw;
    }
    return s;
}

/* What a block's encoder has made so far; room for what a lookup writes too much. */
typedef struct maker {
    uint32_t high[STRIDES], low[STRIDES], live;
    size_t kept; /* bitmaps */
    uint8_t *high_at, *low_at, *raw_at;
    uint8_t high_bytes[BLOCK + BEHIND], low_bytes[BLOCK + BEHIND], raw_bytes[BLOCK * sizeof(float)];
} maker;

/* Bytes whose bit is set, packed to dst. */
INLINE uint8_t *squeeze(const uint8x8_t bytes[4], uint32_t map, uint8_t *dst)
{
    for (int i = 0; i < 4; i++, map >>= 8) {
        vst1_u8(dst, vtbl1_u8(bytes[i], vld1_u8(squeezes[map & 0xff])));
        dst += ones(map & 0xff);
    }
    return dst;
}

INLINE void stride_make(maker *m, const stride *s, const float *src)
{
    uint8x8_t bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = vshrn_n_u16(s->words[i], 8);
    m->high_at = squeeze(bytes, s->high, m->high_at);
    if ((s->low & s->high) != 0) {
        for (int i = 0; i < 4; i++)
            bytes[i] = vmovn_u16(s->words[i]);
        m->low_at = squeeze(bytes, s->low & s->high, m->low_at);
    }
    for (uint32_t raws = s->low & ~s->high; raws != 0; raws &= raws - 1) {
        memcpy(m->raw_at, src + shoali_inc_element((size_t)__builtin_ctz(raws)), sizeof *src);
        m->raw_at += sizeof *src;
    }
}

static uint8_t *append(uint8_t *dst, const void *bytes, const uint8_t *end)
{
    const size_t len_bytes = (size_t)(end - (const uint8_t *)bytes);
    memcpy(dst, bytes, len_bytes);
    return dst + len_bytes;
}

/* Whole strides; the end. With zmap only the bitmaps of live ones, behind the word that tells. */
static uint8_t *block_encode(const lanes *r, const float *src, size_t strides, uint8_t *dst,
                             bool zmap)
{
    maker m;
    m.kept = 0, m.live = 0;
    m.high_at = m.high_bytes, m.low_at = m.low_bytes, m.raw_at = m.raw_bytes;
    for (size_t i = 0; i < strides; i++, src += STRIDE) {
        const stride s = stride_load(r, src);
        const uint32_t some = !zmap || (s.high | s.low) != 0;
        m.high[m.kept] = s.high;
        m.low[m.kept] = s.low;
        m.kept += some;
        m.live |= some << i;
        if ((s.high | s.low) != 0)
            stride_make(&m, &s, src);
    }
    if (zmap)
        dst = append(dst, &m.live, (const uint8_t *)(&m.live + 1));
    dst = append(dst, m.high, (const uint8_t *)(m.high + m.kept));
    dst = append(dst, m.low, (const uint8_t *)(m.low + m.kept));
    dst = append(dst, m.high_bytes, m.high_at);
    dst = append(dst, m.low_bytes, m.low_at);
    return append(dst, m.raw_bytes, m.raw_at);
}

static size_t encode_all(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst,
                         bool zmap)
{
    const lanes r = lanes_make(rule);
    uint8_t *at = dst;
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        at = block_encode(&r, src + i, STRIDES, at, zmap);
    if (i < count) { /* padded with zeros, which cost nothing */
        float padded[BLOCK];
        const size_t strides = shoali_inc_strides(count - i);
        memcpy(padded, src + i, (count - i) * sizeof *src);
        memset(padded + (count - i), 0, (STRIDE * strides - (count - i)) * sizeof *src);
        at = block_encode(&r, padded, strides, at, zmap);
    }
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
    uint32_t high[STRIDES], low[STRIDES];
    const uint8_t *high_at, *low_at, *raw_at;
} reader;

/* The bitmaps at src; their bytes, or CORRUPT. */
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

/* Sizes of the planes that follow; CORRUPT: more than there is, or bits beyond the last element. */
static size_t planes_open(size_t len_bytes, size_t count, const uint8_t *at, reader *r)
{
    const size_t strides = shoali_inc_strides(count);
    size_t highs = 0, words = 0, raws = 0;
    for (size_t i = 0; i < strides; i++) {
        highs += ones(r->high[i]);
        words += ones(r->high[i] & r->low[i]);
        raws += ones(r->low[i] & ~r->high[i]);
    }
    const uint32_t last = r->high[strides - 1] | r->low[strides - 1];
    const size_t bytes = highs + words + raws * sizeof(float);
    r->high_at = at;
    r->low_at = r->high_at + highs;
    r->raw_at = r->low_at + words;
    if (bytes > len_bytes || (last & ~shoali_inc_stride_bits(count - STRIDE * (strides - 1))) != 0)
        return SHOALI_INC_CORRUPT;
    return bytes;
}

/* Eight bytes, those with a set bit taken from *src in turn, 0 elsewhere. */
INLINE uint8x8_t spread(const uint8_t **src, uint32_t map)
{
    const uint8x8_t bytes = vtbl1_u8(vld1_u8(*src), vld1_u8(spreads[map]));
    *src += ones(map);
    return bytes;
}

INLINE void put4(int16x4_t value, float unit, float *dst, bool add)
{
    const float32x4_t x = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(value)), unit);
    vst1q_f32(dst, add ? vaddq_f32(vld1q_f32(dst), x) : x);
}

INLINE void stride_put(reader *r, uint32_t high, uint32_t words, float unit, float *dst, bool add)
{
    for (int i = 0; i < 4; i++, high >>= 8, words >>= 8) {
        const uint8x8_t upper = spread(&r->high_at, high & 0xff);
        const uint8x8_t lower = spread(&r->low_at, words & 0xff);
        const int16x8_t word = vreinterpretq_s16_u8(
            vcombine_u8(vzip1_u8(lower, upper), vzip2_u8(lower, upper)));
        const int16x8_t negative = vshrq_n_s16(word, 15);
        const int16x8_t magnitude = vandq_s16(word, vdupq_n_s16(0x7fff));
        const int16x8_t value = vsubq_s16(veorq_s16(magnitude, negative), negative);
        put4(vget_low_s16(value), unit, dst + places[i][0], add);
        put4(vget_high_s16(value), unit, dst + places[i][1], add);
    }
}

/* A short stride, or one with RAW elements: by way of a buffer. */
static void odd_stride(reader *r, uint32_t high, uint32_t low, float unit, float *dst, size_t count,
                       bool add)
{
    float value[STRIDE];
    stride_put(r, high, high & low, unit, value, false);
    for (uint32_t raws = low & ~high; raws != 0; raws &= raws - 1) {
        memcpy(&value[shoali_inc_element((size_t)__builtin_ctz(raws))], r->raw_at, sizeof *value);
        r->raw_at += sizeof *value;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = add ? dst[i] + value[i] : value[i];
}

static void block_put(reader *r, size_t block, float unit, float *dst, bool add)
{
    for (size_t i = 0; i < block; i += STRIDE) {
        const size_t count = block - i < STRIDE ? block - i : STRIDE;
        const uint32_t high = r->high[i / STRIDE], low = r->low[i / STRIDE];
        if ((low & ~high) != 0 || (count < STRIDE && high != 0))
            odd_stride(r, high, low, unit, dst + i, count, add);
        else if (high == 0 && !add)
            memset(dst + i, 0, count * sizeof *dst);
        else if (high != 0 && add)
            stride_put(r, high, low, unit, dst + i, true);
        else if (high != 0)
            stride_put(r, high, low, unit, dst + i, false);
    }
}

static size_t decode_all(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes,
                         float *dst, size_t count, bool add, bool zmap)
{
    const uint32_t unit_bits = (127 - 15 - rule->power) << 23;
    uint8_t last[BLOCK * sizeof(float) + BEHIND];
    float unit;
    size_t used = 0;
    memcpy(&unit, &unit_bits, sizeof unit);
    for (size_t i = 0, n; i < count; i += n) {
        reader r;
        n = count - i < BLOCK ? count - i : BLOCK;
        const size_t head = head_open(src + used, len_bytes - used, shoali_inc_strides(n), zmap,
                                      &r);
        if (head == SHOALI_INC_CORRUPT)
            return head;
        used += head;
        const size_t bytes = planes_open(len_bytes - used, n, src + used, &r);
        if (bytes == SHOALI_INC_CORRUPT)
            return bytes;
        if (len_bytes - used - bytes < BEHIND) { /* lookups would read beyond the end */
            memcpy(last, src + used, bytes);
            (void)planes_open(bytes, n, last, &r);
        }
        block_put(&r, n, unit, dst + i, add);
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

const shoali_inc_loops shoali_inc_neon_planes = {planes_encode, planes_decode};
const shoali_inc_loops shoali_inc_neon_zmap = {zmap_encode, zmap_decode};
