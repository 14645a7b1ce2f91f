/* SPDX-License-Identifier: Apache-2.0 */
/* What rows promise in numbers, measured for every codec: sizes, every length and distribution,
 * variance, absence of bias, exact sums. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "kernel/kernel.h"
#include "support/codec_case.h"

/* ---------------------------------------------------------------- lengths and distributions */

/* The dearest value may have no finite code, and overflow may make one of two codecs refuse. */
static bool may_refuse(const shoal_codec *codec, codec_data kind)
{
    return kind == HUGE_VALUES && (shoal_codec_traits(codec) & SHOAL_CODEC_NAN_SAFE) == 0;
}

static void check_shape(const shoal_codec *codec, codec_data kind, const float *src,
                        const float *got, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool fits = isfinite(got[i]);
        if (kind == ZERO)
            fits = got[i] == 0;
        else if (kind == DENORMAL)
            fits = fabsf(got[i]) < 1e-30f;
        else if (shoal_codec_error_bound(codec) == 0)
            fits = memcmp(&got[i], &src[i], sizeof *src) == 0;
        if (!fits)
            fail_msg("%s, %zu elements, %s: element %zu, %a became %a", shoal_codec_spec(codec),
                     count, codec_data_name(kind), i, (double)src[i], (double)got[i]);
    }
}

static void round_trip(const shoal_codec *codec, codec_data kind, size_t count)
{
    const float *src = codec_data_of(kind);
    codec_place p;
    codec_place_init(&p, codec, src, count);
    size_t bound = shoal_codec_bound(codec, count, 1), written = 0;
    uint8_t *bytes = exactly(bound);
    shoal_status status = shoal_codec_encode(codec, &p.at, src, count, bytes, bound, &written);
    if (status == SHOAL_OK) {
        float *got = codec_decode(codec, &p, (coded){bytes, written}, count);
        assert_true(written <= bound);
        check_shape(codec, kind, src, got, count);
        free(got);
    } else if (status != SHOAL_ENOTFINITE || !may_refuse(codec, kind)) {
        fail_msg("%s, %zu elements, %s: %s", shoal_codec_spec(codec), count, codec_data_name(kind),
                 shoal_last_error()->text);
    }
    free(bytes);
}

static void check_lengths(const shoal_codec *codec)
{
    for (size_t count = 0; count <= 1025; count++)
        round_trip(codec, count % CODEC_DATA_KINDS, count);
    for (codec_data kind = 0; kind < CODEC_DATA_KINDS; kind++)
        round_trip(codec, kind, CODEC_DATA_MOST);
}

static void every_length_of_everything_round_trips(void **state)
{
    (void)state;
    each_default_codec(check_lengths);
}

static void check_distributions(const shoal_codec *codec)
{
    for (codec_data kind = 0; kind < CODEC_DATA_KINDS; kind++)
        for (size_t count = 1; count <= 1000; count += 333)
            round_trip(codec, kind, count);
}

static void every_spec_takes_every_distribution(void **state)
{
    (void)state;
    each_codec(check_distributions);
}

/* ---------------------------------------------------------------- size */

/* Exact where the rate is fixed; else only the defaults promise what is typical. */
static void check_rate(const shoal_codec *codec)
{
    enum { N = 65536 };
    if ((codec->traits & SHOAL_CODEC_FIXED_RATE) == 0 && strchr(codec->spec, ':') != NULL)
        return;
    codec_place p;
    codec_place_init(&p, codec, codec_data_of(GAUSS), N);
    coded c = codec_encode(codec, &p, codec_data_of(GAUSS), N);
    double promised = shoal_codec_bytes_per_elem(codec, 1), got = (double)c.length / N;
    bool fixed = (shoal_codec_traits(codec) & SHOAL_CODEC_FIXED_RATE) != 0;
    if (fixed ? fabs(got - promised) > 1e-9 : got > 4 * promised || got < promised / 4)
        fail_msg("%s: %g bytes per element, %g promised", shoal_codec_spec(codec), got, promised);
    free(c.bytes);
}

static void check_default_rate(const shoal_codec *codec)
{
    double opened = shoal_codec_bytes_per_elem(codec, 1);
    assert_true(fabs(opened - (double)codec->row->bytes_per_elem) <= 0.05 * opened);
}

static void sizes_are_as_promised(void **state)
{
    (void)state;
    each_codec(check_rate);
    each_default_codec(check_default_rate);
}

/* ---------------------------------------------------------------- variance */

