/* SPDX-License-Identifier: Apache-2.0 */
#include "shoal/sim.h"

#include "support/check.h"

static shoal_sim_results run(const shoal_sim_desc *desc, shoal_status wanted)
{
    shoal_sim *sim;
    shoal_sim_results r = {.size = sizeof r};
    assert_ok(shoal_sim_create(desc, &sim));
    assert_status(shoal_sim_run(sim), wanted);
    assert_ok(shoal_sim_results_get(sim, &r));
    shoal_sim_destroy(sim);
    return r;
}

/* 2^20 float32 around a ring of 4 at 1 Gbit/s: 2 * 3/4 * 4 MiB / 125 MB/s = 50.33 ms, and 7 * 50
 * us. */
static void a_ring_takes_what_its_volume_says(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.compute = "fixed:ms=100,backward=0";
    shoal_sim_results r = run(&desc, SHOAL_OK);
    const uint64_t ring_ns = 50331648 + 7 * 50000;
    assert_int_equal(r.iterations_min, 10);
    assert_in_range(r.iteration_ns, 100000000 + ring_ns - 10, 100000000 + ring_ns + 10);
    assert_in_range(r.idle_ns / 40, ring_ns - 10, ring_ns + 10);
    assert_int_equal(r.sent_bytes, 10 * 4 * 6 * (1 << 20));
    assert_int_equal(r.busiest_link_bytes, 10 * 6 * (1 << 20));
    assert_int_equal(r.operations, 10);
    assert_int_equal(r.staleness_max, 0);
}

/* A lone server's link carries 4 vectors each way: 4 * 4 MiB / 125 MB/s, a sixteenth of it before
 * the first chunk goes back, and 3 times 50 us. */
static void a_lone_server_takes_n_vectors(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.compute = "fixed:ms=0";
    desc.sync = "param_server:dedicated";
    shoal_sim_results r = run(&desc, SHOAL_OK);
    const uint64_t server_ns = 134217728 / 16 * 17 + 150000;
    assert_in_range(r.iteration_ns, server_ns - 10, server_ns + 10);
    desc.sync = "param_server:servers=4"; /* shared among all four: a ring's volume */
    r = run(&desc, SHOAL_OK);
    assert_in_range(r.iteration_ns, 50331648 + 150000 - 10, 50331648 + 150000 + 10);
}

/* An operation does not complete without a member that stands still, however long that takes to
 * notice. */
static void a_frozen_member_holds_its_operation(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.compute = "fixed:ms=10";
    desc.faults = "plan:stop=1@0.03,detect_ms=5000"; /* the exchange lasts until 0.0607 */
    shoal_sim_results r = run(&desc, SHOAL_EPEER);
    assert_int_equal(r.iterations_max, 0);
    assert_in_range(r.duration_ns, 5030000000, 5031000000);
    desc.faults = "plan:stop=1@0.07,detect_ms=5000"; /* after it, in the second */
    r = run(&desc, SHOAL_EPEER);
    assert_int_equal(r.iterations_max, 1);
}

/* Buckets travel while the rest is computed: only the last one, a quarter of the whole, is left
 * over. */
static void buckets_overlap_with_the_backward_pass(void **state)
{
    (void)state;
    enum { PARTS = 4, ELEMS = 1 << 18 };
    shoal_tensor tensors[PARTS];
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    for (uint32_t i = 0; i < PARTS; i++)
        tensors[i] = (shoal_tensor){
            .key = i + 1, .offset = i * ELEMS, .count = ELEMS, .lr_scale = 1};
    desc.tensors = tensors;
    desc.tensor_count = PARTS;
    desc.bucket_bytes = ELEMS * 4;
    desc.compute = "fixed:ms=100,backward=0.8";
    desc.network = "links:latency_us=0";
    const uint64_t bucket_ns = 50331648 / PARTS;
    shoal_sim_results r = run(&desc, SHOAL_OK);
    assert_in_range(r.iteration_ns, 100000000 + bucket_ns - 10, 100000000 + bucket_ns + 10);
    desc.bucket_bytes = SIZE_MAX;
    r = run(&desc, SHOAL_OK);
    assert_in_range(r.iteration_ns, 150331648 - 10, 150331648 + 10);
}

static void a_slow_worker_holds_everybody_up(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = 8;
    desc.compute = "fixed:ms=100,slow=3:5x";
    desc.network = "links:rate=100gbit,latency_us=0";
    shoal_sim_results r = run(&desc, SHOAL_OK);
    assert_in_range(r.iteration_ns, 500000000, 501000000);
    assert_in_range(r.idle_ns, (uint64_t)10 * 7 * 400000000, (uint64_t)10 * 8 * 401000000);
    assert_true(r.gap_max <= 1);
}

