/* SPDX-License-Identifier: Apache-2.0 */
/* Three digits of the magnitude's bits, from the top: 9, 11 and 11. Neighbouring elements often
 * share a digit, and a counter that was just written is slow to write again, hence four tables. */
#include "codec/select.h"

#include <string.h>

enum { TABLES = 4, FIRST_SHIFT = 22, FIRST = 1 << 9, DIGIT = 11, LATER = 1 << DIGIT };

static uint32_t magnitude_bits(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits & 0x7fffffffu;
}

static void count_first(const float *x, size_t n, uint32_t counts[FIRST])
{
    uint32_t tables[TABLES][FIRST] = {{0}};
    size_t i = 0;
    for (; i + TABLES <= n; i += TABLES)
        for (size_t j = 0; j < TABLES; j++)
            tables[j][magnitude_bits(x + i + j) >> FIRST_SHIFT]++;
    for (; i < n; i++)
        tables[0][magnitude_bits(x + i) >> FIRST_SHIFT]++;
    for (size_t d = 0; d < FIRST; d++)
        counts[d] = tables[0][d] + tables[1][d] + tables[2][d] + tables[3][d];
}

/* Digits of the elements whose bits above it are `prefix`. */
static void count_later(const float *x, size_t n, uint32_t prefix, unsigned shift,
                        uint32_t counts[LATER])
{
    memset(counts, 0, LATER * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = magnitude_bits(x + i);
        if (bits >> (shift + DIGIT) == prefix)
            counts[bits >> shift & (LATER - 1)]++;
    }
}

/* The digit of the k-th largest; k becomes its rank among those with this digit. */
static uint32_t digit_of(const uint32_t *counts, uint32_t digits, size_t *k)
{
    uint32_t d = digits - 1;
    for (; d > 0 && counts[d] < *k; d--)
        *k -= counts[d];
    return d;
}

uint32_t shoali_select(const float *x, size_t n, size_t k, size_t *equal_out)
{
    uint32_t counts[LATER];
    count_first(x, n, counts);
    for (uint32_t d = 0x7f800000u >> FIRST_SHIFT; d < FIRST; d++)
        if (counts[d] > 0)
            return SHOALI_SELECT_NOT_FINITE;
    uint32_t threshold = digit_of(counts, FIRST, &k);
    for (unsigned shift = FIRST_SHIFT; shift > 0;) {
        shift -= DIGIT;
        count_later(x, n, threshold, shift, counts);
        threshold = threshold << DIGIT | digit_of(counts, LATER, &k);
    }
    *equal_out = k;
    return threshold;
}

void shoali_select_indices(const float *x, size_t n, uint32_t threshold, size_t equal,
                           uint8_t *indices_out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = magnitude_bits(x + i);
        if (bits < threshold || (bits == threshold && equal == 0))
            continue;
        equal -= bits == threshold;
        uint16_t index = (uint16_t)i;
        memcpy(indices_out, &index, sizeof index);
        indices_out += sizeof index;
    }
}
