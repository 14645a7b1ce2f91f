/* SPDX-License-Identifier: Apache-2.0 */
/* Where pieces begin and end, seen through a codec that writes down every call it gets: 8 bytes
 * {first, count} per piece. */
#include "support/check.h"

#include "base/error.h"
#include "base/rng.h"
#include "codec/codec.h"

static struct call {
    shoal_codec_at at;
    size_t count;
} calls[16];
static size_t call_count;

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 997;
}

static size_t bound(const void *params, size_t count, uint32_t parts)
{
    (void)params, (void)count, (void)parts;
    return 8;
}

static shoal_status encode(const void *params, const shoal_codec_at *at, const float *src,
                           size_t count, uint8_t *dst, size_t capacity, size_t *written_out)
{
    (void)params, (void)src;
    assert_true(capacity >= 8 && call_count < 16);
    calls[call_count++] = (struct call){*at, count};
    memcpy(dst, (const uint32_t[2]){(uint32_t)at->first, (uint32_t)count}, 8);
    *written_out = 8;
    return SHOAL_OK;
}

static shoal_status decode(const void *params, const shoal_codec_at *at, const uint8_t *src,
                           size_t len_bytes, float *dst, size_t count, bool add, size_t *read_out)
{
    (void)params;
    uint32_t want[2] = {(uint32_t)at->first, (uint32_t)count};
    if (len_bytes < 8 || memcmp(src, want, 8) != 0)
        return shoali_fail(SHOAL_ECORRUPT, "log: other piece");
    for (size_t i = 0; i < count; i++)
        dst[i] = (float)at->tensor->key + (add ? dst[i] : 0);
    *read_out = 8;
    return SHOAL_OK;
}

static shoal_status measure(const void *params, const shoal_tensor *tensor, const float *src,
                            float *shared_out)
{
    (void)params, (void)src;
    shared_out[0] = shared_out[1] = (float)tensor->key;
    return SHOAL_OK;
}

static const shoali_codec_row whole_row = {.name = "log",
                                           .paper = "test",
                                           .bytes_per_elem = 1,
                                           .wire_id = wire_id,
                                           .bound = bound,
                                           .encode = encode,
                                           .decode = decode};
static const shoali_codec_row tensor_row = {.name = "log",
                                            .paper = "test",
                                            .bytes_per_elem = 1,
                                            .shared_count = 2,
                                            .wire_id = wire_id,
                                            .traits = SHOAL_CODEC_PER_TENSOR | SHOAL_CODEC_MEASURE,
                                            .bound = bound,
                                            .encode = encode,
                                            .decode = decode,
                                            .measure = measure};

/* 0..9 A, 10..12 B, (13 empty), 13..17 C raw, 18..19 D raw, 20..29 E */
static const shoal_tensor tensors[] = {
    {.key = 100, .offset = 0, .count = 10},
    {.key = 101, .offset = 10, .count = 3},
    {.key = 102, .offset = 13, .count = 0, .flags = SHOAL_TENSOR_RAW},
    {.key = 103, .offset = 13, .count = 5, .flags = SHOAL_TENSOR_RAW | SHOAL_TENSOR_BIAS},
    {.key = 104, .offset = 18, .count = 2, .flags = SHOAL_TENSOR_RAW},
    {.key = 105, .offset = 20, .count = 10},
};
static float src[30];

static shoal_codec *open_log(const shoali_codec_row *row)
{
    shoal_codec *codec;
    assert_ok(shoali_codec_open_row(row, "log", &codec));
    for (size_t i = 0; i < 30; i++)
        src[i] = (float)i;
    call_count = 0;
    return codec;
}

static shoali_codec_span span_of(size_t first, size_t count)
{
    return (shoali_codec_span){.tensors = tensors,
                               .tensor_count = 6,
                               .first = first,
                               .count = count,
                               .parts = 3,
                               .seed = 8,
                               .stream = 9};
}

static void check_call(size_t i, uint64_t key, size_t first, size_t count, uint64_t stream)
{
    assert_int_equal(calls[i].at.tensor->key, key);
    assert_int_equal(calls[i].at.first, first);
    assert_int_equal(calls[i].count, count);
    assert_int_equal(calls[i].at.parts, 3);
    assert_int_equal(calls[i].at.seed, 8);
    assert_int_equal(calls[i].at.stream, stream);
}

