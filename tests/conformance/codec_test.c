/* SPDX-License-Identifier: Apache-2.0 */
/* What every codec must keep, for every row of the table and the example of docs/add-codec.md, at
 * its defaults and at each value of each key: sizes, error bound, round trips, determinism, error
 * feedback, not-finite values, hostile bytes. What a row promises of variance, bias and sums is
 * measured in codec_contract_test.c. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "support/codec_case.h"
#include "support/codec_specs.h"

enum { LARGEST = 65536 };

static const size_t counts[] = {0, 1, 2, 7, 8, 9, 31, 32, 33, 500, 1023, 1024, 1025, LARGEST};
enum { COUNTS = sizeof counts / sizeof *counts };

/* ---------------------------------------------------------------- the table */

static void wire_ids_are_unique(void **state)
{
    (void)state;
    static const shoali_codec_row *owner[65536];
    for (size_t i = 0; i < shoali_codec_count(); i++) {
        const shoali_codec_row *row = shoali_codec_row_at(i);
        char spec[CODEC_SPEC_BYTES];
        assert_string_equal(row->name, shoal_codec_row_name(i));
        for (size_t j = 0; codec_spec(row, j, spec); j++) {
            shoal_codec *codec;
            assert_ok(shoal_codec_open(spec, &codec));
            uint16_t id = row->wire_id(codec->params);
            assert_true(id != 0 && (owner[id] == NULL || owner[id] == row));
            owner[id] = row;
            shoal_codec_close(codec);
        }
    }
    assert_null(shoal_codec_row_name(shoali_codec_count()));
}

static void check_contract(const shoal_codec *codec)
{
    uint32_t traits = shoal_codec_traits(codec);
    double bound = shoal_codec_error_bound(codec);
    assert_true(bound >= 0);
    if ((traits & SHOAL_CODEC_LOSSLESS) != 0)
        assert_true(bound == 0);
    if ((traits & SHOAL_CODEC_RAW_BYTES) != 0)
        assert_true((traits & SHOAL_CODEC_LOSSLESS) != 0);
    assert_int_equal((traits & SHOAL_CODEC_MEASURE) != 0, shoal_codec_measure_count(codec) > 0);
    if ((traits & SHOAL_CODEC_MEASURE) != 0) /* a piece has one tensor's values */
        assert_true((traits & SHOAL_CODEC_PER_TENSOR) != 0 && codec->row->measure != NULL);
    assert_true(codec->row->bytes_per_elem > 0 && strlen(codec->row->paper) > 0);
    shoal_codec *again;
    assert_ok(shoali_codec_open_row(codec->row, shoal_codec_spec(codec), &again));
    assert_string_equal(shoal_codec_spec(again), shoal_codec_spec(codec));
    assert_true(again->hash == codec->hash && again->error_feedback == codec->error_feedback);
    shoal_codec_close(again);
}

static void contracts_are_sound(void **state)
{
    (void)state;
    each_codec(check_contract);
}

/* ---------------------------------------------------------------- round trips */

static void check_values(const shoal_codec *codec, int distribution, const float *src,
                         const float *got, size_t count)
{
    bool lossless = (shoal_codec_traits(codec) & SHOAL_CODEC_LOSSLESS) != 0;
    double bound = shoal_codec_error_bound(codec);
    for (size_t i = 0; i < count; i++) {
        if (lossless)
            assert_memory_equal(&got[i], &src[i], sizeof *src);
        double error = fabs((double)got[i] - (double)src[i]);
        if (fabsf(src[i]) < 1 && error > bound)
            fail_msg("%s, distribution %d: element %zu, %a became %a", shoal_codec_spec(codec),
                     distribution, i, (double)src[i], (double)got[i]);
        assert_true(isfinite(got[i]));
    }
}

