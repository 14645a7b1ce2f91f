/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a protocol with different replicas, behind the smallest protocol that has one: every
 * worker trains alone, and at the end all take their mean. */
#include "sync/finale.h"

#include <math.h>

#include "driver/sim.h"
#include "support/check.h"

enum { WORKERS = 5, ITERATIONS = 4 };

typedef struct alone {
    shoali_finale finale;
    uint64_t iteration;
    bool leaving;
} alone;

static size_t state_size(const shoali_world *world)
{
    return sizeof(alone) + shoali_finale_bytes(world);
}

static uint32_t slots(const shoali_world *world)
{
    (void)world;
    return 1;
}

static uint32_t max_staleness(const void *params)
{
    (void)params;
    return 0;
}

static shoal_status on_event(void *state, const shoali_event *event, shoali_actions *actions)
{
    alone *m = state;
    shoal_verdict verdict = {.apply = event->kind == SHOALI_EV_BEFORE, .grad_scale = 1};
    uint32_t peer;
    if (event->kind == SHOALI_EV_START) {
        shoali_finale_start(&m->finale, event->world, 0, m + 1);
        return SHOAL_OK;
    }
    bool mine = shoali_finale_event(&m->finale, event, &peer, actions) == SHOALI_NOT_MINE;
    verdict.stop = m->leaving && !mine && event->kind == SHOALI_EV_OP_DONE;
    if (mine && event->kind == SHOALI_EV_STOP) {
        m->leaving = true;
        verdict.stop = !shoali_finale_leave(&m->finale, actions);
    }
    m->iteration += event->kind == SHOALI_EV_AFTER;
    verdict.iteration = m->iteration;
    if (verdict.stop || event->kind == SHOALI_EV_BEFORE || event->kind == SHOALI_EV_AFTER)
        shoali_act_go(actions, &verdict);
    return SHOAL_OK;
}

static const shoali_sync_row row = {
    .name = "alone",
    .paper = "none",
    .traits = SHOALI_SYNC_MEAN | SHOALI_SYNC_SURVIVES,
    .state_size = state_size,
    .slots = slots,
    .max_staleness = max_staleness,
    .on_event = on_event,
};

static shoal_sim *open_sim(void)
{
    static const shoal_tensor tensor = {.key = 1, .count = 40, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.compute = "fixed:ms=10,jitter=0.4,slow=1:3x";
    desc.problem = "quadratic:lr=0.125,noise=0.5";
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.seed = check_seed();
    assert_ok(shoali_sim_create_row(&desc, &row, &sim));
    return sim;
}

/* Before the first FINISH comes its GO: sum of the replicas, each as it was when it finished. */
static void note_replicas(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    double *sum = ctx;
    if (event->kind == SHOALI_EV_FINISH)
        for (size_t j = 0; j < sim->count; j++)
            sum[j] += (double)sim->nodes[endpoint].tensors.params[j];
}

static void all_take_the_exact_mean(void **state)
{
    (void)state;
    double sum[40] = {0};
    shoal_sim *sim = open_sim();
    sim->on_event = note_replicas;
    sim->on_event_ctx = sum;
    assert_ok(shoal_sim_run(sim));
    for (uint32_t w = 0; w < WORKERS; w++)
        for (size_t j = 0; j < sim->count; j++) {
            float value = sim->nodes[w].tensors.params[j];
            assert_true(fabs((double)value - sum[j] / WORKERS) < 1e-6);
            assert_true(value == sim->nodes[0].tensors.params[j]);
        }
    shoal_sim_destroy(sim);
}

static uint64_t events_of_a_run(void)
{
    shoal_sim *sim = open_sim();
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &r));
    shoal_sim_destroy(sim);
    return r.events;
}

/* All that are left end well, and with the same bits unless they ended before and after the loss.
 */
static void lose_somebody_at_every_event(uint32_t fault)
{
    uint64_t events = events_of_a_run();
    uint32_t apart = 0;
    for (uint64_t at = 0; at < events * WORKERS; at++) {
        shoal_sim *sim = open_sim();
        uint32_t victim = (uint32_t)(at % WORKERS), first = victim == 0 ? 1 : 0;
        sim->inject_at = at / WORKERS;
        sim->inject_fault = fault;
        sim->inject_endpoint = victim;
        shoal_status status = shoal_sim_run(sim);
        assert_true(status == SHOAL_OK || status == SHOAL_ECANCELLED);
        for (uint32_t w = 0; w < WORKERS; w++) {
            if (w == victim)
                continue;
            assert_int_equal(sim->nodes[w].end, SHOAL_SIM_DONE);
            assert_int_equal(sim->nodes[w].done, ITERATIONS);
            apart += memcmp(sim->nodes[w].tensors.params, sim->nodes[first].tensors.params,
                            sim->count * sizeof(float)) != 0;
        }
        shoal_sim_destroy(sim);
    }
    assert_true(apart <= 4 * WORKERS); /* only where the leader dies while it commits */
}

static void the_dead_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_DIE);
}

static void the_frozen_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_FREEZE);
}

static void those_who_leave_are_left_out(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_LEAVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(all_take_the_exact_mean),
        CHECK_TEST(the_dead_are_left_out),
        CHECK_TEST(the_frozen_are_left_out),
        CHECK_TEST(those_who_leave_are_left_out),
    };
    return CHECK_RUN(tests);
}
