/* SPDX-License-Identifier: Apache-2.0 */
#include "report_series.h"

#include <math.h>

static void merge(report_bucket *into, const report_bucket *from)
{
    if (from->weight <= 0)
        return;
    if (into->weight <= 0) {
        *into = *from;
        return;
    }
    into->first = from->first < into->first ? from->first : into->first;
    into->last = from->last > into->last ? from->last : into->last;
    into->weight += from->weight;
    into->sum += from->sum;
    into->low = fmin(into->low, from->low);
    into->high = fmax(into->high, from->high);
    into->time_s = fmax(into->time_s, from->time_s); /* of NAN and a number, the number */
}

static void widen(report_series *series)
{
    static const report_bucket none = {.weight = 0};
    for (uint32_t i = 0; i < REPORT_POINTS; i++) {
        report_bucket both = i < REPORT_POINTS / 2 ? series->bucket[2 * i] : none;
        if (i < REPORT_POINTS / 2)
            merge(&both, &series->bucket[2 * i + 1]);
        series->bucket[i] = both;
    }
    series->stride *= 2;
}

void report_series_add(report_series *series, uint64_t step, double value, double weight,
                       double time_s)
{
    if (!isfinite(value) || !(weight > 0))
        return;
    if (series->stride == 0)
        series->stride = 1;
    while (step / series->stride >= REPORT_POINTS)
        widen(series);
    const report_bucket one = {.first = step,
                               .last = step,
                               .weight = weight,
                               .sum = weight * value,
                               .low = value,
                               .high = value,
                               .time_s = time_s};
    merge(&series->bucket[step / series->stride], &one);
}

double report_series_time(const report_series *series, uint64_t step)
{
    double time_s = (double)NAN;
    for (uint32_t i = 0; i < REPORT_POINTS; i++)
        if (series->bucket[i].weight > 0 && series->bucket[i].first <= step)
            time_s = fmax(time_s, series->bucket[i].time_s);
    return time_s;
}
