/* SPDX-License-Identifier: Apache-2.0 */
/* int4 against bytes by hand and the rule in double arithmetic. */
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
    float src[18] = {7, -7, 1.5f}, got[18];
    src[16] = -3, src[17] = 4;
    uint8_t coded[20], want[20] = {0, 0, 0x80, 0x3f, 0xd7, 0x49, 0x02};
    scaled_round_trip("int4:rounding=nearest", 0, src, 18, got, coded);
    assert_memory_equal(coded, want, sizeof want);
    src[2] = 2;
    assert_memory_equal(got, src, sizeof src);
}

static void values_are_the_nearest(void **state)
{
    (void)state;
    enum { N = 333 };
    float src[N], got[N];
    for (size_t i = 0; i < N; i++)
        src[i] = (float)shoali_rng_normal(check_seed(), 1, i);
    scaled_round_trip("int4:rounding=nearest,block=32", 0, src, N, got, NULL);
    for (size_t block = 0; block < N; block += 32) {
        double largest = 0;
        for (size_t i = block; i < block + 32 && i < N; i++)
            largest = fmax(largest, fabs((double)src[i]));
        for (size_t i = block; i < block + 32 && i < N; i++)
            assert_true(fabs((double)(got[i] - src[i])) <= largest / 14 * 1.001);
    }
}

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    scaled_compare(&shoali_scaled_ref.int4, &VECTOR_LOOPS.int4, false);
    scaled_compare(&shoali_scaled_ref.int4, &VECTOR_LOOPS.int4, true);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(values_are_the_nearest),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
