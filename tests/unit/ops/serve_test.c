/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint that is no rank enters what ranks ask it for, once, and counts it; what it cannot sum
 * it refuses, and what does not fit into its memory ends for all. */
#include "base/error.h"
#include "support/check.h"
#include "support/opsworld.h"
#include "wire/messages.h"

enum {
    COUNT = 150,
    RANKS = 3,
    SUMS = RANKS,
    SECOND = 1000 * 1000,
    SEEDS = 20,
    BYTES = 100,
    MUCH = 1 << 24
};

static const char dedicated[] = "omnireduce:dedicated";
static float buf[RANKS][COUNT];
static shoali_serving serving;

/* Three ranks, and endpoint 3 that sums. */
static opsworld *create(uint64_t seed)
{
    opsworld *world = opsworld_create(RANKS + 1, seed);
    serving = (shoali_serving){.job = "ours", .memory_limit_bytes = MUCH};
    for (uint32_t r = 0; r <= RANKS; r++) {
        world->rank[r].ops.ranks = RANKS;
        world->rank[r].ops.aggregators = 1;
    }
    world->rank[SUMS].ops.serving = &serving;
    return world;
}

static void start(opsworld *world, uint32_t rank, const uint32_t *members, uint32_t count)
{
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.members = members;
    desc.member_count = count;
    desc.contributors = count - 1;
    desc.collective = dedicated;
    desc.timeout_us = 4 * SECOND;
    desc.buf = buf[rank];
    desc.count = COUNT;
    for (size_t i = 0; i < COUNT; i++)
        buf[rank][i] = (float)(rank + 1);
    opsworld_start(world, rank, &desc);
}

static void check_sum(const opsworld *world, uint32_t rank, float sum)
{
    assert_int_equal(opsworld_last(world, rank)->status, SHOAL_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(buf[rank][i] == sum);
}

static void it_enters_what_it_is_asked_for(void **state)
{
    (void)state;
    static const uint32_t all[] = {0, 1, 2, SUMS}, some[] = {0, 2, SUMS};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        opsworld *world = create(seed);
        shoali_serve_begin(&world->rank[SUMS].ops);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r, all, 4);
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++)
            check_sum(world, r, 1 + 2 + 3);
        assert_int_equal(serving.operations, 1);
        assert_int_equal(world->rank[SUMS].begun, 1);
        assert_true(serving.received_bytes >= RANKS * COUNT * sizeof(float));
        start(world, 0, some, 3);
        start(world, 2, some, 3);
        opsworld_run(world, UINT64_MAX);
        check_sum(world, 0, 1 + 3);
        check_sum(world, 2, 1 + 3);
        assert_int_equal(serving.operations, 2);
        assert_int_equal(serving.open + serving.failures + serving.memory_bytes, 0);
        assert_true(serving.memory_peak_bytes > 0);
        opsworld_destroy(world);
    }
}

/* Ranks may have joined while it still waits for some of its connections. */
static void requests_wait_for_the_join(void **state)
{
    (void)state;
    static const uint32_t all[] = {0, 1, 2, SUMS};
    for (int begins = 0; begins < 2; begins++) {
        opsworld *world = create(1);
        for (uint32_t r = 0; r < RANKS; r++)
            start(world, r, all, 4);
        opsworld_run(world, world->now_us + SECOND);
        assert_int_equal(world->rank[SUMS].begun, 0);
        assert_non_null(serving.first);
        if (begins)
            shoali_serve_begin(&world->rank[SUMS].ops);
        opsworld_run(world, UINT64_MAX);
        for (uint32_t r = 0; r < RANKS; r++)
            assert_int_equal(opsworld_last(world, r)->status, begins ? SHOAL_OK : SHOAL_ETIMEDOUT);
        assert_int_equal(serving.operations, begins);
        opsworld_destroy(world);
        assert_null(serving.first);
    }
}

static shoali_taken ask(opsworld *world, uint32_t endpoint, const char *collective)
{
    shoali_serve serve = {.id = {0, 7, SHOALI_MAIN_ROUND},
                          .count = COUNT,
                          .timeout_us = SECOND,
                          .contributors = RANKS,
                          .member_count = RANKS + 1};
    uint8_t bytes[SHOALI_SERVE_BYTES];
    snprintf(serve.collective, sizeof serve.collective, "%s", collective);
    shoali_serve_encode(&serve, bytes);
    return shoali_take_control(&world->rank[endpoint].ops, 0, SHOALI_MESSAGE_serve, bytes,
                               sizeof bytes);
}

