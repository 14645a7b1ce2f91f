/* SPDX-License-Identifier: Apache-2.0 */
/* One machine and its loop, seen through a toy protocol that uses every action. */
#include "driver/sim.h"

#include "support/check.h"
#include "support/toy_sync.h"

#include "base/arena.h"

enum { WORKERS = 5, ITERATIONS = 6, COUNT = 12 };

static const shoal_tensor tensors[] = {{.key = 1, .count = 8, .lr_scale = 1},
                                       {.key = 2, .offset = 8, .count = 4, .lr_scale = 1}};

static shoal_sim *open_toy(const char *compute, const char *faults)
{
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.compute = compute;
    desc.faults = faults;
    desc.problem = "quadratic:lr=0.25,momentum=0.5,noise=0.1";
    assert_ok(shoali_sim_create_row(&desc, &toy_sync, &sim));
    return sim;
}

static const toy_state *toy(const shoal_sim *sim, uint32_t worker)
{
    return sim->nodes[worker].state;
}

static void every_action_does_what_it_says(void **state)
{
    (void)state;
    shoal_sim *sim = open_toy("fixed:ms=10,jitter=0.2", NULL);
    float x[COUNT], g[COUNT], velocity[COUNT] = {0};
    shoali_problem_start(sim->problem, x);
    for (uint64_t k = 0; k < ITERATIONS; k++) { /* worker 0 alone */
        shoali_problem_gradient(sim->problem, 0, k, x, 0, COUNT, g);
        shoali_problem_step(sim->problem, velocity, x, g, 1, 0, COUNT, x);
    }
    assert_ok(shoal_sim_run(sim));
    for (uint32_t w = 0; w < WORKERS; w++) {
        assert_int_equal(toy(sim, w)->broken, 0);
        assert_int_equal(toy(sim, w)->timers, 1);
        assert_int_equal(toy(sim, w)->timer_us, toy(sim, w)->started_us + 1000);
        assert_int_equal(toy(sim, w)->messages, w == 0 ? ITERATIONS * (WORKERS - 1) : 0);
        assert_memory_equal(sim->nodes[w].tensors.params, x, sizeof x);
    }
    shoal_sim_destroy(sim);
}

/* Times add up: compute + idle of a worker is the whole run. */
static void time_is_accounted(void **state)
{
    (void)state;
    shoal_sim *sim = open_toy("fixed:ms=10,update_ms=2,slow=3:2x", NULL);
    assert_ok(shoal_sim_run(sim));
    for (uint32_t w = 0; w < WORKERS; w++) {
        shoal_sim_endpoint_results r = {.size = sizeof r};
        assert_ok(shoal_sim_endpoint_get(sim, w, &r));
        assert_int_equal(r.end, SHOAL_SIM_DONE);
        assert_int_equal(r.iterations, ITERATIONS);
        assert_int_equal(r.compute_ns, ITERATIONS * ((w == 3 ? 20000000 : 10000000) + 2000000));
        assert_in_range(r.compute_ns + r.idle_ns, sim->report.results.duration_ns - 1000000,
                        sim->report.results.duration_ns);
    }
    shoal_sim_destroy(sim);
}

/* Ready times run back to front in proportion to the elements, and end with the backward pass. */
static void note_ready(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    uint64_t *at_ns = ctx;
    if (endpoint == 2 && event->kind == SHOALI_EV_READY && sim->nodes[2].iteration == 0)
        at_ns[event->range.offset == 0] = sim->now_ns;
    if (endpoint == 2 && event->kind == SHOALI_EV_BEFORE && sim->nodes[2].iteration == 0)
        at_ns[2] = sim->now_ns;
}

static void gradients_become_ready_in_the_backward_pass(void **state)
{
    (void)state;
    uint64_t at_ns[3] = {0};
    shoal_sim *sim = open_toy("fixed:ms=9,backward=0.5", NULL);
    sim->test.on_event = note_ready;
    sim->test.ctx = at_ns;
    assert_ok(shoal_sim_run(sim));
    assert_int_equal(at_ns[0], 6000000); /* 4 of 12 elements after the forward half */
    assert_int_equal(at_ns[1], 9000000);
    assert_int_equal(at_ns[2], 9000000);
    shoal_sim_destroy(sim);
}

static void a_death_is_noticed_after_a_latency_a_freeze_after_the_silence(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint64_t from_ns, to_ns;
    } cases[] = {{"plan:die=3@0.025", 25050000, 25051000},
                 {"plan:stop=3@0.025,detect_ms=100", 125000000, 125001000}};
    for (size_t i = 0; i < 2; i++) {
        shoal_sim *sim = open_toy("fixed:ms=10", cases[i].plan);
        assert_status(shoal_sim_run(sim), SHOAL_EPEER);
        assert_in_range(sim->report.results.duration_ns, cases[i].from_ns, cases[i].to_ns);
        assert_int_equal(sim->nodes[3].end, SHOAL_SIM_DEAD);
        assert_int_equal(sim->nodes[1].end, SHOAL_SIM_FAILED);
        shoal_sim_destroy(sim);
    }
}

/* A machine that says nothing: the run ends, and says who waits. */
static shoal_status silent(void *state, const shoali_event *event, shoali_actions *actions)
{
    (void)state, (void)event, (void)actions;
    return SHOAL_OK;
}

static shoal_status chatty(void *state, const shoali_event *event, shoali_actions *actions)
{
    (void)state;
    if (event->kind == SHOALI_EV_START || event->kind == SHOALI_EV_TIMER)
        shoali_act_timer(actions, 1, event->now_us + 1000000);
    return SHOAL_OK;
}

static shoal_status hasty(void *state, const shoali_event *event, shoali_actions *actions)
{
    (void)state;
    if (event->kind == SHOALI_EV_READY)
        shoali_act_go(actions, &(shoal_verdict){.apply = true});
    return SHOAL_OK;
}

static void bad_machines_are_found_out(void **state)
{
    (void)state;
    static const struct {
        shoal_status (*on_event)(void *, const shoali_event *, shoali_actions *);
        shoal_status status;
        const char *text;
    } cases[] = {
        {silent, SHOAL_ETIMEDOUT, "deadlock at 0.100000 s: endpoint 0 waits in before_update"},
        {chatty, SHOAL_ETIMEDOUT, "an hour without progress"},
        {hasty, SHOAL_EINTERNAL, "waits for nothing"}};
    for (size_t i = 0; i < 3; i++) {
        shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
        shoali_sync_row row = toy_sync;
        shoal_sim *sim;
        row.on_event = cases[i].on_event;
        assert_ok(shoali_sim_create_row(&desc, &row, &sim));
        assert_status(shoal_sim_run(sim), cases[i].status);
        assert_error_has(cases[i].text);
        shoal_sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_action_does_what_it_says),
        CHECK_TEST(time_is_accounted),
        CHECK_TEST(gradients_become_ready_in_the_backward_pass),
        CHECK_TEST(a_death_is_noticed_after_a_latency_a_freeze_after_the_silence),
        CHECK_TEST(bad_machines_are_found_out),
    };
    return CHECK_RUN(tests);
}
