/* SPDX-License-Identifier: Apache-2.0 */
#include "support/machine.h"

#include "support/check.h"

static const uint8_t stop_at_1[] = {1, 1, 0, 0, 0, 0, 0, 0, 0};

/* 4 tensors of 4 elements, buckets 0 [8,16) and 1 [0,8). */

static void a_worker_commits_weights_at_before(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:servers=2", 4, 0, 1, 4);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(machine_ready(&m, 0, 16),
                        "op 0 [8,16) GRAD push owner worker_aggregator:servers=2; "
                        "op 1 [0,8) GRAD push owner worker_aggregator:servers=2");
    (void)machine_done(&m, 0, SHOAL_OK, NULL);
    (void)machine_done(&m, 1, SHOAL_OK, NULL);
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE),
                        "mix PARAM [0,16) = 1*GRAD; go hold @0 /4");
    assert_string_equal(machine_event(&m, SHOALI_EV_AFTER), "go hold @1 /4");
    machine_close(&m);
}

static void the_pull_codec_is_asked_for(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:pull=codec", 2, 0, 1, 1);
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 0, 4),
                        "op 0 [0,4) GRAD push pull owner worker_aggregator:servers=1");
    machine_close(&m);
}

/* What was not finite comes back from the operation as the weights that it had. */
static void skip_leaves_out_ranges_not_steps(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server", 2, 0, 0, 10); /* five buckets */
    m.world.nonfinite = SHOAL_NONFINITE_SKIP;
    (void)machine_start(&m);
    (void)machine_ready(&m, 0, 40);
    (void)machine_event(&m, SHOALI_EV_BEFORE);
    (void)machine_done(&m, 0, SHOAL_OK, NULL);
    (void)machine_done(&m, 1, SHOAL_OK, NULL);
    (void)machine_done(&m, 2, SHOAL_ENOTFINITE, "x");
    (void)machine_done(&m, 3, SHOAL_OK, NULL);
    assert_string_equal(machine_done(&m, 4, SHOAL_ENOTFINITE, "y"),
                        "mix PARAM [0,40) = 1*GRAD; go skip @0 /2");
    machine_close(&m);
}

static void a_dedicated_server_serves_until_a_worker_stops(void **state)
{
    (void)state;
    static const char ops[] =
        "op %d [8,16) GRAD push owner patient worker_aggregator:servers=1,dedicated; "
        "op %d [0,8) GRAD push owner patient worker_aggregator:servers=1,dedicated";
    char first[256], second[256];
    machine m;
    snprintf(first, sizeof first, ops, 0, 1);
    snprintf(second, sizeof second, ops, 2, 3);
    machine_open(&m, "param_server:dedicated", 2, 1, 2, 4);
    assert_string_equal(machine_start(&m), first);
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL), "");
    const char *text = machine_done(&m, 1, SHOAL_OK, NULL);
    assert_non_null(strstr(text, "mix PARAM [0,16) = 1*GRAD; "));
    assert_non_null(strstr(text, second));
    assert_string_equal(machine_message(&m, 0, stop_at_1, sizeof stop_at_1), "cancel 2; cancel 3");
    assert_string_equal(machine_down(&m, 0, "it left"), "");
    assert_string_equal(machine_done(&m, 2, SHOAL_ECANCELLED, "x"), "");
    assert_string_equal(machine_done(&m, 3, SHOAL_ECANCELLED, "x"), "go stop @1");
    machine_close(&m);
}

static void a_server_finishes_the_iteration_that_others_still_need(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:dedicated", 2, 1, 2, 4);
    (void)machine_start(&m);
    assert_string_equal(machine_message(&m, 0, stop_at_1, sizeof stop_at_1), "");
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL), "");
    assert_string_equal(machine_done(&m, 1, SHOAL_OK, NULL),
                        "mix PARAM [0,16) = 1*GRAD; go stop @1");
    machine_close(&m);
}

static void a_lost_worker_fails_the_server(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:dedicated", 2, 1, 2, 4);
    (void)machine_start(&m);
    assert_string_equal(machine_down(&m, 1, "reset"), "fail EPEER r1 worker 1 was lost: reset");
    machine_close(&m);
    machine_open(&m, "param_server:dedicated", 2, 1, 0, 4);
    (void)machine_start(&m);
    assert_string_equal(machine_down(&m, 2, "reset"), "fail EPEER r2 server 2 was lost: reset");
    machine_close(&m);
}

static void the_job_has_to_fit(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:servers=2,dedicated", 2, 1, 0, 4);
    assert_string_equal(machine_start(&m),
                        "fail EINVAL r-1 param_server wants 2 dedicated servers, the job has 1");
    assert_string_equal(machine_event(&m, SHOALI_EV_STOP), "");
    machine_close(&m);
    machine_open(&m, "param_server:servers=3", 2, 0, 0, 4);
    assert_string_equal(machine_start(&m), "fail EINVAL r-1 2 workers cannot hold 3 servers");
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_worker_commits_weights_at_before),
        CHECK_TEST(the_pull_codec_is_asked_for),
        CHECK_TEST(skip_leaves_out_ranges_not_steps),
        CHECK_TEST(a_dedicated_server_serves_until_a_worker_stops),
        CHECK_TEST(a_server_finishes_the_iteration_that_others_still_need),
        CHECK_TEST(a_lost_worker_fails_the_server),
        CHECK_TEST(the_job_has_to_fit),
    };
    return CHECK_RUN(tests);
}
