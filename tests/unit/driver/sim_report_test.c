/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "support/check.h"
#include "support/scratch_dir.h"

static const shoal_tensor small = {.key = 1, .count = 1000, .lr_scale = 1};

static shoal_sim_desc uneven(void)
{
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.tensors = &small;
    desc.tensor_count = 1;
    desc.compute = "fixed:ms=100,slow=2:3x";
    desc.network = "links:rate=8mbit,latency_us=100";
    return desc;
}

static shoal_sim *run(const shoal_sim_desc *desc)
{
    shoal_sim *sim;
    assert_ok(shoal_sim_create(desc, &sim));
    assert_ok(shoal_sim_run(sim));
    return sim;
}

/* All wait for worker 2: 200 ms in each of ten iterations, and it for nobody. */
static void waits_name_the_slow_worker(void **state)
{
    (void)state;
    const shoal_sim_desc desc = uneven();
    shoal_sim *sim = run(&desc);
    for (uint32_t w = 0; w < 4; w++) {
        const uint64_t *waits = shoal_sim_waits(sim, w);
        uint64_t sum = 0;
        for (uint32_t peer = 0; peer < 4; peer++)
            sum += waits[peer];
        assert_int_equal(sum, sim->nodes[w].idle_ns);
        assert_in_range(waits[2], w == 2 ? 0 : 1990000000, 2010000000);
    }
    assert_null(shoal_sim_waits(sim, 4));
    shoal_sim_destroy(sim);
}

static void the_curve_goes_forward_and_down(void **state)
{
    (void)state;
    shoal_sim_desc desc = uneven();
    uint32_t count;
    desc.problem = "quadratic:lr=0.3";
    desc.iterations = 1500; /* more than there are points */
    shoal_sim *sim = run(&desc);
    const shoal_sim_point *points = shoal_sim_curve(sim, &count);
    assert_in_range(count, SHOALI_SIM_POINTS / 2 - 1, SHOALI_SIM_POINTS);
    assert_true(points[0].iterations == 0 && points[0].time_s == 0);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(points[i].time_s > points[i - 1].time_s);
        assert_true(points[i].iterations > points[i - 1].iterations);
        assert_true(points[i].consensus < 1e-9);
    }
    assert_true(points[count - 1].loss < points[0].loss * 1e-6);
    shoal_sim_destroy(sim);
}

/* Gossip on a ring of 8 with thirds: the second eigenvalue is (1 + 2 cos(2 pi / 8)) / 3. */
static void agreement_comes_as_fast_as_the_graph_says(void **state)
{
    (void)state;
    const shoal_tensor few = {.key = 1, .count = 64, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    uint32_t count;
    desc.workers = 8;
    desc.sync = "d_psgd:graph=ring";
    desc.problem = "mixing";
    desc.tensors = &few;
    desc.tensor_count = 1;
    desc.iterations = 24;
    shoal_sim *sim = run(&desc);
    const shoal_sim_point *points = shoal_sim_curve(sim, &count);
    assert_true(count > 20);
    double rate = pow(points[20].consensus / points[16].consensus, 1.0 / 8); /* squares of four */
    double lambda = (1 + 2 * cos(M_PI / 4)) / 3;
    assert_true(fabs(rate - lambda) < 0.02);
    shoal_sim_destroy(sim);
}

static void a_run_ends_in_time_if_told_so(void **state)
{
    (void)state;
    shoal_sim_desc desc = uneven();
    shoal_sim_results r = {.size = sizeof r};
    desc.until_s = 30;
    shoal_sim *sim = run(&desc);
    assert_ok(shoal_sim_results_get(sim, &r));
    assert_int_equal(r.duration_ns, UINT64_C(30000000000));
    assert_in_range(r.iterations_min, 96, 99); /* 300 ms and a little each */
    shoal_sim_destroy(sim);
}

static void stop_at_twenty(void *ctx, const shoal_sim_progress *p)
{
    shoal_sim *const *sim = ctx;
    if (p->done >= 20)
        shoal_sim_stop(*sim);
}

/* At the next event, and without a result. */
static void a_run_that_is_stopped_is_cancelled(void **state)
{
    (void)state;
    shoal_sim_desc desc = uneven();
    shoal_sim *sim;
    desc.iterations = 1000000;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoal_sim_watch(sim, stop_at_twenty, &sim));
    assert_status(shoal_sim_run(sim), SHOAL_ECANCELLED);
    assert_in_range(sim->nodes[0].done, 4, 6);
    assert_false(sim->told.files.came_out);
    shoal_sim_destroy(sim);
    shoal_sim_stop(NULL);
}

