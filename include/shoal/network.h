/* SPDX-License-Identifier: Apache-2.0 */
/* Designing a network: which bandwidth each of its dimensions should have, so that training steps
 * are short, or short for their price. After LIBRA (Won et al., ISPASS 2024); docs/network.md has
 * the formulas, what is not modelled, and how the answers are proved.
 *
 * Units here are LIBRA's: bandwidth in GB/s (1e9 bytes per second) per accelerator and dimension,
 * time in ns (bytes by GB/s), money in $ (or whatever the cost file counts in).
 *
 *     shoal_network_desc desc = SHOAL_NETWORK_DESC_INIT;
 *     desc.network = "net.yml", desc.cost = "cost.yml", desc.jobs = &job, desc.job_count = 1;
 *     shoal_network_open(&desc, &network);
 *     question.limits = (const char *const[]){"sum == 500"}, question.limit_count = 1;
 *     shoal_network_solve(network, &question, &answer);
 *
 * Threads: an open network never changes; any number of threads may ask it. */
#ifndef SHOAL_NETWORK_H
#define SHOAL_NETWORK_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>
#include <stddef.h>

#include "shoal/predict.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most dimensions that a network may have. */
#define SHOAL_NETWORK_DIMS_MAX 8

typedef struct shoal_network shoal_network;

/** One workload on the network. */
typedef struct shoal_network_job {
    const char *workload; /* path: ASTRA-sim 1.0 text, or a Chakra trace (.et) */
    /** Who talks to whom: path of LIBRA's communicator file, or "tp=16": tensor parallelism over 16
     *  neighbours, inner dimensions first, data parallelism over the rest, over which all-to-alls
     *  go, too ("tp=16,ep=8": over the 8 next of them). NULL: "tp=1". */
    const char *communicator;
    double weight; /* of this job's time in the objective; > 0 */
    /** Instead of workload and communicator: a model on as many accelerators as the network has, as
     *  shoal_predict takes it. Of its cluster only the first host's accelerator counts. Tensor
     *  groups lie inside, then replicas, then stages. */
    const shoal_predict_desc *model;
} shoal_network_job;

typedef struct shoal_network_desc {
    size_t size;         /* set by SHOAL_NETWORK_DESC_INIT */
    const char *network; /* LIBRA's network file (.yml, .yaml), a cluster file (.json), or
                            dimensions such as "ring:4, fc:8, ring:4, switch:32" */
    const char *cost;    /* LIBRA's cost file, or $ per GB/s and dimension, such as "2,4,4,57.4";
                            NULL: the cluster file's, if it has any */
    double fixed_cost;   /* added to the network's cost: accelerators, racks */
    const shoal_network_job *jobs;
    uint32_t job_count;
    bool overlap;   /* a layer's weight gradients travel while its input gradients do */
    bool recompute; /* the forward collectives run twice (activation recomputation) */
} shoal_network_desc;
#define SHOAL_NETWORK_DESC_INIT                                          \
    {                                                                    \
        sizeof(shoal_network_desc), NULL, NULL, 0, NULL, 0, false, false \
    }

/**
 * Read all files and work out what each collective sends over each dimension.
 * @param network_out owned by the caller; shoal_network_close.
 * @return SHOAL_OK | EINVAL (texts that are no dimensions, costs, groups) | ECORRUPT (files) |
 *         EIO | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_open(const shoal_network_desc *desc,
                                                         shoal_network **network_out);
/** Write a job's workload as a Chakra execution trace of one accelerator, for ASTRA-sim
 *  (docs/model-files.md). Replaces an existing file in one step. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_save_trace(const shoal_network *network,
                                                               uint32_t job, const char *path);
/** NULL is allowed. */
SHOAL_API void shoal_network_close(shoal_network *network);

/** What stands in the files, for tables. */
typedef struct shoal_network_info {
    size_t size; /* set to sizeof(shoal_network_info) by the caller */
    uint32_t dims;
    double npus;                                  /* accelerators: product of all sizes */
    const char *topology[SHOAL_NETWORK_DIMS_MAX]; /* "ring", "fc", "switch" */
    uint32_t members[SHOAL_NETWORK_DIMS_MAX];     /* size of each dimension */
    double unit_cost[SHOAL_NETWORK_DIMS_MAX]; /* $ per GB/s of one accelerator: link, or link, NIC
                                                 and switch port */
    double traffic[SHOAL_NETWORK_DIMS_MAX];   /* bytes per accelerator and step */
    bool has_cost;
    double compute_ns; /* of all jobs, weighted */
    uint32_t terms;    /* different collectives that are left after equal ones were merged */
} shoal_network_info;
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_describe(const shoal_network *network,
                                                             shoal_network_info *info_out);

