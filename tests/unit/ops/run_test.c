/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of operations among ranks in virtual time, in any order of events: sums, ends in order,
 * losses before, during and after, deadlines, and what waits. */
#include "base/rng.h"
#include "support/check.h"
#include "support/opsworld.h"

enum { RANKS = 4, COUNT = 300, SEEDS = 40, SECOND = 1000 * 1000 };

static float buf[RANKS][COUNT];

static void fill(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        for (size_t i = 0; i < COUNT; i++)
            buf[r][i] = (float)(r + 1) * (float)(i % 7);
}

static shoal_op_desc desc_of(uint32_t rank)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    return desc;
}

static shoal_op *start(opsworld *world, uint32_t rank)
{
    const shoal_op_desc desc = desc_of(rank);
    return opsworld_start(world, rank, &desc);
}

static void all_sum_in_any_order(void **state)
{
    (void)state;
    static const char *const collectives[] = {"ring", "direct", "halving_doubling"};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        fill();
        for (uint32_t i = 0; i < RANKS; i++) {
            const uint32_t r = (i + (uint32_t)seed) % RANKS;
            shoal_op_desc desc = desc_of(r);
            desc.collective = collectives[seed % 3];
            opsworld_start(world, r, &desc);
            opsworld_run(world, world->now_us + 10); /* the others come later */
        }
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
            assert_int_equal(world->rank[r].end_count, 1);
            assert_true(opsworld_last(world, r)->stats.sent_payload_bytes > 0);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(buf[r][i] == 10 * (float)(i % 7));
        }
        opsworld_destroy(world);
    }
}

static void ends_come_in_order_of_start(void **state)
{
    (void)state;
    enum { TIMES = 6 };
    opsworld *world = opsworld_create(2, check_seed());
    float value[2][TIMES] = {{0}};
    for (uint32_t time = 0; time < TIMES; time++)
        for (uint32_t r = 0; r < 2; r++) {
            shoal_op_desc desc = SHOAL_OP_DESC_INIT;
            desc.buf = &value[r][time];
            desc.count = 1;
            value[r][time] = (float)time;
            opsworld_start(world, r, &desc);
        }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t time = 0; time < TIMES; time++) {
            bool found = false;
            for (uint32_t e = 0; e < TIMES; e++) {
                char name[32];
                snprintf(name, sizeof name, "all-reduce %u", time + 1);
                found |= strcmp(world->rank[r].ends[e].name, name) == 0;
            }
            assert_true(found && value[r][time] == 2 * (float)time);
        }
    assert_int_equal(world->rank[0].ops.last_us, world->now_us);
    opsworld_destroy(world);
}

/* Whatever the moment: who is left hears who was lost, in one sentence, and only once. */
static void a_loss_ends_it_for_all(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = opsworld_create(RANKS, seed);
        const uint32_t lost = (uint32_t)seed % RANKS;
        fill();
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r);
        for (uint32_t r = 0; r < RANKS; r++) /* the lost one's data cannot be complete */
            world->cut[lost][r] = true;
        opsworld_run(world, world->now_us + 10);
        opsworld_kill(world, lost);
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++) {
            const opsworld_end *end = opsworld_last(world, r);
            assert_int_equal(world->rank[r].end_count, 1);
            assert_int_equal(end->status, r == lost ? SHOAL_ECANCELLED : SHOAL_EPEER);
            if (r == lost)
                continue;
            assert_int_equal(end->error.rank, lost);
            assert_non_null(strstr(end->error.text, "is lost: it was killed"));
            assert_non_null(strstr(end->error.advice, "output of rank"));
            assert_true(end->at_us < (uint64_t)2 * SECOND);
        }
        opsworld_destroy(world);
    }
}

static void none_starts_without_a_member(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    world->rank[0].sees[2] = SHOALI_THERE_NOT;
    start(world, 0);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_EPEER);
    assert_int_equal(opsworld_last(world, 0)->error.rank, 2);
    assert_non_null(strstr(opsworld_last(world, 0)->error.text, "cannot start: it went before"));
    start(world, 1); /* which was told */
    assert_int_equal(world->rank[1].posted, 0);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 1)->status, SHOAL_EPEER);
    world->rank[2].sees[0] = SHOALI_THERE_CHANGES;
    shoal_op_desc desc = desc_of(2);
    desc.id = (shoal_op_id){7, 7, 1, 0};
    opsworld_start(world, 2, &desc);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 2)->status, SHOAL_EEPOCH);
    opsworld_destroy(world);
}

static void broadcast(opsworld *world, uint32_t rank)
{
    shoal_op_desc desc = desc_of(rank);
    desc.kind = SHOAL_BROADCAST;
    desc.collective = "broadcast";
    opsworld_start(world, rank, &desc);
}

/* Bits are no numbers, and those of none are as good as any. */
static void bits_travel_whatever_they_mean(void **state)
{
    (void)state;
    const shoal_tensor bits = {.key = 1, .count = COUNT, .flags = SHOAL_TENSOR_BITS, .lr_scale = 1};
    opsworld *world = opsworld_create(RANKS, 1);
    fill();
    memset(buf[0], 0xff, sizeof buf[0]); /* as a float: not a number */
    for (uint32_t r = 0; r < RANKS; r++) {
        shoal_op_desc desc = desc_of(r);
        desc.kind = SHOAL_BROADCAST;
        desc.collective = "broadcast";
        desc.tensors = &bits;
        desc.tensor_count = 1;
        opsworld_start(world, r, &desc);
    }
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
        assert_memory_equal(buf[r], buf[0], sizeof buf[0]);
        assert_int_equal(((const uint8_t *)buf[r])[sizeof buf[0] - 1], 0xff);
    }
    opsworld_destroy(world);
}

