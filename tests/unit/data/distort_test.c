/* SPDX-License-Identifier: Apache-2.0 */
#include "data/distort.h"

#include <math.h>

#include "support/check.h"

enum { SIDE = SHOALI_DIGIT_SIDE, GLYPH = 90 };

/* A glyph that is one full rectangle. */
static shoali_glyph block(int width)
{
    static uint8_t pixels[GLYPH * GLYPH];
    memset(pixels, 255, sizeof pixels);
    return (shoali_glyph){pixels, width, GLYPH};
}

/* Sum of the image in full pixels, and its centre. */
static double mass(const uint8_t *image, double *x_out, double *y_out)
{
    double sum = 0, x = 0, y = 0;
    for (int i = 0; i < SIDE * SIDE; i++) {
        sum += image[i] / 255.0;
        x += image[i] / 255.0 * (i % SIDE + 0.5);
        y += image[i] / 255.0 * (i / SIDE + 0.5);
    }
    *x_out = x / sum;
    *y_out = y / sum;
    return sum;
}

/* Hardly distorted, a rectangle of w x h glyph pixels keeps area size^2 w / h times gain, and its
 * centre. */
static void size_gain_and_place_are_as_documented(void **state)
{
    uint8_t image[SIDE * SIDE];
    double least = 1e9, most = 0;
    shoali_glyph glyph = block(GLYPH / 3);
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        double x, y;
        shoali_distort(&glyph, 0.1, check_seed(), i, image);
        double area = mass(image, &x, &y);
        assert_true(fabs(x - 14) < 0.8 && fabs(y - 14) < 0.8);
        least = fmin(least, area);
        most = fmax(most, area);
    }
    /* 17^2 / 3 * 0.6 = 58 and 22^2 / 3 = 161; noise of deviation 0.8 .. 3 adds up to 784 * 3 * 0.4
     * / 255 = 4 */
    assert_true(least > 54 && least < 75);
    assert_true(most < 172 && most > 130);
}

static void harder_means_further_from_the_plain_image(void **state)
{
    uint8_t plain[SIDE * SIDE], image[SIDE * SIDE];
    double differ[3] = {0};
    shoali_glyph glyph = block(GLYPH / 4);
    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        shoali_distort(&glyph, 0.1, check_seed(), i, plain);
        for (int h = 0; h < 3; h++) {
            shoali_distort(&glyph, 0.5 + h, check_seed(), i, image);
            for (int k = 0; k < SIDE * SIDE; k++)
                differ[h] += abs(image[k] - plain[k]);
        }
    }
    assert_true(differ[0] < differ[1] && differ[1] < differ[2]);
}

static void odd_glyphs_are_drawn_safely(void **state)
{
    static const uint8_t dot = 255;
    const shoali_glyph point = {&dot, 1, 1}, wide = {block(GLYPH).pixels, GLYPH * GLYPH, 1},
                       tall = {block(GLYPH).pixels, 1, GLYPH * GLYPH};
    uint8_t image[SIDE * SIDE];
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        shoali_distort(&point, 4, i, i, image);
        shoali_distort(&wide, 4, i, i, image);
        shoali_distort(&tall, 4, i, i, image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(size_gain_and_place_are_as_documented),
        CHECK_TEST(harder_means_further_from_the_plain_image),
        CHECK_TEST(odd_glyphs_are_drawn_safely),
    };
    return CHECK_RUN(tests);
}
