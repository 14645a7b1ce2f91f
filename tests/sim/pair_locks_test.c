/* SPDX-License-Identifier: Apache-2.0 */
/* AD-PSGD's deadlock, in virtual time: workers that lock their own replica and then ask for their
 * partner's wait in a circle where the graph has one and all may ask (support/naive_pairs.h).
 * ad_psgd:all on the same graph, with the same partners at the same times, goes on. */
#include "driver/sim.h"
#include "support/check.h"
#include "support/naive_pairs.h"

enum { ITERATIONS = 200, MOST = 8, SEEDS = 10, PARAMS = 1000 };

/* Who asked whom: target + 1 by worker and number. */
typedef struct asked {
    uint32_t by[MOST][ITERATIONS + 1];
    uint32_t count;
} asked;

static void note(void *ctx, shoal_sim *sim, uint32_t endpoint, const shoali_event *event)
{
    asked *a = ctx;
    const uint8_t *bytes = event->kind == SHOALI_EV_MESSAGE ? event->message.bytes : NULL;
    (void)sim;
    if (bytes == NULL || event->message.len_bytes != NAIVE_MESSAGE_BYTES || bytes[0] != NAIVE_LOCK)
        return;
    uint32_t number = bytes[1] | (uint32_t)bytes[2] << 8;
    assert_true(number > 0 && number <= ITERATIONS);
    a->by[event->message.peer][number] = endpoint + 1;
    a->count++;
}

static shoal_sim *open_sim(const shoali_sync_row *row, const char *spec, uint32_t workers,
                           const char *compute, uint64_t seed, asked *a)
{
    static const shoal_tensor tensor = {.key = 1, .count = PARAMS, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    shoali_protocol protocol;
    desc.sync = spec;
    desc.workers = workers;
    desc.iterations = ITERATIONS;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.compute = compute;
    desc.network = "links:rate=10mbit,latency_us=2000";
    desc.seed = seed;
    if (row == NULL) {
        assert_ok(shoali_sync_open(spec, &protocol));
        row = protocol.row;
        shoali_sync_close(&protocol);
    }
    assert_ok(shoali_sim_create_row(&desc, row, &sim));
    *a = (asked){.count = 0};
    sim->test.on_event = note;
    sim->test.ctx = a;
    return sim;
}

/* Times differ: workers that are all alike may fall into a step in which they never meet. */
static const struct {
    const char *graph;
    uint32_t workers;
    const char *compute;
} cases[] = {{"ring", 3, "fixed:ms=10,jitter=0.3"},
             {"ring", 5, "fixed:ms=10,jitter=0.3"},
             {"complete", 8, "fixed:ms=10,jitter=0.3"},
             {"ring", 8, "fixed:ms=10,jitter=0.3,slow=1:3x"}};
enum { CASES = sizeof cases / sizeof *cases };

/* From any worker that waits, along those whom they wait for: how long is the circle? */
static uint32_t circle(const shoal_sim *sim)
{
    uint32_t at = 0, length = 0;
    while (at < sim->workers && naive_pairs_waits_for(sim->nodes[at].state) == UINT32_MAX)
        at++;
    for (uint32_t i = 0; i < sim->workers; i++) {
        assert_true(at < sim->workers); /* who is waited for waits, too */
        at = naive_pairs_waits_for(sim->nodes[at].state);
    }
    for (uint32_t first = at; length == 0 || at != first; length++)
        at = naive_pairs_waits_for(sim->nodes[at].state);
    return length;
}

static void locks_in_a_circle_stand_where_ours_go_on(void **state)
{
    uint32_t longest = 0;
    (void)state;
    for (size_t c = 0; c < CASES; c++)
        for (uint64_t s = 0; s < SEEDS; s++) {
            char naive_spec[64], ours_spec[64];
            asked naive, ours;
            uint64_t seed = check_seed() + s;
            snprintf(naive_spec, sizeof naive_spec, "naive_pairs:graph=%s,all", cases[c].graph);
            snprintf(ours_spec, sizeof ours_spec, "ad_psgd:graph=%s,all,blocking", cases[c].graph);
            shoal_sim *sim = open_sim(&naive_pairs, naive_spec, cases[c].workers, cases[c].compute,
                                      seed, &naive);
            assert_status(shoal_sim_run(sim), SHOAL_ETIMEDOUT);
            assert_error_has("deadlock at");
            uint32_t length = circle(sim);
            longest = length > longest ? length : longest;
            assert_true(length >= 2 && naive.count < cases[c].workers * ITERATIONS);
            shoal_sim_destroy(sim);

            sim = open_sim(NULL, ours_spec, cases[c].workers, cases[c].compute, seed, &ours);
            assert_ok(shoal_sim_run(sim));
            for (uint32_t w = 0; w < cases[c].workers; w++)
                assert_int_equal(sim->nodes[w].done, ITERATIONS);
            shoal_sim_destroy(sim);
            assert_int_equal(ours.count, cases[c].workers * ITERATIONS);
            for (uint32_t w = 0; w < cases[c].workers; w++)
                for (uint32_t n = 1; n <= ITERATIONS && naive.by[w][n] > 0; n++)
                    assert_int_equal(naive.by[w][n], ours.by[w][n]);
        }
    assert_true(longest >= 3); /* a circle proper, not only two that ask each other */
}

/* The published remedy, in the same model: it is the circle that stands, not the model. */
static void one_side_that_asks_goes_on_even_so(void **state)
{
    (void)state;
    static const char *const graphs[] = {"ring", "parity"};
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++)
        for (uint64_t s = 0; s < SEEDS; s++) {
            char spec[64];
            asked a;
            snprintf(spec, sizeof spec, "naive_pairs:graph=%s", graphs[g]);
            shoal_sim *sim = open_sim(&naive_pairs, spec, 8, "fixed:ms=10,jitter=0.3",
                                      check_seed() + s, &a);
            assert_ok(shoal_sim_run(sim));
            assert_int_equal(a.count, 4 * ITERATIONS);
            shoal_sim_destroy(sim);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(locks_in_a_circle_stand_where_ours_go_on),
        CHECK_TEST(one_side_that_asks_goes_on_even_so),
    };
    return CHECK_RUN(tests);
}
