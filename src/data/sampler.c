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
    if (sampler->order == NULL) {
        shoali_free(sampler);
        return SHOAL_ENOMEM;
    }
    *sampler_out = sampler;
    return SHOAL_OK;
}

void shoali_sampler_destroy(shoali_sampler *sampler)
{
    if (sampler == NULL)
        return;
    shoali_free(sampler->order);
    shoali_free(sampler);
}

uint64_t shoali_sampler_steps(const shoali_sampler *s)
{
    uint64_t step = (uint64_t)s->workers * s->batch;
    return (s->count + step - 1) / step;
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
    uint64_t first = step % shoali_sampler_steps(s) * whole,
             mine = first + (uint64_t)worker * s->batch;
    if (!s->shuffled || s->epoch != epoch)
        shuffle(s, epoch);
    uint32_t total = clipped(first, whole, s->count), count = clipped(mine, s->batch, s->count);
    return (shoali_share){.indices = count > 0 ? s->order + mine : s->order,
                          .count = count,
                          .total = total,
                          .first_serial = epoch * s->count + mine,
                          .weight = (float)((double)s->workers * count / total)};
}
