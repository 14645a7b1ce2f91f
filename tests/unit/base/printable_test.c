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

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(what_a_terminal_would_obey_is_replaced)};
    return CHECK_RUN(tests);
}
