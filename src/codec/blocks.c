/* SPDX-License-Identifier: Apache-2.0 */
/* blocks: of a gradient's blocks a few travel whole, all others are zero and wait. A transform of
 * one round, which sums what is left: by omnireduce zero blocks cost nothing, so that a dense model
 * gains from it; elsewhere the round travels as `threshold`, which leaves zeros out hop by hop.
 *
 *     x = gradient + residual
 *     chosen blocks   travel, residual 0
 *     all others      0 in the sum, residual x
 *
 * Delivered + residuals = the sum of all gradients, to the last rounding of x. Blocks are counted
 * from the operation's first element, as omnireduce counts its own.
 *
 * pick=top     the k of a rank's blocks that have the largest norms: |x - C(x)|^2 <= (1 - k) |x|^2
 * pick=random  k of all, the same on every rank, others each time: the same bound on average
 * above=a      instead those whose root mean square exceeds a
 *
 * Blocks that are not finite always travel (their rank will be named), as do those that hold an
 * element of a tensor that goes as it is (RAW). Equal norms: the first.
 *
 * State, floats: how often it was used, modulo 2^24; each block's norm; residuals. Zero at first.
 * Cost: three passes over the gradient, a radix selection over the norms. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "codec/noise.h"
#include "codec/scaled.h"
#include "codec/sparse.h"
#include "kernel/kernel.h"

enum { PICK_TOP, PICK_RANDOM };
enum { INFINITE = 0x7f800000, DIGIT = 8, DIGITS = 1 << DIGIT, TIMES = 1 << 24 };

typedef struct blocks_params {
    int32_t block, pick;
    double k, above;
} blocks_params;

static const double k_default = 0.01;

static const shoali_key keys[] = {
    {"block", SHOALI_KEY_CHOICE, offsetof(blocks_params, block), 0, 0, "32|64|128|256|512|1024",
     "256", "elements of a block; take the same for omnireduce"},
    {"pick", SHOALI_KEY_CHOICE, offsetof(blocks_params, pick), 0, 0, "top|random", "top",
     "which travel: those of largest norm, or drawn alike on all ranks"},
    {"k", SHOALI_KEY_FLOAT, offsetof(blocks_params, k), 1e-6, 1, NULL, "0.01",
     "share of a rank's blocks that travels, at least one"},
    {"above", SHOALI_KEY_FLOAT, offsetof(blocks_params, above), 0, 1e30, NULL, "0",
     "instead of a share: the root mean square that a block must exceed; 0: off"},
};

static shoal_status check(void *params)
{
    const blocks_params *p = params;
    if (p->above > 0 && (p->k != k_default || p->pick != PICK_TOP))
        return shoali_fail(SHOAL_EINVAL, "blocks:above takes the blocks that exceed it, not a "
                                         "share: leave k and pick out");
    return SHOAL_OK;
}

static uint16_t wire_id(const void *params)
{
    (void)params;
    return 64;
}

/* Sums of several ranks' own choices: as if each had drawn. */
static double rate(const void *params, uint32_t parts)
{
    const blocks_params *p = params;
    if (p->above > 0)
        return sizeof(float);
    return sizeof(float) * (p->pick == PICK_RANDOM ? p->k : 1 - pow(1 - p->k, parts));
}

/* ---------------------------------------------------------------- the operation's blocks */

typedef struct cut {
    size_t count, block, blocks;
} cut;

static cut cut_of(const blocks_params *p, const shoal_tensor *tensors, uint32_t tensor_count)
{
    cut c = {.block = shoali_scaled_block(p->block)};
    if (tensor_count > 0)
        c.count = tensors[tensor_count - 1].offset + tensors[tensor_count - 1].count;
    c.blocks = c.count / c.block + (c.count % c.block != 0);
    return c;
}

static size_t length_of(const cut *c, size_t b)
{
    const size_t left = c->count - b * c->block;
    return left < c->block ? left : c->block;
}

static size_t state_size(const void *params, const shoal_tensor *tensors, uint32_t tensor_count)
{
    const cut c = cut_of(params, tensors, tensor_count);
    return (1 + c.blocks + c.count) * sizeof(float);
}

