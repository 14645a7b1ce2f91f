/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"
#include "support/scratch_dir.h"

#include "data/loader.h"

enum { PIXELS = 3072, RECORDS = 3, MAX_BYTES = RECORDS * (PIXELS + 2) + 8 };

static uint8_t pixel(int file, size_t record, size_t i)
{
    return (uint8_t)(file * 50 + (int)record * 11 + (int)(i % 199));
}

static size_t make_file(int file, size_t label_bytes, uint8_t *bytes)
{
    size_t at = 0;
    for (size_t r = 0; r < RECORDS; r++) {
        if (label_bytes == 2)
            bytes[at++] = (uint8_t)(r + 17);
        bytes[at++] = (uint8_t)((size_t)file + r);
        for (size_t i = 0; i < PIXELS; i++)
            bytes[at++] = pixel(file, r, i);
    }
    return at;
}

static void write_file(const char *name, int file, size_t label_bytes)
{
    static uint8_t bytes[MAX_BYTES];
    size_t len_bytes = make_file(file, label_bytes, bytes);
    scratch_write(name, bytes, len_bytes);
}

static const char *dir(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s", scratch_path(""));
    return path;
}

static void assert_records(const shoali_split *split, size_t from, int file)
{
    for (size_t r = 0; r < RECORDS; r++) {
        assert_int_equal(split->labels[from + r], (size_t)file + r);
        for (size_t i = 0; i < PIXELS; i++)
            assert_int_equal(split->pixels[(from + r) * PIXELS + i], pixel(file, r, i));
    }
}

static void cifar10_is_read_as_far_as_it_is_there(void **state)
{
    shoali_dataset *d;
    (void)state;
    write_file("data_batch_1.bin", 1, 1);
    write_file("data_batch_2.bin", 2, 1);
    write_file("test_batch.bin", 5, 1);
    assert_ok(shoali_dataset_open(dir(), &d));
    assert_string_equal(d->format, "cifar10");
    assert_int_equal(d->classes, 10);
    assert_true(d->natural);
    assert_int_equal(d->train.count, 2 * RECORDS);
    assert_records(&d->train, 0, 1);
    assert_records(&d->train, RECORDS, 2);
    assert_int_equal(d->test.count, RECORDS);
    assert_records(&d->test, 0, 5);
    shoali_dataset_close(d);
}

static void cifar100_has_fine_labels(void **state)
{
    shoali_dataset *d;
    (void)state;
    write_file("train.bin", 40, 2);
    write_file("test.bin", 97, 2);
    assert_ok(shoali_dataset_open(dir(), &d));
    assert_string_equal(d->format, "cifar100");
    assert_int_equal(d->classes, 100);
    assert_records(&d->train, 0, 40);
    assert_records(&d->test, 0, 97);
    shoali_dataset_close(d);
}

static void broken_files_get_offset_and_reason(void **state)
{
    static uint8_t bytes[MAX_BYTES];
    shoali_dataset *d;
    (void)state;
    write_file("data_batch_1.bin", 1, 1);
    size_t len_bytes = make_file(1, 1, bytes);
    scratch_write("test_batch.bin", bytes, len_bytes - 1);
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    assert_error_has("no whole number of records of 3073");
    bytes[3073] = 10;
    scratch_write("test_batch.bin", bytes, len_bytes);
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    assert_error_has("byte 3073: record 1 has class 10 of 10");
    scratch_write("test_batch.bin", bytes, 0);
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    scratch_write_gz("test_batch.bin", bytes, len_bytes);
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_ECORRUPT);
    assert_error_has("compressed");
    remove(scratch_path("test_batch.bin"));
    assert_status(shoali_dataset_open(dir(), &d), SHOAL_EIO);
    assert_error_has("test_batch.bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cifar10_is_read_as_far_as_it_is_there, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(cifar100_has_fine_labels, scratch_set_up,
                                        scratch_tear_down),
        cmocka_unit_test_setup_teardown(broken_files_get_offset_and_reason, scratch_set_up,
                                        scratch_tear_down),
    };
    return CHECK_RUN(tests);
}
