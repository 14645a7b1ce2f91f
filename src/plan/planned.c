/* SPDX-License-Identifier: Apache-2.0 */
/* A step of `shoal train --plan`: the answer for data parallelism, changed where a plan of `shoal
 * partition` changes it. Each layer with weights works on the samples and input channels that its
 * row gives a worker, what follows it on the worker's share of the sums; partition_seconds.c says
 * what borders and gradients take.
 *
 * A measured step of the model stands before the tables. What a layer took by data beyond its
 * arithmetic is put down to memory, and by the plan goes with what it then reads and writes: few
 * samples by large weights are slow for their weights. */
#include <math.h>

#include "plan/partition.h"
#include "plan/predict.h"

/* One pass through a layer, on one worker, alone. */
typedef struct pass {
    double table_s;                 /* by the accelerator's way to add the next two */
    double arithmetic_s, traffic_s; /* apart */
} pass;

typedef struct layer_times {
    pass forward, backward;           /* by the plan */
    pass data_forward, data_backward; /* by data */
} layer_times;

typedef struct planned {
    const shoali_question *q;
    shoali_accelerator accelerator, additive; /* as it is; and one that tells both times apart */
    layer_times *layers;                      /* per layer of the plan */
    double *forward_s, *backward_s;           /* answers of the same */
    double params, sums_bytes;                /* of this worker; largest partial sums of a layer */
} planned;

static void add(pass *sum, shoali_time table, shoali_time parts)
{
    sum->table_s += shoali_time_sum(table);
    sum->arithmetic_s += parts.matrix + parts.vector;
    sum->traffic_s += parts.memory;
}

/* A layer of the model, as a worker has it with this row of the plan (0: by data). */
static void cost_layer(planned *w, const shoali_layer *layer, uint32_t mask, pass *forward,
                       pass *backward)
{
    const shoal_partition *plan = w->q->plan;
    shoali_block_args args = w->q->args;
    args.tensor = 1u << __builtin_popcount(mask);
    args.microbatch = (double)plan->batch * args.tensor / (double)(1u << plan->levels);
    shoali_block_cost table = shoali_layer_cost(w->q->cluster, &w->accelerator, layer, &args);
    shoali_block_cost parts = shoali_layer_cost(w->q->cluster, &w->additive, layer, &args);
    add(forward, table.forward, parts.forward);
    add(backward, table.backward, parts.backward);
    if (mask != 0)
        w->sums_bytes = fmax(w->sums_bytes, table.boundary_bytes);
}

static void cost_layers(planned *w)
{
    const shoal_partition *plan = w->q->plan;
    const shoal_model *model = w->q->model;
    uint32_t l = 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        while (l + 1 < plan->layer_count && i >= plan->layers[l + 1].index)
            l++;
        uint32_t mask = i == plan->layers[l].index ? plan->layers[l].mask : 0;
        layer_times *t = &w->layers[l];
        cost_layer(w, &model->layers[i], 0, &t->data_forward, &t->data_backward);
        cost_layer(w, &model->layers[i], mask, &t->forward, &t->backward);
    }
    for (l = 0; l < plan->layer_count; l++)
        w->params += (double)plan->layers[l].biases +
                     (double)plan->layers[l].weights /
                         (double)(1u << __builtin_popcount(plan->layers[l].mask));
}

/* What took measured_s by data, by the plan. */
static double moved_over(const pass *data, const pass *plan, double measured_s)
{
    double arithmetic = fmin(measured_s, data->arithmetic_s);
    double rest = measured_s - arithmetic;
    double less = data->traffic_s > 0 ? plan->traffic_s / data->traffic_s : 1;
    if (data->arithmetic_s > 0)
        arithmetic *= plan->arithmetic_s / data->arithmetic_s;
    return arithmetic + rest * less;
}

/* From a measured step by data: its forward pass as the tables share it out, its backward pass by
 * the times at which each layer's gradients were final. */
static void use_profile(planned *w, const shoali_profile *profile)
{
    const shoal_partition *plan = w->q->plan;
    double scale = (double)w->q->desc.batch / profile->batch, forward = 0, backward = 0;
    for (uint32_t l = 0; l < plan->layer_count; l++) {
        forward += w->layers[l].data_forward.table_s;
        backward += w->layers[l].data_backward.table_s;
    }
    double share = forward + backward > 0 ? forward / (forward + backward) : 1.0 / 3;
    double first = fmin(profile->compute_s * share, profile->ready_s[0]), from = first;
    for (uint32_t l = plan->layer_count; l-- > 0;) {
        const layer_times *t = &w->layers[l];
        double until = l > 0 ? profile->ready_s[plan->layer_count - 1 - l] : profile->compute_s;
        double part = forward > 0 ? t->data_forward.table_s / forward : 0;
        w->forward_s[l] = moved_over(&t->data_forward, &t->forward, scale * first * part);
        w->backward_s[l] = moved_over(&t->data_backward, &t->backward,
                                      scale * fmax(0, until - from));
        from = fmax(from, until);
    }
}

