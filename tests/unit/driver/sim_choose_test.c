/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim.h"
#include "support/check.h"

static shoal_status open_sim(const char *network, const char *compute, const char *codec,
                             shoal_sim **sim_out)
{
    const shoal_tensor tensor = {.key = 1, .count = 800000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.sync = "auto";
    desc.workers = 8;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.iterations = 64;
    desc.network = network;
    desc.compute = compute;
    desc.codec = codec;
    *sim_out = NULL;
    return shoal_sim_create(&desc, sim_out);
}

/* Models of neighbours go by no collective: who names one gets sums. */
static void a_collective_that_is_named_stays(void **state)
{
    (void)state;
    const shoal_tensor tensor = {.key = 1, .count = 2000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    desc.sync = "auto";
    desc.workers = 8;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.iterations = 8;
    desc.network = "links:rate=4mbit";
    desc.compute = "fixed:ms=100";
    for (int named = 0; named < 2; named++) {
        shoal_sim *sim;
        desc.collective = named == 1 ? "hierarchical" : NULL;
        assert_ok(shoal_sim_create(&desc, &sim));
        const bool hop = strncmp(shoal_sim_chosen(sim), "hop: ", 5) == 0;
        assert_int_equal(hop, named == 0);
        assert_ok(shoal_sim_run(sim));
        shoal_sim_destroy(sim);
    }
}

static const char *chosen(const char *network, const char *compute, const char *codec)
{
    static char text[512];
    shoal_sim *sim;
    assert_ok(open_sim(network, compute, codec, &sim));
    snprintf(text, sizeof text, "%s", shoal_sim_chosen(sim));
    assert_ok(shoal_sim_run(sim));
    shoal_sim_destroy(sim);
    return text;
}

static void specs_become_facts(void **state)
{
    (void)state;
    const char *text = chosen("links:rate=100gbit", "fixed:ms=100", NULL);
    assert_non_null(strstr(text, "all_reduce: 0.8 M parameters, 8 workers, 1e+05/1e+05 Mbit/s"));
    text = chosen("links:rate=1gbit,slow=3:10x", "fixed:ms=100", NULL);
    assert_non_null(strstr(text, "100/100 Mbit/s"));
    text = chosen("links:rate=1gbit", "fixed:ms=100,slow=3:5x", NULL);
    assert_non_null(strstr(text, "hop:backup=1,skip=10: "));
    text = chosen("links:rate=400mbit", "fixed:ms=100,slow=3:5x", NULL);
    assert_non_null(strstr(text, "quorum=7"));
    assert_non_null(strstr(text, "1 slow, the slowest 5 times"));
    text = chosen("links:rate=1gbit", "fixed:ms=100,random=6x", NULL);
    assert_non_null(strstr(text, "12.5 % of steps 6 times"));
    text = chosen("links:rate=100mbit", "fixed:ms=100", "int8");
    assert_null(strstr(text, "--codec"));
}

static void what_it_does_not_know_is_refused(void **state)
{
    (void)state;
    shoal_sim *sim;
    assert_int_equal(open_sim(NULL, "model:gflops=50", NULL, &sim), SHOAL_EINVAL);
    assert_int_equal(open_sim(NULL, "fixed:ms=0", NULL, &sim), SHOAL_EINVAL);
    assert_int_equal(open_sim("links:trace=/nowhere", NULL, NULL, &sim), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->text, "rates and compute times"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(specs_become_facts),
        CHECK_TEST(a_collective_that_is_named_stays),
        CHECK_TEST(what_it_does_not_know_is_refused),
    };
    return CHECK_RUN(tests);
}
