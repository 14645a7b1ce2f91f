/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of terngrad in plain C. They define the codes; the vector loops give the same. */
#include <math.h>
#include <string.h>

#include "codec/terngrad.h"

enum { EXPONENT_ALL = 0x7f800000 };

static bool is_finite(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & EXPONENT_ALL) != EXPONENT_ALL;
}

/* 16 random bits of a tensor's element: half of a draw that it shares with its neighbour. */
static uint32_t chance(const shoali_tern_rule *rule, uint64_t element)
{
    return shoali_noise_at(rule->noise, (uint32_t)(element / 2)) >> 16 * (element % 2) & 0xffff;
}

/* Where these 16 say neither, 24 more of the element's own, from the key's words exchanged: the
 * fraction of |x| / s that 16 bits do not see. */
static bool decides(const shoali_tern_rule *rule, uint64_t element, float fraction)
{
    const shoali_noise own = {rule->noise.second, rule->noise.first};
    return (float)(shoali_noise_at(own, (uint32_t)element) >> 8) < fraction * 0x1p24f;
}

static uint8_t draw_one(const shoali_tern_rule *rule, uint64_t element, float x)
{
    const float level = fabsf(x) * rule->lift * (rule->inverse * 65536);
    const uint32_t whole = level < 65536 ? (uint32_t)level : 65536, drawn = chance(rule, element);
    const bool survives = drawn < whole ||
                          (drawn == whole && decides(rule, element, level - (float)whole));
    return !survives ? 1 : x < 0 ? 0 : 2;
}

static bool draw(const shoali_tern_rule *rule, uint64_t first, const float *src, size_t count,
                 uint8_t *codes)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite &= is_finite(src[i]);
        codes[i] = draw_one(rule, first + i, src[i]);
    }
    return finite;
}

static bool draw_packed(const shoali_tern_rule *rule, uint64_t first, const float *src,
                        size_t count, uint8_t *packed)
{
    bool finite = true;
    for (size_t i = 0; i < count; i += 4) {
        uint8_t codes[4] = {1, 1, 1, 1};
        size_t n = count - i < 4 ? count - i : 4;
        finite &= draw(rule, first + i, src + i, n, codes);
        *packed++ = (uint8_t)(codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6);
    }
    return finite;
}

static bool nearest(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *codes)
{
    const float most = (float)rule->most;
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        float steps = src[i] * rule->lift * rule->inverse;
        finite &= is_finite(src[i]);
        steps = steps < most ? steps : most;
        steps = steps > -most ? steps : -most;
        codes[i] = (uint8_t)((int)rule->most + (int)lrintf(steps));
    }
    return finite;
}

static bool expand(const shoali_tern_rule *rule, const uint8_t *codes, size_t count, float *dst,
                   bool add)
{
    uint32_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        float x = (float)((int)codes[i] - (int)rule->most) * rule->scale;
        worst = codes[i] > worst ? codes[i] : worst;
        dst[i] = add ? dst[i] + x : x;
    }
    return worst <= 2 * rule->most;
}

static bool expand_packed(const shoali_tern_rule *rule, const uint8_t *packed, size_t count,
                          float *dst, bool add)
{
    bool good = true;
    for (size_t i = 0; i < count; i += 4) {
        uint8_t x = *packed++, codes[4] = {x & 3, x >> 2 & 3, x >> 4 & 3, x >> 6};
        good &= (x & x >> 1 & 0x55) == 0;
        good &= expand(rule, codes, count - i < 4 ? count - i : 4, dst + i, add);
    }
    return good;
}

/* Eight lanes, as the vector loop adds them. */
static void moments(const float *x, size_t n, double sums_out[2])
{
    double sum[8] = {0}, squares[8] = {0};
    for (size_t i = 0; i < n; i++) {
        double value = (double)x[i];
        sum[i % 8] += value;
        squares[i % 8] += value * value;
    }
    sums_out[0] = sums_out[1] = 0;
    for (int lane = 0; lane < 8; lane++) {
        sums_out[0] += sum[lane];
        sums_out[1] += squares[lane];
    }
}

const shoali_tern_loops shoali_tern_ref = {draw,   draw_packed,   nearest,
                                           expand, expand_packed, moments};