/* The sum of squares, in one order on every machine. */
static float norm2(const float *x, size_t n)
{
    enum { LANES = 8 };
    float sums[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sums[j] += x[i + j] * x[i + j];
    for (; i < n; i++)
        sums[i % LANES] += x[i] * x[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* The residual becomes x. Norms as bits, which order as they do; what must travel is infinite. */
static void weigh(const cut *c, const float *grad, float *x, uint32_t *norms)
{
    for (size_t b = 0; b < c->blocks; b++) {
        const size_t n = length_of(c, b), first = b * c->block;
        shoali_kernel()->add(x + first, grad + first, n);
        const float norm = norm2(x + first, n);
        memcpy(&norms[b], &norm, sizeof norm);
        if (norms[b] > INFINITE)
            norms[b] = INFINITE;
        else if (norms[b] == 0 && shoali_kernel()->absmax(x + first, n) > 0)
            norms[b] = 1; /* squares too small for a float */
    }
}

static void mark_raw(const cut *c, const shoal_tensor *tensors, uint32_t tensor_count,
                     uint32_t *norms)
{
    for (uint32_t t = 0; t < tensor_count; t++) {
        const size_t end = tensors[t].offset + tensors[t].count;
        if ((tensors[t].flags & SHOAL_TENSOR_RAW) == 0)
            continue;
        for (size_t b = tensors[t].offset / c->block; b * c->block < end; b++)
            norms[b] = INFINITE;
    }
}

/* ---------------------------------------------------------------- the choice */

/* Norms below `least` wait; of those that equal it the first `equal` travel. */
typedef struct limit {
    uint32_t least;
    size_t equal;
} limit;

/* Of the k largest finite norms, digit by digit from the top. */
static limit limit_of(const uint32_t *norms, size_t blocks, size_t k)
{
    uint32_t prefix = 0;
    for (unsigned shift = 32; shift > 0;) {
        size_t counts[DIGITS] = {0};
        uint32_t d = DIGITS - 1;
        shift -= DIGIT;
        for (size_t b = 0; b < blocks; b++)
            if (norms[b] < INFINITE && (uint64_t)norms[b] >> (shift + DIGIT) == prefix)
                counts[norms[b] >> shift & (DIGITS - 1)]++;
        for (; d > 0 && counts[d] < k; d--)
            k -= counts[d];
        prefix = prefix << DIGIT | d;
    }
    return (limit){prefix, k};
}

static void pick_top(const blocks_params *p, const cut *c, uint32_t *norms)
{
    limit at = limit_of(norms, c->blocks, shoali_sparse_count(p->k, c->blocks));
    for (size_t b = 0; b < c->blocks; b++) {
        const bool equal = norms[b] == at.least;
        if (norms[b] == INFINITE || norms[b] > at.least || (equal && at.equal > 0))
            at.equal -= equal;
        else
            norms[b] = 0;
    }
}

/* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S): every block
 * with the same chance. All ranks have used it as often, and draw alike. */
static void pick_random(const blocks_params *p, const cut *c, uint64_t key, float times,
                        uint32_t *norms)
{
    const shoali_noise noise = shoali_noise_key(key, 64, (uint64_t)times);
    size_t wanted = shoali_sparse_count(p->k, c->blocks);
    for (size_t b = 0; b < c->blocks; b++) {
        const uint64_t left = c->blocks - b;
        const bool drawn = (uint64_t)shoali_noise_at(noise, (uint32_t)b) * left >> 32 < wanted;
        wanted -= drawn;
        if (!drawn && norms[b] != INFINITE)
            norms[b] = 0;
    }
}

static void pick_above(const blocks_params *p, const cut *c, uint32_t *norms)
{
    for (size_t b = 0; b < c->blocks; b++) {
        float norm;
        memcpy(&norm, &norms[b], sizeof norm);
        if (norms[b] < INFINITE && (double)norm <= p->above * p->above * (double)length_of(c, b))
            norms[b] = 0;
    }
}

static void pick(const blocks_params *p, const cut *c, uint64_t key, float times, uint32_t *norms)
{
    if (p->above > 0)
        pick_above(p, c, norms);
    else if (p->pick == PICK_TOP)
        pick_top(p, c, norms);
    else
        pick_random(p, c, key, times, norms);
}

static void move(const cut *c, const uint32_t *norms, float *grad, float *x)
{
    for (size_t b = 0; b < c->blocks; b++) {
        const size_t n = length_of(c, b), first = b * c->block;
        if (norms[b] == 0) {
            memset(grad + first, 0, n * sizeof *grad);
            continue;
        }
        shoali_kernel()->copy(grad + first, x + first, n);
        memset(x + first, 0, n * sizeof *x);
    }
}

/* Zeros of a ring's blocks need not begin where ours do: finer ones find most of them. */
static const char *codec_of(const cut *c)
{
    return c->block == 1024  ? "threshold:block=128,ef=off"
           : c->block == 512 ? "threshold:block=64,ef=off"
                             : "threshold:block=32,ef=off";
}

static shoal_status next_round(const void *params, void *state, const shoal_tensor *tensors,
                               uint32_t tensor_count, uint32_t index, float *grad,
                               shoal_round *round_out)
{
    const blocks_params *p = params;
    const cut c = cut_of(p, tensors, tensor_count);
    float *times = state, *x = times + 1 + c.blocks;
    uint32_t *norms = (uint32_t *)(times + 1);
    (void)index;
    *round_out = (shoal_round){.buf = grad, .count = c.count, .codec = codec_of(&c), .last = true};
    if (c.count == 0)
        return SHOAL_OK;
    weigh(&c, grad, x, norms);
    mark_raw(&c, tensors, tensor_count, norms);
    pick(p, &c, tensors[0].key, *times, norms);
    move(&c, norms, grad, x);
    *times = *times + 1 < TIMES ? *times + 1 : 0;
    return SHOAL_OK;
}

const shoali_codec_row shoali_codec_blocks = {
    .name = "blocks",
    .paper = "block-based sparsification of Fei et al., \"Efficient Sparse Collective "
             "Communication\" (OmniReduce), SIGCOMM 2021, with error feedback; without their "
             "choice by update ratio, and a threshold on the root mean square",
    .traits = SHOAL_CODEC_TRANSFORM,
    .bytes_per_elem = 0.04F,
    .schema = {keys, sizeof keys / sizeof *keys, sizeof(blocks_params)},
    .check = check,
    .wire_id = wire_id,
    .rate = rate,
    .state_size = state_size,
    .next_round = next_round,
};
