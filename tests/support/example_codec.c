/* SPDX-License-Identifier: Apache-2.0 */
/* example: one signed byte per element, x / range * 127 rounded to nearest. */
#include <math.h>

#include "base/error.h"
#include "codec/codec.h"

typedef struct example_params {
    double range; /* magnitude that becomes 127; larger ones are clamped */
    bool ef;
} example_params;

static const shoali_key keys[] = {
    {"range", SHOALI_KEY_FLOAT, offsetof(example_params, range), 0x1p-20, 0x1p20, NULL, "1",
     "largest magnitude that is coded; beyond it values are clamped"},
    SHOALI_CODEC_KEY_EF(example_params, "on"),
};

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 65535;
}

/* Half a step, promised for |x| < 1 only if the range reaches that far. */
static double error_bound(const void *params)
{
    double range = ((const example_params *)params)->range;
    return range < 1 ? (double)INFINITY : range / 254 * (1 + 0x1p-20);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)parts;
    return count;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const float scale = (float)(127 / ((const example_params *)params)->range);
    (void)capacity;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(src[i]))
            return shoali_fail(SHOAL_ENOTFINITE, "example: element %zu is %g", at->first + i,
                               (double)src[i]);
        float steps = fmaxf(-127, fminf(127, src[i] * scale));
        dst[i] = (uint8_t)(int8_t)lrintf(steps);
    }
    *written_out = count;
    return SHOAL_OK;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const float step = (float)(((const example_params *)params)->range / 127);
    if (len_bytes < count)
        return shoali_fail(SHOAL_ECORRUPT, "example: %zu bytes for %zu elements", len_bytes, count);
    for (size_t i = 0; i < count; i++) {
        int8_t steps = (int8_t)src[i];
        if (steps == -128)
            return shoali_fail(SHOAL_ECORRUPT, "example: element %zu is no code", at->first + i);
        float value = (float)steps * step;
        dst[i] = add ? dst[i] + value : value;
    }
    *read_out = count;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_example = {
    .name = "example",
    .paper = "none",
    .traits = SHOAL_CODEC_FIXED_RATE,
    .bytes_per_elem = 1,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(example_params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
