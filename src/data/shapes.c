/* SPDX-License-Identifier: Apache-2.0 */
/* Every pixel is carried back into the shape's own coordinates, in which it has about the radius 1,
 * and asks how much of it the shape covers; colours are then mixed by that. */
#include "data/shapes.h"

#include <math.h>

#include "base/rng.h"

enum { SIDE = SHOALI_SHAPE_SIDE, PIXELS = SIDE * SIDE, CLOUDS = 3, NOISE_BLOCK = 4 };

static const float turn = 6.28318531f, FULL = 85;

/* Where a shape lies and what it is. */
typedef struct place {
    uint32_t kind;
    float from_x[2], from_y[2]; /* shape's u, v per pixel of x and y */
    float centre_x, centre_y;   /* in the image */
    float wobble, wobble_waves, wobble_phase;
    float phase; /* of textures */
    float edge;  /* a pixel's width in the shape's units */
} place;

typedef struct cloud {
    float x, y, phase, colour[3];
} cloud;

/* Everything that is drawn about one image before its pixels. */
typedef struct scene {
    place shape, distractor;
    float background[3], colour[3], distractor_colour[3];
    float contrast, distraction, noise;
    cloud clouds[CLOUDS];
} scene;

static float range(shoali_rng *rng, double low, double high)
{
    return (float)(low + (high - low) * shoali_rng_next_double(rng));
}

/* ---------------------------------------------------------------- shapes */

/* 1 inside, where distance < 0, 0 outside, linear over an edge's width. */
static float inside(float distance, float edge)
{
    float x = 0.5f - distance / edge;
    return x <= 0 ? 0 : x >= 1 ? 1 : x;
}

/* Distance from a regular polygon, or a star of which `depth` is cut out. */
static float polygon(float u, float v, float corners, float depth)
{
    float angle = atan2f(u, -v), part = turn / corners;
    angle -= part * floorf(angle / part + 0.5f);
    float radius = sqrtf(u * u + v * v);
    return radius * cosf(angle) - 0.45f + depth * radius * fabsf(sinf(angle));
}

static float texture(const place *p, float u, float v)
{
    float wave;
    switch (p->kind) {
    case 6:
        wave = sinf(1.6f * turn * u + p->phase);
        break;
    case 7:
        wave = 1.5f * sinf(turn * u + p->phase) * sinf(turn * v + p->phase);
        break;
    case 8:
        wave = sinf(1.2f * turn * u + p->phase) + sinf(1.2f * turn * v + p->phase) - 0.6f;
        break;
    default:
        wave = sinf(1.6f * turn * sqrtf(u * u + v * v) + p->phase);
        break;
    }
    return inside(-wave, 1.2f);
}

static float figure(uint32_t kind, float u, float v, float edge)
{
    float a = fabsf(u), b = fabsf(v), radius = sqrtf(u * u + v * v);
    float longer = a > b ? a : b, shorter = a > b ? b : a;
    switch (kind) {
    case 0:
        return inside(radius - 0.75f, edge);
    case 1:
        return inside(fabsf(radius - 0.68f) - 0.17f, edge);
    case 2:
        return inside(longer - 0.66f, edge);
    case 3:
        return inside(polygon(u, v, 3, 0), edge);
    case 4:
        return inside(longer > 0.85f ? longer - 0.85f : shorter - 0.22f, edge);
    default:
        return inside(polygon(u, v, 5, -0.9f) * 0.7f - 0.05f, edge);
    }
}

static float coverage(const place *p, float x, float y)
{
    float dx = x - p->centre_x, dy = y - p->centre_y;
    float u = p->from_x[0] * dx + p->from_x[1] * dy, v = p->from_y[0] * dx + p->from_y[1] * dy;
    float bent = u + p->wobble * sinf(p->wobble_waves * v + p->wobble_phase);
    v += p->wobble * sinf(p->wobble_waves * u + p->wobble_phase);
    if (p->kind < 6)
        return figure(p->kind, bent, v, p->edge);
    return texture(p, bent, v) * inside(sqrtf(u * u + v * v) - 1.1f, 3 * p->edge);
}

/* ---------------------------------------------------------------- scenes */

/* A colour of this hue (in turns), at most so far from grey. */
static void colour_of(float hue, float full, shoali_rng *rng, float colour_out[3])
{
    float light = range(rng, 90, 170), fullness = full * range(rng, 0.5, 1);
    for (int c = 0; c < 3; c++)
        colour_out[c] = light + fullness * cosf(turn * (hue - (float)c / 3));
}

