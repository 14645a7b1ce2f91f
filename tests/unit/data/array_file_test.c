/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of .npy files and what is wrong with them; files of NumPy itself, archives too:
 * tests/cli/data_images_test.py. */
#include "data/array_file.h"

#include <string.h>

#include "support/check.h"

enum { BYTES = 256 };

/* A file of version 1 with a head and `values` bytes 0, 1, 2, ... behind it. */
static size_t make(const char *head, size_t values, uint8_t *bytes)
{
    const size_t length = strlen(head);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)length;
    bytes[9] = 0;
    memcpy(bytes + 10, head, length);
    for (size_t i = 0; i < values; i++)
        bytes[10 + length + i] = (uint8_t)i;
    return 10 + length + values;
}

static void heads_are_read(void **state)
{
    (void)state;
    uint8_t bytes[BYTES];
    shoali_array a;
    size_t length = make("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }\n", 24,
                         bytes);
    assert_ok(shoali_array_read("x.npy", bytes, length, &a));
    assert_int_equal(a.dims, 3);
    assert_int_equal(a.count, 24);
    assert_int_equal(a.sizes[1], 3);
    assert_int_equal(shoali_array_at(&a, 23), 23);
    length = make("{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", 6, bytes);
    bytes[length - 1] = 0xff;
    assert_ok(shoali_array_read("x.npy", bytes, length, &a));
    assert_int_equal(shoali_array_at(&a, 1), 0x0302);
    assert_int_equal(shoali_array_at(&a, 2), (int16_t)0xff04);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        size_t values;
        const char *said;
    } bad[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", 4, "5 bytes should follow"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", 6, "6 do"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4, "type '<f4'"},
        {"{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", 4, "type '>i2'"},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (5,), }", 5, "Fortran"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1, "one number"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2), }", 0, "none of them 0"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }", 1, "shape (-1"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }", 1, "1 to 4 sizes"},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (4000000000, 4000000000), }", 8,
         "shape"},
        {"{'fortran_order': False, 'shape': (1,), }", 1, "no 'descr'"},
        {"{'descr': '|u1', 'shape': (1,), }", 1, "no 'fortran_order'"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4", 4, "ends within its shape"},
        {"{}", 0, "no 'descr'"}};
    uint8_t bytes[BYTES];
    shoali_array a;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const size_t length = make(bad[i].head, bad[i].values, bytes);
        assert_status(shoali_array_read("dir/x.npy", bytes, length, &a), SHOAL_ECORRUPT);
        assert_error_has("dir/x.npy");
        assert_error_has(bad[i].said);
    }
    assert_status(shoali_array_read("x.npy", bytes, 9, &a), SHOAL_ECORRUPT);
    memcpy(bytes, "\x93NUMPY\1\0\xff\xff\0\0", 12);
    assert_status(shoali_array_read("x.npy", bytes, 20, &a), SHOAL_ECORRUPT);
    assert_error_has("a head of 65535 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(heads_are_read), CHECK_TEST(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
