/* SPDX-License-Identifier: Apache-2.0 */
#include "sync/tempo.h"

enum { HOUR_S = 3600, LEAST_PART = 32 };
#define HOUR_US ((uint64_t)HOUR_S * 1000000)

void shoali_tempo_add(shoali_tempo *tempo, uint64_t duration_us)
{
    duration_us = duration_us < HOUR_US ? duration_us : HOUR_US;
    tempo->last_us[tempo->seen % SHOALI_TEMPO_LAST] = (uint32_t)duration_us;
    tempo->seen++;
}

static void sift(uint64_t *values, uint32_t root, uint32_t count)
{
    for (uint32_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        child += child + 1 < count && values[child + 1] > values[child];
        if (values[root] >= values[child])
            return;
        uint64_t value = values[root];
        values[root] = values[child];
        values[child] = value;
        root = child;
    }
}

uint64_t shoali_median(uint64_t *values, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift(values, i, count);
    for (uint32_t end = count; end-- > 1;) {
        uint64_t value = values[0];
        values[0] = values[end];
        values[end] = value;
        sift(values, 0, end);
    }
    return count > 0 ? values[count / 2] : 0;
}

static uint32_t known(const shoali_tempo *tempo)
{
    return tempo->seen < SHOALI_TEMPO_LAST ? tempo->seen : SHOALI_TEMPO_LAST;
}

uint64_t shoali_tempo_median_us(const shoali_tempo *tempo)
{
    uint64_t values[SHOALI_TEMPO_LAST];
    uint32_t count = known(tempo);
    if (count < SHOALI_TEMPO_ENOUGH)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        values[i] = tempo->last_us[i];
    return shoali_median(values, count);
}

uint64_t shoali_tempo_deadline_us(const shoali_tempo *tempo, uint32_t times)
{
    uint64_t away[SHOALI_TEMPO_LAST], median = shoali_tempo_median_us(tempo);
    uint32_t count = known(tempo);
    if (median == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        away[i] = tempo->last_us[i] > median ? tempo->last_us[i] - median
                                             : median - tempo->last_us[i];
    uint64_t mad = shoali_median(away, count);
    mad = mad > median / LEAST_PART ? mad : median / LEAST_PART;
    return median + times * mad;
}
