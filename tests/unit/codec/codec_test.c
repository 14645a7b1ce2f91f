/* SPDX-License-Identifier: Apache-2.0 */
/* Opening codecs by spec, and what the wrappers check before a row is called. */
#include "support/check.h"

#include "base/arena.h"
#include "codec/codec.h"

static shoal_codec *open_codec(const char *spec)
{
    shoal_codec *codec;
    assert_ok(shoal_codec_open(spec, &codec));
    return codec;
}

static void a_spec_names_row_and_keys(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec("inceptionn:bound=2^-8,layout=interleaved");
    assert_string_equal(shoal_codec_name(codec), "inceptionn");
    assert_string_equal(shoal_codec_spec(codec), "inceptionn:bound=2^-8,layout=interleaved");
    assert_true(codec->error_feedback);
    shoal_codec_close(codec);
    codec = open_codec("fp16");
    assert_string_equal(shoal_codec_spec(codec), "fp16");
    assert_false(codec->error_feedback);
    shoal_codec_close(codec);
    codec = open_codec("fp16:ef");
    assert_true(codec->error_feedback);
    assert_true(codec->decay == 1);
    shoal_codec_close(codec);
    codec = open_codec("chunk_topk:decay=0.5");
    assert_true(codec->error_feedback && codec->decay == 0.5f);
    shoal_codec_close(codec);
    assert_status(shoal_codec_open("chunk_topk:decay=0.5,ef=off", &codec), SHOAL_EINVAL);
    assert_error_has("decay=0.5 is of error feedback, which is off");
}

static void wrong_specs_list_what_is_known(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    assert_status(shoal_codec_open("inceptoin", &codec), SHOAL_EINVAL);
    assert_error_has("inceptionn");
    assert_status(shoal_codec_open("fp", &codec), SHOAL_EINVAL);
    assert_error_has("bf16");
    assert_status(shoal_codec_open("inceptionn:bound=2^-9", &codec), SHOAL_EINVAL);
    assert_error_has("2^-6|2^-8|2^-10");
    assert_status(shoal_codec_open("identity:ef", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open("", &codec), SHOAL_EINVAL);
    assert_status(shoal_codec_open(NULL, &codec), SHOAL_EINVAL);
    assert_null(codec);
}

static void hashes_follow_the_canonical_spec(void **state)
{
    (void)state;
    shoal_codec *a = open_codec("inceptionn"), *b = open_codec("inceptionn:bound=2^-10,ef=on"),
                *c = open_codec("inceptionn:layout=interleaved"), *d = open_codec("fp16");
    assert_true(a->hash == b->hash);
    assert_true(a->hash != c->hash && a->hash != d->hash);
    shoal_codec_close(a), shoal_codec_close(b), shoal_codec_close(c), shoal_codec_close(d);
}

static void wrappers_check_their_arguments(void **state)
{
    (void)state;
    shoal_codec *codec = open_codec("identity");
    float x[2] = {1, 2}, shared;
    uint8_t bytes[8];
    size_t used;
    const shoal_codec_at no_parts = {.parts = 0}, at = {.parts = 1};
    assert_status(shoal_codec_encode(codec, NULL, x, 2, bytes, 8, &used), SHOAL_EINVAL);
    assert_status(shoal_codec_encode(codec, &no_parts, x, 2, bytes, 8, &used), SHOAL_EINVAL);
    assert_status(shoal_codec_decode(codec, &no_parts, bytes, 8, x, 2, false, &used), SHOAL_EINVAL);
    assert_status(shoal_codec_encode(codec, &at, x, 2, bytes, 7, &used), SHOAL_EINVAL);
    assert_error_has("up to 8");
    assert_ok(shoal_codec_encode(codec, &at, x, 2, bytes, 8, &used));
    assert_status(shoal_codec_measure(codec, &(shoal_tensor){.count = 2}, x, &shared),
                  SHOAL_EINVAL);
    shoal_codec_close(codec);
}

static shoal_status no_round(const void *params, void *memory, const shoal_tensor *tensors,
                             uint32_t tensor_count, uint32_t index, float *grad,
                             shoal_round *round_out)
{
    (void)params, (void)memory, (void)tensors, (void)tensor_count, (void)index;
    *round_out = (shoal_round){.buf = grad, .last = true};
    return SHOAL_OK;
}

static uint16_t some_id(const void *params)
{
    (void)params;
    return 999;
}

static void a_transform_codes_no_pieces(void **state)
{
    (void)state;
    const shoali_codec_row row = {.name = "turn",
                                  .paper = "none",
                                  .wire_id = some_id,
                                  .traits = SHOAL_CODEC_TRANSFORM,
                                  .next_round = no_round};
    shoal_codec *codec;
    assert_ok(shoali_codec_open_row(&row, "turn", &codec));
    size_t used;
    uint8_t bytes[4];
    assert_status(shoal_codec_encode(codec, &(shoal_codec_at){.parts = 1}, (const float[1]){0}, 1,
                                     bytes, 4, &used),
                  SHOAL_EINVAL);
    assert_error_has("transform");
    shoal_codec_close(codec);
}

static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    shoali_alloc_fail_at(1);
    assert_status(shoal_codec_open("bf16", &codec), SHOAL_ENOMEM);
    shoali_alloc_fail_at(0);
    assert_null(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_spec_names_row_and_keys),        CHECK_TEST(wrong_specs_list_what_is_known),
        CHECK_TEST(hashes_follow_the_canonical_spec), CHECK_TEST(wrappers_check_their_arguments),
        CHECK_TEST(a_transform_codes_no_pieces),      CHECK_TEST(a_failed_allocation_is_reported),
    };
    return CHECK_RUN(tests);
}
