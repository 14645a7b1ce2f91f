/* SPDX-License-Identifier: Apache-2.0 */
/* What every protocol of the table promises, in simulation: it never hangs, whatever the speeds and
 * whoever is lost or leaves, at any moment; it keeps its staleness; it conserves the mean; it
 * converges. */
#include "driver/sim.h"

#include <math.h>

#include "support/check.h"
#include "support/example_sync.h"

#include "base/arena.h"
#include "base/rng.h"

/* Specs beyond the rows' defaults: their variants, and the example of docs/add-sync.md. */
static const char *const variants[] = {"param_server:servers=3",
                                       "param_server:dedicated,servers=2",
                                       "averaging:every=3",
                                       "param_server:dedicated,async",
                                       "param_server:dedicated,servers=2,staleness=1",
                                       "param_server:dedicated,backup=1",
                                       "param_server:dedicated,servers=2,sequential",
                                       "local_sgd:every=3",
                                       "diloco:every=4,momentum=0.5",
                                       "diloco:every=6,fragments=3,delay=1,momentum=0.3",
                                       "diloco:every=4,momentum=0.3,quorum=2",
                                       "noloco:every=3",
                                       "diloco:every=4,momentum=0.3,trust=median",
                                       "ripples:static",
                                       "ripples:random,group=3",
                                       "ripples:random,division=random",
                                       "ripples:smart,laggards,section=2",
                                       "hop:backup=1,skip=4,tokens=3",
                                       "hop:staleness=2,graph=chords",
                                       "ad_psgd:blocking",
                                       "ad_psgd:all",
                                       "ad_psgd:blocking,still",
                                       "ad_psgd:blocking,all,split"};
/* And with codecs, which those that send models have in forms of their own. */
static const struct {
    const char *spec, *codec;
} coded[] = {{"d_psgd", "eden:bits=4"},
             {"d_psgd:graph=chords,serial", "topk:k=0.3"},
             {"hop", "expo"},
             {"hop:backup=1,skip=4,tokens=3", "eden:bits=4"},
             {"hop:staleness=2,graph=chords", "int8"},
             {"hop:notify_ack", "blockint:bound=2^-20"},
             {"noloco:every=2", "expo"},
             {"ad_psgd", "expo"},
             {"ad_psgd:blocking,all,split", "expo"},
             {"ripples", "expo"}};
enum {
    VARIANTS = sizeof variants / sizeof *variants,
    CODED = sizeof coded / sizeof *coded,
    TENSORS = 7
};

typedef struct one {
    const char *spec, *codec; /* codec NULL: none */
    const shoali_sync_row *row;
    uint32_t traits; /* of these keys */
} one;

static size_t specs(void)
{
    return shoali_sync_count() + VARIANTS + CODED;
}

static one spec_at(size_t i)
{
    size_t rows = shoali_sync_count();
    one o = {.spec = i < rows              ? shoali_sync_row_at(i)->name
                     : i < rows + VARIANTS ? variants[i - rows]
                                           : coded[i - rows - VARIANTS].spec,
             .codec = i < rows + VARIANTS ? NULL : coded[i - rows - VARIANTS].codec};
    shoali_protocol protocol;
    if (strncmp(o.spec, "averaging", 9) == 0)
        assert_ok(shoali_sync_open_row(&example_sync_averaging, o.spec, &protocol));
    else
        assert_ok(shoali_sync_open(o.spec, &protocol));
    o.row = protocol.row;
    o.traits = protocol.traits;
    shoali_sync_close(&protocol);
    return o;
}

static uint32_t promise(const one *o)
{
    shoali_protocol protocol;
    assert_ok(shoali_sync_open_row(o->row, o->spec, &protocol));
    uint32_t staleness = o->row->max_staleness(protocol.params);
    shoali_sync_close(&protocol);
    return staleness;
}

