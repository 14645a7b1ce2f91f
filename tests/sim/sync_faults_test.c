/* SPDX-License-Identifier: Apache-2.0 */
/* Fault search: every protocol of the table, in all its forms, under random speeds, delays, loss,
 * cuts, deaths, freezes, goodbyes and returns. Whatever happens everybody alive ends, with an error
 * that fits; staleness stays within its promise; what conserves the mean conserves it; every
 * message is delivered once and in order, or its sender or receiver is gone; and a run repeats bit
 * for bit.
 *
 * SHOAL_SOAK_RUNS=200000 searches longer (make soak); SHOAL_FAULT_SEED=17 runs that one alone;
 * SHOAL_FAULT_SYNC=ripples:random,group=3 searches that form alone. */
#include "driver/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

#include "base/arena.h"
#include "base/rng.h"

enum { SEEDS = 6000, TENSORS = 5, ENDPOINTS_MAX = 12 };

/* Forms beyond the rows' defaults. */
static const char *const forms[] = {"param_server:servers=2",
                                    "param_server:dedicated",
                                    "param_server:servers=2,dedicated",
                                    "ripples:static",
                                    "ripples:random,group=3",
                                    "ripples:smart,laggards",
                                    "hop:backup=1,skip=4,tokens=3",
                                    "hop:staleness=2,graph=chords",
                                    "hop:notify_ack",
                                    "ad_psgd:blocking",
                                    "ad_psgd:all"};
enum { FORMS = sizeof forms / sizeof *forms };

static const char *spec_of(uint64_t draw)
{
    size_t rows = shoali_sync_count(), at = (size_t)(draw % (rows + FORMS));
    const char *alone = getenv("SHOAL_FAULT_SYNC");
    if (alone != NULL)
        return alone;
    return at < rows ? shoali_sync_row_at(at)->name : forms[at - rows];
}

/* What a run is drawn from its seed. */
typedef struct plan {
    char compute[96], network[128], faults[512];
    const char *sync;
    uint32_t workers;
    size_t bucket_bytes;
} plan;

/* Up to two entries "endpoint@second" within the run's usual time, mostly none. */
static void random_list(shoali_rng *rng, uint32_t count, double span_s, char *out, size_t out_bytes)
{
    size_t used = 0;
    uint64_t draw = shoali_rng_next(rng) % 6, entries = draw < 3 ? 0 : draw < 5 ? 1 : 2;
    out[0] = '\0';
    for (uint64_t i = 0; i < entries; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%u@%.4f", i > 0 ? "/" : "",
                                 (unsigned)(shoali_rng_next(rng) % count),
                                 span_s * shoali_rng_next_double(rng));
}

static void draw(uint64_t seed, plan *p)
{
    shoali_rng rng = {check_seed(), seed, 0};
    char die[64], stop[64], leave[64], rejoin[64] = "", cut[64] = "";
    double from_s = 0.06 * shoali_rng_next_double(&rng);
    double cut_s = 0.03 * shoali_rng_next_double(&rng);
    p->workers = 2 + (uint32_t)(shoali_rng_next(&rng) % 7);
    p->sync = spec_of(shoali_rng_next(&rng));
    p->bucket_bytes = 1 + shoali_rng_next(&rng) % 900;
    random_list(&rng, p->workers + 1, 0.06, die, sizeof die); /* + 1: perhaps a server */
    random_list(&rng, p->workers + 1, 0.06, stop, sizeof stop);
    random_list(&rng, p->workers, 0.06, leave, sizeof leave);
    if (shoali_rng_next(&rng) % 3 == 0)
        snprintf(cut, sizeof cut, "%u@%.4f-%.4f", (unsigned)(shoali_rng_next(&rng) % p->workers),
                 from_s, from_s + cut_s + 1e-4);
    bool comes_back = shoali_rng_next(&rng) % 2 == 0;
    for (uint32_t w = 0, used = 0; comes_back && w < p->workers; w++) /* who is there stays */
        used += (uint32_t)snprintf(rejoin + used, sizeof rejoin - used, "%s%u@%.4f",
                                   w > 0 ? "/" : "", w, 0.12 * shoali_rng_next_double(&rng));
    bool reform = strcmp(p->sync, "all_reduce") == 0 && shoali_rng_next(&rng) % 4 != 0;
    snprintf(p->faults, sizeof p->faults,
             "plan:die=%s,stop=%s,leave=%s,rejoin=%s,cut=%s,detect_ms=%.3f%s", die, stop, leave,
             rejoin, cut, 20 * shoali_rng_next_double(&rng), reform ? ",reform" : "");
    snprintf(p->compute, sizeof p->compute, "fixed:ms=%.3f,jitter=0.5,random=6x:0.1",
             8 * shoali_rng_next_double(&rng));
    unsigned jitter_us = (unsigned)(shoali_rng_next(&rng) % 3 * 500);
    const char *loss = shoali_rng_next(&rng) % 3 == 0 ? "0.02" : "0";
    unsigned hosts = 1 + (unsigned)(shoali_rng_next(&rng) % p->workers);
    snprintf(p->network, sizeof p->network,
             "links:hosts=%u,rate=4mbit,latency_us=300,jitter_us=%u,loss=%s", hosts, jitter_us,
             loss);
}

