/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket for what has time: so many elements until a moment, at the rate that is needed to
 * be through by then and no faster. Whoever was held up goes faster afterwards; behind the moment
 * there is no limit. No clock: it is told the time. */
#ifndef SHOALI_COLLECTIVE_PACE_H
#define SHOALI_COLLECTIVE_PACE_H

#include <stdbool.h>
#include <stdint.h>

/** Zero bytes: no limit. */
typedef struct shoali_pace {
    uint64_t at_us, until_us;
    double left;   /* elements that have not been sent */
    double credit; /* below 0: what was sent ahead of its time */
    double burst;  /* credit never grows above it */
    bool held;     /* somebody was told to wait, and has not been let go on */
} shoali_pace;

/** burst: elements of the largest piece; at most two of them follow each other at once. */
void shoali_pace_begin(shoali_pace *pace, uint64_t now_us, uint64_t until_us, uint64_t elems,
                       uint64_t burst);
/** Whether a piece may go now. */
bool shoali_pace_may(shoali_pace *pace, uint64_t now_us);
/** One has. */
void shoali_pace_sent(shoali_pace *pace, uint64_t elems);
/** After a refusal: when the next one may, never before the time that was told. */
uint64_t shoali_pace_next_us(const shoali_pace *pace);

#endif
