/* SPDX-License-Identifier: Apache-2.0 */
/* `--collective auto`: the way in which a gradient of which much is zero travels, one choice per
 * bucket. Pure: the same figures on all ranks give the same choice, so nobody has to announce it.
 *
 *   dense    ring                             2 (P-1)/P n, whatever the data
 *   pieces   gather with threshold:block=32   each rank's own blocks of 32, to all: (P-1) d n
 *   blocks   omnireduce                       the blocks that are not zero (omni_model.c), a way
 *                                             for each size: 32, 64, .., 1024, or the one named
 *
 * Small blocks leave out more zeros and have more numbers; messages and the first row, which always
 * travels, are 1024 elements per slot with all sizes.
 *
 * A way's time is its bytes on the busiest link times its pace: the seconds per byte that were
 * measured when it was last used, or, before it was, those of the way in use. So a way that saves
 * bytes but not time (processors that look for zeros, a fast link) is tried and left again.
 *
 *   driver: every SHOALI_BY_DENSITY_PERIOD operations of a bucket
 *     before   shoali_by_density_look at the gradient -> shared with all ranks
 *     behind   together = shoali_by_density_look at the sum, which all ranks have alike
 *              shoali_by_density_choose -> the way of the operations to come
 *
 * Hysteresis: another way has to be 10 % faster at two measurements in succession. */
#ifndef SHOALI_COLLECTIVE_BY_DENSITY_H
#define SHOALI_COLLECTIVE_BY_DENSITY_H

#include "shoal/shoal.h"
#include "shoal/sparse.h"

enum { SHOALI_BY_DENSITY_PIECE = 32, SHOALI_BY_DENSITY_PERIOD = 16, SHOALI_BY_DENSITY_SIZES = 6 };
enum { SHOALI_DENSE, SHOALI_PIECES, SHOALI_BLOCKS, SHOALI_WAYS = 2 + SHOALI_BY_DENSITY_SIZES };

/** The ways and what they are called, for one job. */
typedef struct shoali_ways {
    const char *name[SHOALI_WAYS];
    char collective[SHOALI_WAYS][64], codec[SHOALI_WAYS][32];
    uint32_t block[SHOALI_BY_DENSITY_SIZES]; /* elements, of `blocks` */
    uint32_t sizes;                          /* of them there are */
    uint32_t workers, aggregators;
} shoali_ways;

/** What one rank measures and all get to know: [rank][these]. */
typedef struct shoali_density {
    float blocks[SHOALI_BY_DENSITY_SIZES]; /* shares of the blocks of each size that are not zero */
    float pieces;                          /* and of the pieces */
    float took_s;                          /* the last operation of the bucket; 0: none yet */
} shoali_density;

/** One bucket. */
typedef struct shoali_by_density {
    uint32_t way;           /* in use */
    uint32_t rival, streak; /* faster than it, and for how many measurements */
    double bytes[SHOALI_WAYS], pace[SHOALI_WAYS]; /* seconds per byte; 0: never used */
    double own, together; /* of the last measurement and the best size: mean, and of the sum */
    uint32_t best;        /* that size's way: the fewest bytes of all `blocks` */
} shoali_by_density;

/** Whether a spec is "auto" or begins with "auto:". */
bool shoali_by_density_named(const char *spec);

/**
 * @param spec "auto", "auto:block=64": blocks of this size alone.
 * @param aggregators of the job: with any, `blocks` is summed by them.
 * @return SHOAL_OK | EINVAL
 */
SHOAL_MUST_USE shoal_status shoali_by_density_open(const char *spec, uint32_t workers,
                                                   uint32_t aggregators, shoali_ways *ways_out);

/** Shares of the blocks and pieces that hold something else than zero, in one pass for all sizes;
 *  -0 counts as zero, NaN does not. took_s is the caller's. */
void shoali_by_density_look(const shoali_ways *ways, const float *x, size_t count,
                            shoali_density *density_out);

/**
 * Take a measurement and say which way the next operations go.
 * @param all [workers] by rank. took_s is of the way in use.
 * @param together of the sum.
 * @return SHOAL_OK | EINVAL (the layout has no numbers for so many blocks)
 */
SHOAL_MUST_USE shoal_status shoali_by_density_choose(shoali_by_density *bucket,
                                                     const shoali_ways *ways, size_t count,
                                                     const shoali_density *all,
                                                     const shoali_density *together);

#endif