/* Relative squared error; a fresh stream for each `draw`. */
static double relative_error(const shoal_codec *codec, const float *src, size_t count,
                             uint64_t draw)
{
    codec_place p;
    double error = 0, norm = 0;
    codec_place_init(&p, codec, src, count);
    p.at.seed = check_seed();
    p.at.stream = draw;
    coded c = codec_encode(codec, &p, src, count);
    float *got = codec_decode(codec, &p, c, count);
    for (size_t i = 0; i < count; i++) {
        double difference = (double)got[i] - (double)src[i];
        error += difference * difference;
        norm += (double)src[i] * (double)src[i];
    }
    free(got);
    free(c.bytes);
    return error / norm;
}

static void check_variance(const shoal_codec *codec)
{
    enum { N = 65536, DRAWS = 3 };
    double promised = shoal_codec_variance(codec);
    bool shape_free = (shoal_codec_traits(codec) & SHOAL_CODEC_SHAPE_FREE) != 0;
    assert_true(promised >= 0);
    if (!isfinite(promised))
        return;
    for (codec_data kind = GAUSS; kind <= (shape_free ? ROWS : GAUSS); kind++) {
        double got = 0;
        for (uint64_t draw = 0; draw < DRAWS; draw++)
            got += relative_error(codec, codec_data_of(kind), N, draw) / DRAWS;
        double slack = shape_free ? 1.03 : 1.12; /* of 128 blocks' largest values: 5 sigma */
        if (got > slack * promised || got < promised / 2)
            fail_msg("%s, %s: relative squared error %g, %g promised", shoal_codec_spec(codec),
                     codec_data_name(kind), got, promised);
    }
}

static void variance_is_as_promised(void **state)
{
    (void)state;
    each_codec(check_variance);
}

/* ---------------------------------------------------------------- bias */

enum { BIAS_N = 1500, TRIALS = 64, VIEWS = 16 };

/* Directions in which an unbiased error has mean zero: the source, its signs, elements below some
 * magnitude, random ones. Each has many elements: of few, chance may draw the same every time. So
 * the few beyond four times the root mean square are left out. */
static double view_weight(int view, const float *src, size_t i, double rms)
{
    double size = fabs((double)src[i]), sign = src[i] < 0 ? -1 : 1;
    if (size > 4 * rms)
        return 0;
    if (view == 0)
        return (double)src[i];
    if (view == 1)
        return sign;
    if (view < 12) /* small magnitudes, then ever more */
        return size < 0.003 * (view - 1) ? sign : 0;
    return shoali_rng_normal(check_seed(), 900 + (uint64_t)view, i);
}

static void project(const shoal_codec *codec, const float *src, uint64_t stream, double out[VIEWS])
{
    codec_place p;
    codec_place_init(&p, codec, src, BIAS_N);
    p.at.seed = check_seed();
    p.at.stream = stream;
    coded c = codec_encode(codec, &p, src, BIAS_N);
    float *got = codec_decode(codec, &p, c, BIAS_N);
    static double weights[VIEWS][BIAS_N];
    const double rms = sqrt(shoali_kernel()->sumsq(src, BIAS_N) / BIAS_N);
    for (int view = 0; view < VIEWS; view++) {
        out[view] = 0;
        for (size_t i = 0; i < BIAS_N; i++) {
            if (stream == 0)
                weights[view][i] = view_weight(view, src, i, rms);
            out[view] += weights[view][i] * ((double)got[i] - (double)src[i]);
        }
    }
    free(got);
    free(c.bytes);
}

/* Student's t of the mean over trials, beyond 6 in one of 10^7 cases. */
static void check_bias(const shoal_codec *codec)
{
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_UNBIASED) == 0)
        return;
    for (codec_data kind = GAUSS; kind <= ROWS; kind++) {
        double sum[VIEWS] = {0}, squares[VIEWS] = {0}, one[VIEWS];
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            project(codec, codec_data_of(kind), trial, one);
            for (int view = 0; view < VIEWS; view++) {
                sum[view] += one[view];
                squares[view] += one[view] * one[view];
            }
        }
        for (int view = 0; view < VIEWS; view++) {
            double mean = sum[view] / TRIALS;
            double spread = sqrt(fmax(0, squares[view] / TRIALS - mean * mean) / (TRIALS - 1));
            if (fabs(mean) > 6 * spread + 1e-6)
                fail_msg("%s, %s: bias %g +- %g in direction %d", shoal_codec_spec(codec),
                         codec_data_name(kind), mean, spread, view);
        }
    }
}

static void unbiased_codecs_are_unbiased(void **state)
{
    (void)state;
    each_codec(check_bias);
}

/* ---------------------------------------------------------------- sums */

enum { SUM_N = 700, SUM_MOST = 17 };

