/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/add-codec.md is the compiled file, and keeps what the page promises. That it
 * keeps the contract is checked in codec_test.c. */
#include "support/check.h"

#include "support/example_codec.h"

/* Caller frees. */
static char *read_file(const char *path)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", SHOAL_SOURCE_DIR, path);
    FILE *file = fopen(whole, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    size_t len = fread(text, 1, (1 << 16) - 1, file);
    assert_in_range(len, 1, (1 << 16) - 2);
    fclose(file);
    return text;
}

static void the_page_shows_the_file(void **state)
{
    (void)state;
    char *page = read_file("docs/add-codec.md");
    char *code = read_file("tests/support/example_codec.c");
    char *shown = strstr(page, "```c\n/* SPDX");
    assert_non_null(shown);
    shown += strlen("```c\n");
    char *end = strstr(shown, "```");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(shown, code);
    free(page);
    free(code);
}

static void the_example_is_not_in_the_table(void **state)
{
    (void)state;
    shoal_codec *codec = NULL;
    assert_status(shoal_codec_open("example", &codec), SHOAL_EINVAL);
    assert_null(codec);
}

static void the_example_codes_bytes(void **state)
{
    (void)state;
    const float src[5] = {0, 1, -2, 5, -0.01f};
    const uint8_t want[5] = {0, 64, 0x81, 127, 0xff};
    const shoal_codec_at at = {.parts = 1};
    uint8_t bytes[5];
    size_t written;
    shoal_codec *codec;
    assert_ok(shoali_codec_open_row(&shoali_codec_example, "example:range=2", &codec));
    assert_true(codec->error_feedback);
    assert_ok(shoal_codec_encode(codec, &at, src, 5, bytes, 5, &written));
    assert_memory_equal(bytes, want, 5);
    shoal_codec_close(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_page_shows_the_file),
        CHECK_TEST(the_example_is_not_in_the_table),
        CHECK_TEST(the_example_codes_bytes),
    };
    return CHECK_RUN(tests);
}
