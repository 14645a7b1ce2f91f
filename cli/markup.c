/* SPDX-License-Identifier: Apache-2.0 */
#include "markup.h"

#include <stdbool.h>

/* U+FFFE and U+FFFF, which are no characters. */
static bool is_no_character(const char *text)
{
    return (unsigned char)text[0] == 0xEF && (unsigned char)text[1] == 0xBF &&
           (unsigned char)text[2] >= 0xBE;
}

static void put_character(FILE *out, char c)
{
    switch (c) {
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '&':
        fputs("&amp;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    case '\'':
        fputs("&#39;", out);
        break;
    default:
        fputc((unsigned char)c < ' ' && c != '\n' && c != '\t' ? '?' : c, out);
    }
}

void cli_markup(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        put_character(out, is_no_character(text) ? '?' : *text);
        text += is_no_character(text) ? 2 : 0;
    }
}
