/* SPDX-License-Identifier: Apache-2.0 */
/* threshold: which blocks travel, and as what bytes. */
#include "support/check.h"

#include "base/rng.h"
#include "shoal/codec.h"

enum { N = 1000, BLOCK = 32, BLOCKS = 32 };

static size_t round_trip(const char *spec, const float *src, float *got, uint8_t *coded)
{
    shoal_codec *codec;
    size_t written, used;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open(spec, &codec));
    assert_ok(shoal_codec_encode(codec, &at, src, N, coded, 5 * N, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
    assert_int_equal(used, written);
    shoal_codec_close(codec);
    return written;
}

static void blocks_above_it_travel(void **state)
{
    (void)state;
    float src[N] = {0}, got[N], want[N] = {0};
    uint8_t coded[5 * N];
    const uint8_t map[4] = {0x24, 0, 0, 0x80};
    src[70] = 0.5f, src[71] = 1e-9f; /* block 2 */
    src[100] = -0.25f;               /* block 3: not above */
    src[160] = -0.26f;               /* block 5 */
    src[999] = 7;                    /* block 31, of 8 elements */
    memcpy(want, src, sizeof want);
    want[100] = 0;
    size_t bytes = round_trip("threshold:block=32,above=0.25", src, got, coded);
    assert_int_equal(bytes, 4 + 4 * (32 + 32 + 8));
    assert_memory_equal(coded, map, sizeof map);
    assert_memory_equal(got, want, sizeof got);
    assert_memory_equal(coded + 4, src + 64, 32 * sizeof *src);
}

static void nothing_is_lost_at_zero(void **state)
{
    (void)state;
    float src[N], got[N];
    uint8_t coded[5 * N];
    for (size_t i = 0; i < N; i++)
        src[i] = i / 100 % 2 == 0 ? 0 : (float)(shoali_rng_normal(check_seed(), 1, i) * 1e-39);
    assert_true(round_trip("threshold:block=32", src, got, coded) < 4 * N * 7 / 10);
    assert_memory_equal(got, src, sizeof src);
}

/* Nine blocks have a bitmap of two bytes, with seven bits of none. */
static void a_bitmap_is_whole_and_of_its_blocks(void **state)
{
    (void)state;
    enum { NINE = 9 * BLOCK };
    const shoal_codec_at at = {.parts = 1};
    const uint8_t none[2] = {0, 0}, of_none[2] = {0, 2};
    float got[NINE];
    size_t used;
    shoal_codec *codec;
    assert_ok(shoal_codec_open("threshold:block=32", &codec));
    assert_ok(shoal_codec_decode(codec, &at, none, 2, got, NINE, false, &used));
    assert_int_equal(used, 2);
    assert_status(shoal_codec_decode(codec, &at, none, 1, got, NINE, false, &used), SHOAL_ECORRUPT);
    assert_status(shoal_codec_decode(codec, &at, of_none, 2, got, NINE, false, &used),
                  SHOAL_ECORRUPT);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(blocks_above_it_travel),
        CHECK_TEST(nothing_is_lost_at_zero),
        CHECK_TEST(a_bitmap_is_whole_and_of_its_blocks),
    };
    return CHECK_RUN(tests);
}