static const shoal_tensor *tensors(void)
{
    static const size_t counts[TENSORS] = {5, 1, 30, 2, 64, 9, 3};
    static shoal_tensor table[TENSORS];
    size_t at = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        table[i] = (shoal_tensor){.key = i + 1, .offset = at, .count = counts[i], .lr_scale = 1};
        at += counts[i];
    }
    return table;
}

static shoal_sim_desc describe(const one *o)
{
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.sync = o->spec;
    desc.codec = o->codec;
    desc.tensors = tensors();
    desc.tensor_count = TENSORS;
    desc.bucket_bytes = 100;
    desc.network = "links:rate=1mbit";
    desc.seed = check_seed();
    return desc;
}

static shoal_sim *open_sim(const one *o, const shoal_sim_desc *desc)
{
    shoal_sim *sim;
    assert_ok(shoali_sim_create_row(desc, o->row, &sim));
    return sim;
}

static shoal_sim_results results(const shoal_sim *sim)
{
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_results_get(sim, &r));
    return r;
}

/* ---------------------------------------------------------------- speeds */

/* Any worker up to 50 times slower than another, any latency, any size: every worker finishes. */
static void no_deadlock_at_any_speed(void **state)
{
    (void)state;
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoali_rng rng = {check_seed(), shoali_mix(17, i), 0};
        for (int trial = 0; trial < 60; trial++) {
            shoal_sim_desc desc = describe(&o);
            char compute[96], network[96];
            desc.workers = 3 + (uint32_t)(shoali_rng_next(&rng) % 7);
            snprintf(compute, sizeof compute,
                     "fixed:ms=%d,jitter=0.3,backward=%.2f,slow=0:%dx/2:%dx",
                     (int)(shoali_rng_next(&rng) % 3), shoali_rng_next_double(&rng),
                     1 + (int)(shoali_rng_next(&rng) % 50), 1 + (int)(shoali_rng_next(&rng) % 50));
            snprintf(network, sizeof network, "links:rate=1mbit,latency_us=%d,slow=1:%dx",
                     (int)(shoali_rng_next(&rng) % 20000), 1 + (int)(shoali_rng_next(&rng) % 9));
            desc.compute = compute;
            desc.network = network;
            desc.bucket_bytes = 1 + shoali_rng_next(&rng) % 600;
            desc.seed = shoali_rng_next(&rng) | 1;
            shoal_sim *sim = open_sim(&o, &desc);
            assert_ok(shoal_sim_run(sim));
            shoal_sim_results r = results(sim);
            assert_int_equal(r.iterations_min, 10);
            assert_int_equal(r.iterations_max, 10);
            assert_true(r.staleness_max <= promise(&o));
            if (o.row->max_gap != NULL)
                assert_true(r.gap_max <= o.row->max_gap(&sim->nodes[0].world));
            shoal_sim_destroy(sim);
        }
    }
}

static void equal_descriptions_run_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoal_sim_desc desc = describe(&o);
        uint64_t hash[3];
        desc.compute = "fixed:ms=20,jitter=0.2";
        desc.problem = "quadratic:noise=0.1";
        for (int run = 0; run < 3; run++) {
            desc.seed += run == 2;
            shoal_sim *sim = open_sim(&o, &desc);
            assert_ok(shoal_sim_run(sim));
            shoal_sim_results r = results(sim);
            hash[run] = shoali_mix(r.log_hash, shoali_hash(&r.excess, sizeof r.excess, 0));
            shoal_sim_destroy(sim);
        }
        assert_true(hash[0] == hash[1]);
        assert_true(hash[0] != hash[2]);
    }
}

/* ---------------------------------------------------------------- numbers */

typedef struct ledger {
    double gradients[256]; /* sum over workers and iterations of what they computed */
} ledger;

