/* SPDX-License-Identifier: Apache-2.0 */
#include "support/codec_case.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"
#include "support/codec_specs.h"
#include "support/example_codec.h"

static void each_spec(const shoali_codec_row *row, codec_check *check, bool defaults_only)
{
    char spec[CODEC_SPEC_BYTES];
    if (row->encode == NULL)
        return;
    for (size_t i = 0; codec_spec(row, i, spec) && (i == 0 || !defaults_only); i++) {
        shoal_codec *codec;
        assert_ok(shoali_codec_open_row(row, spec, &codec));
        check(codec);
        shoal_codec_close(codec);
    }
}

void each_codec(codec_check *check)
{
    for (size_t i = 0; i < shoali_codec_count(); i++)
        each_spec(shoali_codec_row_at(i), check, false);
    each_spec(&shoali_codec_example, check, false);
}

void each_default_codec(codec_check *check)
{
    for (size_t i = 0; i < shoali_codec_count(); i++)
        each_spec(shoali_codec_row_at(i), check, true);
    each_spec(&shoali_codec_example, check, true);
}

const char *codec_data_name(codec_data kind)
{
    static const char *const names[] = {"dense",    "small",    "sparse",  "skewed",   "zero",
                                        "wide",     "gauss",    "laplace", "student3", "rows",
                                        "constant", "denormal", "huge"};
    return names[kind];
}

static double student3(uint64_t stream, size_t i, double normal)
{
    double squares = 0;
    for (uint64_t k = 0; k < 3; k++) {
        double x = shoali_rng_normal(check_seed(), stream + 60 + k, i);
        squares += x * x;
    }
    return normal / sqrt(squares / 3);
}

float codec_data_at(codec_data kind, size_t i)
{
    uint64_t seed = check_seed(), stream = 100 + (uint64_t)kind;
    double normal = shoali_rng_normal(seed, stream, i);
    switch (kind) {
    case DENSE:
        return fmaxf(-0.999f, fminf(0.999f, (float)normal * 0.3f));
    case SMALL:
        return (float)(normal * 3e-4);
    case SPARSE:
        return shoali_rng_below(seed, stream + 50, i, 97) == 0 ? (float)normal * 0.02f : 0;
    case SKEWED:
        return (float)fmin(0.999, ldexp(fabs(normal), -(int)shoali_rng_below(seed, 99, i, 20)));
    case ZERO:
        return i % 2 == 0 ? 0.0f : -0.0f;
    case WIDE:
        return (float)ldexp(normal, (int)shoali_rng_below(seed, 99, i, 24) - 16);
    case GAUSS:
        return (float)(normal * 0.01);
    case LAPLACE:
        return (float)copysign(0.01 * log(1 - shoali_rng_double(seed, stream + 70, i)), normal);
    case STUDENT3:
        return (float)(0.01 * student3(stream, i, normal));
    case ROWS:
        return (float)(normal * 0.01 * exp2(-(double)shoali_rng_below(seed, 98, i / 256, 8)));
    case CONSTANT:
        return 0.01f;
    case DENORMAL:
        return (float)(normal * 1e-41);
    default:
        return (float)(normal * 2e37);
    }
}

const float *codec_data_of(codec_data kind)
{
    static float memory[CODEC_DATA_KINDS][CODEC_DATA_MOST];
    static bool ready[CODEC_DATA_KINDS];
    if (!ready[kind])
        for (size_t i = 0; i < CODEC_DATA_MOST; i++)
            memory[kind][i] = codec_data_at(kind, i);
    ready[kind] = true;
    return memory[kind];
}

void codec_place_init(codec_place *p, const shoal_codec *codec, const float *src, size_t count)
{
    *p = (codec_place){.tensor = {.key = 77, .count = count, .rows = 1, .lr_scale = 1}};
    p->tensor.cols = (uint32_t)count;
    assert_true(shoal_codec_measure_count(codec) <= 16);
    if (shoal_codec_measure_count(codec) > 0)
        assert_ok(shoal_codec_measure(codec, &p->tensor, src, p->shared));
    p->at = (shoal_codec_at){.tensor = &p->tensor, .parts = 1, .seed = 5, .stream = 6};
    p->at.shared = shoal_codec_measure_count(codec) > 0 ? p->shared : NULL;
}

void *exactly(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

coded codec_encode(const shoal_codec *codec, const codec_place *p, const float *src, size_t count)
{
    size_t bound = shoal_codec_bound(codec, count, p->at.parts);
    coded c = {exactly(bound), 0};
    assert_ok(shoal_codec_encode(codec, &p->at, src, count, c.bytes, bound, &c.length));
    assert_true(c.length <= bound);
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_FIXED_RATE) != 0)
        assert_int_equal(c.length, bound);
    return c;
}

float *codec_decode(const shoal_codec *codec, const codec_place *p, coded c, size_t count)
{
    float *dst = exactly(count * sizeof *dst);
    size_t consumed;
    assert_ok(shoal_codec_decode(codec, &p->at, c.bytes, c.length, dst, count, false, &consumed));
    assert_int_equal(consumed, c.length);
    return dst;
}