static void codecs_change_bytes_and_time(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.compute = "fixed:ms=0";
    desc.network = "links:latency_us=0";
    shoal_sim_results plain = run(&desc, SHOAL_OK);
    desc.codec = "fp16";
    shoal_sim_results half = run(&desc, SHOAL_OK);
    assert_int_equal(2 * half.sent_bytes, plain.sent_bytes);
    assert_in_range(2 * half.duration_ns, plain.duration_ns - 100, plain.duration_ns + 100);
}

/* With numbers, a codec of variable rate is charged for the bytes that it really made. */
static void real_bytes_are_measured(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    const shoal_tensor small = {.key = 1, .count = 4096, .lr_scale = 1};
    desc.tensors = &small;
    desc.tensor_count = 1;
    desc.problem = "quadratic";
    shoal_sim_results plain = run(&desc, SHOAL_OK);
    desc.codec = "inceptionn";
    shoal_sim_results coded = run(&desc, SHOAL_OK);
    assert_int_equal(plain.sent_bytes, 10 * 4 * 6 * 4096);
    assert_true(coded.sent_bytes < plain.sent_bytes && coded.sent_bytes > plain.sent_bytes / 32);
    assert_true(coded.excess > 0);
}

static void a_thousand_workers_are_cheap(void **state)
{
    (void)state;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.workers = 1024;
    desc.iterations = 3;
    desc.compute = "fixed:ms=100,jitter=0.05";
    shoal_sim_results r = run(&desc, SHOAL_OK);
    assert_int_equal(r.iterations_min, 3);
    assert_int_equal(r.operations, 3);
}

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    const shoal_tensor gap[] = {{.key = 1, .count = 4}, {.key = 2, .offset = 5, .count = 4}};
    desc.size = 3;
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    assert_status(shoal_sim_create(NULL, &sim), SHOAL_EINVAL);
    static const char *const specs[][2] = {
        {"sync", "nothing"}, {"collective", "round"},     {"codec", "zip"},
        {"compute", "fast"}, {"network", "links:rate=x"}, {"faults", "plan:die=x"},
        {"problem", "hard"}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const shoal_sim_desc init = SHOAL_SIM_DESC_INIT;
        desc = init;
        const char **field = i == 0   ? &desc.sync
                             : i == 1 ? &desc.collective
                             : i == 2 ? &desc.codec
                             : i == 3 ? &desc.compute
                             : i == 4 ? &desc.network
                             : i == 5 ? &desc.faults
                                      : &desc.problem;
        *field = specs[i][1];
        assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
        *field = NULL;
    }
    desc.tensors = gap;
    desc.tensor_count = 2;
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    assert_error_has("without gaps");
    desc.tensors = NULL;
    desc.network = "links:hosts=5";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    desc.network = NULL;
    desc.workers = 5000;
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    desc.workers = 2;
    desc.sync = "param_server:servers=3";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    assert_error_has("2 workers cannot hold 3 servers");
    desc.sync = "ad_psgd:graph=ring"; /* the machine refuses it at START */
    desc.workers = 3;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_status(shoal_sim_run(sim), SHOAL_EINVAL);
    assert_status(shoal_sim_run(sim), SHOAL_EINVAL); /* once only */
    shoal_sim_destroy(sim);
}

static void results_are_for_those_who_say_how_large(void **state)
{
    (void)state;
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results r = {0};
    shoal_sim_endpoint_results e = {.size = sizeof e};
    size_t count;
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_status(shoal_sim_results_get(sim, &r), SHOAL_EINVAL);
    assert_status(shoal_sim_endpoint_get(sim, 4, &e), SHOAL_EINVAL);
    assert_ok(shoal_sim_endpoint_get(sim, 3, &e));
    assert_int_equal(e.end, SHOAL_SIM_RUNNING);
    assert_null(shoal_sim_params(sim, 0, &count));
    shoal_sim_destroy(sim);
    shoal_sim_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_ring_takes_what_its_volume_says),
        CHECK_TEST(a_lone_server_takes_n_vectors),
        CHECK_TEST(a_frozen_member_holds_its_operation),
        CHECK_TEST(buckets_overlap_with_the_backward_pass),
        CHECK_TEST(a_slow_worker_holds_everybody_up),
        CHECK_TEST(codecs_change_bytes_and_time),
        CHECK_TEST(real_bytes_are_measured),
        CHECK_TEST(a_thousand_workers_are_cheap),
        CHECK_TEST(bad_descriptors_are_refused),
        CHECK_TEST(results_are_for_those_who_say_how_large),
    };
    return CHECK_RUN(tests);
}
