/* SPDX-License-Identifier: Apache-2.0 */
/* Inside a prediction: an opened question, the stages it becomes, and the exchange of gradients
 * behind the backward pass. */
#ifndef SHOALI_PLAN_PREDICT_H
#define SHOALI_PLAN_PREDICT_H

#include "model/model.h"
#include "plan/partition.h"
#include "plan/pipeline.h"
#include "plan/transformer.h"
#include "shoal/codec.h"
#include "shoal/predict.h"

/** A question with everything opened and every default filled in. */
typedef struct shoali_question {
    shoal_predict_desc desc;
    shoal_model *model;
    shoali_cluster *cluster;
    shoali_collective collective;
    shoal_codec *codec;
    shoal_partition *plan; /* NULL: none */
    uint32_t data;         /* replicas that have samples of their own */
    uint32_t replicas;     /* that have the same weights: data x context */
    bool language;         /* the model's blocks are transformers */
    uint32_t blocks;
    shoali_transformer transformer; /* the last block, and the scores */
    shoali_block_args args;
    bool perfect_overlap;     /* of the exchange with the backward pass: for the interval */
    bool bound;               /* gradients go nowhere, pipelines never wait in vain: for searches */
    struct shoali_memo *memo; /* of exchanges, shared by the questions of a search; NULL: none */
    bool borrowed;            /* model, cluster and memo are another question's */
} shoali_question;
/** What the cluster of a question is changed by, for intervals and sensitivities: factors on
 * speeds, one on latencies, hosts to add. */
typedef struct shoali_scale {
    double compute, memory, link, latency;
    uint32_t more_hosts; /* like the last one; or more of the outermost dimension */
} shoali_scale;
#define SHOALI_SCALE_NONE \
    {                     \
        1, 1, 1, 1, 0     \
    }
SHOAL_MUST_USE shoal_status shoali_question_open(const shoal_predict_desc *desc,
                                                 const shoali_scale *scale,
                                                 shoali_question *question_out);
/** The same with the first host's accelerator on another network, whose exchanges take no time: for
 * what is computed and how much is exchanged. */
SHOAL_MUST_USE shoal_status shoali_question_compute(const shoal_predict_desc *desc,
                                                    const shoali_dimension *dimensions,
                                                    uint32_t dimension_count,
                                                    shoali_question *question_out);
/** Another question about the same model and cluster, which `base` keeps; closed before it.
 * @return as shoali_question_open */
SHOAL_MUST_USE shoal_status shoali_question_again(const shoali_question *base,
                                                  const shoal_predict_desc *desc,
                                                  shoali_question *question_out);
/** Remember what exchanges cost from now on, in arena. */
SHOAL_MUST_USE shoal_status shoali_question_remember(shoali_question *question, shoal_arena *arena);
void shoali_question_close(shoali_question *question);
/** A layer that is a transformer, as one is costed; without scores. */
shoali_transformer shoali_question_block(const shoali_layer *layer);
/** Answer it; the interval is left out. */
SHOAL_MUST_USE shoal_status shoali_question_answer(const shoali_question *question,
                                                   shoal_prediction *out);
/** The same with its interval. */
SHOAL_MUST_USE shoal_status shoali_question_predict(const shoali_question *question,
                                                    shoal_prediction *out);

/** A layer, or a block: what one worker of its tensor group does with one microbatch. */
typedef struct shoali_unit {
    shoali_block_cost cost;
    uint64_t param_offset; /* of the model's arena; described models: counted the same way */
} shoali_unit;

/** A layer of any kind that is no transformer. */
shoali_block_cost shoali_layer_cost(const shoali_cluster *cluster,
                                    const shoali_accelerator *accelerator,
                                    const shoali_layer *layer, const shoali_block_args *args);

/* ---------------------------------------------------------------- stages */

/** What one stage of a pipeline does with one microbatch, by part. */
typedef struct shoali_stage {
    shoali_time forward, recompute, backward, exchange, again, dispatch, dispatch_again, update;
    shoali_time offload; /* of activations */
    shoali_time context; /* all of it, as forward, recompute and backward need it */
    double params, expert_params, largest_unit, largest_kept, kept_bytes, working_bytes,
        boundary_bytes;
    double dispatch_bytes, context_bytes;
    uint32_t first, count; /* units */
} shoali_stage;

