/* SPDX-License-Identifier: Apache-2.0 */
/* What members tell each other: calls that differ, news for those who come late or early, questions
 * before a deadline, and a peer that says too much. */
#include "base/error.h"
#include "support/check.h"
#include "support/opsworld.h"

enum { COUNT = 200, SEEDS = 20, SECOND = 1000 * 1000 };

static float buf[3][COUNT];

static shoal_op_desc desc_of(uint32_t rank, size_t count)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = count;
    return desc;
}

static void start(opsworld *world, uint32_t rank, size_t count)
{
    const shoal_op_desc desc = desc_of(rank, count);
    opsworld_start(world, rank, &desc);
}

/* In any order, whether the other is open, over or not begun. */
static void calls_that_differ_are_both_named(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = opsworld_create(3, seed);
        for (uint32_t r = 0; r < 3; r++) {
            start(world, r, r == 1 ? COUNT - 1 : COUNT);
            if (seed % 2)
                opsworld_run(world, world->now_us + 10);
        }
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < 3; r++) {
            const opsworld_end *end = opsworld_last(world, r);
            assert_int_equal(end->status, SHOAL_EMISMATCH);
            assert_non_null(
                strstr(end->error.text, "rank 1 (host host1) started all-reduce 1, 199"));
            assert_non_null(strstr(end->error.text, ", 200 elements"));
            assert_true(end->at_us < 2 * SECOND);
            assert_non_null(strstr(end->error.advice, "same order"));
        }
        opsworld_destroy(world);
    }
}

/* Of as many elements, but not the same. */
static void calls_of_one_length_differ_too(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    shoal_op_desc desc = desc_of(0, COUNT);
    opsworld_start(world, 0, &desc);
    desc.buf = buf[1];
    desc.collective = "direct";
    opsworld_start(world, 1, &desc);
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_EMISMATCH);
        assert_non_null(strstr(opsworld_last(world, r)->error.text, "direct, identity"));
    }
    opsworld_destroy(world);
}

/* A READY that comes twice, with whatever slot: data go once, into the first. */
static void a_second_ready_changes_nothing(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    shoal_op_desc desc = desc_of(0, COUNT);
    shoal_op *op = opsworld_start(world, 0, &desc);
    shoali_ready ready = {.id = op->id, .count = COUNT, .hash = op->hash, .slot = 3};
    world->cut[0][1] = true;
    shoali_agree_on_ready(&world->rank[0].ops, 1, &ready);
    const uint32_t posted = world->rank[0].posted;
    assert_true(posted > 0 && op->granted[1]);
    ready.slot = 4;
    shoali_agree_on_ready(&world->rank[0].ops, 1, &ready);
    assert_int_equal(world->rank[0].posted, posted);
    world->cut[0][1] = false;
    shoali_run_cancel_all(&world->rank[0].ops);
    opsworld_run(world, UINT64_MAX);
    opsworld_destroy(world);
}

/* One that has seen nothing itself blames whom the other blames, not the other. */
static void who_is_told_knows_the_culprit(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    start(world, 0, COUNT);
    start(world, 1, COUNT);
    shoali_run_peer_lost(&world->rank[0].ops, 2, SHOAL_EPEER, "it is lost");
    opsworld_run(world, world->now_us + SECOND);
    assert_int_equal(opsworld_last(world, 1)->status, SHOAL_EPEER);
    assert_int_equal(opsworld_last(world, 1)->error.rank, 2);
    assert_string_equal(opsworld_last(world, 1)->error.host, "host2");
    assert_string_equal(opsworld_last(world, 1)->error.text, "all-reduce 1: it is lost");
    opsworld_destroy(world);
}

static void who_comes_late_hears_of_a_failure(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    start(world, 0, COUNT);
    start(world, 1, COUNT);
    opsworld_kill(world, 2);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_EPEER);
    world->rank[1].sees[2] = SHOALI_THERE; /* it need not know by itself */
    world->rank[1].end_count = 0;
    const shoali_wire_id id = {0, 1, SHOALI_MAIN_ROUND};
    assert_true(shoali_agree_is_over(&world->rank[0].ops, &id));
    assert_false(shoali_agree_is_over(&world->rank[0].ops, &(shoali_wire_id){0, 2, 1}));
    const shoali_ready late = {.id = id, .count = COUNT, .hash = 1};
    world->cut[0][1] = true;
    shoali_agree_on_ready(&world->rank[0].ops, 1, &late);
    assert_non_null(world->first[0][1]); /* an ABORT is on its way */
    opsworld_destroy(world);
}

