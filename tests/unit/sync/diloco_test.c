/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim.h"

#include <math.h>

#include "support/check.h"

enum { COUNT = 24, WORKERS = 3, EVERY = 4, ROUNDS = 6, INNER_RATE_INVERSE = 8 };

static const shoal_tensor tensors[] = {
    {.key = 1, .offset = 0, .count = 10, .lr_scale = 1},
    {.key = 2, .offset = 10, .count = 2, .lr_scale = 1},
    {.key = 3, .offset = 12, .count = 12, .lr_scale = 1},
};

static shoal_sim *simulate(const char *spec, const char *compute, uint64_t iterations)
{
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    desc.workers = WORKERS;
    desc.iterations = iterations;
    desc.sync = spec;
    desc.compute = compute;
    desc.network = "links:rate=1mbit";
    desc.problem = "quadratic:lr=0.125,spread=0.5,noise=0.1";
    desc.tensors = tensors;
    desc.tensor_count = sizeof tensors / sizeof *tensors;
    desc.seed = check_seed();
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_run(sim));
    return sim;
}

/* The papers' formulas in double: inner SGD, outer Nesterov. Fragment f of all elements takes its
 * turn after every EVERY / fragments iterations. */
static void reference(const shoal_sim *sim, const size_t *cuts, uint32_t fragments, double lr,
                      double momentum, double x[WORKERS][COUNT])
{
    double base[COUNT], velocity[COUNT] = {0};
    float at[COUNT], g[COUNT];
    shoali_problem_start(sim->problem, at);
    for (size_t j = 0; j < COUNT; j++)
        base[j] = x[0][j] = x[1][j] = x[2][j] = (double)at[j];
    for (uint64_t k = 0; k < EVERY * ROUNDS; k++) {
        for (uint32_t w = 0; w < WORKERS; w++) {
            for (size_t j = 0; j < COUNT; j++)
                at[j] = (float)x[w][j];
            shoali_problem_gradient(sim->problem, w, k, at, 0, COUNT, g);
            for (size_t j = 0; j < COUNT; j++)
                x[w][j] -= (double)g[j] / INNER_RATE_INVERSE;
        }
        if ((k + 1) % (EVERY / fragments) != 0)
            continue;
        uint64_t f = (k + 1) / (EVERY / fragments) - 1;
        for (size_t j = cuts[f % fragments]; j < cuts[f % fragments + 1]; j++) {
            double moved = base[j] - (x[0][j] + x[1][j] + x[2][j]) / WORKERS;
            velocity[j] = momentum * velocity[j] + moved;
            base[j] -= lr * (moved + momentum * velocity[j]);
            x[0][j] = x[1][j] = x[2][j] = base[j];
        }
    }
}

static void compare(const char *spec, const size_t *cuts, uint32_t fragments, double lr,
                    double momentum)
{
    double x[WORKERS][COUNT];
    shoal_sim *sim = simulate(spec, "fixed:ms=10,jitter=0.3", EVERY * ROUNDS);
    reference(sim, cuts, fragments, lr, momentum, x);
    for (uint32_t w = 0; w < WORKERS; w++)
        for (size_t j = 0; j < COUNT; j++) {
            double mean = (x[0][j] + x[1][j] + x[2][j]) / WORKERS; /* of the finale */
            assert_true(fabs((double)sim->nodes[w].tensors.params[j] - mean) < 1e-5);
        }
    shoal_sim_destroy(sim);
}

static void it_steps_as_nesterov_does(void **state)
{
    (void)state;
    static const size_t whole[] = {0, COUNT}, halves[] = {0, 12, COUNT};
    compare("diloco:every=4,lr=0.7,momentum=0.9", whole, 1, 0.7, 0.9);
    compare("diloco:every=4,lr=1,momentum=0", whole, 1, 1, 0);
    compare("diloco:every=4,lr=0.7,momentum=0.5,fragments=2", halves, 2, 0.7, 0.5);
}

