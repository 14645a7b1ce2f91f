/* SPDX-License-Identifier: Apache-2.0 */
/* How long something usually takes a peer, and when it is late: the median of its last durations
 * and their median absolute deviation (MAD). Deadlines that follow what is observed, so that nobody
 * has to guess them. */
#ifndef SHOALI_SYNC_TEMPO_H
#define SHOALI_SYNC_TEMPO_H

#include <stdint.h>

enum { SHOALI_TEMPO_LAST = 8, SHOALI_TEMPO_ENOUGH = 3 };

typedef struct shoali_tempo {
    uint32_t last_us[SHOALI_TEMPO_LAST]; /* ring; above an hour: an hour */
    uint32_t seen;                       /* durations so far */
} shoali_tempo;

void shoali_tempo_add(shoali_tempo *tempo, uint64_t duration_us);
/** 0 before SHOALI_TEMPO_ENOUGH durations are known. */
uint64_t shoali_tempo_median_us(const shoali_tempo *tempo);
/** Median + times * MAD, where a MAD below 1/32 of the median counts as that: a machine that has
 * been regular so far may still hiccup. 0 before enough is known. */
uint64_t shoali_tempo_deadline_us(const shoali_tempo *tempo, uint32_t times);
/** Median of values (0 if there are none), which end up sorted. */
uint64_t shoali_median(uint64_t *values, uint32_t count);

#endif
