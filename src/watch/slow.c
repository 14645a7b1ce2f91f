/* SPDX-License-Identifier: Apache-2.0 */
/* In a synchronous step everyone starts together, so the one that computes longest arrives last: no
 * clock has to be compared. A step would be as much shorter as the last one computes longer than
 * the last but one; that is the wait that it causes.
 *
 * A slow link shows in the rates at which the kernel got bytes acknowledged while it had any to
 * send. In a ring, the neighbours of a slow host are slow on one side, the host itself on both: so
 * a rank's link is as fast as its best connection in either direction.
 *
 * Somebody is last in every step, and some link is the slowest. A verdict needs more: enough steps,
 * an effect that is worth a look, and one that is beyond what the run does by itself. */
#include "watch/slow.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/rng.h"

static const double LAST_SHARE = 0.5, EFFECT_SHARE = 0.1; /* of steps; of a step's time */
static const double SLOW_LINK = 0.6;                      /* of the median */
static const double SINCE_SHARE = 0.8;
/* A slow link is so many times as far from the median as the others' median link, whose distance
 * is taken for 5 % at least. */
static const double LINK_DISTANCE = 3, LEAST_DISTANCE = 0.05;
enum { MEDIAN_OF = 1024, REPLICATES = 200, TAIL = 2, SEED = 1 };

const char *shoali_slow_name(uint32_t cause)
{
    static const char *const names[SHOALI_SLOW_CAUSES] = {"",     "compute", "network", "input",
                                                          "load", "disk",    "pause"};
    return names[cause < SHOALI_SLOW_CAUSES ? cause : SHOALI_SLOW_NOT];
}

double shoali_slow_rate(double acked_bytes, double busy_us, double line_bytes_s)
{
    if (busy_us < SHOALI_SLOW_RATE_US)
        return 0;
    const double rate = acked_bytes * 1e6 / busy_us;
    return line_bytes_s > 0 && rate > line_bytes_s ? line_bytes_s : rate;
}

/* ------------------------------------------------------------------ noise */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_of(const double *x, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += x[i];
    return count > 0 ? sum / count : 0;
}

/* As many values as there are, in blocks that begin anywhere; the last leads on to the first. */
static double draw(const double *x, uint32_t count, uint32_t block, uint64_t replicate)
{
    double sum = 0;
    for (uint32_t taken = 0; taken < count; taken += block) {
        const uint32_t from = (uint32_t)(shoali_rng_double(SEED, replicate, taken) * count);
        for (uint32_t i = 0; i < block && taken + i < count; i++)
            sum += x[(from + i) % count];
    }
    return sum / count;
}

shoali_slow_mean shoali_slow_bootstrap(const double *series, uint32_t count)
{
    double means[REPLICATES];
    if (count == 0)
        return (shoali_slow_mean){0};
    const uint32_t block = (uint32_t)ceil(sqrt(count));
    for (uint32_t r = 0; r < REPLICATES; r++)
        means[r] = draw(series, count, block, r);
    qsort(means, REPLICATES, sizeof *means, by_size);
    return (shoali_slow_mean){mean_of(series, count), means[TAIL], means[REPLICATES - 1 - TAIL]};
}

static shoali_slow_mean step_of(const shoali_slow_input *in)
{
    double series[SHOALI_SLOW_WINDOWS];
    uint32_t count = 0;
    for (uint32_t w = 0; w < in->windows; w++)
        if (in->step_us[w] > 0)
            series[count++] = (double)in->step_us[w];
    return shoali_slow_bootstrap(series, count);
}

/* ------------------------------------------------------------------ computing */

/* The last rank of a step, and by how much. UINT32_MAX: fewer than two had a part in it. */
static uint32_t last_of(const float *compute_us, uint32_t ranks, double *excess_us_out)
{
    uint32_t last = UINT32_MAX, here = 0;
    double most = 0, second = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        double value = (double)compute_us[i];
        here += value > 0;
        if (value > most) {
            second = most;
            most = value;
            last = i;
        } else if (value > second) {
            second = value;
        }
    }
    *excess_us_out = most - second;
    return here < 2 ? UINT32_MAX : last;
}

/* From which window on rank was last nearly always. */
static uint32_t since(const shoali_slow_input *in, uint32_t rank)
{
    uint32_t found = in->windows, hits = 0, seen = 0;
    for (uint32_t w = in->windows; w-- > 0;) {
        double excess_us;
        uint32_t last = last_of(in->compute_us + (size_t)w * in->ranks, in->ranks, &excess_us);
        seen += last != UINT32_MAX;
        hits += last == rank;
        if (last == rank && (double)hits >= SINCE_SHARE * (double)seen)
            found = w;
    }
    return found;
}

static void count_last(const shoali_slow_input *in, shoali_slow *out)
{
    uint32_t counted = 0;
    for (uint32_t w = 0; w < in->windows; w++) {
        double excess_us;
        uint32_t last = last_of(in->compute_us + (size_t)w * in->ranks, in->ranks, &excess_us);
        if (last == UINT32_MAX)
            continue;
        counted++;
        out[last].caused_us += excess_us;
        out[last].last_share += 1;
    }
    for (uint32_t i = 0; i < in->ranks && counted > 0; i++) {
        out[i].caused_us /= counted;
        out[i].last_share /= counted;
        if (out[i].last_share > 0)
            out[i].last_since = since(in, i);
    }
}

/* By how much a rank computes longer than the slowest of the others, below zero where it does not:
 * of equal workers each is last now and then, but none is on the whole. */
