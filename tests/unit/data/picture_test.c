/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG files made by libjpeg's encoder, and what is broken of them; PNG files, sizes and colours
 * beside other programs': tests/cli/data_images_test.py. */
#include "data/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* behind stdio.h, which it needs */
#include <jpeglib.h>

#include "base/arena.h"
#include "support/check.h"

enum { HEIGHT = 24, WIDTH = 40 };

static uint8_t pixel_at(size_t row, size_t column, size_t channel)
{
    return (uint8_t)(20 + 4 * row + 2 * column + 20 * channel);
}

static unsigned char *encode(int channels, size_t *len_bytes_out)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL, line[WIDTH * 3];
    unsigned long len_bytes = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &bytes, &len_bytes);
    jpeg.image_width = WIDTH;
    jpeg.image_height = HEIGHT;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 98, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (size_t row = 0; row < HEIGHT; row++) {
        JSAMPROW rows[1] = {line};
        for (size_t i = 0; i < WIDTH * (size_t)channels; i++)
            line[i] = pixel_at(row, i / (size_t)channels, i % (size_t)channels);
        jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *len_bytes_out = len_bytes;
    return bytes;
}

static void jpegs_are_read(void **state)
{
    (void)state;
    for (int channels = 1; channels <= 3; channels += 2) {
        size_t len_bytes = 0;
        unsigned char *bytes = encode(channels, &len_bytes);
        shoali_picture p = {0};
        assert_ok(shoali_picture_decode("a.jpg", bytes, len_bytes, &p));
        assert_int_equal(p.channels, channels);
        assert_int_equal(p.height, HEIGHT);
        assert_int_equal(p.width, WIDTH);
        for (size_t row = 0; row < HEIGHT; row++)
            for (size_t column = 0; column < WIDTH; column++)
                for (size_t c = 0; c < p.channels; c++) {
                    int got = p.pixels[(row * WIDTH + column) * p.channels + c];
                    assert_true(abs(got - pixel_at(row, column, c)) <= 6);
                }
        shoali_picture_free(&p);
        free(bytes);
    }
}

/* Whatever is cut off: a decoder alone would fill the rest with grey and only warn. */
static void broken_jpegs_are_refused(void **state)
{
    (void)state;
    size_t len_bytes = 0;
    unsigned char *bytes = encode(3, &len_bytes);
    shoali_picture p = {0};
    for (size_t length = 0; length < len_bytes; length += 7) {
        assert_status(shoali_picture_decode("dir/a.jpg", bytes, length, &p), SHOAL_ECORRUPT);
        assert_error_has("dir/a.jpg is n");
        assert_null(p.pixels);
    }
    bytes[len_bytes / 2] = 0xff;
    bytes[len_bytes / 2 + 1] = 0xd9; /* the end, in the middle */
    assert_status(shoali_picture_decode("dir/a.jpg", bytes, len_bytes, &p), SHOAL_ECORRUPT);
    free(bytes);
}

static shoali_picture flat(uint32_t channels, uint32_t height, uint32_t width, uint8_t value)
{
    shoali_picture p = {channels, height, width, shoali_alloc((size_t)channels * height * width)};
    assert_non_null(p.pixels);
    memset(p.pixels, value, (size_t)channels * height * width);
    return p;
}

static void sizes_and_colours(void **state)
{
    (void)state;
    static const uint32_t sides[][2] = {{1, 1}, {5, 9}, {64, 3}, {17, 17}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int crop = 0; crop < 2; crop++) {
            shoali_picture p = flat(3, 17, 11, 77); /* what is flat stays so */
            assert_ok(shoali_picture_resize(&p, sides[i][0], sides[i][1], crop == 1));
            for (size_t at = 0; at < (size_t)3 * sides[i][0] * sides[i][1]; at++)
                assert_int_equal(p.pixels[at], 77);
            shoali_picture_free(&p);
        }
    shoali_picture p = flat(3, 1, 2, 0);
    p.pixels[0] = 255; /* red, and blue */
    p.pixels[5] = 255;
    assert_ok(shoali_picture_recolour(&p, 1));
    assert_int_equal(p.pixels[0], 76);
    assert_int_equal(p.pixels[1], 29);
    assert_ok(shoali_picture_recolour(&p, 3));
    assert_int_equal(p.pixels[2], 76);
    assert_int_equal(p.pixels[3], 29);
    shoali_picture_free(&p);
}

/* A wide picture that has to become a square keeps its middle. */
static void the_middle_is_kept(void **state)
{
    (void)state;
    shoali_picture p = flat(1, 8, 24, 0);
    for (size_t i = 0; i < 8 * 24; i++)
        p.pixels[i] = i % 24 >= 8 && i % 24 < 16 ? 200 : 0;
    assert_ok(shoali_picture_resize(&p, 4, 4, true));
    for (size_t i = 0; i < 16; i++)
        assert_true(p.pixels[i] >= 170); /* its edges see a little of the sides */
    shoali_picture_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(jpegs_are_read), CHECK_TEST(broken_jpegs_are_refused),
        CHECK_TEST(sizes_and_colours), CHECK_TEST(the_middle_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
