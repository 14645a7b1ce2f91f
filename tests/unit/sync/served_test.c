/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim.h"

#include "support/check.h"
#include "support/machine.h"

static shoal_sim *simulate(const char *spec, const char *compute, uint64_t iterations)
{
    static const shoal_tensor tensors[] = {{.key = 1, .offset = 0, .count = 30, .lr_scale = 1},
                                           {.key = 2, .offset = 30, .count = 34, .lr_scale = 1}};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    desc.workers = 4;
    desc.iterations = iterations;
    desc.sync = spec;
    desc.compute = compute;
    desc.network = "links:rate=10mbit";
    desc.problem = "quadratic:lr=0.2,spread=0.1,noise=0.01";
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.seed = check_seed();
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_run(sim));
    return sim;
}

static uint64_t gap(const shoal_sim *sim)
{
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_results_get(sim, &r));
    return r.gap_max;
}

static void a_server_answers_at_its_own_time(void **state)
{
    (void)state;
    static const uint8_t push[9] = {1}, leave[9] = {3};
    machine m;
    machine_open(&m, "param_server:dedicated,async", 2, 1, 2, 2);
    assert_string_equal(machine_start(&m), "");
    assert_string_equal(machine_message(&m, 0, push, sizeof push), "op 0 [0,8) SLOT0 of 0,2 pull");
    assert_string_equal(machine_message(&m, 0, push, sizeof push), ""); /* once is enough */
    assert_string_equal(machine_done(&m, 0, SHOAL_OK, NULL),
                        "apply SLOT0 [0,8) *0.5; mix SLOT0 [0,8) = 1*PARAM; "
                        "op 1 [0,8) SLOT0 of 0,2 patient");
    assert_string_equal(machine_done(&m, 1, SHOAL_OK, NULL), "");
    assert_string_equal(machine_message(&m, 0, leave, sizeof leave), "");
    assert_string_equal(machine_down(&m, 1, "gone"), "go stop @0");
    machine_close(&m);
}

static void a_worker_takes_weights(void **state)
{
    (void)state;
    machine m;
    machine_open(&m, "param_server:dedicated,servers=2,sequential", 2, 2, 1, 2);
    (void)machine_start(&m);
    assert_string_equal(machine_ready(&m, 4, 4),
                        "send 3 010000000000000000; op 6 [4,8) GRAD of 1,3 pull");
    assert_string_equal(machine_ready(&m, 0, 4),
                        "send 2 010000000000000000; op 4 [0,4) GRAD of 1,2 pull");
    assert_string_equal(machine_done(&m, 6, SHOAL_OK, NULL), "op 7 [4,8) GRAD of 1,3 patient");
    assert_string_equal(machine_event(&m, SHOALI_EV_BEFORE), "");
    (void)machine_done(&m, 7, SHOAL_OK, NULL);
    (void)machine_done(&m, 4, SHOAL_OK, NULL);
    assert_string_equal(machine_done(&m, 5, SHOAL_OK, NULL),
                        "mix PARAM [0,8) = 1*GRAD; go hold @0 /2");
    (void)machine_event(&m, SHOALI_EV_AFTER);
    assert_non_null(strstr(machine_down(&m, 2, "gone"), "fail EPEER r2 server 2 was lost"));
    machine_close(&m);
}

/* One worker is six times slower. */
static void a_bound_holds_the_fast_ones_back(void **state)
{
    (void)state;
    static const char compute[] = "fixed:ms=10,jitter=0.1,slow=2:6x";
    shoal_sim *bounded = simulate("param_server:dedicated,staleness=3", compute, 60);
    shoal_sim *async = simulate("param_server:dedicated,async", compute, 60);
    shoal_sim *lockstep = simulate("param_server:dedicated,staleness=0", compute, 60);
    assert_int_equal(gap(bounded), 4);
    assert_int_equal(gap(lockstep), 1);
    assert_true(gap(async) > 40);
    assert_true(async->nodes[0].idle_ns * 4 < bounded->nodes[0].idle_ns);
    for (uint32_t w = 1; w < 4; w++) /* the end is the same for all */
        assert_memory_equal(async->nodes[w].tensors.params, async->nodes[0].tensors.params,
                            64 * sizeof(float));
    shoal_sim_destroy(bounded);
    shoal_sim_destroy(async);
    shoal_sim_destroy(lockstep);
}

/* A backup worker: three of four gradients are enough, the slow one's are dropped. */
static void a_step_does_without_the_last(void **state)
{
    (void)state;
    static const char compute[] = "fixed:ms=10,jitter=0.1,slow=2:6x";
    shoal_sim *all = simulate("param_server:dedicated,sequential", compute, 40);
    shoal_sim *three = simulate("param_server:dedicated,backup=1", compute, 40);
    assert_true(three->nodes[0].idle_ns * 3 < all->nodes[0].idle_ns);
    assert_true(shoali_problem_excess(three->problem, three->nodes[0].tensors.params) <
                0.2); /* of 300; worker 2's minimum is hardly heard */
    shoal_sim_destroy(all);
    shoal_sim_destroy(three);
}

static void forms_that_do_not_fit(void **state)
{
    (void)state;
    shoali_protocol protocol;
    assert_status(shoali_sync_open("param_server:async", &protocol), SHOAL_EINVAL);
    assert_status(shoali_sync_open("param_server:dedicated,async,backup=1", &protocol),
                  SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_server_answers_at_its_own_time),
        CHECK_TEST(a_worker_takes_weights),
        CHECK_TEST(a_bound_holds_the_fast_ones_back),
        CHECK_TEST(a_step_does_without_the_last),
        CHECK_TEST(forms_that_do_not_fit),
    };
    return CHECK_RUN(tests);
}
