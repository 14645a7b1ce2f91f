/* SPDX-License-Identifier: Apache-2.0 */
/* Protocols on graphs, in all their forms and on all graphs: bounds on the gap between any two
 * workers, the mean, survivors, and that slow workers cost what they should. */
#include <math.h>

#include "base/rng.h"
#include "driver/sim.h"
#include "support/check.h"
#include "support/scratch_dir.h"
#include "sync/graph.h"

enum { WORKERS = 8, UNBOUNDED = 1000 };

/* distance(a, b) times per_edge bounds Iter(a) - Iter(b). */
typedef struct form {
    const char *spec;
    uint32_t per_edge;
    bool mean;
    const char *codec; /* NULL: none */
} form;

static const form forms[] = {
    {"d_psgd", 1, true, NULL},
    {"d_psgd:serial", 1, true, NULL},
    {"d_psgd:graph=parity", 1, true, NULL},
    {"hop", 1, true, NULL},
    {"hop:graph=chords", 1, true, NULL},
    {"hop:graph=double_ring,serial", 1, true, NULL},
    {"hop:notify_ack", 1, true, NULL},
    {"hop:graph=double_ring,notify_ack", 1, true, NULL},
    {"hop:tokens=3", 1, true, NULL},
    {"hop:tokens=1,graph=complete", 1, true, NULL},
    {"hop:backup=1,tokens=3", 3, false, NULL},
    {"hop:backup=1,tokens=1,graph=chords", 1, false, NULL},
    {"hop:backup=2,tokens=5,graph=double_ring", 5, false, NULL},
    {"hop:staleness=2,tokens=10", 3, false, NULL},
    {"hop:staleness=5,tokens=3,graph=chords", 3, false, NULL},
    {"hop:staleness=2,weights=plain,graph=double_ring", 3, false, NULL},
    {"hop:staleness=3,serial", 4, false, NULL},
    {"hop:backup=1,skip=2,tokens=4", 4, false, NULL},
    {"hop:backup=1,skip=10,tokens=8,trigger=3,graph=double_ring", 8, false, NULL},
    {"hop:staleness=3,skip=10,graph=chords", 4, false, NULL},
    {"hop:staleness=3,backup=1,skip=10,tokens=6", 6, false, NULL},
    {"d_psgd:graph=one_way", 1, true, NULL},
    {"d_psgd:graph=exponential,serial", 1, true, NULL},
    {"d_psgd:graph=exponential", 1, true, "expo"},
    {"hop:graph=one_way", 1, true, NULL},
    {"hop:graph=exponential,notify_ack", 1, true, NULL},
    {"hop:graph=exponential,backup=1,tokens=3", 3, false, NULL},
    {"hop:graph=one_way,staleness=3,tokens=4", 4, false, NULL},
    {"hop:graph=exponential,staleness=3,tokens=4,serial", 4, false, NULL},
    {"hop:graph=exponential,backup=1,skip=10,tokens=8,trigger=3", 8, false, NULL},
    {"d_psgd", 1, true, "eden:bits=4"},
    {"d_psgd:graph=chords,serial", 1, true, "topk:k=0.2"},
    {"d_psgd", 1, true, "expo"},
    {"hop:graph=double_ring", 1, true, "int8"},
    {"hop:notify_ack", 1, true, "eden:bits=2"},
    {"hop:backup=1,tokens=3", 3, false, "eden:bits=4"},
    {"hop:staleness=5,tokens=3,graph=chords", 3, false, "int4"},
    {"hop:staleness=3,serial", 4, false, "blockint:bound=2^-20"},
    {"hop:backup=1,skip=10,tokens=8,trigger=3,graph=double_ring", 8, false, "eden:bits=4"},
    {"hop:staleness=3,backup=1,skip=10,tokens=6", 6, false, "eden:bits=4"},
    {"ad_psgd", UNBOUNDED, true, NULL},
    {"ad_psgd", UNBOUNDED, true, "expo"},
    {"ad_psgd:graph=ring", UNBOUNDED, true, NULL},
    {"ad_psgd:blocking", UNBOUNDED, true, NULL},
    {"ad_psgd:blocking,still", UNBOUNDED, true, NULL},
    {"ad_psgd:all", UNBOUNDED, true, NULL},
    {"ad_psgd:split,graph=double_ring,all", UNBOUNDED, true, NULL},
    {"ad_psgd:blocking,all,split", UNBOUNDED, true, NULL},
};
enum { FORMS = sizeof forms / sizeof *forms };

