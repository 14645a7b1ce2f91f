/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that was lost comes back: it takes the state of one that is there, all go on alike, the
 * mean of those who are there stays where it is, gaps and staleness keep their promises, and
 * whenever it is lost and comes back everybody gets through. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "driver/sim.h"
#include "support/check.h"
#include "sync/graph.h"

enum { WORKERS = 6, ELEMS = 60, ITERATIONS = 24, LOST = 2 };

static const char *const forms[] = {
    "local_sgd:every=4",
    "diloco:every=4",
    "diloco:every=8,fragments=2,delay=2",
    "diloco:every=4,quorum=3",
    "noloco:every=4",
    "ripples:static",
    "ripples:random,group=3",
    "ripples:smart,laggards",
    "d_psgd",
    "hop",
    "hop:notify_ack",
    "hop:backup=1,skip=4,tokens=3",
    "hop:staleness=2",
    "ad_psgd",
    "ad_psgd:blocking,all,split",
    "param_server:dedicated,staleness=1",
    "param_server:dedicated,async,servers=2",
    "param_server:dedicated,backup=1",
};
enum { FORMS = sizeof forms / sizeof *forms };

static shoal_sim_desc describe(const char *spec, const char *faults)
{
    static const shoal_tensor tensors[] = {
        {.key = 1, .count = ELEMS / 2, .lr_scale = 1},
        {.key = 2, .offset = ELEMS / 2, .count = ELEMS / 2, .lr_scale = 1}};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.sync = spec;
    desc.workers = WORKERS;
    desc.iterations = ITERATIONS;
    desc.tensors = tensors;
    desc.tensor_count = 2;
    desc.network = "links:rate=1mbit";
    desc.compute = "fixed:ms=10,jitter=0.4,slow=1:2x";
    desc.seed = check_seed();
    desc.faults = faults;
    return desc;
}

static shoal_sim *open_sim(const shoal_sim_desc *desc)
{
    shoal_sim *sim;
    assert_ok(shoal_sim_create(desc, &sim));
    return sim;
}

static uint64_t epochs_of(const shoal_sim *sim)
{
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_results_get(sim, &r));
    return r.epochs;
}

/* ---------------------------------------------------------------- numbers */

static bool equal(const shoal_sim *sim, uint32_t a, uint32_t b)
{
    return memcmp(sim->nodes[a].tensors.params, sim->nodes[b].tensors.params,
                  sim->count * sizeof(float)) == 0;
}

/* Who begins a later epoch begins it with what the others have. */
static void starts_are_equal(void *ctx, shoal_sim *sim, uint32_t endpoint,
                             const shoali_event *event)
{
    uint32_t *starts = ctx;
    if (event->kind != SHOALI_EV_START || event->world->epoch == 0 || endpoint >= sim->workers)
        return;
    ++*starts;
    for (uint32_t w = 0; w < sim->workers; w++)
        assert_true(sim->nodes[w].gone || equal(sim, endpoint, w));
    for (uint32_t w = 0; w < sim->workers; w++)
        assert_true(sim->nodes[w].gone || sim->nodes[w].world.iteration == event->world->iteration);
}

/* Lost before its first gradient counts, and there are no others: what is left is the mean of the
 * survivors' first steps, whatever happens later. */
static void the_survivors_mean_is_what_all_end_with(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        const shoal_sim_desc plan = describe(forms[f], "plan:die=2@0.001,rejoin=2@0.08");
        shoal_sim_desc desc = plan;
        uint32_t starts = 0;
        desc.problem = "mixing";
        shoal_sim *sim = open_sim(&desc);
        sim->test.on_event = starts_are_equal;
        sim->test.ctx = &starts;
        assert_ok(shoal_sim_run(sim));
        assert_int_equal(epochs_of(sim), 1);
        assert_int_equal(starts, WORKERS);
        assert_int_equal(sim->nodes[LOST].end, SHOAL_SIM_DONE);
        assert_true(sim->nodes[LOST].gradients > 0 && sim->nodes[LOST].gradients < ITERATIONS);
        uint32_t traits = sim->protocol.traits, wanted = SHOALI_SYNC_MEAN;
        bool servers = (traits & SHOALI_SYNC_OWNER) != 0;
        for (uint32_t w = 1; w < WORKERS; w++)
            assert_true(equal(sim, 0, w));
        for (size_t j = 0; (traits & wanted) != 0 && !servers && j < ELEMS; j += 7) {
            double expected = 0;
            for (uint32_t w = 0; w < WORKERS; w++) {
                float g = 0;
                shoali_problem_gradient(sim->problem, w, 0, NULL, j, 1, &g);
                expected -= w == LOST ? 0 : (double)g / (WORKERS - 1);
            }
            assert_true(fabs((double)sim->nodes[0].tensors.params[j] - expected) < 1e-5);
        }
        shoal_sim_destroy(sim);
    }
}

/* Two are lost, one of them in the middle of a step; one comes back. */
static void all_reduce_goes_on_with_reform(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe("all_reduce", "plan:die=2@0.055/4@0.131,rejoin=2@0.21,reform");
    uint32_t starts = 0;
    shoal_sim_results r = {.size = sizeof r};
    desc.problem = "quadratic:lr=0.2,momentum=0.5,noise=0.01,spread=0.01";
    desc.iterations = 60;
    shoal_sim *sim = open_sim(&desc);
    double before = shoali_problem_excess(sim->problem, sim->nodes[0].tensors.params);
    sim->test.on_event = starts_are_equal;
    sim->test.ctx = &starts;
    assert_status(shoal_sim_run(sim), SHOAL_ECANCELLED); /* one stays away */
    assert_ok(shoal_sim_results_get(sim, &r));
    assert_int_equal(r.epochs, 3);
    assert_int_equal(starts, 5 + 4 + 5);
    assert_true(r.excess < 0.02 * before);
    for (uint32_t w = 0; w < WORKERS; w++) {
        assert_int_equal(sim->nodes[w].end, w == 4 ? SHOAL_SIM_DEAD : SHOAL_SIM_DONE);
        assert_true(w == 4 || equal(sim, 0, w));
    }
    shoal_sim_destroy(sim);
}

