/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of links, measured by operations: for whoever asks first, once; longer where a time says
 * nothing; the same on all ranks; and who waits for them ends when they cannot be had. */
#include "base/arena.h"
#include "base/error.h"
#include "ops/inner.h"
#include "support/check.h"
#include "support/opsworld.h"

enum {
    RANKS = 3,
    COUNT = 90,
    CHUNK = 8192, /* 8 frames of the first stream */
    STREAM_US = 5000,
    OF_ONE = 2 * 2 * 3 + 1, /* two passes, two shifts: both streams, the comparison; the end */
    SEEDS = 5,
    SECOND = 1000 * 1000
};

static float buf[RANKS][COUNT];

static opsworld *create(uint64_t seed, uint64_t frame_us)
{
    opsworld *world = opsworld_create(RANKS, seed);
    world->frame_us = frame_us;
    for (uint32_t r = 0; r < RANKS; r++)
        world->rank[r].ops.chunk_elems = CHUNK;
    return world;
}

static shoal_op *start(opsworld *world, uint32_t rank)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.buf = buf[rank];
    desc.count = COUNT;
    desc.collective = "ring:order=auto";
    for (size_t i = 0; i < COUNT; i++)
        buf[rank][i] = (float)(rank + i);
    return opsworld_start(world, rank, &desc);
}

static void check_sums(const opsworld *world)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_OK);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(buf[r][i] == (float)(3 * i + 3));
    }
}

static void who_asks_first_waits_for_the_others(void **state)
{
    (void)state;
    opsworld *world = create(1, STREAM_US);
    start(world, 0);
    opsworld_run(world, world->now_us + SECOND);
    assert_null(shoali_gauge_rates(&world->rank[0].ops));
    assert_int_equal(world->rank[0].end_count, 0);
    start(world, 1);
    start(world, 2);
    opsworld_run(world, UINT64_MAX);
    check_sums(world);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_non_null(shoali_gauge_rates(&world->rank[r].ops));
        assert_true(world->rank[r].begun >= OF_ONE);
        world->rank[r].begun = 0;
        start(world, r);
    }
    opsworld_run(world, UINT64_MAX);
    check_sums(world);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(world->rank[r].begun, 0); /* they are known */
    opsworld_destroy(world);
}

/* What goes by way of others is far away: from 0 on to 2, and 1 is last. */
static void all_come_to_one_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = create(seed, STREAM_US);
        for (uint32_t r = 0; r < RANKS; r++) {
            world->rank[r].relays = true;
            start(world, r);
        }
        opsworld_run(world, UINT64_MAX);
        check_sums(world);
        for (uint32_t r = 0; r < RANKS; r++) {
            const shoali_rates *rates = shoali_gauge_rates(&world->rank[r].ops);
            assert_non_null(rates);
            assert_int_equal(rates->order[0], 0);
            assert_int_equal(rates->order[1], 2);
            assert_int_equal(rates->order[2], 1);
            assert_memory_equal(rates->percent, shoali_gauge_rates(&world->rank[0].ops)->percent,
                                RANKS * sizeof *rates->percent);
        }
        opsworld_destroy(world);
    }
}

static void short_times_are_taken_again_with_more(void **state)
{
    (void)state;
    uint32_t begun[2];
    for (int quick = 0; quick < 2; quick++) {
        opsworld *world = create(7, quick ? STREAM_US / 10 : STREAM_US);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r);
        opsworld_run(world, UINT64_MAX);
        check_sums(world);
        begun[quick] = world->rank[0].begun;
        assert_int_equal(begun[quick], world->rank[1].begun);
        opsworld_destroy(world);
    }
    assert_true(begun[1] > begun[0]);
}

/* On one host no link is used: the shortest vector will do, however fast it goes. */
static void on_one_host_little_is_sent(void **state)
{
    (void)state;
    opsworld *world = create(3, 0);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < RANKS; i++)
            world->rank[r].ops.peers[i].place = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        start(world, r);
    opsworld_run(world, UINT64_MAX);
    check_sums(world);
    assert_int_equal(world->rank[0].begun, OF_ONE);
    opsworld_destroy(world);
}

static void a_loss_ends_those_that_wait(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = create(seed, STREAM_US);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r);
        world->cut[0][2] = true; /* so it hangs in the middle */
        opsworld_run(world, world->now_us + 1);
        assert_null(shoali_gauge_rates(&world->rank[0].ops));
        opsworld_kill(world, 2);
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(opsworld_last(world, r)->status, SHOAL_EPEER);
            assert_non_null(strstr(opsworld_last(world, r)->error.text, "rank 2"));
        }
        opsworld_destroy(world);
    }
}

static void who_ends_measures_nothing(void **state)
{
    (void)state;
    opsworld *world = create(1, STREAM_US);
    world->rank[0].dead = true;
    start(world, 0);
    opsworld_run(world, world->now_us + 1);
    assert_int_equal(world->rank[0].begun, 1);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ECANCELLED);
    opsworld_destroy(world);
}

/* Nor does a part of a measurement stay behind, which nobody would ever end. */
static void without_memory_it_fails_and_can_be_tried_again(void **state)
{
    (void)state;
    for (size_t k = 1; k <= 5; k++) { /* a measurement has as many parts */
        opsworld *world = create(k, STREAM_US);
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        const shoali_op_extras extras = {.check_finite = true};
        shoal_op *op = NULL;
        desc.buf = buf[0];
        desc.count = COUNT;
        desc.collective = "ring:order=auto";
        assert_ok(shoali_op_make(&world->rank[0].ops, &desc, &extras, SHOALI_MAIN_ROUND, &op));
        (void)shoali_alloc_fail_at(k);
        shoali_run_start(op);
        (void)shoali_alloc_fail_at(0);
        start(world, 1);
        start(world, 2);
        opsworld_run(world, world->now_us + SECOND);
        assert_int_equal(opsworld_last(world, 0)->status, SHOAL_ENOMEM);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r);
        opsworld_run(world, UINT64_MAX);
        check_sums(world);
        opsworld_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(who_asks_first_waits_for_the_others),
        CHECK_TEST(all_come_to_one_order),
        CHECK_TEST(short_times_are_taken_again_with_more),
        CHECK_TEST(on_one_host_little_is_sent),
        CHECK_TEST(a_loss_ends_those_that_wait),
        CHECK_TEST(who_ends_measures_nothing),
        CHECK_TEST(without_memory_it_fails_and_can_be_tried_again),
    };
    return CHECK_RUN(tests);
}
