/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the search for a network's shape: shapes as they are kept between questions. */
#ifndef SHOALI_PLAN_NETWORK_SHAPES_H
#define SHOALI_PLAN_NETWORK_SHAPES_H

#include "plan/network.h"

enum { SHOALI_SHAPES_MAX = 200000, SHOALI_BLOCKS_MAX = 16 };

/** What a dimension may be. */
typedef struct shoali_block {
    shoali_topology topology;
    uint32_t least, most;
    double cost, rate; /* $ per GB/s; GB/s, 0: no limit */
} shoali_block;

/** Dimension d is block[d] with size[d] members. */
typedef struct shoali_shape {
    uint32_t size[SHOALI_CONVEX_DIMS];
    uint8_t block[SHOALI_CONVEX_DIMS], dims;
    shoali_times times;
} shoali_shape;

struct shoal_network_shapes {
    shoal_arena *arena;  /* shapes and their terms */
    shoal_network *base; /* the jobs, on one dimension of all accelerators */
    shoali_block blocks[SHOALI_BLOCKS_MAX];
    uint32_t block_count, dims_max;
    bool has_cost;
    shoali_shape *shapes;
    uint64_t count, capacity, misfits;
};

/** The network of one shape. Its jobs are `jobs`, base->job_count of them: for the solver, which
 *  asks them what collectives send, they are placed here. times: the shape's. */
void shoali_shape_network(const shoal_network_shapes *shapes, const shoali_shape *shape,
                          shoali_network_job *jobs, shoal_network *out);

/**
 * No bandwidths of this network within the limits have a smaller objective; without solving
 * anything (docs/network.md). Infinite: none meets the limit on time.
 */
double shoali_shape_bound(const shoal_network *net, const shoali_limits *limits,
                          shoal_network_objective objective);

#endif