static void reform_is_for_those_who_need_all(void **state)
{
    (void)state;
    static const char *const others[] = {"hop", "param_server", "diloco"};
    for (size_t i = 0; i < 3; i++) {
        shoal_sim *sim;
        const shoal_sim_desc desc = describe(others[i], "plan:reform");
        assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
        assert_non_null(strstr(shoal_last_error()->text, others[i]));
    }
}

/* ---------------------------------------------------------------- promises, whenever it happens */

static const char *graph_of(const char *spec)
{
    return strstr(spec, "chords") != NULL ? "chords" : "ring";
}

typedef struct bounds {
    uint32_t distance[WORKERS][WORKERS], per_edge;
} bounds;

static void gaps_keep_their_bound(void *ctx, shoal_sim *sim, uint32_t endpoint,
                                  const shoali_event *event)
{
    const bounds *b = ctx;
    uint64_t mine = sim->nodes[endpoint].iteration;
    (void)event;
    for (uint32_t w = 0; w < WORKERS && endpoint < WORKERS; w++) {
        bool there = sim->nodes[w].end == SHOAL_SIM_RUNNING && sim->epoch.gone == 0;
        if (there && mine > sim->nodes[w].iteration)
            assert_true(mine - sim->nodes[w].iteration <=
                        (uint64_t)b->per_edge * b->distance[endpoint][w]);
    }
}

/* With nobody missing at the time: who is lost may be on the way between two others. */
static void gap_bounds_hold_in_every_epoch(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t per_edge;
    } bounded[] = {{"d_psgd", 1},
                   {"hop:tokens=3,backup=1,skip=4", 3},
                   {"hop:graph=chords", 1},
                   {"hop:staleness=2,graph=chords", 3}};
    for (size_t f = 0; f < sizeof bounded / sizeof *bounded; f++) {
        const shoal_sim_desc desc = describe(bounded[f].spec, "plan:stop=2@0.06,rejoin=2@0.15,"
                                                              "detect_ms=30");
        bounds b = {.per_edge = bounded[f].per_edge};
        shoali_graph graph;
        assert_ok(shoali_graph_open(graph_of(bounded[f].spec), WORKERS, &graph));
        for (uint32_t w = 0; w < WORKERS; w++)
            shoali_graph_distances(&graph, w, b.distance[w]);
        shoali_graph_close(&graph);
        shoal_sim *sim = open_sim(&desc);
        sim->test.on_event = gaps_keep_their_bound;
        sim->test.ctx = &b;
        assert_ok(shoal_sim_run(sim));
        assert_int_equal(epochs_of(sim), 1);
        shoal_sim_destroy(sim);
    }
}

/* Lost at any event, back at any time: all that are there in the end have the same parameters. */
static void lost_and_back_at_any_time(void **state)
{
    (void)state;
    static const uint32_t faults[] = {SHOALI_SIM_DIE, SHOALI_SIM_FREEZE, SHOALI_SIM_LEAVE};
    uint64_t epochs = 0;
    for (size_t f = 0; f < FORMS; f++) {
        shoali_rng rng = {check_seed(), shoali_mix(51, f), 0};
        for (int run = 0; run < 40; run++) {
            char plan[96];
            uint32_t victim = (uint32_t)(shoali_rng_next(&rng) % WORKERS);
            snprintf(plan, sizeof plan, "plan:rejoin=%u@%.4f/%u@%.4f,detect_ms=5", victim,
                     0.4 * shoali_rng_next_double(&rng), victim,
                     0.4 * shoali_rng_next_double(&rng));
            shoal_sim_desc desc = describe(forms[f], plan);
            desc.problem = "quadratic:lr=0.1";
            shoal_sim *sim = open_sim(&desc);
            sim->test.inject_at = shoali_rng_next(&rng) % 900;
            sim->test.inject_fault = faults[run % 3];
            sim->test.inject_endpoint = victim;
            shoal_status status = shoal_sim_run(sim);
            assert_true(status == SHOAL_OK || status == SHOAL_ECANCELLED);
            for (uint32_t w = 0; w < WORKERS; w++) {
                bool there = sim->nodes[w].end == SHOAL_SIM_DONE;
                assert_true(there || w == victim);
                bool last_word = w == victim &&
                                 run % 3 == 2; /* it may leave as the last mean runs */
                assert_true(!there || last_word || equal(sim, w, victim == 0 ? 1 : 0));
            }
            epochs += epochs_of(sim);
            shoal_sim_destroy(sim);
        }
    }
    assert_true(epochs > (uint64_t)FORMS * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_survivors_mean_is_what_all_end_with),
        CHECK_TEST(all_reduce_goes_on_with_reform),
        CHECK_TEST(reform_is_for_those_who_need_all),
        CHECK_TEST(gap_bounds_hold_in_every_epoch),
        CHECK_TEST(lost_and_back_at_any_time),
    };
    return CHECK_RUN(tests);
}
