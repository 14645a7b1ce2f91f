/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of ranks that sum while they are cut off, stopped, killed, and leave: no rule of
 * support/ops_life.h is ever broken. SHOAL_SOAK_RUNS: how many; SHOAL_TEST_SEED: from which seed
 * on; SHOAL_TEST_TRACE: tell what happens in each. */
#include <malloc.h>

#include "support/check.h"
#include "support/ops_life.h"

static void sums_are_whole_or_not_at_all(void **state)
{
    (void)state;
    static life l;
    const uint64_t lives = check_number("SHOAL_SOAK_RUNS", CHECK_LIVES), first = check_seed();
    uint64_t well = 0, badly = 0, events = 0;
    for (uint64_t i = 0; i < lives; i++) {
        if (!life_live(&l, first + i, getenv("SHOAL_TEST_TRACE") != NULL))
            fail_msg("seed %llu: %s", (unsigned long long)(first + i), l.violation);
        well += l.ended_ok;
        badly += l.ended_badly;
        events += l.events;
    }
    print_message("%llu lives, %llu operations ended well, %llu badly, %llu events\n",
                  (unsigned long long)lives, (unsigned long long)well, (unsigned long long)badly,
                  (unsigned long long)events);
    /* else nothing is summed, or nothing goes wrong */
    assert_true(well > lives);
    assert_true(badly > lives);
    life_free(&l);
}

int main(void)
{
    /* Each life makes some large tables: without these the kernel makes and takes their pages. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    const struct CMUnitTest tests[] = {
        CHECK_TEST(sums_are_whole_or_not_at_all),
    };
    return CHECK_RUN(tests);
}