static const float *member_data(uint32_t member)
{
    return codec_data_of(member % 2 == 0 ? GAUSS : LAPLACE) + (size_t)member * 1000;
}

/* All members' values at one place: shared values are the largest over members. */
static void sum_place(codec_place *p, const shoal_codec *codec, uint32_t members)
{
    codec_place_init(p, codec, member_data(0), SUM_N);
    for (uint32_t m = 1; m < members; m++) {
        codec_place other;
        codec_place_init(&other, codec, member_data(m), SUM_N);
        for (size_t i = 0; i < shoal_codec_measure_count(codec); i++)
            p->shared[i] = fmaxf(p->shared[i], other.shared[i]);
    }
}

/* The sum of members' coded values, in order or in reverse, encoded again. */
static coded sum_coded(const shoal_codec *codec, codec_place *p, uint32_t members, bool reverse,
                       float *sum)
{
    memset(sum, 0, SUM_N * sizeof *sum);
    for (uint32_t i = 0; i < members; i++) {
        uint32_t m = reverse ? members - 1 - i : i;
        size_t used;
        p->at.parts = 1;
        p->at.stream = 1000 + m;
        coded c = codec_encode(codec, p, member_data(m), SUM_N);
        assert_ok(shoal_codec_decode(codec, &p->at, c.bytes, c.length, sum, SUM_N, true, &used));
        free(c.bytes);
    }
    p->at.parts = members;
    p->at.stream = 7;
    return codec_encode(codec, p, sum, SUM_N);
}

/* Coding a sum changes nothing but the rounding of float32; no order of members, and no further
 * hop, changes its bytes. */
static void check_sums(const shoal_codec *codec)
{
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_SUMMABLE) == 0)
        return;
    const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, SUM_MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        float sum[SUM_N], other[SUM_N];
        codec_place p;
        sum_place(&p, codec, sizes[s]);
        coded c = sum_coded(codec, &p, sizes[s], false, sum);
        coded back = sum_coded(codec, &p, sizes[s], true, other);
        float *got = codec_decode(codec, &p, c, SUM_N);
        coded again = codec_encode(codec, &p, got, SUM_N);
        for (size_t i = 0; i < SUM_N; i++)
            if (fabs((double)got[i] - (double)sum[i]) > 1e-5 * fabs((double)sum[i]) + 1e-7)
                fail_msg("%s, %u parts: element %zu, sum %a became %a", shoal_codec_spec(codec),
                         sizes[s], i, (double)sum[i], (double)got[i]);
        assert_true(c.length == back.length && c.length == again.length);
        assert_memory_equal(c.bytes, back.bytes, c.length);
        assert_memory_equal(c.bytes, again.bytes, c.length);
        free(got), free(c.bytes), free(back.bytes), free(again.bytes);
    }
}

/* Members' bytes added in coded form are the bytes of their sum. */
static void check_coded_sums(const shoal_codec *codec)
{
    enum { MEMBERS = 5 };
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_SUMMABLE) == 0)
        return;
    float sum[SUM_N];
    codec_place p;
    sum_place(&p, codec, MEMBERS);
    coded want = sum_coded(codec, &p, MEMBERS, false, sum), have = {NULL, 0};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        p.at.parts = 1;
        p.at.stream = 1000 + m;
        coded one = codec_encode(codec, &p, member_data(m), SUM_N);
        p.at.parts = m + 1;
        if (m > 0) {
            const shoali_coded a = {have.bytes, have.length, m}, b = {one.bytes, one.length, 1};
            size_t capacity = shoal_codec_bound(codec, SUM_N, m + 1), written;
            uint8_t *bytes = exactly(capacity);
            assert_ok(shoali_codec_add(codec, &p.at, &a, &b, SUM_N, bytes, capacity, &written));
            free(have.bytes), free(one.bytes);
            one = (coded){bytes, written};
        }
        have = one;
    }
    assert_int_equal(have.length, want.length);
    assert_memory_equal(have.bytes, want.bytes, want.length);
    free(have.bytes), free(want.bytes);
}

static void summable_codecs_lose_nothing_in_sums(void **state)
{
    (void)state;
    each_codec(check_sums);
    each_codec(check_coded_sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_length_of_everything_round_trips),
        CHECK_TEST(every_spec_takes_every_distribution),
        CHECK_TEST(sizes_are_as_promised),
        CHECK_TEST(variance_is_as_promised),
        CHECK_TEST(unbiased_codecs_are_unbiased),
        CHECK_TEST(summable_codecs_lose_nothing_in_sums),
    };
    return CHECK_RUN(tests);
}
