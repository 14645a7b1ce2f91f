#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write src/data/unicode_fold.inc: what characters are without their accents, and small letters,
from Python's unicodedata (Unicode's UnicodeData.txt). unicode_fold.py [FILE]"""
import sys
import unicodedata
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "src" / "data" / "unicode_fold.inc"
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
"""


def main():
    text = TEXT.replace("@VERSION@", unicodedata.unidata_version)
    text = text.replace("@BASES@", table(bases())).replace("@SMALL@", table(small()))
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_text(text)


if __name__ == "__main__":
    main()
