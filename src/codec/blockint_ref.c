/* SPDX-License-Identifier: Apache-2.0 */
/* blockint, one block in plain C: the definition that the vector loops are tested against. */
#include <math.h>
#include <string.h>

#include "codec/blockint.h"

enum { BLOCK = SHOALI_BLOCKINT_BLOCK, WIDEST = SHOALI_BLOCKINT_WIDEST, RAW = SHOALI_BLOCKINT_RAW };

shoali_blockint_rule shoali_blockint_rule_make(int exponent)
{
    return (shoali_blockint_rule){.steps_per_unit = ldexpf(1, -exponent),
                                  .step = ldexpf(1, exponent)};
}

static size_t plane_bytes(size_t count)
{
    return (count + 7) / 8;
}

static uint32_t elements(size_t count)
{
    return count < BLOCK ? (1u << count) - 1 : UINT32_MAX;
}

/* Width that all integers of a block need, RAW if they are none. */
static unsigned quantise(const shoali_blockint_rule *rule, const float *src, size_t count,
                         int32_t *q)
{
    int32_t magnitudes = 0, any = 0;
    for (size_t i = 0; i < count; i++) {
        float steps = src[i] * rule->steps_per_unit;
        if (!(fabsf(steps) < 0x1p30f))
            return RAW;
        q[i] = (int32_t)lrintf(steps);
        magnitudes |= q[i] ^ q[i] >> 31;
        any |= q[i];
    }
    if (magnitudes == 0)
        return any != 0; /* only 0 and -1 */
    return 33 - (unsigned)__builtin_clz((unsigned)magnitudes);
}

static uint8_t *put_width(unsigned width, uint8_t *dst, unsigned *code_out)
{
    *code_out = width < SHOALI_BLOCKINT_WIDE ? width : SHOALI_BLOCKINT_WIDE;
    if (width >= SHOALI_BLOCKINT_WIDE)
        *dst++ = (uint8_t)width;
    return dst;
}

static bool floats_are_shorter(unsigned width, size_t count)
{
    return width > WIDEST ||
           width * plane_bytes(count) + (width >= SHOALI_BLOCKINT_WIDE) > 4 * count + 1;
}

/* Floats are rounded to steps, too: sums of coded values are then sums of steps everywhere. */
static float nearest(const shoali_blockint_rule *rule, float x)
{
    float steps = x * rule->steps_per_unit;
    return fabsf(steps) < 0x1p23f ? rintf(steps) * rule->step + 0.0f : x;
}

static size_t put_raw(const shoali_blockint_rule *rule, const float *src, size_t count,
                      uint8_t *dst, unsigned *code_out)
{
    uint8_t *at = put_width(RAW, dst, code_out);
    for (size_t i = 0; i < count; i++, at += sizeof *src) {
        float x = nearest(rule, src[i]);
        memcpy(at, &x, sizeof x);
    }
    return (size_t)(at - dst);
}

static size_t put_planes(const uint32_t *planes, unsigned width, size_t count, uint8_t *dst,
                         unsigned *code_out)
{
    uint8_t *at = put_width(width, dst, code_out);
    for (unsigned j = 0; j < width; j++, at += plane_bytes(count))
        memcpy(at, &planes[j], plane_bytes(count));
    return (size_t)(at - dst);
}

size_t shoali_blockint_put(const shoali_blockint_rule *rule, const float *src, size_t count,
                           uint8_t *dst, unsigned *code_out)
{
    int32_t q[BLOCK];
    uint32_t planes[WIDEST] = {0};
    unsigned width = quantise(rule, src, count, q);
    if (floats_are_shorter(width, count))
        return put_raw(rule, src, count, dst, code_out);
    for (unsigned j = 0; j < width; j++)
        for (size_t i = 0; i < count; i++)
            planes[j] |= ((uint32_t)q[i] >> j & 1) << i;
    return put_planes(planes, width, count, dst, code_out);
}

size_t shoali_blockint_size(unsigned code, const uint8_t *src, size_t len_bytes, size_t count,
                            unsigned *width_out)
{
    size_t bytes = 0;
    *width_out = code;
    if (code == SHOALI_BLOCKINT_WIDE) {
        if (len_bytes < 1)
            return SHOALI_BLOCKINT_CORRUPT;
        *width_out = src[bytes++];
        if (*width_out != RAW && (*width_out < SHOALI_BLOCKINT_WIDE || *width_out > WIDEST))
            return SHOALI_BLOCKINT_CORRUPT;
    }
    bytes += *width_out == RAW ? count * sizeof(float) : *width_out * plane_bytes(count);
    return bytes <= len_bytes ? bytes : SHOALI_BLOCKINT_CORRUPT;
}

