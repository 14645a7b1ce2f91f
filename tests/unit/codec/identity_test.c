/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "codec/codec.h"

static const shoal_codec_at at = {.parts = 1};

static void bytes_are_little_endian_floats(void **state)
{
    (void)state;
    shoal_codec *codec;
    assert_ok(shoal_codec_open("identity", &codec));
    const float src[3] = {1.0f, -0.0f, 0x1p-149f};
    const uint8_t want[12] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x80, 1, 0, 0, 0};
    uint8_t bytes[12];
    size_t written;
    assert_ok(shoal_codec_encode(codec, &at, src, 3, bytes, 12, &written));
    assert_int_equal(written, 12);
    assert_memory_equal(bytes, want, 12);
    assert_true((shoal_codec_traits(codec) & SHOAL_CODEC_RAW_BYTES) != 0);
    shoal_codec_close(codec);
}

/* More than one bounce block from an odd address, added. */
static void adds_from_any_alignment(void **state)
{
    (void)state;
    enum { N = 2500 };
    static float src[N], got[N];
    static uint8_t bytes[N * 4 + 1];
    shoal_codec *codec;
    size_t used;
    assert_ok(shoal_codec_open("identity", &codec));
    for (size_t i = 0; i < N; i++)
        src[i] = sinf((float)i), got[i] = (float)i;
    assert_ok(shoal_codec_encode(codec, &at, src, N, bytes + 1, N * 4, &used));
    assert_ok(shoal_codec_decode(codec, &at, bytes + 1, N * 4, got, N, true, &used));
    assert_int_equal(used, N * 4);
    for (size_t i = 0; i < N; i++)
        assert_true(got[i] == (float)i + src[i]);
    assert_status(shoal_codec_decode(codec, &at, bytes, N * 4 - 1, got, N, true, &used),
                  SHOAL_ECORRUPT);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_are_little_endian_floats),
        CHECK_TEST(adds_from_any_alignment),
    };
    return CHECK_RUN(tests);
}
