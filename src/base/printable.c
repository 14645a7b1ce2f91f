/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

size_t shoali_printable(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = 0;
    if (s[0] >= 0x20 && s[0] < 0x7F)
        length = 1;
    else if (s[0] >= 0xC2 && s[0] < 0xF5)
        length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return s[0] == 0xC2 && s[1] < 0xA0 ? 0 : length;
}

void shoali_make_printable(char *text)
{
    while (*text != '\0') {
        size_t length = shoali_printable(text);
        if (length == 0)
            *text = '?';
        text += length == 0 ? 1 : length;
    }
}