shoali_slow_mean shoali_slow_excess(const shoali_slow_input *in, const float *table, uint32_t rank)
{
    double series[SHOALI_SLOW_WINDOWS];
    uint32_t count = 0;
    for (uint32_t w = 0; w < in->windows; w++) {
        const float *took = in->compute_us + (size_t)w * in->ranks;
        const float *row = table + (size_t)w * in->ranks;
        double others = 0, there = 0;
        for (uint32_t i = 0; i < in->ranks; i++) {
            if (i == rank)
                continue;
            others = fmax(others, (double)row[i]);
            there = fmax(there, (double)took[i]);
        }
        if (took[rank] > 0 && there > 0)
            series[count++] = (double)row[rank] - others;
    }
    return shoali_slow_bootstrap(series, count);
}

/* Surely a share of a step: its least likely value, not its mean. */
static void judge_compute(const shoali_slow_input *in, double step_us, shoali_slow *out)
{
    uint32_t worst = 0;
    for (uint32_t i = 1; i < in->ranks; i++)
        if (out[i].caused_us > out[worst].caused_us)
            worst = i;
    if (out[worst].cause != SHOALI_SLOW_NOT || out[worst].last_share < LAST_SHARE)
        return;
    const shoali_slow_mean excess = shoali_slow_excess(in, in->compute_us, worst);
    if (excess.low > EFFECT_SHARE * step_us)
        out[worst].cause = shoali_slow_why(in, worst, excess.mean);
}

/* ------------------------------------------------------------------ links */

static double link_of(const shoali_slow_input *in, uint32_t rank)
{
    return in->sends[rank] > in->receives[rank] ? in->sends[rank] : in->receives[rank];
}

static double median_of(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return count > 0 ? values[count / 2] : 0;
}

static double median_link(const shoali_slow_input *in)
{
    double values[MEDIAN_OF];
    uint32_t used = 0;
    for (uint32_t i = 0; i < in->ranks && used < MEDIAN_OF; i++)
        if (link_of(in, i) > 0)
            values[used++] = link_of(in, i);
    return median_of(values, used);
}

/* Of the others' links from the median, as a factor's logarithm: how far is far among these. */
static double usual_distance(const shoali_slow_input *in, uint32_t worst, double middle)
{
    double values[MEDIAN_OF];
    uint32_t used = 0;
    for (uint32_t i = 0; i < in->ranks && used < MEDIAN_OF; i++)
        if (link_of(in, i) > 0 && i != worst)
            values[used++] = fabs(log(link_of(in, i) / middle));
    return fmax(median_of(values, used), LEAST_DISTANCE);
}

/* What the others wait for one that computes longest, they do not wait for a link. */
static double wait_for_links(const shoali_slow_input *in, const shoali_slow *out)
{
    double wait_us = in->wait_us;
    for (uint32_t i = 0; i < in->ranks; i++)
        if (out[i].cause == SHOALI_SLOW_COMPUTE || out[i].cause == SHOALI_SLOW_INPUT ||
            out[i].cause == SHOALI_SLOW_LOAD)
            wait_us -= out[i].caused_us * (in->ranks - 1) / in->ranks;
    return fmax(wait_us, 0);
}

/* With the median's link as much of a wait would go as its rate is higher. */
static void judge_network(const shoali_slow_input *in, shoali_slow_mean step, double middle,
                          shoali_slow *out)
{
    uint32_t worst = in->ranks;
    for (uint32_t i = 0; i < in->ranks; i++)
        if (link_of(in, i) > 0 && (worst == in->ranks || link_of(in, i) < link_of(in, worst)))
            worst = i;
    if (in->ranks < 3 || worst == in->ranks) /* of two, nobody can say which end is slow */
        return;
    const double share = link_of(in, worst) / middle,
                 effect_us = wait_for_links(in, out) * (1 - share);
    if (out[worst].cause == SHOALI_SLOW_NOT && share < SLOW_LINK &&
        -log(share) > LINK_DISTANCE * usual_distance(in, worst, middle) &&
        effect_us >= EFFECT_SHARE * step.mean && effect_us > step.high - step.mean)
        out[worst].cause = SHOALI_SLOW_NETWORK;
}

void shoali_slow_judge(const shoali_slow_input *input, shoali_slow *out)
{
    shoali_slow_input in = *input;
    const uint32_t skipped = in.windows > SHOALI_SLOW_WINDOWS ? in.windows - SHOALI_SLOW_WINDOWS
                                                              : 0;
    in.windows -= skipped;
    in.compute_us += (size_t)skipped * in.ranks;
    in.step_us += skipped;
    const float **more[] = {&in.data_us, &in.disk_us, &in.paused_us, &in.samples, &in.pauses};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        *more[i] = *more[i] != NULL ? *more[i] + (size_t)skipped * in.ranks : NULL;
    const double middle = median_link(&in);
    for (uint32_t i = 0; i < in.ranks; i++)
        out[i] = (shoali_slow){.last_since = in.windows, .median_link_s = middle};
    count_last(&in, out);
    for (uint32_t i = 0; i < in.ranks; i++)
        out[i].last_since += skipped;
    if (in.steps < SHOAL_VERDICT_STEPS || in.ranks == 0)
        return;
    const shoali_slow_mean step = step_of(&in);
    shoali_slow_judge_pause(&in, out);
    judge_compute(&in, step.mean, out);
    shoali_slow_judge_disk(&in, step.mean, out);
    judge_network(&in, step, middle, out);
}
