/* SPDX-License-Identifier: Apache-2.0 */
/* Layout `floats`: what a card would make of a piece, as the float32 that its receiver would get.
 * Cards on the way find nothing to lose, since coding what was decoded changes nothing; so the host
 * knows what arrives, can feed the loss back, and an owner rounds its own copy like the others. A
 * zero that is added makes +0 of -0; the next encode does, too. */
#include <string.h>

#include "codec/inceptionn.h"
#include "kernel/kernel.h"

enum { BIAS = 127, SOME = 256 };

static float power_of_two(uint32_t exponent)
{
    const uint32_t bits = exponent << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* shoali_inc_classify and shoali_inc_value at once, by masks in place of branches, which gradients
 * would make the CPU guess. Of all values but RAW the integer is exact and below 2^15. */
static float rounded(const shoali_inc_rule *rule, float x, float scale, float unit)
{
    uint32_t bits, small, out;
    float value;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffffu, raw = -(uint32_t)(magnitude >= rule->raw_from);
    small = magnitude & ~raw;
    memcpy(&value, &small, sizeof value);
    const uint32_t fixed = (uint32_t)(int32_t)(value * scale);
    const uint32_t word = -(uint32_t)((fixed & rule->word_bits) != 0),
                   byte = -(uint32_t)(fixed >= rule->byte_bits) & ~0xffu;
    const uint32_t kept = fixed & (word | byte);
    value = (float)(int32_t)kept * unit;
    memcpy(&out, &value, sizeof out);
    out |= bits & 0x80000000u & -(uint32_t)(kept != 0);
    out = (out & ~raw) | (bits & raw);
    memcpy(&value, &out, sizeof value);
    return value;
}

static size_t encode(const shoali_inc_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    const float scale = power_of_two(BIAS + 15 + rule->power),
                unit = power_of_two(BIAS - 15 - rule->power);
    float values[SOME];
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < SOME ? count - i : SOME;
        for (size_t j = 0; j < n; j++)
            values[j] = rounded(rule, src[i + j], scale, unit);
        memcpy(dst + i * sizeof *values, values, n * sizeof *values);
    }
    return count * sizeof *values;
}

static size_t decode(const shoali_inc_rule *rule, const uint8_t *src, size_t len_bytes, float *dst,
                     size_t count, bool add)
{
    float values[SOME];
    (void)rule;
    if (len_bytes / sizeof *dst < count)
        return SHOALI_INC_CORRUPT;
    if (!add && count > 0)
        memcpy(dst, src, count * sizeof *dst);
    for (size_t i = 0, n; add && i < count; i += n) {
        n = count - i < SOME ? count - i : SOME;
        memcpy(values, src + i * sizeof *values, n * sizeof *values);
        shoali_kernel()->add(dst + i, values, n);
    }
    return count * sizeof *dst;
}

const shoali_inc_loops shoali_inc_floats = {encode, decode};
