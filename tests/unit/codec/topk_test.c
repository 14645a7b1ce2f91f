/* SPDX-License-Identifier: Apache-2.0 */
/* topk against a sorted copy. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "shoal/codec.h"

enum { MOST = 70000 };

static size_t round_trip(const char *spec, const float *src, size_t count, float *got,
                         uint8_t *coded)
{
    shoal_codec *codec;
    size_t written, used;
    const shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open(spec, &codec));
    size_t bound = shoal_codec_bound(codec, count, 1);
    assert_ok(shoal_codec_encode(codec, &at, src, count, coded, bound, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, count, false, &used));
    assert_int_equal(used, written);
    shoal_codec_close(codec);
    return written;
}

static void bytes_by_hand(void **state)
{
    (void)state;
    const float src[6] = {0, -2, 0.5f, 1, -1, 0.25f};
    /* of the two of magnitude 1 the first */
    const uint8_t want[] = {1, 0, 3, 0, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x3f};
    float got[6];
    uint8_t coded[32];
    assert_int_equal(round_trip("topk:k=0.3", src, 6, got, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    const float decoded[6] = {0, -2, 0, 1, 0, 0};
    assert_memory_equal(got, decoded, sizeof got);
}

static int larger_first(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}

/* What arrives are the k largest, and nothing else. */
static void check_largest(const float *src, size_t n, double k)
{
    static float sorted[MOST], got[MOST];
    static uint8_t coded[6 * MOST + 6];
    char spec[64];
    size_t wanted = (size_t)ceil(k * (double)n), arrived = 0;
    snprintf(spec, sizeof spec, "topk:k=%.9g", k);
    memcpy(sorted, src, n * sizeof *src);
    qsort(sorted, n, sizeof *sorted, larger_first);
    assert_int_equal(round_trip(spec, src, n, got, coded), 6 * wanted);
    for (size_t i = 0; i < n; i++) {
        if (fabsf(src[i]) > fabsf(sorted[wanted - 1]))
            assert_true(got[i] == src[i]);
        if (got[i] != 0) {
            assert_true(got[i] == src[i] && fabsf(got[i]) >= fabsf(sorted[wanted - 1]));
            arrived++;
        }
    }
    assert_true(arrived == wanted || sorted[wanted - 1] == 0);
}

static void the_largest_arrive(void **state)
{
    (void)state;
    static float src[MOST];
    const size_t sizes[] = {1, 2, 100, 4096, 65536};
    const double shares[] = {1e-6, 0.01, 0.1, 0.999, 1};
    for (size_t s = 0; s < 5; s++)
        for (size_t k = 0; k < 5; k++) {
            for (size_t i = 0; i < sizes[s]; i++) {
                double x = shoali_rng_normal(check_seed(), s, i);
                src[i] = k == 1 ? (float)nearbyint(2 * x) /* many equal */
                                : (float)ldexp(x, k == 2 ? (int)(i % 200) - 100 : 0);
            }
            check_largest(src, sizes[s], shares[k]);
        }
}

/* Every 16th element is all that a sample sees: larger or smaller than the rest, or the rest is 0,
 * or two elements are not finite. */
static void samples_may_mislead(void **state)
{
    (void)state;
    static float src[65536];
    for (size_t n = 4096; n <= 65536; n *= 16)
        for (int scale = -30; scale <= 30; scale += 30)
            for (int zeros = 0; zeros < 2; zeros++) {
                for (size_t i = 0; i < n; i++)
                    src[i] = i % 16 == 0
                                 ? (float)ldexp(shoali_rng_normal(check_seed(), 9, i), scale)
                             : zeros ? 0
                                     : (float)shoali_rng_normal(check_seed(), 8, i);
                check_largest(src, n, 0.01);
                check_largest(src, n, 0.0626); /* more than are not 0 */
                check_largest(src, n, 0.12);
            }
}

static void not_finite_is_refused(void **state)
{
    (void)state;
    static float src[65536];
    static uint8_t coded[6 * 65536];
    const float bad[] = {INFINITY, -INFINITY, NAN};
    const shoal_codec_at at = {.parts = 1};
    const char *const specs[] = {"topk", "topk:k=1", "chunk_topk"};
    for (size_t s = 0; s < 3; s++)
        for (size_t b = 0; b < 3; b++)
            for (size_t place = 5; place < 65536; place += 9000) {
                shoal_codec *codec;
                size_t written;
                src[place] = bad[b];
                assert_ok(shoal_codec_open(specs[s], &codec));
                assert_status(
                    shoal_codec_encode(codec, &at, src, 65536, coded, sizeof coded, &written),
                    SHOAL_ENOTFINITE);
                shoal_codec_close(codec);
                src[place] = (float)shoali_rng_normal(check_seed(), s, place);
            }
}

static void more_than_a_block(void **state)
{
    (void)state;
    static float src[MOST], got[MOST];
    static uint8_t coded[6 * MOST];
    src[3] = 5, src[65535] = 4, src[65536] = 3, src[MOST - 1] = -2;
    assert_int_equal(round_trip("topk:k=0.001,values=bf16", src, MOST, got, coded), 4 * (66 + 5));
    assert_memory_equal(got, src, sizeof src);
}

/* What is lost of normal numbers' squares; the error of the mean of so many is below 1 %. */
static void the_variance_is_that_of_normal_numbers(void **state)
{
    (void)state;
    static float src[MOST], got[MOST];
    static uint8_t coded[6 * MOST];
    static const double shares[] = {0.01, 0.1, 0.5, 0.9};
    for (size_t i = 0; i < MOST; i++)
        src[i] = (float)shoali_rng_normal(check_seed(), 20, i);
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        char spec[32];
        double lost = 0, all = 0;
        shoal_codec *codec;
        snprintf(spec, sizeof spec, "topk:k=%g", shares[k]);
        round_trip(spec, src, MOST, got, coded);
        for (size_t i = 0; i < MOST; i++) {
            all += (double)src[i] * (double)src[i];
            lost += ((double)src[i] - (double)got[i]) * ((double)src[i] - (double)got[i]);
        }
        assert_ok(shoal_codec_open(spec, &codec));
        assert_true(fabs(shoal_codec_variance(codec) / (lost / all) - 1) < 0.05);
        shoal_codec_close(codec);
    }
}

static void indices_out_of_order_are_corrupt(void **state)
{
    (void)state;
    shoal_codec *codec;
    const shoal_codec_at at = {.parts = 1};
    const uint16_t bad[][2] = {{1, 1}, {2, 1}, {3, 10}};
    float got[10];
    size_t used;
    assert_ok(shoal_codec_open("topk:k=0.2", &codec));
    for (size_t i = 0; i < 3; i++) {
        uint8_t coded[12] = {0};
        memcpy(coded, bad[i], sizeof bad[i]);
        assert_status(shoal_codec_decode(codec, &at, coded, sizeof coded, got, 10, false, &used),
                      SHOAL_ECORRUPT);
    }
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(the_largest_arrive),
        CHECK_TEST(samples_may_mislead),
        CHECK_TEST(not_finite_is_refused),
        CHECK_TEST(more_than_a_block),
        CHECK_TEST(indices_out_of_order_are_corrupt),
        CHECK_TEST(the_variance_is_that_of_normal_numbers),
    };
    return CHECK_RUN(tests);
}