/* Messages by pair. */
typedef struct ledger {
    uint64_t epoch; /* what was under way when it began reached nobody: all machines had ended */
    uint64_t sent[ENDPOINTS_MAX][ENDPOINTS_MAX], heard[ENDPOINTS_MAX][ENDPOINTS_MAX];
} ledger;

static void watch_send(void *ctx, uint32_t from, uint32_t to)
{
    ledger *l = ctx;
    for (uint32_t i = 0; i < ENDPOINTS_MAX; i++)
        if (i == to || (to == SHOALI_EVERYBODY && i != from))
            l->sent[from][i]++;
}

/* What arrived is no more than what was sent, and what did not arrive had nobody to arrive at. */
static void check_messages(const shoal_sim *sim, const ledger *l, bool last)
{
    for (uint32_t from = 0; from < sim->size; from++)
        for (uint32_t to = 0; to < sim->size; to++) {
            assert_true(l->heard[from][to] <= l->sent[from][to]);
            if (last && l->heard[from][to] < l->sent[from][to])
                assert_int_equal(sim->nodes[to].phase, SHOALI_SIM_ENDED);
        }
}

static void watch(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    ledger *l = ctx;
    if (event->kind == SHOALI_EV_START && event->world->epoch > l->epoch) {
        uint64_t epoch = event->world->epoch;
        check_messages(sim, l, false);
        *l = (ledger){.epoch = epoch};
    }
    if (event->kind != SHOALI_EV_MESSAGE)
        return;
    assert_true(event->message.peer < sim->size && event->message.peer != endpoint);
    assert_true(sim->nodes[endpoint].phase != SHOALI_SIM_ENDED);
    l->heard[event->message.peer][endpoint]++;
}

static const shoal_tensor *tensors(void)
{
    static const size_t counts[TENSORS] = {40, 3, 90, 1, 60};
    static shoal_tensor table[TENSORS];
    for (size_t i = 0, at = 0; i < TENSORS; at += counts[i], i++)
        table[i] = (shoal_tensor){.key = i + 1, .offset = at, .count = counts[i], .lr_scale = 1};
    return table;
}

static bool keeps_staleness(const shoal_sim *sim, const shoal_sim_results *r)
{
    return r->staleness_max <= sim->protocol.row->max_staleness(sim->protocol.params);
}

typedef struct outcome {
    shoal_status status;
    uint64_t hash, epochs;
} outcome;

static const char *repeat(uint64_t seed, const plan *p)
{
    static char text[1024];
    snprintf(text, sizeof text,
             "SHOAL_TEST_SEED=%llu SHOAL_FAULT_SEED=%llu: %u workers, %s, %s, %s, %s",
             (unsigned long long)check_seed(), (unsigned long long)seed, p->workers, p->sync,
             p->compute, p->network, p->faults);
    return text;
}

