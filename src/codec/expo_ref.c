/* SPDX-License-Identifier: Apache-2.0 */
/* expo, one block in plain C: the definition that the vector loops are tested against. */
#include <string.h>

#include "codec/expo.h"

enum { BLOCK = SHOALI_EXPO_BLOCK, ESCAPE = SHOALI_EXPO_ESCAPE };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Sign on top of the upper bits of the fraction. */
static uint32_t fraction_of(uint32_t bits, unsigned kept)
{
    uint32_t value = bits >> 8 & 0x800000u;
    value |= bits & 0x7fffffu;
    return value >> (24 - 8 * kept);
}

static uint32_t join(uint32_t value, unsigned kept, uint32_t exponent)
{
    value <<= 24 - 8 * kept;
    return (value & 0x800000u) << 8 | exponent << 23 | (value & 0x7fffffu);
}

size_t shoali_expo_put(const float *src, size_t n, unsigned kept, uint8_t *dst)
{
    uint32_t most = 0, any = 0, planes[3] = {0};
    const size_t plane_bytes = (n + 7) / 8;
    uint8_t *value = dst + 1 + 3 * plane_bytes, *escape = value + n * kept;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(src[i]), exponent = bits >> 23 & 255;
        most = exponent > most ? exponent : most;
        any |= bits;
    }
    if (any == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(src[i]), exponent = bits >> 23 & 255, below = most - exponent;
        uint32_t fraction = fraction_of(bits, kept);
        if (below >= ESCAPE) {
            below = ESCAPE;
            *escape++ = (uint8_t)exponent;
        }
        for (unsigned p = 0; p < 3; p++)
            planes[p] |= (below >> p & 1) << i;
        memcpy(value + i * kept, &fraction, kept);
    }
    dst[0] = (uint8_t)most;
    for (unsigned p = 0; p < 3; p++)
        memcpy(dst + 1 + p * plane_bytes, &planes[p], plane_bytes);
    return (size_t)(escape - dst);
}

size_t shoali_expo_get(const uint8_t *src, size_t len_bytes, size_t n, unsigned kept, float *dst,
                       bool add)
{
    uint32_t planes[3] = {0};
    const size_t plane_bytes = (n + 7) / 8;
    const size_t fixed = 1 + 3 * plane_bytes + n * kept;
    if (len_bytes < fixed)
        return SHOALI_EXPO_CORRUPT;
    for (unsigned p = 0; p < 3; p++)
        memcpy(&planes[p], src + 1 + p * plane_bytes, plane_bytes);
    const uint8_t *value = src + 1 + 3 * plane_bytes, *escape = src + fixed;
    for (size_t i = 0; i < n; i++) {
        uint32_t below = 0, fraction = 0, exponent;
        for (unsigned p = 0; p < 3; p++)
            below |= (planes[p] >> i & 1) << p;
        if (below == ESCAPE) {
            if (escape == src + len_bytes)
                return SHOALI_EXPO_CORRUPT;
            exponent = *escape++;
        } else if (below > src[0]) {
            return SHOALI_EXPO_CORRUPT;
        } else {
            exponent = src[0] - below;
        }
        memcpy(&fraction, value + i * kept, kept);
        uint32_t bits = join(fraction, kept, exponent);
        float x;
        memcpy(&x, &bits, sizeof x);
        dst[i] = add ? dst[i] + x : x;
    }
    return (size_t)(escape - src);
}

static size_t put(const float *src, unsigned kept, uint8_t *dst)
{
    return shoali_expo_put(src, BLOCK, kept, dst);
}

static size_t get(const uint8_t *src, size_t len_bytes, unsigned kept, float *dst, bool add)
{
    return shoali_expo_get(src, len_bytes, BLOCK, kept, dst, add);
}

const shoali_expo_loops shoali_expo_ref = {put, get};