/* Once more into odd memory and back from it: the same bytes, the same values, the same end. */
static void check_unaligned(const shoal_codec *codec, const codec_place *p, const float *src,
                            const float *want, coded c, size_t count)
{
    size_t bound = shoal_codec_bound(codec, count, 1), written, consumed;
    uint8_t *memory = exactly(bound + 9);
    float *got = exactly(count * sizeof *got);
    assert_ok(shoal_codec_encode(codec, &p->at, src, count, memory + 1, bound + 8, &written));
    assert_int_equal(written, c.length);
    assert_memory_equal(memory + 1, c.bytes, c.length);
    memset(memory + 1 + written, 0xff, 8); /* the next piece's bytes */
    assert_ok(
        shoal_codec_decode(codec, &p->at, memory + 1, written + 8, got, count, false, &consumed));
    assert_int_equal(consumed, written);
    assert_memory_equal(got, want, count * sizeof *got);
    free(memory);
    free(got);
}

static void check_add(const shoal_codec *codec, const codec_place *p, const float *decoded, coded c,
                      size_t count)
{
    float *sum = exactly(count * sizeof *sum);
    size_t consumed;
    for (size_t i = 0; i < count; i++)
        sum[i] = (float)i * 0.37f - 5;
    assert_ok(shoal_codec_decode(codec, &p->at, c.bytes, c.length, sum, count, true, &consumed));
    assert_int_equal(consumed, c.length);
    for (size_t i = 0; i < count; i++)
        assert_true(sum[i] == ((float)i * 0.37f - 5) + decoded[i]);
    free(sum);
}

static void check_capacity(const shoal_codec *codec, const codec_place *p, const float *src,
                           size_t count)
{
    size_t bound = shoal_codec_bound(codec, count, 1), written = 12345;
    if (bound == 0)
        return;
    uint8_t *memory = exactly(bound - 1);
    assert_status(shoal_codec_encode(codec, &p->at, src, count, memory, bound - 1, &written),
                  SHOAL_EINVAL);
    assert_int_equal(written, 12345);
    free(memory);
}

static void check_round_trips(const shoal_codec *codec)
{
    for (codec_data distribution = 0; distribution <= WIDE; distribution++)
        for (size_t i = 0; i < COUNTS; i++) {
            const float *src = codec_data_of(distribution);
            size_t count = counts[i];
            codec_place p;
            if (count == LARGEST && distribution != SKEWED && distribution != WIDE)
                continue;
            codec_place_init(&p, codec, src, count);
            coded c = codec_encode(codec, &p, src, count);
            float *got = codec_decode(codec, &p, c, count);
            check_values(codec, distribution, src, got, count);
            check_unaligned(codec, &p, src, got, c, count);
            check_add(codec, &p, got, c, count);
            check_capacity(codec, &p, src, count);
            free(got);
            free(c.bytes);
        }
}

static void round_trips_keep_the_contract(void **state)
{
    (void)state;
    each_codec(check_round_trips);
}

/* ---------------------------------------------------------------- error feedback */

/* What 30 steps deliver, plus what is left over, is what went in, with every codec for which the
 * engine keeps residuals or which has an error bound; where it has one, what is left over stays
 * below it. Values well below 1, so that value + residual is, too. */
static void check_feedback(const shoal_codec *codec)
{
    enum { N = 200, STEPS = 30 };
    double bound = shoal_codec_error_bound(codec), put_in[N] = {0}, delivered[N] = {0};
    float residual[N] = {0}, x[N], most = 0;
    const bool bounded = bound <= 0.5;
    if (!bounded && !codec->error_feedback)
        return;
    for (size_t step = 0; step < STEPS; step++) {
        codec_place p;
        for (size_t i = 0; i < N; i++) {
            float fresh = codec_data_at(SMALL, step * N + i) * (float)(1 + i % 7);
            put_in[i] += (double)fresh;
            x[i] = fresh + residual[i];
        }
        codec_place_init(&p, codec, x, N);
        p.at.stream = step;
        coded c = codec_encode(codec, &p, x, N);
        float *got = codec_decode(codec, &p, c, N);
        for (size_t i = 0; i < N; i++) {
            delivered[i] += (double)got[i];
            residual[i] = x[i] - got[i];
            assert_true(!bounded || fabs((double)residual[i]) <= bound);
            most = fmaxf(most, fabsf(residual[i]));
        }
        free(got);
        free(c.bytes);
    }
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(delivered[i] + (double)residual[i] - put_in[i]) <
                    1e-7 + 4e-6 * (double)most);
}

