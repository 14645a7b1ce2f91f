/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a partition: the chain of layers with weights that HyPar's costs are functions of. The
 * trainer reads it, too: it executes the plan. */
#ifndef SHOALI_PLAN_PARTITION_H
#define SHOALI_PLAN_PARTITION_H

#include "base/arena.h"
#include "model/model.h"
#include "shoal/partition.h"

typedef struct shoali_part_layer {
    const char *name, *kind;
    uint32_t index;     /* in the model */
    uint64_t weights;   /* split by model parallelism */
    uint64_t biases;    /* replicated by it; never counted by HyPar */
    uint64_t outputs;   /* per sample, behind what follows before the next such layer */
    uint64_t unpooled;  /* per sample, of the layer itself */
    uint32_t channels;  /* of its output */
    uint32_t in_splits; /* its input is cut in multiples of a 1 / in_splits: channels, or values */
    double macs;        /* weights times input pixels */
    double flops;       /* forward, per sample, with what follows it */
    bool spatial;       /* a convolution */
    uint32_t mask;      /* bit h - 1: model parallel at level h */
} shoali_part_layer;

struct shoal_partition {
    shoal_arena *arena; /* everything below lives here */
    const char *model;
    uint32_t batch, levels, layer_count;
    shoal_partition_mode mode;
    shoal_partition_method method;
    shoali_part_layer *layers;
    bool graph;
    const char *unfit;   /* why no plan of this model can be executed; NULL: some can */
    const char *why_not; /* why this plan cannot */
};

/** The chain of a model, every mask 0; desc's sizes are checked. model may be closed afterwards. */
SHOAL_MUST_USE shoal_status shoali_partition_chain(const shoal_partition_desc *desc,
                                                   const shoal_model *model,
                                                   shoal_partition **partition_out);
/** Set why_not, once the masks stand. */
SHOAL_MUST_USE shoal_status shoali_partition_judge(shoal_partition *partition);

/* partition_cost.c. All counts fit: shoali_partition_chain has checked them. */
uint64_t shoali_partition_elements(const shoal_partition *partition);
uint64_t shoali_partition_bias_elements(const shoal_partition *partition);
uint64_t shoali_partition_executed(const shoal_partition *partition);
/** What one pair exchanges at a level, times 2^levels: a whole number. */
uint64_t shoali_partition_level_scaled(const shoal_partition *partition, uint32_t level);
/** Layer l's own costs with `count` model-parallel levels: the closed form's first sum. */
uint64_t shoali_partition_alone(const shoal_partition *partition, uint32_t l, uint32_t count);

/** Outputs of layer l that travel, of one sample, if it is model parallel at `count` levels. */
uint64_t shoali_partition_moved(const shoal_partition *partition, uint32_t l, uint32_t count);
/** Layer l's input divides into the parts of `count` model-parallel levels behind a layer that is
 * model parallel at `before` levels: the trainer can run it. Always, in the modes of the paper. */
bool shoali_partition_divides(const shoal_partition *partition, uint32_t l, uint32_t before,
                              uint32_t count);

/** partition_solve.c: set the masks by the method. */
SHOAL_MUST_USE shoal_status shoali_partition_solve(shoal_partition *partition, const char *given);

/** A machine and its network, as one of equal workers has them. */
typedef struct shoali_partition_pace {
    const double *forward_s, *backward_s; /* per layer of the plan, of one worker, alone */
    double bytes_per_s; /* that one worker can send, and at the same time receive, as payload */
    double latency_s;   /* of one message */
} shoali_partition_pace;
/** A step without its update. The three that take time add up to it. */
typedef struct shoali_partition_seconds {
    double compute_s;
    double borders_s;                  /* partial sums and activations: everybody waits for them */
    double exposed_s;                  /* gradients on their way when all else is done */
    double hidden_s;                   /* gradients behind computation and borders */
    double sent_bytes, gradient_bytes; /* by one worker; the latter of the former */
} shoali_partition_seconds;
/** partition_seconds.c: follow one worker of `shoal train --plan`, whose link nobody shares. The
 * plan of method DATA is `shoal train` without a plan. */
shoali_partition_seconds shoali_partition_time_step(const shoal_partition *partition,
                                                    const shoali_partition_pace *pace);

/** partition_json.c: parse a file's text. */
SHOAL_MUST_USE shoal_status shoali_partition_parse(const char *what, const char *json,
                                                   size_t len_bytes,
                                                   shoal_partition **partition_out);

#endif
