/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero: bytes by hand; what travels where little is zero; bytes that make no sense. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/codec.h"

enum { N = 4096 + 1000, MOST = 5 * N };

static size_t encode(const float *src, size_t count, uint8_t *coded)
{
    shoal_codec *codec;
    size_t written;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open("nonzero", &codec));
    assert_ok(shoal_codec_encode(codec, &at, src, count, coded, MOST, &written));
    assert_true(written <= shoal_codec_bound(codec, count, 1));
    shoal_codec_close(codec);
    return written;
}

static shoal_status decode(const uint8_t *coded, size_t bytes, float *got, size_t count, bool add)
{
    shoal_codec *codec;
    size_t used = 0;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open("nonzero", &codec));
    shoal_status status = shoal_codec_decode(codec, &at, coded, bytes, got, count, add, &used);
    assert_true(status != SHOAL_OK || used == bytes);
    shoal_codec_close(codec);
    return status;
}

static void bytes_by_hand(void **state)
{
    (void)state;
    static float src[N], got[N];
    static uint8_t coded[MOST];
    /* three of the first chunk: 5, 4095 and 0x123; one of the second: 1 */
    const uint8_t want[] = {3,    0, 0x05, 0x30, 0x12, 0xff, 0x0f, 0, 0, 0x80, 0x3f, 0, 0,   0,
                            0x80, 0, 0,    0xc0, 0x7f, 1,    0,    1, 0, 0,    0,    0, 0xc0};
    src[5] = 1, src[0x123] = -0.0f, src[4095] = NAN, src[4097] = -2;
    assert_int_equal(encode(src, N, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    assert_ok(decode(coded, sizeof want, got, N, false));
    assert_memory_equal(got, src, sizeof src);
    got[4097] = 5, got[7] = 3;
    assert_ok(decode(coded, sizeof want, got, N, true));
    assert_true(got[4097] == 3 && got[7] == 3 && got[5] == 2);
}

/* Down to where a list is no shorter, the list; then all of them. */
static void never_much_more_than_floats(void **state)
{
    (void)state;
    static float src[N], got[N];
    static uint8_t coded[MOST];
    static const double shares[] = {0, 0.01, 0.5, 0.72, 0.74, 1};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        size_t k = 0;
        for (size_t i = 0; i < N; i++) {
            const bool some = shoali_rng_double(check_seed(), s, i) < shares[s];
            src[i] = some ? (float)shoali_rng_normal(check_seed(), 9, i) : 0;
            k += some;
        }
        const size_t bytes = encode(src, N, coded);
        assert_true(bytes <= 4 + 4 * N && (double)bytes <= 5.5 * (double)k + 6);
        assert_ok(decode(coded, bytes, got, N, false));
        assert_memory_equal(got, src, sizeof src);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    float got[16];
    const uint8_t twice[] = {2, 0, 4, 0x40, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                  beyond[] = {1, 0, 16, 0, 1, 1, 1, 1}, many[] = {17, 0, 0, 0, 0, 0},
                  spare[] = {1, 0, 3, 0x10, 1, 1, 1, 1}, all[66] = {0xff, 0xff};
    assert_status(decode(twice, sizeof twice, got, 16, false), SHOAL_ECORRUPT);
    assert_status(decode(beyond, sizeof beyond, got, 16, false), SHOAL_ECORRUPT);
    assert_status(decode(many, sizeof many, got, 16, false), SHOAL_ECORRUPT);
    assert_status(decode(spare, sizeof spare, got, 16, false), SHOAL_ECORRUPT);
    assert_status(decode(all, sizeof all - 1, got, 16, false), SHOAL_ECORRUPT);
    assert_ok(decode(all, sizeof all, got, 16, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(never_much_more_than_floats),
        CHECK_TEST(nonsense_is_refused),
    };
    return CHECK_RUN(tests);
}
