/* SPDX-License-Identifier: Apache-2.0 */
/* One transformer block, operation by operation, under tensor parallelism: what it computes, moves
 * and keeps. Operations and their bytes are those that Calculon counts (docs/predict.md), so that
 * its table gives its times. */
#ifndef SHOALI_PLAN_TRANSFORMER_H
#define SHOALI_PLAN_TRANSFORMER_H

#include "plan/cost.h"

/** A decoder, dense or with mixtures of experts. */
typedef struct shoali_transformer {
    double hidden, heads, kv_heads, head_dim, sequence;
    double value_dim;                 /* head_dim, or another one with latent attention: */
    double query_rank, kv_rank, rope; /* docs/model-files.md; kv_rank 0: none */
    double norms;                     /* per block */
    double feedforward; /* of the experts that a token meets, shared ones too, together */
    double experts;     /* that a router chooses among; 0: dense */
    double routed;      /* feed-forward width of one of them */
    double met;         /* of them by a token; all are kept and have gradients */
    double vocab;       /* 0: no embedding, no scores */
    bool gated;         /* three feed-forward matrices instead of two */
} shoali_transformer;

typedef enum {
    SHOALI_RECOMPUTE_NONE,
    SHOALI_RECOMPUTE_SELECTIVE,
    SHOALI_RECOMPUTE_FULL
} shoali_recompute;

/** How a block is cut. */
typedef struct shoali_block_args {
    double microbatch; /* samples */
    uint32_t tensor;   /* workers that share a block */
    bool sequence;     /* sequence parallelism: reduce-scatter and all-gather, not all-reduce */
    shoali_recompute recompute;
    double element_bytes; /* 2: half precision */
    bool state_sharded;   /* optimiser state over `data` workers */
    uint32_t data;        /* workers that have the same weights */
    uint32_t experts;     /* replicas that share a mixture's experts; 0: 1 */
    uint32_t context;     /* workers that share a sample's tokens; 0: 1 */
    bool flash;
    bool no_overlap; /* keys and values travel while nothing computes */
} shoali_block_args;

/** Of one block and microbatch on one worker; update is per step. */
typedef struct shoali_block_cost {
    shoali_time forward, recompute, backward, update;
    shoali_time exchange, exchange_again; /* tensor parallelism: first time, and in recomputation */
    shoali_time dispatch, dispatch_again; /* tokens to experts elsewhere, and back: the same */
    shoali_time context, context_back, context_again; /* keys and values, where nothing hides it:
                                                         forward, backward, recomputed */
    shoali_time offload;   /* kept_bytes to the host and back, where passes do not hide it */
    double params;         /* of this worker's part */
    double expert_params;  /* of them: experts', which fewer replicas have */
    double boundary_bytes; /* what goes on to the next stage */
    double kept_bytes;     /* activations kept for the backward pass */
    double working_bytes;  /* while one block runs */
    double dispatch_bytes; /* tokens under way */
    double context_bytes;  /* keys, values and their gradients under way */
    /* what the exchanges of tensor parallelism sum or scatter and gather, in bytes of all-reduces:
       forward, on the way back, and in recomputation */
    double summed_bytes, summed_back_bytes, summed_again_bytes;
} shoali_block_cost;

shoali_block_cost shoali_transformer_block(const shoali_cluster *cluster,
                                           const shoali_accelerator *accelerator,
                                           const shoali_transformer *model,
                                           const shoali_block_args *args);

/** The scores of the last stage: hidden to vocabulary and the loss. */
shoali_block_cost shoali_transformer_head(const shoali_accelerator *accelerator,
                                          const shoali_transformer *model,
                                          const shoali_block_args *args);

#endif
