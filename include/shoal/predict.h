/* SPDX-License-Identifier: Apache-2.0 */
/* Knowing beforehand: how long a training step takes on a cluster that is described in a file
 * (docs/cluster.md), and why. No training, no network, no clock: the same question always gets the
 * same answer.
 *
 *     shoal_predict_desc desc = SHOAL_PREDICT_DESC_INIT;
 *     shoal_prediction p = SHOAL_PREDICTION_INIT;
 *     desc.model = "vgg-a", desc.cluster = "two-racks.json", desc.batch = 32;
 *     shoal_predict(&desc, &p);
 *
 * docs/predict.md has the formulas, what they leave out, and the errors measured.
 *
 * Threads: calls are independent of each other. */
#ifndef SHOAL_PREDICT_H
#define SHOAL_PREDICT_H
/* Of libshoal_train: pkg-config shoal_train. */

#include "shoal/shoal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shoal_recompute {
    SHOAL_RECOMPUTE_NONE,
    SHOAL_RECOMPUTE_SELECTIVE, /* the core of attention */
    SHOAL_RECOMPUTE_FULL       /* all of a block from its input */
} shoal_recompute;

typedef enum shoal_objective {
    SHOAL_OBJECTIVE_TIME,  /* the fastest step */
    SHOAL_OBJECTIVE_COST,  /* the cheapest one: prices of its workers' accelerators x time */
    SHOAL_OBJECTIVE_ENERGY /* the one that takes least energy: their watts x time */
} shoal_objective;

/** What lies in the memory of the host meanwhile; may be added. */
enum {
    SHOAL_OFFLOAD_STATE = 1,      /* the optimiser's, which the update streams through */
    SHOAL_OFFLOAD_ACTIVATIONS = 2 /* away behind the forward pass, back ahead of the backward one */
};

/** What to predict. NULL and 0 mean the default in brackets. */
typedef struct shoal_predict_desc {
    size_t size;
    const char *model;   /* spec or file, as shoal_model_open takes it */
    const char *cluster; /* file */
    const char *plan;    /* [none] file of shoal_partition_save: predict `shoal train --plan`. It
                            says model, batch and workers; what else would say so, or split or
                            code otherwise, stays NULL and 0 */
    uint32_t workers;    /* [all of the cluster] the first so many */
    uint32_t tensor;     /* [1] workers that share each layer */
    uint32_t pipeline;   /* [1] stages; data parallelism is what is left */
    uint32_t batch;      /* [64] samples per replica and step: per worker when tensor = pipeline
                               = 1, as in shoal_train_desc */
    uint32_t microbatch; /* [the batch, with a pipeline 1] samples that run through at a time */
    uint32_t interleave; /* [1] chunks of the model per stage */
    shoal_recompute recompute;
    bool sequence;         /* sequence parallelism beside tensor parallelism */
    uint32_t zero;         /* [0] what the replicas share instead of each having it all: 1 optimiser
                               state, 2 gradients, too, 3 weights, too (FSDP) */
    uint32_t experts;      /* [1] replicas that share the experts of a mixture */
    uint32_t context;      /* [1] workers that share a sample's tokens; each has the keys and values
                              of all of them in turn (ring attention) */
    uint32_t offload;      /* [0] SHOAL_OFFLOAD_..: needs the accelerators' host_rate */
    bool flash;            /* attention that never writes its scores (FlashAttention) */
    bool no_head;          /* leave the scores of a language model out */
    bool no_scatter;       /* every one of the tensor group sends the whole boundary to the next
                               stage, instead of its part of it */
    bool no_overlap;       /* gradients are exchanged after the backward pass */
    double element_bytes;  /* [4; 2 for language models] of weights and activations */
    double state_bytes;    /* [4 for 4-byte elements, else 12] of optimiser state per parameter */
    double gradient_bytes; /* [4] of a gradient that is kept for the optimiser */
    const char *sync, *collective, *codec; /* ["all_reduce", "ring", "identity"] */
    size_t bucket_bytes;                   /* [4 MiB] */
    uint32_t chunk_elems;                  /* [65536] */
    shoal_objective objective;             /* of a search */
    /* a search proposes, besides what is named: */
    bool allow_lossy; /* codecs that lose something */
    bool allow_async; /* protocols other than all_reduce: staleness, rare exchanges */
} shoal_predict_desc;
#define SHOAL_PREDICT_DESC_INIT            \
    {                                      \
        .size = sizeof(shoal_predict_desc) \
    }

