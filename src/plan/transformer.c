/* SPDX-License-Identifier: Apache-2.0 */
/* Sources. Activations: Korthikanti et al., "Reducing activation recomputation in large transformer
 * models", MLSys 2023 (arXiv 2205.05198), tables 1 and 2: 34 s b h + 5 a s^2 b, by parts under
 * tensor and sequence parallelism. Attention without scores: Dao et al., "FlashAttention", NeurIPS
 * 2022 (arXiv 2205.14135): theorem 2, s^2 d^2 / M accesses beside the tensors themselves; algorithm
 * 4, five products on the way back; a float per row is kept. Experts: Lepikhin et al., "GShard",
 * 2020: an all-to-all before and behind them. Tokens of a sample on several workers: Liu et al.,
 * "Ring attention with blockwise transformers for near-infinite context", 2023 (arXiv
 * 2310.01889). */
#include "plan/transformer.h"

#include <math.h>

/* What an operation's outputs cost to keep: computed again always (full), only where it is cheap
 * and large (selective: the core of attention), or never again. */
enum { AGAIN_FULL = 1, AGAIN_SELECTIVE = 2 };

/* Dao et al., section 2.1: on-chip memory of one multiprocessor of an A100. */
#define FLASH_CHIP_BYTES (192.0 * 1024)

/* A block under construction. */
typedef struct builder {
    const shoali_accelerator *accelerator;
    const shoali_block_args *args;
    double hidden;
    shoali_block_cost cost;
} builder;

static void run(builder *b, shoali_time *to, const char *kind, double flops, double elements,
                double bytes)
{
    shoali_time time = shoali_cost_work(b->accelerator, kind, flops,
                                        elements * b->args->element_bytes + bytes);
    *to = shoali_time_add(*to, 1, time);
}

static bool again(const builder *b, int when)
{
    return b->args->recompute == SHOALI_RECOMPUTE_FULL ||
           (b->args->recompute == SHOALI_RECOMPUTE_SELECTIVE && when == AGAIN_SELECTIVE);
}

static void forward(builder *b, int when, const char *kind, double flops, double elements,
                    double bytes)
{
    run(b, &b->cost.forward, kind, flops, elements, bytes);
    if (again(b, when))
        run(b, &b->cost.recompute, kind, flops, elements, bytes);
}

/* Adam: 11 operations per parameter; two moments and a master copy move. */
static void weights_of(builder *b, double count, double replicas)
{
    double own = count / (b->args->state_sharded ? replicas : 1);
    double master = b->args->element_bytes < 4 ? 4 : 0;
    b->cost.params += count;
    b->cost.update = shoali_time_add(
        b->cost.update, 1,
        shoali_cost_work(b->accelerator, "vector", 11 * own, own * (8 + master)));
}

static void weights(builder *b, double count)
{
    weights_of(b, count, b->args->data);
}

static void product(builder *b, double rows, double in, double out)
{
    double flops = 2 * rows * in * out, moved = rows * in + rows * out + in * out;
    forward(b, AGAIN_FULL, "matrix", flops, moved, 0);
    run(b, &b->cost.backward, "matrix", flops, moved, 0);
    run(b, &b->cost.backward, "matrix", flops, moved, 0);
}

static void linear(builder *b, double rows, double in, double out)
{
    product(b, rows, in, out);
    weights(b, in * out);
}

static void batched(builder *b, int when, double batch, double rows, double inner, double cols)
{
    double flops = 2 * batch * rows * inner * cols;
    double moved = batch * (rows * inner + inner * cols + rows * cols);
    forward(b, when, "matrix", flops, moved, 0);
    run(b, &b->cost.backward, "matrix", 2 * flops, moved, 0);
}

static void norm(builder *b, double count)
{
    double hidden_twice = 2 * b->hidden; /* scale and shift */
    forward(b, AGAIN_FULL, "vector", 9 * count, 2 * count + hidden_twice, 0);
    run(b, &b->cost.backward, "vector", 14 * count, 2 * count + hidden_twice, 0);
    run(b, &b->cost.backward, "vector", 7 * count, 2 * count + hidden_twice, 0);
    weights(b, hidden_twice);
}

