/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sampler.h"

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"

struct shoali_sampler {
    uint32_t count, workers, batch;
    uint64_t seed;
    uint64_t epoch; /* of order */
    bool shuffled;  /* order is that of epoch */
    uint32_t *order;
    uint32_t *starts;    /* [workers + 1] of each worker's part of a step, and its end */
    uint64_t from_epoch; /* in this one steps begin behind the first `from` samples */
    uint32_t from;
};

shoal_status shoali_sampler_create(uint32_t count, uint32_t workers, uint32_t batch, uint64_t seed,
                                   shoali_sampler **sampler_out)
{
    if (count == 0 || workers == 0 || batch == 0)
        return shoali_fail(
            SHOAL_EINVAL,
            "a sampler of %u samples, %u workers and batches of %u: all must be above 0", count,
            workers, batch);
    shoali_sampler *sampler = shoali_alloc(sizeof *sampler);
    if (sampler == NULL)
        return SHOAL_ENOMEM;
    *sampler = (shoali_sampler){.count = count, .workers = workers, .batch = batch, .seed = seed};
    sampler->order = shoali_alloc_array(count, sizeof *sampler->order);
    sampler->starts = shoali_alloc_array((size_t)workers + 1, sizeof *sampler->starts);
    if (sampler->order == NULL || sampler->starts == NULL) {
        shoali_sampler_destroy(sampler);
        return SHOAL_ENOMEM;
    }
    for (uint32_t w = 0; w <= workers; w++)
        sampler->starts[w] = w * batch;
    *sampler_out = sampler;
    return SHOAL_OK;
}

void shoali_sampler_destroy(shoali_sampler *sampler)
{
    if (sampler == NULL)
        return;
    shoali_free(sampler->order);
    shoali_free(sampler->starts);
    shoali_free(sampler);
}

shoal_status shoali_sampler_divide(shoali_sampler *sampler, const uint32_t *batches)
{
    uint64_t whole = (uint64_t)sampler->workers * sampler->batch, sum = 0;
    for (uint32_t w = 0; w < sampler->workers; w++)
        sum += batches[w];
    if (sum != whole)
        return shoali_fail(SHOAL_EINVAL, "batches of %llu samples in all, a step has %llu",
                           (unsigned long long)sum, (unsigned long long)whole);
    for (uint32_t w = 0; w < sampler->workers; w++)
        sampler->starts[w + 1] = sampler->starts[w] + batches[w];
    return SHOAL_OK;
}

shoal_status shoali_sampler_reshard(shoali_sampler *sampler, uint32_t workers, uint64_t epoch,
                                    uint32_t from)
{
    if (workers == 0 || from > sampler->count)
        return shoali_fail(SHOAL_EINVAL, "%u workers go on behind sample %u of %u", workers, from,
                           sampler->count);
    uint32_t *starts = shoali_alloc_array((size_t)workers + 1, sizeof *starts);
    if (starts == NULL)
        return SHOAL_ENOMEM;
    shoali_free(sampler->starts);
    sampler->starts = starts;
    sampler->workers = workers;
    sampler->from_epoch = epoch;
    sampler->from = from;
    for (uint32_t w = 0; w <= workers; w++)
        starts[w] = w * sampler->batch;
    return SHOAL_OK;
}

static uint32_t first_of(const shoali_sampler *s, uint64_t epoch)
{
    return epoch == s->from_epoch ? s->from : 0;
}

uint64_t shoali_sampler_steps_of(const shoali_sampler *s, uint64_t epoch)
{
    uint64_t step = (uint64_t)s->workers * s->batch;
    return (s->count - first_of(s, epoch) + step - 1) / step;
}

uint64_t shoali_sampler_steps(const shoali_sampler *s)
{
    return shoali_sampler_steps_of(s, UINT64_MAX);
}

uint32_t shoali_sampler_taken(const shoali_sampler *s, uint64_t epoch, uint64_t step)
{
    uint64_t taken = first_of(s, epoch) + step * s->workers * s->batch;
    return taken < s->count ? (uint32_t)taken : s->count;
}

/* Fisher and Yates (Durstenfeld's form), draws from stream (epoch). */
static void shuffle(shoali_sampler *s, uint64_t epoch)
{
    const uint64_t stream = shoali_mix(0x73616D706C6572, epoch); /* "sampler" */
    for (uint32_t i = 0; i < s->count; i++)
        s->order[i] = i;
    for (uint32_t i = s->count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)shoali_rng_below(s->seed, stream, i, (uint64_t)i + 1),
                 kept = s->order[i];
        s->order[i] = s->order[j];
        s->order[j] = kept;
    }
    s->epoch = epoch;
    s->shuffled = true;
}

/* Elements of [from, from + length) below count. */
static uint32_t clipped(uint64_t from, uint64_t length, uint32_t count)
{
    return from >= count ? 0 : (uint32_t)(from + length <= count ? length : count - from);
}

shoali_share shoali_sampler_share(shoali_sampler *s, uint64_t epoch, uint64_t step, uint32_t worker)
{
    uint64_t whole = (uint64_t)s->workers * s->batch;
    uint64_t first = first_of(s, epoch) + step % shoali_sampler_steps_of(s, epoch) * whole;
    uint64_t mine = first + s->starts[worker];
    uint32_t length = s->starts[worker + 1] - s->starts[worker];
    if (!s->shuffled || s->epoch != epoch)
        shuffle(s, epoch);
    uint32_t total = clipped(first, whole, s->count), count = clipped(mine, length, s->count);
    return (shoali_share){.indices = count > 0 ? s->order + mine : s->order,
                          .count = count,
                          .total = total,
                          .first_serial = epoch * s->count + mine,
                          .weight = (float)((double)s->workers * count / total)};
}
