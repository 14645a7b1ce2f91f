/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include <math.h>
#include <unistd.h>

#include "support/check.h"
#include "support/scratch_dir.h"

static const char cluster_text[] =
    "{\"name\": \"three\", \"accelerators\": [{\"name\": \"a\", \"flops\": 1e9},"
    " {\"name\": \"b\", \"flops\": 4e9}],"
    "\"hosts\": [{\"count\": 2, \"workers\": 2, \"nic\": \"8mbit\", \"latency_us\": 10},"
    " {\"accelerator\": \"b\", \"nic\": \"16mbit\", \"latency_us\": 30}],"
    "\"links\": [{\"from\": 0, \"to\": 2, \"rate\": \"80mbit\", \"latency_us\": 5}],"
    "\"stragglers\": [{\"worker\": 1, \"slowdown\": 3, \"from_s\": 2, \"until_s\": 4}]}";

static shoal_sim *open_cluster(const char *compute)
{
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    scratch_write("cluster.json", cluster_text, strlen(cluster_text));
    desc.cluster = scratch_path("cluster.json");
    desc.model = "lenet";
    desc.compute = compute;
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

static void hosts_links_and_latencies_are_the_clusters(void **state)
{
    (void)state;
    (void)scratch_dir_make();
    shoal_sim *sim = open_cluster("fixed:ms=10");
    assert_int_equal(sim->workers, 5);
    assert_int_equal(sim->world.hosts[1], 0);
    assert_int_equal(sim->world.hosts[3], 1);
    assert_int_equal(sim->world.hosts[4], 2);
    assert_int_equal(shoali_sim_latency_ns(sim, 0, 1), 0);
    assert_int_equal(shoali_sim_latency_ns(sim, 0, 4), 5000);
    uint32_t links[2];
    assert_true(shoali_sim_links(sim, 0, 4, links));
    assert_int_equal(links[0], sim->world.pair_links);
    assert_int_equal(links[1], sim->world.pair_links);
    assert_true(shoali_sim_links(sim, 4, 0, links));
    assert_int_equal(links[0], 2 * 2);
    assert_int_equal(links[1], 2 * 0 + 1);
    assert_true(shoali_sim_links(sim, 2, 3, links));
    assert_int_equal(links[0], sim->world.own_links + 2 * 2);
    assert_int_equal(links[1], sim->world.own_links + 2 * 3 + 1);
    assert_true(fabs(shoali_sim_link_rate(sim, links[0]) - 32) < 1e-9);
    shoal_sim_destroy(sim);
    scratch_dir_remove();
}

/* A megabyte over 8 Mbit/s of which payload gets half. */
static void payload_gets_its_share(void **state)
{
    (void)state;
    static const char text[] = "{\"name\": \"half\", \"accelerators\": [{\"name\": \"a\", "
                               "\"flops\": 1e9}], \"hosts\": [{\"count\": 2, \"nic\": "
                               "\"8mbit\"}], \"overhead\": {\"payload_share\": 0.5}}";
    const shoali_load load = {.link = 0, .bytes = 1000000};
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    (void)scratch_dir_make();
    scratch_write("half.json", text, strlen(text));
    desc.cluster = scratch_path("half.json");
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_ok(shoali_links_start(sim->net, 0, &load, 1, 7));
    assert_int_equal(shoali_links_next_ns(sim->net), 2000000000);
    shoal_sim_destroy(sim);
    scratch_dir_remove();
}

static void a_straggler_is_slow_in_its_time_only(void **state)
{
    (void)state;
    (void)scratch_dir_make();
    shoal_sim *sim = open_cluster("fixed:ms=10");
    assert_int_equal(shoali_sim_iteration_ns(sim, 1, 0, 1999999999), 10000000);
    assert_int_equal(shoali_sim_iteration_ns(sim, 1, 0, 2000000000), 30000000);
    assert_int_equal(shoali_sim_iteration_ns(sim, 1, 0, 4000000000), 10000000);
    assert_int_equal(shoali_sim_iteration_ns(sim, 0, 0, 2000000000), 10000000);
    shoal_sim_destroy(sim);
    scratch_dir_remove();
}

/* Twice the batch takes twice as long, four times the rate a quarter, and the model's operations
 * by the rate is the time. */
static void operations_by_rate_is_the_time(void **state)
{
    (void)state;
    (void)scratch_dir_make();
    shoal_model *model;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    assert_ok(shoal_model_open("lenet", &model));
    assert_ok(shoal_model_describe(model, &info));
    shoal_sim *sim = open_cluster("model:batch=10");
    double ns = (info.forward_flops + info.backward_flops) * 10;
    assert_true(fabs(sim->nodes[0].base_ns / ns - 1) < 0.2); /* the first layer's input gradient */
    assert_true(fabs(sim->nodes[4].base_ns * 4 / sim->nodes[0].base_ns - 1) < 1e-9);
    assert_int_equal(sim->count, info.param_count);
    shoal_sim *fixed = open_cluster("model:batch=20,gflops=1");
    assert_true(fabs(fixed->nodes[4].base_ns / sim->nodes[0].base_ns - 2) < 1e-9);
    shoal_sim_destroy(fixed);
    shoal_sim_destroy(sim);
    shoal_model_close(model);
    scratch_dir_remove();
}

static void expect_refusal(const shoal_sim_desc *desc, const char *trace)
{
    shoal_sim *sim;
    scratch_write("t", trace, strlen(trace));
    assert_status(shoal_sim_create(desc, &sim), SHOAL_ECORRUPT);
}

static void a_trace_says_who_is_slow_when(void **state)
{
    (void)state;
    static const char trace[] = "# seconds worker factor\n0 2 4\n1.5 2 1\n1.5 3 2.5\n";
    char compute[512];
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    (void)scratch_dir_make();
    assert_true(strlen(scratch_path("t")) < SHOALI_KEY_TEXT_BYTES);
    snprintf(compute, sizeof compute, "fixed:ms=10,trace=%s", scratch_path("t"));
    desc.compute = compute;
    scratch_write("t", trace, strlen(trace));
    assert_ok(shoal_sim_create(&desc, &sim));
    assert_int_equal(shoali_sim_iteration_ns(sim, 2, 0, 0), 40000000);
    assert_int_equal(shoali_sim_iteration_ns(sim, 2, 0, 1500000000), 10000000);
    assert_int_equal(shoali_sim_iteration_ns(sim, 3, 0, 1600000000), 25000000);
    shoal_sim_destroy(sim);
    expect_refusal(&desc, "1 2 4\n0.5 2 1\n");
    expect_refusal(&desc, "1 9 4\n");
    expect_refusal(&desc, "1 two 4\n");
    expect_refusal(&desc, "1 2 0\n");
    assert_int_equal(unlink(scratch_path("t")), 0);
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EIO);
    scratch_dir_remove();
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    shoal_sim *sim;
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.compute = "model:batch=2,gflops=1";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL); /* no model */
    desc.model = "lenet";
    desc.compute = "model:batch=2";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL); /* no rate */
    desc.model = "lenot";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EINVAL);
    desc.model = NULL;
    desc.compute = NULL;
    desc.cluster = "/does/not/exist.json";
    assert_status(shoal_sim_create(&desc, &sim), SHOAL_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(hosts_links_and_latencies_are_the_clusters),
        CHECK_TEST(payload_gets_its_share),
        CHECK_TEST(a_straggler_is_slow_in_its_time_only),
        CHECK_TEST(operations_by_rate_is_the_time),
        CHECK_TEST(a_trace_says_who_is_slow_when),
        CHECK_TEST(what_does_not_fit_is_refused),
    };
    return CHECK_RUN(tests);
}