/** What one collective of one job sends. */
typedef struct shoal_network_collective {
    size_t size;       /* set to sizeof(shoal_network_collective) by the caller */
    const char *layer; /* as in the workload; lives as long as the network */
    const char *phase; /* "forward", "input_grad", "weight_grad" */
    const char *kind;  /* "all_reduce" ... */
    double bytes;      /* as in the workload */
    double volume[SHOAL_NETWORK_DIMS_MAX]; /* bytes that an accelerator sends on each dimension */
} shoal_network_collective;
/** Collective `index` of a job, in the workload's order; EINVAL beyond the last. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_at(const shoal_network *network, uint32_t job,
                                                       uint32_t index,
                                                       shoal_network_collective *out);
/** How many collectives a job has; 0 for a job that does not exist. */
SHOAL_API uint32_t shoal_network_collectives(const shoal_network *network, uint32_t job);

/** Time of one step of one job (unweighted) with given bandwidths; infinite where a dimension with
 *  traffic has none. job == job_count of the description: all jobs, weighted. */
SHOAL_API double shoal_network_time(const shoal_network *network, uint32_t job,
                                    const double *bandwidth);
/** Cost with given bandwidths: fixed_cost + npus * sum of unit_cost * bandwidth. */
SHOAL_API double shoal_network_cost(const shoal_network *network, const double *bandwidth);

/** Steps of a network whose collectives go in chunks, each of which takes the dimensions one after
 *  the other, in an order of its own (Themis; Rashidi et al., ISCA 2022). */
typedef struct shoal_network_schedule {
    size_t size;      /* set to sizeof(shoal_network_schedule) by the caller */
    double time_ns;   /* shoal_network_time: one order for all, chunks without end */
    double fixed_ns;  /* one order for all chunks, simulated */
    double chosen_ns; /* each chunk's order chosen, simulated; never more than fixed_ns */
    double bound_ns;  /* no orders of chunks, however many, are faster: proved */
} shoal_network_schedule;
/**
 * Simulate all jobs' collectives, weighted, on given bandwidths.
 * @param chunks of each collective, 1 .. 1024
 * @return SHOAL_OK | EINVAL (no bandwidth where there is traffic, no such number of chunks) |
 *         ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_schedule_at(const shoal_network *network,
                                                                const double *bandwidth,
                                                                uint32_t chunks,
                                                                shoal_network_schedule *out);

typedef enum shoal_network_objective {
    SHOAL_NETWORK_PERF,          /* shortest time */
    SHOAL_NETWORK_PERF_PER_COST, /* least time * cost */
    SHOAL_NETWORK_COST           /* least cost; wants a limit on time */
} shoal_network_objective;

typedef struct shoal_network_question {
    size_t size; /* set by SHOAL_NETWORK_QUESTION_INIT */
    shoal_network_objective objective;
    /** Limits that all must hold: sums of b0, b1 ..., sum (of all), cost, with factors, compared by
     *  <=, >= or ==: "sum == 1000", "b0 >= b1", "b2 + b3 == 200", "cost <= 1e7", "b1 <= 300";
     *  "b0 == 50" fixes a dimension. "time <= 2e8" (ns) stands by itself. */
    const char *const *limits;
    uint32_t limit_count;
} shoal_network_question;
#define SHOAL_NETWORK_QUESTION_INIT                                 \
    {                                                               \
        sizeof(shoal_network_question), SHOAL_NETWORK_PERF, NULL, 0 \
    }

typedef struct shoal_network_answer {
    size_t size; /* set to sizeof(shoal_network_answer) by the caller */
    double bandwidth[SHOAL_NETWORK_DIMS_MAX];
    double time_ns, cost; /* cost: NaN without costs */
    double objective;     /* time_ns; time_ns * cost / 1e10 (LIBRA's scale); or cost */
    double bound;         /* no network within the limits has a smaller objective: proved by
                             multipliers, whatever the solver did */
    double gap;           /* (objective - bound) / objective */
    /** The same total bandwidth spread evenly, whether or not the limits allow it. */
    double equal_time_ns, equal_cost;
    double utilisation; /* bytes sent, by what all dimensions could send during collectives */
    /** Bandwidths between which b[d] may lie at the same time (PERF only; the others' optima are
     *  reported as they are): low < high where the answer is not unique. */
    double low[SHOAL_NETWORK_DIMS_MAX], high[SHOAL_NETWORK_DIMS_MAX];
    double price[SHOAL_NETWORK_DIMS_MAX]; /* share of the influenceable time that waits for this
                                             dimension; 0: it never limits */
    uint32_t solves, steps;               /* convex programs, interior-point steps in all */
} shoal_network_answer;