/** A question being answered: its units in the order of the stages. */
typedef struct shoali_work {
    const shoali_question *q;
    shoal_arena *arena;
    const shoali_accelerator *accelerator;
    shoali_unit *units;
    shoali_stage *stages;
    uint32_t *chunk_counts; /* units of each chunk, in the order of the model */
    uint32_t unit_count, stage_count, busiest;
} shoali_work;
/** Fill all but the first three. */
SHOAL_MUST_USE shoal_status shoali_work_stages(shoali_work *work);
shoali_time shoali_stage_time(const shoali_stage *stage);
/** One microbatch through one unit, with what it sends. */
double shoali_unit_forward_s(const shoali_block_cost *cost);
double shoali_unit_backward_s(const shoali_block_cost *cost);
/** All microbatches through all stages; a pass of a chunk sends for hop_s. */
SHOAL_MUST_USE shoal_status shoali_work_pipeline(const shoali_work *work, double hop_s,
                                                 double *seconds_out);
/** Seconds of one microbatch on the busiest stage, by worker, each on its own accelerator with
 * nothing that slows it down; NULL: no memory. */
double *shoali_work_times(const shoali_work *work);
/** The slowest worker's time by the fastest's. Time of random stragglers enters as the expected
 * slowdown of the worst of all workers. */
double shoali_work_spread(const shoali_question *question, const double *times);

/** Replace the exchange of an all-reduce in a prediction by that of the question's protocol among
 * equal workers, and the wait for the slowest one by what a step takes longer with those there are.
 * @param pass_s [workers] of each one's forward and backward pass, were nothing slowing it down
 * @param arena for what is needed meanwhile */
SHOAL_MUST_USE shoal_status shoali_predict_protocol(const shoali_question *question,
                                                    const double *pass_s, shoal_arena *arena,
                                                    shoal_prediction *prediction);

/** Turn the prediction of data parallelism into that of the question's plan, interval and sum left
 * out. *arena for what is needed meanwhile. */
SHOAL_MUST_USE shoal_status shoali_predict_planned(const shoali_question *question,
                                                   const shoali_accelerator *accelerator,
                                                   shoal_arena *arena,
                                                   shoal_prediction *prediction);

/* ---------------------------------------------------------------- gradients */

/** One bucket's exchange. */
typedef struct shoali_bucket_time {
    double ready_s; /* in time of the backward pass running alone */
    double link_s;  /* on the busiest link */
    double cpu_s;   /* of one worker: moving, coding, adding */
    double wait_s;  /* latencies and starts: neither link nor processor is busy */
    double codec_s; /* part of cpu_s */
    double sent_bytes;
} shoali_bucket_time;

/** What the exchange adds. */
typedef struct shoali_overlap {
    double finish_s;  /* when compute and exchange are through */
    double exposed_s; /* finish - compute alone */
    double hidden_s;  /* exchange - exposed */
} shoali_overlap;
/**
 * Buckets go one by one in the order given, each once it is ready and the one before is through.
 * Compute of compute_s and the exchange's processor time share `cores` processors (infinity: the
 * exchange costs the computation nothing but busy_share).
 */
shoali_overlap shoali_overlap_run(const shoali_bucket_time *buckets, uint32_t count,
                                  double compute_s, double cores, double busy_share);

/** What one exchange among replicas costs: of what all of them have, and of experts, which only
 * data / experts replicas have. With ZeRO it leaves each replica its part: half an all-reduce. */
typedef struct shoali_replicas {
    shoali_collective_cost all, experts;
} shoali_replicas;
SHOAL_MUST_USE shoal_status shoali_replicas_cost(const shoali_question *question,
                                                 shoali_replicas *out);
/** Exchange the gradients of so many parameters, experts' apart; or, with ZeRO, gather them. */
shoali_bucket_time shoali_replicas_exchange(const shoali_question *question,
                                            const shoali_replicas *replicas, double params,
                                            double expert_params);

/** What sharing between replicas does to the gradients' exchange that is in `prediction` (ZeRO 1
 * and 2: weights are gathered behind the update, gradients scattered for each microbatch), or
 * instead of it (ZeRO 3). */
SHOAL_MUST_USE shoal_status shoali_zero_exchange(const shoali_work *work, const shoali_stage *stage,
                                                 shoal_prediction *prediction);

/** What the optimiser's state of a stage takes on its way from the host and back. */
double shoali_offload_state_s(const shoali_work *work, const shoali_stage *stage);

/** The parts of memory of the stage that needs most. */
void shoali_memory_fill(const shoali_work *work, shoal_prediction *out);

/** All buckets of a question's gradients, back to front, with ready_s from the units' backward
 * passes. *out is in arena. */
SHOAL_MUST_USE shoal_status shoali_gradient_buckets(const shoali_question *question,
                                                    const shoali_unit *units, uint32_t count,
                                                    double forward_s, double backward_s,
                                                    shoal_arena *arena, shoali_bucket_time **out,
                                                    uint32_t *count_out);
#endif
