/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of seeds with several deaths, freezes and goodbyes at random moments, on every protocol
 * of the table: everybody alive ends, with an error that fits, and the run is the same when
 * repeated. */
#include "driver/sim.h"

#include "support/check.h"

#include "base/rng.h"

enum { SEEDS = 20000, TENSORS = 5 };

static const char *const specs[] = {"all_reduce",
                                    "param_server",
                                    "param_server:servers=2",
                                    "param_server:dedicated",
                                    "param_server:servers=2,dedicated",
                                    "param_server:dedicated,async",
                                    "param_server:dedicated,staleness=1",
                                    "param_server:servers=2,dedicated,backup=1",
                                    "local_sgd:every=2",
                                    "diloco:every=3,quorum=2",
                                    "diloco:every=2,fragments=2",
                                    "ripples",
                                    "ripples:static",
                                    "ripples:random,group=3",
                                    "ripples:smart,laggards"};

/* Up to three entries "endpoint@second" within the first 60 ms, maybe none. */
static void random_list(shoali_rng *rng, uint32_t workers, char *out, size_t out_bytes)
{
    size_t used = 0;
    uint64_t count = shoali_rng_next(rng) % 4;
    out[0] = '\0';
    for (uint64_t i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%u@%.4f", i > 0 ? "/" : "",
                                 (unsigned)(shoali_rng_next(rng) % workers),
                                 0.06 * shoali_rng_next_double(rng));
}

typedef struct outcome {
    shoal_status status;
    uint64_t hash;
} outcome;

static outcome run(uint64_t seed)
{
    shoali_rng rng = {check_seed(), seed, 0};
    static const size_t counts[TENSORS] = {40, 3, 90, 1, 60};
    shoal_tensor tensors[TENSORS];
    char die[64], stop[64], leave[64], faults[256], compute[64];
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results r = {.size = sizeof r};
    shoal_sim *sim;
    for (size_t i = 0, at = 0; i < TENSORS; at += counts[i], i++)
        tensors[i] = (shoal_tensor){.key = i + 1, .offset = at, .count = counts[i], .lr_scale = 1};
    desc.workers = 2 + (uint32_t)(shoali_rng_next(&rng) % 7);
    random_list(&rng, desc.workers + 1, die, sizeof die); /* + 1: perhaps a server */
    random_list(&rng, desc.workers + 1, stop, sizeof stop);
    random_list(&rng, desc.workers, leave, sizeof leave);
    snprintf(faults, sizeof faults, "plan:die=%s,stop=%s,leave=%s,detect_ms=%.3f", die, stop, leave,
             20 * shoali_rng_next_double(&rng));
    snprintf(compute, sizeof compute, "fixed:ms=%.3f,jitter=0.5", 8 * shoali_rng_next_double(&rng));
    desc.sync = specs[shoali_rng_next(&rng) % (sizeof specs / sizeof *specs)];
    desc.network = "links:rate=4mbit,latency_us=300";
    desc.faults = faults;
    desc.compute = compute;
    desc.tensors = tensors;
    desc.tensor_count = TENSORS;
    desc.bucket_bytes = 1 + shoali_rng_next(&rng) % 900;
    desc.seed = seed + 1;
    assert_ok(shoal_sim_create(&desc, &sim));
    outcome o = {.status = shoal_sim_run(sim)};
    if (o.status == SHOAL_ETIMEDOUT || o.status == SHOAL_EINTERNAL)
        print_error("%s, %s: %s\n", desc.sync, faults, shoal_last_error()->text);
    for (uint32_t e = 0; e < sim->size; e++)
        assert_int_equal(sim->nodes[e].phase, SHOALI_SIM_ENDED);
    assert_ok(shoal_sim_results_get(sim, &r));
    assert_true(r.staleness_max <= sim->protocol.row->max_staleness(sim->protocol.params));
    o.hash = r.log_hash;
    shoal_sim_destroy(sim);
    return o;
}

static void everybody_ends_whatever_happens(void **state)
{
    (void)state;
    uint32_t ended[64] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const outcome o = run(seed);
        assert_true(o.status == SHOAL_OK || o.status == SHOAL_EPEER ||
                    o.status == SHOAL_ECANCELLED);
        ended[o.status]++;
        if (seed % 50 == 0) {
            const outcome again = run(seed);
            assert_int_equal(again.status, o.status);
            assert_true(again.hash == o.hash);
        }
    }
    assert_true(ended[SHOAL_OK] > SEEDS / 100); /* all ways to end were seen */
    assert_true(ended[SHOAL_EPEER] > SEEDS / 8);
    assert_true(ended[SHOAL_ECANCELLED] > SEEDS / 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(everybody_ends_whatever_happens),
    };
    return CHECK_RUN(tests);
}
