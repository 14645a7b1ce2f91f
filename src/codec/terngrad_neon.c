/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of terngrad with NEON; the same codes as terngrad_ref.c, which also takes the ends, and
 * the elements whose chance 16 bits leave open: one of 65536, drawn once more with their fifteen
 * neighbours. Elements stay in their order, as every step here narrows in order. */
#include <arm_neon.h>

#include "codec/noise_neon.h"
#include "codec/terngrad.h"

#define INLINE static inline __attribute__((always_inline))

enum { TURN = 16, PACKED_TURN = 4 * TURN };

typedef struct context {
    const shoali_tern_rule *rule;
    float factor;     /* 65536 / s */
    uint32x4_t worst; /* running maximum of the floats' bits without sign */
} context;

static context context_of(const shoali_tern_rule *rule)
{
    return (context){rule, rule->inverse * 65536, vdupq_n_u32(0)};
}

INLINE float32x4_t load(uint32x4_t *worst, const float *src)
{
    const float32x4_t x = vld1q_f32(src);
    *worst = vmaxq_u32(*worst, vreinterpretq_u32_f32(vabsq_f32(x)));
    return x;
}

static bool all_finite(uint32x4_t worst)
{
    return vmaxvq_u32(worst) < 0x7f800000u;
}

/* ---------------------------------------------------------------- draws */

/* Four counters: the random halves of eight elements in order. */
INLINE uint16x8_t noise4(shoali_noise key, uint32_t counter)
{
    return vreinterpretq_u16_u32(shoali_noise_at4(key, counter));
}

INLINE uint16x4_t limits(const context *c, float32x4_t x)
{
    const float32x4_t level = vmulq_n_f32(vabsq_f32(x), c->factor);
    return vmovn_u32(vcvtq_u32_f32(vminnmq_f32(level, vdupq_n_f32(65535))));
}

INLINE int16x4_t signs(float32x4_t x)
{
    return vmovn_s32(vshrq_n_s32(vreinterpretq_s32_f32(x), 31));
}

/* Codes of eight elements; a lane of *open is not 0 if its 16 bits do not say. */
INLINE uint8x8_t draw_8(context *c, const float *src, uint16x8_t chance, uint16x8_t *open)
{
    const float32x4_t a = load(&c->worst, src), b = load(&c->worst, src + 4);
    const uint16x8_t limit = vcombine_u16(limits(c, a), limits(c, b));
    const uint16x8_t survives = vcltq_u16(chance, limit);
    *open = vorrq_u16(*open, vceqq_u16(chance, limit));
    const int16x8_t sign = vcombine_s16(signs(a), signs(b));
    const uint16x8_t step = vreinterpretq_u16_s16(vorrq_s16(sign, vdupq_n_s16(1)));
    return vmovn_u16(vaddq_u16(vandq_u16(survives, step), vdupq_n_u16(1)));
}

/* Codes of 16 elements. A draw serves elements 2d and 2d + 1, so an odd start needs halves of
 * neighbouring draws. True: to be drawn once more. */
INLINE bool draw_16(context *c, uint64_t first, const float *src, bool odd, uint8x16_t *codes_out)
{
    const uint32_t counter = (uint32_t)(first / 2);
    uint16x8_t a = noise4(c->rule->noise, counter), b = noise4(c->rule->noise, counter + 4);
    uint16x8_t open = vdupq_n_u16(0);
    if (odd) {
        const uint16x8_t next = noise4(c->rule->noise, counter + 8);
        a = vextq_u16(a, b, 1);
        b = vextq_u16(b, next, 1);
    }
    const uint8x8_t low = draw_8(c, src, a, &open);
    *codes_out = vcombine_u8(low, draw_8(c, src + 8, b, &open));
    return vmaxvq_u16(open) != 0;
}

static __attribute__((noinline, cold)) uint8x16_t plain_codes(const context *c, uint64_t first,
                                                              const float *src)
{
    uint8_t codes[TURN];
    (void)shoali_tern_ref.draw(c->rule, first, src, TURN, codes);
    return vld1q_u8(codes);
}