/* 0 -> 1 -> 2 -> 3: who has passed it on may leave before the last ones begin. */
static void a_broadcast_starts_without_whom_it_does_not_need(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(RANKS, 1);
    const shoali_ops *ops = &world->rank[2].ops;
    fill();
    broadcast(world, 0);
    broadcast(world, 1);
    opsworld_run(world, world->now_us + SECOND / 10);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_OK);
    world->rank[2].sees[0] = world->rank[3].sees[0] = SHOALI_THERE_LEFT;
    broadcast(world, 2);
    assert_false(shoali_run_involves(ops, 0));
    assert_true(shoali_run_involves(ops, 1) && shoali_run_involves(ops, 3));
    opsworld_run(world, world->now_us + SECOND / 10);
    world->rank[3].sees[1] = SHOALI_THERE_LEFT;
    broadcast(world, 3);
    opsworld_run(world, UINT64_MAX);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(buf[r][i] == (float)(i % 7));
    }
    opsworld_destroy(world);
}

/* From whom, or to whom; and of other kinds all are needed. */
static void who_left_is_missed_by_neighbours(void **state)
{
    (void)state;
    for (uint32_t left = 0; left < RANKS; left++)
        for (uint32_t kind = 0; kind < 2 && left != 1; kind++) {
            opsworld *world = opsworld_create(RANKS, 1);
            fill();
            world->rank[1].sees[left] = SHOALI_THERE_LEFT;
            if (kind == 0)
                broadcast(world, 1);
            else
                start(world, 1);
            opsworld_run(world, world->now_us + 10);
            const bool fails = kind == 1 || left != 3;
            assert_int_equal(world->rank[1].end_count, fails);
            if (fails) {
                assert_int_equal(opsworld_last(world, 1)->status, SHOAL_EPEER);
                assert_int_equal(opsworld_last(world, 1)->error.rank, left);
                assert_non_null(strstr(opsworld_last(world, 1)->error.text, "cannot start"));
            } else {
                shoali_run_cancel_all(&world->rank[1].ops);
            }
            opsworld_run(world, UINT64_MAX);
            opsworld_destroy(world);
        }
}

static void the_deadline_ends_it(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    const uint64_t began_us = world->now_us;
    shoal_op_desc desc = desc_of(0);
    desc.timeout_us = 3 * SECOND;
    opsworld_start(world, 0, &desc);
    opsworld_run(world, UINT64_MAX);
    const opsworld_end *end = opsworld_last(world, 0);
    assert_int_equal(end->status, SHOAL_ETIMEDOUT);
    assert_int_equal(end->at_us, began_us + 3 * SECOND);
    assert_int_equal(end->stats.duration_us, 3 * SECOND);
    assert_int_equal(end->error.rank, 1);
    opsworld_destroy(world);
}

static void a_failure_takes_back_what_has_not_left(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(2, 1);
    fill();
    start(world, 0);
    opsworld_run(world, world->now_us + 1);
    world->cut[0][1] = true;
    start(world, 1);
    opsworld_run(world, world->now_us + 1);
    assert_true(world->rank[0].posted > 0);
    shoali_run_cancel_all(&world->rank[0].ops);
    opsworld_run(world, world->now_us + 1);
    assert_int_equal(world->rank[0].end_count, 1);
    assert_int_equal(world->rank[1].end_count, 0);
    world->cut[0][1] = false;
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 1)->status, SHOAL_ECANCELLED);
    opsworld_destroy(world);
}

static void an_open_one_is_found(void **state)
{
    (void)state;
    opsworld *world = opsworld_create(3, 1);
    static const uint32_t two[] = {0, 1};
    shoal_op_desc desc = desc_of(0);
    desc.members = two;
    desc.member_count = 2;
    shoal_op *op = opsworld_start(world, 0, &desc);
    const shoali_ops *ops = &world->rank[0].ops;
    assert_ptr_equal(shoali_run_find(ops, &op->id), op);
    assert_ptr_equal(shoali_run_slot(ops, op->slot), op);
    assert_null(shoali_run_slot(ops, op->slot + 64)); /* the same place of the table */
    assert_null(shoali_run_find(ops, &(shoali_wire_id){op->id.group, op->id.sequence, 2}));
    assert_true(shoali_run_involves(ops, 1));
    assert_false(shoali_run_involves(ops, 2));
    shoali_run_cancel_all(&world->rank[0].ops);
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ECANCELLED);
    assert_false(shoali_run_involves(ops, 1));
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(all_sum_in_any_order),
                                       CHECK_TEST(ends_come_in_order_of_start),
                                       CHECK_TEST(a_loss_ends_it_for_all),
                                       CHECK_TEST(none_starts_without_a_member),
                                       CHECK_TEST(bits_travel_whatever_they_mean),
                                       CHECK_TEST(a_broadcast_starts_without_whom_it_does_not_need),
                                       CHECK_TEST(who_left_is_missed_by_neighbours),
                                       CHECK_TEST(the_deadline_ends_it),
                                       CHECK_TEST(an_open_one_is_found),
                                       CHECK_TEST(a_failure_takes_back_what_has_not_left)};
    return CHECK_RUN(tests);
}