static place draw_place(uint32_t kind, float size, double hard, shoali_rng *rng)
{
    float angle = (float)hard * range(rng, -0.5, 0.5), stretch = expf(range(rng, -0.15, 0.15));
    float c = cosf(angle) / size, s = sinf(angle) / size, reach = 0.5f * SIDE - size;
    place p = {.kind = kind, .edge = 1.2f / size};
    p.from_x[0] = c * stretch, p.from_x[1] = s * stretch;
    p.from_y[0] = -s / stretch, p.from_y[1] = c / stretch;
    p.centre_x = 0.5f * SIDE + (float)fmin(hard, 1.5) * reach * range(rng, -0.8, 0.8);
    p.centre_y = 0.5f * SIDE + (float)fmin(hard, 1.5) * reach * range(rng, -0.8, 0.8);
    p.wobble = (float)hard * range(rng, 0, 0.14);
    p.wobble_waves = range(rng, 2, 5);
    p.wobble_phase = range(rng, 0, 6.28);
    p.phase = range(rng, 0, 6.28);
    return p;
}

static scene draw_scene(uint32_t kind, double hard, shoali_rng *rng)
{
    scene s = {.shape = draw_place(kind, range(rng, 8, 14), hard, rng)};
    uint32_t other = (kind + 1 + (uint32_t)(shoali_rng_next(rng) % (SHOALI_SHAPE_CLASSES - 1))) %
                     SHOALI_SHAPE_CLASSES;
    s.distractor = draw_place(other, range(rng, 5, 9), hard, rng);
    float hue = (float)kind / SHOALI_SHAPE_CLASSES;
    colour_of(hue + (float)(0.2 * hard * shoali_rng_next_normal(rng)), FULL, rng, s.colour);
    colour_of(range(rng, 0, 1), (float)fmin(hard, 2) * 0.5f * FULL, rng, s.background);
    colour_of(range(rng, 0, 1), FULL, rng, s.distractor_colour);
    s.contrast = range(rng, 0.45, 1) / (float)fmax(hard, 0.5);
    s.contrast = s.contrast > 1 ? 1 : s.contrast;
    s.distraction = (float)fmin(0.9, 0.6 * hard) * range(rng, 0, 1);
    s.noise = (float)hard * range(rng, 8, 32);
    for (int i = 0; i < CLOUDS; i++) {
        cloud *a = &s.clouds[i];
        a->x = range(rng, -0.6, 0.6), a->y = range(rng, -0.6, 0.6), a->phase = range(rng, 0, 6.28);
        for (int c = 0; c < 3; c++)
            a->colour[c] = (float)hard * range(rng, -16, 16);
    }
    return s;
}

static void draw_pixel(const scene *s, float x, float y, float pixel_out[3])
{
    float covered = s->contrast * coverage(&s->shape, x, y);
    float distracted = s->distraction * coverage(&s->distractor, x, y);
    float clouds[CLOUDS];
    for (int i = 0; i < CLOUDS; i++)
        clouds[i] = sinf(s->clouds[i].x * x + s->clouds[i].y * y + s->clouds[i].phase);
    for (int c = 0; c < 3; c++) {
        float value = s->background[c] + covered * (s->colour[c] - s->background[c]);
        value += distracted * (s->distractor_colour[c] - value);
        for (int i = 0; i < CLOUDS; i++)
            value += clouds[i] * s->clouds[i].colour[c];
        pixel_out[c] = value;
    }
}

/* Sum of the four bytes of a random word, centred and scaled to deviation 1: close to normal. */
static float noise_of(uint32_t word)
{
    uint32_t sum = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
    return ((float)sum - 510.0f) * (1.0f / 147.8f); /* 4 * (256^2 - 1) / 12 = 147.8^2 */
}

static uint8_t clamped(float value)
{
    return (uint8_t)(value <= 0.0f ? 0.0f : value >= 255.0f ? 255.0f : value + 0.5f);
}

void shoali_shape_draw(uint32_t kind, double hard, uint64_t seed, uint64_t stream,
                       uint8_t image_out[SHOALI_SHAPE_BYTES])
{
    shoali_rng rng = {seed, stream, 0};
    const scene s = draw_scene(kind, hard, &rng);
    const uint64_t noise_stream = shoali_mix(stream, 0x6E6F697365); /* "noise" */
    for (uint32_t i = 0; i < PIXELS; i++) {
        float pixel[3];
        uint32_t words[NOISE_BLOCK];
        draw_pixel(&s, (float)(i % SIDE) + 0.5f, (float)(i / SIDE) + 0.5f, pixel);
        shoali_philox(seed, noise_stream, i, words);
        for (uint32_t c = 0; c < 3; c++)
            image_out[c * PIXELS + i] = clamped(pixel[c] + s.noise * noise_of(words[c]));
    }
}
