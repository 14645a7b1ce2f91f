/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the kinds of layers (integers are int64_t: that is what the spec parser writes), and what
 * they mean where they leave something unsaid. */
#ifndef SHOALI_MODEL_LAYER_PARAMS_H
#define SHOALI_MODEL_LAYER_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

struct shoali_layer;

typedef enum { SHOALI_FLOAT32, SHOALI_BF16 } shoali_precision; /* key precision */

typedef struct shoali_dense_params {
    int64_t out;
    bool bias;
    int32_t precision;
} shoali_dense_params;
typedef struct shoali_conv_params {
    int64_t out, kernel, stride, pad, groups;
    bool bias;
    int32_t precision;
} shoali_conv_params;
typedef struct shoali_pool_params {
    int64_t kernel, stride; /* stride 0: kernel */
    bool ceil;        /* a last, partial window counts (Caffe, TensorFlow's SAME for even sizes) */
    int64_t pad;      /* pixels outside the image never win */
    bool include_pad; /* of avgpool: they count, as zeros */
} shoali_pool_params;
typedef struct shoali_dropout_params {
    double rate;
} shoali_dropout_params;
typedef struct shoali_batchnorm_params {
    double momentum, eps;
} shoali_batchnorm_params;

typedef struct shoali_onehot_params {
    int64_t classes;
} shoali_onehot_params;
typedef struct shoali_framewise_params {
    int64_t out, k;
    bool bias, tied; /* tied: by the table of the lookup */
    int32_t precision;
} shoali_framewise_params;
typedef enum { SHOALI_FORWARD, SHOALI_BACKWARD, SHOALI_BOTH } shoali_direction;
typedef enum { SHOALI_MERGE_SUM, SHOALI_MERGE_CONCAT } shoali_merge;
typedef struct shoali_recurrent_params { /* lstm, gru */
    int64_t out, proj, k, kx, kr, ky;    /* k of a matrix 0: k; proj 0: none */
    int32_t direction, merge, gate;
    bool peephole;
} shoali_recurrent_params;
static inline uint32_t shoali_block_of(int64_t own, int64_t usual)
{
    return (uint32_t)(own > 0 ? own : usual);
}
typedef struct shoali_circulant_params {
    int64_t out, block;
    bool bias;
} shoali_circulant_params;
typedef struct shoali_circulant_conv_params {
    shoali_conv_params conv; /* first: a convolution executes it; groups is 0 */
    int64_t block;
} shoali_circulant_conv_params;

typedef struct shoali_branch_params {
    int64_t back; /* of branch and add: whose output, counted backwards */
} shoali_branch_params;
typedef struct shoali_concat_params {
    char back[SHOALI_KEY_TEXT_BYTES]; /* "3/7": whose outputs are put in front */
} shoali_concat_params;
typedef struct shoali_lrn_params {
    int64_t size;
    double alpha, beta, k;
} shoali_lrn_params;
typedef struct shoali_lookup_params {
    int64_t vocab, width;
    bool frames;       /* ids are frames of a sequence, whose rows stay apart */
    int64_t positions; /* rows that are added by a frame's place; 0: none */
    int64_t types;     /* rows that are added by a frame's segment, id / vocab; 0: none */
    double std;        /* of the first values; 0: as infer says */
} shoali_lookup_params;
typedef struct shoali_sparse_params {
    int64_t vocab, out;
    bool bias;
} shoali_sparse_params;
typedef struct shoali_rmsnorm_params {
    double eps;
} shoali_rmsnorm_params;
typedef struct shoali_attention_params {
    int64_t heads, kv, dim; /* kv 0: heads; dim 0: width / heads */
    bool causal, rope, bias;
    double theta;
    double drop; /* share of weights that training leaves out */
    int32_t precision;
} shoali_attention_params;
typedef enum { SHOALI_POOL_FIRST, SHOALI_POOL_MEAN } shoali_frame_pool;
typedef struct shoali_framepool_params {
    int32_t by; /* shoali_frame_pool */
} shoali_framepool_params;
typedef enum { SHOALI_DOTS_PAIRS, SHOALI_DOTS_VALUES } shoali_dots;
typedef struct shoali_dots_params {
    int64_t width, keep; /* of a vector; how many stand in front of the products */
    int32_t by;          /* shoali_dots */
} shoali_dots_params;
typedef struct shoali_masked_params {
    int64_t mask; /* the token that hides others; -1: the last */
    double rate;
} shoali_masked_params;
typedef struct shoali_gelu_params {
    bool tanh; /* by the approximation that GPT-2 was trained with */
} shoali_gelu_params;
/** The same with what the keys leave unsaid. */
typedef struct shoali_attention_sizes {
    uint32_t heads, kv, dim, width, frames;
} shoali_attention_sizes;
shoali_attention_sizes shoali_attention_sizes_of(const struct shoali_layer *layer);
typedef struct shoali_swiglu_params {
    int64_t ff;
    int32_t precision;
} shoali_swiglu_params;
typedef struct shoali_embedding_params {
    int64_t vocab, width, positions, types;
    bool norm;   /* one of the sums, with scales and shifts */
    double eps;  /* of the norm */
    double drop; /* share of what comes out that training leaves out */
} shoali_embedding_params;
typedef struct shoali_transformer_params {
    int64_t heads, kv, dim, ff, experts, active; /* kv 0: heads; dim 0: width / heads */
    int64_t shared;                              /* width of the experts that every token meets */
    int64_t qrank, kvrank, rope, vdim;           /* latent attention; kvrank 0: none */
    int64_t norms, qkvbias; /* qkvbias 1: on queries, keys, values; 2: and out */
    bool gated, bias, headnorm, balanced;
    bool encoder; /* all tokens see each other, and norms stand behind the sums */
    bool other;   /* something that only who runs it needs to know, and that nothing here runs */
    double theta, eps;    /* of rope and of norms: planners need neither */
    double drop, attdrop; /* shares that training leaves out: of what both parts give, of weights */
} shoali_transformer_params;
/** What a transformer consists of, in elements; all of one block of this width. */
typedef struct shoali_transformer_sizes {
    double heads, kv, dim;            /* dim: of queries and keys, without what is rotated apart */
    double value_dim;                 /* of values */
    double attention, expert, shared; /* matrices; of one expert */
    double router, vectors;           /* vectors: biases and norms */
    double score_width;               /* multiplied per pair of tokens: all heads, both products */
} shoali_transformer_sizes;
shoali_transformer_sizes shoali_transformer_sizes_of(const shoali_transformer_params *params,
                                                     double width);
typedef struct shoali_linear_params {
    int64_t out;
    bool tied, bias;
} shoali_linear_params;
typedef struct shoali_product_params {
    int64_t out, inner, back;
} shoali_product_params;
typedef struct shoali_layernorm_params {
    bool bias;
    double eps;
} shoali_layernorm_params;
typedef struct shoali_positions_params {
    int64_t rows;
} shoali_positions_params;
typedef struct shoali_view_params {
    int64_t width, length;
} shoali_view_params;
typedef struct shoali_unembedding_params {
    int64_t vocab, norm;
    bool tied, bias, transform; /* transform: a product and gelu before the norm */
    double eps;                 /* of the norm */
} shoali_unembedding_params;

#endif
