/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_parts.h"

#include "support/check.h"

#include "base/rng.h"

enum { IDS = 300 };

static shoal_sim *open_sim(void)
{
    const shoal_sim_desc desc = SHOAL_SIM_DESC_INIT;
    shoal_sim *sim;
    assert_ok(shoal_sim_create(&desc, &sim));
    return sim;
}

/* Ids come and go at random, some far apart, some neighbours; a plain list is the second opinion.
 */
static void every_open_id_is_found_and_no_other(void **state)
{
    (void)state;
    shoali_rng rng = {check_seed(), 5, 0};
    shoal_sim *sim = open_sim();
    uint64_t ids[IDS];
    uint32_t places[IDS];
    bool open[IDS] = {false};
    for (uint32_t i = 0; i < IDS; i++)
        ids[i] = i % 2 == 0 ? i : shoali_rng_next(&rng);
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)(shoali_rng_next(&rng) % IDS);
        uint32_t found = shoali_sim_place_find(sim, ids[i]);
        assert_int_equal(found, open[i] ? places[i] : SHOALI_SIM_NO_PLACE);
        if (open[i]) {
            shoali_sim_place_drop(sim, places[i]);
        } else {
            places[i] = shoali_sim_place_take(sim, ids[i], 1 + i % 7);
            assert_true(places[i] != SHOALI_SIM_NO_PLACE);
            sim->ops.places[places[i]].state = SHOALI_SIM_OP_GATHERING;
        }
        open[i] = !open[i];
    }
    assert_true(sim->ops.count <= IDS); /* places were used again */
    shoal_sim_destroy(sim);
}

static void a_collective_is_opened_once_and_an_unknown_one_breaks_the_run(void **state)
{
    (void)state;
    shoal_sim *sim = open_sim();
    const shoali_collective *ring = shoali_sim_collective_of(sim, "ring");
    assert_non_null(ring);
    assert_ptr_equal(shoali_sim_collective_of(sim, "ring"), ring);
    assert_int_equal(sim->status, SHOAL_OK);
    assert_null(shoali_sim_collective_of(sim, "square"));
    assert_int_equal(sim->status, SHOAL_EINVAL);
    shoal_sim_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(every_open_id_is_found_and_no_other),
        CHECK_TEST(a_collective_is_opened_once_and_an_unknown_one_breaks_the_run),
    };
    return CHECK_RUN(tests);
}
