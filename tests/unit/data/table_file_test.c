/* SPDX-License-Identifier: Apache-2.0 */
#include "data/table_file.h"

#include <string.h>

#include "support/check.h"

static shoal_status read_text(const char *text, shoal_arena *arena, shoali_table *t)
{
    return shoali_table_read("dir/t.csv", text, strlen(text), arena, t);
}

static void classes_and_pixels_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "7,1,2,3,4\n0,255,0,9,10\n", "7,1,2,3,4\r\n0,255,0,9,10",
        "label,p0,p1,p2,p3\n 7 , 1,2,3,4\n\n0,255,0,9,10\n\n",
        "\"p0\",\"p1\",\"class\",\"p2\",\"p3\"\n1,2,7,3,4\n255,0,0,9,10\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        shoal_arena *arena = shoali_arena_create(4096);
        shoali_table t;
        assert_ok(read_text(texts[i], arena, &t));
        assert_int_equal(t.rows, 2);
        assert_int_equal(t.values, 4);
        assert_int_equal(t.labels[0], 7);
        assert_int_equal(t.labels[1], 0);
        assert_memory_equal(t.pixels, ((const uint8_t[]){1, 2, 3, 4, 255, 0, 9, 10}), 8);
        shoali_arena_destroy(arena);
    }
}

static void what_is_wrong_is_said_with_row_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } bad[] = {
        {"1,2,3\n1,2,300\n", "row 2, column 3: '300' instead of a whole number from 0 to 255"},
        {"label,a,b\n1,2,3\n1,,3\n", "row 3, column 2: ''"},
        {"1,2,3\n1,2\n", "row 2 has fewer than 3 columns"},
        {"1,2,3\n1,2,3,4\n", "row 2 has more than 3 columns"},
        {"1,2,3\n1,2,-3\n", "'-3'"},
        {"1,2,3\n1,2,4294967297\n", "'4294967297'"},
        {"1,2,3\n1,2,3.5\n", "'3.5'"},
        {"70000,2,3\n", "column 1: '70000' instead of a whole number from 0 to 65535"},
        {"label,a\n", "0 rows"},
        {"", "0 rows"},
        {"5\n6\n", "a row needs a class and"},
        {"1;2;3\n1;2;3\n", "a row needs a class and"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_arena *arena = shoali_arena_create(4096);
        shoali_table t;
        assert_status(read_text(bad[i].text, arena, &t), SHOAL_ECORRUPT);
        assert_error_has("dir/t.csv");
        assert_error_has(bad[i].said);
        shoali_arena_destroy(arena);
    }
    shoali_table t;
    assert_status(shoali_table_read("t.csv", "1,2\0,3", 6, NULL, &t), SHOAL_ECORRUPT);
    assert_error_has("byte 3: a zero byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(classes_and_pixels_are_read),
                                       CHECK_TEST(what_is_wrong_is_said_with_row_and_column)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
