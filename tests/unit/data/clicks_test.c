/* SPDX-License-Identifier: Apache-2.0 */
/* Click logs: the law of the ids, the same bytes from the same seed, files that are refused. */
#include "support/check.h"
#include "support/scratch_dir.h"

#include <math.h>

#include "data/clicks.h"
#include "shoal/data.h"

enum { FIELDS = 5, VOCAB = 2000, COUNT = 20000 };

static shoal_clicks_desc small(uint64_t seed)
{
    shoal_clicks_desc desc = SHOAL_CLICKS_DESC_INIT;
    desc.dir = scratch_dir_make();
    desc.seed = seed;
    desc.train_count = COUNT;
    desc.test_count = 100;
    desc.fields = FIELDS;
    desc.vocab = VOCAB;
    desc.skew = 1.2;
    return desc;
}

/* The last field starts where the others end; its ids come as the integral of x^-1.2 says. */
static void ids_follow_zipf(void **state)
{
    const shoal_clicks_desc desc = small(3);
    shoal_clicks_info info;
    shoali_dataset *d;
    (void)state;
    assert_ok(shoal_clicks_make(&desc, &info));
    assert_int_equal(info.samples, COUNT + 100);
    assert_true(info.clicks > info.samples / 10 && info.clicks < info.samples / 2);
    assert_ok(shoali_dataset_open(desc.dir, &d));
    assert_true(d->ids == VOCAB && d->height == FIELDS && d->classes == 2 && !d->sequences);
    uint32_t seen[VOCAB] = {0}, first = VOCAB;
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t id = (uint32_t)d->train.frames[i * FIELDS + FIELDS - 1];
        assert_true(id < VOCAB);
        seen[id]++;
        first = id < first ? id : first;
    }
    const double n = VOCAB - first, all = (1 - pow(n + 1, -0.2)) / 0.2;
    for (uint32_t k = 1; k <= 16; k *= 2) {
        const double share = (pow(k, -0.2) - pow(k + 1, -0.2)) / 0.2 / all,
                     deviation = sqrt(share * (1 - share) / COUNT);
        /* five deviations: less than one run in a million fails */
        assert_true(fabs((double)seen[first + k - 1] / COUNT - share) < 5 * deviation);
    }
    float x[2 * FIELDS];
    uint32_t labels[2];
    const uint32_t which[2] = {7, 3};
    const shoali_crop crop = {.height = FIELDS, .width = 1};
    shoali_dataset_fill(d, &d->train, which, 2, 0, &crop, x, labels);
    assert_memory_equal(x, d->train.frames + 7 * FIELDS, FIELDS * sizeof *x);
    assert_memory_equal(x + FIELDS, d->train.frames + 3 * FIELDS, FIELDS * sizeof *x);
    assert_int_equal(labels[1], d->train.labels[3]);
    shoali_dataset_close(d);
    scratch_dir_remove();
}

static void read_back(const shoal_clicks_desc *desc, shoal_arena *arena, shoali_clicks *c)
{
    shoal_clicks_info info;
    assert_ok(shoal_clicks_make(desc, &info));
    assert_ok(shoali_clicks_read(desc->dir, "train.clicks", arena, c));
    scratch_dir_remove();
}

static void the_seed_decides(void **state)
{
    shoal_arena *arena = shoali_arena_create(1024);
    shoali_clicks a, b, other;
    (void)state;
    shoal_clicks_desc desc = small(5);
    read_back(&desc, arena, &a);
    desc = small(5);
    read_back(&desc, arena, &b);
    desc = small(6);
    read_back(&desc, arena, &other);
    const size_t bytes = (size_t)COUNT * FIELDS * sizeof *a.ids;
    assert_memory_equal(a.ids, b.ids, bytes);
    assert_memory_equal(a.clicks, b.clicks, COUNT);
    assert_memory_not_equal(a.ids, other.ids, bytes);
    shoali_arena_destroy(arena);
}

static void refused(const uint8_t *bytes, size_t len_bytes, const char *why)
{
    shoal_arena *arena = shoali_arena_create(1024);
    shoali_clicks c;
    scratch_write("train.clicks", bytes, len_bytes);
    assert_status(shoali_clicks_read(scratch_path("."), "train.clicks", arena, &c), SHOAL_ECORRUPT);
    assert_error_has(why);
    shoali_arena_destroy(arena);
}

static void bad_files_are_refused(void **state)
{
    uint8_t bytes[24 + 1 + 8] = "SHOALCLK\1\0\0\0\2\0\0\0\3\0\0\0\1\0\0\0\1\2\0\0\0\0\0\0";
    (void)state;
    (void)scratch_dir_make();
    refused(bytes, sizeof bytes - 1, "too small");
    bytes[25] = 3;
    refused(bytes, sizeof bytes, "byte 25: id 3 of a vocabulary of 3");
    bytes[25] = 2;
    bytes[24] = 2;
    refused(bytes, sizeof bytes, "sample 0 has 2 clicks");
    bytes[12] = 0;
    refused(bytes, sizeof bytes, "0 fields");
    bytes[8] = 9;
    refused(bytes, sizeof bytes, "version 9");
    bytes[0] = 's';
    refused(bytes, sizeof bytes, "no click log");
    scratch_dir_remove();
}

static void bad_wishes_are_refused(void **state)
{
    shoal_clicks_desc desc = SHOAL_CLICKS_DESC_INIT;
    shoal_clicks_info info;
    (void)state;
    assert_status(shoal_clicks_make(&desc, &info), SHOAL_EINVAL);
    desc.dir = "/nonexistent/clicks";
    assert_status(shoal_clicks_make(&desc, &info), SHOAL_EIO);
    desc.vocab = 50;
    assert_status(shoal_clicks_make(&desc, &info), SHOAL_EINVAL);
    assert_error_has("26 fields need a vocabulary of 104 ids and more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(ids_follow_zipf),
        CHECK_TEST(the_seed_decides),
        CHECK_TEST(bad_files_are_refused),
        CHECK_TEST(bad_wishes_are_refused),
    };
    return CHECK_RUN(tests);
}
