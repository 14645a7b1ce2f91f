/* SPDX-License-Identifier: Apache-2.0 */
/* sign: signs and mean magnitudes by hand. */
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
    const float src[10] = {1, -2, 3, -4, 0, 0, 0, 0, -5, 5}, mean = 2;
    float got[10];
    uint8_t coded[6], want[6] = {0, 0, 0, 0, 0x0a, 0x01};
    memcpy(want, &mean, sizeof mean);
    scaled_round_trip("sign", 0, src, 10, got, coded);
    assert_memory_equal(coded, want, sizeof want);
    for (size_t i = 0; i < 10; i++)
        assert_true(got[i] == (src[i] < 0 ? -2.0f : 2.0f));
}

static void scales_are_means_of_blocks(void **state)
{
    (void)state;
    enum { N = 1000, BLOCK = 128 };
    float src[N], got[N];
    for (size_t i = 0; i < N; i++)
        src[i] = (float)(shoali_rng_normal(check_seed(), 1, i) * (double)(1 + i / BLOCK));
    scaled_round_trip("sign:block=128", 0, src, N, got, NULL);
    for (size_t block = 0; block < N; block += BLOCK) {
        size_t end = block + BLOCK < N ? block + BLOCK : N;
        double sum = 0;
        for (size_t i = block; i < end; i++)
            sum += fabs((double)src[i]);
        for (size_t i = block; i < end; i++)
            assert_true(
                fabs((double)got[i] * (src[i] < 0 ? -1 : 1) / (sum / (double)(end - block)) - 1) <
                1e-5);
    }
}

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    scaled_compare(&shoali_scaled_ref.sign, &VECTOR_LOOPS.sign, false);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(scales_are_means_of_blocks),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
