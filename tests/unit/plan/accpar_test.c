/* SPDX-License-Identifier: Apache-2.0 */
/* AccPar against HyPar where both mean the same, and what it must
 * gain: never slower with more freedom, and shares in proportion where nothing is exchanged. */
#include "shoal/accpar.h"

#include <math.h>

#include "plan/partition.h"
#include "support/check.h"

static shoal_accpar *make(const char *model, uint32_t count, const double *speed, double rate,
                          uint32_t types, int equal)
{
    shoal_accpar_desc desc = {sizeof desc, model, 256, count, speed, rate, types, equal};
    shoal_accpar *plan;
    assert_ok(shoal_accpar_create(&desc, &plan));
    return plan;
}

static double seconds(const char *model, uint32_t count, const double *speed, double rate,
                      uint32_t types, int equal)
{
    shoal_accpar *plan = make(model, count, speed, rate, types, equal);
    double s = shoal_accpar_seconds(plan);
    shoal_accpar_destroy(plan);
    return s;
}

/* Two halves, types 1 and 2, computation free: the seconds of HyPar's table 2 at one level, whose
 * sums count both directions. */
static void halves_of_two_types_are_table_2(void **state)
{
    static const double fast[2] = {1e29, 1e29};
    static const char *const models[] = {"sfc", "lenet-c", "vgg-a"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
        shoal_partition *p;
        desc.model = models[i];
        desc.levels = 1;
        desc.mode = SHOAL_PARTITION_TABLE2;
        assert_ok(shoal_partition_create(&desc, &p));
        double want = 4 * (double)shoali_partition_elements(p) / 2;
        double got = seconds(models[i], 2, fast, 1, 2, 1);
        if (!(fabs(got / want - 1) < 1e-9))
            fail_msg("%s: %.9g bytes of one side, by table 2 %.9g", models[i], got, want);
        shoal_partition_destroy(p);
    }
}

static void more_freedom_is_never_slower(void **state)
{
    static const double mixed[4] = {180e12, 180e12, 420e12, 420e12};
    static const char *const models[] = {"alexnet", "vgg-a", "vgg-e", "resnet-50"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        double data = seconds(models[i], 2, mixed + 1, 1e9, 1, 1);
        double two = seconds(models[i], 2, mixed + 1, 1e9, 2, 1);
        double three = seconds(models[i], 2, mixed + 1, 1e9, 3, 1);
        double uneven = seconds(models[i], 4, mixed, 1e12, 3, 0);
        assert_true(two <= data * (1 + 1e-12));
        assert_true(three <= two * (1 + 1e-12));
        assert_true(uneven < seconds(models[i], 4, mixed, 1e12, 1, 1));
    }
}

static void shares_follow_speeds_where_links_are_free(void **state)
{
    static const double mixed[4] = {100e12, 100e12, 300e12, 300e12};
    shoal_accpar *plan = make("vgg-a", 4, mixed, 1e25, 3, 0);
    shoal_accpar_split s;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(shoal_accpar_split_at(plan, i, &s));
        assert_int_equal(strlen(s.types), 11);
        assert_true(fabs(s.share - (i == 0 ? 0.25 : 0.5)) < 1e-6);
    }
    double work = 3 * 256 * 2 * 7.609090e9;
    assert_true(fabs(shoal_accpar_seconds(plan) / (work / 800e12) - 1) < 0.01);
    assert_status(shoal_accpar_split_at(plan, 3, &s), SHOAL_EINVAL);
    shoal_accpar_destroy(plan);
}

static void bad_questions_are_refused(void **state)
{
    static const double speed[4] = {1, 1, 1, 0};
    static const shoal_accpar_desc bad[] = {{sizeof bad[0], "vgg-a", 256, 3, speed, 1, 3, 0},
                                            {sizeof bad[0], "vgg-a", 256, 4, speed, 1, 3, 0},
                                            {sizeof bad[0], "vgg-a", 256, 2, speed, 0, 3, 0},
                                            {sizeof bad[0], "vgg-a", 256, 2, speed, 1, 4, 0},
                                            {sizeof bad[0], "vgg-a", 0, 2, speed, 1, 3, 0},
                                            {1, "vgg-a", 256, 2, speed, 1, 3, 0},
                                            {sizeof bad[0], "vgg-z", 256, 2, speed, 1, 3, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shoal_accpar *plan = NULL;
        assert_status(shoal_accpar_create(&bad[i], &plan), SHOAL_EINVAL);
        assert_null(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(halves_of_two_types_are_table_2),
        CHECK_TEST(more_freedom_is_never_slower),
        CHECK_TEST(shares_follow_speeds_where_links_are_free),
        CHECK_TEST(bad_questions_are_refused),
    };
    return CHECK_RUN(tests);
}
