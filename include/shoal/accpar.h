/* SPDX-License-Identifier: Apache-2.0 */
/* AccPar: HyPar with a third way to split a layer, and for accelerators that are not alike (Song et
 * al., HPCA 2020). Where shoal/partition.h counts elements and halves, this one minimises seconds
 * and cuts unevenly: the group of accelerators is split in two, again and again, and at each split
 * each layer is divided between the two sides, in shares of the same size for all layers, by
 *
 *     type 1   samples: both sides sum the gradient of all weights
 *     type 2   input channels: both sides sum all outputs
 *     type 3   output channels: both sides sum the error of all inputs
 *
 * docs/partition.md has the costs between types. A planner only: the trainer runs halves of types 1
 * and 2, which are shoal/partition.h's.
 *
 * Threads: a result never changes after it was made. */
#ifndef SHOAL_ACCPAR_H
#define SHOAL_ACCPAR_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_accpar shoal_accpar;

/** Most accelerators. */
enum { SHOAL_ACCPAR_MAX = 256 };

/** What to divide. */
typedef struct shoal_accpar_desc {
    size_t size;               /* sizeof(shoal_accpar_desc) */
    const char *model;         /* as shoal_model_open takes it; branches are taken as a chain */
    uint32_t batch;            /* samples of one step, of all together */
    uint32_t count;            /* of accelerators: a power of two, at most SHOAL_ACCPAR_MAX */
    const double *flops_per_s; /* [count], what they reach; neighbours stay together longest */
    double bytes_per_s;        /* that one side can read from the other */
    uint32_t types;            /* 1, 2 or 3: so many of the types above are allowed */
    int equal_shares;          /* not 0: halves, whatever the accelerators are */
} shoal_accpar_desc;

/** @return SHOAL_OK | EINVAL (names the field) | what shoal_model_open returns | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_accpar_create(const shoal_accpar_desc *desc,
                                                          shoal_accpar **accpar_out);
/** NULL is allowed. */
SHOAL_API void shoal_accpar_destroy(shoal_accpar *accpar);

/** Seconds of a step: the slower side's exchange at each split, then the slowest one's work. */
SHOAL_API double shoal_accpar_seconds(const shoal_accpar *accpar);

/** One split. */
typedef struct shoal_accpar_split {
    uint32_t first, count; /* accelerators [first, first + count), half of them on either side */
    double share;          /* of the lower half */
    const char *types; /* a digit, 1 to 3, per layer with weights; lives as long as the result */
} shoal_accpar_split;
/** Split i of count - 1: 0 is the first, its parts are 2 i + 1 and 2 i + 2. EINVAL beyond. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_accpar_split_at(const shoal_accpar *accpar, uint32_t i,
                                                            shoal_accpar_split *split_out);

#ifdef __cplusplus
}
#endif
#endif
