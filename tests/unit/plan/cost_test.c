/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "plan/cost.h"

static shoali_cluster *parse(const char *rest)
{
    char text[1024];
    shoali_cluster *cluster = NULL;
    snprintf(text, sizeof text,
             "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12, "
             "\"memory_rate\": \"100GB/s\"}], %s}",
             rest);
    assert_ok(shoali_cluster_parse("t.json", text, strlen(text), &cluster));
    return cluster;
}

static void near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.9g, expected %.9g", got, want);
}

/* n = 8, S = 1e8 bytes, 10 GB/s, 5 us: the alpha-beta formulas by hand. */
static void exchanges_by_formula(void **state)
{
    (void)state;
    shoali_cluster *ring = parse("\"dimensions\": [{\"topology\": \"ring:8\", \"rate\": "
                                 "\"10GB/s\", \"latency_us\": 5}]");
    shoali_cluster *fc = parse("\"dimensions\": [{\"topology\": \"fc:8\", \"rate\": \"300GB/s\", "
                               "\"efficiency\": 0.65}], \"overhead\": {\"operation_us\": 10}");
    shoali_group all = {1, 8}, half = {4, 2}, one = {1, 1};
    near(shoali_cost_exchange_s(ring, all, SHOALI_EXCHANGE_ALL_REDUCE, 1e8), 17.57e-3, 1e-12);
    near(shoali_cost_exchange_s(ring, all, SHOALI_EXCHANGE_SHARDED, 1e8), 8.785e-3, 1e-12);
    near(shoali_cost_exchange_s(ring, half, SHOALI_EXCHANGE_ALL_REDUCE, 1e8), 10.01e-3, 1e-12);
    near(shoali_cost_exchange_s(ring, half, SHOALI_EXCHANGE_P2P, 1e8), 10.005e-3, 1e-12);
    assert_true(shoali_cost_exchange_s(ring, one, SHOALI_EXCHANGE_ALL_REDUCE, 1e8) == 0);
    near(shoali_cost_exchange_s(fc, all, SHOALI_EXCHANGE_ALL_REDUCE, 1e8), 0.907436e-3, 1e-5);
    shoali_cluster_close(ring);
    shoali_cluster_close(fc);
}

/* LIBRA's volumes on 4 x 8: 2 S 3/4 inside, 2 S/4 7/8 outside; the busier dimension counts. */
static void exchanges_over_dimensions(void **state)
{
    (void)state;
    shoali_cluster *c = parse("\"dimensions\": \"ring:4@10GB/s, fc:8@1GB/s\"");
    shoali_group all = {1, 32}, outer = {4, 8}, inner = {1, 4}, mixed = {2, 16};
    near(shoali_cost_exchange_s(c, all, SHOALI_EXCHANGE_ALL_REDUCE, 1e9), 2 * 0.25 * 7 / 8, 1e-12);
    near(shoali_cost_exchange_s(c, outer, SHOALI_EXCHANGE_ALL_REDUCE, 1e9), 2 * 7.0 / 8, 1e-12);
    near(shoali_cost_exchange_s(c, inner, SHOALI_EXCHANGE_ALL_REDUCE, 1e9), 0.15, 1e-12);
    near(shoali_cost_exchange_s(c, mixed, SHOALI_EXCHANGE_ALL_REDUCE, 1e9), 2 * 0.5 * 7 / 8, 1e-12);
    shoali_cluster_close(c);
}

/* Seconds per element and byte of a schedule, by hand for 4 hosts at 1 B/s. */
static void schedules_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double link, phases, sent;
        uint32_t rounds;
    } rows[] = {
        {"ring", 1.5, 1.5, 1.5, 6},
        {"halving_doubling", 1.5, 1.5, 1.5, 4},
        {"direct", 1.5, 1.5, 1.5, 2},
        {"worker_aggregator", 3, 6, 3, 2}, /* up and down of one host, one after the other */
    };
    shoali_cluster *c = parse("\"hosts\": [{\"count\": 4, \"nic\": \"1B/s\", \"latency_us\": 7}]");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shoali_collective collective;
        shoali_collective_cost cost;
        assert_ok(shoali_collective_open(rows[i].spec, &collective));
        assert_ok(shoali_cost_collective(c, &collective, 4, &cost));
        near(cost.link_s_per_elem, rows[i].link, 1e-12);
        near(cost.phases_s_per_elem, rows[i].phases, 1e-12);
        near(cost.sent_share, rows[i].sent, 1e-12);
        assert_int_equal(cost.rounds, rows[i].rounds);
        near(cost.latency_s, rows[i].rounds * 7e-6, 1e-12);
        shoali_collective_close(&collective);
    }
    shoali_cluster_close(c);
}

/* One chunk waits for both phases, many overlap them. */
static void chunks_hide_phases(void **state)
{
    (void)state;
    shoali_collective_cost cost = {
        .link_s_per_elem = 3, .phases_s_per_elem = 6, .blocks = 1, .rounds = 2};
    near(shoali_cost_link_s(&cost, 100, 4, 1000), 2400, 1e-12);
    near(shoali_cost_link_s(&cost, 100, 4, 1), 1212, 1e-12);
}

static void hosts_and_slow_links(void **state)
{
    (void)state;
    shoali_collective ring;
    shoali_collective_cost cost;
    assert_ok(shoali_collective_open("ring", &ring));
    shoali_cluster *two = parse("\"hosts\": [{\"count\": 2, \"workers\": 2, \"nic\": \"1B/s\"}]");
    assert_ok(shoali_cost_collective(two, &ring, 4, &cost));
    near(cost.link_s_per_elem, 1.5, 1e-12); /* one member of each host sends out */
    assert_ok(shoali_cost_collective(two, &ring, 2, &cost));
    assert_true(cost.link_s_per_elem == 0); /* both on one host */
    shoali_cluster_close(two);
    shoali_cluster *slow = parse("\"hosts\": [{\"count\": 4, \"nic\": \"1B/s\"}], \"links\": "
                                 "[{\"from\": 2, \"to\": 3, \"rate\": \"0.5B/s\"}]");
    assert_ok(shoali_cost_collective(slow, &ring, 4, &cost));
    near(cost.link_s_per_elem, 3, 1e-12);
    shoali_cluster_close(slow);
    shoali_collective_close(&ring);
}

static void roofline_and_sum(void **state)
{
    (void)state;
    shoali_cluster *c = parse("\"hosts\": [{}]");
    shoali_accelerator *a = &c->accelerators[0];
    near(shoali_time_sum(shoali_cost_work(a, "matrix", 1e9, 1e6)), 1e-3, 1e-12);
    near(shoali_cost_work(a, "matrix", 1e6, 1e9).memory, 1e-2, 1e-12);
    a->additive = true;
    near(shoali_time_sum(shoali_cost_work(a, "matrix", 1e9, 1e8)), 2e-3, 1e-12);
    shoali_cluster_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(exchanges_by_formula),  CHECK_TEST(exchanges_over_dimensions),
        CHECK_TEST(schedules_are_counted), CHECK_TEST(chunks_hide_phases),
        CHECK_TEST(hosts_and_slow_links),  CHECK_TEST(roofline_and_sum),
    };
    return CHECK_RUN(tests);
}
