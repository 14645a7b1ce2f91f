/* SPDX-License-Identifier: Apache-2.0 */
/* One collective in chunks over the dimensions of a network: in which order each chunk takes them,
 * what that takes when it is simulated, and what no order can beat. */
#ifndef SHOALI_PLAN_NETWORK_SCHEDULE_H
#define SHOALI_PLAN_NETWORK_SCHEDULE_H

#include "base/arena.h"
#include "model/import.h"

enum { SHOALI_CHUNKS_MAX = 1024 };

/** A collective of `bytes` (all-gather: of one shard) among groups[d] members of each dimension,
 * which has bandwidth[d] > 0 where groups[d] > 1. */
typedef struct shoali_chunked {
    shoali_comm_kind kind;
    double bytes;
    const uint32_t *groups;
    const double *bandwidth;
    uint32_t dims, chunks;
} shoali_chunked;

/**
 * Least time over all ways to give shares of the collective to orders of the dimensions, were the
 * shares as small as one likes.
 *
 * A reduce-scatter of s bytes leaves at least g(S) = s / C (1 - 1/c) bytes to the dimensions of a
 * set S, c the members of S and C those of the others: so much if the others come first. These
 * sums are the only limits (orders are the corners of a base polytope, Edmonds 1970), so the least
 * time is the largest g(S) by the bandwidth of S. An all-gather is the same backwards, an
 * all-reduce both. All-to-alls and sends take the same of each dimension in every order.
 */
double shoali_chunked_bound(const shoali_chunked *of);

/** Bytes that a reduce-scatter of s bytes sends on each dimension, taken in this order. */
void shoali_chunked_volume(const shoali_chunked *of, double s, const uint32_t *order, double *out);

/**
 * Simulate: a dimension sends for one chunk at a time, for the one that came first.
 * @param choose each chunk begins on the dimension that has least to do for those before it
 *               (Themis); else inner dimensions first
 * @return SHOAL_OK | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_chunked_run(const shoali_chunked *of, bool choose,
                                               shoal_arena *scratch, double *seconds_out);

#endif
