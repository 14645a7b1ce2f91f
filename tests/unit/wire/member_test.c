/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/member.h"

#include "base/rng.h"
#include "support/check.h"

enum { TRIALS = 2000 };

static void draw_door(shoali_rng *rng, char *door)
{
    static const char digits[] = "0123456789abcdef.:[]";
    size_t length = shoali_rng_next(rng) % SHOALI_DOOR_BYTES;
    memset(door, 0, SHOALI_DOOR_BYTES);
    for (size_t i = 0; i < length; i++)
        door[i] = digits[shoali_rng_next(rng) % (sizeof digits - 1)];
}

static void messages_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 1, 0};
    for (int i = 0; i < TRIALS; i++) {
        uint8_t bytes[SHOALI_HELD_BYTES];
        shoali_reform reform = {.what = (uint32_t)(shoali_rng_next(&rng) % SHOALI_REFORM_KINDS)}, r;
        shoali_come come = {shoali_rng_next(&rng), shoali_rng_next(&rng) >> 1, 7, 9, 3}, c;
        shoali_admit admit = {.epoch = 1 + (shoali_rng_next(&rng) >> 1), .size = 5, .rank = 4}, a;
        shoali_held held = {.stay = i % 2, .count = 3}, h;
        draw_door(&rng, reform.door);
        draw_door(&rng, admit.door);
        for (uint32_t d = 0; d < held.count; d++)
            draw_door(&rng, held.doors[d]);
        size_t length = shoali_reform_encode(&reform, bytes);
        assert_true(shoali_reform_decode(bytes, length, &r) && r.what == reform.what);
        assert_string_equal(r.door, reform.door);
        assert_false(shoali_reform_decode(bytes, length - 1, &r));
        length = shoali_come_encode(&come, bytes);
        assert_true(shoali_come_decode(bytes, length, &c));
        assert_true(c.epoch == come.epoch && c.tried == come.tried && c.rank == come.rank);
        length = shoali_admit_encode(&admit, bytes);
        assert_true(shoali_admit_decode(bytes, length, &a) && a.epoch == admit.epoch);
        assert_string_equal(a.door, admit.door);
        length = shoali_held_encode(&held, bytes);
        assert_true(shoali_held_decode(bytes, length, &h) && h.count == 3);
        assert_string_equal(h.doors[2], held.doors[2]);
    }
}

static void what_nobody_says_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[SHOALI_HELD_BYTES] = {0};
    shoali_reform r;
    shoali_admit a;
    shoali_held h;
    shoali_come c;
    const shoali_admit places[] = {{.epoch = 0, .size = 1},
                                   {.epoch = 1, .size = 2, .rank = 2},
                                   {.epoch = 1, .size = 2, .done_rank = 2},
                                   {.epoch = 1, .size = 2, .done_min = 2, .done_max = 1}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        assert_false(shoali_admit_decode(bytes, shoali_admit_encode(&places[i], bytes), &a));
    size_t length = shoali_reform_encode(&(shoali_reform){.what = SHOALI_REFORM_KINDS}, bytes);
    assert_false(shoali_reform_decode(bytes, length, &r));
    length = shoali_reform_encode(&(shoali_reform){.door = "; rm -rf"}, bytes);
    assert_false(shoali_reform_decode(bytes, length, &r));
    length = shoali_come_encode(&(shoali_come){.tried = UINT64_MAX}, bytes);
    assert_false(shoali_come_decode(bytes, length, &c));
    length = shoali_held_encode(&(shoali_held){.stay = 2}, bytes);
    assert_false(shoali_held_decode(bytes, length, &h));
}

static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 2, 0};
    for (int i = 0; i < TRIALS; i++) {
        uint8_t bytes[SHOALI_HELD_BYTES];
        shoali_reform r;
        shoali_admit a;
        shoali_held h;
        shoali_come c;
        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (uint8_t)shoali_rng_next(&rng);
        if (shoali_reform_decode(bytes, SHOALI_REFORM_MESSAGE_BYTES, &r))
            assert_true(strlen(r.door) < SHOALI_DOOR_BYTES);
        (void)shoali_come_decode(bytes, SHOALI_COME_BYTES, &c);
        (void)shoali_admit_decode(bytes, SHOALI_ADMIT_BYTES, &a);
        (void)shoali_held_decode(bytes, SHOALI_HELD_BYTES, &h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(messages_return_as_they_went),
        CHECK_TEST(what_nobody_says_is_refused),
        CHECK_TEST(random_bytes_do_no_harm),
    };
    return CHECK_RUN(tests);
}
