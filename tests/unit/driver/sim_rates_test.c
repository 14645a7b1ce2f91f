/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "driver/sim.h"
#include "support/check.h"

/* A file with these lines; the network's spec that names it. */
static char path[64];

static const char *network_of(const char *lines)
{
    static char spec[160];
    snprintf(path, sizeof path, "/tmp/sim-rates-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(lines, file);
    assert_int_equal(fclose(file), 0);
    snprintf(spec, sizeof spec, "links:rate=8mbit,latency_us=0,trace=%s", path);
    return spec;
}

static shoal_status run(const char *lines, double *seconds_out)
{
    const shoal_tensor tensor = {.key = 1, .count = 500000, .lr_scale = 1};
    shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim_results results = {.size = sizeof results};
    shoal_sim *sim = NULL;
    desc.workers = 2;
    desc.tensors = &tensor;
    desc.tensor_count = 1;
    desc.iterations = 1;
    desc.compute = "fixed:ms=0";
    desc.network = network_of(lines);
    shoal_status status = shoal_sim_create(&desc, &sim);
    assert_int_equal(unlink(path), 0);
    if (status == SHOAL_OK) {
        assert_ok(shoal_sim_run(sim));
        assert_ok(shoal_sim_results_get(sim, &results));
        *seconds_out = (double)results.duration_ns * 1e-9;
    }
    shoal_sim_destroy(sim);
    return status;
}

/* Each of two sends 2 MB in all: two seconds at 8 Mbit/s. */
static void what_is_under_way_goes_on_at_the_new_rate(void **state)
{
    (void)state;
    double s = 0;
    assert_ok(run("# nothing\n\n", &s));
    assert_float_equal(s, 2, 0.01);
    assert_ok(run("0.5 0 4mbit\n", &s)); /* half a second's worth is through, the rest takes 3 s */
    assert_float_equal(s, 3.5, 0.01);
    assert_ok(run("0.5 0 4mbit # sinks\n1.5 0 16mbit 8mbit\n", &s));
    assert_float_equal(s, 2.5, 0.01);
    assert_ok(run("0 0 4mbit 8mbit\n", &s)); /* one way is enough */
    assert_float_equal(s, 4, 0.01);
    assert_ok(run("0 0 8mbit 4mbit\n", &s));
    assert_float_equal(s, 4, 0.01);
}

static void lines_that_say_nothing_are_named(void **state)
{
    (void)state;
    double s;
    assert_int_equal(run("1 0 10mbit\n0.5 0 10mbit\n", &s), SHOAL_ECORRUPT);
    assert_non_null(strstr(shoal_last_error()->text, ":2: time goes backwards"));
    const char *const wrong[] = {
        "1 2 10mbit\n", "1 0\n", "1 0 10\n", "x 0 10mbit\n", "1 0 1mbit 2mbit 3mbit\n",
        "-1 0 1mbit\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run(wrong[i], &s), SHOAL_ECORRUPT);
        assert_non_null(strstr(shoal_last_error()->text, ":1: expected SECONDS HOST UP [DOWN]"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_under_way_goes_on_at_the_new_rate),
        CHECK_TEST(lines_that_say_nothing_are_named),
    };
    return CHECK_RUN(tests);
}
