/* SPDX-License-Identifier: Apache-2.0 */
/* eden: its contract on four distributions to 3 %, that errors average out, the rotation against
 * one written with explicit matrices, vector loops against plain ones. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/eden.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)
#define VECTOR_LOOPS shoali_eden_avx2
#elif defined(__aarch64__)
#define VECTOR_LOOPS shoali_eden_neon
#endif

static shoal_codec *open_codec(const char *spec)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

enum { COUNT = 65536, DISTRIBUTIONS = 4 };

/* Gaussian, Laplace, Student t with 3 degrees of freedom, rows of very different scale. */
static float draw(int distribution, size_t i)
{
    const uint64_t seed = check_seed();
    double u = shoali_rng_double(seed, 2, i) - 0.5, normal = shoali_rng_normal(seed, 1, i);
    double chi = 0;
    switch (distribution) {
    case 0:
        return (float)normal;
    case 1:
        return (float)(copysign(1, u) * log(1 - 2 * fabs(u)));
    case 2:
        for (uint64_t k = 0; k < 3; k++)
            chi += pow(shoali_rng_normal(seed, 10 + k, i), 2);
        return (float)(normal / sqrt(chi / 3));
    default:
        return (float)(normal * exp(shoali_rng_normal(seed, 5, i / 256)));
    }
}

static void round_trip(const shoal_codec *codec, uint64_t stream, const float *src, size_t count,
                       float *got)
{
    static uint8_t coded[COUNT * 4];
    const shoal_codec_at at = {.parts = 1, .seed = 3, .stream = stream};
    size_t written, used;
    assert_ok(shoal_codec_encode(codec, &at, src, count, coded, sizeof coded, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, count, false, &used));
    assert_int_equal(used, written);
}

static double squared_error(const float *got, const float *src, size_t count)
{
    double error = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)got[i] - (double)src[i], 2);
        square += pow((double)src[i], 2);
    }
    return error / square;
}

/* The figures; the exact ones are D / (1 - D) of the Lloyd-Max distortion D. */
static void errors_are_those_of_the_contract(void **state)
{
    (void)state;
    static const double want[] = {0.571, 0.134, 0.036, 0.0096};
    static float src[COUNT], got[COUNT];
    for (int distribution = 0; distribution < DISTRIBUTIONS; distribution++) {
        for (size_t i = 0; i < COUNT; i++)
            src[i] = draw(distribution, i);
        for (int bits = 1; bits <= 4; bits++) {
            char spec[32];
            double error = 0;
            enum { DRAWS = 4 };
            snprintf(spec, sizeof spec, "eden:bits=%d", bits);
            shoal_codec *codec = open_codec(spec);
            for (uint64_t stream = 0; stream < DRAWS; stream++) {
                round_trip(codec, stream, src, COUNT, got);
                error += squared_error(got, src, COUNT) / DRAWS;
            }
            if (fabs(error / want[bits - 1] - 1) > 0.03)
                fail_msg("%s, distribution %d: squared error %g", spec, distribution, error);
            shoal_codec_close(codec);
        }
    }
}

/* Of all, one in 97, equal, or only the first two elements are not zero. */
static float sparse(int kind, size_t i)
{
    if (kind == 1)
        return i % 97 == 0 ? draw(0, i) : 0;
    if (kind == 3)
        return i < 2 ? 2.0f - (float)i : 0;
    return kind == 0 ? draw(2, i) : 1;
}

/* The error of the mean of many draws falls with their number, also where few elements are not
 * zero: there is no bias left over. Two elements alone have few different errors, hence the margin.
 */
static void draws_average_out(void **state)
{
    (void)state;
    enum { N = 1000, DRAWS = 256 };
    static float src[N], got[N], mean[N];
    shoal_codec *codec = open_codec("eden:bits=1");
    for (int kind = 0; kind < 4; kind++) {
        memset(mean, 0, sizeof mean);
        for (size_t i = 0; i < N; i++)
            src[i] = sparse(kind, i);
        for (uint64_t stream = 0; stream < DRAWS; stream++) {
            round_trip(codec, stream, src, N, got);
            for (size_t i = 0; i < N; i++)
                mean[i] += got[i] / DRAWS;
        }
        double error = squared_error(mean, src, N) * DRAWS;
        if (error > 0.571 * (kind < 3 ? 1.35 : 3))
            fail_msg("kind %d: %g of the square is left over, times the draws", kind, error);
    }
    shoal_codec_close(codec);
}

/* Least squares: what is left over is shorter than the source, for any source. */
static void feedback_gets_a_contraction(void **state)
{
    (void)state;
    static float src[COUNT], got[COUNT];
    shoal_codec *codec = open_codec("eden:bits=1,ef");
    for (int distribution = 0; distribution < DISTRIBUTIONS; distribution++) {
        for (size_t i = 0; i < COUNT; i++)
            src[i] = draw(distribution, i);
        round_trip(codec, 1, src, COUNT, got);
        assert_true(fabs(squared_error(got, src, COUNT) / 0.3634 - 1) < 0.03);
    }
    assert_true((shoal_codec_traits(codec) & SHOAL_CODEC_UNBIASED) == 0);
    shoal_codec_close(codec);
}

/* ---------------------------------------------------------------- the rotation */

/* Where the transform puts index i: bits 0-2 and 3-5 change places from a tile on. */
static size_t place_of(size_t i, size_t d)
{
    return d < 64 ? i : (i & ~(size_t)63) | (i & 7) << 3 | (i >> 3 & 7);
}