/* One input goes to several users: the backward pass adds their gradients. */
static void fork(builder *b, double count, double users)
{
    run(b, &b->cost.backward, "vector", users * count, count * (users + 1), 0);
}

/* Element by element: operations per element, tensors read and written, bytes of mask. */
static void pointwise(builder *b, int when, double count, double flops, double flops_back,
                      double tensors, double mask)
{
    forward(b, when, "vector", flops * count, tensors * count, mask * count);
    run(b, &b->cost.backward, "vector", flops_back * count, tensors * count, mask * count);
}

/* Queries, keys and values; with latent attention from ranks that no group splits. */
static void project(builder *b, const shoali_transformer *m, double rows)
{
    double heads = m->heads / b->args->tensor, query = heads * (m->head_dim + m->rope);
    if (m->kv_rank == 0) {
        linear(b, rows, m->hidden, query);
        linear(b, rows, m->hidden, m->kv_heads * m->head_dim / b->args->tensor);
        linear(b, rows, m->hidden, m->kv_heads * m->head_dim / b->args->tensor);
        return;
    }
    if (m->query_rank > 0)
        linear(b, rows, m->hidden, m->query_rank);
    linear(b, rows, m->query_rank > 0 ? m->query_rank : m->hidden, query);
    linear(b, rows, m->hidden, m->kv_rank + m->rope);
    linear(b, rows, m->kv_rank, heads * (m->head_dim + m->value_dim));
}

/* Workers that share a sample's tokens. */
static double parts_of(const shoali_block_args *args)
{
    return args->context > 1 ? args->context : 1;
}

/* Scores to values, with all of the scores in memory. */
static void scores(builder *b, const shoali_transformer *m, double heads)
{
    double micro = b->args->microbatch, own = m->sequence / parts_of(b->args);
    double count = heads * own * m->sequence * micro;
    batched(b, AGAIN_SELECTIVE, micro * heads, own, m->head_dim + m->rope, m->sequence);
    pointwise(b, AGAIN_SELECTIVE, count, 5, 8, 2, 0); /* softmax */
    pointwise(b, AGAIN_SELECTIVE, count, 1, 1, 2, 1); /* dropout */
    batched(b, AGAIN_FULL, micro * heads, own, m->sequence, m->value_dim);
}

/* The same in tiles on the chip: the way back makes the scores again. */
static void flash(builder *b, const shoali_transformer *m, double heads)
{
    double batch = b->args->microbatch * heads, rows = batch * m->sequence / parts_of(b->args);
    double key = m->head_dim + m->rope, value = m->value_dim, pairs = rows * m->sequence;
    double chip = FLASH_CHIP_BYTES / b->args->element_bytes;
    double moved = rows * 2 * (key + value) + pairs * fmax(key, value) * fmax(key, value) / chip;
    forward(b, AGAIN_FULL, "matrix", 2 * pairs * (key + value), moved, 0);
    forward(b, AGAIN_FULL, "vector", 6 * pairs, 0, 0);
    run(b, &b->cost.backward, "matrix", 2 * pairs * (3 * key + 2 * value), 2 * moved, 0);
    run(b, &b->cost.backward, "vector", 15 * pairs, 0, 0); /* 6 of them again, 9 back */
}

/* Keys and values go round a ring of c workers in c - 1 steps, each beside the attention to those
 * that are there; on the way back their gradients go with them, and one step more, home.
 * before: of this block, up to its attention. */
static void ring(builder *b, const shoali_cluster *cluster, const shoali_transformer *m,
                 const shoali_block_cost *before, double rows)
{
    const shoali_block_args *args = b->args;
    const double c = parts_of(args), kept = m->kv_heads * (m->head_dim + m->rope + m->value_dim);
    const double bytes = rows * kept / args->tensor * args->element_bytes;
    const shoali_group group = {args->tensor, args->context};
    if (args->context < 2)
        return;
    double there = shoali_time_sum(b->cost.forward) - shoali_time_sum(before->forward);
    double back = shoali_time_sum(b->cost.backward) - shoali_time_sum(before->backward);
    double hop = shoali_cost_exchange_s(cluster, group, SHOALI_EXCHANGE_P2P, bytes);
    double both = shoali_cost_exchange_s(cluster, group, SHOALI_EXCHANGE_P2P, 2 * bytes);
    if (args->no_overlap)
        there = back = 0;
    b->cost.context.network = (c - 1) * fmax(0, hop - there / c);
    b->cost.context_back.network = (c - 1) * fmax(0, both - back / c) + hop;
    if (args->recompute == SHOALI_RECOMPUTE_FULL ||
        (args->recompute == SHOALI_RECOMPUTE_SELECTIVE && !args->flash))
        b->cost.context_again = b->cost.context;
    b->cost.context_bytes = 4 * bytes;
}