static shoal_sim_desc describe(const char *spec, const char *codec)
{
    static const shoal_tensor tensor = {.key = 1, .count = 60, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.sync = spec;
    desc.codec = codec;
    desc.workers = WORKERS;
    desc.iterations = 30;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.network = "links:rate=1mbit";
    desc.seed = check_seed();
    return desc;
}

static shoal_sim *open_sim(const shoal_sim_desc *desc)
{
    shoal_sim *sim;
    assert_ok(shoal_sim_create(desc, &sim));
    return sim;
}

/* ---------------------------------------------------------------- gaps */

typedef struct gaps {
    uint32_t distance[WORKERS][WORKERS];
    uint64_t most[WORKERS][WORKERS];
} gaps;

static void note_gaps(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    gaps *g = ctx;
    (void)event;
    for (uint32_t b = 0; b < WORKERS; b++) {
        uint64_t mine = sim->nodes[endpoint].iteration, other = sim->nodes[b].iteration;
        if (mine > other && mine - other > g->most[endpoint][b])
            g->most[endpoint][b] = mine - other;
    }
}

static const char *graph_of(const char *spec)
{
    static const char *const names[] = {"chords", "double_ring", "complete",
                                        "parity", "one_way",     "exponential"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(spec, names[i]) != NULL)
            return names[i];
    return "ring";
}

static void no_gap_exceeds_its_bound(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        shoal_sim_desc desc = describe(forms[f].spec, forms[f].codec);
        shoali_rng rng = {check_seed(), shoali_mix(31, f), 0};
        uint64_t largest = 0, bound = 0;
        shoali_graph graph;
        gaps g;
        assert_ok(shoali_graph_open(graph_of(forms[f].spec), WORKERS, &graph));
        for (int run = 0; run < 12; run++) {
            char compute[96], network[96];
            snprintf(compute, sizeof compute, "fixed:ms=10,jitter=0.5,random=%dx:0.2,slow=%u:%dx",
                     1 + (int)(shoali_rng_next(&rng) % 20),
                     (uint32_t)(shoali_rng_next(&rng) % WORKERS),
                     1 + (int)(shoali_rng_next(&rng) % 8));
            snprintf(network, sizeof network, "links:rate=1mbit,latency_us=%d,slow=%u:%dx",
                     (int)(shoali_rng_next(&rng) % 9000),
                     (uint32_t)(shoali_rng_next(&rng) % WORKERS),
                     1 + (int)(shoali_rng_next(&rng) % 20));
            desc.compute = compute;
            desc.network = network;
            desc.seed = shoali_rng_next(&rng) | 1;
            memset(&g, 0, sizeof g);
            for (uint32_t a = 0; a < WORKERS; a++)
                shoali_graph_distances(&graph, a, g.distance[a]);
            shoal_sim *sim = open_sim(&desc);
            sim->test.on_event = note_gaps;
            sim->test.ctx = &g;
            assert_ok(shoal_sim_run(sim));
            for (uint32_t a = 0; a < WORKERS; a++)
                for (uint32_t b = 0; b < WORKERS; b++) {
                    assert_true(g.most[a][b] <= (uint64_t)forms[f].per_edge * g.distance[a][b]);
                    largest = g.most[a][b] > largest ? g.most[a][b] : largest;
                }
            if (forms[f].per_edge < UNBOUNDED) {
                bound = sim->protocol.row->max_gap(&sim->nodes[0].world);
                assert_int_equal(bound, forms[f].per_edge * shoali_graph_diameter(&graph));
            }
            shoal_sim_destroy(sim);
        }
        assert_true(largest > 0);
        shoali_graph_close(&graph);
    }
}

/* ---------------------------------------------------------------- numbers */

typedef struct ledger {
    double gradients[60];
} ledger;

static void note_gradients(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    ledger *l = ctx;
    for (size_t j = 0; event->kind == SHOALI_EV_READY && j < sim->count; j++)
        l->gradients[j] += (double)sim->nodes[endpoint].tensors.grads[j];
}

