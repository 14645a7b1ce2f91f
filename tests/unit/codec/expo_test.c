/* SPDX-License-Identifier: Apache-2.0 */
/* expo: bytes by hand, exactness for every kind of float, the ratios that it is for, vector loops
 * against plain ones. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/expo.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)
#define VECTOR_LOOPS shoali_expo_avx2
#elif defined(__aarch64__)
#define VECTOR_LOOPS shoali_expo_neon
#endif

enum { MOST = 65536 };

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
    /* exponents 128, 127, 127 and 0: escaped */
    const float src[4] = {-2.5f, 1.0f, 1.5f, 0.0f};
    const uint8_t want[] = {0x01, 128,  0x0e, 0x08, 0x08, 0x00, 0x00, 0xa0, 0x00,
                            0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00};
    uint8_t coded[64];
    float got[4];
    assert_int_equal(round_trip("expo", src, 4, got, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    assert_memory_equal(got, src, sizeof src);
}

static void all_floats_come_back(void **state)
{
    (void)state;
    static float src[MOST], got[MOST];
    static uint8_t coded[6 * MOST];
    for (size_t i = 0; i < MOST; i++) {
        uint64_t r = shoali_rng_u64(check_seed(), 1, i),
                 block = shoali_rng_u64(check_seed(), 2, i / 64);
        uint32_t bits = (uint32_t)r;
        if (block % 4 == 0)
            bits = (bits & 0x807fffffu) | ((uint32_t)(r >> 40) % 12) << 23; /* near 0 */
        if (block % 4 == 1)
            bits = 0;
        memcpy(&src[i], &bits, sizeof bits);
    }
    round_trip("expo", src, MOST, got, coded);
    assert_memory_equal(got, src, sizeof src);
}

static void ratios_of_normal_numbers(void **state)
{
    (void)state;
    static float src[MOST], got[MOST];
    static uint8_t coded[6 * MOST];
    for (size_t i = 0; i < MOST; i++)
        src[i] = (float)(0.01 * shoali_rng_normal(check_seed(), 3, i));
    assert_true(4.0 * MOST / (double)round_trip("expo", src, MOST, got, coded) >= 1.15);
    assert_memory_equal(got, src, sizeof src);
    assert_true(2.0 * MOST / (double)round_trip("expo:format=bf16", src, MOST, got, coded) >= 1.36);
    uint16_t half;
    for (size_t i = 0; i < MOST; i++) {
        float want;
        shoali_kernels_ref.bf16_encode(&half, &src[i], 1);
        shoali_kernels_ref.bf16_decode(&want, &half, 1);
        assert_memory_equal(&got[i], &want, sizeof want);
    }
}

static void zeros_cost_a_bit_per_block(void **state)
{
    (void)state;
    float src[1000] = {0}, got[1000];
    uint8_t coded[6000];
    assert_int_equal(round_trip("expo", src, 1000, got, coded), 4);
    src[999] = -0.0f;
    assert_int_equal(round_trip("expo", src, 1000, got, coded), 4 + 1 + 3 + 3 * 8);
    assert_memory_equal(got, src, sizeof src);
}

#ifdef VECTOR_LOOPS
static void compare_block(const float *src, unsigned kept, uint64_t round)
{
    enum { BYTES = SHOALI_EXPO_MOST + 8 };
    uint8_t want[BYTES], got[BYTES];
    float a[32], b[32];
    size_t bytes = shoali_expo_ref.put(src, kept, want);
    assert_int_equal(VECTOR_LOOPS.put(src, kept, got), bytes);
    assert_memory_equal(got, want, bytes);
    if (bytes == 0)
        return;
    memset(want + bytes, 0x5a, BYTES - bytes);
    if (round % 2 == 1) /* hostile */
        want[round / 2 % 13] ^= (uint8_t)(round * 37);
    for (size_t length = 0; length <= BYTES; length++)
        for (int add = 0; add < 2; add++) {
            for (size_t i = 0; i < 32; i++)
                a[i] = b[i] = (float)i;
            size_t used = shoali_expo_ref.get(want, length, kept, a, add != 0);
            assert_int_equal(VECTOR_LOOPS.get(want, length, kept, b, add != 0), used);
            if (used != SHOALI_EXPO_CORRUPT)
                for (size_t i = 0; i < 32; i++)
                    assert_true(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])));
        }
}
#endif

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    for (uint64_t round = 0; round < 400; round++) {
        float src[32];
        for (size_t i = 0; i < 32; i++) {
            int range = 2 + (int)(round % 30);
            int power = (int)shoali_rng_below(check_seed(), 4 + round, i, (uint64_t)range);
            src[i] = (float)ldexp(shoali_rng_normal(check_seed(), 5 + round, i),
                                  (round % 5 == 0 ? -140 : 0) + power);
            if (round % 7 == 0 && i % 3 == 0)
                src[i] = 0;
        }
        compare_block(src, 3, round);
        compare_block(src, 1, round);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(all_floats_come_back),
        CHECK_TEST(ratios_of_normal_numbers),
        CHECK_TEST(zeros_cost_a_bit_per_block),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
