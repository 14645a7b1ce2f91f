/* SPDX-License-Identifier: Apache-2.0 */
/* truncate: every element is the float with its low bits cleared. */
#include "support/check.h"

#include <math.h>

#include "base/arena.h"
#include "base/rng.h"
#include "shoal/codec.h"

/* What the head of truncate.c says of them. */
static void check_bytes(unsigned drop, const float *src, size_t count, const uint8_t *coded)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], sizeof bits);
        if (drop == 16) {
            assert_int_equal(coded[2 * i], bits >> 16 & 255);
            assert_int_equal(coded[2 * i + 1], bits >> 24);
            continue;
        }
        assert_int_equal(coded[i], bits >> 24);
        if (drop == 22)
            assert_int_equal(coded[count + i / 4] >> i % 4 * 2 & 3, bits >> 22 & 3);
    }
}

static void low_bits_are_cleared(void **state)
{
    (void)state;
    enum { N = 1003 };
    static const unsigned drops[] = {16, 22, 24};
    static const size_t sizes[] = {2 * N, N + (N + 3) / 4, N};
    float src[N], got[N];
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)shoali_rng_u64(check_seed(), 1, i);
        if ((bits >> 23 & 255) == 255)
            bits ^= 1u << 24;
        memcpy(&src[i], &bits, sizeof bits);
    }
    for (size_t d = 0; d < 3; d++) {
        char spec[32];
        uint8_t coded[4 * N];
        shoal_codec *codec;
        size_t written, used;
        const shoal_codec_at at = {.parts = 1};
        snprintf(spec, sizeof spec, "truncate:bits=%u", drops[d]);
        assert_ok(shoal_codec_open(spec, &codec));
        assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
        assert_int_equal(written, sizes[d]);
        check_bytes(drops[d], src, N, coded);
        assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
        for (size_t i = 0; i < N; i++) {
            uint32_t want, is;
            memcpy(&want, &src[i], sizeof want);
            memcpy(&is, &got[i], sizeof is);
            assert_int_equal(is, want >> drops[d] << drops[d]);
        }
        shoal_codec_close(codec);
    }
}

/* Odd lengths, so that what is done many elements at a time and what is left over are met at every
 * place; nothing behind the last element changes. */
static void a_decoded_one_is_added(void **state)
{
    (void)state;
    enum { N = 83 };
    static const char *const specs[] = {"truncate:bits=16", "truncate:bits=22", "truncate:bits=24"};
    float *src = check_floats(N, 1), *base = check_floats(N, 2), plain[N], sum[N + 1];
    for (size_t d = 0; d < 3; d++)
        for (size_t n = 0; n <= N; n++) {
            uint8_t coded[2 * N];
            shoal_codec *codec;
            size_t written, used;
            const shoal_codec_at at = {.parts = 1};
            assert_ok(shoal_codec_open(specs[d], &codec));
            assert_ok(shoal_codec_encode(codec, &at, src, n, coded, sizeof coded, &written));
            assert_ok(shoal_codec_decode(codec, &at, coded, written, plain, n, false, &used));
            memcpy(sum, base, n * sizeof *sum);
            sum[n] = 7;
            assert_ok(shoal_codec_decode(codec, &at, coded, written, sum, n, true, &used));
            for (size_t i = 0; i < n; i++)
                assert_true(sum[i] == base[i] + plain[i]);
            assert_true(sum[n] == 7);
            shoal_codec_close(codec);
        }
    shoali_free(src);
    shoali_free(base);
}

/* At every place, in what is encoded and in what is decoded. */
static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    enum { N = 83 };
    float *src = check_floats(N, 1), got[N];
    shoal_codec *codec;
    assert_ok(shoal_codec_open("truncate:bits=16", &codec));
    for (size_t i = 0; i < N; i++) {
        uint8_t coded[2 * N];
        size_t written, used;
        const shoal_codec_at at = {.parts = 1};
        const float kept = src[i], bad = i % 2 == 0 ? NAN : -INFINITY;
        assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
        memcpy(coded + 2 * i, (const uint8_t *)&bad + 2, 2);
        assert_status(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used),
                      SHOAL_ECORRUPT);
        src[i] = bad;
        assert_status(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written),
                      SHOAL_ENOTFINITE);
        src[i] = kept;
    }
    shoal_codec_close(codec);
    shoali_free(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(low_bits_are_cleared),
                                       CHECK_TEST(a_decoded_one_is_added),
                                       CHECK_TEST(what_is_not_finite_is_refused)};
    return CHECK_RUN(tests);
}
