/* SPDX-License-Identifier: Apache-2.0 */
/* terngrad: every value becomes -s, 0 or +s by chance, with its mean kept; terngrad.h has the
 * bytes.
 *
 * s is one number per layer, the same on all ranks: the largest over ranks of clip * sigma, sigma
 * being the standard deviation of the layer's gradient on one rank, or of max |g| with clip = 0
 * (then E[decoded] = g). Values beyond s count as s. Hence Var[decoded] = |g| (s - |g|), and with
 * one s for all a sum of k ranks is one of 2k + 1 numbers, which travel exactly in
 * ceil(log2(2k+1)) bits: on the way to a server or round a ring, and back.
 *
 * Chances are exact to the 24 bits of |g| / s: 16 random bits decide nearly all elements, 24 more
 * those that these leave open, so a value of s / 2^30 travels as often as it should.
 *
 * Differs from the authors' code: counter-based random numbers; a layer whose gradient is (nearly)
 * constant has its rms as scale, where clip * sigma would drop it for good.
 * scaler=own is the variant without sharing: s is the rank's own max |g| after clipping, travels in
 * front of each piece, and sums are drawn anew in the same number of bits. scaler=global, one s for
 * the whole operation, is the ablation. scaler=rms is ours: s is the root of the mean over ranks of
 * (clip * sigma)^2, so that one rank's large sigma adds less to the noise of all, at the price of
 * more clipping on that rank. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/terngrad.h"
#include "kernel/kernel.h"

typedef struct terngrad_params {
    double clip;
    int64_t min;
    int32_t scaler, pack;
    bool last, ef;
} terngrad_params;

enum { SHARED, OWN, GLOBAL, RMS };
enum { LINEAR, PLANAR, BASE3 };
enum { SCALE_BYTES = sizeof(float), BITS_MOST = 24 };

#define AT(field) offsetof(terngrad_params, field)
static const shoali_key keys[] = {
    {"clip", SHOALI_KEY_FLOAT, AT(clip), 0, 10, NULL, "2.5",
     "clip at so many standard deviations of the layer, at least 1; 0: never"},
    {"scaler", SHOALI_KEY_CHOICE, AT(scaler), 0, 0, "shared|own|global|rms", "shared",
     "the scale is one per layer, the largest over ranks; each rank's own; one for the whole "
     "operation; one per layer, the rms over ranks"},
    {"pack", SHOALI_KEY_CHOICE, AT(pack), 0, 0, "linear|planar|base3", "linear",
     "2 bits in order; in the authors' order; 1.6 bits. Sums travel in ceil(log2(2k+1)) bits"},
    {"min", SHOALI_KEY_INT, AT(min), 0, 1e12, NULL, "1",
     "layers with fewer elements travel as float32"},
    {"last", SHOALI_KEY_FLAG, AT(last), 0, 0, NULL, "on",
     "the last layer, too; off: it travels as float32"},
    SHOALI_CODEC_KEY_EF(terngrad_params, "off"),
};

static shoal_status check(void *params)
{
    const terngrad_params *p = params;
    if (p->clip > 0 && p->clip < 1)
        return shoali_fail(SHOAL_EINVAL,
                           "codec terngrad: clip=%g would cut most values; use 0 or 1 .. 10",
                           p->clip);
    if (p->clip == 0 && p->scaler == RMS)
        return shoali_fail(SHOAL_EINVAL,
                           "codec terngrad: scaler=rms would cut the largest values that clip=0 "
                           "keeps; give clip=1 .. 10 or another scaler");
    return SHOAL_OK;
}

static uint16_t wire_id(const void *params)
{
    const terngrad_params *p = params;
    return (uint16_t)(16 + 2 * p->pack + (p->scaler == OWN));
}

static uint32_t more_traits(const void *params)
{
    const terngrad_params *p = params;
    uint32_t traits = p->scaler == OWN ? SHOAL_CODEC_MEASURE_OWN : SHOAL_CODEC_SUMMABLE;
    if (p->scaler == GLOBAL)
        traits |= SHOAL_CODEC_MEASURE_ALL;
    if (p->scaler == RMS)
        traits |= SHOAL_CODEC_MEASURE_RMS;
    return traits | (p->clip > 0 ? 0u : (uint32_t)SHOAL_CODEC_UNBIASED);
}

static bool exempt(const void *params, const shoal_tensor *tensor)
{
    const terngrad_params *p = params;
    return tensor->count < (uint64_t)p->min ||
           (!p->last && (tensor->flags & SHOAL_TENSOR_LAST) != 0);
}

/* Of Gaussian values with s = c sigma: E |x| (c - |x|) inside, the square of what is cut beyond.
 * The largest of 65,536 values is hardly ever above 5.6 sigma. */
