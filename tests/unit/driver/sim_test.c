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

/* 2^20 float32 around a ring of 4 at 1 Gbit/s: 2 * 3/4 * 4 MiB / 125 MB/s = 50.33 ms, and 7 * 50 us. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_ring_takes_what_its_volume_says),
    };
    return CHECK_RUN(tests);
}
