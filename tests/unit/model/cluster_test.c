/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "model/cluster_ways.h"

static void rates_in_bytes_per_second(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes;
    } good[] = {{"250mbit", 31.25e6}, {"25gbit", 3.125e9},  {"300GB/s", 300e9},
                {"56kbit", 7000},     {"12.5MB/s", 12.5e6}, {"8bit", 1},
                {"3B/s", 3},          {"1.5TB/s", 1.5e12},  {"1e+09B/s", 1e9}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double rate = 0;
        assert_true(shoali_rate_parse(good[i].text, &rate));
        assert_true(fabs(rate - good[i].bytes) <= 1e-12 * good[i].bytes);
    }
    static const char *const bad[] = {"",       "250",      "mbit",    "-1gbit",
                                      "0gbit",  "1 gbit",   "1gbit/s", "nanB/s",
                                      "infB/s", "1e99GB/s", " 1gbit",  "0x1gbit!"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double rate = 7;
        assert_false(shoali_rate_parse(bad[i], &rate));
        assert_true(rate == 7);
    }
}

static void dimensions_as_libra_writes_them(void **state)
{
    (void)state;
    shoali_dimension d[SHOALI_CLUSTER_DIMENSIONS_MAX];
    uint32_t count = 0;
    assert_ok(shoali_dimensions_parse("ring:4, fc:8@300GB/s,ring:4 , switch:32", d, &count));
    assert_int_equal(count, 4);
    assert_int_equal(d[0].topology, SHOALI_TOPOLOGY_RING);
    assert_int_equal(d[1].topology, SHOALI_TOPOLOGY_FC);
    assert_int_equal(d[3].topology, SHOALI_TOPOLOGY_SWITCH);
    assert_int_equal(d[0].size * d[1].size * d[2].size * d[3].size, 4096);
    assert_true(d[0].bytes_per_s == 0 && d[1].bytes_per_s == 300e9);
    static const char *const bad[] = {"",        "ring",        "ring:1",        "ring:4,",
                                      "torus:4", "ring:4 fc:8", "ring:4@",       "ring:4@fast",
                                      "ring:-4", "switch:1e3",  "ring:99999999", ",ring:4",
                                      "ring: 4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_status(shoali_dimensions_parse(bad[i], d, &count), SHOAL_EINVAL);
    assert_status(shoali_dimensions_parse("ring:2,ring:2,ring:2,ring:2,ring:2,ring:2,ring:2,ring:2,"
                                          "ring:2",
                                          d, &count),
                  SHOAL_EINVAL);
    assert_status(shoali_dimensions_parse("ring:4096,ring:4096", d, &count), SHOAL_EINVAL);
    assert_error_has("more than");
}

static void efficiency_by_steps_and_by_lines(void **state)
{
    (void)state;
    shoali_efficiency table = {.count = 3, .step = {{1e6, 0.9}, {1e4, 0.5}, {0, 0.1}}};
    assert_true(shoali_efficiency_at(&table, 2e6) == 0.9);
    assert_true(shoali_efficiency_at(&table, 1e6) == 0.9);
    assert_true(shoali_efficiency_at(&table, 999999) == 0.5);
    assert_true(shoali_efficiency_at(&table, 0) == 0.1);
    assert_true(shoali_efficiency_at(NULL, 5) == 1);
    table.smooth = true;
    assert_true(fabs(shoali_efficiency_at(&table, 1e5) - 0.7) < 1e-12); /* halfway in log */
    assert_true(fabs(shoali_efficiency_at(&table, 1e2) - 0.3) < 1e-12);
    assert_true(shoali_efficiency_at(&table, 1e9) == 0.9);
    assert_true(fabs(shoali_efficiency_at(&table, 0) - 0.1) < 1e-12);
    shoali_efficiency tables[2] = {{.kind = "matrix", .count = 1, .step = {{0, 0.5}}},
                                   {.kind = "conv", .count = 1, .step = {{0, 0.25}}}};
    shoali_accelerator a = {.tables = tables, .table_count = 2};
    assert_ptr_equal(shoali_accelerator_table(&a, "conv"), &tables[1]);
    assert_ptr_equal(shoali_accelerator_table(&a, "dense"), &tables[0]);
    assert_null(shoali_accelerator_table(&a, "memory"));
}

static void hosts_links_and_time(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e9}], \"hosts\": "
        "[{\"count\": 2, \"workers\": 3, \"nic\": \"1gbit\", \"latency_us\": 10, \"loss\": 0.1}, "
        "{\"workers\": 1, \"nic\": \"100mbit\", \"nic_down\": \"10mbit\", \"slowdown\": 2}], "
        "\"links\": [{\"from\": 0, \"to\": 1, \"rate\": \"5gbit\", \"latency_us\": 3}], "
        "\"stragglers\": [{\"worker\": 6, \"slowdown\": 3, \"from_s\": 1, \"until_s\": 2}, "
        "{\"slowdown\": 6, \"probability\": 0.1}], "
        "\"partitions\": [{\"hosts\": [0, 1], \"from_s\": 5, \"until_s\": 6}]}";
    shoali_cluster *c = NULL;
    assert_ok(shoali_cluster_parse("t.json", text, sizeof text - 1, &c));
    assert_int_equal(c->workers, 7);
    assert_int_equal(c->host_count, 3);
    static const uint32_t host_of[] = {0, 0, 0, 1, 1, 1, 2};
    for (uint32_t w = 0; w < 7; w++)
        assert_int_equal(shoali_cluster_host_of(c, w), host_of[w]);
    assert_true(shoali_cluster_link(c, 0, 1).bytes_per_s == 625e6);
    shoali_link back = shoali_cluster_link(c, 1, 2);
    assert_true(back.bytes_per_s == 1.25e6 && back.latency_s == 10 / 1e6);
    assert_true(fabs(back.loss - 0.1) < 1e-12);
    assert_true(shoali_cluster_link(c, 2, 1).bytes_per_s == 12.5e6);
    assert_true(shoali_cluster_slowdown(c, 6, 0) == 2);
    assert_true(shoali_cluster_slowdown(c, 6, 1.5) == 6);
    assert_true(shoali_cluster_slowdown(c, 6, 2) == 2);
    assert_true(shoali_cluster_slowdown(c, 0, 1.5) == 1);
    assert_true(shoali_cluster_reachable(c, 0, 2, 4.9));
    assert_false(shoali_cluster_reachable(c, 0, 2, 5));
    assert_true(shoali_cluster_reachable(c, 0, 1, 5));
    assert_true(shoali_cluster_reachable(c, 2, 0, 6));
    shoali_cluster_close(c);
}

static void workers_on_hosts_of_any_size(void **state)
{
    (void)state;
    static const uint32_t sizes[][5] = {
        {1, 5, 2, 1, 7}, {5, 1, 1, 1, 2}, {2, 2, 2, 2, 2}, {9, 1, 3, 1, 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        shoali_host hosts[5] = {0};
        shoali_cluster c = {.hosts = hosts, .host_count = 5};
        for (uint32_t h = 0; h < 5; h++) {
            hosts[h].first_worker = c.workers;
            hosts[h].workers = sizes[k][h];
            c.workers += sizes[k][h];
        }
        for (uint32_t h = 0, worker = 0; h < 5; h++)
            for (uint32_t i = 0; i < sizes[k][h]; i++)
                assert_int_equal(shoali_cluster_host_of(&c, worker++), h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(rates_in_bytes_per_second),        CHECK_TEST(dimensions_as_libra_writes_them),
        CHECK_TEST(efficiency_by_steps_and_by_lines), CHECK_TEST(hosts_links_and_time),
        CHECK_TEST(workers_on_hosts_of_any_size),
    };
    return CHECK_RUN(tests);
}