static double variance(const void *params)
{
    const terngrad_params *p = params;
    const double largest = 5.6, pi = 3.14159265358979323846;
    double c = p->clip == 0 || (p->scaler == OWN && p->clip > largest) ? largest : p->clip;
    double density = exp(-c * c / 2) / sqrt(2 * pi), beyond = erfc(c / sqrt(2)) / 2;
    double inside = 2 * c * (1 / sqrt(2 * pi) - density) - (1 - 2 * beyond - 2 * c * density);
    return inside + 2 * ((1 + c * c) * beyond - c * density);
}

/* ---------------------------------------------------------------- sizes */

uint32_t shoali_tern_bits(uint32_t parts)
{
    uint32_t bits = 2;
    while (bits < 33 && ((uint64_t)1 << bits) < 2 * (uint64_t)parts + 1)
        bits++;
    return bits;
}

static size_t coded_bytes(const terngrad_params *p, size_t count, uint32_t parts)
{
    uint32_t bits = shoali_tern_bits(parts);
    if (parts > 1)
        return count / 8 * bits + (count % 8 * bits + 7) / 8;
    if (p->pack == BASE3)
        return count / 5 + (count % 5 != 0);
    if (p->pack == PLANAR)
        return count == 0 ? 0 : count / 4 + 1;
    return count / 4 + (count % 4 != 0);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    const terngrad_params *p = params;
    size_t head = p->scaler == OWN && count > 0 ? SCALE_BYTES : 0;
    return head + coded_bytes(p, count, parts);
}

/* ---------------------------------------------------------------- scales */

static const shoali_tern_loops *loops_of(const shoali_tern_rule *rule)
{
#if defined(__x86_64__)
    if (shoali_kernel()->avx2 && rule->lift == 1 && rule->most < 128)
        return &shoali_tern_avx2;
#elif defined(__aarch64__)
    if (shoali_kernel()->neon && rule->lift == 1 && rule->most < 128)
        return &shoali_tern_neon;
#endif
    (void)rule;
    return &shoali_tern_ref;
}

shoali_tern_rule shoali_tern_rule_make(float scale, uint32_t parts, shoali_noise noise)
{
    shoali_tern_rule rule = {.lift = 1, .most = parts, .noise = noise};
    if (!(scale > 0) || !isfinite(scale))
        return rule;
    rule.scale = scale;
    rule.lift = scale < 0x1p-100f ? 0x1p100f : 1;
    rule.inverse = 1 / (scale * rule.lift);
    return rule;
}

static shoali_noise noise_of(const shoal_codec_at *at)
{
    return shoali_noise_key(at->seed, at->stream, 0);
}

/* Standard deviation times clip, or rms if that is more: the mean is subtracted from one only. */
static double clipped(const terngrad_params *p, const float *src, size_t count)
{
    const shoali_tern_rule any = {.lift = 1};
    double sums[2], n = (double)count;
    loops_of(&any)->moments(src, count, sums);
    double mean = sums[0] / n, square = sums[1] / n;
    return fmax(p->clip * sqrt(fmax(0, square - mean * mean)), sqrt(square));
}

static shoal_status measure(const void *params, const shoal_tensor *tensor, const float *src,
                            float *shared_out)
{
    const terngrad_params *p = params;
    double scale = 0;
    if (tensor->count > 0 && !exempt(p, tensor)) {
        double largest = p->clip == 0 || p->scaler == OWN
                             ? (double)shoali_kernel()->absmax(src, tensor->count)
                             : INFINITY;
        scale = p->clip > 0 ? clipped(p, src, tensor->count) : largest;
        if (largest < scale || isnan(largest))
            scale = largest;
    }
    shared_out[0] = (float)fmin(scale, (double)FLT_MAX);
    return isnan(scale) ? shoali_fail(SHOAL_ENOTFINITE, "terngrad: NaN in a gradient") : SHOAL_OK;
}

/* ---------------------------------------------------------------- blocks of codes */

static size_t block_of(size_t count, size_t done)
{
    return count - done < SHOALI_TERN_BLOCK ? count - done : SHOALI_TERN_BLOCK;
}

