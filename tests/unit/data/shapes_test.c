/* SPDX-License-Identifier: Apache-2.0 */
#include "data/shapes.h"

#include <math.h>

#include "support/check.h"

enum { PIXELS = SHOALI_SHAPE_SIDE * SHOALI_SHAPE_SIDE, IMAGES = 64 };

static void an_image_is_a_function_of_its_arguments(void **state)
{
    uint8_t a[SHOALI_SHAPE_BYTES], b[SHOALI_SHAPE_BYTES];
    (void)state;
    for (uint32_t kind = 0; kind < SHOALI_SHAPE_CLASSES; kind++) {
        shoali_shape_draw(kind, 0.6, 7, 11, a);
        shoali_shape_draw(kind, 0.6, 7, 11, b);
        assert_memory_equal(a, b, sizeof a);
        shoali_shape_draw(kind, 0.6, 8, 11, b);
        assert_memory_not_equal(a, b, sizeof a);
        shoali_shape_draw(kind, 0.6, 7, 12, b);
        assert_memory_not_equal(a, b, sizeof a);
        shoali_shape_draw((kind + 1) % SHOALI_SHAPE_CLASSES, 0.6, 7, 11, b);
        assert_memory_not_equal(a, b, sizeof a);
    }
}

/* Noise from pixel to pixel: root of the mean square of differences between neighbours. */
static double roughness(const uint8_t image[SHOALI_SHAPE_BYTES])
{
    double sum = 0;
    for (int i = 0; i + 1 < SHOALI_SHAPE_BYTES; i++)
        sum += (double)(image[i + 1] - image[i]) * (image[i + 1] - image[i]);
    return sqrt(sum / SHOALI_SHAPE_BYTES);
}

static void harder_is_noisier(void **state)
{
    uint8_t image[SHOALI_SHAPE_BYTES];
    double mean[3] = {0};
    (void)state;
    for (uint64_t i = 0; i < IMAGES; i++)
        for (int h = 0; h < 3; h++) {
            shoali_shape_draw(0, h == 0 ? 0.1 : h, check_seed(), i, image);
            mean[h] += roughness(image) / IMAGES;
        }
    assert_true(mean[0] * 1.5 < mean[1] && mean[1] * 1.5 < mean[2]);
}

/* The class can be seen: where nothing is moved or turned, a disc's middle is of its own colour and
 * a ring's is background, in every image. */
static void a_disc_is_full_and_a_ring_is_not(void **state)
{
    uint8_t image[SHOALI_SHAPE_BYTES];
    double apart[2] = {0};
    const int middle = PIXELS / 2 + SHOALI_SHAPE_SIDE / 2;
    (void)state;
    for (uint64_t i = 0; i < IMAGES; i++)
        for (uint32_t kind = 0; kind < 2; kind++) {
            shoali_shape_draw(kind, 0.1, check_seed(), i, image);
            for (int c = 0; c < 3; c++)
                apart[kind] += abs(image[c * PIXELS + middle] - image[c * PIXELS]) / 3.0 / IMAGES;
        }
    assert_true(apart[0] > 25);
    assert_true(apart[1] < 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_image_is_a_function_of_its_arguments),
        CHECK_TEST(harder_is_noisier),
        CHECK_TEST(a_disc_is_full_and_a_ring_is_not),
    };
    return CHECK_RUN(tests);
}
