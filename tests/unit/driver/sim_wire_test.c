/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include <math.h>

#include "support/check.h"

static shoal_sim *open_sim(const char *network, const char *faults)
{
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.network = network;
    desc.faults = faults;
    desc.seed = check_seed();
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

static void without_trouble_messages_take_the_latency(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim("links:latency_us=7", NULL);
    assert_true(shoali_sim_wire_plain(sim));
    assert_int_equal(shoali_sim_arrival_ns(sim, 0, 1), 7000);
    shoal_sim_destroy(sim);
}

static void delays_vary_and_never_change_the_order(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim("links:latency_us=7,jitter_us=100", NULL);
    uint64_t last = 0, ties = 0;
    for (int i = 0; i < 1000; i++) {
        sim->now_ns = (uint64_t)i * 10000;
        uint64_t at = shoali_sim_arrival_ns(sim, 0, 1);
        assert_true(at >= last && at >= sim->now_ns + 7000 && at <= sim->now_ns + 107000);
        ties += at == last;
        last = at;
    }
    assert_in_range(ties, 1, 999);
    shoal_sim_destroy(sim);
}

/* One in ten comes at least one timeout late, one in a hundred at least three. */
static void lost_messages_come_later(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim("links:latency_us=0,loss=0.1", NULL);
    int once = 0, twice = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        sim->now_ns = i * UINT64_C(1000000000000);
        uint64_t late = shoali_sim_arrival_ns(sim, 2, 3) - sim->now_ns;
        once += late >= UINT64_C(200000000);
        twice += late >= UINT64_C(600000000);
    }
    assert_in_range(once, 1000 - 150, 1000 + 150); /* 5 deviations of 30 */
    assert_in_range(twice, 100 - 50, 100 + 50);
    shoal_sim_destroy(sim);
}

static void a_cut_holds_what_crosses_it(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim("links:latency_us=1000", "plan:cut=1@1-2/1@1.9-3");
    sim->now_ns = UINT64_C(1500000000);
    assert_int_equal(shoali_sim_arrival_ns(sim, 0, 2), UINT64_C(1501000000));
    assert_int_equal(shoali_sim_arrival_ns(sim, 0, 1), UINT64_C(3000000000));
    assert_int_equal(shoali_sim_arrival_ns(sim, 1, 0), UINT64_C(3000000000));
    uint32_t members[] = {0, 2, 1};
    shoali_sim_op op = {.size = 2, .members = members};
    assert_false(shoali_sim_op_cut(sim, &op));
    op.size = 3;
    assert_true(shoali_sim_op_cut(sim, &op));
    sim->now_ns = UINT64_C(3000000000);
    assert_false(shoali_sim_op_cut(sim, &op));
    shoal_sim_destroy(sim);
}

/* The whole of a run: as long as without the cut, and the cut's length. */
static void a_job_waits_a_cut_out(void **state)
{
    (void)state;
    shoal_sim_results r[2] = {{.size = sizeof *r}, {.size = sizeof *r}};
    for (int i = 0; i < 2; i++) {
        shoal_sim *sim = open_sim(NULL, i == 0 ? NULL : "plan:cut=1@0.25-0.75");
        assert_ok(shoal_sim_run(sim));
        assert_ok(shoal_sim_results_get(sim, &r[i]));
        shoal_sim_destroy(sim);
    }
    double more_s = (double)(r[1].duration_ns - r[0].duration_ns) * 1e-9;
    assert_true(more_s > 0.4 && more_s <= 0.5);
}

static void a_long_cut_is_a_loss(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim(NULL, "plan:cut=1@0.25-9,detect_ms=100");
    shoal_sim_endpoint_results e = {.size = sizeof e};
    assert_status(shoal_sim_run(sim), SHOAL_EPEER);
    assert_ok(shoal_sim_endpoint_get(sim, 1, &e));
    assert_int_equal(e.end, SHOAL_SIM_DEAD);
    shoal_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(without_trouble_messages_take_the_latency),
        CHECK_TEST(delays_vary_and_never_change_the_order),
        CHECK_TEST(lost_messages_come_later),
        CHECK_TEST(a_cut_holds_what_crosses_it),
        CHECK_TEST(a_job_waits_a_cut_out),
        CHECK_TEST(a_long_cut_is_a_loss),
    };
    return CHECK_RUN(tests);
}