static bool encode_base3(const shoali_tern_rule *rule, uint64_t first, const float *src,
                         size_t count, uint8_t *dst)
{
    uint8_t codes[SHOALI_TERN_BLOCK + 8];
    bool finite = true;
    for (size_t done = 0, n; done < count; done += n) {
        n = block_of(count, done);
        finite &= loops_of(rule)->draw(rule, first + done, src + done, n, codes);
        shoali_tern_pack_base3(codes, n, dst + done / 5);
    }
    return finite;
}

static bool decode_base3(const shoali_tern_rule *rule, const uint8_t *src, size_t count, float *dst,
                         bool add)
{
    uint8_t codes[SHOALI_TERN_BLOCK + 8];
    bool good = true;
    for (size_t done = 0, n; done < count; done += n) {
        n = block_of(count, done);
        good &= shoali_tern_unpack_base3(src + done / 5, n, codes);
        good &= loops_of(rule)->expand(rule, codes, n, dst + done, add);
    }
    return good;
}

/* Elements of the quarters' entries [at, at + n) that exist; behind them comes padding 0, 1, .. */
static size_t quarter_part(size_t count, size_t quarter, size_t length, size_t at, size_t n)
{
    size_t begin = quarter * length + at;
    return begin >= count ? 0 : count - begin < n ? count - begin : n;
}

static bool encode_planar(const shoali_tern_rule *rule, uint64_t first, const float *src,
                          size_t count, uint8_t *dst)
{
    enum { PART = SHOALI_TERN_BLOCK / 4 };
    const size_t length = coded_bytes(&(terngrad_params){.pack = PLANAR}, count, 1);
    bool finite = true;
    for (size_t at = 0; at < length; at += PART) {
        size_t n = length - at < PART ? length - at : PART;
        memset(dst + at, 0, n);
        for (size_t quarter = 0; quarter < 4; quarter++) {
            uint8_t codes[PART];
            size_t begin = quarter * length + at;
            size_t real = quarter_part(count, quarter, length, at, n);
            finite &= loops_of(rule)->draw(rule, first + begin, src + (real > 0 ? begin : 0), real,
                                           codes);
            for (size_t i = real; i < n; i++)
                codes[i] = (uint8_t)(begin + i - count);
            for (size_t i = 0; i < n; i++)
                dst[at + i] = (uint8_t)(dst[at + i] | codes[i] << 2 * quarter);
        }
    }
    return finite;
}

static bool decode_planar(const shoali_tern_rule *rule, const uint8_t *src, size_t count,
                          float *dst, bool add)
{
    enum { PART = SHOALI_TERN_BLOCK / 4 };
    const size_t length = coded_bytes(&(terngrad_params){.pack = PLANAR}, count, 1);
    bool good = true;
    for (size_t at = 0; at < length; at += PART) {
        size_t n = length - at < PART ? length - at : PART;
        for (size_t quarter = 0; quarter < 4; quarter++) {
            uint8_t codes[PART];
            size_t real = quarter_part(count, quarter, length, at, n);
            for (size_t i = 0; i < real; i++)
                codes[i] = src[at + i] >> 2 * quarter & 3;
            if (real > 0)
                good &= loops_of(rule)->expand(rule, codes, real, dst + quarter * length + at, add);
        }
    }
    return good;
}

/* ---------------------------------------------------------------- sums */

/* Codes wider than a byte, for sums of 128 members and more. */
static void encode_wide(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    const uint32_t bits = shoali_tern_bits(rule->most);
    const double most = rule->most;
    uint64_t word = 0;
    uint32_t held = 0;
    for (size_t i = 0; i < count; i++) {
        double steps = rint((double)(src[i] * rule->lift) * (double)rule->inverse);
        word |= (uint64_t)(int64_t)(most + fmax(-most, fmin(most, steps))) << held;
        for (held += bits; held >= 8; held -= 8, word >>= 8)
            *dst++ = (uint8_t)word;
    }
    if (held > 0)
        *dst = (uint8_t)word;
}

static bool decode_wide(const shoali_tern_rule *rule, const uint8_t *src, size_t count, float *dst,
                        bool add)
{
    const uint32_t bits = shoali_tern_bits(rule->most);
    uint64_t word = 0;
    uint32_t held = 0;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        for (; held < bits; held += 8)
            word |= (uint64_t)*src++ << held;
        int64_t code = (int64_t)(word & (((uint64_t)1 << bits) - 1));
        float x = (float)(code - (int64_t)rule->most) * rule->scale;
        good &= code <= 2 * (int64_t)rule->most;
        dst[i] = add ? dst[i] + x : x;
        word >>= bits;
        held -= bits;
    }
    return good;
}

