/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/clock.h"

static void time_never_goes_back(void **state)
{
    (void)state;
    uint64_t before = shoali_now_ns();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = shoali_now_ns();
        assert_true(now >= before);
        before = now;
    }
}

static void units_agree(void **state)
{
    (void)state;
    uint64_t ns_before = shoali_now_ns(), us = shoali_now_us(), ns_after = shoali_now_ns();
    assert_true(us >= ns_before / 1000 && us <= ns_after / 1000);
}

/* Work shows on the CPU clocks; a thread never used more than its process. */
static void cpu_time_counts_work(void **state)
{
    (void)state;
    uint64_t thread = shoali_thread_cpu_ns();
    volatile unsigned sum = 0;
    while (shoali_thread_cpu_ns() - thread < 1000000)
        for (unsigned i = 0; i < 1000; i++)
            sum += i;
    uint64_t used = shoali_thread_cpu_ns();
    assert_true(shoali_process_cpu_ns() >= used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(time_never_goes_back), CHECK_TEST(units_agree),
                                       CHECK_TEST(cpu_time_counts_work)};
    return CHECK_RUN(tests);
}
