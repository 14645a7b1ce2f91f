/* SPDX-License-Identifier: Apache-2.0 */
/* What one operation costs: arithmetic, memory traffic, a collective. All planners' prices come
 * from here. Pure functions of a cluster description; docs/predict.md has the formulas.
 *
 * Every time is kept by cause, so that a calibration can fit one factor per cause and a report can
 * say what binds: the causes add up to the time. */
#ifndef SHOALI_PLAN_COST_H
#define SHOALI_PLAN_COST_H

#include "collective/lost.h"
#include "collective/schedule.h"
#include "model/cluster.h"
#include "shoal/codec.h"

/** Seconds by cause. */
typedef struct shoali_time {
    double matrix;  /* matrix products */
    double vector;  /* all other arithmetic */
    double memory;  /* memory traffic */
    double network; /* links, latencies included */
    double fixed;   /* measured constants: per operation, per step */
} shoali_time;

static inline double shoali_time_sum(shoali_time t)
{
    return t.matrix + t.vector + t.memory + t.network + t.fixed;
}
/** a + k b */
static inline shoali_time shoali_time_add(shoali_time a, double k, shoali_time b)
{
    return (shoali_time){a.matrix + k * b.matrix, a.vector + k * b.vector, a.memory + k * b.memory,
                         a.network + k * b.network, a.fixed + k * b.fixed};
}

/** One operation: flops on `kind`'s table ("vector", "matrix" or a layer kind, whose peak is the
 * matrix one) and bytes of memory traffic. Roofline: the larger of both counts, additive: their
 * sum. */
shoali_time shoali_cost_work(const shoali_accelerator *accelerator, const char *kind, double flops,
                             double bytes);

/** Workers first, first + stride, ..., of which `size` take part in one exchange. */
typedef struct shoali_group {
    uint32_t stride, size;
} shoali_group;

typedef enum {
    SHOALI_EXCHANGE_ALL_REDUCE,
    SHOALI_EXCHANGE_SHARDED,    /* reduce-scatter or all-gather; bytes: the whole vector */
    SHOALI_EXCHANGE_ALL_TO_ALL, /* bytes: what one has for all, a part for each, one its own */
    SHOALI_EXCHANGE_P2P         /* from one to the next of the group */
} shoali_exchange_kind;

/**
 * Time of one exchange on the dimensions of a cluster, each dimension by its own matched algorithm
 * (ring; direct on fc; halving and doubling on a switch), chunks pipelined over the dimensions as
 * in LIBRA: the busiest dimension counts. Without dimensions a host's workers are one (free), and
 * the hosts the next.
 * @param bytes per worker
 */
double shoali_cost_exchange_s(const shoali_cluster *cluster, shoali_group group,
                              shoali_exchange_kind kind, double bytes);

/** Groups of `size` workers that exchange at the same time, and share NICs where they share hosts:
 * group g begins at worker g / stride * stride * size + g % stride, and its members are `stride`
 * apart. Together they are the first stride * size * n workers of a cluster. */
typedef struct shoali_groups {
    shoali_group each;
    uint32_t count; /* a multiple of each.stride */
} shoali_groups;

/** An all-reduce of Shoal's own, counted from its schedule. Loads are those of the busiest link and
 * the busiest member, in elements of the operation's count; an element on a link that is a sum of
 * several members' counts as many times as the codec needs more bytes for it than for one's. */
typedef struct shoali_collective_cost {
    double link_s_per_elem;   /* busiest link, seconds per element and byte of it (times bytes) */
    double phases_s_per_elem; /* sum over rounds of each round's busiest link */
    double sent_share;        /* elements that the busiest member sends, by the count */
    double moved_share;       /* sent and received */
    double encoded_share, decoded_share, added_share;
    uint32_t rounds, blocks;
    double latency_s; /* of all rounds */
    /** What gets lost (collective/lost.h): packets, packet_s and chunks are 1 element's byte, a
     *  second of it, and 0 */
    shoali_lost_load lost;
    double tails_s; /* of an operation that none follows */
} shoali_collective_cost;

/**
 * Count a collective that all groups run at once. Ranks on one host do not use its NIC.
 * @param codec NULL: sums take as many bytes as what was summed.
 * @return SHOAL_OK | EINVAL (the row cannot do this size, more workers than there are) | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_cost_collective(const shoali_cluster *cluster,
                                                   const shoali_collective *collective,
                                                   shoali_groups groups, const shoal_codec *codec,
                                                   shoali_collective_cost *out);

/** The same of its reduce-scatter, or of the all-gather, its mirror image; floats without a codec.
 * @return also EINVAL: a collective that has none */
SHOAL_MUST_USE shoal_status shoali_cost_shards(const shoali_cluster *cluster,
                                               const shoali_collective *collective,
                                               shoali_groups groups, shoali_collective_cost *out);

/** Link time of count elements of bytes_per_elem each: the busiest link, plus what the pipeline of
 * chunks cannot hide of the rounds' own maxima, and what waits for lost packets. */
double shoali_cost_link_s(const shoali_collective_cost *cost, double count, double bytes_per_elem,
                          double chunk_elems);

#endif