/** Seconds by cause; they add up to a whole. */
typedef struct shoal_causes {
    double matrix, vector, memory, network, fixed;
} shoal_causes;

/** The answer: seconds of one step, in parts that add up to iteration_s, and what is needed. */
typedef struct shoal_prediction {
    size_t size;
    double iteration_s;
    double low_s, high_s; /* two standard deviations of the calibration; from a data sheet: between
                               perfect and no overlap, of arithmetic with memory and of compute with
                               exchange */
    double samples_per_s;
    /* parts of iteration_s */
    double forward_s, backward_s, recompute_s, update_s;
    double tensor_s; /* exchange of tensor parallelism, or at a plan's borders between layers;
                        recomputation's apart: */
    double tensor_again_s;
    double experts_s;   /* tokens to their experts and back, recomputation's included */
    double context_s;   /* keys, values and their gradients from worker to worker that attention
                           does not hide */
    double offload_s;   /* to and from the host's memory that nothing hides */
    double pipeline_s;  /* from stage to stage */
    double exposed_s;   /* exchange of gradients, and of shared weights, that nothing hides; codec
                           included */
    double bubble_s;    /* stages that wait for the pipeline to fill and drain */
    double straggler_s; /* waiting for the slowest worker */
    double other_s;     /* measured per step: loop, data */
    /* not parts */
    double by_data_s;    /* with a plan: the step of the same batch by data parallelism alone */
    double hidden_s;     /* gradients' exchange behind the backward pass */
    double codec_s;      /* encode and decode of one worker, hidden or not */
    double sent_bytes;   /* gradients, by the busiest worker */
    shoal_causes causes; /* of iteration_s */
    /* of the worker that needs most; buffers: weights and gradients under way, tokens at experts */
    double weight_bytes, gradient_bytes, state_bytes, activation_bytes, buffer_bytes, memory_bytes;
    double capacity_bytes; /* of the accelerator; infinity: not said */
    double params;         /* of the model */
    double price;          /* of all workers' accelerators for an hour; 0: not said */
    double watts;          /* of all of them; 0: not said */
    uint32_t workers, data, tensor, pipeline, context;
    char bottleneck[160]; /* in words */
    /* with a protocol that does not sum all gradients in each step, else 0 */
    double all_reduce_s; /* the same step by all_reduce */
    double models_s;     /* with one over a graph: a model over each edge, on the busiest host's
                            link; hides where it is below the time that computing takes */
} shoal_prediction;
#define SHOAL_PREDICTION_INIT            \
    {                                    \
        .size = sizeof(shoal_prediction) \
    }

/**
 * Predict one configuration.
 * @return SHOAL_OK | EINVAL (what does not fit: sizes that do not divide, unknown specs) |
 *         ECORRUPT, EIO (files) | ENOTSUP (a protocol that cannot be costed) | ENOMEM.
 *         Too little memory is no error: see memory_bytes and capacity_bytes.
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_predict(const shoal_predict_desc *desc,
                                                    shoal_prediction *prediction_out);

/** How the answer changes with the cluster. Ratios are of throughput. */
typedef struct shoal_sensitivity {
    size_t size;
    double one_more;       /* one more host (or one more of the outermost dimension), same batch per
                              worker; by the throughput with today's number. A plan: NaN */
    double faster_link;    /* all links twice as fast */
    double faster_compute; /* accelerators twice as fast, memory too */
    /** d ln(time) / d ln(speed), by one per cent, negative: with link, compute, memory, latency */
    double elasticity_link, elasticity_compute, elasticity_memory, elasticity_latency;
    /** Factor on all links at which compute is 50, 75, 90 and 95 % of the step; infinity: no link
     *  is fast enough; 0: it is so with any */
    double link_for[4];
} shoal_sensitivity;
#define SHOAL_SENSITIVITY_INIT            \
    {                                     \
        .size = sizeof(shoal_sensitivity) \
    }
