/* SPDX-License-Identifier: Apache-2.0 */
/* The last operations that have ended: found by their whole name, the oldest makes room. */
#include "ops/recent.h"

#include "support/check.h"

static shoali_finished ended(uint64_t group, uint64_t sequence, uint32_t round)
{
    return (shoali_finished){.id = {group, sequence, round},
                             .hash = sequence * 3,
                             .ended_us = 100 + sequence,
                             .status = SHOAL_EPEER,
                             .culprit = round,
                             .text = "all-reduce",
                             .why = "it was lost"};
}

static void an_end_is_found_by_all_of_its_name(void **state)
{
    (void)state;
    shoali_recent recent;
    assert_ok(shoali_recent_init(&recent));
    const shoali_finished one = ended(2, 3, 4);
    assert_null(shoali_recent_find(&recent, &one.id));
    assert_null(
        shoali_recent_find(&recent, &(shoali_wire_id){0, 0, 0})); /* an empty place is none */
    shoali_recent_add(&recent, &one);
    const shoali_finished *found = shoali_recent_find(&recent, &one.id);
    assert_non_null(found);
    assert_int_equal(found->hash, one.hash);
    assert_int_equal(found->ended_us, one.ended_us);
    assert_int_equal(found->status, SHOAL_EPEER);
    assert_int_equal(found->culprit, 4);
    assert_string_equal(found->text, one.text);
    assert_string_equal(found->why, one.why);
    assert_null(shoali_recent_find(&recent, &(shoali_wire_id){1, 3, 4}));
    assert_null(shoali_recent_find(&recent, &(shoali_wire_id){2, 4, 4}));
    assert_null(shoali_recent_find(&recent, &(shoali_wire_id){2, 3, 5}));
    shoali_recent_free(&recent);
}

static void the_oldest_makes_room(void **state)
{
    (void)state;
    shoali_recent recent;
    assert_ok(shoali_recent_init(&recent));
    for (uint64_t i = 0; i < SHOALI_RECENT_KEPT + 10; i++) {
        const shoali_finished one = ended(0, i, 1);
        shoali_recent_add(&recent, &one);
    }
    for (uint64_t i = 0; i < SHOALI_RECENT_KEPT + 10; i++)
        assert_int_equal(shoali_recent_find(&recent, &(shoali_wire_id){0, i, 1}) != NULL, i >= 10);
    shoali_recent_free(&recent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(an_end_is_found_by_all_of_its_name),
                                       CHECK_TEST(the_oldest_makes_room)};
    return CHECK_RUN(tests);
}
