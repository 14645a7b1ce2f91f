/* SPDX-License-Identifier: Apache-2.0 */
/* truncate: every element is the float with its low bits cleared. */
#include "support/check.h"

#include "base/rng.h"
#include "shoal/codec.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(low_bits_are_cleared)};
    return CHECK_RUN(tests);
}