/* A tenth of the elements, each ten times as heavy: the same time. */
static void inflated_bytes_take_longer(void **state)
{
    (void)state;
    const shoal_tensor tenth = {.key = 1, .count = 100, .lr_scale = 1};
    shoal_sim_desc desc = uneven();
    shoal_sim *whole = run(&desc);
    desc.tensors = &tenth;
    desc.inflate = 10;
    shoal_sim *inflated = run(&desc);
    assert_int_equal(whole->report.results.duration_ns, inflated->report.results.duration_ns);
    shoal_sim_destroy(whole);
    shoal_sim_destroy(inflated);
}

typedef struct seen {
    uint64_t calls;
    double done, total, virtual_s;
} seen;

static void look(void *ctx, const shoal_sim_progress *p)
{
    seen *s = ctx;
    assert_int_equal(p->size, sizeof *p);
    assert_true(p->done >= s->done && p->done <= p->total && p->virtual_s >= s->virtual_s);
    *s = (seen){s->calls + 1, p->done, p->total, p->virtual_s};
}

/* Every iteration of every worker, from none to all, or seconds to the one that ends it; and the
 * same run. */
static void who_watches_sees_it_go_on(void **state)
{
    (void)state;
    shoal_sim_desc desc = uneven();
    for (int by_time = 0; by_time < 2; by_time++) {
        shoal_sim *sim, *alone;
        seen s = {0};
        desc.until_s = by_time ? 2 : 0;
        assert_ok(shoal_sim_create(&desc, &sim));
        assert_ok(shoal_sim_watch(sim, look, &s));
        assert_ok(shoal_sim_run(sim));
        alone = run(&desc);
        assert_int_equal(sim->report.results.log_hash, alone->report.results.log_hash);
        assert_int_equal(s.calls, 1 + sim->report.steps);
        if (by_time)
            assert_true(s.total == 2 && s.done > 1.5 && s.done == s.virtual_s);
        else
            assert_true(s.total == 40 && s.done == 40 && s.virtual_s > 3);
        shoal_sim_destroy(sim);
        shoal_sim_destroy(alone);
    }
    assert_status(shoal_sim_watch(NULL, look, NULL), SHOAL_EINVAL);
}

static void files_are_whole_and_the_same_every_time(void **state)
{
    (void)state;
    shoal_sim_desc desc = uneven();
    char timeline[256], log[256];
    size_t len[2];
    char *bytes[2];
    (void)scratch_dir_make();
    snprintf(timeline, sizeof timeline, "%s", scratch_path("t.json"));
    snprintf(log, sizeof log, "%s", scratch_path("log"));
    desc.timeline = timeline;
    desc.log = log;
    for (int i = 0; i < 2; i++) {
        shoal_sim_destroy(run(&desc));
        bytes[i] = scratch_read("log", &len[i]);
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(bytes[0], bytes[1], len[0]);
    json_t *json = json_load_file(timeline, 0, NULL);
    assert_non_null(json);
    assert_true(json_array_size(json_object_get(json, "traceEvents")) > 100);
    json_decref(json);
    free(bytes[0]);
    free(bytes[1]);
    desc.log = "/nowhere/at/all";
    shoal_sim *sim;
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EIO);
    scratch_dir_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(waits_name_the_slow_worker),
        CHECK_TEST(the_curve_goes_forward_and_down),
        CHECK_TEST(agreement_comes_as_fast_as_the_graph_says),
        CHECK_TEST(a_run_ends_in_time_if_told_so),
        CHECK_TEST(a_run_that_is_stopped_is_cancelled),
        CHECK_TEST(inflated_bytes_take_longer),
        CHECK_TEST(who_watches_sees_it_go_on),
        CHECK_TEST(files_are_whole_and_the_same_every_time),
    };
    return CHECK_RUN(tests);
}
