/* SPDX-License-Identifier: Apache-2.0 */
/* In a synchronous step everyone starts together, so the one that computes longest arrives last: no
 * clock has to be compared. A step would be as much shorter as the last one computes longer than
 * the last but one; that is the wait that it causes.
 *
 * A slow link shows in the rates at which the kernel got bytes acknowledged while it had any to
 * send. In a ring, the neighbours of a slow host are slow on one side, the host itself on both: so
 * a rank's link is as fast as its best connection in either direction. */
#include "comm/slow.h"

#include <stddef.h>
#include <stdlib.h>

static const double LAST_SHARE = 0.5, CAUSED_SHARE = 0.05; /* of steps; of a step's time */
static const double SLOW_LINK = 0.6, WAIT_SHARE = 0.1;     /* of the median; of a step's time */
static const double SINCE_SHARE = 0.8;
enum { MEDIAN_OF = 1024 };

const char *shoali_slow_name(uint32_t cause)
{
    static const char *const names[] = {"", "compute", "network"};
    return names[cause < SHOALI_SLOW_CAUSES ? cause : SHOALI_SLOW_NOT];
}

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

static void judge_compute(const shoali_slow_input *in, shoali_slow *out)
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
        if (out[i].last_share >= LAST_SHARE && out[i].caused_us >= CAUSED_SHARE * in->step_us)
            out[i].cause = SHOALI_SLOW_COMPUTE;
        if (out[i].last_share > 0)
            out[i].last_since = since(in, i);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double link_of(const shoali_slow_input *in, uint32_t rank)
{
    return in->sends[rank] > in->receives[rank] ? in->sends[rank] : in->receives[rank];
}

static double median_link(const shoali_slow_input *in)
{
    double values[MEDIAN_OF];
    uint32_t used = 0;
    for (uint32_t i = 0; i < in->ranks && used < MEDIAN_OF; i++)
        if (link_of(in, i) > 0)
            values[used++] = link_of(in, i);
    qsort(values, used, sizeof *values, by_size);
    return used > 0 ? values[used / 2] : 0;
}

void shoali_slow_judge(const shoali_slow_input *in, shoali_slow *out)
{
    double middle = median_link(in);
    for (uint32_t i = 0; i < in->ranks; i++)
        out[i] = (shoali_slow){.last_since = in->windows, .median_link_s = middle};
    judge_compute(in, out);
    if (in->wait_us < WAIT_SHARE * in->step_us || in->ranks < 3)
        return; /* nobody waits for the network; or nobody can say which end is slow */
    for (uint32_t i = 0; i < in->ranks; i++)
        if (out[i].cause == SHOALI_SLOW_NOT && link_of(in, i) > 0 &&
            link_of(in, i) < SLOW_LINK * middle)
            out[i].cause = SHOALI_SLOW_NETWORK;
}