/**
 * Find the best bandwidths.
 * @return SHOAL_OK | EINVAL (a limit cannot be read; limits contradict each other: the text names
 *         them; nothing ends the bandwidth; no costs; no optimum because ever less bandwidth is
 *         ever better) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_solve(const shoal_network *network,
                                                          const shoal_network_question *question,
                                                          shoal_network_answer *answer_out);

/* ---------------------------------------------------------------- shapes */

/** Networks among which a shape is looked for: every sequence of dimensions, inner ones first,
 *  whose sizes multiply to npus, each a block of the list, in the list's order (a block may come
 *  several times, or not at all). */
typedef struct shoal_network_space {
    size_t size;   /* set by SHOAL_NETWORK_SPACE_INIT */
    uint64_t npus; /* accelerators: 2 or more */
    /** Inner ones first, such as "ring:most=16,cost=2" or "switch:least=8,most=64,cost=57.4,
     *  rate=100": topology (ring, fc, switch); least and most members of a dimension (its radix);
     *  cost in $ per GB/s of one accelerator, with its NIC and switch port; rate: GB/s of one
     *  accelerator that it can have at most, 0: no limit. */
    const char *const *blocks;
    uint32_t block_count;
    uint32_t dims_max; /* dimensions of a shape at most: 1 .. SHOAL_NETWORK_DIMS_MAX */
} shoal_network_space;
#define SHOAL_NETWORK_SPACE_INIT                   \
    {                                              \
        sizeof(shoal_network_space), 0, NULL, 0, 4 \
    }

typedef struct shoal_network_shapes shoal_network_shapes;
/**
 * Enumerate them, and what each collective sends in each.
 * @param desc       its network and cost are NULL; jobs whose groups are a file of LIBRA's are
 *                   refused, for these are groups of one shape
 * @param shapes_out owned by the caller; shoal_network_shapes_close. Never changes: any number of
 *                   threads may ask it
 * @return as shoal_network_open; EINVAL also where no shape exists, or more than 200,000 do
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_shapes_open(const shoal_network_desc *desc,
                                                                const shoal_network_space *space,
                                                                shoal_network_shapes **shapes_out);
/** NULL is allowed. */
SHOAL_API void shoal_network_shapes_close(shoal_network_shapes *shapes);

/** One shape with its best bandwidths. */
typedef struct shoal_network_shape {
    uint32_t dims;
    const char *topology[SHOAL_NETWORK_DIMS_MAX];
    uint32_t members[SHOAL_NETWORK_DIMS_MAX];
    double unit_cost[SHOAL_NETWORK_DIMS_MAX];
    shoal_network_answer answer;
} shoal_network_shape;

/** What the search of one question came to. */
typedef struct shoal_network_choice {
    size_t size;      /* set to sizeof(shoal_network_choice) by the caller */
    uint64_t shapes;  /* of the space that the groups of all jobs fit into */
    uint64_t misfits; /* others of the space: groups do not divide their dimensions, or an
                          all-to-all would go over a ring of more than 3 members, where it is slower
                          than the formula for it says */
    uint64_t solved;  /* whose bandwidths were found */
    uint64_t beyond;  /* of these, that no bandwidths within the limits exist for */
    uint64_t
        excluded; /* not solved: a bound says that they are no better than the last one found */
    double objective, bound; /* of the best; no shape of the space with any bandwidths has less */
    double gap;              /* (objective - bound) / objective */
} shoal_network_choice;

/**
 * Find the best shapes and their bandwidths.
 * @param question as shoal_network_solve takes it; its limits name no single dimension
 * @param best     room for `most`, best first
 * @param found    how many there are
 * @return as shoal_network_solve; EINVAL also where no shape is within the limits
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_network_shapes_best(
    const shoal_network_shapes *shapes, const shoal_network_question *question,
    shoal_network_shape *best, uint32_t most, uint32_t *found, shoal_network_choice *choice);

#ifdef __cplusplus
}
#endif
#endif