static void time_layers(planned *w)
{
    const shoali_question *q = w->q;
    uint32_t count = q->plan->layer_count;
    const shoali_profile *profile = shoali_cluster_profile(q->cluster, q->desc.model,
                                                           q->desc.batch);
    for (uint32_t l = 0; l < count; l++) {
        w->forward_s[l] = w->layers[l].forward.table_s;
        w->backward_s[l] = w->layers[l].backward.table_s;
    }
    if (profile != NULL && profile->ready_count == count)
        use_profile(w, profile);
    double stretch = q->cluster->cores > 0 ? fmax(1, (double)q->desc.workers / q->cluster->cores)
                                           : 1;
    for (uint32_t l = 0; l < count; l++) {
        w->forward_s[l] *= stretch;
        w->backward_s[l] *= stretch;
    }
}

static double sum(const double *times, uint32_t count)
{
    double all = 0;
    for (uint32_t i = 0; i < count; i++)
        all += times[i];
    return all;
}

/* Payload that a worker sends per second, and at the same time receives: its part of the slowest
 * link (of dimensions, those that the workers reach into), and no more than its part of the
 * processors can move. */
static double payload_rate(const shoali_question *q)
{
    const shoali_cluster *c = q->cluster;
    const shoali_overhead *o = &c->overhead;
    uint32_t hosts = shoali_cluster_host_of(c, q->desc.workers - 1) + 1;
    double rate = INFINITY;
    for (uint32_t i = 0, near = 1; i < c->dimension_count; near *= c->dimensions[i++].size)
        if (near < q->desc.workers)
            rate = fmin(rate, c->dimensions[i].bytes_per_s * c->dimensions[i].efficiency);
    for (uint32_t i = 0; i < hosts && hosts > 1 && c->dimension_count == 0; i++)
        rate = fmin(rate, fmin(c->hosts[i].up_bytes_per_s, c->hosts[i].down_bytes_per_s) /
                              c->hosts[i].workers * o->payload_share);
    for (uint32_t i = 0; i < c->link_count && c->dimension_count == 0; i++)
        if (c->links[i].from < hosts && c->links[i].to < hosts)
            rate = fmin(rate, c->links[i].bytes_per_s / c->hosts[c->links[i].from].workers);
    if (c->cores > 0 && o->cpu_s_per_byte > 0)
        rate = fmin(rate, fmin(1, (double)c->cores / q->desc.workers) / (2 * o->cpu_s_per_byte));
    return rate;
}

static double message_latency(const shoali_question *q)
{
    const shoali_cluster *c = q->cluster;
    double latency = 0;
    for (uint32_t i = 0, near = 1; i < c->dimension_count; near *= c->dimensions[i++].size)
        if (near < q->desc.workers)
            latency = fmax(latency, c->dimensions[i].latency_s);
    for (uint32_t i = 0; i < c->host_count && c->dimension_count == 0; i++)
        latency = fmax(latency, c->hosts[i].latency_s);
    return latency + c->overhead.round_s;
}

static void fill(const planned *w, shoal_prediction *p)
{
    const shoal_predict_desc *d = &w->q->desc;
    const shoal_partition *plan = w->q->plan;
    double before = p->forward_s + p->backward_s;
    p->forward_s = sum(w->forward_s, plan->layer_count);
    p->backward_s = sum(w->backward_s, plan->layer_count);
    double more = before > 0 ? (p->forward_s + p->backward_s) / before : 1;
    shoali_partition_pace pace = {w->forward_s, w->backward_s, payload_rate(w->q),
                                  message_latency(w->q)};
    shoali_partition_seconds s = shoali_partition_time_step(plan, &pace);
    if (d->no_overlap) {
        s.exposed_s += s.hidden_s;
        s.hidden_s = 0;
    } else if (w->q->perfect_overlap) {
        double gradients = s.exposed_s + s.hidden_s;
        s.exposed_s = fmax(0, gradients - s.compute_s);
        s.hidden_s = gradients - s.exposed_s;
    }
    p->tensor_s = s.borders_s;
    p->causes.network += s.borders_s;
    p->exposed_s = s.exposed_s;
    p->hidden_s = s.hidden_s;
    p->sent_bytes = s.gradient_bytes;
    p->straggler_s *= more;
    double share = w->params / p->params;
    p->update_s *= share;
    p->weight_bytes = w->params * d->element_bytes;
    p->gradient_bytes = w->params * 4;
    p->state_bytes = w->params * d->state_bytes;
    p->activation_bytes += w->sums_bytes;
}

shoal_status shoali_predict_planned(const shoali_question *q, const shoali_accelerator *accelerator,
                                    shoal_arena *arena, shoal_prediction *p)
{
    planned w = {.q = q, .accelerator = *accelerator, .additive = *accelerator};
    uint32_t count = q->plan->layer_count;
    w.additive.additive = true;
    w.layers = shoali_arena_array(arena, count, sizeof *w.layers);
    w.forward_s = shoali_arena_array(arena, count, sizeof *w.forward_s);
    w.backward_s = shoali_arena_array(arena, count, sizeof *w.backward_s);
    if (w.layers == NULL || w.forward_s == NULL || w.backward_s == NULL)
        return SHOAL_ENOMEM;
    cost_layers(&w);
    time_layers(&w);
    fill(&w, p);
    return SHOAL_OK;
}
