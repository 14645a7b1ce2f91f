#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write src/data/unicode_fold.c: what characters are without their accents, and small letters, from
Python's unicodedata (Unicode's UnicodeData.txt). unicode_fold.py [FILE]"""
import sys
import unicodedata
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "src" / "data" / "unicode_fold.c"
HANGUL = range(0xAC00, 0xD7A4)  # by rule


def characters():
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000 and code not in HANGUL:
            yield code, chr(code)


def bases():
    """(character, one of what it decomposes to, marks left out), in order."""
    for code, c in characters():
        parts = unicodedata.normalize("NFD", c)
        if parts != c:
            for part in parts:
                if unicodedata.category(part) != "Mn":
                    yield code, ord(part)


def small():
    """[first, last, what is added, distance of two]; what becomes two characters is left out."""
    runs = []
    for code, c in characters():
        if c.lower() == c or len(c.lower()) > 1:
            continue
        added, run = ord(c.lower()) - code, runs[-1] if runs else None
        gap = code - run[1] if run else 0
        if run and run[2] == added and gap in (1, 2) and run[3] in (0, gap):
            run[1], run[3] = code, gap
        else:
            runs.append([code, code, added, 0])
    return [(*run[:3], run[3] or 1) for run in runs]


def table(rows):
    line, lines = "   ", []
    for row in rows:
        text = " {" + ", ".join(hex(v) if i < 2 else str(v) for i, v in enumerate(row)) + "},"
        if len(line) + len(text) > 100:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join([*lines, line])


TEXT = """/* SPDX-License-Identifier: Apache-2.0 */
/* Written by tools/unicode_fold.py from Unicode @VERSION@: not by hand. */
#include "data/unicode_fold.h"

/* clang-format off */
/* A character, and one of what it decomposes to (canonically, marks left out). */
static const uint32_t bases[][2] = {
@BASES@
};

/* First and last, what is added, distance of two. */
static const struct {
    uint32_t first, last;
    int32_t added;
    uint32_t step;
} small[] = {
@SMALL@
};
/* clang-format on */

/* Syllables of Hangul are made of two or three letters (The Unicode Standard, section 3.12). */
static uint32_t hangul(uint32_t c, uint32_t out[SHOALI_FOLD_MAX])
{
    const uint32_t index = c - 0xac00, last = index % 28;
    out[0] = 0x1100 + index / (21 * 28);
    out[1] = 0x1161 + index / 28 % 21;
    out[2] = 0x11a7 + last;
    return last > 0 ? 3 : 2;
}

uint32_t shoali_fold_bases(uint32_t c, uint32_t out[SHOALI_FOLD_MAX])
{
    size_t low = 0, high = sizeof bases / sizeof *bases;
    uint32_t count = 0;
    if (c >= 0xac00 && c < 0xd7a4)
        return hangul(c, out);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (bases[middle][0] < c)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < sizeof bases / sizeof *bases && bases[low][0] == c; low++)
        out[count++] = bases[low][1];
    if (count == 0)
        out[count++] = c;
    return count;
}

uint32_t shoali_fold_small(uint32_t c)
{
    size_t low = 0, high = sizeof small / sizeof *small;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (small[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == sizeof small / sizeof *small || c < small[low].first ||
        (c - small[low].first) % small[low].step != 0)
        return c;
    return (uint32_t)((int32_t)c + small[low].added);
}
"""


def main():
    text = TEXT.replace("@VERSION@", unicodedata.unidata_version)
    text = text.replace("@BASES@", table(bases())).replace("@SMALL@", table(small()))
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_text(text)


if __name__ == "__main__":
    main()
