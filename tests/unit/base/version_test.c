/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include "shoal/version.h"

static void text_and_numbers_agree(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", SHOAL_VERSION_MAJOR, SHOAL_VERSION_MINOR,
             SHOAL_VERSION_PATCH);
    assert_string_equal(shoal_version(), text);
    assert_string_equal(shoal_version(), SHOAL_VERSION_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(text_and_numbers_agree)};
    return CHECK_RUN(tests);
}
