/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/trust.h"

#include <math.h>

static const double LONG = 1.25, TOO_LONG = 10, ALONG = 0.2, PART = 0.25, AGAINST = -0.2;
enum { ENOUGH = 3 };

/* Of values of those that moved, but for one. Small counts: no need to sort well. */
static double median_of_others(const double *values, const double *lengths, uint32_t count,
                               uint32_t but)
{
    double sorted[SHOALI_TRUST_WORKERS];
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == but || !isfinite(lengths[i]) || !(lengths[i] > 0))
            continue;
        uint32_t at = used++;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return used > 0 ? (sorted[(used - 1) / 2] + sorted[used / 2]) / 2 : INFINITY;
}

static uint32_t moved(const double *lengths, uint32_t count)
{
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++)
        some += isfinite(lengths[i]) && lengths[i] > 0;
    return some;
}

void shoali_trust_lengths(const double *lengths, uint32_t count, shoali_verdict *verdicts_out,
                          double *factors_out)
{
    const bool enough = moved(lengths, count) >= ENOUGH;
    for (uint32_t i = 0; i < count; i++) {
        const double median = enough ? median_of_others(lengths, lengths, count, i) : INFINITY;
        const bool finite = isfinite(lengths[i]);
        verdicts_out[i] = !finite                          ? SHOALI_NOT_FINITE
                          : lengths[i] > TOO_LONG * median ? SHOALI_TOO_LONG
                                                           : SHOALI_TRUSTED;
        factors_out[i] = verdicts_out[i] != SHOALI_TRUSTED ? 0
                         : lengths[i] > LONG * median      ? LONG * median / lengths[i]
                                                           : 1;
    }
}

/* Cosine of an update with the sum of the others. */
static double cosine(double length, double product, double sum, double factor)
{
    const double rest = product - factor * length * length;
    const double others = sum * sum - 2 * factor * product + factor * factor * length * length;
    return length > 0 && others > 0 ? rest / (length * sqrt(others)) : 0;
}

void shoali_trust_directions(const double *lengths, const double *products, double sum,
                             uint32_t count, shoali_verdict *verdicts, double *factors)
{
    const bool enough = moved(lengths, count) >= ENOUGH;
    double cosines[SHOALI_TRUST_WORKERS];
    uint32_t refused = 0;
    for (uint32_t i = 0; i < count; i++)
        cosines[i] = verdicts[i] == SHOALI_TRUSTED
                         ? cosine(lengths[i], products[i], sum, factors[i])
                         : -1;
    for (uint32_t i = 0; i < count; i++) {
        const double usual = enough ? median_of_others(cosines, lengths, count, i) : 0;
        const double least = usual > ALONG ? PART * usual : AGAINST;
        if (enough && verdicts[i] == SHOALI_TRUSTED && lengths[i] > 0 && cosines[i] < least)
            verdicts[i] = SHOALI_AGAINST;
        refused += verdicts[i] != SHOALI_TRUSTED;
    }
    const double more = refused < count ? (double)count / (count - refused) : 0;
    for (uint32_t i = 0; i < count; i++)
        factors[i] = verdicts[i] == SHOALI_TRUSTED ? more * factors[i] : 0;
}

const char *shoali_trust_text(shoali_verdict verdict)
{
    static const char *const texts[] = {"trusted", "not finite",
                                        "more than ten times as long as the others'",
                                        "not along with the others"};
    return texts[verdict];
}