SHOAL_API SHOAL_MUST_USE shoal_status shoal_predict_sensitivity(const shoal_predict_desc *desc,
                                                                shoal_sensitivity *sensitivity_out);

/** One configuration of a search. */
typedef struct shoal_candidate {
    shoal_predict_desc desc; /* its strings live as long as the list */
    shoal_prediction prediction;
    char why[200]; /* it loses to the best: what costs how much more, or what does not fit */
    uint32_t ties; /* further configurations that take the same time, of which this one is shown */
} shoal_candidate;
typedef struct shoal_search shoal_search;
/**
 * The best configurations for desc's model, cluster and global batch (batch x replicas of desc):
 * workers, tensor and pipeline sizes, microbatch, chunks per stage, recomputation, ZeRO's stages,
 * collective, codec, protocol and bucket are tried; what desc names (not NULL, not 0) is kept.
 * Codecs that lose something and protocols that do not wait are tried only if desc allows them:
 * what they cost in steps is in no prediction. Configurations that computation alone makes worse
 * than all that are kept, and than one of the front, are not costed further; of those that take the
 * same time one is shown.
 * @param keep        candidates to keep, best first, 1 .. 100
 * @param search_out  owned by the caller; shoal_search_destroy
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_predict_search(const shoal_predict_desc *desc,
                                                           uint32_t keep,
                                                           shoal_search **search_out);
/**
 * The same, and tell how far it is: on this thread, of each set of sizes, chunks, recomputation and
 * ZeRO's stage that it has been through, how many those are and how many there are in all; when
 * all are, protocols and intervals of the best come last.
 * @param tell NULL: nobody
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_predict_search_watched(
    const shoal_predict_desc *desc, uint32_t keep,
    void (*tell)(void *ctx, double done, double total), void *ctx, shoal_search **search_out);
SHOAL_API void shoal_search_destroy(shoal_search *search);
/** Candidate i, best first; NULL at the end. */
SHOAL_API const shoal_candidate *shoal_search_at(const shoal_search *search, uint32_t i);
/** Candidate i of those that no other one beats in time, cost and memory at once, by 1 %, fastest
 * first; NULL at the end. Cost is price x time, or workers x time where no price is said. */
SHOAL_API const shoal_candidate *shoal_search_front(const shoal_search *search, uint32_t i);
/** Configurations looked at, and how many of them fit into memory. */
SHOAL_API uint64_t shoal_search_tried(const shoal_search *search, uint64_t *fit_out);
/** Further ones that a bound left out: no exchange would have made them one of the best. */
SHOAL_API uint64_t shoal_search_bounded(const shoal_search *search);

/* ---------------------------------------------------------------- calibration */

/** A cluster description in the making, from measurements of this machine. */
typedef struct shoal_calibration shoal_calibration;

typedef struct shoal_calibrate_desc {
    size_t size;
    const char *name;    /* ["measured"] of the cluster */
    const char *models;  /* [none] "lenet,mlp": whose training steps are timed */
    const char *batches; /* ["64"] "32,64": with these batches each */
    const char *codecs;  /* ["fp16,bf16"] separated by blanks or commas outside of specs' keys */
    double budget_s;     /* [0.05] of each measurement */
} shoal_calibrate_desc;
#define SHOAL_CALIBRATE_DESC_INIT            \
    {                                        \
        .size = sizeof(shoal_calibrate_desc) \
    }

/**
 * Measure this machine on the calling thread: matrix products by size, convolutions, element-wise
 * arithmetic, memory, codecs, training steps. Callers that run it in as many processes at once as
 * will compute at once get what a busy machine gives.
 * @param calibration_out owned by the caller; shoal_calibrate_close
 * @return SHOAL_OK | EINVAL (unknown model or codec) | ENOMEM
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_open(const shoal_calibrate_desc *desc,
                                                           shoal_calibration **calibration_out);
SHOAL_API void shoal_calibrate_close(shoal_calibration *calibration);

/** What the caller measured between ranks. Zero: leave out. */
typedef struct shoal_calibrate_network {
    size_t size;
    uint32_t hosts, cores;  /* of one worker each; cores that they share */
    double nic_bytes_per_s; /* as configured or said by the card; 0: from the slowest link */
    double payload_share;   /* of it that payload reached */
    double latency_s, operation_s, round_s, cpu_s_per_byte, spread;
} shoal_calibrate_network;
SHOAL_API SHOAL_MUST_USE shoal_status
shoal_calibrate_set_network(shoal_calibration *calibration, const shoal_calibrate_network *network);
/** One measured link between two hosts. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_add_link(shoal_calibration *calibration,
                                                               uint32_t from, uint32_t to,
                                                               double bytes_per_s, double latency_s,
                                                               double spread);
/** Write the cluster file. */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_save(const shoal_calibration *calibration,
                                                           const char *path);

