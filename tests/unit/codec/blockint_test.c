/* SPDX-License-Identifier: Apache-2.0 */
/* blockint against bytes worked out by hand and against the rule in double arithmetic; sums in
 * coded form against sums of integers; vector loops against plain ones. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/blockint.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)
#define VECTOR_LOOPS shoali_blockint_avx2
#elif defined(__aarch64__)
#define VECTOR_LOOPS shoali_blockint_neon
#endif

enum { MOST = 5000 };

static shoal_codec *open_codec(const char *spec)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

static const shoal_codec_at here = {.parts = 1};

static size_t encode(const shoal_codec *codec, const float *src, size_t count, uint8_t *dst)
{
    size_t written;
    assert_ok(shoal_codec_encode(codec, &here, src, count, dst, shoal_codec_bound(codec, count, 1),
                                 &written));
    return written;
}

static void decode(const shoal_codec *codec, const uint8_t *src, size_t length, float *dst,
                   size_t count)
{
    size_t used;
    assert_ok(shoal_codec_decode(codec, &here, src, length, dst, count, false, &used));
    assert_int_equal(used, length);
}

/* Steps of 1: -2, -1, 0, 1 and a half that goes to the even 2 in four bits; then a block of two
 * elements whose floats are shorter than 12 planes of one byte. */
static void bytes_by_hand(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec("blockint:bound=0.5");
    float src[34] = {-2, -1, 0, 1, 2.5f}, got[34];
    uint8_t coded[300];
    src[32] = 1000, src[33] = -1000;
    /* two's complement of 3 bits: 110 111 000 001 010 */
    const uint8_t want[] = {0xf3, 0x0a, 0,  0,    0,    0x13, 0,    0,    0,    0x03, 0,
                            0,    0,    32, 0x00, 0x00, 0x7a, 0x44, 0x00, 0x00, 0x7a, 0xc4};
    /* plane 0: elements 1, 3; plane 1: 0, 1, 4; plane 2: 0, 1 */
    assert_int_equal(encode(codec, src, 34, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
    decode(codec, coded, sizeof want, got, 34);
    src[4] = 2;
    assert_memory_equal(got, src, sizeof src);
    shoal_codec_close(codec);
}

/* A step is a normal float: a bound below becomes 2^-126, and numbers above it arrive. */
static void the_smallest_step_is_a_normal_float(void **state)
{
    (void)state;
    enum { N = 100 };
    shoal_codec *codec = open_codec("blockint:rel=1e-6");
    const float shared = 0x1p-115f;
    const shoal_codec_at at = {.parts = 1, .shared = &shared};
    float src[N], got[N];
    uint8_t coded[8 * N];
    size_t written, used;
    for (size_t i = 0; i < N; i++)
        src[i] = shared * (float)(2 * shoali_rng_double(check_seed(), 40, i) - 1);
    assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
    for (size_t i = 0; i < N; i++)
        assert_true(fabs((double)got[i] - (double)src[i]) <= 0x1p-127);
    shoal_codec_close(codec);
}

/* From far below the step to far beyond 2^24 steps, with blocks of one size class each. */
static float rich(uint64_t stream, size_t i)
{
    uint64_t block = shoali_rng_u64(check_seed(), stream, i / 32);
    double x = shoali_rng_normal(check_seed(), stream + 1, i);
    if (block % 7 == 0)
        return 0;
    if (block % 31 == 1)
        return (float)(x * 1e30);
    return (float)ldexp(x, (int)(block >> 8) % 36 - 14);
}

static void fill(float *x, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++)
        x[i] = rich(stream, i);
}

static void values_are_the_nearest_steps(void **state)
{
    (void)state;
    static float src[MOST], got[MOST];
    static uint8_t coded[6 * MOST];
    for (int k = -20; k <= 4; k += 3) {
        char spec[64];
        snprintf(spec, sizeof spec, "blockint:bound=2^%d", k);
        shoal_codec *codec = open_codec(spec);
        size_t count = MOST - (size_t)(k + 20);
        fill(src, count, 100);
        decode(codec, coded, encode(codec, src, count, coded), got, count);
        for (size_t i = 0; i < count; i++) {
            double step = ldexp(1, k + 1), want = nearbyint((double)src[i] / step) * step;
            assert_true((double)got[i] == want);
            assert_true(fabs((double)got[i] - (double)src[i]) <= step / 2);
        }
        shoal_codec_close(codec);
    }
}

/* Sums of N coded pieces are the code of the sum: the sum of the decoded values, bit for bit, as
 * long as it has 24 bits. */
static void sums_are_exact(void **state)
{
    (void)state;
    enum { N = 9, COUNT = 1003 };
    static float src[COUNT], part[COUNT], got[COUNT];
    static double want[COUNT];
    static uint8_t sum[6 * COUNT], coded[6 * COUNT], next[6 * COUNT];
    shoal_codec *codec = open_codec("blockint:bound=2^-10");
    size_t length = 0;
    memset(want, 0, sizeof want);
    for (uint32_t n = 0; n < N; n++) {
        for (size_t i = 0; i < COUNT; i++)
            src[i] = (float)(shoali_rng_normal(check_seed(), 20 + n, i) * (i < 500   ? 0.003
                                                                           : i < 800 ? 0.3
                                                                                     : 40));
        size_t bytes = encode(codec, src, COUNT, coded);
        decode(codec, coded, bytes, part, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            want[i] += (double)part[i];
        if (n == 0) {
            memcpy(sum, coded, length = bytes);
            continue;
        }
        shoali_coded a = {sum, length, n}, b = {coded, bytes, 1};
        shoal_codec_at at = {.parts = n + 1};
        assert_ok(shoali_codec_add(codec, &at, &a, &b, COUNT, next,
                                   shoal_codec_bound(codec, COUNT, n + 1), &length));
        memcpy(sum, next, length);
    }
    decode(codec, sum, length, got, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true((double)got[i] == want[i]);
    /* the same bytes as if the sum had been encoded */
    assert_int_equal(encode(codec, got, COUNT, coded), length);
    assert_memory_equal(coded, sum, length);
    shoal_codec_close(codec);
}

static void hostile_sums_are_refused(void **state)
{
    (void)state;
    enum { COUNT = 70 };
    shoal_codec *codec = open_codec("blockint:bound=2^-4");
    float src[COUNT];
    uint8_t coded[400], out[400];
    size_t bound = shoal_codec_bound(codec, COUNT, 2), written;
    for (size_t i = 0; i < COUNT; i++)
        src[i] = rich(3, i);
    size_t bytes = encode(codec, src, COUNT, coded);
    const shoal_codec_at at = {.parts = 2};
    for (size_t cut = 0; cut < bytes; cut++) {
        uint8_t *copy = malloc(cut + 1);
        memcpy(copy, coded, cut);
        shoali_coded a = {copy, cut, 1}, b = {coded, bytes, 1};
        assert_status(shoali_codec_add(codec, &at, &a, &b, COUNT, out, bound, &written),
                      SHOAL_ECORRUPT);
        free(copy);
    }
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        uint8_t *copy = malloc(bytes);
        memcpy(copy, coded, bytes);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        shoali_coded a = {copy, bytes, 1}, b = {coded, bytes, 1};
        shoal_status status = shoali_codec_add(codec, &at, &a, &b, COUNT, out, bound, &written);
        assert_true(status == SHOAL_OK ? written <= bound : status == SHOAL_ECORRUPT);
        free(copy);
    }
    shoal_codec_close(codec);
}

static void relative_bounds_follow_the_rms(void **state)
{
    (void)state;
    enum { COUNT = 640 };
    static float src[COUNT], got[COUNT];
    uint8_t coded[6 * COUNT];
    float shared;
    size_t written, used;
    shoal_codec *codec = open_codec("blockint:rel=0.25");
    const shoal_tensor tensor = {.key = 1, .count = COUNT, .lr_scale = 1};
    for (size_t i = 0; i < COUNT; i++)
        src[i] = (float)(1e-20 * shoali_rng_normal(check_seed(), 7, i));
    assert_ok(shoal_codec_measure(codec, &tensor, src, &shared));
    const shoal_codec_at at = {.tensor = &tensor, .parts = 1, .shared = &shared};
    assert_ok(shoal_codec_encode(codec, &at, src, COUNT, coded, sizeof coded, &written));
    assert_ok(shoal_codec_decode(codec, &at, coded, written, got, COUNT, false, &used));
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)src[i]));
    assert_true(worst <= 0.25 * (double)shared && worst > 0.1 * (double)shared);
    shoal_codec_close(codec);
}

