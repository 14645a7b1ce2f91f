/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_spec.h"

#include <math.h>

#include "support/check.h"

static void defaults_come_first(void **state)
{
    (void)state;
    shoali_sim_compute compute;
    shoali_sim_network network;
    shoali_sim_faults faults;
    assert_ok(shoali_sim_read_compute(NULL, &compute));
    assert_true(compute.ms == 100 && compute.jitter == 0 && compute.slow.count == 0);
    assert_ok(shoali_sim_read_network("", &network));
    assert_true(network.up_bits == 1e9 && network.down_bits == 1e9 && network.hosts == 0);
    assert_ok(shoali_sim_read_faults(NULL, &faults));
    assert_int_equal(faults.die.count + faults.stop.count + faults.leave.count + faults.nan.count,
                     0);
}

static void every_key_is_read(void **state)
{
    (void)state;
    shoali_sim_compute compute;
    shoali_sim_network network;
    shoali_sim_faults faults;
    assert_ok(shoali_sim_read_compute(
        "fixed:ms=2.5,backward=0.5,jitter=0.1,update_ms=1,slow=2:5x/3:1.5", &compute));
    assert_true(compute.ms == 2.5 && compute.backward == 0.5 && compute.update_ms == 1);
    assert_true(shoali_sim_lookup(&compute.slow, 2, 1) == 5);
    assert_true(shoali_sim_lookup(&compute.slow, 3, 1) == 1.5);
    assert_true(shoali_sim_lookup(&compute.slow, 4, 1) == 1);
    assert_ok(shoali_sim_read_network(
        "links:rate=250mbit,down=2gbit,latency_us=7,hosts=4,slow=1:10x", &network));
    assert_true(network.up_bits == 250e6 && network.down_bits == 2e9);
    assert_true(network.latency_us == 7 && network.hosts == 4);
    assert_true(shoali_sim_lookup(&network.slow, 1, 1) == 10);
    assert_ok(shoali_sim_read_faults("plan:die=1@2.5/3@4,stop=2@1,leave=0@9,nan=3@7,detect_ms=10",
                                     &faults));
    assert_int_equal(faults.die.count, 2);
    assert_true(faults.die.items[1].index == 3 && faults.die.items[1].value == 4);
    assert_true(faults.nan.items[0].index == 3 && faults.nan.items[0].value == 7);
    assert_true(faults.detect_ms == 10);
    assert_ok(shoali_sim_read_faults("plan:cut=2@1-1.5/0@3-4", &faults));
    assert_int_equal(faults.cut_count, 2);
    assert_true(faults.cuts[0].host == 2 && faults.cuts[0].until_s == 1.5);
    assert_true(faults.cuts[1].host == 0 && faults.cuts[1].from_s == 3);
    assert_ok(shoali_sim_read_compute("model:batch=8,gflops=2,random=4x:0.5,trace=a/b", &compute));
    assert_true(compute.from_model && compute.batch == 8 && compute.gflops == 2);
    assert_true(compute.random_factor == 4 && compute.random_probability == 0.5);
    assert_string_equal(compute.trace, "a/b");
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const computes[] = {"fixed:slow=2",
                                           "fixed:slow=2:x",
                                           "fixed:slow=-1:2",
                                           "fixed:slow=1:2y",
                                           "fixed:slow=1:0x",
                                           "fixed:ms=-1",
                                           "square",
                                           "fixed:slow=99999999999:2x",
                                           "fixed:slow=1:nanx",
                                           "fixed:random=6y",
                                           "fixed:random=6x:2",
                                           "fixed:random=x:1",
                                           "model:ms=1"};
    static const char *const networks[] = {"links:rate=1",     "links:rate=gbit",
                                           "links:rate=0gbit", "links:rate=1gbits",
                                           "links:hosts=-1",   "links:rate=-1gbit"};
    static const char *const plans[] = {"plan:die=1:2",  "plan:die=1@",  "plan:die=@1",
                                        "plan:die=1@-2", "plan:cut=1@2", "plan:cut=1@2-1",
                                        "plan:cut=@1-2"};
    shoali_sim_compute compute;
    shoali_sim_network network;
    shoali_sim_faults faults;
    for (size_t i = 0; i < sizeof computes / sizeof *computes; i++)
        assert_status(shoali_sim_read_compute(computes[i], &compute), SHOAL_EINVAL);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        assert_status(shoali_sim_read_network(networks[i], &network), SHOAL_EINVAL);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        assert_status(shoali_sim_read_faults(plans[i], &faults), SHOAL_EINVAL);
    char many[96] = "fixed:slow=1:1x";
    for (int i = 0; i < SHOALI_SIM_PAIRS; i++)
        strcat(many, "/1:1x");
    assert_status(shoali_sim_read_compute(many, &compute), SHOAL_EINVAL);
}

/* Every worker and iteration draws on its own; the mean of uniform +-j is 0, its deviation j /
 * sqrt(3). */
static void jitter_is_uniform_and_a_function_of_its_arguments(void **state)
{
    (void)state;
    shoali_sim_compute compute;
    double sum = 0, squares = 0;
    const int draws = 4000;
    uint64_t seed = check_seed();
    assert_ok(shoali_sim_read_compute("fixed:ms=10,jitter=0.3,slow=1:2x", &compute));
    for (int i = 0; i < draws; i++) {
        uint64_t ns = (uint64_t)(1e7 * shoali_sim_compute_factor(&compute, (uint32_t)(i % 40), 40,
                                                                 (uint64_t)(i / 40), seed));
        double part = (double)ns / (i % 40 == 1 ? 2e7 : 1e7) - 1;
        assert_true(fabs(part) <= 0.3 + 1e-6);
        sum += part;
        squares += part * part;
    }
    assert_true(fabs(sum / draws) < 4 * 0.3 / sqrt(3.0 * draws));
    assert_true(fabs(squares / draws - 0.03) < 0.003);
    assert_true(shoali_sim_compute_factor(&compute, 5, 9, 6, seed) ==
                shoali_sim_compute_factor(&compute, 5, 9, 6, seed));
    assert_true(shoali_sim_compute_factor(&compute, 5, 9, 6, seed) !=
                shoali_sim_compute_factor(&compute, 6, 9, 5, seed));
}

/* One iteration in 16 takes 6 times as long, and others take what they take. */
static void random_slowness_comes_as_often_as_it_should(void **state)
{
    (void)state;
    shoali_sim_compute often, seldom;
    uint64_t seed = check_seed();
    int slow = 0;
    assert_ok(shoali_sim_read_compute("fixed:ms=10,random=6x", &often));
    assert_ok(shoali_sim_read_compute("fixed:ms=10,random=6x:0", &seldom));
    for (uint64_t i = 0; i < 16000; i++) {
        double ns = 1e7 * shoali_sim_compute_factor(&often, (uint32_t)(i % 16), 16, i / 16, seed);
        assert_true(ns == 1e7 || ns == 6e7);
        slow += ns == 6e7;
        assert_true(shoali_sim_compute_factor(&seldom, 1, 16, i, seed) == 1);
    }
    assert_in_range(slow, 1000 - 5 * 31, 1000 + 5 * 31); /* 5 deviations */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(defaults_come_first),
        CHECK_TEST(every_key_is_read),
        CHECK_TEST(nonsense_is_refused),
        CHECK_TEST(random_slowness_comes_as_often_as_it_should),
        CHECK_TEST(jitter_is_uniform_and_a_function_of_its_arguments),
    };
    return CHECK_RUN(tests);
}
