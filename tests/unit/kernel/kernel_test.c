/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of every kernel table that this CPU runs, against the reference table; the reference's
 * 16-bit formats against arithmetic written differently. Values include NaN, infinities, denormals;
 * lengths are odd; pointers are aligned for their element and no more; what lies behind the last
 * element must stay. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "kernel/kernel.h"

enum { MOST = 300, GUARD = 64 };

static const float special[] = {0.0f,
                                -0.0f,
                                1.0f,
                                -1.0f,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                -NAN,
                                0x1p-149f,
                                -0x1p-149f,
                                0x1p-126f,
                                0x1.fffffep-127f,
                                65504.0f,
                                65519.99f,
                                65520.0f,
                                -65536.0f,
                                0x1p-24f,
                                0x1p-25f,
                                0x1.000002p-25f,
                                0x1.8p-24f,
                                0x1.ffep-15f,
                                0x1.fffp-15f,
                                0x1.fffffep127f,
                                0x1.fep127f,
                                0x1.ffp127f,
                                0x1.01p0f,
                                0x1.03p0f,
                                0x1.008p0f,
                                0x1.018p0f,
                                0x1.002p0f,
                                0x1.006p0f};
enum { SPECIALS = sizeof special / sizeof *special };

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Mostly ordinary numbers of all sizes, some special ones, some random bit patterns. */
static void fill(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = shoali_rng_u64(check_seed(), stream, i);
        if (r % 8 == 0)
            x[i] = special[(r >> 8) % SPECIALS];
        else if (r % 8 == 1)
            x[i] = float_of((uint32_t)(r >> 32));
        else
            x[i] = (float)(shoali_rng_normal(check_seed(), stream + 1, i) *
                           pow(2, (double)(r >> 8 & 31) - 20));
    }
}

static void fill_finite(float *x, size_t n, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)shoali_rng_normal(check_seed(), stream, i);
}

static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of(a[i]) != bits_of(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Arguments of one comparison: a and b hold the same before, x is the source. Offsets move off any
 * wider alignment. */
static float memory_a[MOST + GUARD], memory_b[MOST + GUARD], memory_x[MOST + GUARD];
static uint16_t memory_h[MOST + GUARD], memory_i[MOST + GUARD];

typedef void compare(const shoali_kernels *row, float *a, float *b, const float *x, size_t n);

static void each_length(compare *one)
{
    for (size_t i = 1; shoali_kernel_row(i) != NULL; i++)
        for (size_t n = 0; n <= MOST - 8; n += n < 70 ? 1 : 37)
            for (size_t offset = 0; offset < 8; offset += 3) {
                fill(memory_a, MOST + GUARD, n * 16 + offset);
                memcpy(memory_b, memory_a, sizeof memory_b);
                fill(memory_x, MOST + GUARD, n * 16 + offset + 8);
                one(shoali_kernel_row(i), memory_a + offset, memory_b + offset,
                    memory_x + offset + 1, n);
                assert_true(same_floats(memory_a, memory_b, MOST + GUARD));
            }
}

static void compare_add(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    row->add(a, x, n);
    shoali_kernels_ref.add(b, x, n);
}

static void compare_max(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    row->max(a, x, n);
    shoali_kernels_ref.max(b, x, n);
}

static void compare_scale(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    row->scale(a, x[0], n);
    shoali_kernels_ref.scale(b, x[0], n);
}

static void compare_axpy(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    row->axpy(a, x[1], x, n);
    shoali_kernels_ref.axpy(b, x[1], x, n);
}

static void compare_copy(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    row->copy(a, x, n);
    shoali_kernels_ref.copy(b, x, n);
}

/* Encoded forms are compared as bytes, guard included. */
static void compare_halves(const shoali_kernels *row, float *a, float *b, const float *x, size_t n)
{
    memset(memory_h, 0x5a, sizeof memory_h);
    memset(memory_i, 0x5a, sizeof memory_i);
    assert_int_equal(row->fp16_encode(memory_h + 1, x, n),
                     shoali_kernels_ref.fp16_encode(memory_i + 1, x, n));
    assert_memory_equal(memory_h, memory_i, sizeof memory_h);
    row->fp16_add(a, memory_h + 1, n);
    shoali_kernels_ref.fp16_add(b, memory_h + 1, n);
    assert_true(same_floats(a, b, n));
    assert_int_equal(row->bf16_encode(memory_h + 1, x, n),
                     shoali_kernels_ref.bf16_encode(memory_i + 1, x, n));
    assert_memory_equal(memory_h, memory_i, sizeof memory_h);
    row->bf16_add(a, memory_h + 1, n);
    shoali_kernels_ref.bf16_add(b, memory_h + 1, n);
}

static void element_rows_equal_the_reference(void **state)
{
    (void)state;
    each_length(compare_add);
    each_length(compare_max);
    each_length(compare_scale);
    each_length(compare_axpy);
    each_length(compare_copy);
    each_length(compare_halves);
}

static void every_half_decodes_as_in_the_reference(void **state)
{
    (void)state;
    static uint16_t all[65536];
    static float want[65536], got[65536];
    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t i = 1; shoali_kernel_row(i) != NULL; i++) {
        const shoali_kernels *row = shoali_kernel_row(i);
        shoali_kernels_ref.fp16_decode(want, all, 65536);
        row->fp16_decode(got, all, 65536);
        assert_true(same_floats(got, want, 65536));
        shoali_kernels_ref.bf16_decode(want, all, 65536);
        row->bf16_decode(got, all, 65536);
        assert_true(same_floats(got, want, 65536));
    }
}