static void what_it_cannot_sum_is_refused(void **state)
{
    (void)state;
    opsworld *world = create(1);
    shoali_serve_begin(&world->rank[SUMS].ops);
    assert_int_equal(ask(world, 1, dedicated), SHOALI_TAKEN_BAD); /* a rank */
    assert_int_equal(ask(world, SUMS, "omnireduce"), SHOALI_TAKEN);
    assert_error_has("has no aggregators");
    assert_non_null(world->first[SUMS][0]); /* an ABORT */
    assert_null(world->rank[SUMS].ops.open);
    assert_int_equal(world->rank[SUMS].begun, 0);
    opsworld_destroy(world);
}

static void who_ends_enters_nothing(void **state)
{
    (void)state;
    opsworld *world = create(1);
    shoali_serve_begin(&world->rank[SUMS].ops);
    world->rank[SUMS].dead = true;
    assert_int_equal(ask(world, SUMS, dedicated), SHOALI_TAKEN);
    assert_error_has("being ended");
    assert_null(world->rank[SUMS].ops.open);
    assert_int_equal(serving.open, 0);
    opsworld_destroy(world);
}

static uint64_t takes;

static uint64_t memory(const void *flow)
{
    (void)flow;
    return takes;
}

/* Among the ranks; where endpoint 0's flow takes memory, as if it served. */
static void sum_with_memory(opsworld *world)
{
    static shoali_collective_row row;
    static shoali_flow_row flow;
    world->rank[0].ops.serving = &serving;
    serving.memory_limit_bytes = BYTES;
    for (uint32_t r = 0; r < RANKS; r++) {
        const shoali_op_extras extras = {.check_finite = true};
        shoal_op_desc desc = SHOAL_OP_DESC_INIT;
        shoal_op *op;
        desc.buf = buf[r];
        desc.count = COUNT;
        desc.collective = "direct";
        assert_ok(shoali_op_make(&world->rank[r].ops, &desc, &extras, SHOALI_MAIN_ROUND, &op));
        if (r == 0 && op->plan->collective.row != &row) {
            row = *op->plan->collective.row;
            flow = row.flow != NULL ? *row.flow : shoali_engine;
            flow.memory = memory;
            row.flow = &flow;
            op->plan->collective.row = &row;
        }
        shoali_run_start(op);
    }
}

static void memory_is_held_while_it_sums(void **state)
{
    (void)state;
    opsworld *world = create(1);
    takes = BYTES;
    world->cut[1][0] = true;
    sum_with_memory(world);
    opsworld_run(world, world->now_us + 1);
    assert_int_equal(serving.memory_bytes, BYTES);
    world->cut[1][0] = false;
    opsworld_run(world, UINT64_MAX);
    assert_int_equal(opsworld_last(world, 0)->status, SHOAL_OK);
    assert_int_equal(serving.memory_bytes, 0);
    assert_int_equal(serving.memory_peak_bytes, BYTES);
    opsworld_destroy(world);
}

static void what_does_not_fit_ends_for_all(void **state)
{
    (void)state;
    opsworld *world = create(2);
    takes = BYTES + 1;
    sum_with_memory(world);
    assert_null(shoali_run_slot(&world->rank[0].ops, 0));
    opsworld_run(world, world->now_us + SECOND);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(opsworld_last(world, r)->status, SHOAL_ENOMEM);
        assert_non_null(strstr(opsworld_last(world, r)->error.text,
                               "host0 (ours): all-reduce 1 would take 101 bytes beside 0"));
    }
    for (uint32_t i = 0; i < 64; i++) /* and nothing points to what is gone */
        assert_null(world->rank[0].ops.slots[i]);
    assert_int_equal(serving.memory_bytes, 0);
    opsworld_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_enters_what_it_is_asked_for), CHECK_TEST(requests_wait_for_the_join),
        CHECK_TEST(what_it_cannot_sum_is_refused),  CHECK_TEST(who_ends_enters_nothing),
        CHECK_TEST(memory_is_held_while_it_sums),   CHECK_TEST(what_does_not_fit_ends_for_all)};
    return CHECK_RUN(tests);
}