static void get_planes(const uint8_t *src, unsigned width, size_t count, uint32_t *planes)
{
    for (unsigned j = 0; j < width; j++, src += plane_bytes(count)) {
        planes[j] = 0;
        memcpy(&planes[j], src, plane_bytes(count));
        planes[j] &= elements(count);
    }
}

static int32_t element(const uint32_t *planes, unsigned width, size_t i)
{
    int32_t q = width > 0 && (planes[width - 1] >> i & 1) != 0 ? -1 : 0;
    for (unsigned j = width; j-- > 0;)
        q = (int32_t)((uint32_t)q << 1 | (planes[j] >> i & 1));
    return q;
}

size_t shoali_blockint_get(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add)
{
    unsigned width;
    float values[BLOCK];
    uint32_t planes[WIDEST];
    size_t bytes = shoali_blockint_size(code, src, len_bytes, count, &width);
    if (bytes == SHOALI_BLOCKINT_CORRUPT)
        return bytes;
    const uint8_t *at = src + (code == SHOALI_BLOCKINT_WIDE);
    if (width == RAW) {
        memcpy(values, at, count * sizeof *values);
    } else {
        get_planes(at, width, count, planes);
        for (size_t i = 0; i < count; i++)
            values[i] = (float)element(planes, width, i) * rule->step;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = add ? dst[i] + values[i] : values[i];
    return bytes;
}

/* ---------------------------------------------------------------- sums */

static size_t add_floats(const shoali_blockint_rule *rule, unsigned a_code, const uint8_t *a,
                         unsigned b_code, const uint8_t *b, size_t count, uint8_t *dst,
                         unsigned *code_out)
{
    float sum[BLOCK];
    (void)shoali_blockint_get(rule, a_code, a, SIZE_MAX / 2, sum, count, false);
    (void)shoali_blockint_get(rule, b_code, b, SIZE_MAX / 2, sum, count, true);
    return put_raw(rule, sum, count, dst, code_out);
}

/* Plane j of a number that goes on with its sign. */
static uint32_t extended(const uint32_t *planes, unsigned width, unsigned j)
{
    return width == 0 ? 0 : planes[j < width ? j : width - 1];
}

/* Leading planes that only repeat the sign are dropped. */
static unsigned needed(const uint32_t *planes, unsigned width)
{
    while (width > 1 && planes[width - 1] == planes[width - 2])
        width--;
    return width == 1 && planes[0] == 0 ? 0 : width;
}

size_t shoali_blockint_add(const shoali_blockint_rule *rule, unsigned a_code, const uint8_t *a,
                           unsigned b_code, const uint8_t *b, size_t count, uint8_t *dst,
                           unsigned *code_out)
{
    uint32_t pa[WIDEST], pb[WIDEST], sum[WIDEST + 1], carry = 0;
    unsigned wa, wb;
    (void)shoali_blockint_size(a_code, a, SIZE_MAX / 2, count, &wa);
    (void)shoali_blockint_size(b_code, b, SIZE_MAX / 2, count, &wb);
    if (wa == RAW || wb == RAW)
        return add_floats(rule, a_code, a, b_code, b, count, dst, code_out);
    get_planes(a + (a_code == SHOALI_BLOCKINT_WIDE), wa, count, pa);
    get_planes(b + (b_code == SHOALI_BLOCKINT_WIDE), wb, count, pb);
    unsigned width = (wa > wb ? wa : wb) + 1;
    for (unsigned j = 0; j < width; j++) {
        uint32_t x = extended(pa, wa, j), y = extended(pb, wb, j);
        sum[j] = x ^ y ^ carry;
        carry = (x & y) | (carry & (x | y));
    }
    width = needed(sum, width);
    if (floats_are_shorter(width, count))
        return add_floats(rule, a_code, a, b_code, b, count, dst, code_out);
    return put_planes(sum, width, count, dst, code_out);
}

/* ---------------------------------------------------------------- full blocks */

static size_t put(const shoali_blockint_rule *rule, const float *src, uint8_t *dst,
                  unsigned *code_out)
{
    return shoali_blockint_put(rule, src, BLOCK, dst, code_out);
}

static size_t get(const shoali_blockint_rule *rule, unsigned code, const uint8_t *src,
                  size_t len_bytes, float *dst, bool add)
{
    return shoali_blockint_get(rule, code, src, len_bytes, dst, BLOCK, add);
}

const shoali_blockint_loops shoali_blockint_ref = {put, get};