/* All end with the same bits; where the weights are doubly stochastic, where plain SGD on all
 * gradients together would have ended. */
static void the_end_is_common_and_the_mean_is_conserved(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        shoal_sim_desc desc = describe(forms[f].spec, forms[f].codec);
        ledger l = {{0}};
        float start[60];
        desc.compute = "fixed:ms=10,jitter=0.4,slow=1:3x";
        desc.problem = "quadratic:lr=0.125,noise=0.5";
        shoal_sim *sim = open_sim(&desc);
        sim->test.on_event = note_gradients;
        sim->test.ctx = &l;
        shoali_problem_start(sim->problem, start);
        assert_ok(shoal_sim_run(sim));
        for (size_t j = 0; j < sim->count; j++) {
            const float *x = sim->nodes[0].tensors.params;
            double wanted = (double)start[j] - 0.125 * l.gradients[j] / WORKERS;
            assert_true(!forms[f].mean || fabs((double)x[j] - wanted) < 1e-5);
            for (uint32_t w = 1; w < WORKERS; w++)
                assert_true(sim->nodes[w].tensors.params[j] == x[j]);
        }
        shoal_sim_destroy(sim);
    }
}

static double excess(const form *f, const char *compute)
{
    shoal_sim_desc desc = describe(f->spec, f->codec);
    shoal_sim_results r = {.size = sizeof r};
    desc.compute = compute;
    desc.iterations = 150;
    desc.problem = "quadratic:lr=0.2,noise=0.01,spread=0.3,condition=3";
    shoal_sim *sim = open_sim(&desc);
    double before = shoali_problem_excess(sim->problem, sim->nodes[0].tensors.params);
    assert_ok(shoal_sim_run(sim));
    assert_ok(shoal_sim_results_get(sim, &r));
    shoal_sim_destroy(sim);
    return r.excess / before;
}

static void a_quadratic_is_solved_in_every_form(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        assert_true(excess(&forms[f], "fixed:ms=10,jitter=0.1") < 5e-3);
        assert_true(excess(&forms[f], "fixed:ms=10,jitter=0.1,random=6x") < 2e-2);
    }
}

/* ---------------------------------------------------------------- losses */

static void survivors_finish_without_the_lost(void **state)
{
    (void)state;
    static const uint32_t faults[] = {SHOALI_SIM_DIE, SHOALI_SIM_FREEZE, SHOALI_SIM_LEAVE};
    for (size_t f = 0; f < FORMS; f++) {
        shoal_sim_desc desc = describe(forms[f].spec, forms[f].codec);
        shoali_rng rng = {check_seed(), shoali_mix(32, f), 0};
        desc.compute = "fixed:ms=10,jitter=0.5,slow=2:4x";
        desc.iterations = 8;
        if (shoali_graph_is_directed(graph_of(forms[f].spec)))
            continue; /* without_balance_nobody_goes_on() */
        for (int run = 0; run < 60; run++) {
            shoal_sim *sim = open_sim(&desc);
            uint32_t victim = (uint32_t)(shoali_rng_next(&rng) % WORKERS);
            sim->test.inject_at = shoali_rng_next(&rng) % 1200;
            sim->test.inject_fault = faults[run % 3];
            sim->test.inject_endpoint = victim;
            shoal_status status = shoal_sim_run(sim);
            assert_true(status == SHOAL_OK || status == SHOAL_ECANCELLED);
            for (uint32_t w = 0; w < WORKERS; w++)
                if (w != victim) {
                    assert_int_equal(sim->nodes[w].end, SHOAL_SIM_DONE);
                    assert_int_equal(sim->nodes[w].done, 8);
                }
            shoal_sim_destroy(sim);
        }
    }
}

