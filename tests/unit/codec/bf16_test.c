/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of bf16; the rounding itself is checked in tests/unit/kernel/kernel_test.c. */
#include "support/check.h"

#include <math.h>

#include "codec/codec.h"

static const shoal_codec_at at = {.parts = 1, .first = 1000};

static shoal_codec *open_codec(void)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open("bf16", &codec));
    return codec;
}

static void known_bytes(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec();
    const float src[4] = {1.0f, -2.0f, 0x1.fep127f, 0x1.8p-10f};
    const uint8_t want[8] = {0x80, 0x3f, 0x00, 0xc0, 0x7f, 0x7f, 0xc0, 0x3a};
    uint8_t bytes[8];
    float got[4];
    size_t used;
    assert_ok(shoal_codec_encode(codec, &at, src, 4, bytes, 8, &used));
    assert_memory_equal(bytes, want, 8);
    assert_ok(shoal_codec_decode(codec, &at, bytes, 8, got, 4, false, &used));
    assert_memory_equal(got, src, sizeof src);
    shoal_codec_close(codec);
}

static void the_first_value_out_of_range_is_named(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec();
    enum { N = 3000 };
    static float src[N];
    static uint8_t bytes[2 * N + 1];
    size_t used;
    const float refused[] = {0x1.ffp127f, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++)
        for (size_t odd = 0; odd < 2; odd++) {
            src[2345] = src[2999] = refused[i];
            assert_status(shoal_codec_encode(codec, &at, src, N, bytes + odd, 2 * N, &used),
                          SHOAL_ENOTFINITE);
            assert_error_has("element 3345");
            src[2345] = src[2999] = 0;
        }
    src[2345] = 0x1.fep127f;
    assert_ok(shoal_codec_encode(codec, &at, src, N, bytes, 2 * N, &used));
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(known_bytes),
        CHECK_TEST(the_first_value_out_of_range_is_named),
    };
    return CHECK_RUN(tests);
}
