/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/transformer.h"

#include <math.h>

/* What an operation's outputs cost to keep: computed again always (full), only where it is cheap
 * and large (selective: the core of attention), or never again. */
enum { AGAIN_FULL = 1, AGAIN_SELECTIVE = 2 };

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
static void weights(builder *b, double count)
{
    double own = count / (b->args->state_sharded ? b->args->data : 1);
    double master = b->args->element_bytes < 4 ? 4 : 0;
    b->cost.params += count;
    b->cost.update = shoali_time_add(
        b->cost.update, 1,
        shoali_cost_work(b->accelerator, "vector", 11 * own, own * (8 + master)));
}

static void linear(builder *b, double rows, double in, double out)
{
    double flops = 2 * rows * in * out, moved = rows * in + rows * out + in * out;
    forward(b, AGAIN_FULL, "matrix", flops, moved, 0);
    run(b, &b->cost.backward, "matrix", flops, moved, 0);
    run(b, &b->cost.backward, "matrix", flops, moved, 0);
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

static void attention(builder *b, const shoali_transformer *m, double rows, double slice)
{
    double t = b->args->tensor, heads = m->heads / t, micro = b->args->microbatch;
    double scores = heads * m->sequence * m->sequence * micro;
    const int norms = (int)ceil(m->norms / 2);
    fork(b, slice, 2);
    for (int i = 0; i < norms; i++)
        norm(b, slice);
    fork(b, rows * m->hidden, 3);
    project(b, m, rows);
    batched(b, AGAIN_SELECTIVE, micro * heads, m->sequence, m->head_dim + m->rope, m->sequence);
    pointwise(b, AGAIN_SELECTIVE, scores, 5, 8, 2, 0); /* softmax */
    pointwise(b, AGAIN_SELECTIVE, scores, 1, 1, 2, 1); /* dropout */
    batched(b, AGAIN_FULL, micro * heads, m->sequence, m->sequence, m->value_dim);
    linear(b, rows, m->heads * m->value_dim / t, m->hidden);
    pointwise(b, AGAIN_FULL, slice, 1, 1, 2, 1); /* dropout */
    pointwise(b, AGAIN_FULL, slice, 1, 2, 3, 0); /* residual */
}

static void feedforward(builder *b, const shoali_transformer *m, double rows, double slice)
{
    double inner = m->feedforward / b->args->tensor;
    const int norms = (int)floor(m->norms / 2);
    fork(b, slice, 2);
    for (int i = 0; i < norms; i++)
        norm(b, slice);
    linear(b, rows, m->hidden, inner);
    if (m->gated)
        linear(b, rows, m->hidden, inner);
    pointwise(b, AGAIN_FULL, rows * inner, 8, 13, 2, 0); /* GeLU */
    linear(b, rows, inner, m->hidden);
    if (m->experts > 0) {
        linear(b, rows, m->hidden, m->experts); /* the router */
        weights(b, (m->gated ? 3 : 2) * m->hidden * m->idle / b->args->tensor);
    }
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
}

/* Activations kept per block and sample, in bytes per sequence element and hidden unit at half
 * precision (Korthikanti et al.); 5as/h are the scores. */
static void memory(builder *b, const shoali_transformer *m, double activations)
{
    const shoali_block_args *args = b->args;
    double t = args->tensor, scores = 5 * m->heads * m->sequence / m->hidden;
    double outside = args->sequence ? 10 / t : 10;
    double all = (outside + 24 / t + scores / t) * activations;
    double half = args->element_bytes / 2;
    b->cost.working_bytes = all * half;
    b->cost.kept_bytes = all * half;
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
    double rows = args->microbatch * model->sequence;
    double activations = rows * model->hidden;
    double slice = args->sequence ? activations / args->tensor : activations;
    attention(&b, model, rows, slice);
    feedforward(&b, model, rows, slice);
    exchanges(&b, cluster, activations);
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
    double rows = args->microbatch * model->sequence, columns = model->vocab / args->tensor;
    if (model->vocab > 0) {
        linear(&b, rows, model->hidden, columns);
        /* loss: exponentials and their gradient over all scores, read and written once each way */
        run(&b, &b.cost.forward, "vector", 5 * rows * columns, 2 * rows * columns, 0);
        run(&b, &b.cost.backward, "vector", 2 * rows * columns, 2 * rows * columns, 0);
        b.cost.working_bytes = rows * columns * (args->element_bytes + 4);
    }
    return b.cost;
}
