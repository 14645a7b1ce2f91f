/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "train/trainer.h"

static void sleep_until(uint64_t when_us)
{
    struct timespec t = {(time_t)(when_us / 1000000), (long)(when_us % 1000000) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

void shoali_pace_start(shoali_pace *pace)
{
    pace->start_us = shoali_now_us();
    pace->done_flops = pace->slept_us = 0;
}

/* The deadline is spread over the layers by their FLOPs, so that buckets become ready when they
 * would be on a machine of that speed; a slow machine's layers take `slow` times what they took
 * here. */
void shoali_pace_layer(shoali_pace *pace, double flops_done)
{
    if (pace->slow <= 1 && pace->deadline_us <= 0)
        return;
    uint64_t now = shoali_now_us();
    double elapsed = (double)(now - pace->start_us),
           target = (elapsed - pace->slept_us) * pace->slow;
    pace->done_flops += flops_done;
    double share = pace->total_flops > 0 ? pace->done_flops / pace->total_flops : 1;
    if (pace->deadline_us * pace->slow * share > target)
        target = pace->deadline_us * pace->slow * share;
    if (target <= elapsed)
        return;
    sleep_until(pace->start_us + (uint64_t)target);
    pace->slept_us += (double)(shoali_now_us() - now);
}
