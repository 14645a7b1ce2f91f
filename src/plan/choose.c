/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/choose.h"

#include <math.h>

static const double WORTH = 1.02; /* a gain below this is within the measurement's error */

/* Compute and exchange were each measured with all ranks at the same work, so where there are fewer
 * processors than workers that is in their times already: a worker counts as having one. */
static double predict(const shoali_choose_args *args, const shoali_candidate *c,
                      shoali_bucket_time *buckets)
{
    double cpu_s = fmin(c->cpu_s, c->exchange_s);
    if (!isfinite(c->exchange_s))
        return INFINITY;
    for (uint32_t b = 0; b < args->bucket_count; b++)
        buckets[b] = (shoali_bucket_time){.ready_s = args->ready_s[b],
                                          .link_s = args->share[b] * c->exchange_s,
                                          .cpu_s = args->share[b] * cpu_s};
    shoali_overlap overlap = shoali_overlap_run(buckets, args->bucket_count, args->compute_s,
                                                fmax(1, args->cores), 0);
    return overlap.finish_s + args->rest_s;
}

/* 0: off, 1: lossless, 2: lossy */
static int rank_of(const shoali_candidate *candidates, uint32_t i)
{
    return i == 0 ? 0 : candidates[i].lossless ? 1 : 2;
}

uint32_t shoali_choose(const shoali_choose_args *args, shoali_candidate *candidates, uint32_t count,
                       shoali_bucket_time *scratch)
{
    double best_s = INFINITY;
    uint32_t choice = 0;
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        candidates[i].step_s = predict(args, &candidates[i], scratch);
        if (!candidates[i].barred)
            best_s = fmin(best_s, candidates[i].step_s);
    }
    for (uint32_t i = 0; i < count && isfinite(best_s); i++) {
        int order = rank_of(candidates, i) - rank_of(candidates, choice);
        bool faster = candidates[i].step_s < candidates[choice].step_s;
        if (candidates[i].barred || candidates[i].step_s > WORTH * best_s)
            continue;
        if (!found || order < 0 || (order == 0 && faster))
            choice = i;
        found = true;
    }
    return choice;
}

uint32_t shoali_choose_finer(const shoali_candidate *candidates, uint32_t count, uint32_t in_use)
{
    uint32_t finer = 0;
    if (candidates[in_use].lossless)
        return 0;
    for (uint32_t i = 1; i < count; i++) {
        const shoali_candidate *c = &candidates[i];
        if (!c->barred && (c->lossless || c->error < candidates[in_use].error) &&
            c->step_s < candidates[finer].step_s)
            finer = i;
    }
    return finer;
}
