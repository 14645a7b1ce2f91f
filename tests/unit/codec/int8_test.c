/* SPDX-License-Identifier: Apache-2.0 */
/* int8 against the rule in double arithmetic; stochastic rounding against its probabilities. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "kernel/kernel.h"
#include "support/scaled_case.h"

#if defined(__x86_64__)
#define VECTOR_LOOPS shoali_scaled_avx2
#elif defined(__aarch64__)
#define VECTOR_LOOPS shoali_scaled_neon
#endif

static void bytes_by_hand(void **state)
{
    (void)state;
    const float src[5] = {127, -127, 2.5f, -3.5f, 0.25f};
    const uint8_t want[] = {0, 0, 0x80, 0x3f, 0x7f, 0x81, 0x02, 0xfc, 0x00};
    float got[5];
    uint8_t coded[9];
    scaled_round_trip("int8:rounding=nearest", 0, src, 5, got, coded);
    assert_memory_equal(coded, want, sizeof want);
}

static void blocks_have_their_own_scale(void **state)
{
    (void)state;
    enum { N = 700 };
    float src[N], got[N];
    for (size_t i = 0; i < N; i++)
        src[i] = (float)(shoali_rng_normal(check_seed(), 1, i) * pow(1000, -(double)(i / 64)));
    scaled_round_trip("int8:rounding=nearest,block=64", 0, src, N, got, NULL);
    for (size_t block = 0; block < N; block += 64) {
        double largest = 0;
        for (size_t i = block; i < block + 64 && i < N; i++)
            largest = fmax(largest, fabs((double)src[i]));
        for (size_t i = block; i < block + 64 && i < N; i++)
            assert_true(fabs((double)(got[i] - src[i])) <= largest / 254 * 1.001);
    }
}

/* A value between two codes comes out as the upper one as often as it lies above the lower. */
static void rounding_is_fair(void **state)
{
    (void)state;
    enum { N = 16, DRAWS = 20000 };
    float src[N], got[N];
    unsigned up[N] = {0};
    for (size_t i = 1; i < N; i++)
        src[i] = (float)i + (float)i / N;
    src[0] = 127;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        scaled_round_trip("int8", draw, src, N, got, NULL);
        for (size_t i = 1; i < N; i++) {
            assert_true(got[i] == (float)i || got[i] == (float)i + 1);
            up[i] += got[i] > (float)i;
        }
    }
    for (size_t i = 1; i < N; i++) {
        double p = (double)i / N, sigma = sqrt(p * (1 - p) / DRAWS);
        assert_true(fabs(up[i] / (double)DRAWS - p) < 6 * sigma);
    }
}

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    scaled_compare(&shoali_scaled_ref.int8, &VECTOR_LOOPS.int8, false);
    scaled_compare(&shoali_scaled_ref.int8, &VECTOR_LOOPS.int8, true);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(blocks_have_their_own_scale),
        CHECK_TEST(rounding_is_fair),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
