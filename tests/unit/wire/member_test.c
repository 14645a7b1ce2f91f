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
        shoali_come come = {shoali_rng_next(&rng), shoali_rng_next(&rng) >> 1, 7, 9, 3, 2}, c;
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
        assert_true(c.doubts == come.doubts);
        length = shoali_admit_encode(&admit, bytes);
        assert_true(shoali_admit_decode(bytes, length, &a) && a.epoch == admit.epoch);
        assert_string_equal(a.door, admit.door);
        length = shoali_held_encode(&held, bytes);
        assert_true(shoali_held_decode(bytes, length, &h) && h.count == 3);
        assert_string_equal(h.doors[2], held.doors[2]);
        shoali_missed missed = {(uint32_t)shoali_rng_next(&rng)}, m;
        length = shoali_missed_encode(&missed, bytes);
        assert_true(shoali_missed_decode(bytes, length, &m) && m.endpoint == missed.endpoint);
        assert_false(shoali_missed_decode(bytes, length - 1, &m));
        assert_false(shoali_missed_decode(bytes, length + 1, &m));
    }
}

static void proposals_return_as_they_went(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 3, 0};
    uint8_t bytes[SHOALI_PROPOSAL_BYTES];
    for (int i = 0; i < TRIALS; i++) {
        shoali_proposal p = {.epoch = 1 + (shoali_rng_next(&rng) >> 1),
                             .leader = shoali_rng_next(&rng),
                             .size = 1 +
                                     (uint32_t)(shoali_rng_next(&rng) % SHOALI_PROPOSAL_MEMBERS),
                             .newcomers = (uint32_t)(shoali_rng_next(&rng) % 9),
                             .certain = (uint32_t)(i % 2)};
        shoali_proposal back;
        const uint32_t one = (uint32_t)(shoali_rng_next(&rng) % p.size);
        p.stays[one / 8] = (uint8_t)(1u << one % 8);
        const size_t length = shoali_proposal_encode(&p, bytes);
        assert_true(length <= sizeof bytes && shoali_proposal_decode(bytes, length, &back));
        assert_memory_equal(&p, &back, sizeof p);
        assert_true(shoali_proposal_stays(&back, one));
        assert_false(shoali_proposal_decode(bytes, length - 1, &back));
    }
}

static void refuse(shoali_proposal p)
{
    uint8_t bytes[SHOALI_PROPOSAL_BYTES];
    shoali_proposal back;
    assert_false(shoali_proposal_decode(bytes, shoali_proposal_encode(&p, bytes), &back));
}

static void proposals_of_nobody_are_refused(void **state)
{
    (void)state;
    refuse((shoali_proposal){.epoch = 1, .size = 4});
    refuse((shoali_proposal){.epoch = 1, .size = 4, .stays = {0x11}}); /* rank 4 of 4 */
    refuse((shoali_proposal){.epoch = 0, .size = 4, .stays = {1}});
    refuse((shoali_proposal){.epoch = 1, .size = 4, .stays = {1}, .certain = 2});
    refuse((shoali_proposal){.epoch = 1, .size = 4, .stays = {1}, .newcomers = 4097});
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
    length = shoali_come_encode(&(shoali_come){.doubts = SHOALI_DOUBTS + 1}, bytes);
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
        bytes[16] = (uint8_t)(i % 256), bytes[17] = (uint8_t)(i % 32), bytes[18] = bytes[19] = 0;
        shoali_proposal p;
        for (size_t length = 0; length < SHOALI_PROPOSAL_BYTES; length += 1 + (size_t)i % 7)
            if (shoali_proposal_decode(bytes, length, &p))
                assert_true(p.size <= SHOALI_PROPOSAL_MEMBERS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(messages_return_as_they_went),    CHECK_TEST(proposals_return_as_they_went),
        CHECK_TEST(proposals_of_nobody_are_refused), CHECK_TEST(what_nobody_says_is_refused),
        CHECK_TEST(random_bytes_do_no_harm),
    };
    return CHECK_RUN(tests);
}
