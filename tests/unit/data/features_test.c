/* SPDX-License-Identifier: Apache-2.0 */
/* Features against the definition in double, and the change of rate against the sine itself. */
#include "support/check.h"

#include <complex.h>
#include <math.h>

#include "base/rng.h"
#include "data/features.h"

enum { FRAMES = 6, SAMPLES = 160 * FRAMES + 240 };

static double to_mel(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

/* Logarithms of one frame's bands, by a plain Fourier sum. */
static void bands_of(const float *samples, int bands, double *out)
{
    const double pi = acos(-1), low = to_mel(20), step = (to_mel(8000) - low) / (bands + 1);
    double power[257];
    for (int i = 0; i < 257; i++) {
        double complex sum = 0;
        for (int t = 0; t < 400; t++) {
            double x = (double)samples[t] - 0.97 * (double)samples[t > 0 ? t - 1 : 0];
            sum += x * (0.54 - 0.46 * cos(2 * pi * t / 399)) * cexp(-2 * pi * I * i * t / 512);
        }
        power[i] = creal(sum) * creal(sum) + cimag(sum) * cimag(sum);
    }
    for (int b = 0; b < bands; b++) {
        double sum = 0;
        for (int i = 0; i < 257; i++)
            sum += power[i] * fmax(0, 1 - fabs((to_mel(i * 31.25) - low) / step - b - 1));
        out[b] = log(sum);
    }
}

static void features_follow_their_definition(void **state)
{
    const double pi = acos(-1);
    uint64_t seed = check_seed();
    float samples[SAMPLES], mel[FRAMES * SHOALI_FEATURES_LOG_MEL],
        mfcc[FRAMES * SHOALI_FEATURES_MFCC];
    double bands[40], cepstra[FRAMES][13];
    shoal_arena *arena = shoali_arena_create(1 << 16);
    shoali_features *f[2];
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++)
        samples[i] = (float)(1000 * shoali_rng_normal(seed, 1, i));
    assert_ok(shoali_features_create(arena, true, &f[0]));
    assert_ok(shoali_features_create(arena, false, &f[1]));
    assert_int_equal(shoali_features_frames(SAMPLES), FRAMES);
    shoali_features_run(f[0], samples, FRAMES, mel);
    shoali_features_run(f[1], samples, FRAMES, mfcc);
    for (size_t t = 0; t < FRAMES; t++) {
        bands_of(samples + 160 * t, 40, bands);
        for (size_t b = 0; b < 40; b++)
            assert_true(fabs((double)mel[t * 40 + b] - bands[b]) < 1e-3);
        bands_of(samples + 160 * t, 26, bands);
        for (int c = 0; c < 13; c++) {
            cepstra[t][c] = 0;
            for (int b = 0; b < 26; b++)
                cepstra[t][c] += sqrt(2.0 / 26) * cos(pi * c * (b + 0.5) / 26) * bands[b];
            assert_true(fabs((double)mfcc[t * 39 + (size_t)c] - cepstra[t][c]) < 3e-3);
        }
    }
    for (size_t c = 0; c < 13; c++) {
        double slope = (cepstra[3][c] - cepstra[1][c] + 2 * (cepstra[4][c] - cepstra[0][c])) / 10;
        assert_true(fabs((double)mfcc[2 * 39 + 13 + c] - slope) < 1e-2);
    }
    shoali_features_centre(f[1], FRAMES, mfcc);
    for (size_t c = 0; c < 13; c++) {
        double mean = 0;
        for (size_t t = 0; t < FRAMES; t++)
            mean += cepstra[t][c] / FRAMES;
        assert_true(fabs((double)mfcc[c] - (cepstra[0][c] - mean)) < 6e-3);
        double slope = (cepstra[3][c] - cepstra[1][c] + 2 * (cepstra[4][c] - cepstra[0][c])) / 10;
        assert_true(fabs((double)mfcc[2 * 39 + 13 + c] - slope) < 1e-2); /* stays as it was */
    }
    shoali_arena_destroy(arena);
}

static void a_tone_stays_a_tone(void **state)
{
    enum { COUNT = 4410 };
    const double pi = acos(-1);
    int16_t in[COUNT];
    float out[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        in[i] = (int16_t)lround(10000 * sin(2 * pi * 440 * i / 22050));
    assert_int_equal(shoali_resample_count(COUNT), 3200);
    shoali_resample(in, COUNT, out);
    for (int n = 100; n < 3000; n++)
        assert_true(fabs((double)out[n] - 10000 * sin(2 * pi * 440 * n / 16000)) < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(features_follow_their_definition),
        CHECK_TEST(a_tone_stays_a_tone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
