/* SPDX-License-Identifier: Apache-2.0 */
/* Block floating point: no sum of 255 or fewer integers overflows, errors stay within half a step
 * of each, and what has no exponent is none. */
#include <arpa/inet.h>
#include <math.h>

#include "base/rng.h"
#include "collective/slot.h"
#include "support/check.h"

static int32_t quantised(float x, double scale)
{
    uint32_t word;
    shoali_slot_quantise(&x, 1, scale, (uint8_t *)&word);
    return (int32_t)ntohl(word);
}

static void sums_never_overflow(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= SHOALI_PACKET_WORKERS_MAX; n++)
        for (int e = -148; e <= 128; e++) {
            const float most = nextafterf(ldexpf(1, e), 0); /* for e = 128 the largest float */
            const double scale = shoali_slot_scale((int16_t)e, n);
            assert_int_equal(shoali_slot_exponent(&most, 1), most > 0 ? e : SHOALI_EXPONENT_ZERO);
            const int64_t sum = (int64_t)n * quantised(most, scale);
            assert_true(sum <= INT32_MAX && sum == -(int64_t)n * quantised(-most, scale));
        }
}

/* Against a sum in long double: n / 2 steps, whether n is a power of two or not. */
static void the_error_is_bounded(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 64; n += 1 + n / 7)
        for (uint64_t k = 0; k < 500; k++) {
            const int16_t e = (int16_t)((int)(k % 80) - 40);
            const double scale = shoali_slot_scale(e, n);
            long double sum = 0;
            int64_t whole = 0;
            for (uint32_t w = 0; w < n; w++) {
                const double unit = shoali_rng_double(check_seed() + k, n, w) * 2 - 1;
                const float x = (float)ldexp(unit, e - 1);
                sum += (long double)x;
                whole += quantised(x, scale);
            }
            assert_true(whole <= INT32_MAX && whole >= -(int64_t)INT32_MAX);
            assert_true(fabsl((long double)whole / (long double)scale - sum) <=
                        0.5000001L * n / (long double)scale);
        }
}

/* 0.75 + 0.1 of two workers: published as 805306368 + 107374184. */
static void the_worked_value(void **state)
{
    (void)state;
    const float x[2] = {0.75f, 0.1f};
    assert_int_equal(shoali_slot_exponent(&x[0], 1), 0);
    assert_int_equal(shoali_slot_exponent(&x[1], 1), -3);
    const double scale = shoali_slot_scale(0, 2);
    assert_int_equal(quantised(x[0], scale), 805306368);
    assert_int_equal(quantised(x[1], scale), 107374184);
    const uint32_t sum = htonl(912680552);
    float back;
    shoali_slot_dequantise((const uint8_t *)&sum, 1, scale, &back);
    assert_true(back == 0.85f);
}

static void what_has_no_exponent(void **state)
{
    (void)state;
    const float zero[2] = {0, -0.0f}, bad[3] = {1, NAN, 2}, huge[2] = {1, -INFINITY};
    const float small = 0x1p-149f;
    assert_int_equal(shoali_slot_exponent(zero, 2), SHOALI_EXPONENT_ZERO);
    assert_int_equal(shoali_slot_exponent(bad, 3), SHOALI_EXPONENT_NOT_FINITE);
    assert_int_equal(shoali_slot_exponent(huge, 2), SHOALI_EXPONENT_NOT_FINITE);
    assert_int_equal(shoali_slot_exponent(&small, 1), -148);
    assert_true(shoali_slot_scale(SHOALI_EXPONENT_ZERO, 3) == 0);
    assert_true(isfinite(shoali_slot_scale(-148, 1))); /* no infinity times zero */
}

static void sums_of_bytes(void **state)
{
    (void)state;
    int32_t acc[100];
    uint32_t one[100], two[100], out[100];
    for (uint32_t i = 0; i < 100; i++) {
        one[i] = htonl(i * 40000000u);
        two[i] = htonl((uint32_t)-7 - i);
    }
    shoali_slot_set(acc, (const uint8_t *)one, 100);
    shoali_slot_add(acc, (const uint8_t *)two, 100);
    shoali_slot_put(acc, 100, (uint8_t *)out);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(ntohl(out[i]), i * 40000000u - 7 - i);
}

static void limits(void **state)
{
    (void)state;
    shoali_slot_share s;
    assert_status(shoali_slot_lay_out(10, 4, 2, 256, false, &s), SHOAL_EINVAL);
    assert_error_has("256 workers");
    assert_status(shoali_slot_lay_out(10, 4, 5000, 2, false, &s), SHOAL_EINVAL);
    assert_status(shoali_slot_lay_out(10, 0, 2, 2, false, &s), SHOAL_EINVAL);
    assert_status(shoali_slot_lay_out(SIZE_MAX / 2, 1, 2, 2, false, &s), SHOAL_EINVAL);
    assert_ok(shoali_slot_lay_out(10, 4, 8, 255, false, &s));
    assert_true(s.blocks == 3 && s.slots == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(sums_never_overflow), CHECK_TEST(the_error_is_bounded),
        CHECK_TEST(the_worked_value),    CHECK_TEST(what_has_no_exponent),
        CHECK_TEST(sums_of_bytes),       CHECK_TEST(limits),
    };
    return CHECK_RUN(tests);
}
