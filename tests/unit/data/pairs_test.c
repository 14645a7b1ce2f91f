/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sparse samples: written and read, batches with room behind the last pair, what is
 * refused. */
#include "support/check.h"
#include "support/scratch_dir.h"

#include <stdlib.h>
#include <string.h>

#include "data/pairs.h"

static uint64_t starts[] = {0, 2, 2, 5};
static uint16_t labels[] = {1, 0, 2};
static float values[5][2] = {{0, 1.5f}, {7, -2}, {1, 0.25f}, {3, 4}, {11, -0.5f}};
static const shoali_pairs three = {.features = 12,
                                   .classes = 3,
                                   .count = 3,
                                   .most = 3,
                                   .starts = starts,
                                   .labels = labels,
                                   .pairs = &values[0][0]};

static void what_is_written_is_read(void **state)
{
    shoali_dataset *d;
    float x[2][4][2];
    uint32_t got[2];
    const uint32_t which[] = {2, 1};
    const shoali_crop crop = {.height = 4, .width = 2};
    (void)state;
    (void)scratch_dir_make();
    assert_ok(shoali_pairs_write(scratch_path("train.pairs"), &three));
    assert_ok(shoali_pairs_write(scratch_path("test.pairs"), &three));
    assert_ok(shoali_dataset_open(scratch_path("."), &d));
    assert_true(d->pairs && d->ids == 12 && d->classes == 3 && d->height == 3 && d->width == 2);
    shoali_dataset_fill(d, &d->train, which, 2, 0, &crop, &x[0][0][0], got);
    assert_true(got[0] == 2 && got[1] == 0);
    assert_memory_equal(x[0], values[2], 3 * sizeof values[0]);
    assert_true(x[0][3][0] == -1 && x[0][3][1] == 0 && x[1][0][0] == -1 && x[1][3][0] == -1);
    shoali_dataset_close(d);
    scratch_dir_remove();
}

static uint8_t *bytes;
static size_t length;

/* With a word of the file changed, then as it was. */
static void refused(size_t at, uint32_t word, const char *why)
{
    shoal_arena *arena = shoali_arena_create(1024);
    shoali_pairs p;
    uint8_t kept[4];
    memcpy(kept, bytes + at, 4);
    memcpy(bytes + at, &word, 4);
    scratch_write("train.pairs", bytes, length);
    assert_status(shoali_pairs_read(scratch_path("."), "train.pairs", arena, &p), SHOAL_ECORRUPT);
    assert_error_has(why);
    memcpy(bytes + at, kept, 4);
    shoali_arena_destroy(arena);
}

static void bad_files_are_refused(void **state)
{
    const size_t counts = 32 + 6, features = counts + 12, reals = features + 20;
    (void)state;
    (void)scratch_dir_make();
    assert_ok(shoali_pairs_write(scratch_path("train.pairs"), &three));
    bytes = scratch_read("train.pairs", &length);
    assert_int_equal(length, reals + 20);
    refused(0, 0, "it does not start with SHOALPRS");
    refused(8, 2, "version 2");
    refused(12, 0, "0 features");
    refused(16, 1u << 17, "131072 classes");
    refused(20, 0xffffffff, "the file is too small");
    refused(28, 1, "pairs");
    refused(32, 3, "class 3 of 3");
    refused(counts, 6, "sample 0 has 6 pairs");
    refused(counts + 8, 2, "5 pairs, the samples have 4");
    refused(features, 12, "sample 0: its features do not ascend, or are more than there are");
    refused(features + 4, 0, "sample 0: its features do not ascend");
    refused(reals + 4, 0x7fc00000, "sample 0: a value that is no number");
    length--;
    refused(8, 1, "the file is too small");
    free(bytes);
    scratch_dir_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(what_is_written_is_read),
        CHECK_TEST(bad_files_are_refused),
    };
    return CHECK_RUN(tests);
}