static bool encode_sum(const shoali_tern_rule *rule, const float *src, size_t count, uint8_t *dst)
{
    const uint32_t bits = shoali_tern_bits(rule->most);
    uint8_t codes[SHOALI_TERN_BLOCK];
    bool finite = true;
    if (bits > 8) {
        encode_wide(rule, src, count, dst);
        return shoali_kernel()->first_nonfinite(src, count) == count;
    }
    for (size_t done = 0, n; done < count; done += n) {
        n = block_of(count, done);
        finite &= loops_of(rule)->nearest(rule, src + done, n, codes);
        shoali_tern_pack_bits(codes, n, bits, dst + done / 8 * bits);
    }
    return finite;
}

static bool decode_sum(const shoali_tern_rule *rule, const uint8_t *src, size_t count, float *dst,
                       bool add)
{
    const uint32_t bits = shoali_tern_bits(rule->most);
    uint8_t codes[SHOALI_TERN_BLOCK];
    bool good = true;
    if (bits > 8)
        return decode_wide(rule, src, count, dst, add);
    for (size_t done = 0, n; done < count; done += n) {
        n = block_of(count, done);
        shoali_tern_unpack_bits(src + done / 8 * bits, n, bits, codes);
        good &= loops_of(rule)->expand(rule, codes, n, dst + done, add);
    }
    return good;
}

/* Without a shared scale a sum lies on no grid: up or down to one by chance, in floats that
 * encode_sum then finds exact. */
