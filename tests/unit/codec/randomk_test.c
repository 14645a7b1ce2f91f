/* SPDX-License-Identifier: Apache-2.0 */
/* randomk: one element per range, each equally often; unbiased without feedback. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/codec.h"

enum { N = 1000, DRAWS = 4000 };

static void round_trip(const char *spec, uint64_t stream, const float *src, float *got,
                       size_t want_bytes)
{
    shoal_codec *codec;
    uint8_t coded[4 * N];
    size_t written, used;
    const shoal_codec_at at = {.parts = 1, .seed = 4, .stream = stream};
    assert_ok(shoal_codec_open(spec, &codec));
    assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
    assert_int_equal(written, want_bytes);
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
    shoal_codec_close(codec);
}

static void one_of_each_range_arrives(void **state)
{
    (void)state;
    float src[N], got[N];
    unsigned times[N] = {0};
    for (size_t i = 0; i < N; i++)
        src[i] = (float)(i + 1);
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        round_trip("randomk:k=0.05", draw, src, got, 4 * 50);
        for (size_t range = 0; range < N; range += 20) {
            unsigned found = 0;
            for (size_t i = range; i < range + 20; i++) {
                assert_true(got[i] == 0 || got[i] == src[i]);
                found += got[i] != 0;
                times[i] += got[i] != 0;
            }
            assert_int_equal(found, 1);
        }
    }
    double mean = DRAWS / 20.0, sigma = sqrt(mean * 0.95);
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(times[i] - mean) < 6 * sigma);
}

static void without_feedback_it_is_unbiased(void **state)
{
    (void)state;
    float src[N], got[N];
    for (size_t i = 0; i < N; i++)
        src[i] = (float)shoali_rng_normal(check_seed(), 1, i);
    round_trip("randomk:k=0.05,ef=off", 1, src, got, 4 * 50);
    for (size_t i = 0; i < N; i++)
        assert_true(got[i] == 0 || got[i] == 20 * src[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(one_of_each_range_arrives),
        CHECK_TEST(without_feedback_it_is_unbiased),
    };
    return CHECK_RUN(tests);
}
