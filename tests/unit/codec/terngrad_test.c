/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes worked out by hand, the published vector, the law of the random choice, vector loops
 * against plain ones. */
#include "support/check.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "codec/terngrad.h"
#include "kernel/kernel.h"

#if defined(__x86_64__)
#define VECTOR_LOOPS shoali_tern_avx2
#elif defined(__aarch64__)
#define VECTOR_LOOPS shoali_tern_neon
#endif

static shoal_codec *open_codec(const char *spec)
{
    shoal_codec *codec = NULL;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

typedef struct piece {
    shoal_tensor tensor;
    shoal_codec_at at;
    float shared;
} piece;

static void piece_init(piece *p, size_t count, float scale)
{
    *p = (piece){.tensor = {.key = 1, .count = count}, .shared = scale};
    p->at = (shoal_codec_at){
        .tensor = &p->tensor, .parts = 1, .shared = &p->shared, .seed = check_seed(), .stream = 3};
}

static size_t encode(const shoal_codec *codec, const piece *p, const float *src, size_t count,
                     uint8_t *dst, size_t capacity)
{
    size_t written;
    assert_ok(shoal_codec_encode(codec, &p->at, src, count, dst, capacity, &written));
    return written;
}

/* ---------------------------------------------------------------- bytes */

static void check_bytes(const char *spec, const uint8_t *want, size_t length)
{
    const float src[8] = {2, -2, 0, 2, 0, 0, -2, 2}; /* +-s: no chance in it */
    uint8_t bytes[16];
    float got[8];
    piece p;
    size_t used;
    shoal_codec *codec = open_codec(spec);
    piece_init(&p, 8, 2);
    assert_int_equal(encode(codec, &p, src, 8, bytes, sizeof bytes), length);
    assert_memory_equal(bytes, want, length);
    assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, got, 8, false, &used));
    assert_int_equal(used, length);
    assert_memory_equal(got, src, sizeof src);
    shoal_codec_close(codec);
}

static void three_packings(void **state)
{
    (void)state;
    /* Codes 2 0 1 2 1 1 0 2. The planar bytes are the published vector. */
    check_bytes("terngrad", (const uint8_t[]){0x92, 0x85}, 2);
    check_bytes("terngrad:pack=planar", (const uint8_t[]){0x4a, 0xa4, 0xc5}, 3);
    check_bytes("terngrad:pack=base3",
                (const uint8_t[]){2 + 9 + 2 * 27 + 81, 1 + 0 + 2 * 9 + 27 + 81}, 2);
    check_bytes("terngrad:scaler=own", (const uint8_t[]){0, 0, 0, 0x40, 0x92, 0x85}, 6);
}

static void payload_is_a_quarter_byte_per_element(void **state)
{
    (void)state;
    shoal_codec *linear = open_codec("terngrad"), *own = open_codec("terngrad:scaler=own");
    shoal_codec *base3 = open_codec("terngrad:pack=base3");
    for (size_t n = 0; n <= 1030; n++) {
        assert_int_equal(shoal_codec_bound(linear, n, 1), (n + 3) / 4);
        assert_int_equal(shoal_codec_bound(own, n, 1), (n + 3) / 4 + (n > 0 ? 4 : 0));
        assert_int_equal(shoal_codec_bound(base3, n, 1), (n + 4) / 5);
        assert_int_equal(shoal_codec_bound(linear, n, 8), (5 * n + 7) / 8);
    }
    shoal_codec_close(linear);
    shoal_codec_close(own);
    shoal_codec_close(base3);
}

static void sums_have_the_least_bits(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts < 5000; parts++) {
        uint32_t want = (uint32_t)ceil(log2(2.0 * parts + 1));
        assert_int_equal(shoali_tern_bits(parts), want < 2 ? 2 : want);
    }
    assert_int_equal(shoali_tern_bits(8), 5);
}

/* A sum of k members is a whole number of scales from -k to k, whatever its width; what the bits
 * could say beyond that is corrupt. */