#ifdef VECTOR_LOOPS
static void compare_block(const shoali_blockint_rule *rule, const float *src)
{
    uint8_t want[SHOALI_BLOCKINT_BLOCK_BYTES], got[SHOALI_BLOCKINT_BLOCK_BYTES];
    float want_values[32], got_values[32];
    unsigned want_code, got_code;
    size_t bytes = shoali_blockint_ref.put(rule, src, want, &want_code);
    assert_int_equal(VECTOR_LOOPS.put(rule, src, got, &got_code), bytes);
    assert_int_equal(got_code, want_code);
    assert_memory_equal(got, want, bytes);
    for (size_t cut = 0; cut <= bytes; cut += cut + 9 < bytes ? 9 : 1)
        for (int add = 0; add < 2; add++) {
            for (size_t i = 0; i < 32; i++)
                want_values[i] = got_values[i] = (float)i;
            size_t used = shoali_blockint_ref.get(rule, want_code, want, cut, want_values, add);
            assert_int_equal(VECTOR_LOOPS.get(rule, want_code, want, cut, got_values, add), used);
            if (used != SHOALI_BLOCKINT_CORRUPT)
                assert_memory_equal(got_values, want_values, sizeof got_values);
        }
}
#endif

static void vector_loops_equal_the_plain_ones(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    if (shoali_kernel_row(1) == NULL)
        skip();
    float src[32];
    for (uint64_t round = 0; round < 4000; round++) {
        shoali_blockint_rule rule = shoali_blockint_rule_make((int)(round % 40) - 30);
        for (size_t i = 0; i < 32; i++)
            src[i] = rich(1000 + round, i) + (round % 5 == 0 ? rule.step * ((float)i - 0.5f) : 0);
        if (round % 11 == 0)
            src[round % 32] = round % 3 == 0   ? NAN
                              : round % 3 == 1 ? -0x1p23f * rule.step
                                               : INFINITY;
        compare_block(&rule, src);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(the_smallest_step_is_a_normal_float),
        CHECK_TEST(values_are_the_nearest_steps),
        CHECK_TEST(sums_are_exact),
        CHECK_TEST(hostile_sums_are_refused),
        CHECK_TEST(relative_bounds_follow_the_rms),
        CHECK_TEST(vector_loops_equal_the_plain_ones),
    };
    return CHECK_RUN(tests);
}
