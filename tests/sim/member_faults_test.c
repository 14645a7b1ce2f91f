/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of jobs whose processes are cut off, stopped, killed, and come back: no rule of
 * support/member_world.h is ever broken. SHOAL_SOAK_RUNS: how many; SHOAL_TEST_SEED: from which
 * seed on; SHOAL_TEST_TRACE: tell what happens in each. */
#include "support/check.h"
#include "support/member_world.h"

static void at_most_one_half_goes_on(void **state)
{
    (void)state;
    static world w;
    const uint64_t lives = check_number("SHOAL_SOAK_RUNS", CHECK_LIVES), first = check_seed();
    uint64_t went_on = 0, steps = 0, returned = 0;
    for (uint64_t i = 0; i < lives; i++) {
        if (!world_live(&w, first + i, getenv("SHOAL_TEST_TRACE") != NULL))
            fail_msg("seed %llu: %s", (unsigned long long)(first + i), w.violation);
        went_on += w.stepped != 0;
        steps += w.steps;
        returned += w.returned;
    }
    print_message(
        "%llu lives, %llu went on in another epoch, %llu steps, %llu processes came back\n",
        (unsigned long long)lives, (unsigned long long)went_on, (unsigned long long)steps,
        (unsigned long long)returned);
    /* else it is safe because nothing ever happens */
    assert_true(2 * went_on > lives);
    assert_true(20 * returned > lives);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(at_most_one_half_goes_on),
    };
    return CHECK_RUN(tests);
}