static void note_gradients(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    ledger *l = ctx;
    if (event->kind != SHOALI_EV_READY || endpoint >= sim->workers)
        return;
    for (size_t j = event->range.offset; j < event->range.offset + event->range.count; j++)
        l->gradients[j] += (double)sim->nodes[endpoint].tensors.grads[j];
}

/* Plain SGD: sum of parameters = workers * start - lr * sum of all gradients, however they went. */
static void the_mean_moves_by_the_mean_gradient(void **state)
{
    (void)state;
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoal_sim_desc desc = describe(&o);
        ledger l = {{0}};
        float start[256];
        if ((o.traits & SHOALI_SYNC_MEAN) == 0)
            continue;
        desc.workers = 5;
        desc.iterations = 12;
        desc.compute = "fixed:ms=10,jitter=0.4,slow=1:3x";
        desc.problem = "quadratic:lr=0.125,noise=0.5";
        shoal_sim *sim = open_sim(&o, &desc);
        sim->test.on_event = note_gradients;
        sim->test.ctx = &l;
        shoali_problem_start(sim->problem, start);
        assert_ok(shoal_sim_run(sim));
        for (size_t j = 0; j < sim->count; j++) {
            double sum = 0;
            for (uint32_t w = 0; w < sim->workers; w++)
                sum += (double)sim->nodes[w].tensors.params[j];
            double wanted = 5 * (double)start[j] - 0.125 * l.gradients[j];
            assert_true(fabs(sum - wanted) < 1e-4);
        }
        shoal_sim_destroy(sim);
    }
}

/* One worker that sees the mean of all gradients, in double: what exact protocols have to equal. */
static void reference(const shoal_sim *sim, uint64_t iterations, double *x)
{
    float at[256], g[256];
    double mean[256];
    shoali_problem_start(sim->problem, at);
    for (size_t j = 0; j < sim->count; j++)
        x[j] = (double)at[j];
    for (uint64_t k = 0; k < iterations; k++) {
        memset(mean, 0, sizeof mean);
        for (size_t j = 0; j < sim->count; j++)
            at[j] = (float)x[j];
        for (uint32_t w = 0; w < sim->workers; w++) {
            shoali_problem_gradient(sim->problem, w, k, at, 0, sim->count, g);
            for (size_t j = 0; j < sim->count; j++)
                mean[j] += (double)g[j] / sim->workers;
        }
        for (size_t j = 0; j < sim->count; j++)
            x[j] -= 0.2 * mean[j];
    }
}

static void a_quadratic_converges_and_exact_rows_equal_one_worker(void **state)
{
    (void)state;
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoal_sim_desc desc = describe(&o);
        double wanted[256];
        desc.workers = 4;
        desc.iterations = 120;
        desc.compute = "fixed:ms=10,jitter=0.1";
        desc.problem = "quadratic:lr=0.2,noise=0.01,spread=0.1,condition=3";
        shoal_sim *sim = open_sim(&o, &desc);
        double before = shoali_problem_excess(sim->problem, sim->nodes[0].tensors.params);
        reference(sim, desc.iterations, wanted);
        assert_ok(shoal_sim_run(sim));
        bool exact = (o.traits & SHOALI_SYNC_EXACT) != 0; /* others keep a bias of the spread */
        assert_true(results(sim).excess < (exact ? 1e-4 : 5e-4) * before);
        for (uint32_t w = 0; (o.traits & SHOALI_SYNC_EXACT) != 0 && w < sim->workers; w++) {
            const float *x = sim->nodes[w].tensors.params;
            assert_memory_equal(x, sim->nodes[0].tensors.params, sim->count * sizeof *x);
            for (size_t j = 0; j < sim->count; j++)
                assert_true(fabs((double)x[j] - wanted[j]) < 2e-6);
        }
        shoal_sim_destroy(sim);
    }
}