/* fp16 by the definition: sign * 2^e * (1 + m/1024), in double. */
static double half_value(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double magnitude = e == 0    ? ldexp(m, -24)
                       : e == 31 ? (m == 0 ? (double)INFINITY : (double)NAN)
                                 : ldexp(1024 + m, e - 25);
    return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

static void fp16_is_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        uint16_t half = (uint16_t)h, out[3];
        float at;
        shoali_kernels_ref.fp16_decode(&at, &half, 1);
        assert_true((double)at == half_value(half));
        /* the middle to the next value, and its two float neighbours */
        double above = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
        float middle = (float)((half_value(half) + above) / 2);
        float around[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        bool finite = shoali_kernels_ref.fp16_encode(out, around, 3);
        assert_int_equal(out[0], h);
        assert_int_equal(out[1], h + (h & 1));
        assert_int_equal(out[2], h + 1);
        assert_int_equal(finite, h != 0x7bff);
    }
}

static void bf16_is_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        float around[3] = {float_of(h << 16 | 0x7fff), float_of(h << 16 | 0x8000),
                           float_of(h << 16 | 0x8001)};
        uint16_t out[3];
        bool finite = shoali_kernels_ref.bf16_encode(out, around, 3);
        assert_int_equal(out[0], h);
        assert_int_equal(out[1], h + (h & 1));
        assert_int_equal(out[2], h + 1);
        assert_int_equal(finite, h != 0x7f7f);
    }
}

static void sumsq_is_exact_to_1e_12(void **state)
{
    (void)state;
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        for (size_t n = 0; n < MOST; n += 13) {
            fill_finite(memory_x, n + 1, n);
            long double want = 0;
            for (size_t j = 1; j <= n; j++)
                want += (long double)memory_x[j] * memory_x[j];
            double got = shoali_kernel_row(i)->sumsq(memory_x + 1, n);
            assert_true(fabsl(got - want) <= 1e-12L * want);
        }
}

static void absmax_finds_the_largest_and_any_nan(void **state)
{
    (void)state;
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        for (size_t n = 0; n < MOST; n += n < 40 ? 1 : 29) {
            const shoali_kernels *row = shoali_kernel_row(i);
            fill_finite(memory_x, n + 1, n);
            float want = 0;
            for (size_t j = 1; j <= n; j++)
                want = fmaxf(want, fabsf(memory_x[j]));
            assert_true(row->absmax(memory_x + 1, n) == want);
            for (size_t j = 1; j <= n; j++) {
                float kept = memory_x[j];
                memory_x[j] = -NAN;
                assert_true(isnan(row->absmax(memory_x + 1, n)));
                memory_x[j] = -INFINITY;
                assert_true(row->absmax(memory_x + 1, n) == INFINITY);
                memory_x[j] = kept;
            }
        }
}

