/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

#include <string.h>

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

/* The longest run without a space; *length_out is 0 in an empty text. */
static char *longest_word(char *text, size_t *length_out)
{
    char *found = text;
    *length_out = 0;
    for (char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (length > *length_out) {
            found = at;
            *length_out = length;
        }
        at += length + strspn(at + length, " ");
    }
    return found;
}

void shoali_shorten(char *text, size_t bytes)
{
    enum { HEAD = 40, TAIL = 20, DOTS = 3, WORTH = 80 };
    size_t length = strlen(text), word;
    while (length >= bytes) {
        char *at = longest_word(text, &word);
        if (word < WORTH)
            break;
        const size_t over = length - bytes + 1 + DOTS, most = word - HEAD - TAIL;
        const size_t out = over < most ? over : most;
        char *after = at + HEAD + out;
        memcpy(at + HEAD, "...", DOTS);
        memmove(at + HEAD + DOTS, after, strlen(after) + 1);
        length -= out - DOTS;
    }
    if (length >= bytes && bytes > 0)
        text[bytes - 1] = '\0';
}
