/* SPDX-License-Identifier: Apache-2.0 */
/* Which collective the operations of a real worker take, where that is open. */
#ifndef SHOALI_DRIVER_REAL_AUTO_H
#define SHOALI_DRIVER_REAL_AUTO_H

#include "collective/by_density.h"
#include "shoal/shoal.h"
#include "sync/sync.h"

typedef struct shoali_real_bucket shoali_real_bucket;

struct shoali_real_op;

typedef struct shoali_real_density {
    bool choosing;               /* constant: among ways, by density: collective is "auto" */
    shoali_ways ways;            /* constant */
    shoali_real_bucket *buckets; /* the progress thread's: those seen so far */
} shoali_real_density;

/** Choose by density; the codec and the world are known. */
SHOAL_MUST_USE shoal_status shoali_real_auto_open(shoal_sync *sync, const char *spec,
                                                  uint32_t aggregators);
void shoali_real_auto_fini(shoal_sync *sync);
/** Before an operation starts: its collective and codec; it gets a bucket if it goes by one. */
SHOAL_MUST_USE shoal_status shoali_real_auto_before(struct shoali_real_op *op,
                                                    const shoali_sync_op *from,
                                                    shoal_op_desc *desc);
/** Elements that this rank would send of a bucket by the dense way. */
uint64_t shoali_real_auto_dense(const shoali_real_bucket *bucket);
/** op->measures: start the small operation beside the one that has just been started. */
void shoali_real_auto_share(struct shoali_real_op *op, const shoal_op_desc *beside);
/** All parts have ended well: sum is what the bucket holds now. */
SHOAL_MUST_USE shoal_status shoali_real_auto_behind(struct shoali_real_op *op, const float *sum);

#endif
