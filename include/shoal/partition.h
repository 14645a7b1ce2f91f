/* SPDX-License-Identifier: Apache-2.0 */
/* HyPar: which layers of a network to split by data and which by model, over 2^H accelerators, so
 * that the fewest values travel (Song et al., HPCA 2019). docs/partition.md has the formulas.
 *
 *     shoal_partition_desc desc = SHOAL_PARTITION_DESC_INIT;
 *     desc.model = "vgg-e";
 *     shoal_partition_create(&desc, &partition)
 *     shoal_partition_describe(partition, &info)      totals
 *     shoal_partition_layer(partition, i, &layer)     what layer i does at each level
 *     shoal_partition_save(partition, "plan.json")    for `shoal train --plan plan.json`
 *
 * The accelerators are halved H times; level 1 is the first cut, between the two halves of all of
 * them, level H the last, between two. At each level each layer with weights is either
 *
 *     data parallel   (0)  each half takes half of the samples and all of the weights;
 *     model parallel  (1)  each half takes half of the input channels and their weights, for all
 *                          samples, and what they compute has to be added up.
 *
 * All counts are elements (float32 values) moved per training step, both directions, all
 * accelerators together. Bytes are four times that.
 *
 * Threads: a partition never changes after it was made, so any number of threads may read it. */
#ifndef SHOAL_PARTITION_H
#define SHOAL_PARTITION_H
/* Of libshoal_train: pkg-config shoal_train. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_partition shoal_partition;

/** Which costs count. */
typedef enum shoal_partition_mode {
    SHOAL_PARTITION_EXECUTED, /* what `shoal train --plan` sends: biases, and sums before a pool */
    SHOAL_PARTITION_FIGURE,   /* those behind the published figures: neither */
    SHOAL_PARTITION_TABLE2    /* as the paper's table 2 prints them: leaving a model-parallel layer
                                 costs half of its error once more */
} shoal_partition_mode;

/** How the plan is found. */
typedef enum shoal_partition_method {
    SHOAL_PARTITION_OPTIMUM,    /* the fewest elements over all 2^(H L) plans, in O(L H^2); mode
                                   EXECUTED: over those that divide what they split */
    SHOAL_PARTITION_GREEDY,     /* as published: level by level, from the first cut */
    SHOAL_PARTITION_EXHAUSTIVE, /* by trying all plans; L H <= 20 */
    SHOAL_PARTITION_DATA,       /* every layer data parallel at every level */
    SHOAL_PARTITION_MODEL,      /* every layer model parallel */
    SHOAL_PARTITION_OWT,        /* "one weird trick": convolutions by data, dense ones by model */
    SHOAL_PARTITION_GIVEN       /* desc.given */
} shoal_partition_method;

/** Most halvings: 2^16 accelerators. */
enum { SHOAL_PARTITION_LEVELS_MAX = 16 };

/** What to divide. Zero and NULL mean the default in brackets; start from
 * SHOAL_PARTITION_DESC_INIT. */
typedef struct shoal_partition_desc {
    size_t size;
    const char *model; /* as shoal_model_open takes it */
    uint32_t batch;    /* [256] samples of one step, of all accelerators together */
    uint32_t levels;   /* H; 0 is a single accelerator */
    shoal_partition_mode mode;
    shoal_partition_method method;
    const char *given; /* GIVEN: a row of figure 5 per level, first cut first: "0011/0010/0000" */
} shoal_partition_desc;
#define SHOAL_PARTITION_DESC_INIT            \
    {                                        \
        .size = sizeof(shoal_partition_desc) \
    }

/**
 * Find a plan.
 * @param partition_out owned by the caller; shoal_partition_destroy.
 * @return SHOAL_OK | EINVAL (levels, batch, given; too many plans to try; counts beyond 2^62) |
 *         what shoal_model_open returns | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_create(const shoal_partition_desc *desc,
                                                             shoal_partition **partition_out);
/** Free a plan and every string got from it. NULL is allowed. */
SHOAL_API void shoal_partition_destroy(shoal_partition *partition);

/** A plan as a whole. */
typedef struct shoal_partition_info {
    size_t size;                         /* set to sizeof(shoal_partition_info) by the caller */
    const char *model;                   /* the spec */
    uint32_t batch, levels, layer_count; /* layers: those with weights */
    shoal_partition_mode mode;
    shoal_partition_method method;
    uint64_t elements;      /* by the mode's costs */
    uint64_t bias_elements; /* for summing the biases' gradients; FIGURE, TABLE2: not in elements */
    /* What `shoal train --plan` sends per step, whatever the mode: elements + bias_elements of mode
     * FIGURE, but sums of a model-parallel convolution travel before its pool, which is not
     * linear. */
    uint64_t executed_elements;
    /* Multiply-adds per sample as the paper's performance model has them: of a convolution, weights
     * times input pixels. */
    double macs;
    bool graph;          /* the model has branches, and was taken as the chain of its layers */
    const char *why_not; /* why the trainer cannot run this plan; NULL: it can */
} shoal_partition_info;
#define SHOAL_PARTITION_INFO_INIT            \
    {                                        \
        .size = sizeof(shoal_partition_info) \
    }
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_describe(const shoal_partition *partition,
                                                               shoal_partition_info *info_out);

/** One layer with weights. */
typedef struct shoal_partition_layer_info {
    size_t size;
    const char *name; /* "conv2" */
    const char *kind; /* "conv" */
    uint64_t weights; /* elements, without biases */
    uint64_t outputs; /* elements per sample that the next such layer reads: behind pools */
    uint32_t mask;    /* bit h - 1: model parallel at level h */
} shoal_partition_layer_info;
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_layer(const shoal_partition *partition,
                                                            uint32_t index,
                                                            shoal_partition_layer_info *info_out);

/**
 * What one pair of halves exchanges at a level; 2^(level - 1) pairs do so.
 * @param level        1 .. levels.
 * @param elements_out rounded up where a half is no whole number.
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_level(const shoal_partition *partition,
                                                            uint32_t level, uint64_t *elements_out);

/**
 * The paper's time of a step, in its unit "GB-equivalents": ratio * (16 / n) * (batch / 256) * GMAC
 * per sample + GB moved. A speed-up is a quotient of two.
 * @param macs  per sample; 0: the model's own (info.macs).
 * @param ratio what a GMAC costs against a GB on 16 accelerators; the figures have 2 / 7.
 */
SHOAL_API double shoal_partition_time(const shoal_partition *partition, double macs, double ratio);

/** Write the plan as a file; replaces an existing one in one step (rename). */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_save(const shoal_partition *partition,
                                                           const char *path);
/**
 * Read one. Its model is opened again, and must have the layers and weights that it had.
 * @return SHOAL_OK | ECORRUPT (file, where and why) | EIO | what shoal_model_open returns | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_partition_open(const char *path,
                                                           shoal_partition **partition_out);

/** Names for listings and files: "figure", "optimum"; NULL beyond the last. */
SHOAL_API const char *shoal_partition_mode_name(size_t mode);
SHOAL_API const char *shoal_partition_method_name(size_t method);

#ifdef __cplusplus
}
#endif
#endif
