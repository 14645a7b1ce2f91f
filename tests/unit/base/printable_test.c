/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "base/printable.h"

static void what_a_terminal_would_obey_is_replaced(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"rank 3 of 4", "rank 3 of 4"},
        {"a\x1b[2Jb\nc\td\x7f", "a?[2Jb?c?d?"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\x9f", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x90\x9f"},
        {"\xc2\x9b"
         "31m \xc2\xa0",
         "??31m \xc2\xa0"}, /* CSI in one character; a space */
        {"\x9b"
         "31m \xff \xe2\x82",
         "?31m ? ??"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        shoali_make_printable(text);
        assert_string_equal(text, cases[i][1]);
    }
}

static void a_long_word_loses_its_middle(void **state)
{
    (void)state;
    char text[1200], word[1001];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    snprintf(text, sizeof text, "codec '%s' is unknown; known: fp16", word);
    shoali_shorten(text, 200);
    assert_int_equal(strlen(text), 199);
    assert_non_null(strstr(text, "codec 'xxx"));
    assert_non_null(strstr(text, "xxx...xxx"));
    assert_non_null(strstr(text, "xxx' is unknown; known: fp16"));

    snprintf(text, sizeof text, "%s or %s fails", word, "y");
    shoali_shorten(text, sizeof text); /* fits */
    assert_int_equal(strlen(text), 1000 + strlen(" or y fails"));

    snprintf(text, sizeof text, "%.400s and %.400s fail", word, word);
    shoali_shorten(text, 300);
    assert_true(strlen(text) < 300);
    assert_non_null(strstr(text, " fail"));

    snprintf(text, sizeof text, "a b c d e f g h"); /* nothing is worth it */
    shoali_shorten(text, 8);
    assert_string_equal(text, "a b c d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(what_a_terminal_would_obey_is_replaced),
                                       CHECK_TEST(a_long_word_loses_its_middle)};
    return CHECK_RUN(tests);
}
