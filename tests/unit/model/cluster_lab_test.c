/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "shoal/cluster.h"

#define HEAD                                                                    \
    "{\"name\": \"t\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e12}, " \
    "{\"name\": \"b\", \"flops\": 2e12}], "

static char made[SHOAL_CLUSTER_LAB_MAX];
static uint32_t workers;

static shoal_status lab_of(const char *text, size_t size)
{
    char path[] = "/tmp/cluster-lab-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    const shoal_status status = shoal_cluster_lab(path, &workers, made, size);
    unlink(path);
    return status;
}

static void is_lab(const char *text, uint32_t ranks, const char *want)
{
    assert_ok(lab_of(text, sizeof made));
    assert_string_equal(made, want);
    assert_int_equal(workers, ranks);
}

/* Rates of each host, both ways; loss of both ends of a way; who is slow, by host and by name. */
static void a_lab_is_what_the_file_says(void **state)
{
    (void)state;
    is_lab(HEAD "\"hosts\": [{\"count\": 3, \"nic\": \"100mbit\"}]}", 3, "hosts=3,rate=100mbit");
    is_lab(HEAD "\"hosts\": [{\"workers\": 2, \"nic\": \"1gbit\"}, {\"workers\": 2, \"nic\": "
                "\"20mbit\", \"nic_down\": \"50mbit\", \"slowdown\": 1.5}], \"stragglers\": "
                "[{\"worker\": 3, \"slowdown\": 2}, {\"slowdown\": 6, \"probability\": 0.1}]}",
           4, "hosts=2,rate=1000mbit,link=1:20mbit/50mbit,random=6x:0.1,slow=2:1.5x,slow=3:3x");
    is_lab(HEAD "\"hosts\": [{\"count\": 2, \"loss\": 0.1, \"latency_us\": 200}]}", 2,
           "hosts=2,loss=19%");
    is_lab(HEAD "\"hosts\": [{\"nic\": \"80mbit\", \"nic_down\": \"8mbit\"}, {\"nic\": "
                "\"8mbit\"}]}",
           2, "hosts=2,up=80mbit,down=8mbit,link=1:8mbit");
    is_lab(HEAD "\"hosts\": [{\"count\": 2, \"workers\": 2}], \"dimensions\": [{\"topology\": "
                "\"fc:2\", \"rate\": \"1GB/s\"}, {\"topology\": \"switch:2\", \"rate\": "
                "\"0.01GB/s\"}]}",
           4, "hosts=2,rate=160mbit");
}

static void is_refused(const char *rest, const char *why)
{
    char text[1024];
    snprintf(text, sizeof text, HEAD "%s}", rest);
    assert_status(lab_of(text, sizeof made), SHOAL_EINVAL);
    assert_error_has(why);
}

static void what_no_lab_can_be_is_refused(void **state)
{
    (void)state;
    is_refused("\"hosts\": [{\"count\": 65}]", "at most 64");
    is_refused("\"hosts\": [{}, {\"workers\": 2}]", "unequal size");
    is_refused("\"hosts\": [{}, {\"accelerator\": \"b\"}]", "unequal accelerators");
    is_refused("\"hosts\": [{}, {\"latency_us\": 201}]", "201 us away");
    is_refused("\"hosts\": [{}, {\"loss\": 0.1}]", "loses alike");
    is_refused("\"hosts\": [{\"count\": 2, \"loss\": 0.4}]", "at most 50 %");
    is_refused("\"hosts\": [{\"nic\": \"1gbit\"}, {}]", "hosts[1] none");
    is_refused("\"hosts\": [{\"nic_down\": \"1gbit\"}]", "one way only");
    is_refused("\"hosts\": [{\"count\": 2, \"slowdown\": 0.5}]", "0.5 times slower");
    is_refused("\"hosts\": [{\"count\": 2}], \"links\": [{\"from\": 0, \"to\": 1, \"rate\": "
               "\"1gbit\"}]",
               "\"links\"");
    is_refused("\"hosts\": [{\"count\": 2}], \"partitions\": [{\"hosts\": [0], \"from_s\": 1, "
               "\"until_s\": 2}]",
               "\"partitions\"");
    is_refused("\"dimensions\": \"fc:2@1GB/s, switch:2@1GB/s\"", "stand alone");
    is_refused("\"hosts\": [{\"count\": 2}], \"stragglers\": [{\"worker\": 0, \"slowdown\": 2, "
               "\"until_s\": 9}]",
               "for a while");
    is_refused("\"hosts\": [{\"count\": 2}], \"stragglers\": [{\"worker\": 0, \"slowdown\": 2, "
               "\"probability\": 0.1}]",
               "draws for itself");
}

static void texts_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char text[] = HEAD "\"hosts\": [{\"nic\": \"1gbit\"}]}";
    assert_ok(lab_of(text, sizeof "hosts=1,rate=1000mbit" + 1));
    assert_status(lab_of(text, sizeof "hosts=1,rate=1000mbit" - 1), SHOAL_EINVAL);
    assert_status(shoal_cluster_lab(NULL, &workers, made, sizeof made), SHOAL_EINVAL);
    assert_status(shoal_cluster_lab("/nowhere/c.json", &workers, made, sizeof made), SHOAL_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_lab_is_what_the_file_says),
        CHECK_TEST(what_no_lab_can_be_is_refused),
        CHECK_TEST(texts_that_do_not_fit_are_refused),
    };
    return CHECK_RUN(tests);
}
