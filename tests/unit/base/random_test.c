/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include "support/check.h"

enum { BYTES = 1000 }; /* more than one call of the kernel has to give at once */

static void every_byte_is_filled_and_none_behind(void **state)
{
    (void)state;
    uint8_t bytes[BYTES + 1], seen[BYTES] = {0};
    bytes[BYTES] = 0xa5;
    for (int round = 0; round < 8; round++) { /* a byte is zero 8 times in 2^64 */
        memset(bytes, 0, BYTES);
        assert_ok(shoali_random(bytes, BYTES));
        for (int i = 0; i < BYTES; i++)
            seen[i] |= bytes[i];
    }
    for (int i = 0; i < BYTES; i++)
        assert_int_not_equal(seen[i], 0);
    assert_int_equal(bytes[BYTES], 0xa5);
}

static void no_two_are_alike(void **state)
{
    (void)state;
    uint8_t a[16], b[16];
    assert_ok(shoali_random(a, sizeof a));
    assert_ok(shoali_random(b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    assert_ok(shoali_random(b, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(every_byte_is_filled_and_none_behind),
                                       CHECK_TEST(no_two_are_alike)};
    return CHECK_RUN(tests);
}
