/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/scratch_dir.h"

#include "data/loader.h"

enum { TRAIN = 5, TEST = 3, SIDE_Y = 4, SIDE_X = 6, PIXELS = SIDE_Y * SIDE_X, HEAD = 16 };

static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* A file as the format says, value i being 7 i + k mod 256 for images and i mod 10 for labels. */
static size_t make_file(int which, uint8_t *bytes)
{
    int count = which < 2 ? TRAIN : TEST, images = which % 2 == 0;
    const uint8_t head[HEAD] = {0, 0, 8, images ? 3 : 1, 0, 0, 0, (uint8_t)count,
                                0, 0, 0, SIDE_Y,         0, 0, 0, SIDE_X};
    size_t head_bytes = images ? 16 : 8, values = (size_t)count * (images ? PIXELS : 1);
    memcpy(bytes, head, head_bytes);
    for (size_t i = 0; i < values; i++)
        bytes[head_bytes + i] = (uint8_t)(images ? 7 * i + (size_t)which : (i + 4) % 10);
    return head_bytes + values;
}

static int make_set(void **state)
{
    uint8_t bytes[HEAD + TRAIN * PIXELS];
    (void)state;
    (void)scratch_dir_make();
    for (int i = 0; i < 4; i++) {
        size_t len_bytes = make_file(i, bytes);
        scratch_write(names[i], bytes, len_bytes);
    }
    return 0;
}

static int remove_set(void **state)
{
    (void)state;
    scratch_dir_remove();
    return 0;
}

static const char *dir(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s", scratch_path(""));
    return path;
}

static void assert_set(const shoali_dataset *d)
{
    assert_string_equal(d->format, "idx");
    assert_int_equal(d->train.count, TRAIN);
    assert_int_equal(d->test.count, TEST);
    assert_int_equal(d->channels, 1);
    assert_int_equal(d->height, SIDE_Y);
    assert_int_equal(d->width, SIDE_X);
    assert_int_equal(d->classes, 9); /* labels 4 .. 8, and 4 .. 6 */
    assert_false(d->natural);
    for (size_t i = 0; i < TRAIN * PIXELS; i++)
        assert_int_equal(d->train.pixels[i], (uint8_t)(7 * i));
    for (size_t i = 0; i < TEST * PIXELS; i++)
        assert_int_equal(d->test.pixels[i], (uint8_t)(7 * i + 2));
    for (size_t i = 0; i < TRAIN; i++)
        assert_int_equal(d->train.labels[i], (i + 4) % 10);
}

static void plain_and_compressed_files_are_read(void **state)
{
    shoali_dataset *d;
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[HEAD + TRAIN * PIXELS];
        char name[64];
        assert_ok(shoali_dataset_open(dir(), &d));
        assert_set(d);
        shoali_dataset_close(d);
        size_t len_bytes = make_file(i, bytes);
        remove(scratch_path(names[i]));
        snprintf(name, sizeof name, "%s.gz", names[i]);
        scratch_write_gz(name, bytes, len_bytes);
    }
    assert_ok(shoali_dataset_open(dir(), &d));
    assert_set(d);
    shoali_dataset_close(d);
}

/* One byte changed, or the file cut or lengthened. */
static const struct {
    int file;
    long at; /* byte to change; -1: none */
    uint8_t value;
    long grow; /* bytes more (or less) */
    const char *says;
} faults[] = {
    {0, 0, 0x1f, 0, "byte 0: no IDX file"},
    {0, 2, 0x0d, 0, "byte 2: values of type 0x0d"},
    {0, 3, 1, 0, "byte 3: 1 dimensions instead of 3"},
    {0, 4, 0x7f, 0, "the file is too small"},
    {0, 7, 0, 0, "byte 4: size 0"},
    {0, 12, 1, 0, "byte 12: size 16777222"},
    {0, -1, 0, -1, "too small"},
    {0, -1, 0, -130, "byte 6: the file ends, 2 bytes short"},
    {0, -1, 0, 1, "goes on behind its last record"},
    {1, 7, 6, 0, "6 labels for 5 images"},
    {1, -1, 0, -2, "too small"},
    {1, -1, 0, 3, "goes on"},
    {2, 11, 5, 0, "images of 1 x 5 x 6, those for training are 1 x 4 x 6"},
    {3, 3, 3, 0, "3 dimensions instead of 1"},
};

static void broken_files_get_offset_and_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        uint8_t bytes[HEAD + TRAIN * PIXELS + 16] = {0};
        shoali_dataset *d;
        size_t len_bytes = (size_t)((long)make_file(faults[i].file, bytes) + faults[i].grow);
        if (faults[i].at >= 0)
            bytes[faults[i].at] = faults[i].value;
        scratch_write(names[faults[i].file], bytes, len_bytes);
        assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
        assert_error_has(faults[i].says);
        assert_error_has(names[faults[i].file]);
        len_bytes = make_file(faults[i].file, bytes);
        scratch_write(names[faults[i].file], bytes, len_bytes);
    }
}

static void a_damaged_gzip_file_is_refused(void **state)
{
    uint8_t bytes[HEAD + TRAIN * PIXELS];
    shoali_dataset *d;
    size_t len_bytes = make_file(0, bytes), gz_bytes;
    (void)state;
    remove(scratch_path(names[0]));
    scratch_write_gz("train-images-idx3-ubyte.gz", bytes, len_bytes);
    uint8_t *gz = scratch_read("train-images-idx3-ubyte.gz", &gz_bytes);
    for (size_t cut = 1; cut < gz_bytes;
         cut++) { /* shorter than its head, zlib takes it for a plain file */
        scratch_write("train-images-idx3-ubyte.gz", gz, cut);
        assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    }
    gz[gz_bytes - 6] ^= 1; /* the checksum */
    scratch_write("train-images-idx3-ubyte.gz", gz, gz_bytes);
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    assert_error_has("decompressed");
    free(gz);
}

static void a_missing_file_is_named(void **state)
{
    shoali_dataset *d;
    (void)state;
    remove(scratch_path(names[2]));
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_EIO);
    assert_error_has(names[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_and_compressed_files_are_read, make_set, remove_set),
        cmocka_unit_test_setup_teardown(broken_files_get_offset_and_reason, make_set, remove_set),
        cmocka_unit_test_setup_teardown(a_damaged_gzip_file_is_refused, make_set, remove_set),
        cmocka_unit_test_setup_teardown(a_missing_file_is_named, make_set, remove_set),
    };
    return CHECK_RUN(tests);
}
