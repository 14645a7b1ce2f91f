/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a piece: 8 bytes of hash; then per element a varint: 2k for a run of k zeros, else
 * 2z + 1 with z the zigzag of the multiple of q. */
#include "support/toycodec.h"

#include <math.h>

#include "base/error.h"
#include "base/rng.h"
#include "support/check.h"

typedef struct params {
    double q;
    bool random, per_tensor, slots, ef;
} params;

enum { HASH_BYTES = 8, MOST_BYTES = 5 };

static uint16_t wire_id(const void *p)
{
    (void)p;
    return 0xfff0;
}

static uint32_t more_traits(const void *p)
{
    const params *k = p;
    return (k->per_tensor ? SHOAL_CODEC_PER_TENSOR : 0u) | (k->slots ? SHOAL_CODEC_SLOTS : 0u);
}

static double error_bound(const void *p)
{
    return ((const params *)p)->q;
}

static size_t bound(const void *p, size_t count, uint32_t parts)
{
    (void)p, (void)parts;
    return HASH_BYTES + MOST_BYTES * count;
}

static uint64_t place_hash(const params *p, const shoal_codec_at *at, size_t count)
{
    uint64_t words[] = {at->seed,  at->stream, at->first,
                        at->parts, count,      p->per_tensor ? at->tensor->key : 0};
    return shoali_hash(words, sizeof words, 0);
}

static uint8_t *put(uint8_t *to, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *to++ = (uint8_t)(value | 128);
    *to++ = (uint8_t)value;
    return to;
}

static shoal_status encode(const void *p, const shoal_codec_at *at, const float *src, size_t count,
                           uint8_t *dst, size_t capacity, size_t *written_out)
{
    const params *k = p;
    uint64_t hash = place_hash(k, at, count), zeros = 0;
    uint8_t *to = dst + HASH_BYTES;
    if (capacity < bound(p, count, at->parts))
        return shoali_fail(SHOAL_EINVAL, "toy: no room");
    memcpy(dst, &hash, HASH_BYTES);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(src[i]) || fabs((double)src[i]) > 1e6)
            return shoali_fail(SHOAL_ENOTFINITE, "toy: not finite at %zu", i);
        double scaled = (double)src[i] / k->q;
        if (k->random)
            scaled = floor(scaled + shoali_rng_double(at->seed, at->stream, at->first + i));
        int64_t whole = (int64_t)scaled;
        if (whole == 0) {
            zeros++;
            continue;
        }
        if (zeros > 0)
            to = put(to, 2 * zeros);
        zeros = 0;
        to = put(to, 2 * (((uint64_t)whole << 1) ^ (uint64_t)(whole >> 63)) + 1);
    }
    if (zeros > 0)
        to = put(to, 2 * zeros);
    *written_out = (size_t)(to - dst);
    return SHOAL_OK;
}

/* False: the bytes end too early. */
static bool get(const uint8_t **from, const uint8_t *end, uint64_t *value_out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *from < end && shift < 63; shift += 7) {
        uint8_t byte = *(*from)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value_out = value;
            return true;
        }
    }
    return false;
}

static void set(float *x, double value, bool add)
{
    *x = add ? *x + (float)value : (float)value;
}

static shoal_status decode(const void *p, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const params *k = p;
    uint64_t hash = place_hash(k, at, count), value;
    const uint8_t *from = src + HASH_BYTES, *end = src + len_bytes;
    if (len_bytes < HASH_BYTES || memcmp(src, &hash, HASH_BYTES) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "toy: coded for another place");
    for (size_t i = 0; i < count;) {
        if (!get(&from, end, &value) || (value % 2 == 0 && (value / 2 > count - i || value == 0)))
            return shoali_fail(SHOAL_ECORRUPT, "toy: malformed at element %zu", i);
        uint64_t zigzag = value >> 1;
        if (value % 2 == 1) {
            int64_t whole = (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
            set(&dst[i++], (double)whole * k->q, add);
            continue;
        }
        for (; zigzag > 0; zigzag--)
            set(&dst[i++], 0, add);
    }
    *read_out = (size_t)(from - src);
    return SHOAL_OK;
}

static const shoali_key keys[] = {
    {"q", SHOALI_KEY_FLOAT, offsetof(params, q), 1e-6, 1, NULL, "0.25", "step"},
    {"random", SHOALI_KEY_FLAG, offsetof(params, random), 0, 0, NULL, "off", "round by chance"},
    {"per_tensor", SHOALI_KEY_FLAG, offsetof(params, per_tensor), 0, 0, NULL, "off", "trait"},
    {"slots", SHOALI_KEY_FLAG, offsetof(params, slots), 0, 0, NULL, "off", "trait"},
    SHOALI_CODEC_KEY_EF(params, "off"),
};

const shoali_codec_row toy_codec_row = {
    .name = "toy",
    .paper = "none",
    .bytes_per_elem = 1,
    .schema = {keys, sizeof keys / sizeof keys[0], sizeof(params)},
    .wire_id = wire_id,
    .error_bound = error_bound,
    .more_traits = more_traits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};

shoal_codec *toy_codec_open(const char *spec)
{
    shoal_codec *codec = NULL;
    assert_ok(shoali_codec_open_row(&toy_codec_row, spec, &codec));
    return codec;
}