static void sums_of_any_number_return(void **state)
{
    (void)state;
    enum { N = 4003 };
    static float src[N], got[N];
    static uint8_t coded[4 * N];
    static const uint32_t sizes[] = {2, 7, 127, 128, 300, 40000};
    const float scale = 0.5f;
    shoal_codec *codec;
    assert_ok(shoal_codec_open("terngrad", &codec));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t most = sizes[s];
        const shoal_codec_at at = {.parts = sizes[s], .shared = &scale};
        size_t written, used;
        for (size_t i = 0; i < N; i++) {
            src[i] = (float)((int64_t)i * 977 % (2 * most + 1) - most) * scale;
            got[i] = 1;
        }
        src[0] = (float)most * scale, src[1] = -src[0];
        assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
        assert_int_equal(written, ((size_t)shoali_tern_bits(sizes[s]) * N + 7) / 8);
        assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, true, &used));
        for (size_t i = 0; i < N; i++)
            assert_true(got[i] == src[i] + 1);
        assert_ok(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used));
        assert_memory_equal(got, src, sizeof got);
        memset(coded, 0xff, written);
        assert_status(shoal_codec_decode(codec, &at, coded, written, got, N, false, &used),
                      SHOAL_ECORRUPT);
    }
    shoal_codec_close(codec);
}

/* Of one worker and of a sum whose scale is its own: an infinity has no level, wherever it is. */
static void what_is_not_finite_is_named(void **state)
{
    (void)state;
    enum { N = 3000, PLACE = 2000 };
    static float src[N];
    static uint8_t coded[4 * N];
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    shoal_codec *codec;
    assert_ok(shoal_codec_open("terngrad:scaler=own", &codec));
    for (uint32_t parts = 1; parts <= 300; parts += 299)
        for (size_t b = 0; b < 3; b++) {
            const float scale = 1;
            const shoal_codec_at at = {.parts = parts, .first = 7, .shared = &scale};
            size_t written;
            for (size_t i = 0; i < N; i++)
                src[i] = i % 2 == 0 ? 0.5f : -0.25f;
            assert_ok(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written));
            src[PLACE] = bad[b];
            assert_status(shoal_codec_encode(codec, &at, src, N, coded, sizeof coded, &written),
                          SHOAL_ENOTFINITE);
            assert_error_has("element 2007 ");
        }
    shoal_codec_close(codec);
}

static void every_base3_byte(void **state)
{
    (void)state;
    for (uint32_t byte = 0; byte < 243; byte++) {
        uint8_t in = (uint8_t)byte, out = 0, codes[13];
        assert_true(shoali_tern_unpack_base3(&in, 5, codes));
        for (uint32_t i = 0, rest = byte; i < 5; i++, rest /= 3)
            assert_int_equal(codes[i], rest % 3);
        shoali_tern_pack_base3(codes, 5, &out);
        assert_int_equal(out, byte);
    }
    for (uint32_t byte = 243; byte < 256; byte++) {
        uint8_t in = (uint8_t)byte, codes[13];
        assert_false(shoali_tern_unpack_base3(&in, 5, codes));
    }
}

static void every_width_packs(void **state)
{
    (void)state;
    for (uint32_t bits = 2; bits <= 8; bits++)
        for (size_t count = 0; count <= 40; count++) {
            uint8_t codes[48], packed[48] = {0}, got[48];
            for (size_t i = 0; i < count; i++)
                codes[i] = (uint8_t)(shoali_rng_u64(check_seed(), bits, i) & ((1u << bits) - 1));
            shoali_tern_pack_bits(codes, count, bits, packed);
            for (size_t i = 0; i < count * bits; i++) /* bit by bit */
                assert_int_equal(packed[i / 8] >> i % 8 & 1, codes[i / bits] >> i % bits & 1);
            shoali_tern_unpack_bits(packed, count, bits, got);
            assert_memory_equal(got, codes, count);
        }
}

/* ---------------------------------------------------------------- the law */

/* 1 / z^2 of the counts of survivors of each magnitude, of both signs, over many draws. */
static void survival_follows_the_magnitude(void **state)
{
    (void)state;
    enum { LEVELS = 32, EACH = 1 << 15, N = LEVELS * EACH };
    float *src = malloc(N * sizeof *src), *got = malloc(N * sizeof *got);
    uint8_t *bytes = malloc(N / 4);
    double chi_square = 0;
    piece p;
    size_t used;
    shoal_codec *codec = open_codec("terngrad:clip=0");
    assert_non_null(src), assert_non_null(got), assert_non_null(bytes);
    for (size_t i = 0; i < N; i++) /* neighbours of all magnitudes, from 1/2 down to 2^-12 s */
        src[i] = (i / 7 % 2 == 0 ? 1.0f : -1.0f) * 3 * exp2f(-1 - 11 * (float)(i % LEVELS) / 31);
    piece_init(&p, N, 3);
    size_t length = encode(codec, &p, src, N, bytes, N / 4);
    assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, got, N, false, &used));
    for (size_t level = 0; level < LEVELS; level++) {
        double chance = exp2(-1 - 11 * (double)level / 31), kept = 0;
        for (size_t i = level; i < N; i += LEVELS) {
            assert_true(got[i] == 0 || got[i] == copysignf(3, src[i]));
            kept += got[i] != 0;
        }
        double off = kept - EACH * chance;
        chi_square += off * off / (EACH * chance * (1 - chance));
    }
    assert_true(chi_square < LEVELS + 6 * sqrt(2.0 * LEVELS)); /* one in 10^6 */
    assert_true(chi_square > LEVELS - 5 * sqrt(2.0 * LEVELS));
    shoal_codec_close(codec);
    free(src), free(got), free(bytes);
}