/* Nobody hangs, and nobody trains on in a graph that leans; who was through by then is. */
static void without_balance_nobody_goes_on(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMS; f++) {
        shoal_sim_desc desc = describe(forms[f].spec, forms[f].codec);
        shoali_rng rng = {check_seed(), shoali_mix(33, f), 0};
        uint32_t ended = 0;
        desc.iterations = 8;
        for (int run = 0; run < 30 && shoali_graph_is_directed(graph_of(forms[f].spec)); run++) {
            shoal_sim *sim = open_sim(&desc);
            sim->test.inject_at = shoali_rng_next(&rng) % 600;
            sim->test.inject_fault = run % 2 == 0 ? SHOALI_SIM_DIE : SHOALI_SIM_LEAVE;
            sim->test.inject_endpoint = (uint32_t)(shoali_rng_next(&rng) % WORKERS);
            assert_true(shoal_sim_run(sim) != SHOAL_ETIMEDOUT);
            for (uint32_t w = 0; w < WORKERS; w++)
                if (sim->nodes[w].end == SHOAL_SIM_FAILED) {
                    assert_int_equal(sim->nodes[w].status, SHOAL_EPEER);
                    ended += strstr(sim->nodes[w].text, "is directed") != NULL;
                } else if (w != sim->test.inject_endpoint) {
                    assert_int_equal(sim->nodes[w].done, 8);
                }
            shoal_sim_destroy(sim);
        }
        assert_true(ended > 0 || !shoali_graph_is_directed(graph_of(forms[f].spec)));
    }
}

/* Two circles that meet in worker 0, which hears two and is heard by two: weights are a third. */
static void a_file_of_arrows_conserves_the_mean(void **state)
{
    (void)state;
    static const char arrows[] = "0 > 1\n1 > 2\n2 > 3\n3 > 0\n0 > 4\n4>5\n5 >6\n6> 7\n7 > 0\n";
    static const char leaning[] = "0 > 1\n1 > 2\n2 > 3\n3 > 0\n0 > 4\n4 > 5\n5 > 6\n6 > 7\n7 > 1\n";
    char spec[300];
    ledger l = {{0}};
    float start[60];
    (void)scratch_dir_make();
    snprintf(spec, sizeof spec, "d_psgd:graph=%s", scratch_path("arrows.txt"));
    scratch_write("arrows.txt", arrows, sizeof arrows - 1);
    shoal_sim_desc desc = describe(spec, NULL);
    desc.compute = "fixed:ms=10,jitter=0.4,slow=1:3x";
    desc.problem = "quadratic:lr=0.125,noise=0.5";
    shoal_sim *sim = open_sim(&desc);
    sim->test.on_event = note_gradients;
    sim->test.ctx = &l;
    shoali_problem_start(sim->problem, start);
    assert_ok(shoal_sim_run(sim));
    for (size_t j = 0; j < sim->count; j++)
        assert_true(fabs((double)sim->nodes[0].tensors.params[j] -
                         ((double)start[j] - 0.125 * l.gradients[j] / WORKERS)) < 1e-5);
    shoal_sim_destroy(sim);
    scratch_write("arrows.txt", leaning, sizeof leaning - 1);
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    assert_error_has("worker 0 hears 1 and is heard by 2");
    scratch_dir_remove();
}

/* Its updates are refused by everybody who gets one; the others go on. */
static void a_nan_stops_who_made_it_and_goes_no_further(void **state)
{
    (void)state;
    shoal_sim_desc desc = describe("hop", NULL);
    desc.problem = "quadratic";
    desc.faults = "plan:nan=2@4";
    shoal_sim *sim = open_sim(&desc);
    assert_status(shoal_sim_run(sim), SHOAL_ENOTFINITE);
    assert_int_equal(sim->nodes[2].status, SHOAL_ENOTFINITE);
    assert_non_null(strstr(sim->nodes[2].text, "worker 2, tensor 1, element 0"));
    for (uint32_t w = 0; w < WORKERS; w++) {
        const float *x = sim->nodes[w].tensors.params;
        bool neighbour = w >= 1 && w <= 3;
        assert_true(neighbour || sim->nodes[w].end == SHOAL_SIM_DONE);
        for (size_t j = 0; j < sim->count && sim->nodes[w].end == SHOAL_SIM_DONE; j++)
            assert_true(isfinite(x[j]));
    }
    shoal_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(no_gap_exceeds_its_bound),
        CHECK_TEST(the_end_is_common_and_the_mean_is_conserved),
        CHECK_TEST(a_quadratic_is_solved_in_every_form),
        CHECK_TEST(survivors_finish_without_the_lost),
        CHECK_TEST(without_balance_nobody_goes_on),
        CHECK_TEST(a_file_of_arrows_conserves_the_mean),
        CHECK_TEST(a_nan_stops_who_made_it_and_goes_no_further),
    };
    return CHECK_RUN(tests);
}