static bool encode_fresh_sum(const shoali_tern_rule *rule, uint64_t first, const float *src,
                             size_t count, uint8_t *dst)
{
    const uint32_t bits = shoali_tern_bits(rule->most);
    float steps[SHOALI_TERN_BLOCK];
    const shoali_tern_rule unit = shoali_tern_rule_make(1, rule->most, rule->noise);
    for (size_t done = 0, n; done < count; done += n) {
        n = block_of(count, done);
        for (size_t i = 0; i < n; i++) {
            uint64_t element = first + done + i;
            uint32_t chance = shoali_noise_at(rule->noise, (uint32_t)element) >> 8;
            double exact = (double)(src[done + i] * rule->lift) * (double)rule->inverse;
            steps[i] = (float)floor(exact + (double)chance * 0x1p-24);
        }
        if (!encode_sum(&unit, steps, n, dst + done / 8 * bits))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- pieces */

static shoal_status not_finite(const shoal_codec_at *at, const float *src, size_t count)
{
    size_t i = shoali_kernel()->first_nonfinite(src, count);
    return shoali_fail(SHOAL_ENOTFINITE, "terngrad: element %zu is not finite", at->first + i);
}

static bool encode_one(const terngrad_params *p, const shoali_tern_rule *rule, uint64_t first,
                       const float *src, size_t count, uint8_t *dst)
{
    if (p->pack == BASE3)
        return encode_base3(rule, first, src, count, dst);
    if (p->pack == PLANAR)
        return encode_planar(rule, first, src, count, dst);
    return loops_of(rule)->draw_packed(rule, first, src, count, dst);
}

static bool decode_one(const terngrad_params *p, const shoali_tern_rule *rule, const uint8_t *src,
                       size_t count, float *dst, bool add)
{
    if (p->pack == BASE3)
        return decode_base3(rule, src, count, dst, add);
    if (p->pack == PLANAR)
        return decode_planar(rule, src, count, dst, add);
    return loops_of(rule)->expand_packed(rule, src, count, dst, add);
}

/* Also of the widest sums: two million members. */
static shoal_status check_parts(uint32_t parts)
{
    if (shoali_tern_bits(parts) > BITS_MOST)
        return shoali_fail(SHOAL_EINVAL, "terngrad: sums of %u members are too many", parts);
    return SHOAL_OK;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const terngrad_params *p = params;
    const bool own = p->scaler == OWN, sum = at->parts > 1;
    float scale = at->shared[0];
    (void)capacity;
    SHOALI_TRY(check_parts(at->parts));
    if (own && sum) /* the sum's own: 2k + 1 levels up to its largest value */
        scale = shoali_kernel()->absmax(src, count) / (float)at->parts;
    shoali_tern_rule rule = shoali_tern_rule_make(scale, at->parts, noise_of(at));
    uint8_t *codes = dst;
    if (own && count > 0) {
        memcpy(codes, &rule.scale, SCALE_BYTES);
        codes += SCALE_BYTES;
    }
    bool finite = !sum  ? encode_one(p, &rule, at->first, src, count, codes)
                  : own ? encode_fresh_sum(&rule, at->first, src, count, codes)
                        : encode_sum(&rule, src, count, codes);
    if (!finite || isnan(scale))
        return not_finite(at, src, count);
    *written_out = bound(p, count, at->parts);
    return SHOAL_OK;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const terngrad_params *p = params;
    float scale = at->shared[0];
    SHOALI_TRY(check_parts(at->parts));
    size_t needed = bound(p, count, at->parts);
    if (len_bytes < needed)
        return shoali_fail(SHOAL_ECORRUPT, "terngrad: %zu bytes for %zu elements", len_bytes,
                           count);
    *read_out = needed;
    if (count == 0)
        return SHOAL_OK;
    if (p->scaler == OWN) {
        memcpy(&scale, src, SCALE_BYTES);
        src += SCALE_BYTES;
        if (!isfinite(scale) || scale < 0)
            return shoali_fail(SHOAL_ECORRUPT, "terngrad: a scale of %g", (double)scale);
    }
    shoali_tern_rule rule = shoali_tern_rule_make(scale, at->parts, noise_of(at));
    bool good = at->parts == 1 ? decode_one(p, &rule, src, count, dst, add)
                               : decode_sum(&rule, src, count, dst, add);
    if (!good)
        return shoali_fail(SHOAL_ECORRUPT, "terngrad: no code of a sum of %u, from element %zu on",
                           at->parts, at->first);
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- sums in coded form */

static uint32_t bits_at(const uint8_t *src, size_t first_bit, uint32_t bits)
{
    uint32_t value = 0;
    for (uint32_t done = 0; done < bits;) {
        size_t at = first_bit + done;
        value |= (uint32_t)(src[at / 8] >> at % 8) << done;
        done += 8 - (uint32_t)(at % 8);
    }
    return value & (((uint32_t)1 << bits) - 1);
}

static uint32_t code_at(const terngrad_params *p, const shoali_coded *c, size_t count, size_t i)
{
    if (c->parts > 1)
        return bits_at(c->bytes, i * shoali_tern_bits(c->parts), shoali_tern_bits(c->parts));
    if (p->pack == PLANAR) {
        size_t length = coded_bytes(p, count, 1);
        return c->bytes[i % length] >> 2 * (i / length) & 3;
    }
    if (p->pack == LINEAR)
        return c->bytes[i / 4] >> 2 * (i % 4) & 3;
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return c->bytes[i / 5] < 243 ? c->bytes[i / 5] / power[i % 5] % 3 : UINT32_MAX;
}

/* Codes are steps above the lowest, so that of a sum is the sum of codes. */
static shoal_status add(const void *params, const shoal_codec_at *at, const shoali_coded *a,
                        const shoali_coded *b, size_t count, uint8_t *dst, size_t capacity,
                        size_t *written_out)
{
    const terngrad_params *p = params;
    const uint32_t bits = shoali_tern_bits(at->parts);
    uint64_t word = 0;
    uint32_t held = 0;
    (void)capacity;
    SHOALI_TRY(check_parts(at->parts));
    if (a->len_bytes != bound(p, count, a->parts) || b->len_bytes != bound(p, count, b->parts))
        return shoali_fail(SHOAL_ECORRUPT, "terngrad: %zu and %zu bytes for %zu elements",
                           a->len_bytes, b->len_bytes, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t x = code_at(p, a, count, i), y = code_at(p, b, count, i);
        if (x > 2 * a->parts || y > 2 * b->parts)
            return shoali_fail(SHOAL_ECORRUPT, "terngrad: element %zu has no code", at->first + i);
        word |= (uint64_t)(x + y) << held;
        for (held += bits; held >= 8; held -= 8, word >>= 8)
            *dst++ = (uint8_t)word;
    }
    if (held > 0)
        *dst = (uint8_t)word;
    *written_out = bound(p, count, at->parts);
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_terngrad = {
    .name = "terngrad",
    .paper = "Wen et al., \"TernGrad\", NIPS 2017, section 3, and the authors' code; ours: own "
             "random numbers, base3, a floor under the scale of constant layers",
    .traits = SHOAL_CODEC_FIXED_RATE | SHOAL_CODEC_PER_TENSOR | SHOAL_CODEC_MEASURE,
    .bytes_per_elem = 0.25f,
    .shared_count = 1,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(terngrad_params)},
    .wire_id = wire_id,
    .variance = variance,
    .more_traits = more_traits,
    .exempt = exempt,
    .check = check,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .measure = measure,
    .add = add,
};