static void delivered_and_residuals_are_the_source(void **state)
{
    (void)state;
    each_codec(check_feedback);
}

/* ---------------------------------------------------------------- not finite */

static void check_nonfinite(const shoal_codec *codec)
{
    enum { N = 100 };
    const float strange[] = {NAN, INFINITY, -INFINITY};
    bool safe = (shoal_codec_traits(codec) & SHOAL_CODEC_NAN_SAFE) != 0;
    for (size_t i = 0; i < 3 * N; i++) {
        float src[N];
        codec_place p;
        size_t written, bound = shoal_codec_bound(codec, N, 1), at = i / 3;
        memcpy(src, codec_data_of(DENSE), sizeof src);
        codec_place_init(&p, codec, src, N); /* measured before a sum overflowed */
        src[at] = strange[i % 3];
        uint8_t *bytes = exactly(bound);
        shoal_status status = shoal_codec_encode(codec, &p.at, src, N, bytes, bound, &written);
        assert_int_equal(status, safe ? SHOAL_OK : SHOAL_ENOTFINITE);
        if (safe) {
            float *got = codec_decode(codec, &p, (coded){bytes, written}, N);
            assert_true(isnan(src[at]) ? isnan(got[at]) : got[at] == src[at]);
            got[at] = src[at] = 0;
            check_values(codec, DENSE, src, got, N);
            free(got);
        }
        free(bytes);
    }
}

static void nonfinite_values_are_kept_or_refused(void **state)
{
    (void)state;
    each_codec(check_nonfinite);
}

/* ---------------------------------------------------------------- hostile bytes */

/* Decode bytes in memory of exactly their length into memory of exactly count elements. What no
 * encoder would code, no decoder may bring: who adds it up would be blamed for it. */
static shoal_status decode_hostile(const shoal_codec *codec, const codec_place *p,
                                   const uint8_t *bytes, size_t length, size_t count, bool add)
{
    uint8_t *copy = exactly(length);
    float *dst = exactly(count * sizeof *dst);
    size_t consumed = 0;
    if (length > 0)
        memcpy(copy, bytes, length);
    memset(dst, 0, count * sizeof *dst);
    shoal_status status = shoal_codec_decode(codec, &p->at, copy, length, dst, count, add,
                                             &consumed);
    assert_true(status == SHOAL_OK || status == SHOAL_ECORRUPT);
    assert_true(consumed <= length);
    if ((shoal_codec_traits(codec) & SHOAL_CODEC_NAN_SAFE) == 0 && status == SHOAL_OK)
        for (size_t i = 0; i < count; i++)
            if (!isfinite(dst[i]))
                fail_msg("%s: element %zu of %zu decodes to %g", shoal_codec_spec(codec), i, count,
                         (double)dst[i]);
    free(copy);
    free(dst);
    return status;
}