static void attention(builder *b, const shoali_cluster *cluster, const shoali_transformer *m,
                      double rows, double slice)
{
    double t = b->args->tensor, heads = m->heads / t;
    const int norms = (int)ceil(m->norms / 2);
    fork(b, slice, 2);
    for (int i = 0; i < norms; i++)
        norm(b, slice);
    fork(b, rows * m->hidden, 3);
    project(b, m, rows);
    const shoali_block_cost before = b->cost;
    (b->args->flash ? flash : scores)(b, m, heads);
    ring(b, cluster, m, &before, rows);
    linear(b, rows, m->heads * m->value_dim / t, m->hidden);
    pointwise(b, AGAIN_FULL, slice, 1, 1, 2, 1); /* dropout */
    pointwise(b, AGAIN_FULL, slice, 1, 2, 3, 0); /* residual */
}

/* Each token's vector to the experts that it meets and theirs back, both passes. Those of a mixture
 * are spread evenly over the group, and so are tokens; data/experts replicas have the same ones. */
static void dispatch(builder *b, const shoali_cluster *cluster, const shoali_transformer *m,
                     double rows)
{
    const shoali_block_args *args = b->args;
    shoali_group group = {args->tensor, args->experts};
    double bytes = rows * m->met * m->hidden / args->tensor * args->element_bytes;
    if (args->experts < 2)
        return;
    double one = shoali_cost_exchange_s(cluster, group, SHOALI_EXCHANGE_ALL_TO_ALL, bytes);
    b->cost.dispatch.network = 4 * one;
    b->cost.dispatch_again.network = args->recompute == SHOALI_RECOMPUTE_FULL ? 2 * one : 0;
    b->cost.dispatch_bytes = 2 * bytes;
}

static void feedforward_weights(builder *b, const shoali_transformer *m)
{
    double per_width = m->hidden / b->args->tensor, routed = m->met * m->routed;
    double group = fmax(1, b->args->experts), matrices = m->gated ? 3 : 2;
    for (int i = 0; i < matrices; i++)
        weights(b, per_width * (m->feedforward - routed));
    if (m->experts > 0) {
        b->cost.expert_params = matrices * per_width * m->routed * m->experts / group;
        weights_of(b, b->cost.expert_params, b->args->data / group);
    }
}

static void feedforward(builder *b, const shoali_transformer *m, double rows, double slice)
{
    double inner = m->feedforward / b->args->tensor;
    const int norms = (int)floor(m->norms / 2);
    fork(b, slice, 2);
    for (int i = 0; i < norms; i++)
        norm(b, slice);
    product(b, rows, m->hidden, inner);
    if (m->gated)
        product(b, rows, m->hidden, inner);
    pointwise(b, AGAIN_FULL, rows * inner, 8, 13, 2, 0); /* GeLU */
    product(b, rows, inner, m->hidden);
    feedforward_weights(b, m);
    if (m->experts > 0)
        linear(b, rows, m->hidden, m->experts); /* the router */
    pointwise(b, AGAIN_FULL, slice, 1, 1, 2, 1);
    pointwise(b, AGAIN_FULL, slice, 1, 2, 3, 0);
}

/* Tensor parallelism: each half of a block begins with f and ends with g (Megatron's names). g sums
 * in the forward pass, f in the backward one; with sequence parallelism each sum leaves a shard and
 * each identity gathers one. */