static outcome run(uint64_t seed)
{
    plan p;
    ledger l = {0};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results r = {.size = sizeof r};
    shoal_sim *sim;
    draw(seed, &p);
    desc.workers = p.workers;
    desc.sync = p.sync;
    desc.network = p.network;
    desc.faults = p.faults;
    desc.compute = p.compute;
    desc.tensors = tensors();
    desc.tensor_count = TENSORS;
    desc.bucket_bytes = p.bucket_bytes;
    desc.seed = seed + 1;
    assert_ok(shoal_sim_create(&desc, &sim));
    sim->test.on_event = watch;
    sim->test.on_send = watch_send;
    sim->test.ctx = &l;
    outcome o = {.status = shoal_sim_run(sim)};
    bool fits = o.status == SHOAL_OK || o.status == SHOAL_EPEER || o.status == SHOAL_ECANCELLED;
    if (!fits)
        print_error("%s: %s\n", repeat(seed, &p), shoal_last_error()->text);
    assert_true(fits);
    for (uint32_t e = 0; e < sim->size; e++)
        assert_int_equal(sim->nodes[e].phase, SHOALI_SIM_ENDED);
    assert_ok(shoal_sim_results_get(sim, &r));
    if (!keeps_staleness(sim, &r))
        print_error("%s: staleness %llu\n", repeat(seed, &p), (unsigned long long)r.staleness_max);
    assert_true(keeps_staleness(sim, &r));
    check_messages(sim, &l, true);
    o.hash = r.log_hash;
    o.epochs = r.epochs;
    shoal_sim_destroy(sim);
    return o;
}

static void everybody_ends_whatever_happens(void **state)
{
    (void)state;
    uint32_t ended[64] = {0};
    uint64_t returns = 0;
    uint64_t only = check_number("SHOAL_FAULT_SEED", UINT64_MAX);
    uint64_t seeds = check_number("SHOAL_SOAK_RUNS", SEEDS);
    if (only != UINT64_MAX) {
        (void)run(only);
        return;
    }
    for (uint64_t seed = 0; seed < seeds; seed++) {
        const outcome o = run(seed);
        ended[o.status]++;
        returns += o.epochs;
        if (seed % 50 == 0) {
            const outcome again = run(seed);
            assert_int_equal(again.status, o.status);
            assert_true(again.hash == o.hash);
        }
    }
    print_message("%llu runs: %u ok, %u lost a peer, %u ended early; %llu new epochs\n",
                  (unsigned long long)seeds, ended[SHOAL_OK], ended[SHOAL_EPEER],
                  ended[SHOAL_ECANCELLED], (unsigned long long)returns);
    if (getenv("SHOAL_FAULT_SYNC") != NULL) /* one form need not end in all ways */
        return;
    assert_true(ended[SHOAL_OK] > seeds / 100); /* all ways to end were seen */
    assert_true(ended[SHOAL_EPEER] > seeds / 50);
    assert_true(ended[SHOAL_ECANCELLED] > seeds / 100);
    assert_true(returns > seeds / 20);
}

/* Without gradients of their own after the first iteration, workers that go on by exchange alone
 * keep their mean: what the trait MEAN says, under delays, loss and cuts. */
static void the_mean_stays_where_it_is(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        plan p;
        uint32_t count;
        shoal_sim *sim;
        shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
        draw(seed, &p);
        desc.workers = p.workers;
        desc.sync = p.sync;
        desc.network = p.network;
        desc.compute = p.compute;
        desc.problem = "mixing";
        desc.tensors = tensors();
        desc.tensor_count = TENSORS;
        desc.seed = seed + 1;
        assert_ok(shoal_sim_create(&desc, &sim));
        const shoal_status status = shoal_sim_run(sim);
        if (status == SHOAL_EPEER && strstr(shoal_last_error()->text, "have cut graph") != NULL) {
            shoal_sim_destroy(sim); /* by those whom the network kept away for too long */
            continue;
        }
        assert_ok(status);
        if ((sim->protocol.row->traits & SHOALI_SYNC_MEAN) != 0 &&
            (sim->protocol.row->traits & SHOALI_SYNC_OWNER) == 0) {
            for (size_t j = 0; j < 40; j += 13) {
                double mean = 0, expected = 0;
                float g;
                for (uint32_t w = 0; w < p.workers; w++) {
                    shoali_problem_gradient(sim->problem, w, 0, NULL, j, 1, &g);
                    expected -= (double)g / p.workers;
                    mean += (double)shoal_sim_params(sim, w, &(size_t){0})[j] / p.workers;
                }
                assert_true(fabs(mean - expected) < 1e-5);
            }
        }
        (void)shoal_sim_curve(sim, &count);
        assert_true(count > 0);
        shoal_sim_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(everybody_ends_whatever_happens),
        CHECK_TEST(the_mean_stays_where_it_is),
    };
    return CHECK_RUN(tests);
}
