/* SPDX-License-Identifier: Apache-2.0 */
/* inceptionn: the lossy gradient code of the INCEPTIONN network cards. inceptionn.h has the format.
 *
 * `faithful` follows the publication, whose "bound" is none: BYTE drops everything below 2^-7
 * whatever k is. `strict` sends a WORD wherever BYTE would lose 2^-k or more, and so keeps the
 * bound. Thresholds are absolute, hence the codec loses small gradients for good unless error
 * feedback (default) carries them over to the next step, or a prescale lifts them: `prescale=auto`
 * brings the rms of each tensor, the largest over all ranks, to the largest error. `zmap` leaves
 * the tags of zeros out, which lifts the published ceiling of 16 times fewer bytes. */
#include "codec/inceptionn.h"

#include <math.h>

#include "base/error.h"
#include "base/log.h"
#include "kernel/kernel.h"

typedef struct inceptionn_params {
    int32_t bound, prescale, layout;
    bool strict, faithful, zmap, ef;
} inceptionn_params;

enum {
    PRESCALE_AUTO = 0,
    NO_PRESCALE = 1,
    PRESCALE_MOST = 16
}; /* choice i of prescale is the power i - 1 */
enum { PLANES, INTERLEAVED, FLOATS };

#define AT(field) offsetof(inceptionn_params, field)
static const shoali_key keys[] = {
    {"bound", SHOALI_KEY_CHOICE, AT(bound), 0, 0, "2^-6|2^-8|2^-10", "2^-10",
     "largest error of a value below 1"},
    {"strict", SHOALI_KEY_FLAG, AT(strict), 0, 0, NULL, "on", "really keep the bound"},
    {"faithful", SHOALI_KEY_FLAG, AT(faithful), 0, 0, NULL, "off", "as published: strict=off"},
    {"prescale", SHOALI_KEY_CHOICE, AT(prescale), 0, 0,
     "auto|0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16", "0",
     "encode values times this power of two; auto: from the rms of each tensor"},
    {"layout", SHOALI_KEY_CHOICE, AT(layout), 0, 0, "planes|interleaved|floats", "planes",
     "order of the coded bytes; interleaved: the hardware's; floats: float32 for cards to code"},
    {"zmap", SHOALI_KEY_FLAG, AT(zmap), 0, 0, NULL, "off",
     "no tags for runs of 32 zeros; planes only, not in the publication"},
    SHOALI_CODEC_KEY_EF(inceptionn_params, "on"),
};

static shoal_status check(void *params)
{
    inceptionn_params *p = params;
    if (p->faithful)
        p->strict = false;
    p->faithful = false; /* only another way to write strict=off: one canonical spec */
    if (p->zmap && p->layout != PLANES)
        return shoali_fail(SHOAL_EINVAL, "inceptionn: zmap goes with layout=planes only");
    if (p->layout == FLOATS && p->prescale != NO_PRESCALE)
        return shoali_fail(SHOAL_EINVAL, "inceptionn: layout=floats is for cards, which know no "
                                         "prescale; leave prescale out");
    return SHOAL_OK;
}

static uint32_t exponent(const inceptionn_params *p)
{
    return 6 + 2 * (uint32_t)p->bound;
}

static uint16_t wire_id(const void *params)
{
    const inceptionn_params *p = params;
    return p->zmap ? 62 : p->layout == FLOATS ? 65 : p->layout == PLANES ? 5 : 4;
}

static uint32_t more_traits(const void *params)
{
    const inceptionn_params *p = params;
    if (p->layout == FLOATS)
        return SHOAL_CODEC_FIXED_RATE;
    return p->prescale == PRESCALE_AUTO ? SHOAL_CODEC_MEASURE | SHOAL_CODEC_PER_TENSOR : 0;
}

