/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "driver/sim_spec.h"
#include "train/train.h"

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

shoal_status shoali_pace_chance(shoali_pace *pace, const char *text)
{
    shoali_sim_compute read;
    SHOALI_TRY(shoali_sim_read_random(text != NULL ? text : "", &read));
    if (read.random_factor < 1)
        return shoali_fail(SHOAL_EINVAL, "random=%s: no step is faster than it is", text);
    pace->chance_slow = read.random_factor;
    pace->chance = read.random_probability;
    return SHOAL_OK;
}

/* The simulator's own draw, so that both are slow in the same steps. */
void shoali_pace_step(shoali_pace *pace, uint64_t seed, uint32_t worker, uint32_t workers,
                      uint64_t step)
{
    const shoali_sim_compute drawn = {.random_factor = pace->chance_slow,
                                      .random_probability = pace->chance};
    if (pace->chance == 0)
        return;
    const double factor = shoali_sim_compute_factor(&drawn, worker, workers, step, seed);
    pace->slow = pace->usual * factor;
    if (factor > 1)
        shoali_log(DEBUG, "worker %u is %g times slower in iteration %llu by chance", worker,
                   factor, (unsigned long long)step);
}
