/* SPDX-License-Identifier: Apache-2.0 */
#include "support/eden_case.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

enum { ROW = SHOALI_EDEN_ROW };

/* The contract's figures: D / (1 - D), or D with feedback, of Lloyd and Max's distortion D. */
double eden_case_error(unsigned bits, bool ef)
{
    static const double free_of_bias[] = {INFINITY, 0.5708, 0.13312, 0.035784, 0.009592};
    static const double least_squares[] = {1, 0.36338, 0.11748, 0.034548, 0.009501};
    return ef ? least_squares[bits] : free_of_bias[bits];
}

shoal_codec *eden_case_open(const char *spec)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

/* Gaussian, Student t with 3 degrees of freedom, rows over eight octaves, one value in 300 is not
 * zero, log-normal scales of 100 elements each. */
float eden_case_draw(int kind, size_t i)
{
    const uint64_t seed = check_seed();
    double normal = shoali_rng_normal(seed, 1, i), chi = 0;
    switch (kind) {
    case 0:
        return (float)normal;
    case 1:
        for (uint64_t k = 0; k < 3; k++)
            chi += pow(shoali_rng_normal(seed, 10 + k, i), 2);
        return (float)(normal / sqrt(chi / 3));
    case 2:
        return (float)(normal * exp2(-(double)shoali_rng_below(seed, 5, i / ROW, 8)));
    case 3:
        return shoali_rng_below(seed, 6, i, 300) == 0 ? (float)normal : 0;
    default:
        return (float)(normal * exp(2 * shoali_rng_normal(seed, 7, i / 100)));
    }
}

const float *eden_case_data(int kind)
{
    static float memory[EDEN_KINDS][EDEN_COUNT];
    static bool ready[EDEN_KINDS];
    for (size_t i = 0; i < EDEN_COUNT && !ready[kind]; i++)
        memory[kind][i] = eden_case_draw(kind, i);
    ready[kind] = true;
    return memory[kind];
}

uint8_t eden_coded[EDEN_COUNT * 4];

size_t eden_case_encode(const shoal_codec *codec, uint64_t stream, const float *src, size_t count)
{
    const shoal_codec_at at = {.parts = 1, .seed = 3, .stream = stream};
    size_t written;
    assert_ok(shoal_codec_encode(codec, &at, src, count, eden_coded, sizeof eden_coded, &written));
    assert_int_equal(written, shoal_codec_bound(codec, count, 1));
    return written;
}

void eden_case_decode(const shoal_codec *codec, uint64_t stream, size_t length, float *got,
                      size_t count)
{
    const shoal_codec_at at = {.parts = 1, .seed = 3, .stream = stream};
    size_t used;
    assert_ok(shoal_codec_decode(codec, &at, eden_coded, length, got, count, false, &used));
    assert_int_equal(used, length);
}

double eden_case_energy(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}
