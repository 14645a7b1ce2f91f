/* SPDX-License-Identifier: Apache-2.0 */
/* Why a rank is late, where computing and links are not all there is to it. A cause has its effect
 * in time of a step, and is compared with the same on the other ranks: what all have is nobody's
 * fault. */
#include <math.h>
#include <stddef.h>

#include "watch/slow.h"

static const double MOST_OF_IT = 0.5;   /* of the time by which it is late */
static const double EFFECT_SHARE = 0.1; /* of a step's time, as for computing */
static const double ALONE = 3;          /* so many times as long paused as any other */
static const double SELDOM = 0.5; /* of the steps: pauses in more of them are slow computing */

/* What a sample takes on the other ranks, where they have any. */
static double sample_us(const shoali_slow_input *in, uint32_t rank)
{
    double us = 0, samples = 0;
    for (uint32_t w = 0; w < in->windows; w++)
        for (uint32_t i = 0; i < in->ranks; i++) {
            const size_t at = (size_t)w * in->ranks + i;
            if (i == rank || !(in->samples[at] > 0))
                continue;
            us += (double)in->compute_us[at];
            samples += (double)in->samples[at];
        }
    return samples > 0 ? us / samples : 0;
}

uint32_t shoali_slow_why(const shoali_slow_input *in, uint32_t rank, double excess_us)
{
    if (in->data_us != NULL &&
        shoali_slow_excess(in, in->data_us, rank).mean >= MOST_OF_IT * excess_us)
        return SHOALI_SLOW_INPUT;
    if (in->samples != NULL &&
        shoali_slow_excess(in, in->samples, rank).mean * sample_us(in, rank) >=
            MOST_OF_IT * excess_us)
        return SHOALI_SLOW_LOAD;
    return SHOALI_SLOW_COMPUTE;
}

static double total_of(const shoali_slow_input *in, const float *table, uint32_t rank)
{
    double sum = 0;
    for (uint32_t w = 0; w < in->windows; w++)
        sum += (double)table[(size_t)w * in->ranks + rank];
    return sum;
}

/* Who has most of it; *second_out what the next one has. */
static uint32_t most_of(const shoali_slow_input *in, const float *table, double *most_out,
                        double *second_out)
{
    uint32_t worst = 0;
    *most_out = *second_out = 0;
    for (uint32_t i = 0; i < in->ranks; i++) {
        const double sum = total_of(in, table, i);
        if (sum > *most_out) {
            *second_out = *most_out;
            *most_out = sum;
            worst = i;
        } else {
            *second_out = fmax(*second_out, sum);
        }
    }
    return worst;
}

/* All wait at a checkpoint until each has written its part, between two steps. */
void shoali_slow_judge_disk(const shoali_slow_input *in, double step_us, shoali_slow *out)
{
    double most, second;
    if (in->disk_us == NULL)
        return;
    const uint32_t worst = most_of(in, in->disk_us, &most, &second);
    if (out[worst].cause != SHOALI_SLOW_NOT || !(most > 0))
        return;
    const double whole_us = step_us + (in->disk_in_step ? 0 : most / in->windows);
    if (shoali_slow_excess(in, in->disk_us, worst).low > EFFECT_SHARE * whole_us)
        out[worst].cause = SHOALI_SLOW_DISK;
}

/* A process that was stopped knows for how long: no noise, and few pauses are enough. */
void shoali_slow_judge_pause(const shoali_slow_input *in, shoali_slow *out)
{
    double most, second, steps_us = 0, hit = 0;
    if (in->paused_us == NULL)
        return;
    const uint32_t worst = most_of(in, in->paused_us, &most, &second);
    for (uint32_t w = 0; w < in->windows; w++) {
        steps_us += (double)in->step_us[w];
        const size_t at = (size_t)w * in->ranks + worst;
        hit += in->pauses != NULL ? (double)in->pauses[at] : in->paused_us[at] > 0;
    }
    if (most > EFFECT_SHARE * steps_us && most > ALONE * second && hit < SELDOM * in->windows)
        out[worst].cause = SHOALI_SLOW_PAUSE;
}