/* Worker 1 is five times slower than the others: with a quorum they do not wait for it. */
static void a_quorum_does_not_wait_for_a_straggler(void **state)
{
    (void)state;
    static const char compute[] = "fixed:ms=10,jitter=0.05,slow=1:5x";
    shoal_sim *all = simulate("diloco:every=4,momentum=0.5", compute, 200);
    shoal_sim *some = simulate("diloco:every=4,momentum=0.5,quorum=2", compute, 200);
    uint64_t waited = all->nodes[0].idle_ns, now = some->nodes[0].idle_ns;
    assert_true(now * 4 < waited);
    for (size_t j = 0; j < COUNT; j++) { /* all end alike, near the minimum of the mean */
        assert_true(some->nodes[0].tensors.params[j] == some->nodes[1].tensors.params[j]);
        assert_true(isfinite(some->nodes[0].tensors.params[j]));
    }
    assert_true(shoali_problem_excess(some->problem, some->nodes[0].tensors.params) < 1);
    shoal_sim_destroy(all);
    shoal_sim_destroy(some);
}

/* With a delay a round travels while the next iterations compute. */
static void a_delay_hides_the_network(void **state)
{
    (void)state;
    shoal_sim *blocking = simulate("diloco:every=4,momentum=0.5", "fixed:ms=1", 80);
    shoal_sim *streaming = simulate("diloco:every=4,momentum=0.5,delay=3", "fixed:ms=1", 80);
    assert_true(streaming->nodes[0].idle_ns * 2 < blocking->nodes[0].idle_ns);
    shoal_sim_destroy(blocking);
    shoal_sim_destroy(streaming);
}

/* Paced, a round has the delay for its bytes and takes most of it; steps, numbers and the time of
 * the whole job are those of rounds that travel as fast as they can, whoever is slow. */
static void a_paced_round_costs_nothing(void **state)
{
    (void)state;
    static const char *const computes[] = {"fixed:ms=10", "fixed:ms=10,jitter=0.1",
                                           "fixed:ms=10,slow=1:3x", "fixed:ms=10,random=4x:0.1"};
    for (size_t i = 0; i < 2 * sizeof computes / sizeof *computes; i++) {
        const char *compute = computes[i / 2];
        const uint64_t iterations = i % 2 == 0 ? 86 : 88; /* at their end a round begins, or none */
        shoal_sim *burst = simulate("diloco:every=8,momentum=0.5,delay=6,pace=off", compute,
                                    iterations);
        shoal_sim *paced = simulate("diloco:every=8,momentum=0.5,delay=6", compute, iterations);
        double before = (double)burst->report.results.duration_ns;
        double after = (double)paced->report.results.duration_ns;
        print_message("%s: %.3f ms, %.3f paced\n", compute, before / 1e6, after / 1e6);
        assert_true(after <= 1.02 * before);
        assert_int_not_equal(paced->report.results.log_hash, burst->report.results.log_hash);
        for (uint32_t w = 0; w < WORKERS; w++)
            for (size_t j = 0; j < COUNT; j++)
                assert_true(paced->nodes[w].tensors.params[j] == burst->nodes[w].tensors.params[j]);
        shoal_sim_destroy(burst);
        shoal_sim_destroy(paced);
    }
}

static void keys_that_do_not_fit(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_status(shoali_sync_open("diloco:every=10,fragments=3", &protocol), SHOAL_EINVAL);
    assert_status(shoali_sync_open("diloco:every=10,fragments=5,delay=2", &protocol), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(it_steps_as_nesterov_does), CHECK_TEST(a_quorum_does_not_wait_for_a_straggler),
        CHECK_TEST(a_delay_hides_the_network), CHECK_TEST(a_paced_round_costs_nothing),
        CHECK_TEST(keys_that_do_not_fit),
    };
    return CHECK_RUN(tests);
}
