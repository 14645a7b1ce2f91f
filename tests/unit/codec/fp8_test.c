/* SPDX-License-Identifier: Apache-2.0 */
/* fp8 against the list of all values that the formats have. */
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

/* Value of a code below the largest, from the papers' table. */
static double value_of(int fraction, int bias, int code)
{
    int exponent = code >> fraction;
    double part = (code & ((1 << fraction) - 1)) / ldexp(1, fraction);
    return exponent == 0 ? ldexp(part, 1 - bias) : ldexp(1 + part, exponent - bias);
}

static double nearest(int fraction, int bias, int largest, double x)
{
    int best = 0;
    for (int code = 1; code <= largest; code++) {
        double was = fabs(value_of(fraction, bias, best) - x);
        double is = fabs(value_of(fraction, bias, code) - x);
        if (is < was || (is == was && code % 2 == 0)) /* ties go to even codes */
            best = code;
    }
    return value_of(fraction, bias, best);
}

static void check_format(const char *spec, int fraction, int bias, int largest)
{
    enum { N = 2000 };
    static float src[N], got[N];
    const double top = value_of(fraction, bias, largest);
    for (size_t i = 0; i < N; i++) {
        double x = shoali_rng_double(check_seed(), 1, i) *
                   ldexp(top, -(int)shoali_rng_below(check_seed(), 2, i, 2 * (uint64_t)bias + 4));
        if (i % 4 == 0) /* halfway between two codes */
            x = (value_of(fraction, bias, (int)(i / 4) % largest) +
                 value_of(fraction, bias, (int)(i / 4) % largest + 1)) /
                2;
        src[i] = (float)(i % 3 == 0 ? -x : x);
        if (i % 256 == 0)
            src[i] = (float)top; /* a scale of 1 */
    }
    scaled_round_trip(spec, 0, src, N, got, NULL);
    for (size_t i = 0; i < N; i++) {
        double want = nearest(fraction, bias, largest, fabs((double)src[i]));
        assert_true((double)fabsf(got[i]) == want && signbit(got[i]) == signbit(src[i]));
    }
}

static void values_are_the_nearest(void **state)
{
    (void)state;
    check_format("fp8", 3, 7, 0x7e);
    check_format("fp8:format=e5m2", 2, 15, 0x7b);
}

/* What is beyond the largest value, were a scale too large for its block, becomes the largest, and
 * no infinity. */
static void check_saturation(const shoali_scaled_format *format, int largest)
{
    enum { N = 64 };
    float src[N];
    uint8_t coded[N];
    for (size_t i = 0; i < N; i++)
        src[i] = (i % 2 == 0 ? 1 : -1) * format->largest * (1 + (float)(i / 2) / 8);
    format->put(src, N, 1, &(shoali_scaled_noise){.on = false}, coded);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(coded[i], largest | (i % 2 == 0 ? 0 : 0x80));
}

static void too_large_is_the_largest(void **state)
{
    (void)state;
    check_saturation(&shoali_scaled_ref.e4m3, 0x7e);
    check_saturation(&shoali_scaled_ref.e5m2, 0x7b);
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) != NULL) {
        check_saturation(&VECTOR_LOOPS.e4m3, 0x7e);
        check_saturation(&VECTOR_LOOPS.e5m2, 0x7b);
    }
#endif
}

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    scaled_compare(&shoali_scaled_ref.e4m3, &VECTOR_LOOPS.e4m3, false);
    scaled_compare(&shoali_scaled_ref.e5m2, &VECTOR_LOOPS.e5m2, false);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(values_are_the_nearest),
        CHECK_TEST(too_large_is_the_largest),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
