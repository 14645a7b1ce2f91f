/* SPDX-License-Identifier: Apache-2.0 */
/* Every table is listed whole, and what a listing says of a key is what its spec takes. */
#include "shoal/rows.h"

#include <stdio.h>
#include <string.h>

#include "codec/codec.h"
#include "shoal/codec.h"
#include "support/check.h"

static void tables_have_rows_and_end(void **state)
{
    (void)state;
    for (int t = 0; t < SHOAL_TABLE_COUNT; t++) {
        shoal_row row = {.size = sizeof row};
        size_t i = 0;
        assert_non_null(shoal_table_name((shoal_table)t));
        for (; shoal_row_at((shoal_table)t, i, &row); i++) {
            assert_true(strlen(row.name) > 0 && strlen(row.about) > 0);
            uint32_t traits = 0, keys = 0;
            shoal_row_key key = {.size = sizeof key};
            while (shoal_row_trait((shoal_table)t, i, traits) != NULL)
                traits++;
            for (; shoal_row_key_at((shoal_table)t, i, keys, &key); keys++)
                assert_true(strncmp(key.syntax, key.name, strlen(key.name)) == 0 &&
                            strlen(key.help) > 0);
            assert_int_equal(traits, row.trait_count);
            assert_int_equal(keys, row.key_count);
        }
        assert_true(i >= 2);
        assert_null(shoal_row_trait((shoal_table)t, i, 0));
    }
    assert_null(shoal_table_name(SHOAL_TABLE_COUNT));
}

static void codecs_are_all_there(void **state)
{
    (void)state;
    shoal_row row = {.size = sizeof row};
    for (size_t i = 0; i < shoali_codec_count(); i++) {
        assert_true(shoal_row_at(SHOAL_TABLE_CODECS, i, &row));
        assert_string_equal(row.name, shoali_codec_row_at(i)->name);
    }
    assert_false(shoal_row_at(SHOAL_TABLE_CODECS, shoali_codec_count(), &row));
}

static void a_default_is_taken_back(void **state)
{
    (void)state;
    shoal_row row = {.size = sizeof row};
    for (size_t i = 0; shoal_row_at(SHOAL_TABLE_CODECS, i, &row); i++) {
        shoal_row_key key = {.size = sizeof key};
        for (uint32_t k = 0; shoal_row_key_at(SHOAL_TABLE_CODECS, i, k, &key); k++) {
            char spec[256];
            shoal_codec *codec = NULL;
            snprintf(spec, sizeof spec, "%s:%s=%s", row.name, key.name, key.fallback);
            assert_ok(shoal_codec_open(spec, &codec));
            shoal_codec_close(codec);
        }
    }
}

static void a_struct_of_another_size_is_not_written(void **state)
{
    (void)state;
    shoal_row row = {.size = 1};
    shoal_row_key key = {.size = 1};
    assert_false(shoal_row_at(SHOAL_TABLE_CODECS, 0, &row));
    assert_false(shoal_row_at(SHOAL_TABLE_CODECS, 0, NULL));
    assert_false(shoal_row_key_at(SHOAL_TABLE_CODECS, 0, 0, &key));
    assert_null(row.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(tables_have_rows_and_end),
        CHECK_TEST(codecs_are_all_there),
        CHECK_TEST(a_default_is_taken_back),
        CHECK_TEST(a_struct_of_another_size_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
