/* SPDX-License-Identifier: Apache-2.0 */
/* What a sparse all-reduce (collective `omnireduce`) has to move, before or after it has run: pure
 * functions, for choosing it, for planning it, and for the line that a benchmark prints beside what
 * it measured.
 *
 * The naive ceiling counts only data: a worker sends its share d of the blocks that are not zero,
 * and receives the union U of everyone's; with co-located aggregators a link carries both, less
 * what stays at home. The model adds what the protocol cannot do without: the first row of blocks,
 * which everybody sends to say where to go on, the numbers beside each block, the head of each
 * frame, and that the shards of the aggregation are not equally full.
 *
 * Source: Fei et al., "Efficient sparse collective communication and its application to accelerate
 * distributed deep learning", SIGCOMM 2021, section 3.4, there for positions that overlap. */
#ifndef SHOAL_SPARSE_H
#define SHOAL_SPARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One sparse all-reduce. Member m is a worker if m < workers; shard a of the aggregation is member
 * a, or with dedicated member workers + a. */
typedef struct shoal_sparse_desc {
    size_t size;
    size_t count;                  /* elements */
    uint32_t block, fusion, slots; /* as the keys of omnireduce */
    uint32_t workers, aggregators;
    bool dedicated;
    uint32_t head_bytes; /* of a frame; 0: payload alone is counted */
} shoal_sparse_desc;

/** Bytes of an all-reduce. */
typedef struct shoal_sparse_cost {
    size_t size;
    uint64_t blocks;      /* of the buffer */
    double density;       /* d: share of them that is not zero at a worker, on average */
    double together;      /* U: share that is not zero at some worker */
    double moved;         /* share that a worker receives: U and the rest of the first row */
    double naive_bytes;   /* on the busiest link and direction: data only, all shards equal */
    double busiest_bytes; /* with all that the protocol adds */
    double ring_bytes;    /* of the dense ring: 2 (N-1)/N of the buffer */
} shoal_sparse_cost;

/**
 * The description that follows from a collective's spec, for workers of `members` members.
 * @return SHOAL_OK | EINVAL (no sparse collective, or its keys do not fit these members)
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sparse_describe(const char *collective, size_t count,
                                                            uint32_t workers, uint32_t members,
                                                            shoal_sparse_desc *desc_out);

/**
 * What to expect of blocks that are not zero with a probability.
 * @param density of each worker's blocks, 0 to 1.
 * @param overlapping the same positions at all workers; else independent ones.
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sparse_expect(const shoal_sparse_desc *desc,
                                                          double density, bool overlapping,
                                                          shoal_sparse_cost *cost_out);

/**
 * What a pattern needs, counted round by round.
 * @param nonzero [workers][blocks], row by row: not 0 where a worker's block is not zero.
 * @param sent_out, received_out [members] bytes of each member's link; NULL: not wanted.
 * @return SHOAL_OK | EINVAL | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_sparse_count(const shoal_sparse_desc *desc,
                                                         const uint8_t *nonzero, uint64_t *sent_out,
                                                         uint64_t *received_out,
                                                         shoal_sparse_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
