/* SPDX-License-Identifier: Apache-2.0 */
/* Inside network design (LIBRA): from workloads to terms, from texts to linear rows, and the three
 * objectives. */
#ifndef SHOALI_PLAN_NETWORK_H
#define SHOALI_PLAN_NETWORK_H

#include "model/import.h"
#include "plan/convex.h"
#include "shoal/network.h"

enum { SHOALI_NETWORK_JOBS_MAX = 64, SHOALI_NETWORK_TERMS_MAX = 4096 };

/** Members of each group, inside out: tensor, experts, replicas of the same experts, stages. */
typedef struct shoali_network_split {
    uint64_t tensor, experts, replicas, stages;
} shoali_network_split;

typedef struct shoali_network_job {
    shoali_workload workload;
    shoali_communicator communicator;
    shoali_network_split split; /* that the communicator places; all 0: it is a file's */
    double weight;
    shoali_times times; /* of this job alone, unweighted */
} shoali_network_job;

struct shoal_network {
    shoal_arena *arena; /* everything below lives here */
    shoali_dimension dimension[SHOALI_CONVEX_DIMS];
    uint32_t dims;
    double npus, fixed_cost;
    bool has_cost, overlap, recompute;
    double unit_cost[SHOALI_CONVEX_DIMS]; /* $ per GB/s of one accelerator */
    shoali_network_job *jobs;
    uint32_t job_count;
    shoali_times times; /* of all jobs, weighted */
    double traffic[SHOALI_CONVEX_DIMS];
};

/**
 * Bytes that one accelerator sends on each dimension for one collective (planning.md 3.3): reduce
 * parts shrink on their way up, an all-gather of shards grows on its way down.
 * @param groups  members per dimension, 1: not used
 * @param out     bytes per dimension
 */
void shoali_network_volume(shoali_comm_kind kind, double bytes, const uint32_t *groups,
                           uint32_t dims, double *out);

/** The group of one phase's exchange: members per dimension. */
const uint32_t *shoali_network_group(const shoali_network_job *job, shoali_phase_kind phase,
                                     const shoali_phase *what);

/** Place a split's groups: of each dimension, inner ones first, as many as a group still needs.
 * @return SHOAL_OK | EINVAL: they do not fill the network, or divide no dimension of it */
SHOAL_MUST_USE shoal_status shoali_network_place(const shoali_network_split *split,
                                                 const shoal_network *network,
                                                 shoali_communicator *out);
/** "tp=16" or "tp=16,ep=8": groups of the job whose workload was read; all-to-alls go among ep of
 * the replicas, or all. */
SHOAL_MUST_USE shoal_status shoali_network_groups(const char *text, const shoal_network *network,
                                                  shoali_network_job *job);
/** EINVAL: an all-to-all has a group of one, so that it would be left out. */
SHOAL_MUST_USE shoal_status shoali_network_check_groups(const char *name,
                                                        const shoal_network *network,
                                                        const shoali_network_job *job);
/** A job of a model: rows of what the busiest stage does in a step, and the groups. */
SHOAL_MUST_USE shoal_status shoali_network_model(const shoal_predict_desc *desc,
                                                 shoal_network *network, shoali_network_job *out);

/** The terms of job `index`, or with index == job_count those of all jobs, weighted: proportional
 *  ones merged, pieces that can never be the longest left out. */
SHOAL_MUST_USE shoal_status shoali_network_terms(const shoal_network *network, uint32_t index,
                                                 shoal_arena *arena, shoali_times *out);

/** Limits as linear rows over the bandwidths; time_limit: INFINITY if there is none. */
typedef struct shoali_limits {
    shoali_linear_row rows[SHOALI_LINEAR_ROWS];
    const char *text[SHOALI_LINEAR_ROWS];
    uint32_t count;
    double time_limit;
    const char *time_text;
} shoali_limits;
SHOAL_MUST_USE shoal_status shoali_limits_parse(const shoal_network *network,
                                                const shoal_network_question *question,
                                                shoali_limits *out);
/** The limits with a multiplier: "'sum == 5' and 'b0 == 6'". */
void shoali_limits_name(const shoali_limits *limits, const double *price, char *list, size_t size);
/** EINVAL that names them. */
shoal_status shoali_limits_contradict(const shoali_limits *limits, const double *price);
#define shoali_limits_contradict(limits, price) \
    ((void)shoali_limits_contradict((limits), (price)), SHOAL_EINVAL)

/** One question on its way: limits checked, an inside point found. */
typedef struct shoali_search {
    const shoal_network *network;
    const shoali_times *times;
    const shoali_limits *limits;
    shoal_arena *scratch;
    shoali_linear_row rows[SHOALI_LINEAR_ROWS]; /* what is left after shoali_linear_inside */
    uint32_t row_count;
    double start[SHOALI_LINEAR_VARS], upper[SHOALI_CONVEX_DIMS], weight[SHOALI_CONVEX_DIMS];
    uint32_t solves, steps;
} shoali_search;

/** Shortest time within the search's rows. */
SHOAL_MUST_USE shoal_status shoali_search_time(shoali_search *search, shoali_optimum *out);
/** Least cost (without the fixed part) within the rows and the time limit. */
SHOAL_MUST_USE shoal_status shoali_search_cost(shoali_search *search, shoali_optimum *out);
/** Least time * (fixed cost + cost): b, time and value; bound by tangents (planning.md 3.6). */
SHOAL_MUST_USE shoal_status shoali_search_product(shoali_search *search, shoali_optimum *out);

#endif
