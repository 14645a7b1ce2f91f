/* SPDX-License-Identifier: Apache-2.0 */
/* --batch auto. Three rounds of a few steps at the start of a run: every worker measures what its
 * samples take, all tell all, and each divides the next steps alike. A second round is due as time
 * is not quite proportional to samples, a third as the first steps are not like the others. */
#include "train/uneven.h"

#include <math.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "train/train.h"

enum { ROUND_STEPS = 5, ROUNDS = 3 };

/* The worker that takes longest and can give a sample away. */
static uint32_t slower(const float *rates, const uint32_t *batches, uint32_t workers)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t w = 0; w < workers; w++)
        if (batches[w] > 1 &&
            (found == UINT32_MAX ||
             (double)batches[w] / (double)rates[w] > (double)batches[found] / (double)rates[found]))
            found = w;
    return found;
}

/* The worker that would be through first with one sample more. */
static uint32_t faster(const float *rates, const uint32_t *batches, uint32_t workers, uint32_t most)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t w = 0; w < workers; w++)
        if (batches[w] < most &&
            (found == UINT32_MAX || (double)(batches[w] + 1) / (double)rates[w] <
                                        (double)(batches[found] + 1) / (double)rates[found]))
            found = w;
    return found;
}

void shoali_uneven_divide(const float *rates, uint32_t workers, uint32_t batch,
                          uint32_t *batches_out)
{
    uint64_t whole = (uint64_t)workers * batch, sum = 0;
    uint32_t most = SHOALI_UNEVEN_MOST * batch;
    double speed = 0;
    for (uint32_t w = 0; w < workers; w++)
        speed += (double)rates[w];
    for (uint32_t w = 0; w < workers; w++) {
        double ideal = floor((double)whole * (double)rates[w] / speed);
        batches_out[w] = ideal < 1 ? 1 : ideal > most ? most : (uint32_t)ideal;
        sum += batches_out[w];
    }
    for (; sum < whole; sum++)
        batches_out[faster(rates, batches_out, workers, most)]++;
    for (; sum > whole; sum--)
        batches_out[slower(rates, batches_out, workers)]--;
}

shoal_status shoali_uneven_create(shoal_train *train)
{
    train->uneven.from = train->step;
    if (!train->desc.batch_auto)
        return SHOAL_OK;
    train->uneven.rates = shoali_arena_array(train->arena, train->workers, sizeof(float));
    train->uneven.batches = shoali_arena_array(train->arena, train->workers, sizeof(uint32_t));
    return train->uneven.rates != NULL && train->uneven.batches != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

/* All workers tell all; who has nothing to tell leaves everything as it is. */
static shoal_status divide(shoal_train *train)
{
    shoali_uneven *u = &train->uneven;
    for (uint32_t w = 0; w < train->workers; w++)
        u->rates[w] = 0;
    if (u->best > 0)
        u->rates[train->rank] = (float)u->best;
    u->best = 0;
    shoal_status status = shoali_train_reduce(train, u->rates, train->workers, SHOAL_SUM,
                                              "batch auto");
    if (status == SHOAL_EPEER && train->loose) { /* the protocol goes on, with what was divided */
        shoali_log(WARN, "batch auto: a worker is lost, batches stay as they are");
        return SHOAL_OK;
    }
    SHOALI_TRY(status);
    for (uint32_t w = 0; w < train->workers; w++)
        if (!(u->rates[w] > 0 && isfinite(u->rates[w])))
            return SHOAL_OK;
    shoali_uneven_divide(u->rates, train->workers, train->desc.batch, u->batches);
    shoali_log(INFO, "batch auto: %u samples a step of %u in all (%.0f samples/s)",
               u->batches[train->rank], train->workers * train->desc.batch,
               (double)u->rates[train->rank]);
    return shoali_sampler_divide(train->data.sampler, u->batches);
}

shoal_status shoali_uneven_step(shoal_train *train, const shoali_share *share, double compute_us,
                                uint64_t before)
{
    shoali_uneven *u = &train->uneven;
    if (!train->desc.batch_auto || train->workers == 1)
        return SHOAL_OK;
    double rate = compute_us > 0 ? 1e6 * share->count / compute_us : 0;
    u->best = rate > u->best ? rate : u->best; /* others only disturb */
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t due = u->from + round * ROUND_STEPS;
        if (before < due && due <= train->step && due < train->steps)
            SHOALI_TRY(divide(train));
    }
    return SHOAL_OK;
}
