/* SPDX-License-Identifier: Apache-2.0 */
/* zstd: a piece is what libzstd makes of the shuffled bytes; all floats come back. */
#include "support/check.h"

#include <zstd.h>

#include "base/rng.h"
#include "shoal/codec.h"

enum { N = 70001, BLOCK = 65536 };

static void frames_are_those_of_libzstd(void **state)
{
    (void)state;
    static float src[N], got[N];
    static uint8_t coded[5 * N], planes[4 * BLOCK];
    shoal_codec *codec;
    size_t written, used;
    const shoal_codec_at at = {.parts = 1};
    for (size_t i = 0; i < N; i++)
        src[i] = (float)(0.01 * shoali_rng_normal(check_seed(), 1, i));
    assert_ok(shoal_codec_open("zstd", &codec));
    assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
    assert_true((double)written < 0.93 * 4 * N); /* exponents shrink */
    uint32_t length;
    memcpy(&length, coded, sizeof length);
    assert_int_equal(ZSTD_decompress(planes, sizeof planes, coded + 4, length), sizeof planes);
    for (size_t i = 0; i < BLOCK; i++)
        for (size_t p = 0; p < 4; p++)
            assert_int_equal(planes[p * BLOCK + i], ((const uint8_t *)&src[i])[p]);
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
    assert_int_equal(used, written);
    assert_memory_equal(got, src, sizeof src);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(frames_are_those_of_libzstd)};
    return CHECK_RUN(tests);
}