static void exchanges(builder *b, const shoali_cluster *cluster, double activations)
{
    const shoali_block_args *args = b->args;
    double bytes = activations * args->element_bytes;
    double t = args->tensor;
    if (args->tensor < 2)
        return;
    shoali_group group = {1, args->tensor};
    double one = shoali_cost_exchange_s(
        cluster, group, args->sequence ? SHOALI_EXCHANGE_SHARDED : SHOALI_EXCHANGE_ALL_REDUCE,
        bytes);
    shoali_time sum = shoali_cost_work(b->accelerator, "vector", activations * (t - 1) / t, 0);
    shoali_time traffic = shoali_cost_work(b->accelerator, "vector", 0, 2 * bytes);
    double steps = args->sequence ? 8 : 4; /* f and g, both halves, both passes */
    b->cost.exchange.network = steps * one;
    b->cost.exchange = shoali_time_add(b->cost.exchange, 4, sum);
    b->cost.exchange = shoali_time_add(b->cost.exchange, steps, traffic);
    /* Recomputed: what the forward pass sent; selectively, the gathered inputs are not kept. */
    double repeated = 0;
    if (args->recompute == SHOALI_RECOMPUTE_FULL)
        repeated = args->sequence ? 4 : 2;
    else if (args->recompute == SHOALI_RECOMPUTE_SELECTIVE && args->sequence)
        repeated = 2;
    b->cost.exchange_again.network = repeated * one;
    b->cost.summed_bytes = b->cost.summed_back_bytes = 2 * bytes;
    b->cost.summed_again_bytes = args->sequence ? repeated / 2 * bytes : repeated * bytes;
}

/* Activations kept per block and sample, in bytes per sequence element and hidden unit at half
 * precision (Korthikanti et al.); 5as/h are the scores. */
static void memory(builder *b, const shoali_transformer *m, double activations)
{
    const shoali_block_args *args = b->args;
    double t = args->tensor, scores = 5 * m->heads * m->sequence / m->hidden;
    double rows = activations / m->hidden;
    if (args->flash) /* the logarithm of each row's sum, a float */
        scores = 0;
    double outside = args->sequence ? 10 / t : 10;
    double all = (outside + 24 / t + scores / t) * activations;
    double half = args->element_bytes / 2;
    b->cost.working_bytes = all * half + (args->flash ? 4 * m->heads / t * rows : 0);
    b->cost.kept_bytes = b->cost.working_bytes;
    if (args->recompute == SHOALI_RECOMPUTE_SELECTIVE)
        b->cost.kept_bytes = (outside + 24 / t) * activations * half;
    if (args->recompute == SHOALI_RECOMPUTE_FULL)
        b->cost.kept_bytes = 2 * activations * half;
}

shoali_block_cost shoali_transformer_block(const shoali_cluster *cluster,
                                           const shoali_accelerator *accelerator,
                                           const shoali_transformer *model,
                                           const shoali_block_args *args)
{
    builder b = {.accelerator = accelerator, .args = args, .hidden = model->hidden};
    double rows = args->microbatch * model->sequence / parts_of(args);
    double activations = rows * model->hidden;
    double slice = args->sequence ? activations / args->tensor : activations;
    attention(&b, cluster, model, rows, slice);
    feedforward(&b, model, rows, slice);
    exchanges(&b, cluster, activations);
    dispatch(&b, cluster, model, rows);
    memory(&b, model, activations);
    b.cost.boundary_bytes = activations * args->element_bytes;
    return b.cost;
}

shoali_block_cost shoali_transformer_head(const shoali_accelerator *accelerator,
                                          const shoali_transformer *model,
                                          const shoali_block_args *args)
{
    shoali_block_args once = *args;
    once.recompute = SHOALI_RECOMPUTE_NONE;
    builder b = {.accelerator = accelerator, .args = &once, .hidden = model->hidden};
    double rows = args->microbatch * model->sequence / parts_of(args);
    double columns = model->vocab / args->tensor;
    if (model->vocab > 0) {
        linear(&b, rows, model->hidden, columns);
        /* loss: exponentials and their gradient over all scores, read and written once each way */
        run(&b, &b.cost.forward, "vector", 5 * rows * columns, 2 * rows * columns, 0);
        run(&b, &b.cost.backward, "vector", 2 * rows * columns, 2 * rows * columns, 0);
        b.cost.working_bytes = rows * columns * (args->element_bytes + 4);
    }
    return b.cost;
}
