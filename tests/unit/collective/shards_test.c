/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/shards.h"

#include "support/check.h"

static shoal_status count(int64_t shards, bool dedicated, uint32_t workers, uint32_t members,
                          uint32_t *count_out)
{
    const shoali_shards_keys keys = {.shards = shards, .dedicated = dedicated};
    return shoali_shards_count("x", &keys, workers, members, count_out);
}

static void who_aggregates(void **state)
{
    (void)state;
    uint32_t shards;
    assert_ok(count(0, false, 5, 5, &shards));
    assert_int_equal(shards, 5);
    assert_ok(count(2, false, 5, 5, &shards));
    assert_int_equal(shards, 2);
    assert_ok(count(0, true, 5, 8, &shards));
    assert_int_equal(shards, 3);
    assert_status(count(6, false, 5, 5, &shards), SHOAL_EINVAL);
    assert_status(count(0, false, 5, 6, &shards), SHOAL_EINVAL);
    assert_error_has("x: 1 members contribute nothing");
    assert_status(count(0, true, 5, 5, &shards), SHOAL_EINVAL);
    assert_status(count(1, true, 5, 6, &shards), SHOAL_EINVAL);
}

static void who_does_what(void **state)
{
    (void)state;
    const shoali_shards_keys two = {.shards = 2}, dedicated = {.dedicated = true};
    shoali_flow_args args = {.kind = SHOAL_ALL_REDUCE, .size = 4, .contributors = 4};
    shoali_shards s;
    for (args.me = 0; args.me < 4; args.me++) {
        assert_ok(shoali_shards_open("x", &two, &args, &s));
        assert_true(s.works && s.aggregates == (args.me < 2));
        args.contributors = 3;
        assert_ok(shoali_shards_open("x", &dedicated, &args, &s));
        assert_true(s.works == (args.me < 3) && s.aggregates == (args.me == 3) && s.first == 3);
        args.contributors = 4;
    }
    args.reduce = SHOAL_MAX;
    assert_status(shoali_shards_open("x", &two, &args, &s), SHOAL_EINVAL);
    assert_error_has("x sums");
    args = (shoali_flow_args){.kind = SHOAL_ALL_REDUCE, .size = 4, .contributors = 4};
    args.owner_job = true;
    assert_status(shoali_shards_open("x", &two, &args, &s), SHOAL_EINVAL);
    assert_int_equal(shoali_shards_traits(&two) & SHOALI_COLL_SERVED, 0);
    assert_int_not_equal(shoali_shards_traits(&dedicated) & SHOALI_COLL_SERVED, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(who_aggregates), CHECK_TEST(who_does_what)};
    return CHECK_RUN(tests);
}