INLINE uint8x16_t codes_of(context *c, uint64_t first, const float *src, bool odd)
{
    uint8x16_t codes;
    if (__builtin_expect(draw_16(c, first, src, odd, &codes), 0))
        codes = plain_codes(c, first, src);
    return codes;
}

INLINE size_t draw_loop(context *c, uint64_t first, const float *src, size_t count, uint8_t *codes,
                        bool odd)
{
    size_t i = 0;
    for (; i + TURN <= count; i += TURN)
        vst1q_u8(codes + i, codes_of(c, first + i, src + i, odd));
    return i;
}

static bool draw(const shoali_tern_rule *rule, uint64_t first, const float *src, size_t count,
                 uint8_t *codes)
{
    context c = context_of(rule);
    const size_t i = first % 2 != 0 ? draw_loop(&c, first, src, count, codes, true)
                                    : draw_loop(&c, first, src, count, codes, false);
    const bool rest = shoali_tern_ref.draw(rule, first + i, src + i, count - i, codes + i);
    return all_finite(c.worst) && rest;
}

/* Each code where it stands in its byte; adding neighbours twice then packs four. */
INLINE uint8x16_t in_place(context *c, uint64_t first, const float *src, bool odd)
{
    static const int8_t shift[TURN] = {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6};
    return vshlq_u8(codes_of(c, first, src, odd), vld1q_s8(shift));
}

INLINE size_t packed_loop(context *c, uint64_t first, const float *src, size_t count,
                          uint8_t *packed, bool odd)
{
    size_t i = 0;
    for (; i + PACKED_TURN <= count; i += PACKED_TURN) {
        const uint8x16_t w = in_place(c, first + i, src + i, odd);
        const uint8x16_t x = in_place(c, first + i + TURN, src + i + TURN, odd);
        const uint8x16_t y = in_place(c, first + i + 2 * TURN, src + i + 2 * TURN, odd);
        const uint8x16_t z = in_place(c, first + i + 3 * TURN, src + i + 3 * TURN, odd);
        vst1q_u8(packed + i / 4, vpaddq_u8(vpaddq_u8(w, x), vpaddq_u8(y, z)));
    }
    return i;
}

static bool draw_packed(const shoali_tern_rule *rule, uint64_t first, const float *src,
                        size_t count, uint8_t *packed)
{
    context c = context_of(rule);
    const size_t i = first % 2 != 0 ? packed_loop(&c, first, src, count, packed, true)
                                    : packed_loop(&c, first, src, count, packed, false);
    const bool rest = shoali_tern_ref.draw_packed(rule, first + i, src + i, count - i,
                                                  packed + i / 4);
    return all_finite(c.worst) && rest;
}

/* ---------------------------------------------------------------- sums */

INLINE int16x4_t nearest_4(const shoali_tern_rule *rule, const float *src, uint32x4_t *worst)
{
    const float32x4_t most = vdupq_n_f32((float)rule->most);
    float32x4_t steps = vmulq_n_f32(load(worst, src), rule->inverse);
    steps = vbslq_f32(vcltq_f32(steps, most), steps, most); /* NaN too, as in the reference */
    steps = vmaxq_f32(steps, vnegq_f32(most));
    return vmovn_s32(vcvtnq_s32_f32(steps));
}

static bool nearest(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *codes)
{
    const int16x8_t most = vdupq_n_s16((int16_t)rule->most);
    uint32x4_t worst = vdupq_n_u32(0);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const int16x8_t steps = vcombine_s16(nearest_4(rule, src + i, &worst),
                                             nearest_4(rule, src + i + 4, &worst));
        vst1_u8(codes + i, vmovn_u16(vreinterpretq_u16_s16(vaddq_s16(steps, most))));
    }
    return shoali_tern_ref.nearest(rule, src + i, count - i, codes + i) && all_finite(worst);
}

/* ---------------------------------------------------------------- back to floats */