static void a_nan_has_the_same_consequence_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * specs(); i++) {
        const one o = spec_at(i / 2);
        shoal_sim_desc desc = describe(&o);
        if ((o.traits & SHOALI_SYNC_EXACT) == 0)
            continue;
        desc.problem = "quadratic";
        desc.faults = "plan:nan=2@4";
        desc.compute = "fixed:ms=10,jitter=0.3";
        desc.nonfinite = i % 2 == 0 ? SHOAL_NONFINITE_STOP : SHOAL_NONFINITE_SKIP;
        shoal_sim *sim = open_sim(&o, &desc);
        if (desc.nonfinite == SHOAL_NONFINITE_SKIP) {
            assert_ok(shoal_sim_run(sim));
            assert_int_equal(results(sim).skipped, 4);
        } else {
            assert_status(shoal_sim_run(sim), SHOAL_ENOTFINITE);
            assert_error_has("worker 2, tensor 1, element 0");
        }
        for (uint32_t w = 0; w < sim->workers; w++) {
            const shoali_sim_node *node = &sim->nodes[w];
            assert_string_equal(node->text, sim->nodes[0].text);
            assert_memory_equal(node->tensors.params, sim->nodes[0].tensors.params,
                                sim->count * sizeof(float));
            assert_true(isfinite(node->tensors.params[0]));
        }
        shoal_sim_destroy(sim);
    }
}

/* What a chunk that is not finite has lost at its owner is the whole step of its elements, momentum
 * and all: every element is either stepped or left out, as one worker that sees the sum would. */
static void an_owner_steps_what_it_commits(void **state)
{
    (void)state;
    static const char *const specs[] = {"param_server", "param_server:servers=3",
                                        "param_server:dedicated"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        one o = {.spec = specs[i]};
        float x[2][256], v[2][256] = {{0}}, g[256], sum[256];
        size_t left_out = 0, stepped = 0;
        o.row = spec_at(0).row;
        for (size_t r = 0; strcmp(o.row->name, "param_server") != 0; r++)
            o.row = shoali_sync_row_at(r);
        shoal_sim_desc desc = describe(&o);
        desc.workers = 4;
        desc.iterations = 9;
        desc.bucket_bytes = 1 << 20; /* one bucket of many chunks */
        desc.chunk_elems = 8;
        desc.problem = "quadratic:lr=0.1,momentum=0.9";
        desc.faults = "plan:nan=2@4";
        desc.nonfinite = SHOAL_NONFINITE_SKIP;
        shoal_sim *sim = open_sim(&o, &desc);
        shoali_problem_start(sim->problem, x[0]);
        shoali_problem_start(sim->problem, x[1]);
        for (uint32_t how = 0; how < 2; how++) /* 0: iteration 4 is left out, 1: it is not */
            for (uint64_t k = 0; k < desc.iterations; k++) {
                memset(sum, 0, sizeof sum);
                for (uint32_t w = 0; w < desc.workers; w++) {
                    shoali_problem_gradient(sim->problem, w, k, x[how], 0, sim->count, g);
                    for (size_t j = 0; j < sim->count; j++)
                        sum[j] += g[j];
                }
                if (how == 1 || k != 4)
                    shoali_problem_step(sim->problem, v[how], x[how], sum, 0.25f, 0, sim->count,
                                        x[how]);
            }
        assert_ok(shoal_sim_run(sim));
        assert_int_equal(results(sim).skipped, desc.workers);
        for (size_t j = 0; j < sim->count; j++) {
            float is = sim->nodes[1].tensors.params[j];
            bool out = fabsf(is - x[0][j]) < 1e-5f, in = fabsf(is - x[1][j]) < 1e-5f;
            assert_true(out || in);
            left_out += out && !in;
            stepped += in && !out;
        }
        assert_true(left_out > 0 && left_out <= 8 && stepped > 50);
        shoal_sim_destroy(sim);
    }
}

/* ---------------------------------------------------------------- losses */

/* Everybody alive ends; who fails because of the loss says whose it was, and where the row promises
 * to survive it nobody does. */
