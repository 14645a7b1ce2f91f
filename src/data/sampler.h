/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a worker takes: of one permutation per epoch, the same on all ranks, worker r of
 * step i takes [iNB + rB, + B), or what shoali_sampler_divide gave it of those NB. The order
 * depends on (seed, epoch) only, so a resumed run goes on as if nothing had happened.
 *
 *     N = 4, B = 2, 11 samples:   step 0  | 0 1 | 2 3 | 4 5 | 6 7 |
 *                                 step 1  | 8 9 | 10  |     |     |   weights 4*2/3, 4*1/3, 0, 0 */
#ifndef SHOALI_DATA_SAMPLER_H
#define SHOALI_DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

typedef struct shoali_sampler shoali_sampler;

/** @param count samples, >= 1. @param batch samples per worker and step, >= 1. */
SHOAL_MUST_USE shoal_status shoali_sampler_create(uint32_t count, uint32_t workers, uint32_t batch,
                                                  uint64_t seed, shoali_sampler **sampler_out);
void shoali_sampler_destroy(shoali_sampler *sampler);

/** From now on worker w takes batches[w] samples of each step, of workers * batch in all: steps
 * begin where they did, so whenever this comes no sample is lost or taken twice, as long as all
 * ranks divide the same steps alike.
 * @return SHOAL_OK | EINVAL: they do not sum up to workers * batch */
SHOAL_MUST_USE shoal_status shoali_sampler_divide(shoali_sampler *sampler, const uint32_t *batches);

/** Other workers take over within an epoch of which the first `from` samples are taken: its steps
 * count from there, and each takes workers * batch, evenly divided. Later epochs begin at 0.
 * @return SHOAL_OK | EINVAL (workers 0, from behind the end) | ENOMEM */
SHOAL_MUST_USE shoal_status shoali_sampler_reshard(shoali_sampler *sampler, uint32_t workers,
                                                   uint64_t epoch, uint32_t from);

/** Steps of one epoch: the last one may be partial. */
uint64_t shoali_sampler_steps(const shoali_sampler *sampler);
/** Of this epoch: fewer in one in which other workers took over. */
uint64_t shoali_sampler_steps_of(const shoali_sampler *sampler, uint64_t epoch);
/** Samples of an epoch that are taken before this step of it. */
uint32_t shoali_sampler_taken(const shoali_sampler *sampler, uint64_t epoch, uint64_t step);

/** One worker's share of one step. */
typedef struct shoali_share {
    const uint32_t
        *indices;   /* uint32[count] into the split, valid until the next call with another epoch */
    uint32_t count; /* 0 .. its batch */
    uint32_t total; /* of all workers in this step, >= 1 */
    uint64_t first_serial; /* epoch * samples + position in the permutation */
    float weight;          /* workers * count / total */
} shoali_share;
shoali_share shoali_sampler_share(shoali_sampler *sampler, uint64_t epoch, uint64_t step,
                                  uint32_t worker);

#endif