INLINE void put(float *dst, int32x4_t steps, float scale, bool add)
{
    const float32x4_t x = vmulq_n_f32(vcvtq_f32_s32(steps), scale);
    vst1q_f32(dst, add ? vaddq_f32(vld1q_f32(dst), x) : x);
}

INLINE void put_8(float *dst, uint8x8_t codes, int16_t middle, float scale, bool add)
{
    const int16x8_t steps = vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(codes)), vdupq_n_s16(middle));
    put(dst, vmovl_s16(vget_low_s16(steps)), scale, add);
    put(dst + 4, vmovl_high_s16(steps), scale, add);
}

static bool expand(const shoali_tern_rule *rule, const uint8_t *codes, size_t count, float *dst,
                   bool add)
{
    uint8x8_t worst = vdup_n_u8(0);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const uint8x8_t eight = vld1_u8(codes + i);
        worst = vmax_u8(worst, eight);
        put_8(dst + i, eight, (int16_t)rule->most, rule->scale, add);
    }
    return shoali_tern_ref.expand(rule, codes + i, count - i, dst + i, add) &&
           vmaxv_u8(worst) <= 2 * rule->most;
}

/* 16 elements from 32 bits: each byte four times, and down by as many bits as its element says. */
static bool expand_packed(const shoali_tern_rule *rule, const uint8_t *packed, size_t count,
                          float *dst, bool add)
{
    static const uint8_t four_times[TURN] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t down[TURN] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    uint32_t bad = 0;
    size_t i = 0;
    for (; i + TURN <= count; i += TURN) {
        uint32_t word;
        __builtin_memcpy(&word, packed + i / 4, sizeof word);
        bad |= word & word >> 1;
        const uint8x16_t bytes = vreinterpretq_u8_u32(vdupq_n_u32(word));
        const uint8x16_t each = vshlq_u8(vqtbl1q_u8(bytes, vld1q_u8(four_times)), vld1q_s8(down));
        const uint8x16_t codes = vandq_u8(each, vdupq_n_u8(3));
        put_8(dst + i, vget_low_u8(codes), 1, rule->scale, add);
        put_8(dst + i + 8, vget_high_u8(codes), 1, rule->scale, add);
    }
    return shoali_tern_ref.expand_packed(rule, packed + i / 4, count - i, dst + i, add) &&
           (bad & 0x55555555) == 0;
}

/* ---------------------------------------------------------------- measuring */

INLINE void count_2(float64x2_t *sum, float64x2_t *squares, float64x2_t x)
{
    *sum = vaddq_f64(*sum, x);
    *squares = vaddq_f64(*squares, vmulq_f64(x, x)); /* no fma: the reference rounds twice */
}

static void moments(const float *x, size_t n, double sums_out[2])
{
    float64x2_t lanes[4], square_lanes[4];
    double sum[8], squares[8];
    size_t i = 0;
    for (size_t k = 0; k < 4; k++)
        lanes[k] = square_lanes[k] = vdupq_n_f64(0);
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 2; k++) {
            const float32x4_t four = vld1q_f32(x + i + 4 * k);
            count_2(&lanes[2 * k], &square_lanes[2 * k], vcvt_f64_f32(vget_low_f32(four)));
            count_2(&lanes[2 * k + 1], &square_lanes[2 * k + 1], vcvt_high_f64_f32(four));
        }
    for (size_t k = 0; k < 4; k++) {
        vst1q_f64(sum + 2 * k, lanes[k]);
        vst1q_f64(squares + 2 * k, square_lanes[k]);
    }
    for (; i < n; i++) {
        sum[i % 8] += (double)x[i];
        squares[i % 8] += (double)x[i] * (double)x[i];
    }
    sums_out[0] = sums_out[1] = 0;
    for (int lane = 0; lane < 8; lane++) {
        sums_out[0] += sum[lane];
        sums_out[1] += squares[lane];
    }
}

const shoali_tern_loops shoali_tern_neon = {draw,   draw_packed,   nearest,
                                            expand, expand_packed, moments};
