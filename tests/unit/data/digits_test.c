/* SPDX-License-Identifier: Apache-2.0 */
#include "shoal/data.h"

#include "data/loader.h"
#include "support/check.h"
#include "support/scratch_dir.h"

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* Make a set in the scratch directory; SHOAL_ENOTSUP: no fonts here. */
static shoal_status make(uint64_t seed, uint32_t train, uint32_t test, double hard,
                         shoal_digits_progress *progress)
{
    char dir[64];
    shoal_digits *digits;
    snprintf(dir, sizeof dir, "%s", scratch_path(""));
    shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
    desc.dir = dir;
    desc.seed = seed;
    desc.train_count = train;
    desc.test_count = test;
    desc.hard = hard;
    shoal_status status = shoal_digits_open(&desc, &digits);
    if (status != SHOAL_OK)
        return status;
    uint64_t before = 0;
    while ((status = shoal_digits_step(digits, progress)) == SHOAL_PENDING) {
        assert_true(progress->done > before && progress->done < progress->total);
        before = progress->done;
    }
    shoal_digits_close(digits);
    return status;
}

static void the_files_are_a_data_set(void **state)
{
    shoal_digits_progress progress;
    shoali_dataset *d;
    uint32_t seen[10] = {0};
    (void)state;
    assert_ok(make(check_seed(), 600, 200, 1, &progress));
    assert_int_equal(progress.done, 800);
    assert_int_equal(progress.total, 800);
    assert_int_equal(progress.test_fonts, (progress.train_fonts + progress.test_fonts) / 5);
    assert_int_equal(scratch_count(), 4);
    assert_ok(shoali_dataset_open(scratch_path(""), &d));
    assert_int_equal(d->train.count, 600);
    assert_int_equal(d->test.count, 200);
    assert_int_equal(d->height, 28);
    assert_int_equal(d->width, 28);
    assert_int_equal(d->classes, 10);
    assert_true(d->mean[0] > 0.05f && d->mean[0] < 0.3f);
    for (uint32_t i = 0; i < 600; i++)
        seen[d->train.labels[i]]++;
    for (int c = 0; c < 10; c++)
        assert_in_range(seen[c], 20, 120);
    shoali_dataset_close(d);
}

/* Image i does not depend on how many there are; another seed or hardness gives other images. */
static void images_depend_on_seed_and_number_only(void **state)
{
    shoal_digits_progress progress;
    size_t bytes[4];
    uint8_t *first[4];
    (void)state;
    assert_ok(make(5, 300, 40, 1, &progress));
    for (int i = 0; i < 4; i++)
        first[i] = scratch_read(names[i], &bytes[i]);
    static const struct {
        uint64_t seed;
        uint32_t train;
        double hard;
        bool same_images, same_labels;
    } others[] = {{5, 300, 1, true, true},
                  {5, 290, 1, true, true},
                  {6, 300, 1, false, false},
                  {5, 300, 2, false, true}};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_ok(make(others[k].seed, others[k].train, 40, others[k].hard, &progress));
        for (int i = 0; i < 4; i++) {
            size_t len_bytes, head = i % 2 == 0 ? 16 : 8;
            uint8_t *other = scratch_read(names[i], &len_bytes);
            bool same = memcmp(other + head, first[i] + head,
                               (len_bytes < bytes[i] ? len_bytes : bytes[i]) - head) == 0;
            assert_int_equal(same, i % 2 == 0 ? others[k].same_images : others[k].same_labels);
            free(other);
        }
    }
    for (int i = 0; i < 4; i++)
        free(first[i]);
}

static void an_abandoned_set_leaves_nothing(void **state)
{
    char dir[64];
    shoal_digits *digits;
    shoal_digits_progress progress;
    (void)state;
    snprintf(dir, sizeof dir, "%s", scratch_path(""));
    shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
    desc.dir = dir;
    assert_ok(shoal_digits_open(&desc, &digits));
    assert_int_equal(shoal_digits_step(digits, &progress), SHOAL_PENDING);
    assert_int_equal(progress.total, 48000);
    shoal_digits_close(digits);
    assert_int_equal(scratch_count(), 0);
    shoal_digits_close(NULL);
}

static void bad_requests_are_refused(void **state)
{
    shoal_digits *digits;
    shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
    (void)state;
    assert_status(shoal_digits_open(&desc, &digits), SHOAL_EINVAL);
    desc.dir = "/nowhere/at/all";
    assert_status(shoal_digits_open(&desc, &digits), SHOAL_EIO);
    assert_error_has("/nowhere/at/all");
    desc.hard = 5;
    assert_status(shoal_digits_open(&desc, &digits), SHOAL_EINVAL);
    assert_error_has("hard");
    desc.hard = 0;
    desc.train_count = 20000000;
    assert_status(shoal_digits_open(&desc, &digits), SHOAL_EINVAL);
    desc.size = 1;
    assert_status(shoal_digits_open(&desc, &digits), SHOAL_EINVAL);
}

int main(void)
{
    shoal_digits *digits;
    shoal_digits_desc desc = SHOAL_DIGITS_DESC_INIT;
    desc.dir = "/nowhere/at/all";
    if (shoal_digits_open(&desc, &digits) == SHOAL_ENOTSUP) {
        printf("skipped: %s\n", shoal_last_error()->text);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_files_are_a_data_set, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(images_depend_on_seed_and_number_only, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_abandoned_set_leaves_nothing, scratch_set_up,
                                        scratch_tear_down),
        CHECK_TEST(bad_requests_are_refused),
    };
    return CHECK_RUN(tests);
}