static void pieces_join_tensors_of_equal_flags(void **state)
{
    (void)state;
    shoal_codec *codec = open_log(&whole_row);
    uint8_t bytes[200];
    size_t written;
    shoali_codec_span span = span_of(4, 23); /* A' B | C D as floats | E' */
    assert_int_equal(shoali_codec_span_bound(codec, &span), 8 + 7 * 4 + 8);
    assert_ok(shoali_codec_span_encode(codec, &span, src + 4, bytes, sizeof bytes, &written));
    assert_int_equal(written, 8 + 7 * 4 + 8);
    assert_int_equal(call_count, 2);
    check_call(0, 100, 4, 9, 9); /* first counts in the operation */
    check_call(1, 105, 20, 7, 9);
    assert_memory_equal(bytes + 8, src + 13, 7 * sizeof *src);
    float got[23] = {0};
    assert_ok(shoali_codec_span_decode(codec, &span, bytes, written, got, false));
    assert_true(got[0] == 100 && got[8] == 100 && got[9] == 13 && got[15] == 19 && got[16] == 105);
    assert_ok(shoali_codec_span_decode(codec, &span, bytes, written, got, true));
    assert_true(got[0] == 200 && got[9] == 26);
    shoal_codec_close(codec);
}

static void per_tensor_codecs_get_one_piece_each(void **state)
{
    (void)state;
    shoal_codec *codec = open_log(&tensor_row);
    uint8_t bytes[200];
    size_t written;
    float shared[12];
    for (size_t i = 0; i < 6; i++)
        assert_ok(shoal_codec_measure(codec, &tensors[i], src, shared + 2 * i));
    shoali_codec_span span = span_of(4, 23);
    span.shared = shared;
    assert_ok(shoali_codec_span_encode(codec, &span, src + 4, bytes, sizeof bytes, &written));
    assert_int_equal(written, 8 + 8 + 7 * 4 + 8);
    assert_int_equal(call_count, 3);
    check_call(0, 100, 4, 6, shoali_mix(9, 100)); /* first counts in the tensor */
    check_call(1, 101, 0, 3, shoali_mix(9, 101));
    check_call(2, 105, 0, 7, shoali_mix(9, 105));
    for (size_t i = 0; i < 3; i++)
        assert_true(calls[i].at.shared[1] == (float)calls[i].at.tensor->key);
    shoal_codec_close(codec);
}

static void an_empty_span_has_no_bytes(void **state)
{
    (void)state;
    shoal_codec *codec = open_log(&whole_row);
    size_t written = 1;
    uint8_t bytes[1];
    for (size_t first = 0; first <= 30; first += 10) {
        shoali_codec_span span = span_of(first, 0);
        assert_int_equal(shoali_codec_span_bound(codec, &span), 0);
        assert_ok(shoali_codec_span_encode(codec, &span, src, bytes, 0, &written));
        assert_int_equal(written, 0);
        assert_ok(shoali_codec_span_decode(codec, &span, bytes, 0, src, false));
    }
    shoal_codec_close(codec);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    shoal_codec *codec = open_log(&whole_row);
    uint8_t bytes[200] = {0};
    size_t written;
    shoali_codec_span outside[] = {span_of(31, 0), span_of(20, 11), span_of(1, SIZE_MAX)};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(shoali_codec_span_bound(codec, &outside[i]), 0);
        assert_status(
            shoali_codec_span_encode(codec, &outside[i], src, bytes, sizeof bytes, &written),
            SHOAL_EINVAL);
        assert_status(shoali_codec_span_decode(codec, &outside[i], bytes, 8, src, false),
                      SHOAL_EINVAL);
    }
    shoali_codec_span span = span_of(4, 23);
    assert_status(shoali_codec_span_encode(codec, &span, src, bytes, 43, &written), SHOAL_EINVAL);
    assert_ok(shoali_codec_span_encode(codec, &span, src, bytes, 44, &written));
    float got[23];
    assert_status(shoali_codec_span_decode(codec, &span, bytes, 43, got, false), SHOAL_ECORRUPT);
    assert_status(shoali_codec_span_decode(codec, &span, bytes, 45, got, false), SHOAL_ECORRUPT);
    assert_error_has("44 of 45");
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(pieces_join_tensors_of_equal_flags),
        CHECK_TEST(per_tensor_codecs_get_one_piece_each),
        CHECK_TEST(an_empty_span_has_no_bytes),
        CHECK_TEST(mistakes_are_named),
    };
    return CHECK_RUN(tests);
}