/* Of values below 1 before the prescale; auto may choose 2^0. */
static double error_bound(const void *params)
{
    const inceptionn_params *p = params;
    double bound = ldexp(1, -(int)exponent(p));
    if (!p->strict && bound < 0x1p-7)
        bound = 0x1p-7;
    return p->prescale == PRESCALE_AUTO ? bound : ldexp(bound, 1 - p->prescale);
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)parts;
    const inceptionn_params *p = params;
    if (p->layout == FLOATS)
        return count * sizeof(float);
    size_t tags = p->layout == PLANES ? (count + 31) / 32 * 8 : (count + 7) / 8 * 2;
    size_t live = p->zmap ? (count + SHOALI_INC_BLOCK - 1) / SHOALI_INC_BLOCK * 4 : 0;
    return live + tags + count * sizeof(float);
}

/* The power that all ranks derive from the same shared rms. */
static uint32_t auto_power(const inceptionn_params *p, float rms)
{
    double ratio = error_bound(p) / rms;
    if (!isfinite(ratio) || ratio < 1)
        return 0;
    int power = ilogb(ratio);
    return power > PRESCALE_MOST ? PRESCALE_MOST : (uint32_t)power;
}

static shoali_inc_rule rule_of(const inceptionn_params *p, const shoal_codec_at *at)
{
    uint32_t power = p->prescale == PRESCALE_AUTO ? auto_power(p, at->shared[0])
                                                  : (uint32_t)p->prescale - 1;
    return shoali_inc_rule_make(exponent(p), power, p->strict);
}

static const shoali_inc_loops *loops_of(const inceptionn_params *p)
{
    if (p->layout == FLOATS)
        return &shoali_inc_floats;
#if defined(__x86_64__)
    if (shoali_kernel()->avx2) {
        shoali_inc_avx2_init();
        if (p->zmap)
            return &shoali_inc_avx2_zmap;
        return p->layout == PLANES ? &shoali_inc_avx2_planes : &shoali_inc_avx2_interleaved;
    }
#elif defined(__aarch64__)
    if (shoali_kernel()->neon && p->layout == PLANES) {
        shoali_inc_neon_init();
        return p->zmap ? &shoali_inc_neon_zmap : &shoali_inc_neon_planes;
    }
#endif
    if (p->zmap)
        return &shoali_inc_ref_zmap;
    return p->layout == PLANES ? &shoali_inc_ref_planes : &shoali_inc_ref_interleaved;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    const inceptionn_params *p = params;
    shoali_inc_rule rule = rule_of(p, at);
    (void)capacity;
    if (p->prescale == PRESCALE_AUTO && at->first == 0)
        shoali_log(DEBUG, "inceptionn: tensor %016llx, rms %g over all ranks: prescale 2^%u",
                   (unsigned long long)at->tensor->key, (double)at->shared[0], rule.power);
    *written_out = loops_of(p)->encode(&rule, src, count, dst);
    return SHOAL_OK;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    const inceptionn_params *p = params;
    shoali_inc_rule rule = rule_of(p, at);
    size_t used = loops_of(p)->decode(&rule, src, len_bytes, dst, count, add);
    if (used == SHOALI_INC_CORRUPT)
        return shoali_fail(SHOAL_ECORRUPT,
                           "inceptionn: %zu bytes do not hold the %zu elements from %zu on",
                           len_bytes, count, at->first);
    *read_out = used;
    return SHOAL_OK;
}

static shoal_status measure(const void *params, const shoal_tensor *tensor, const float *src,
                            float *shared_out)
{
    (void)params;
    double sum = shoali_kernel()->sumsq(src, tensor->count);
    shared_out[0] = tensor->count > 0 ? (float)sqrt(sum / (double)tensor->count) : 0;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_inceptionn = {
    .name = "inceptionn",
    .paper = "Li et al., \"A Network-Centric Hardware/Algorithm Co-Design to Accelerate "
             "Distributed Training of Deep Neural Networks\", MICRO 2018, section V; ours: "
             "strict, prescale, planes, zmap, floats",
    .traits = SHOAL_CODEC_NAN_SAFE,
    .bytes_per_elem = 1,
    .shared_count = 1,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(inceptionn_params)},
    .wire_id = wire_id,
    .more_traits = more_traits,
    .error_bound = error_bound,
    .check = check,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .measure = measure,
};
