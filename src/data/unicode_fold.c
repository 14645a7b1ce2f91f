/* SPDX-License-Identifier: Apache-2.0 */
#include "data/unicode_fold.h"

/* Two tables, bases and small, by tools/unicode_fold.py. */
#include "data/unicode_fold.inc"

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
