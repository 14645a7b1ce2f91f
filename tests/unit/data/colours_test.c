/* SPDX-License-Identifier: Apache-2.0 */
#include "data/loader.h"
#include "shoal/data.h"
#include "support/check.h"
#include "support/scratch_dir.h"

enum { RECORD_BYTES = 1 + 3 * 32 * 32 };

static shoal_status make(uint64_t seed, uint32_t train, uint32_t test, double hard,
                         shoal_data_progress *progress)
{
    char dir[64];
    shoal_colours *colours;
    snprintf(dir, sizeof dir, "%s", scratch_path(""));
    shoal_colours_desc desc = SHOAL_COLOURS_DESC_INIT;
    desc.dir = dir;
    desc.seed = seed;
    desc.train_count = train;
    desc.test_count = test;
    desc.hard = hard;
    shoal_status status = shoal_colours_open(&desc, &colours);
    if (status != SHOAL_OK)
        return status;
    uint64_t before = 0;
    while ((status = shoal_colours_step(colours, progress)) == SHOAL_PENDING) {
        assert_true(progress->done > before && progress->done < progress->total);
        before = progress->done;
    }
    shoal_colours_close(colours);
    return status;
}

static void the_files_are_cifars(void **state)
{
    shoal_data_progress progress;
    shoali_dataset *d;
    uint32_t seen[10] = {0};
    (void)state;
    assert_ok(make(check_seed(), 603, 200, 0, &progress));
    assert_int_equal(progress.done, 803);
    assert_int_equal(progress.total, 803);
    assert_int_equal(scratch_count(), 6);
    assert_ok(shoali_dataset_open(scratch_path(""), &d));
    assert_int_equal(d->train.count, 603);
    assert_int_equal(d->test.count, 200);
    assert_int_equal(d->channels, 3);
    assert_int_equal(d->height, 32);
    assert_int_equal(d->classes, 10);
    for (uint32_t i = 0; i < 603; i++)
        seen[d->train.labels[i]]++;
    for (int c = 0; c < 10; c++)
        assert_in_range(seen[c], 20, 120);
    shoali_dataset_close(d);
}

/* Image i depends on how many there are only by the file that it stands in; another seed or
 * hardness gives other images, another hardness the same classes. */
static void images_depend_on_seed_and_number_only(void **state)
{
    static const struct {
        uint64_t seed;
        double hard;
        uint32_t train;
        bool same_images, same_labels;
    } others[] = {{5, 1, 100, true, true},
                  {5, 1, 95, true, true},
                  {6, 1, 100, false, false},
                  {5, 2, 100, false, true}};
    shoal_data_progress progress;
    size_t len_bytes;
    (void)state;
    assert_ok(make(5, 100, 40, 1, &progress));
    uint8_t *first = scratch_read("data_batch_1.bin", &len_bytes);
    assert_int_equal(len_bytes, 20 * RECORD_BYTES);
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_ok(make(others[k].seed, others[k].train, 40, others[k].hard, &progress));
        uint8_t *other = scratch_read("data_batch_1.bin", &len_bytes);
        assert_int_equal(len_bytes, others[k].train / 5 * RECORD_BYTES);
        bool labels = true, images = true;
        for (size_t i = 0; i < len_bytes; i += RECORD_BYTES) {
            labels = labels && first[i] == other[i];
            images = images && memcmp(first + i + 1, other + i + 1, RECORD_BYTES - 1) == 0;
        }
        assert_int_equal(labels, others[k].same_labels);
        assert_int_equal(images, others[k].same_images);
        free(other);
    }
    free(first);
}

static void splits_differ(void **state)
{
    shoal_data_progress progress;
    size_t train_bytes, test_bytes;
    (void)state;
    assert_ok(make(5, 100, 20, 1, &progress));
    uint8_t *train = scratch_read("data_batch_1.bin", &train_bytes);
    uint8_t *test = scratch_read("test_batch.bin", &test_bytes);
    assert_int_equal(train_bytes, test_bytes);
    assert_memory_not_equal(train, test, test_bytes);
    free(train);
    free(test);
}

static void an_abandoned_set_leaves_nothing(void **state)
{
    char dir[64];
    shoal_colours *colours;
    shoal_data_progress progress;
    (void)state;
    snprintf(dir, sizeof dir, "%s", scratch_path(""));
    shoal_colours_desc desc = SHOAL_COLOURS_DESC_INIT;
    desc.dir = dir;
    assert_ok(shoal_colours_open(&desc, &colours));
    assert_int_equal(shoal_colours_step(colours, &progress), SHOAL_PENDING);
    assert_int_equal(progress.total, 48000);
    shoal_colours_close(colours);
    assert_int_equal(scratch_count(), 0);
    shoal_colours_close(NULL);
}

static void bad_requests_are_refused(void **state)
{
    shoal_colours *colours;
    shoal_colours_desc desc = SHOAL_COLOURS_DESC_INIT;
    (void)state;
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EINVAL);
    desc.dir = "/nowhere/at/all";
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EIO);
    assert_error_has("/nowhere/at/all");
    desc.hard = 5;
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EINVAL);
    assert_error_has("hard");
    desc.hard = 0;
    desc.train_count = 4;
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EINVAL);
    desc.train_count = 20000000;
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EINVAL);
    desc.size = 1;
    assert_status(shoal_colours_open(&desc, &colours), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_files_are_cifars, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(images_depend_on_seed_and_number_only, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(splits_differ, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(an_abandoned_set_leaves_nothing, scratch_set_up,
                                        scratch_tear_down),
        CHECK_TEST(bad_requests_are_refused),
    };
    return CHECK_RUN(tests);
}
