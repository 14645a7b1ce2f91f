/* SPDX-License-Identifier: Apache-2.0 */
#include "data/features.h"

#include <math.h>
#include <string.h>

enum { POINTS = 512, BINS = POINTS / 2 + 1, MEL_MFCC = 26, CEPSTRA = 13, BANDS_MAX = 40 };

struct shoali_features {
    bool log_mel;
    uint32_t bands;
    float window[SHOALI_FEATURES_WINDOW];
    float cosines[POINTS / 2], sines[POINTS / 2];
    float weights[BANDS_MAX][BINS];
    float transform[CEPSTRA][MEL_MFCC];
};

static double to_mel(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

static void make_bands(shoali_features *f)
{
    double low = to_mel(20), high = to_mel(SHOALI_FEATURES_RATE / 2.0),
           step = (high - low) / (f->bands + 1);
    for (uint32_t b = 0; b < f->bands; b++)
        for (uint32_t i = 0; i < BINS; i++) {
            double at = (to_mel((double)i * SHOALI_FEATURES_RATE / POINTS) - low) / step - b;
            double weight = at < 1 ? at : 2 - at;
            f->weights[b][i] = weight > 0 ? (float)weight : 0;
        }
}

shoal_status shoali_features_create(shoal_arena *arena, bool log_mel,
                                    shoali_features **features_out)
{
    const double pi = acos(-1);
    shoali_features *f = shoali_arena_alloc(arena, sizeof *f);
    if (f == NULL)
        return SHOAL_ENOMEM;
    f->log_mel = log_mel;
    f->bands = log_mel ? SHOALI_FEATURES_LOG_MEL : MEL_MFCC;
    for (int i = 0; i < SHOALI_FEATURES_WINDOW; i++)
        f->window[i] = (float)(0.54 - 0.46 * cos(2 * pi * i / (SHOALI_FEATURES_WINDOW - 1)));
    for (int i = 0; i < POINTS / 2; i++) {
        f->cosines[i] = (float)cos(2 * pi * i / POINTS);
        f->sines[i] = (float)-sin(2 * pi * i / POINTS);
    }
    for (int c = 0; c < CEPSTRA; c++)
        for (int b = 0; b < MEL_MFCC; b++)
            f->transform[c][b] = (float)(sqrt(2.0 / MEL_MFCC) * cos(pi * c * (b + 0.5) / MEL_MFCC));
    make_bands(f);
    *features_out = f;
    return SHOAL_OK;
}

uint32_t shoali_features_values(const shoali_features *f)
{
    return f->log_mel ? SHOALI_FEATURES_LOG_MEL : SHOALI_FEATURES_MFCC;
}

size_t shoali_features_frames(size_t samples)
{
    return samples < SHOALI_FEATURES_WINDOW
               ? 0
               : (samples - SHOALI_FEATURES_WINDOW) / SHOALI_FEATURES_STEP + 1;
}

/* In place, decimation in time; re and im in bit-reversed order on entry. */
static void fourier(const shoali_features *f, float *re, float *im)
{
    for (int half = 1; half < POINTS; half *= 2)
        for (int start = 0; start < POINTS; start += 2 * half)
            for (int k = 0; k < half; k++) {
                int a = start + k, b = a + half, at = k * (POINTS / 2 / half);
                float c = f->cosines[at], s = f->sines[at];
                float x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
                re[b] = re[a] - x;
                im[b] = im[a] - y;
                re[a] += x;
                im[a] += y;
            }
}

static int reversed(int i)
{
    int r = 0;
    for (int bit = 1; bit < POINTS; bit *= 2, i /= 2)
        r = 2 * r + i % 2;
    return r;
}

static void frame_bands(const shoali_features *f, const float *samples, float *bands)
{
    float re[POINTS] = {0}, im[POINTS] = {0}, power[BINS];
    for (int i = 0; i < SHOALI_FEATURES_WINDOW; i++)
        re[reversed(i)] = f->window[i] * (samples[i] - 0.97f * samples[i > 0 ? i - 1 : 0]);
    fourier(f, re, im);
    for (int i = 0; i < BINS; i++)
        power[i] = re[i] * re[i] + im[i] * im[i];
    for (uint32_t b = 0; b < f->bands; b++) {
        float sum = 1e-10f;
        for (int i = 0; i < BINS; i++)
            sum += f->weights[b][i] * power[i];
        bands[b] = logf(sum);
    }
}

/* Regression over two frames on either side: values [first, first + 13) give the next 13. */
static void differences(float *x, size_t frames, uint32_t first)
{
    for (size_t t = 0; t < frames; t++)
        for (uint32_t v = first; v < first + CEPSTRA; v++) {
            float sum = 0;
            for (size_t d = 1; d <= 2; d++) {
                size_t after = t + d < frames ? t + d : frames - 1, before = t > d ? t - d : 0;
                sum += (float)d *
                       (x[after * SHOALI_FEATURES_MFCC + v] - x[before * SHOALI_FEATURES_MFCC + v]);
            }
            x[t * SHOALI_FEATURES_MFCC + CEPSTRA + v] = sum / 10;
        }
}

void shoali_features_run(const shoali_features *f, const float *samples, size_t frames,
                         float *x_out)
{
    size_t values = shoali_features_values(f);
    for (size_t t = 0; t < frames; t++) {
        float bands[BANDS_MAX], *to = x_out + t * values;
        frame_bands(f, samples + t * SHOALI_FEATURES_STEP, bands);
        if (f->log_mel)
            memcpy(to, bands, sizeof bands);
        for (int c = 0; !f->log_mel && c < CEPSTRA; c++) {
            to[c] = 0;
            for (int b = 0; b < MEL_MFCC; b++)
                to[c] += f->transform[c][b] * bands[b];
        }
    }
    if (f->log_mel)
        return;
    differences(x_out, frames, 0);
    differences(x_out, frames, CEPSTRA);
}

void shoali_features_centre(const shoali_features *f, size_t frames, float *x)
{
    size_t values = shoali_features_values(f), kept = f->log_mel ? values : CEPSTRA;
    for (size_t v = 0; v < kept; v++) {
        double sum = 0;
        for (size_t t = 0; t < frames; t++)
            sum += (double)x[t * values + v];
        for (size_t t = 0; t < frames; t++)
            x[t * values + v] -= (float)(sum / (double)frames);
    }
}

/* ---------------------------------------------------------------- another rate */

enum { UP = 320, DOWN = 441, TAPS = 32 };

size_t shoali_resample_count(size_t count)
{
    return count * UP / DOWN;
}

/* The cut-off is a little below the new half rate. */
static double tap(double distance)
{
    const double pi = acos(-1), cut = 0.95 * UP / DOWN, x = pi * cut * distance;
    double window = 0.5 + 0.5 * cos(2 * pi * distance / TAPS);
    return cut * (fabs(x) < 1e-9 ? 1 : sin(x) / x) * window;
}

void shoali_resample(const int16_t *in, size_t count, float *out)
{
    float taps[UP][TAPS];
    for (int phase = 0; phase < UP; phase++)
        for (int k = 0; k < TAPS; k++)
            taps[phase][k] = (float)tap(k - TAPS / 2 + 1 - (double)phase / UP);
    for (size_t n = 0; n < shoali_resample_count(count); n++) {
        size_t whole = n * DOWN / UP, phase = n * DOWN % UP;
        float sum = 0;
        for (size_t k = 0; k < TAPS; k++) {
            size_t at = whole + k; /* TAPS / 2 - 1 too far to the right */
            if (at >= TAPS / 2 - 1 && at - (TAPS / 2 - 1) < count)
                sum += taps[phase][k] * (float)in[at - (TAPS / 2 - 1)];
        }
        out[n] = sum;
    }
}
