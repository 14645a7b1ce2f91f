/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "support/check.h"

#include "base/rng.h"
#include "codec/inceptionn.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/guard.h"

/* What comes out of a codec in the network, by the library's own. */
static void through_codec(uint32_t bound, uint8_t *bytes, size_t words)
{
    shoali_inc_rule rule = shoali_inc_rule_make(bound, 0, false);
    float in[SHOALI_GUARD_MAX_WORDS], out[SHOALI_GUARD_MAX_WORDS];
    uint8_t coded[5 * SHOALI_GUARD_MAX_WORDS + 2];
    memcpy(in, bytes, words * sizeof *in);
    size_t used = shoali_inc_ref_interleaved.encode(&rule, in, words, coded);
    assert_int_equal(shoali_inc_ref_interleaved.decode(&rule, coded, used, out, words, false),
                     used);
    memcpy(bytes, out, words * sizeof *out);
}

static void any_words_pass_a_codec(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 11, 0};
    for (int run = 0; run < 20000; run++) {
        const size_t words = 2 + shoali_rng_next(&rng) % (SHOALI_GUARD_MAX_WORDS - 1);
        uint8_t before[4 * SHOALI_GUARD_MAX_WORDS], bytes[sizeof before];
        for (size_t i = 0; i < words; i++) {
            uint32_t mask = i == 1 ? ~(0xffu << 23) : UINT32_MAX;
            shoali_put_u32(before + 4 * i, (uint32_t)shoali_rng_next(&rng) & mask);
        }
        memcpy(bytes, before, 4 * words);
        shoali_guard(bytes, words);
        for (uint32_t bound = 6; bound <= 10; bound += 2)
            through_codec(bound, bytes, words);
        assert_true(shoali_unguard(bytes, words));
        assert_memory_equal(bytes, before, 4 * words);
    }
}

static void a_frame_header_passes_a_codec(void **state)
{
    (void)state;
    const shoali_frame frame = {.kind = SHOALI_MESSAGE_data,
                                .summed = true,
                                .body_crc = 0xdeadbeef,
                                .head = {.slot = 0x40000007,
                                         .match = UINT32_MAX,
                                         .chunk = 3,
                                         .len_bytes = 65536,
                                         .flags = SHOAL_DATA_NOT_FINITE}};
    uint8_t bytes[SHOALI_FRAME_BYTES];
    shoali_frame got;
    shoali_frame_encode(&frame, bytes);
    shoali_guard(bytes, sizeof bytes / 4);
    assert_int_equal(shoali_frame_decode(bytes, &got),
                     SHOAL_ECORRUPT); /* only where it is agreed */
    through_codec(6, bytes, sizeof bytes / 4);
    assert_true(shoali_unguard(bytes, sizeof bytes / 4));
    assert_ok(shoali_frame_decode(bytes, &got));
    assert_int_equal(got.body_crc, frame.body_crc);
    assert_int_equal(got.head.slot, frame.head.slot);
    assert_int_equal(got.head.match, frame.head.match);
    assert_int_equal(got.head.flags, frame.head.flags);
}

static void a_word_without_its_guard_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[24] = {0}, before[24];
    shoali_guard(bytes, 6);
    for (size_t i = 0; i < 6; i++) {
        bytes[4 * i + 3] ^= 0x40;
        memcpy(before, bytes, sizeof bytes);
        assert_false(shoali_unguard(bytes, 6));
        assert_memory_equal(bytes, before, sizeof bytes);
        bytes[4 * i + 3] ^= 0x40;
    }
    assert_true(shoali_unguard(bytes, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_words_pass_a_codec),
        cmocka_unit_test(a_frame_header_passes_a_codec),
        cmocka_unit_test(a_word_without_its_guard_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
