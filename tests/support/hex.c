/* SPDX-License-Identifier: Apache-2.0 */
#include "support/hex.h"

size_t hex_parse(const char *text, uint8_t *out, size_t capacity)
{
    size_t digits = strspn(text, "0123456789abcdef");
    assert_true(digits % 2 == 0 && digits / 2 <= capacity);
    for (size_t i = 0; i < digits / 2; i++) {
        unsigned value;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        out[i] = (uint8_t)value;
    }
    return digits / 2;
}
