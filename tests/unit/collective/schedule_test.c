/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/schedule.h"

#include "support/check.h"
#include "support/steps.h"

static void the_first_blocks_are_one_longer(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 6, 7, 8, 97, 1000003, SIZE_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (uint32_t blocks = 1; blocks <= 17; blocks++) {
            size_t next = 0, longer = counts[c] % blocks;
            for (uint32_t b = 0; b < blocks; b++) {
                size_t offset, count;
                shoali_block_range(counts[c], blocks, b, &offset, &count);
                assert_true(offset == next);
                assert_true(count == counts[c] / blocks + (b < longer ? 1 : 0));
                next = offset + count;
            }
            assert_true(next == counts[c]);
        }
}

static void a_spec_string_becomes_a_row_with_params(void **state)
{
    (void)state;
    shoali_collective plain, same, other;
    assert_ok(shoali_collective_open("ring", &plain));
    assert_ok(shoali_collective_open("ring:both=off", &same));
    assert_ok(shoali_collective_open("ring:both", &other));
    assert_string_equal(plain.spec, "ring");
    assert_string_equal(same.spec, "ring");
    assert_string_equal(other.spec, "ring:both");
    assert_true(plain.hash == same.hash && plain.hash != other.hash);
    assert_ptr_equal(plain.row, other.row);
    shoali_collective_close(&plain);
    shoali_collective_close(&same);
    shoali_collective_close(&other);
}

static void unknown_names_and_keys_list_the_known(void **state)
{
    (void)state;
    shoali_collective c;
    assert_status(shoali_collective_open("rign", &c), SHOAL_EINVAL);
    assert_error_has("halving_doubling");
    assert_error_has("ring");
    assert_status(shoali_collective_open("ring:sideways", &c), SHOAL_EINVAL);
    assert_error_has("both");
    assert_status(shoali_collective_open("gather:x=1", &c), SHOAL_EINVAL);
}

static void the_table_is_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; i < shoali_collective_count(); i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        assert_non_null(row->paper);
        assert_true((row->traits & SHOALI_COLL_FLOW) != 0 ? row->flow != NULL : row->build != NULL);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(row->name, shoali_collective_row_at(j)->name);
    }
    assert_null(shoali_collective_row_at(shoali_collective_count()));
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const shoal_schedule_args bad[] = {
        {0, 0, 0, 0, NULL, NULL},
        {3, 3, 3, 0, NULL, NULL},
        {3, 3, 0, 3, NULL, NULL},
        {3, 4, 0, 0, NULL, NULL},
        {3, 0, 0, 0, NULL, NULL},
        {3, 2, 0, 0, NULL, NULL},
        {SHOALI_MEMBERS_MAX + 1, 1, 0, 0, NULL, NULL},
    };
    shoali_collective ring;
    shoal_schedule schedule;
    shoal_arena *arena = shoali_arena_create(4096);
    assert_ok(shoali_collective_open("ring", &ring));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_status(shoali_collective_build(&ring, SHOAL_ALL_REDUCE, &bad[i], arena, &schedule),
                      SHOAL_EINVAL);
    shoali_collective_close(&ring);
    shoali_arena_destroy(arena);
}

static void a_group_of_one_has_no_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < shoali_collective_count(); i++) {
        const shoali_collective_row *row = shoali_collective_row_at(i);
        steps_of alone = {row->name, .size = 1};
        if (row->traits & SHOALI_COLL_ROOTED)
            alone.kind = SHOAL_BROADCAST;
        if ((row->traits & SHOALI_COLL_FLOW) == 0) {
            steps_are(&alone, "");
            assert_int_equal(steps_cost(&alone, 5).rounds, 0);
        }
    }
}

/* The biggest ring still counts its rounds, and one list of 1024 members is cheap to cost. */
static void many_members(void **state)
{
    (void)state;
    steps_of which = {"ring", .size = SHOALI_MEMBERS_MAX, .me = 1};
    assert_int_equal(steps_cost(&which, SHOALI_MEMBERS_MAX).rounds, 2 * (SHOALI_MEMBERS_MAX - 1));
    which = (steps_of){"hierarchical", .size = 1024, .me = 1023};
    assert_int_equal(steps_cost(&which, 2048).sent_elems, 2 * 2 * 1023);
    assert_int_equal(steps_cost(&which, 2048).rounds, 20);
}

static void blocks_shorter_than_one_element_cost_nothing(void **state)
{
    (void)state;
    uint64_t sent = 0, received = 0;
    for (uint32_t me = 0; me < 4; me++) {
        shoali_cost cost = steps_cost(&(steps_of){"ring", .size = 4, .me = me}, 1);
        sent += cost.sent_elems;
        received += cost.received_elems;
        assert_int_equal(cost.sends, 6);
    }
    assert_int_equal(sent, 6); /* one element, over three hops each way */
    assert_int_equal(received, 6);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    shoali_collective ring;
    shoal_schedule schedule;
    shoal_schedule_args args = {1024, 1024, 0, 0, NULL, NULL};
    shoali_alloc_fail_at(1);
    assert_status(shoali_collective_open("ring", &ring), SHOAL_ENOMEM);
    shoali_alloc_fail_at(0);
    assert_ok(shoali_collective_open("ring", &ring));
    shoal_arena *arena = shoali_arena_create(64);
    for (size_t k = 1;; k++) {
        shoali_alloc_fail_at(k);
        shoal_status status = shoali_collective_build(&ring, SHOAL_ALL_REDUCE, &args, arena,
                                                      &schedule);
        shoali_alloc_fail_at(0);
        if (status == SHOAL_OK)
            break;
        assert_int_equal(status, SHOAL_ENOMEM);
        assert_true(k < 100);
        shoali_arena_reset(arena);
    }
    shoali_collective_close(&ring);
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_first_blocks_are_one_longer),
        CHECK_TEST(a_spec_string_becomes_a_row_with_params),
        CHECK_TEST(unknown_names_and_keys_list_the_known),
        CHECK_TEST(the_table_is_well_formed),
        CHECK_TEST(impossible_sizes_are_refused),
        CHECK_TEST(a_group_of_one_has_no_steps),
        CHECK_TEST(many_members),
        CHECK_TEST(blocks_shorter_than_one_element_cost_nothing),
        CHECK_TEST(no_memory_is_an_error),
    };
    return CHECK_RUN(tests);
}
