/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
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

static shoali_groups one_group(uint32_t size)
{
    return (shoali_groups){{1, size}, 1};
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
        assert_ok(shoali_cost_collective(c, &collective, one_group(4), NULL, &cost));
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
    assert_ok(shoali_cost_collective(two, &ring, one_group(4), NULL, &cost));
    near(cost.link_s_per_elem, 1.5, 1e-12); /* one member of each host sends out */
    assert_ok(shoali_cost_collective(two, &ring, one_group(2), NULL, &cost));
    near(cost.link_s_per_elem, 1 / 32e9, 1e-12); /* both on one host: PCIe */
    shoali_cluster_close(two);
    shoali_cluster *slow = parse("\"hosts\": [{\"count\": 4, \"nic\": \"1B/s\"}], \"links\": "
                                 "[{\"from\": 2, \"to\": 3, \"rate\": \"0.5B/s\"}]");
    assert_ok(shoali_cost_collective(slow, &ring, one_group(4), NULL, &cost));
    near(cost.link_s_per_elem, 3, 1e-12);
    shoali_cluster_close(slow);
    shoali_collective_close(&ring);
}

/* Two hosts of 8, a tensor group on each: 8 pairs share the two NICs, each with its own gradients.
 * In two stages of 2 x 4 instead, nobody leaves its host: by PCIe, each worker its own. */
static void groups_share_nics(void **state)
{
    (void)state;
    shoali_collective ring;
    shoali_collective_cost cost;
    assert_ok(shoali_collective_open("ring", &ring));
    shoali_cluster *c = parse("\"hosts\": [{\"count\": 2, \"workers\": 8, \"nic\": \"1B/s\", "
                              "\"latency_us\": 7}]");
    assert_ok(shoali_cost_collective(c, &ring, (shoali_groups){{8, 2}, 8}, NULL, &cost));
    near(cost.link_s_per_elem, 8, 1e-12);
    near(cost.sent_share, 1, 1e-12);
    near(cost.latency_s, 2 * 7e-6, 1e-12);
    assert_ok(shoali_cost_collective(c, &ring, (shoali_groups){{4, 2}, 8}, NULL, &cost));
    near(cost.link_s_per_elem, 1 / 32e9, 1e-12);
    assert_true(cost.latency_s == 0);
    shoali_cluster_close(c);
    shoali_collective_close(&ring);
}

/* Whatever the layout: each host of a group that is on several must send the sum of what it holds,
 * and no NIC is faster than all that passes through it. */
static void no_nic_is_beaten(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring", "halving_doubling", "direct", "worker_aggregator"};
    uint64_t seed = check_seed();
    for (uint64_t i = 0; i < 500; i++) {
        uint32_t inside = 1 + (uint32_t)(shoali_mix(seed, 5 * i) % 8);
        uint32_t hosts = 1 + (uint32_t)(shoali_mix(seed, 5 * i + 1) % 8);
        uint32_t stride = 1 + (uint32_t)(shoali_mix(seed, 5 * i + 2) % 8);
        uint32_t size = inside * hosts / stride, held[8] = {0};
        shoali_groups groups = {{stride, size}, stride};
        char text[120];
        if (size < 2)
            continue;
        snprintf(text, sizeof text,
                 "\"hosts\": [{\"count\": %u, \"workers\": %u, \"nic\": "
                 "\"1B/s\"}]",
                 hosts, inside);
        shoali_cluster *c = parse(text);
        shoali_collective collective;
        shoali_collective_cost cost;
        assert_ok(shoali_collective_open(specs[shoali_mix(seed, 5 * i + 3) % 4], &collective));
        assert_ok(shoali_cost_collective(c, &collective, groups, NULL, &cost));
        for (uint32_t group = 0; group < stride; group++)
            for (uint32_t host = 0; host < hosts; host++) {
                uint32_t here = 0;
                for (uint32_t m = 0; m < size; m++)
                    here += (group + m * stride) / inside == host;
                held[host] += here > 0 && here < size;
            }
        for (uint32_t host = 0; host < hosts; host++)
            if (cost.link_s_per_elem < held[host] - 1e-9)
                fail_msg("%u hosts x %u, %u groups of %u, %s: %.3f s, but %u leave host %u", hosts,
                         inside, stride, size, collective.spec, cost.link_s_per_elem, held[host],
                         host);
        shoali_collective_close(&collective);
        shoali_cluster_close(c);
    }
}

/* Four in a host, two hosts, all by links of their own inside: a ring's busiest link is one that
 * leaves a host, until the links inside
 * are slower. */
static void dimensions_carry_collectives(void **state)
{
    (void)state;
    static const struct {
        const char *collective, *inner;
        double link;
    } rows[] = {{"ring", "8B/s", 1.75}, {"ring", "0.25B/s", 4 * 1.75}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[160];
        shoali_collective collective;
        shoali_collective_cost cost;
        snprintf(text, sizeof text, "\"dimensions\": \"fc:4@%s, switch:2@1B/s\"", rows[i].inner);
        shoali_cluster *c = parse(text);
        assert_ok(shoali_collective_open(rows[i].collective, &collective));
        assert_ok(shoali_cost_collective(c, &collective, one_group(8), NULL, &cost));
        near(cost.link_s_per_elem, rows[i].link, 1e-12);
        shoali_collective_close(&collective);
        shoali_cluster_close(c);
    }
}

/* TernGrad's sums of 32 members need more than 2 bits, in the first half of a ring more with each
 * round: 2 (n - 1) / n of the count, each at the size of its sum. */
static void sums_of_codes_grow(void **state)
{
    (void)state;
    shoali_collective ring;
    shoali_collective_cost cost;
    shoal_codec *codec = NULL;
    double bytes = 0;
    assert_ok(shoali_collective_open("ring", &ring));
    assert_ok(shoal_codec_open("terngrad", &codec));
    shoali_cluster *c = parse("\"hosts\": [{\"count\": 32, \"nic\": \"1B/s\"}]");
    assert_ok(shoali_cost_collective(c, &ring, one_group(32), codec, &cost));
    for (uint32_t parts = 1; parts < 32; parts++) /* one block in each round on the way there */
        bytes += shoal_codec_bytes_per_elem(codec, parts) / 32;
    bytes += 31 * shoal_codec_bytes_per_elem(codec, 32) / 32;
    near(cost.sent_share * shoal_codec_bytes_per_elem(codec, 1), bytes, 1e-9);
    near(cost.link_s_per_elem, cost.sent_share, 1e-9);
    shoali_cluster_close(c);
    shoal_codec_close(codec);
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
        CHECK_TEST(groups_share_nics),     CHECK_TEST(no_nic_is_beaten),
        CHECK_TEST(sums_of_codes_grow),    CHECK_TEST(dimensions_carry_collectives),
    };
    return CHECK_RUN(tests);
}