static double hadamard(size_t i, size_t j)
{
    return __builtin_popcountll(i & j) % 2 == 0 ? 1 : -1;
}

static double sign_of(uint64_t key, size_t i, uint64_t which)
{
    return (shoali_eden_signs(key, i / 64 * 2 + which) >> i % 64 & 1) != 0 ? -1 : 1;
}

static void rotate_by_matrices(const float *x, size_t d, uint64_t key, double *out)
{
    static double mixed[SHOALI_EDEN_MOST];
    const size_t mask = 0x38 & (d - 1);
    for (size_t i = 0; i < d; i++) {
        mixed[i] = 0;
        for (size_t j = 0; j < d; j++)
            if (((i ^ j) & ~mask) == 0)
                mixed[i] += hadamard(i & mask, j & mask) * sign_of(key, j, 0) * (double)x[j];
        mixed[i] *= sign_of(key, i, 1);
    }
    for (size_t i = 0; i < d; i++) {
        double sum = 0;
        for (size_t j = 0; j < d; j++)
            sum += hadamard(i, j) * mixed[j];
        out[place_of(i, d)] = sum;
    }
}

static void rotation_is_signs_and_hadamard(void **state)
{
    (void)state;
    for (size_t d = 16; d <= 512; d *= 2) {
        _Alignas(32) float z[512], back[512], x[512];
        double want[512];
        for (size_t i = 0; i < d; i++)
            x[i] = z[i] = draw(0, i);
        rotate_by_matrices(x, d, 99, want);
        shoali_eden_ref.rotate(z, d, 99, 1);
        for (size_t i = 0; i < d; i++)
            assert_true(fabs((double)z[i] - want[i]) < 1e-3);
        memcpy(back, z, sizeof back);
        shoali_eden_ref.unrotate(back, d, 99);
        const float gain = (float)d * (d >= 64 ? 8.0f : d == 32 ? 4.0f : 2.0f);
        for (size_t i = 0; i < d; i++)
            assert_true(fabsf(back[i] / gain - x[i]) < 1e-5f);
    }
}

/* ---------------------------------------------------------------- sizes and loops */

static void sizes_are_exact(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec("eden:bits=2");
    assert_int_equal(shoal_codec_bound(codec, 0, 1), 0);
    assert_int_equal(shoal_codec_bound(codec, 15, 1), 60);
    assert_int_equal(shoal_codec_bound(codec, 16, 1), 4 + 4);
    assert_int_equal(shoal_codec_bound(codec, 500, 1), 4 + 128);
    assert_int_equal(shoal_codec_bound(codec, 600, 1), 4 + 128 + 4 + 16 + 4 + 4 + 8 * 4);
    assert_int_equal(shoal_codec_bound(codec, 8192, 1), 2 * (4 + 1024));
    shoal_codec_close(codec);
}

static void a_scale_that_is_no_number_is_corrupt(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -1};
    shoal_codec *codec = open_codec("eden:bits=1");
    const shoal_codec_at at = {.parts = 1};
    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[4 + 8] = {0};
        float got[64];
        size_t used;
        memcpy(bytes, &bad[i], sizeof bad[i]);
        assert_status(shoal_codec_decode(codec, &at, bytes, sizeof bytes, got, 64, false, &used),
                      SHOAL_ECORRUPT);
    }
    shoal_codec_close(codec);
}

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    static _Alignas(32) float a[SHOALI_EDEN_MOST], b[SHOALI_EDEN_MOST];
    static uint8_t pa[SHOALI_EDEN_MOST / 2], pb[SHOALI_EDEN_MOST / 2];
    float sa[SHOALI_EDEN_LANES], sb[SHOALI_EDEN_LANES];
    const shoali_eden_loops *ref = &shoali_eden_ref, *vector = &VECTOR_LOOPS;
    for (size_t d = 64; d <= SHOALI_EDEN_MOST; d *= 2)
        for (unsigned bits = 1; bits <= 4; bits++) {
            const shoali_eden_levels *levels = shoali_eden_levels_of(bits);
            for (size_t i = 0; i < d; i++)
                a[i] = b[i] = draw((int)bits - 1, i + d);
            ref->rotate(a, d, bits, 0.25f), vector->rotate(b, d, bits, 0.25f);
            assert_memory_equal(a, b, d * sizeof *a);
            ref->square(a, d, sa), vector->square(b, d, sb);
            assert_memory_equal(sa, sb, sizeof sa);
            ref->quantise(levels, 30, a, d, pa, sa), vector->quantise(levels, 30, b, d, pb, sb);
            assert_memory_equal(pa, pb, bits * d / 8);
            assert_memory_equal(sa, sb, sizeof sa);
            ref->dequantise(levels, 3, pa, d, a), vector->dequantise(levels, 3, pb, d, b);
            assert_memory_equal(a, b, d * sizeof *a);
            ref->unrotate(a, d, bits), vector->unrotate(b, d, bits);
            assert_memory_equal(a, b, d * sizeof *a);
        }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(errors_are_those_of_the_contract),
        CHECK_TEST(draws_average_out),
        CHECK_TEST(feedback_gets_a_contraction),
        CHECK_TEST(rotation_is_signs_and_hadamard),
        CHECK_TEST(sizes_are_exact),
        CHECK_TEST(a_scale_that_is_no_number_is_corrupt),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