/* How many of 2^25 elements of x survive at scale s, by the loops of this CPU. */
static double survivors(float x, float s)
{
    enum { N = 1 << 16, TIMES = 1 << 9 };
    static float src[N];
    static uint8_t packed[N / 4];
    const shoali_tern_loops *loops = &shoali_tern_ref;
    double kept = 0;
#ifdef VECTOR_LOOPS
    if (shoali_kernel() != &shoali_kernels_ref)
        loops = &VECTOR_LOOPS;
#endif
    for (size_t i = 0; i < N; i++)
        src[i] = i % 3 == 0 ? -x : x;
    for (uint64_t t = 0; t < TIMES; t++) {
        const shoali_tern_rule rule = shoali_tern_rule_make(s, 1,
                                                            shoali_noise_key(check_seed(), 77, t));
        assert_true(loops->draw_packed(&rule, t * N + t % 5, src, N, packed));
        for (size_t i = 0; i < N / 4; i++) /* codes 0 and 2 */
            kept += __builtin_popcount(~packed[i] & 0x55u);
    }
    return kept;
}

/* Far below 2^-16, and between two 16-bit chances: as many as the chance says, of Poisson's law. */
static void small_chances_are_exact(void **state)
{
    (void)state;
    static const double chances[] = {0x1p-18, 0x1p-20, 1.5 * 0x1p-16, 2.25 * 0x1p-16, 0x1.4p-14};
    for (size_t i = 0; i < sizeof chances / sizeof *chances; i++) {
        const double want = chances[i] * 0x1p25, got = survivors((float)(3 * chances[i]), 3);
        if (fabs(got - want) > 5.5 * sqrt(want))
            fail_msg("chance %a: %g of 2^25 survived, expected %g", chances[i], got, want);
    }
    assert_true(survivors(0, 3) == 0);
    assert_true(survivors(3, 3) == 0x1p25);
}

/* Survivors of one half chance: pairs of elements, of ranks and of steps agree half the time. */
static void ranks_and_elements_are_independent(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    static float src[N], first[N], second[N];
    static uint8_t bytes[N];
    shoal_codec *codec = open_codec("terngrad:clip=0");
    piece p;
    size_t used;
    piece_init(&p, N, 2);
    for (size_t i = 0; i < N; i++)
        src[i] = 1;
    for (uint64_t rank = 1; rank < 12; rank++) {
        p.at.stream = 3;
        size_t length = encode(codec, &p, src, N, bytes, N);
        assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, first, N, false, &used));
        p.at.stream = 3 + rank;
        length = encode(codec, &p, src, N, bytes, N);
        assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, second, N, false, &used));
        double ranks = 0, elements = 0;
        for (size_t i = 0; i + rank < N; i++) {
            ranks += first[i] == second[i];
            elements += second[i] == second[i + rank];
        }
        assert_true(fabs(ranks - N / 2.0) < 5.5 * sqrt(N / 4.0));
        assert_true(fabs(elements - (N - (double)rank) / 2) < 5.5 * sqrt(N / 4.0));
    }
    shoal_codec_close(codec);
}

