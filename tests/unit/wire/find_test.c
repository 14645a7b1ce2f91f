/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/rng.h"
#include "wire/find.h"

static const uint8_t token[] = "a token of the job";

static void ask_and_tell_survive(void **state)
{
    (void)state;
    const shoali_find both[] = {
        {.kind = SHOALI_FIND_ASK, .endpoint = 3, .nonce = "only once, I say"},
        {.kind = SHOALI_FIND_TELL, .endpoint = 4095, .port = 65535, .nonce = "only once, I say"}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t bytes[SHOALI_FIND_BYTES];
        shoali_find got;
        assert_true(shoali_find_encode(&both[i], "job", token, sizeof token, bytes));
        assert_true(shoali_find_decode(bytes, sizeof bytes, "job", token, sizeof token, &got));
        assert_int_equal(got.kind, both[i].kind);
        assert_int_equal(got.endpoint, both[i].endpoint);
        assert_int_equal(got.port, both[i].port);
        assert_memory_equal(got.nonce, both[i].nonce, sizeof got.nonce);
        assert_false(shoali_find_decode(bytes, sizeof bytes, "jo", token, sizeof token, &got));
        assert_false(shoali_find_decode(bytes, sizeof bytes, "job", token, sizeof token - 2, &got));
        assert_false(shoali_find_decode(bytes, sizeof bytes - 1, "job", token, sizeof token, &got));
    }
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    const shoali_find find = {.kind = SHOALI_FIND_TELL, .endpoint = 7, .port = 1234};
    uint8_t bytes[SHOALI_FIND_BYTES];
    shoali_find got;
    assert_true(shoali_find_encode(&find, "job", token, sizeof token, bytes));
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(shoali_find_decode(bytes, sizeof bytes, "job", token, sizeof token, &got));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void what_no_encoder_means_is_refused(void **state)
{
    (void)state;
    const shoali_find wrong[] = {{.kind = 0},
                                 {.kind = 3},
                                 {.kind = SHOALI_FIND_ASK, .port = 1},
                                 {.kind = SHOALI_FIND_TELL, .port = 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t bytes[SHOALI_FIND_BYTES];
        shoali_find got;
        assert_true(shoali_find_encode(&wrong[i], "job", token, sizeof token, bytes));
        assert_false(shoali_find_decode(bytes, sizeof bytes, "job", token, sizeof token, &got));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(ask_and_tell_survive),
        CHECK_TEST(every_flipped_bit_is_noticed),
        CHECK_TEST(what_no_encoder_means_is_refused),
    };
    return CHECK_RUN(tests);
}
