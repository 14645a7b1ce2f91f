/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/steps.h"

static void one_dedicated_server_as_in_the_picture(void **state)
{
    (void)state;
    const char *spec = "worker_aggregator:dedicated";
    steps_are(&(steps_of){spec, .size = 4, .contributors = 3, .me = 1},
              "1 push send 0 to 3 x1; 2 pull set 0 from 3 x3");
    steps_are(&(steps_of){spec, .size = 4, .contributors = 3, .me = 3},
              "1 push set 0 from 1 x1; 1 push add 0 from 2 x1; 1 push add 0 from 0 x1; own 0 x3; "
              "2 pull send 0 to 1 x3; 2 pull send 0 to 2 x3; 2 pull send 0 to 0 x3");
}

static void servers_are_the_first_workers_by_default(void **state)
{
    (void)state;
    const char *spec = "worker_aggregator:servers=2";
    steps_are(&(steps_of){spec, .size = 3, .me = 0},
              "1 push send 1 to 1 x1; 1 push add 0 from 1 x1; 1 push add 0 from 2 x1; own 0 x3; "
              "2 pull send 0 to 1 x3; 2 pull send 0 to 2 x3; 2 pull set 1 from 1 x3");
    steps_are(&(steps_of){spec, .size = 3, .me = 2},
              "1 push send 0 to 0 x1; 1 push send 1 to 1 x1; "
              "2 pull set 0 from 0 x3; 2 pull set 1 from 1 x3");
}

/* A worker moves n each way, a server C n/S (co-located: C-1), and adds all but the first arrival
 * of an empty sum. */
static void the_cost_is_the_formula(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 8; workers++)
        for (uint32_t servers = 1; servers <= workers; servers++) {
            char spec[64];
            uint64_t n = 24 * servers, block = n / servers;
            snprintf(spec, sizeof spec, "worker_aggregator:servers=%u,dedicated", servers);
            steps_of which = {spec, .size = workers + servers, .contributors = workers};
            assert_int_equal(steps_cost(&which, n).sent_elems, n);
            which.me = workers;
            shoali_cost cost = steps_cost(&which, n);
            assert_int_equal(cost.sent_elems, workers * block);
            assert_int_equal(cost.received_elems, workers * block);
            assert_int_equal(cost.added_elems, (workers - 1) * block);
            assert_int_equal(cost.rounds, 2);

            snprintf(spec, sizeof spec, "worker_aggregator:servers=%u", servers);
            which = (steps_of){spec, .size = workers};
            cost = steps_cost(&which, n);
            assert_int_equal(cost.sent_elems, n - block + (workers - 1) * block);
            assert_int_equal(cost.received_elems, cost.sent_elems);
            assert_int_equal(cost.added_elems, (workers - 1) * block);
        }
}

/* Ceilings of specs/gradient-exchange.md section 6: N n each way at a lone server with both legs
 * overlapping (half of the table's sequential 4, 8, 16 at N = 2, 4, 8). */
static void the_ceilings_of_the_paper(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 8; workers *= 2) {
        steps_of server = {"worker_aggregator:dedicated", .size = workers + 1,
                           .contributors = workers, .me = workers};
        assert_int_equal(steps_cost(&server, 1000).sent_elems, workers * 1000);
        assert_int_equal(steps_cost(&server, 1000).received_elems, workers * 1000);
    }
}

static void servers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    steps_of which = {"worker_aggregator:servers=3", .size = 2};
    assert_status(steps_status(&which), SHOAL_EINVAL);
    assert_error_has("only 2 workers");
    which = (steps_of){"worker_aggregator", .size = 3, .contributors = 2};
    assert_status(steps_status(&which), SHOAL_EINVAL);
    assert_error_has("dedicated");
    which = (steps_of){"worker_aggregator:servers=2,dedicated", .size = 3, .contributors = 2};
    assert_status(steps_status(&which), SHOAL_EINVAL);
    assert_error_has("1 members beyond");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(one_dedicated_server_as_in_the_picture),
        CHECK_TEST(servers_are_the_first_workers_by_default),
        CHECK_TEST(the_cost_is_the_formula),
        CHECK_TEST(the_ceilings_of_the_paper),
        CHECK_TEST(servers_that_do_not_fit_are_refused),
    };
    return CHECK_RUN(tests);
}