/* The mean of many draws is the source, and their spread |g| (s - |g|). */
static void mean_and_variance_are_as_published(void **state)
{
    (void)state;
    enum { N = 64, DRAWS = 4000 };
    float src[N], got[N];
    double sum[N] = {0}, squares[N] = {0}, chi_square = 0, spread = 0, want = 0;
    uint8_t bytes[N];
    piece p;
    size_t used;
    shoal_codec *codec = open_codec("terngrad:clip=0");
    for (size_t i = 0; i < N; i++)
        src[i] = (float)shoali_rng_normal(check_seed(), 4, i);
    piece_init(&p, N, 0);
    assert_ok(shoal_codec_measure(codec, &p.tensor, src, &p.shared));
    assert_true(p.shared == shoali_kernel()->absmax(src, N));
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        p.at.stream = draw;
        size_t length = encode(codec, &p, src, N, bytes, N);
        assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, got, N, false, &used));
        for (size_t i = 0; i < N; i++) {
            sum[i] += (double)got[i];
            squares[i] += (double)got[i] * (double)got[i];
        }
    }
    for (size_t i = 0; i < N; i++) {
        double size = fabs((double)src[i]), mean = sum[i] / DRAWS, off = mean - (double)src[i];
        double variance = size * ((double)p.shared - size);
        want += variance;
        spread += squares[i] / DRAWS - mean * mean;
        if (variance > 0)
            chi_square += off * off / (variance / DRAWS);
    }
    assert_true(chi_square < N + 6 * sqrt(2.0 * N));
    assert_true(fabs(spread / want - 1) < 0.03);
    shoal_codec_close(codec);
}

/* Two ranks of deviations 1 and 3 share the root of their mean square: what lies within it keeps
 * its mean, with a spread of |g| (s - |g|), less than the largest sigma gives; the rest is cut. */
static void rms_of_ranks_keeps_means_with_less_spread(void **state)
{
    (void)state;
    enum { N = 64, DRAWS = 3000 };
    float src[2][N], got[N], shared[2];
    uint8_t bytes[N];
    piece p;
    size_t used;
    double chi_square = 0, spread = 0, want = 0, largest = 0;
    shoal_codec *codec = open_codec("terngrad:scaler=rms");
    for (size_t i = 0; i < 2 * N; i++)
        src[i / N][i % N] = (float)((i < N ? 1 : 3) * shoali_rng_normal(check_seed(), 5, i));
    piece_init(&p, N, 0);
    for (size_t rank = 0; rank < 2; rank++)
        assert_ok(shoal_codec_measure(codec, &p.tensor, src[rank], &shared[rank]));
    const double most = (double)shared[1];
    const double root = sqrt((pow((double)shared[0], 2) + pow(most, 2)) / 2);
    shoali_codec_measured_squares(shared, 2);
    shared[0] += shared[1];
    shoali_codec_measured_roots(shared, 1, 2);
    assert_true(fabs((double)shared[0] / root - 1) < 1e-6);
    p.shared = shared[0];
    size_t counted = 0;
    for (size_t rank = 0; rank < 2; rank++) {
        double sum[N] = {0}, squares[N] = {0};
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            p.at.stream = 2 * draw + rank;
            size_t length = encode(codec, &p, src[rank], N, bytes, N);
            assert_ok(shoal_codec_decode(codec, &p.at, bytes, length, got, N, false, &used));
            for (size_t i = 0; i < N; i++)
                sum[i] += (double)got[i], squares[i] += pow((double)got[i], 2);
        }
        for (size_t i = 0; i < N; i++) {
            double size = fabs((double)src[rank][i]), mean = sum[i] / DRAWS;
            if (size >= root) {
                assert_true(fabs(fabs(mean) - root) < 1e-5);
                continue;
            }
            want += size * (root - size), largest += size * (most - size);
            spread += squares[i] / DRAWS - mean * mean;
            chi_square += pow(mean - (double)src[rank][i], 2) / (size * (root - size) / DRAWS);
            counted++;
        }
    }
    const double n = (double)counted;
    assert_true(chi_square < n + 7 * sqrt(2 * n)); /* one in 10^6 */
    assert_true(fabs(spread / want - 1) < 0.03 && want < 0.85 * largest);
    shoal_codec_close(codec);
    assert_status(shoal_codec_open("terngrad:scaler=rms,clip=0", &codec), SHOAL_EINVAL);
    assert_error_has("would cut the largest values");
}

static void squares_stay_within_float32(void **state)
{
    (void)state;
    float values[] = {0, -1, -FLT_MAX, NAN, 1e-40f, 1e-20f, 1e15f, FLT_MAX};
    const float want[] = {0, 0, 0, 0, 0x1p-70f, 1e-20f, 1e15f, 0x1p56f};
    shoali_codec_measured_squares(values, 8);
    shoali_codec_measured_roots(values, 8, 1);
    for (size_t i = 0; i < 8; i++)
        assert_true(fabsf(values[i] - want[i]) <= 1e-3f * want[i]);
}