static void first_nonfinite_gives_the_first(void **state)
{
    (void)state;
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        for (size_t n = 0; n < 140; n += n < 40 ? 1 : 29) {
            const shoali_kernels *row = shoali_kernel_row(i);
            fill_finite(memory_x, MOST, n);
            memory_x[n + 1] = NAN; /* behind the end: not seen */
            assert_int_equal(row->first_nonfinite(memory_x + 1, n), n);
            for (size_t j = n; j-- > 0;) {
                memory_x[j + 1] = j % 2 == 0 ? NAN : -INFINITY;
                assert_int_equal(row->first_nonfinite(memory_x + 1, n), j);
            }
        }
}

static void or_bits_sees_every_bit_of_every_element(void **state)
{
    (void)state;
    static const float some[] = {-0.0f, 0x1p-149f, 1, -NAN, INFINITY};
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        for (size_t n = 0; n < 140; n += n < 40 ? 1 : 29) {
            const shoali_kernels *row = shoali_kernel_row(i);
            memset(memory_x, 0, MOST * sizeof memory_x[0]);
            memory_x[0] = memory_x[n + 1] = NAN; /* outside: not seen */
            assert_int_equal(row->or_bits(memory_x + 1, n), 0);
            for (size_t j = 0; j < n; j++) {
                uint32_t want;
                memory_x[j + 1] = some[j % 5];
                memcpy(&want, &some[j % 5], sizeof want);
                assert_int_equal(row->or_bits(memory_x + 1, n), want);
                memory_x[j + 1] = 0;
            }
        }
}

static void nan_wins_every_maximum(void **state)
{
    (void)state;
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++) {
        float acc[9] = {NAN, 1, 2, NAN, 1, 2, NAN, 1, NAN},
              x[9] = {1, NAN, 3, NAN, 1, -5, 0, INFINITY, 2};
        shoali_kernel_row(i)->max(acc, x, 9);
        const float want[9] = {NAN, NAN, 3, NAN, 1, 2, NAN, INFINITY, NAN};
        assert_true(same_floats(acc, want, 9));
    }
}

static void the_choice_follows_the_environment(void **state)
{
    (void)state;
    const char *wanted = getenv("SHOAL_KERNEL");
    const shoali_kernels *best = NULL;
    for (size_t i = 0; shoali_kernel_row(i) != NULL; i++)
        if (wanted == NULL || strcmp(wanted, shoali_kernel_row(i)->name) == 0)
            best = shoali_kernel_row(i);
    if (best != NULL)
        assert_ptr_equal(shoali_kernel(), best);
    assert_true(strlen(shoali_cpu_name()) > 0);
    const bool wide = strstr(shoali_cpu_name(), "avx2") != NULL ||
                      strstr(shoali_cpu_name(), "neon") != NULL;
    assert_int_equal(wide, shoali_kernel_row(1) != NULL);
    assert_ptr_equal(shoali_kernel_row(0), &shoali_kernels_ref);
    assert_null(shoali_kernel_row(100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(element_rows_equal_the_reference),
        CHECK_TEST(every_half_decodes_as_in_the_reference),
        CHECK_TEST(fp16_is_nearest_even),
        CHECK_TEST(bf16_is_nearest_even),
        CHECK_TEST(sumsq_is_exact_to_1e_12),
        CHECK_TEST(absmax_finds_the_largest_and_any_nan),
        CHECK_TEST(first_nonfinite_gives_the_first),
        CHECK_TEST(or_bits_sees_every_bit_of_every_element),
        CHECK_TEST(nan_wins_every_maximum),
        CHECK_TEST(the_choice_follows_the_environment),
    };
    return CHECK_RUN(tests);
}
