/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/lost.h"

#include <math.h>

#include "base/error.h"

enum { TIMEOUTS_MAX = 12 };
#define TIMEOUT_S 0.2 /* the kernel's smallest */

shoal_status shoali_lost_open(shoali_lost *lost, shoal_arena *arena, uint32_t rounds, uint32_t size)
{
    *lost = (shoali_lost){.rounds = rounds, .size = size};
    lost->messages = shoali_arena_array(arena, rounds + 1, sizeof *lost->messages);
    lost->tails = shoali_arena_array(arena, rounds + 1, sizeof *lost->tails);
    lost->last = shoali_arena_array(arena, size, sizeof *lost->last);
    return lost->messages != NULL && lost->tails != NULL && lost->last != NULL ? SHOAL_OK
                                                                               : SHOAL_ENOMEM;
}

/* From the last step to the first: what comes after each is known. Blocks that go to one member in
 * one round are one message. */
void shoali_lost_count(shoali_lost *lost, const shoal_schedule *schedule, shoali_lost_way way,
                       uint32_t times)
{
    for (uint32_t peer = 0; peer < lost->size; peer++)
        lost->last[peer] = 0;
    for (uint32_t i = schedule->count; i-- > 0;) {
        const shoal_step *step = &schedule->steps[i];
        double loss = 0, latency = 0;
        if (step->kind != SHOAL_SEND || lost->last[step->peer] == step->round ||
            !way.ask(way.ctx, step->peer, &loss, &latency))
            continue;
        lost->loss = fmax(lost->loss, loss);
        lost->latency_s = fmax(lost->latency_s, latency);
        lost->messages[step->round - 1] += times;
        if (lost->last[step->peer] != step->round + 1)
            lost->tails[step->round - 1] += times;
        lost->last[step->peer] = step->round;
    }
}

double shoali_lost_messages(const shoali_lost *lost, uint32_t *rounds_out)
{
    double messages = 0;
    *rounds_out = 0;
    for (uint32_t round = 0; round < lost->rounds; round++) {
        messages += lost->messages[round];
        *rounds_out += lost->messages[round] > 0;
    }
    return *rounds_out > 0 ? messages / *rounds_out : 0;
}

/* Mean of the largest of so many Poisson numbers of this mean, beyond the mean: summed where it is
 * small, else that of normal ones (Blom's quantile of the largest, by its tail's first term). */
static double beyond_mean(double mean, double count)
{
    double term = exp(-mean), below = term, most = 0;
    if (!(mean > 0) || count <= 1)
        return 0;
    if (mean > 200)
        return sqrt(mean) * sqrt(2 * log(fmax(count, 1.2))) * (count > 4 ? 0.85 : 0.75);
    const uint32_t end = (uint32_t)(mean + 20 * sqrt(mean)) + 41;
    for (uint32_t k = 0; k < end; k++) {
        most += 1 - pow(fmin(below, 1), count); /* the largest is above k */
        term *= mean / (k + 1.0);
        below += term;
    }
    return fmax(0, most - mean);
}

double shoali_lost_rounds_s(const shoali_lost_load *l)
{
    if (!(l->loss > 0) || !(l->packets > 0) || !(l->rounds > 0) || !(l->messages > 0))
        return 0;
    const double here = fmax(1, l->messages / fmax(1, l->links)); /* messages on one link */
    const double window = fmin(sqrt(1.5 / l->loss), l->packets / l->rounds / here);
    const double trip_s = 2 * l->latency_s + window * here * l->packet_s;
    const double waits = 1 - pow(1 - l->loss, window * l->messages);
    const double lost = l->loss * l->packets / l->rounds;
    /* chunks of one round pass beside the next round's: only what a link loses in all counts */
    const double apart = l->chunks < 2 ? l->rounds : 1;
    const double in_all = lost * l->rounds / apart;
    const double windows_s = l->packets / here / window * 2 * l->latency_s;
    return apart * (beyond_mean(in_all, l->links) * l->packet_s + waits * trip_s) +
           fmax(0, windows_s - l->packets * l->packet_s);
}

double shoali_lost_tails_s(double loss, double latency_s, double messages)
{
    double seconds = 0, lost = loss, wait_s = TIMEOUT_S + 2 * latency_s;
    for (int i = 0; i < TIMEOUTS_MAX && loss > 0; i++) {
        seconds += wait_s * (1 - pow(1 - lost, messages));
        lost *= loss;
        wait_s *= 2;
    }
    return seconds;
}

double shoali_lost_draw_s(double loss, double latency_s, double messages, double drawn)
{
    double seconds = 0, lost = loss, wait_s = TIMEOUT_S + 2 * latency_s;
    for (int i = 0; i < TIMEOUTS_MAX && loss > 0 && drawn < 1 - pow(1 - lost, messages); i++) {
        seconds += wait_s;
        lost *= loss;
        wait_s *= 2;
    }
    return seconds;
}