static void scales_are_as_in_the_authors_code(void **state)
{
    (void)state;
    const float src[4] = {1, 2, 3, 6}; /* mean 3, population variance 3.5 */
    const shoal_tensor tensor = {.key = 1, .count = 4}, one = {.key = 1, .count = 1};
    const struct {
        const char *spec;
        double want;
    } cases[] = {{"terngrad", 2.5 * 1.8708286933869707},
                 {"terngrad:clip=0", 6},
                 {"terngrad:scaler=own", 2.5 * 1.8708286933869707},
                 {"terngrad:scaler=own,clip=4", 6},
                 {"terngrad:min=5", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float got;
        shoal_codec *codec = open_codec(cases[i].spec);
        assert_ok(shoal_codec_measure(codec, &tensor, src, &got));
        assert_true(fabs((double)got - cases[i].want) < 1e-6 * cases[i].want + 1e-30);
        shoal_codec_close(codec);
    }
    float got; /* sigma of one value is 0, and the value must not be lost */
    shoal_codec *codec = open_codec("terngrad");
    assert_ok(shoal_codec_measure(codec, &one, src + 3, &got));
    assert_true(got == 6);
    shoal_codec_close(codec);
}

/* ---------------------------------------------------------------- exemptions */

static size_t span_bytes(const char *spec, uint32_t flags)
{
    const shoal_tensor tensors[2] = {{.key = 1, .count = 96},
                                     {.key = 2, .offset = 96, .count = 8, .flags = flags}};
    const float shared[2] = {1, 1};
    shoali_codec_span span = {
        .tensors = tensors, .tensor_count = 2, .shared = shared, .count = 104, .parts = 1};
    shoal_codec *codec = open_codec(spec);
    size_t bytes = shoali_codec_span_bound(codec, &span);
    shoal_codec_close(codec);
    return bytes;
}

static void small_and_last_layers_may_stay_floats(void **state)
{
    (void)state;
    assert_int_equal(span_bytes("terngrad", SHOAL_TENSOR_LAST), 24 + 2);
    assert_int_equal(span_bytes("terngrad:last=off", SHOAL_TENSOR_LAST), 24 + 32);
    assert_int_equal(span_bytes("terngrad:last=off", 0), 24 + 2);
    assert_int_equal(span_bytes("terngrad:min=9", 0), 24 + 32);
    assert_int_equal(span_bytes("terngrad:min=8", 0), 24 + 2);
    shoal_codec *codec = NULL;
    assert_status(shoal_codec_open("terngrad:clip=0.5", &codec), SHOAL_EINVAL);
}

/* ---------------------------------------------------------------- vector loops */

static void compare_loops(const float *src, size_t count, uint64_t first, uint32_t parts)
{
#ifdef VECTOR_LOOPS
    enum { MOST = 700 };
    uint8_t a[MOST], b[MOST];
    float x[MOST], y[MOST];
    const shoali_noise noise = shoali_noise_key(check_seed(), 5, 0);
    shoali_tern_rule one = shoali_tern_rule_make(0.7f, 1, noise);
    shoali_tern_rule many = shoali_tern_rule_make(0.07f, parts, noise);
    const shoali_tern_loops *ref = &shoali_tern_ref, *vector = &VECTOR_LOOPS;
    assert_true(ref->draw(&one, first, src, count, a) == vector->draw(&one, first, src, count, b));
    assert_memory_equal(a, b, count);
    assert_true(ref->draw_packed(&one, first, src, count, a) ==
                vector->draw_packed(&one, first, src, count, b));
    assert_memory_equal(a, b, (count + 3) / 4);
    for (int add = 0; add < 2; add++) {
        memcpy(x, src, count * sizeof *x), memcpy(y, src, count * sizeof *y);
        assert_true(ref->expand_packed(&one, a, count, x, add) &&
                    vector->expand_packed(&one, a, count, y, add));
        assert_memory_equal(x, y, count * sizeof *x);
    }
    assert_true(ref->nearest(&many, src, count, a) == vector->nearest(&many, src, count, b));
    assert_memory_equal(a, b, count);
    for (int add = 0; add < 2; add++) {
        memcpy(x, src, count * sizeof *x), memcpy(y, src, count * sizeof *y);
        assert_true(ref->expand(&many, a, count, x, add) &&
                    vector->expand(&many, a, count, y, add));
        assert_memory_equal(x, y, count * sizeof *x);
    }
    double sums[2], same[2];
    ref->moments(src, count, sums);
    vector->moments(src, count, same);
    assert_memory_equal(sums, same, sizeof sums);
#else
    (void)src, (void)count, (void)first, (void)parts;
#endif
}

static void vector_loops_give_the_same(void **state)
{
    (void)state;
    float src[700];
    if (shoali_kernel() == &shoali_kernels_ref)
        skip();
    for (size_t i = 0; i < 700; i++)
        src[i] = (float)ldexp(shoali_rng_normal(check_seed(), 6, i), -(int)(i % 20));
    src[13] = 0;
    src[14] = -0.0f;
    src[15] = 1e30f;
    src[16] = -0.7f;
    for (size_t count = 0; count <= 700; count += count < 300 ? 1 : 37)
        compare_loops(src, count, count % 5, (uint32_t)(2 + count % 126));
}

/* So many that some are left open by 16 bits, which the loops handle apart: about one of 65536. */
static void vector_loops_give_the_same_where_bits_are_few(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    enum { N = 1 << 20 };
    const shoali_tern_loops *ref = &shoali_tern_ref, *vector = &VECTOR_LOOPS;
    if (shoali_kernel() == &shoali_kernels_ref)
        skip();
    float *src = malloc(N * sizeof *src);
    uint8_t *a = malloc(N), *b = malloc(N);
    assert_true(src != NULL && a != NULL && b != NULL);
    for (size_t i = 0; i < N; i++)
        src[i] = (float)ldexp(shoali_rng_normal(check_seed(), 16, i), -(int)(i % 24));
    const shoali_tern_rule rule = shoali_tern_rule_make(0.7f, 1,
                                                        shoali_noise_key(check_seed(), 15, 0));
    for (uint64_t first = 0; first < 2; first++) {
        assert_true(ref->draw(&rule, first, src, N, a) && vector->draw(&rule, first, src, N, b));
        assert_memory_equal(a, b, N);
        assert_true(ref->draw_packed(&rule, first, src, N, a) &&
                    vector->draw_packed(&rule, first, src, N, b));
        assert_memory_equal(a, b, N / 4);
    }
    free(src), free(a), free(b);
#endif
}

static void vector_loops_find_what_is_wrong(void **state)
{
    (void)state;
#ifdef VECTOR_LOOPS
    enum { N = 300 };
    const shoali_tern_rule rule = shoali_tern_rule_make(1, 2, (shoali_noise){1, 2});
    float src[N] = {0}, dst[N];
    uint8_t codes[N] = {0};
    if (shoali_kernel() == &shoali_kernels_ref)
        skip();
    for (size_t i = 0; i < N; i++) {
        src[i] = i % 2 == 0 ? NAN : -INFINITY;
        assert_false(VECTOR_LOOPS.draw(&rule, 0, src, N, codes));
        assert_false(VECTOR_LOOPS.draw_packed(&rule, 0, src, N, codes));
        assert_false(VECTOR_LOOPS.nearest(&rule, src, N, codes));
        src[i] = 0;
        memset(codes, 0, sizeof codes);
        codes[i] = 5;
        assert_false(VECTOR_LOOPS.expand(&rule, codes, N, dst, false));
        codes[i] = (uint8_t)(3 << 2 * (i % 4));
        assert_int_equal(VECTOR_LOOPS.expand_packed(&rule, codes, N, dst, true), i >= N / 4);
        codes[i] = 0;
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(three_packings),
        CHECK_TEST(payload_is_a_quarter_byte_per_element),
        CHECK_TEST(sums_have_the_least_bits),
        CHECK_TEST(sums_of_any_number_return),
        CHECK_TEST(what_is_not_finite_is_named),
        CHECK_TEST(every_base3_byte),
        CHECK_TEST(every_width_packs),
        CHECK_TEST(survival_follows_the_magnitude),
        CHECK_TEST(small_chances_are_exact),
        CHECK_TEST(ranks_and_elements_are_independent),
        CHECK_TEST(mean_and_variance_are_as_published),
        CHECK_TEST(rms_of_ranks_keeps_means_with_less_spread),
        CHECK_TEST(squares_stay_within_float32),
        CHECK_TEST(scales_are_as_in_the_authors_code),
        CHECK_TEST(small_and_last_layers_may_stay_floats),
        CHECK_TEST(vector_loops_give_the_same),
        CHECK_TEST(vector_loops_give_the_same_where_bits_are_few),
        CHECK_TEST(vector_loops_find_what_is_wrong),
    };
    return CHECK_RUN(tests);
}
