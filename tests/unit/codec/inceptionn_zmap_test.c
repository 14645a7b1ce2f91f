/* SPDX-License-Identifier: Apache-2.0 */
/* zmap against hand-made bytes and against `planes`, from which it differs in bitmaps left out. */
#include "support/check.h"

#include "base/rng.h"
#include "codec/inceptionn.h"

enum { COUNT = 2500, BLOCKS = 3, MOST = COUNT * 4 + (COUNT + 31) / 32 * 8 + 4 * BLOCKS };

/* Strides 0 and 1 of zeros, stride 2 with element 64 a WORD and 65 a BYTE, stride 3 short. */
static void bytes_by_hand(void **state)
{
    (void)state;
    float src[100] = {0};
    src[64] = 0.75f, src[65] = -0.02f;
    const uint8_t want[] = {0x04, 0, 0, 0, 0x03, 0, 0, 0, 0x01, 0, 0, 0, 0x60, 0x82, 0x00};
    uint8_t coded[512];
    shoali_inc_rule rule = shoali_inc_rule_make(10, 0, false);
    assert_int_equal(shoali_inc_ref_zmap.encode(&rule, src, 100, coded), sizeof want);
    assert_memory_equal(coded, want, sizeof want);
}

/* Every third stride or so holds values, and some of them RAW. */
static void fill(float *src, uint64_t round)
{
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t r = shoali_rng_u64(check_seed(), round, i);
        uint64_t run = shoali_rng_u64(check_seed(), round + 1000, i / 32);
        src[i] = run % 3 != 0 ? 0 : ((float)(r & 0xffff) - 32768) * (r >> 20 & 63 ? 0x1p-20f : 1);
    }
}

static size_t live_strides(const shoali_inc_rule *rule, const float *src, size_t count)
{
    size_t live = 0;
    for (size_t i = 0; i < count; i += SHOALI_INC_STRIDE) {
        bool any = false;
        for (size_t j = i; j < count && j < i + SHOALI_INC_STRIDE; j++) {
            uint16_t payload;
            any = any || shoali_inc_classify(rule, src[j], &payload) != SHOALI_INC_ZERO;
        }
        live += any;
    }
    return live;
}

static void says_what_planes_says_in_fewer_bytes(void **state)
{
    static float src[COUNT], want[COUNT], got[COUNT];
    static uint8_t planes[MOST], coded[MOST];
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        size_t count = round < 40 ? round * 63 % COUNT : COUNT;
        shoali_inc_rule rule = shoali_inc_rule_make(6 + 2 * (round % 3), 0, round % 2 == 0);
        fill(src, round);
        size_t length = shoali_inc_ref_planes.encode(&rule, src, count, planes);
        size_t used = shoali_inc_ref_zmap.encode(&rule, src, count, coded);
        size_t blocks = (count + SHOALI_INC_BLOCK - 1) / SHOALI_INC_BLOCK;
        size_t dead = (count + 31) / 32 - live_strides(&rule, src, count);
        assert_int_equal(used, length + 4 * blocks - 8 * dead);
        for (int add = 0; add < 2; add++) {
            for (size_t i = 0; i < COUNT; i++)
                want[i] = got[i] = (float)i * 0.5f;
            assert_int_equal(
                shoali_inc_ref_planes.decode(&rule, planes, length, want, count, add != 0), length);
            assert_int_equal(shoali_inc_ref_zmap.decode(&rule, coded, used, got, count, add != 0),
                             used);
            assert_memory_equal(got, want, sizeof got);
        }
    }
}

static void short_input_and_strides_without_elements_are_corrupt(void **state)
{
    static float src[COUNT], back[COUNT];
    static uint8_t coded[MOST];
    (void)state;
    shoali_inc_rule rule = shoali_inc_rule_make(10, 0, true);
    fill(src, 7);
    size_t used = shoali_inc_ref_zmap.encode(&rule, src, 1124, coded);
    for (size_t length = 0; length < used; length++) {
        uint8_t *copy = malloc(length + 1); /* exact, for the address sanitizer */
        memcpy(copy, coded, length);
        assert_true(shoali_inc_ref_zmap.decode(&rule, copy, length, back, 1124, false) ==
                    SHOALI_INC_CORRUPT);
        free(copy);
    }
    memset(coded, 0, 8);
    coded[4] = 0x10; /* the second block has 100 elements: strides 0 to 3 */
    assert_true(shoali_inc_ref_zmap.decode(&rule, coded, sizeof coded, back, 1124, false) ==
                SHOALI_INC_CORRUPT);
    coded[4] = 0;
    assert_int_equal(shoali_inc_ref_zmap.decode(&rule, coded, 8, back, 1124, false), 8);
}

static void the_row(void **state)
{
    (void)state;
    shoal_codec *codec;
    assert_status(shoal_codec_open("inceptionn:zmap,layout=interleaved", &codec), SHOAL_EINVAL);
    assert_error_has("layout=planes");
    static float zeros[65536];
    static uint8_t coded[65536 * 5];
    size_t written;
    shoal_codec_at at = {.parts = 1};
    assert_ok(shoal_codec_open("inceptionn:zmap", &codec));
    assert_ok(shoal_codec_encode(codec, &at, zeros, 65536, coded, sizeof coded, &written));
    assert_int_equal(written, 64 * 4); /* 1024 times fewer than float32 */
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bytes_by_hand),
        CHECK_TEST(says_what_planes_says_in_fewer_bytes),
        CHECK_TEST(short_input_and_strides_without_elements_are_corrupt),
        CHECK_TEST(the_row),
    };
    return CHECK_RUN(tests);
}
