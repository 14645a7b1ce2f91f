/* SPDX-License-Identifier: Apache-2.0 */
/* What --augment says, and what becomes of images: each is one of the cut-outs that it asks for,
 * each of them comes about as often, and the same sample of a run is cut the same way. */
#include "data/augment.h"

#include <string.h>

#include "support/check.h"

enum { SIDE = 6, PAD = 2, PLACES = 2 * PAD + 1, DRAWS = 4000 };

static void specs_are_read(void **state)
{
    (void)state;
    shoali_crop crop = {.height = SIDE, .width = SIDE};
    assert_ok(shoali_augment_parse("flip", &crop));
    assert_true(crop.mirror && !crop.random && crop.pad == 0);
    assert_ok(shoali_augment_parse("crop=4", &crop));
    assert_true(crop.mirror && crop.random && crop.pad == 4);
    assert_status(shoali_augment_parse("crop=65", &crop), SHOAL_EINVAL);
    assert_error_has("crop");
    assert_status(shoali_augment_parse("turn", &crop), SHOAL_EINVAL);
    assert_error_has("turn");
    char text[300];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_status(shoali_augment_parse(text, &crop), SHOAL_EINVAL);
}

/* Pixel (row, column) of the source, 0 outside: by index arithmetic of its own. */
static float source(const uint8_t *pixels, int row, int column)
{
    return row < 0 || column < 0 || row >= SIDE || column >= SIDE
               ? 0
               : (float)pixels[row * SIDE + column];
}

static bool is_cut(const uint8_t *pixels, const float *x, int top, int left, bool mirror)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            const int from = mirror ? SIDE - 1 - column : column;
            if (x[row * SIDE + column] != source(pixels, top + row, left + from))
                return false;
        }
    return true;
}

static void cut_outs_are_those_asked_for(void **state)
{
    (void)state;
    uint8_t pixels[SIDE * SIDE];
    const uint16_t label = 3;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i + 1);
    const shoali_dataset d = {.channels = 1,
                              .height = SIDE,
                              .width = SIDE,
                              .mean = {0},
                              .inv_deviation = {255}}; /* values as they are */
    const shoali_split split = {.pixels = pixels, .labels = &label, .count = 1};
    shoali_crop crop = {.height = SIDE, .width = SIDE, .seed = check_seed()};
    assert_ok(shoali_augment_parse("crop=2,flip", &crop));
    uint32_t seen[PLACES][PLACES][2] = {{{0}}}, labels[1];
    for (uint64_t n = 0; n < DRAWS; n++) {
        float x[SIDE * SIDE], again[SIDE * SIDE];
        uint32_t found = 0;
        shoali_dataset_fill(&d, &split, &(uint32_t){0}, 1, n, &crop, x, labels);
        shoali_dataset_fill(&d, &split, &(uint32_t){0}, 1, n, &crop, again, labels);
        assert_memory_equal(x, again, sizeof x);
        for (int t = 0; t < PLACES; t++)
            for (int l = 0; l < PLACES; l++)
                for (int m = 0; m < 2; m++)
                    if (is_cut(pixels, x, t - PAD, l - PAD, m == 1)) {
                        seen[t][l][m]++;
                        found++;
                    }
        assert_int_equal(found, 1);
    }
    for (int t = 0; t < PLACES; t++) /* 80 each are meant; +- 6 deviations: one in 10^7 fails */
        for (int l = 0; l < PLACES; l++)
            for (int m = 0; m < 2; m++)
                assert_in_range(seen[t][l][m], 26, 134);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(specs_are_read),
                                       CHECK_TEST(cut_outs_are_those_asked_for)};
    return CHECK_RUN(tests);
}
