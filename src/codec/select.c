/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th largest is found by three digits of the magnitudes' bits, from the top: 9, 11 and 11.
 * Neighbouring elements often share a digit, and a counter that was just written is slow to write
 * again, hence four tables.
 *
 * Counting all elements is slow. A sample says below which magnitude the k-th largest will hardly
 * be; one quick pass keeps the elements above it, and only these are counted. If the sample was
 * wrong, all are. */
#include "codec/select.h"

#include <string.h>

#include "base/error.h"
#include "kernel/kernel.h"

enum { TABLES = 4, FIRST_SHIFT = 22, FIRST = 1 << 9, DIGIT = 11, LATER = 1 << DIGIT };
enum { MOST = 8192, AT_ONCE = 512, SAMPLED_FROM = 1024, INFINITE = 0x7f800000 };

static uint32_t magnitude_bits(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* First digits of every so many elements. */
static void count_first(const float *x, size_t n, size_t step, uint32_t counts[FIRST])
{
    uint32_t tables[TABLES][FIRST] = {{0}};
    size_t i = 0;
    for (; i + TABLES * step <= n; i += TABLES * step)
        for (size_t j = 0; j < TABLES; j++)
            tables[j][magnitude_bits(x + i + j * step) >> FIRST_SHIFT]++;
    for (; i < n; i += step)
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

/* The k-th largest magnitude's bits; how many that equal it are among the k. */
static uint32_t threshold_of(const float *x, size_t n, size_t k, size_t *equal_out)
{
    uint32_t counts[LATER];
    count_first(x, n, 1, counts);
    uint32_t threshold = digit_of(counts, FIRST, &k);
    for (unsigned shift = FIRST_SHIFT; shift > 0;) {
        shift -= DIGIT;
        count_later(x, n, threshold, shift, counts);
        threshold = threshold << DIGIT | digit_of(counts, LATER, &k);
    }
    *equal_out = k;
    return threshold;
}

/* Bits, not 0, that at least k magnitudes probably reach, and not many more. */
static uint32_t guess(const float *x, size_t n, size_t k)
{
    uint32_t counts[FIRST];
    const size_t step = n < 16 * SAMPLED_FROM ? 4 : 16;
    size_t rank = 3 * k / (2 * step) + 2;
    if (n < SAMPLED_FROM || rank > n / step)
        return 1;
    count_first(x, n, step, counts);
    const uint32_t digit = digit_of(counts, FIRST, &rank);
    return digit > 0 ? digit << FIRST_SHIFT : 1;
}

/* Elements of which some were left out, and where they were. */
typedef struct kept {
    size_t count;
    uint16_t at[MOST + AT_ONCE];
    float x[MOST + AT_ONCE];
} kept;

/* Elements from `low` on, also all that are not finite; false: there are more than MOST. */
static bool keep(const float *x, size_t n, uint32_t low, kept *out)
{
    size_t count = 0;
    for (size_t i = 0, end; i < n && count <= MOST; i = end) {
        end = n - i < AT_ONCE ? n : i + AT_ONCE;
        size_t j = i;
#if defined(__aarch64__)
        if (shoali_kernel()->neon)
            j = shoali_select_reaching_neon(x, i, end, low, out->at, &count);
#endif
        for (; j < end; j++) {
            out->at[count] = (uint16_t)j;
            count += magnitude_bits(x + j) >= low;
        }
    }
    out->count = count;
    for (size_t j = 0; j < count; j++)
        out->x[j] = x[out->at[j]];
    return count <= MOST;
}

/* Numbers of the elements above the threshold and of the first `equal` at it; element i is number
 * at[i], or i without numbers. False: not finite. */
static bool put(const float *x, const uint16_t *at, size_t n, uint32_t threshold, size_t equal,
                uint8_t *indices)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = magnitude_bits(x + i);
        const uint16_t index = at != NULL ? at[i] : (uint16_t)i;
        if (bits >= INFINITE)
            return false;
        if (bits < threshold || (bits == threshold && equal == 0))
            continue;
        equal -= bits == threshold;
        memcpy(indices, &index, sizeof index);
        indices += sizeof index;
    }
    return true;
}

static bool select_of(const float *x, const uint16_t *at, size_t n, size_t k, uint8_t *indices)
{
    size_t equal;
    const uint32_t threshold = threshold_of(x, n, k, &equal);
    return put(x, at, n, threshold, equal, indices);
}

static bool select_some(const float *x, size_t n, size_t k, uint8_t *indices)
{
    kept some;
    some.x[0] = 0; /* for compilers that do not see that count comes first */
    const uint32_t low = guess(x, n, k);
    const bool few = keep(x, n, low, &some);
    if (few && some.count >= k)
        return select_of(some.x, some.at, some.count, k, indices);
    if (few && low == 1) /* all that are not 0, and the first that are */
        return put(x, NULL, n, 0, k - some.count, indices);
    return select_of(x, NULL, n, k, indices);
}

shoal_status shoali_select(const char *name, size_t first, const float *x, size_t n, size_t k,
                           uint8_t *indices_out)
{
    if (!select_some(x, n, k, indices_out))
        return shoali_fail(SHOAL_ENOTFINITE, "%s: an element from %zu on is not finite", name,
                           first);
    return SHOAL_OK;
}