static void check_hostile(const shoal_codec *codec)
{
    const size_t tried[] = {1, 33, 70};
    for (size_t i = 0; i < 3; i++) {
        const float *src = codec_data_of(WIDE);
        codec_place p;
        codec_place_init(&p, codec, src, tried[i]);
        coded c = codec_encode(codec, &p, src, tried[i]);
        for (size_t length = 0; length < c.length; length++)
            assert_int_equal(decode_hostile(codec, &p, c.bytes, length, tried[i], length % 2 == 0),
                             SHOAL_ECORRUPT);
        for (size_t bit = 0; bit < 8 * c.length; bit++) {
            c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            decode_hostile(codec, &p, c.bytes, c.length, tried[i], bit % 3 == 0);
            c.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(c.bytes);
    }
}

static void check_garbage(const shoal_codec *codec)
{
    codec_place p;
    codec_place_init(&p, codec, codec_data_of(DENSE), 1100);
    for (uint64_t i = 0; i < 300; i++) {
        uint8_t bytes[700];
        size_t length = shoali_rng_below(check_seed(), 8, i, sizeof bytes);
        size_t count = shoali_rng_below(check_seed(), 9, i, i % 2 == 0 ? 60 : 1100);
        uint64_t mask = i % 3 == 0 ? 0x0101010101010101u : i % 3 == 1 ? 0x1111111111111111u : ~0u;
        for (size_t j = 0; j < length; j++)
            bytes[j] = (uint8_t)(shoali_rng_u64(check_seed(), 10 + i, j) & mask);
        decode_hostile(codec, &p, bytes, length, count, i % 2 == 0);
    }
}

static void hostile_bytes_are_refused_or_harmless(void **state)
{
    (void)state;
    each_codec(check_hostile);
    each_codec(check_garbage);
}

/* ---------------------------------------------------------------- spans */

/* Chunks of any size from anywhere, one after the other, give what each tensor's own piece gives:
 * RAW tensors exactly, the others within the bound, and the same bits however a chunk is cut. */
static void check_spans(const shoal_codec *codec)
{
    shoal_tensor tensors[] = {
        {.key = 1, .offset = 0, .count = 70, .lr_scale = 1},
        {.key = 2, .offset = 70, .count = 1, .flags = SHOAL_TENSOR_RAW, .lr_scale = 1},
        {.key = 3, .offset = 71, .count = 0, .lr_scale = 1},
        {.key = 4, .offset = 71, .count = 1200, .lr_scale = 1},
        {.key = 5, .offset = 1271, .count = 29, .lr_scale = 1},
    };
    enum { N = 1300, TENSORS = 5 };
    float shared[TENSORS * 16] = {0}, got[N];
    size_t per_tensor = shoal_codec_measure_count(codec);
    for (size_t i = 0; i < TENSORS && per_tensor > 0; i++)
        assert_ok(shoal_codec_measure(codec, &tensors[i], codec_data_of(DENSE) + tensors[i].offset,
                                      shared + i * per_tensor));
    for (uint64_t round = 0, draws = 0; round < 12; round++) {
        memset(got, 0, sizeof got);
        for (size_t first = 0, count; first < N; first += count) {
            count = 1 + shoali_rng_below(check_seed(), 11, draws++, round < 6 ? 40 : N);
            count = count < N - first ? count : N - first;
            shoali_codec_span span = {.tensors = tensors,
                                      .tensor_count = TENSORS,
                                      .first = first,
                                      .count = count,
                                      .parts = 1,
                                      .seed = 3,
                                      .stream = 4};
            span.shared = per_tensor > 0 ? shared : NULL;
            size_t capacity = shoali_codec_span_bound(codec, &span), written;
            uint8_t *bytes = exactly(capacity);
            const float *src = codec_data_of(DENSE) + first;
            assert_ok(shoali_codec_span_encode(codec, &span, src, bytes, capacity, &written));
            assert_ok(shoali_codec_span_decode(codec, &span, bytes, written, got + first, false));
            assert_status(
                shoali_codec_span_decode(codec, &span, bytes, written - 1, got + first, false),
                SHOAL_ECORRUPT);
            assert_ok(shoali_codec_span_decode(codec, &span, bytes, written, got + first, false));
            free(bytes);
        }
        check_values(codec, DENSE, codec_data_of(DENSE), got, N);
        assert_true(got[70] == codec_data_of(DENSE)[70]);
    }
}

static void spans_deliver_every_tensor(void **state)
{
    (void)state;
    each_codec(check_spans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(wire_ids_are_unique),
        CHECK_TEST(contracts_are_sound),
        CHECK_TEST(round_trips_keep_the_contract),
        CHECK_TEST(delivered_and_residuals_are_the_source),
        CHECK_TEST(nonfinite_values_are_kept_or_refused),
        CHECK_TEST(hostile_bytes_are_refused_or_harmless),
        CHECK_TEST(spans_deliver_every_tensor),
    };
    return CHECK_RUN(tests);
}