/* It has ended well here: whoever calls it by another name is told, whoever calls it so is not. */
static void who_comes_late_with_another_call_is_told(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    start(world, 0, COUNT);
    start(world, 1, COUNT);
    opsworld_run(world, UINT64_MAX);
    shoali_ops *ops = &world->rank[0].ops;
    const shoali_wire_id id = {0, 1, SHOALI_MAIN_ROUND};
    const shoali_finished *f = shoali_recent_find(&ops->recent, &id);
    shoali_ready late = {.id = id, .count = COUNT, .hash = f->hash, .text = "the same"};
    shoali_agree_on_ready(ops, 1, &late);
    assert_null(world->first[0][1]);
    late.hash++;
    shoali_agree_on_ready(ops, 1, &late);
    assert_non_null(world->first[0][1]);
    assert_error_has("started the same");
    opsworld_destroy(world);
}

static void an_abort_that_came_before_ends_it_at_once(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    const shoali_abort abort = {.id = {0, 1, SHOALI_MAIN_ROUND},
                                .status = SHOAL_ECANCELLED,
                                .culprit = 1,
                                .text = "somebody did not want it"};
    shoali_agree_on_abort(&world->rank[0].ops, 1, &abort);
    start(world, 0, COUNT);
    assert_null(world->first[0][1]); /* whoever told need not be told */
    opsworld_run(world, world->now_us + 1);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ECANCELLED);
    assert_int_equal(opsworld_last(world, 0)->error.rank, 1);
    assert_string_equal(opsworld_last(world, 0)->error.text, abort.text);
    shoali_agree_on_abort(&world->rank[0].ops, 1, &abort); /* once more: no note stays */
    assert_null(world->rank[0].ops.notes.first);
    opsworld_destroy(world);
}

static void at_a_deadline_those_missing_are_named(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    shoal_op_desc desc = desc_of(0, COUNT);
    desc.timeout_us = 4 * SECOND;
    opsworld_start(world, 0, &desc);
    opsworld_run(world, world->now_us + SECOND);
    desc.buf = buf[1];
    opsworld_start(world, 1, &desc);
    opsworld_run(world, UINT64_MAX);
    const opsworld_end *end = opsworld_last(world, 0);
    assert_int_equal(end->status, SHOAL_ETIMEDOUT);
    assert_int_equal(end->error.rank, 2);
    assert_non_null(strstr(end->error.text, "rank 2 (host host2) has not entered all-reduce 1"));
    assert_non_null(strstr(end->error.text, ", 2.8 s after the others; rank 2 was busy"));
    assert_int_equal(opsworld_last(world, 1)->status, SHOAL_ETIMEDOUT);
    assert_true(opsworld_last(world, 1)->at_us == end->at_us); /* by word of rank 0 */
    opsworld_destroy(world);
}

static void several_missing_are_all_named(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    shoal_op_desc desc = desc_of(0, COUNT);
    desc.timeout_us = 4 * SECOND;
    opsworld_start(world, 0, &desc);
    opsworld_run(world, UINT64_MAX);
    assert_non_null(strstr(opsworld_last(world, 0)->error.text, "ranks 1, 2 have not entered"));
    opsworld_destroy(world);
}

/* All have entered, and data is too slow: nobody is said to be missing. */
static void at_a_deadline_nobody_may_be_missing(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    world->frame_us = SECOND;
    for (uint32_t r = 0; r < 3; r++) {
        shoal_op_desc desc = desc_of(r, COUNT);
        desc.timeout_us = 4 * SECOND;
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < 3; r++) {
        const opsworld_end *end = opsworld_last(world, r);
        assert_int_equal(end->status, SHOAL_ETIMEDOUT);
        assert_non_null(strstr(end->error.text, "all-reduce 1 did not end within"));
        assert_null(strstr(end->error.text, "not entered"));
    }
    opsworld_destroy(world);
}

static void who_says_too_much_is_given_up(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    shoali_ops *ops = &world->rank[0].ops;
    for (uint64_t i = 0; i <= SHOALI_NOTES_PER_PEER; i++) {
        assert_false(world->rank[0].gone[1]);
        const shoali_ready ready = {.id = {0, i + 1, 1}};
        shoali_agree_on_ready(ops, 1, &ready);
    }
    assert_true(world->rank[0].gone[1]);
    shoali_agree_forget(ops, 1);
    assert_null(ops->notes.first);
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(calls_that_differ_are_both_named),
                                       CHECK_TEST(calls_of_one_length_differ_too),
                                       CHECK_TEST(a_second_ready_changes_nothing),
                                       CHECK_TEST(who_is_told_knows_the_culprit),
                                       CHECK_TEST(who_comes_late_hears_of_a_failure),
                                       CHECK_TEST(who_comes_late_with_another_call_is_told),
                                       CHECK_TEST(an_abort_that_came_before_ends_it_at_once),
                                       CHECK_TEST(at_a_deadline_those_missing_are_named),
                                       CHECK_TEST(several_missing_are_all_named),
                                       CHECK_TEST(at_a_deadline_nobody_may_be_missing),
                                       CHECK_TEST(who_says_too_much_is_given_up)};
    return CHECK_RUN(tests);
}
