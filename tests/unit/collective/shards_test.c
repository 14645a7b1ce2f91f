/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/shards.h"

#include "support/check.h"

static void who_aggregates(void **state)
{
    (void)state;
    uint32_t shards;
    assert_ok(shoali_shards_count("x", 0, false, 5, 5, &shards));
    assert_int_equal(shards, 5);
    assert_ok(shoali_shards_count("x", 2, false, 5, 5, &shards));
    assert_int_equal(shards, 2);
    assert_ok(shoali_shards_count("x", 0, true, 5, 8, &shards));
    assert_int_equal(shards, 3);
    assert_status(shoali_shards_count("x", 6, false, 5, 5, &shards), SHOAL_EINVAL);
    assert_status(shoali_shards_count("x", 0, false, 5, 6, &shards), SHOAL_EINVAL);
    assert_error_has("x: 1 members contribute nothing");
    assert_status(shoali_shards_count("x", 0, true, 5, 5, &shards), SHOAL_EINVAL);
    assert_status(shoali_shards_count("x", 1, true, 5, 6, &shards), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(who_aggregates)};
    return CHECK_RUN(tests);
}
