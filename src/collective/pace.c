/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/pace.h"

#include <math.h>

void shoali_pace_begin(shoali_pace *pace, uint64_t now_us, uint64_t until_us, uint64_t elems,
                       uint64_t burst)
{
    *pace = (shoali_pace){
        .at_us = now_us, .until_us = until_us, .left = (double)elems, .burst = (double)burst};
}

/* Elements per microsecond that are through at the end, with what was sent ahead of its time. */
static double rate(const shoali_pace *pace)
{
    return fmax(pace->left - pace->credit, 0) / (double)(pace->until_us - pace->at_us);
}

bool shoali_pace_may(shoali_pace *pace, uint64_t now_us)
{
    if (now_us >= pace->until_us)
        return true;
    if (now_us > pace->at_us) {
        pace->credit = fmin(pace->credit + rate(pace) * (double)(now_us - pace->at_us),
                            pace->burst);
        pace->at_us = now_us;
    }
    pace->held = pace->held || pace->credit < 0;
    return pace->credit >= 0;
}

void shoali_pace_sent(shoali_pace *pace, uint64_t elems)
{
    pace->left -= (double)elems;
    pace->credit -= (double)elems;
}

uint64_t shoali_pace_next_us(const shoali_pace *pace)
{
    double wait_us = ceil(-pace->credit / rate(pace));
    double most_us = (double)(pace->until_us - pace->at_us);
    return pace->at_us + (uint64_t)(wait_us < most_us ? fmax(wait_us, 1) : most_us);
}
