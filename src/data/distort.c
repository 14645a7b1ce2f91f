/* SPDX-License-Identifier: Apache-2.0 */
/* From output pixels back to the glyph: every sample point is moved by the grid, then through the
 * inverse of size, rotation, shear and aspect, and reads the glyph between four of its pixels. */
#include "data/distort.h"

#include <math.h>

#include "base/rng.h"

enum { SIDE = SHOALI_DIGIT_SIDE, SUPER = 3, GRID = 4, RADIUS_MAX = 12, NOISE_BLOCK = 4 };

typedef struct warp {
    float from_x[2], from_y[2]; /* glyph x, y per pixel of x and y in the image */
    float centre_x, centre_y;   /* of the glyph */
    float shift_x, shift_y;
    float grid[2][GRID][GRID]; /* displacement in pixels: x, y */
} warp;

static double range(shoali_rng *rng, double low, double high)
{
    return low + (high - low) * shoali_rng_next_double(rng);
}

static warp draw_warp(const shoali_glyph *glyph, double hard, shoali_rng *rng)
{
    double size = range(rng, 17, 22), angle = hard * range(rng, -0.35, 0.35),
           shear = hard * range(rng, -0.3, 0.3);
    double aspect = exp(hard * range(rng, -0.12, 0.12)), scale = glyph->height / size;
    double c = cos(angle), s = sin(angle);
    warp w = {
        .from_x = {(float)(scale * aspect * (c + shear * s)),
                   (float)(scale * aspect * (s - shear * c))},
        .from_y = {(float)(scale / aspect * -s), (float)(scale / aspect * c)},
        .centre_x = 0.5f * (float)glyph->width,
        .centre_y = 0.5f * (float)glyph->height,
        .shift_x = (float)(hard * range(rng, -1.5, 1.5)),
        .shift_y = (float)(hard * range(rng, -1.5, 1.5)),
    };
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < GRID * GRID; i++)
            w.grid[axis][i / GRID][i % GRID] = (float)(hard * 1.3 * shoali_rng_next_normal(rng));
    return w;
}

/* Displacement at a place of the image, between four points of the grid. */
static float displaced(const float grid[GRID][GRID], float x, float y)
{
    float gx = x * (float)(GRID - 1) / SIDE, gy = y * (float)(GRID - 1) / SIDE;
    int ix = (int)gx, iy = (int)gy;
    float fx = gx - (float)ix, fy = gy - (float)iy;
    float above = grid[iy][ix] + fx * (grid[iy][ix + 1] - grid[iy][ix]);
    float below = grid[iy + 1][ix] + fx * (grid[iy + 1][ix + 1] - grid[iy + 1][ix]);
    return above + fy * (below - above);
}

static float pixel(const shoali_glyph *glyph, int x, int y)
{
    if (x < 0 || y < 0 || x >= glyph->width || y >= glyph->height)
        return 0.0f;
    return glyph->pixels[y * glyph->width + x];
}

static float sample(const shoali_glyph *glyph, float x, float y)
{
    float left = floorf(x - 0.5f), top = floorf(y - 0.5f);
    float fx = x - 0.5f - left, fy = y - 0.5f - top;
    int ix = (int)left, iy = (int)top;
    if (ix < -1 || iy < -1 || ix >= glyph->width || iy >= glyph->height)
        return 0.0f;
    float above = pixel(glyph, ix, iy) + fx * (pixel(glyph, ix + 1, iy) - pixel(glyph, ix, iy));
    float below = pixel(glyph, ix, iy + 1) +
                  fx * (pixel(glyph, ix + 1, iy + 1) - pixel(glyph, ix, iy + 1));
    return above + fy * (below - above);
}

static void draw(const shoali_glyph *glyph, const warp *w, float image[SIDE * SIDE])
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        float sum = 0;
        for (int k = 0; k < SUPER * SUPER; k++) {
            float x = (float)(i % SIDE) + ((float)(k % SUPER) + 0.5f) / SUPER;
            float y = (float)(i / SIDE) + ((float)(k / SUPER) + 0.5f) / SUPER;
            float u = x - 0.5f * SIDE - w->shift_x + displaced(w->grid[0], x, y);
            float v = y - 0.5f * SIDE - w->shift_y + displaced(w->grid[1], x, y);
            sum += sample(glyph, w->centre_x + w->from_x[0] * u + w->from_x[1] * v,
                          w->centre_y + w->from_y[0] * u + w->from_y[1] * v);
        }
        image[i] = sum / (SUPER * SUPER);
    }
}

/* ---------------------------------------------------------------- blur, gain, noise */

/* One line of a separable Gaussian; beyond the border the image is 0. */
static void blur_line(const float *weights, int radius, const float *from, float *to, int stride)
{
    for (int i = 0; i < SIDE; i++) {
        int first = i - radius < 0 ? 0 : i - radius,
            last = i + radius >= SIDE ? SIDE - 1 : i + radius;
        float sum = 0;
        for (int k = first; k <= last; k++)
            sum += weights[k - i + radius] * from[k * stride];
        to[i * stride] = sum;
    }
}

static void blur(float image[SIDE * SIDE], double deviation)
{
    float weights[2 * RADIUS_MAX + 1], across[SIDE * SIDE];
    int radius = (int)ceil(3 * deviation);
    double sum = 0;
    radius = radius < RADIUS_MAX ? radius : RADIUS_MAX;
    for (int k = -radius; k <= radius; k++)
        sum += exp(-0.5 * k * k / (deviation * deviation));
    for (int k = -radius; k <= radius; k++)
        weights[k + radius] = (float)(exp(-0.5 * k * k / (deviation * deviation)) / sum);
    for (int line = 0; line < SIDE; line++)
        blur_line(weights, radius, image + line * SIDE, across + line * SIDE, 1);
    for (int line = 0; line < SIDE; line++)
        blur_line(weights, radius, across + line, image + line, SIDE);
}

/* Sum of the four bytes of a random word, centred and scaled to deviation 1: close to normal, and
 * cheap. */
static float noise_of(uint32_t word)
{
    uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
    return ((float)sum - 510.0f) * (1.0f / 147.8f); /* 4 * (256^2 - 1) / 12 = 147.8^2 */
}

static uint8_t clamped(float value)
{
    return (uint8_t)(value <= 0.0f ? 0.0f : value >= 255.0f ? 255.0f : value + 0.5f);
}

void shoali_distort(const shoali_glyph *glyph, double hard, uint64_t seed, uint64_t stream,
                    uint8_t image_out[SIDE * SIDE])
{
    float image[SIDE * SIDE];
    shoali_rng rng = {seed, stream, 0};
    warp w = draw_warp(glyph, hard, &rng);
    draw(glyph, &w, image);
    blur(image, range(&rng, 0.5, 0.5 + hard));
    float gain = (float)range(&rng, 0.6, 1), noise = (float)(hard * range(&rng, 8, 30));
    const uint64_t noise_stream = shoali_mix(stream, 0x6E6F697365); /* "noise" */
    for (int i = 0; i < SIDE * SIDE; i += NOISE_BLOCK) {
        uint32_t words[NOISE_BLOCK];
        shoali_philox(seed, noise_stream, (uint64_t)i, words);
        for (int k = 0; k < NOISE_BLOCK; k++)
            image_out[i + k] = clamped(gain * image[i + k] + noise * noise_of(words[k]));
    }
}