/** FLOP/s of one fixed matrix product, in a few milliseconds: to notice that a machine drifts. */
SHOAL_API double shoal_calibrate_probe(void);

/** Factors on the times that a cluster's file gives: of matrix products; of vectors and memory; of
 *  the links inside hosts (every dimension but the last); of the links between them, latencies and
 *  starts included. 1: as the file says. */
typedef struct shoal_fit_factors {
    double matrix, memory, inside, network;
} shoal_fit_factors;

/** Measured steps, and the cluster whose file shall give them. */
typedef struct shoal_fit_desc {
    size_t size;
    const char *cluster;
    const shoal_predict_desc *rows; /* [count] what was measured; their cluster is not looked at */
    const double *seconds;          /* [count] a step of each */
    size_t count;
    double hold;   /* share of the rows, 0 .. 0.9, that are predicted only: the error where nothing
                      was fitted */
    uint64_t seed; /* which they are */
} shoal_fit_desc;
#define SHOAL_FIT_DESC_INIT            \
    {                                  \
        .size = sizeof(shoal_fit_desc) \
    }

/** What came out. Errors are relative, of the clusters that shoal_calibrate_apply writes. */
typedef struct shoal_fit {
    size_t size;
    shoal_fit_factors factors;
    /** Factors, in their order, that stand where the cluster's own rates end (the rows ask for more
     *  than the data sheet has), and factors that no row tells anything of, or of eight fitted rows
     *  and more at most one by 1 % of its step: 1. */
    bool at_bound[4], not_seen[4];
    uint32_t fitted, held;                     /* rows */
    double mean_error, worst_error, rms_error; /* of the rows that were fitted */
    double held_mean_error, held_worst_error, held_rms_error;
} shoal_fit;
#define SHOAL_FIT_INIT            \
    {                             \
        .size = sizeof(shoal_fit) \
    }

/**
 * Fit factors to measured steps: least squares of the relative errors of what shoal_predict says
 * on the changed cluster, within what the cluster's rates allow.
 * @param held_out NULL, or bool[count]: which rows were held out
 * @return SHOAL_OK | EINVAL (a row that cannot be predicted, rows that do not tell the causes
 *         apart) | what shoal_predict returns
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_fit(const shoal_fit_desc *desc,
                                                          shoal_fit *fit_out, bool *held_out);
/**
 * The spread from which shoal_predict's interval holds nine of ten further steps like these. Each
 * row is predicted once from a fit to others (four parts, of few rows each alone), and its score is
 * the spread that just reaches what was measured; of many scores it is the one below which nine of
 * ten further ones lie, at odds of two to one (a tolerance limit by order statistics), of eight and
 * fewer their root mean square by Student's t. No row that is to be judged is looked at.
 * @param desc as for the fit; `hold` is not asked, `seed` deals the parts
 * @param spread_out NaN: no part leaves rows that tell the causes apart
 * @return SHOAL_OK | EINVAL | ENOMEM | what shoal_predict returns
 */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_spread(const shoal_fit_desc *desc,
                                                             double *spread_out);
/** Write a cluster file anew with these factors in its efficiencies and rates.
 *  @return SHOAL_OK | EINVAL (rates beyond those of the cluster) | EIO | ECORRUPT | ENOMEM */
SHOAL_API SHOAL_MUST_USE shoal_status shoal_calibrate_apply(const char *cluster,
                                                            const shoal_fit_factors *factors,
                                                            double spread, const char *path);

#ifdef __cplusplus
}
#endif
#endif