static void check_end(const shoal_sim *sim, shoal_status status, uint32_t fault, uint32_t victim)
{
    bool survives = (sim->protocol.traits & SHOALI_SYNC_SURVIVES) != 0 &&
                    victim < sim->workers; /* servers are needed */
    char name[32];
    assert_true(status == SHOAL_OK || status == SHOAL_EPEER || status == SHOAL_ECANCELLED);
    snprintf(name, sizeof name, " %u", victim);
    for (uint32_t e = 0; e < sim->size; e++) {
        const shoali_sim_node *node = &sim->nodes[e];
        assert_int_equal(node->phase, SHOALI_SIM_ENDED);
        assert_true(node->end != SHOAL_SIM_RUNNING);
        assert_true(!survives || e == victim || node->end == SHOAL_SIM_DONE);
        if (node->end == SHOAL_SIM_FAILED && fault != SHOALI_SIM_LEAVE) {
            assert_int_equal(node->status, SHOAL_EPEER);
            assert_non_null(strstr(node->text, name));
        }
    }
}

static uint64_t count_events(const one *o, const shoal_sim_desc *desc)
{
    shoal_sim *sim = open_sim(o, desc);
    assert_ok(shoal_sim_run(sim));
    uint64_t events = results(sim).events;
    shoal_sim_destroy(sim);
    return events;
}

static void lose_somebody_at_every_event(uint32_t fault)
{
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoal_sim_desc desc = describe(&o);
        desc.iterations = 4;
        desc.compute = "fixed:ms=10,jitter=0.5";
        uint64_t events = count_events(&o, &desc);
        for (uint64_t at = 0; at < events; at++) {
            shoal_sim *sim = open_sim(&o, &desc);
            sim->test.inject_at = at;
            sim->test.inject_fault = fault;
            sim->test.inject_endpoint = (uint32_t)(at % sim->size);
            uint32_t victim = sim->test.inject_endpoint;
            check_end(sim, shoal_sim_run(sim), fault, victim);
            shoal_sim_destroy(sim);
        }
    }
}

static void a_death_at_any_event_ends_everybody(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_DIE);
}

static void a_frozen_peer_at_any_event_ends_everybody(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_FREEZE);
}

static void leaving_at_any_event_ends_everybody(void **state)
{
    (void)state;
    lose_somebody_at_every_event(SHOALI_SIM_LEAVE);
}

/* ---------------------------------------------------------------- memory */

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < specs(); i++) {
        const one o = spec_at(i);
        shoal_sim_desc desc = describe(&o);
        shoal_status status = SHOAL_ENOMEM;
        desc.iterations = 2;
        desc.problem = "quadratic";
        for (size_t k = 1; status != SHOAL_OK; k++) {
            shoal_sim *sim = NULL;
            (void)shoali_alloc_fail_at(k);
            status = shoali_sim_create_row(&desc, o.row, &sim);
            if (status == SHOAL_OK)
                status = shoal_sim_run(sim);
            (void)shoali_alloc_fail_at(0);
            assert_true(status == SHOAL_OK || status == SHOAL_ENOMEM);
            shoal_sim_destroy(sim);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(no_deadlock_at_any_speed),
        CHECK_TEST(equal_descriptions_run_alike),
        CHECK_TEST(the_mean_moves_by_the_mean_gradient),
        CHECK_TEST(a_quadratic_converges_and_exact_rows_equal_one_worker),
        CHECK_TEST(a_nan_has_the_same_consequence_everywhere),
        CHECK_TEST(an_owner_steps_what_it_commits),
        CHECK_TEST(a_death_at_any_event_ends_everybody),
        CHECK_TEST(a_frozen_peer_at_any_event_ends_everybody),
        CHECK_TEST(leaving_at_any_event_ends_everybody),
        CHECK_TEST(every_failed_allocation_is_reported),
    };
    return CHECK_RUN(tests);
}
