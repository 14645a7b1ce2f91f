/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/line.h"

#include <stdlib.h>

#include "support/check.h"

static void the_slower_of_both_counts(void **state)
{
    (void)state;
    assert_int_equal(shoali_line_limit(1000, NULL), 125000000);
    assert_int_equal(shoali_line_limit(10000, "1000000000"), 125000000);
    assert_int_equal(shoali_line_limit(100, "1e9"), 12500000);
    assert_int_equal(shoali_line_limit(0, "8000"), 1000);
    assert_int_equal(shoali_line_limit(0, NULL), 0);
    static const char *const nonsense[] = {"", "x", "-5", "0", "nan", "inf", "1e300"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        assert_int_equal(shoali_line_limit(1000, nonsense[i]), 125000000);
}

static void loopback_says_nothing(void **state)
{
    (void)state;
    unsetenv("SHOAL_LINE_RATE");
    assert_int_equal(shoali_line_bytes_s("lo"), 0);
    assert_int_equal(shoali_line_bytes_s("no such interface"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_slower_of_both_counts),
        CHECK_TEST(loopback_says_nothing),
    };
    return CHECK_RUN(tests);
}
