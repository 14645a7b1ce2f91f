/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <math.h>

#include "model/cluster_ways.h"

#define HEAD "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12}], "

static shoali_cluster *parse(const char *text)
{
    shoali_cluster *cluster = NULL;
    assert_ok(shoali_cluster_parse("t.json", text, strlen(text), &cluster));
    return cluster;
}

static void is_way(const shoali_cluster *c, uint32_t a, uint32_t b, bool own, uint32_t link,
                   double rate, double latency_us)
{
    shoali_way way = shoali_cluster_way(c, a, b);
    if (way.own != own || way.link != link || fabs(way.bytes_per_s - rate) > 1e-9 * rate ||
        fabs(way.latency_s * 1e6 - latency_us) > 1e-9)
        fail_msg("%u to %u: own %d, link %u, %g B/s, %g us", a, b, way.own, way.link,
                 way.bytes_per_s, way.latency_s * 1e6);
}

/* Two hosts of two: by PCIe unless something else is said, between hosts by the NIC or its pair. */
static void hosts_have_an_inside(void **state)
{
    (void)state;
    shoali_cluster *c = parse(HEAD "\"hosts\": [{\"workers\": 2, \"nic\": \"8gbit\", "
                                   "\"latency_us\": 10}, {\"workers\": 2, \"nic\": \"8gbit\", "
                                   "\"inside\": \"nvlink3\"}, {\"inside\": \"5GB/s\"}], "
                                   "\"links\": [{\"from\": 1, \"to\": 0, \"rate\": \"4gbit\"}]}");
    assert_int_equal(shoali_cluster_own_links(c), 1);
    is_way(c, 0, 1, true, 0, 32e9, 0);
    is_way(c, 2, 3, true, 0, 300e9, 0);
    is_way(c, 1, 2, false, 0, 1e9, 10);
    is_way(c, 2, 1, false, 0, 0.5e9, 0);
    shoali_cluster_close(c);
    c = parse(HEAD "\"hosts\": [{\"count\": 4, \"nic\": \"8gbit\"}]}");
    assert_int_equal(shoali_cluster_own_links(c), 0);
    shoali_cluster_close(c);
}

/* 2 x 3 x 2 workers: the outermost dimension in which two differ is the one between them. */
static void dimensions_are_ways(void **state)
{
    (void)state;
    shoali_cluster *c = parse(HEAD
                              "\"dimensions\": [{\"topology\": \"fc:2\", \"rate\": \"100GB/s\", "
                              "\"efficiency\": 0.5}, {\"topology\": \"ring:3\", \"rate\": "
                              "\"10GB/s\", \"latency_us\": 3}, {\"topology\": \"switch:2\", "
                              "\"rate\": \"1GB/s\", \"latency_us\": 7}]}");
    assert_int_equal(shoali_cluster_own_links(c), 2);
    is_way(c, 4, 5, true, 0, 50e9, 0);
    is_way(c, 1, 2, true, 1, 10e9, 3);
    is_way(c, 0, 5, true, 1, 10e9, 3);
    is_way(c, 5, 6, false, 0, 1e9, 7);
    shoali_cluster_close(c);
}

/* Both may say what a NIC does, if they say the same; what one leaves out, the other says. */
static void hosts_and_dimensions_agree(void **state)
{
    (void)state;
    static const char shape[] = HEAD
        "\"hosts\": [{\"count\": 2, \"workers\": 4%s}], "
        "\"dimensions\": [{\"topology\": \"%s\", \"rate\": \"300GB/s\"}, "
        "{\"topology\": \"%s\", \"rate\": \"1GB/s\"}]}";
    static const struct {
        const char *nic, *inner, *outer, *says;
    } rows[] = {{"", "fc:4", "switch:2", NULL},
                {", \"nic\": \"32gbit\"", "fc:4", "switch:2", NULL},
                {", \"nic\": \"8gbit\"", "fc:4", "switch:2", "0.25GB/s"},
                {"", "fc:2", "switch:4", "4 workers each"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        shoali_cluster *c = NULL;
        snprintf(text, sizeof text, shape, rows[i].nic, rows[i].inner, rows[i].outer);
        shoal_status status = shoali_cluster_parse("t.json", text, strlen(text), &c);
        assert_int_equal(status, rows[i].says == NULL ? SHOAL_OK : SHOAL_ECORRUPT);
        if (rows[i].says != NULL) {
            assert_error_has(rows[i].says);
            continue;
        }
        assert_true(fabs(c->hosts[1].up_bytes_per_s - 4e9) < 1);
        is_way(c, 0, 3, true, 0, 300e9, 0);
        is_way(c, 0, 4, false, 0, 4e9, 0);
        shoali_cluster_close(c);
    }
    static const char uneven[] = HEAD "\"hosts\": [{\"workers\": 3}, {}], \"dimensions\": "
                                      "\"fc:2, switch:2\"}";
    shoali_cluster *c = NULL;
    assert_status(shoali_cluster_parse("t.json", uneven, strlen(uneven), &c), SHOAL_ECORRUPT);
    assert_error_has("equal size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(hosts_have_an_inside),
        CHECK_TEST(dimensions_are_ways),
        CHECK_TEST(hosts_and_dimensions_agree),
    };
    return CHECK_RUN(tests);
}
