/* SPDX-License-Identifier: Apache-2.0 */
/* What a question's workers do: units (layers, or blocks and the scores), cut into the stages of a
 * pipeline; and how workers differ. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/predict.h"

shoali_time shoali_stage_time(const shoali_stage *s)
{
    shoali_time t = shoali_time_add(s->forward, 1, s->recompute);
    t = shoali_time_add(t, 1, s->backward);
    t = shoali_time_add(t, 1, s->exchange);
    t = shoali_time_add(t, 1, s->again);
    t = shoali_time_add(t, 1, s->dispatch);
    t = shoali_time_add(t, 1, s->context);
    t = shoali_time_add(t, 1, s->offload);
    return shoali_time_add(t, 1, s->dispatch_again);
}

static void stage_add(shoali_stage *s, const shoali_block_cost *c)
{
    s->forward = shoali_time_add(s->forward, 1, c->forward);
    s->recompute = shoali_time_add(s->recompute, 1, c->recompute);
    s->backward = shoali_time_add(s->backward, 1, c->backward);
    s->exchange = shoali_time_add(s->exchange, 1, c->exchange);
    s->again = shoali_time_add(s->again, 1, c->exchange_again);
    s->update = shoali_time_add(s->update, 1, c->update);
    s->dispatch = shoali_time_add(s->dispatch, 1, c->dispatch);
    s->dispatch_again = shoali_time_add(s->dispatch_again, 1, c->dispatch_again);
    s->context = shoali_time_add(s->context, 1, c->context);
    s->context = shoali_time_add(s->context, 1, c->context_back);
    s->context = shoali_time_add(s->context, 1, c->context_again);
    s->offload = shoali_time_add(s->offload, 1, c->offload);
    s->params += c->params;
    s->expert_params += c->expert_params;
    s->largest_unit = fmax(s->largest_unit, c->params);
    s->largest_kept = fmax(s->largest_kept, c->kept_bytes);
    s->dispatch_bytes = fmax(s->dispatch_bytes, c->dispatch_bytes);
    s->context_bytes = fmax(s->context_bytes, c->context_bytes);
    s->kept_bytes += c->kept_bytes;
    s->working_bytes = fmax(s->working_bytes, c->working_bytes);
    s->boundary_bytes = c->boundary_bytes;
}

/* ---------------------------------------------------------------- units and stages */

/* Blocks of a kind cost the same: only one that differs from the one before is counted anew. */
static void make_blocks(shoali_work *w)
{
    const shoali_question *q = w->q;
    const shoali_layer *before = NULL;
    for (uint32_t i = 0, at = 0; i < q->model->layer_count; i++) {
        const shoali_layer *layer = &q->model->layers[i];
        if (strcmp(layer->row->name, "transformer") != 0)
            continue;
        if (before != NULL && strcmp(before->spec, layer->spec) == 0) {
            w->units[at].cost = w->units[at - 1].cost;
        } else {
            shoali_transformer block = shoali_question_block(layer);
            w->units[at].cost = shoali_transformer_block(q->cluster, w->accelerator, &block,
                                                         &q->args);
        }
        before = layer;
        at++;
    }
}

/* What a unit keeps goes to the host beside its forward pass, and comes beside its backward one. */
static void offload_units(shoali_work *w)
{
    const double rate = w->accelerator->host_bytes_per_s;
    for (uint32_t i = 0; i < w->unit_count; i++) {
        shoali_block_cost *c = &w->units[i].cost;
        double way = rate > 0 ? c->kept_bytes / rate : 0;
        c->offload = (shoali_time){.memory = fmax(0, way - shoali_unit_forward_s(c)) +
                                             fmax(0, way - shoali_unit_backward_s(c))};
    }
}

static shoal_status make_units(shoali_work *w)
{
    const shoali_question *q = w->q;
    w->unit_count = q->language ? q->blocks + 1 : q->model->layer_count;
    w->units = shoali_arena_array(w->arena, w->unit_count, sizeof *w->units);
    if (w->units == NULL)
        return SHOAL_ENOMEM;
    if (!q->language) {
        for (uint32_t i = 0; i < w->unit_count; i++)
            w->units[i].cost = shoali_layer_cost(q->cluster, w->accelerator, &q->model->layers[i],
                                                 &q->args);
    } else {
        make_blocks(w);
        w->units[w->unit_count - 1].cost = shoali_transformer_head(w->accelerator, &q->transformer,
                                                                   &q->args);
    }
    if ((q->desc.offload & SHOAL_OFFLOAD_ACTIVATIONS) != 0)
        offload_units(w);
    return SHOAL_OK;
}

static double unit_s(const shoali_work *w, uint32_t i)
{
    const shoali_block_cost *c = &w->units[i].cost;
    return shoali_time_sum(c->forward) + shoali_time_sum(c->backward) +
           shoali_time_sum(c->exchange);
}

/* Cut so that no stage exceeds `most`; the number of stages that takes. counts may be NULL. */
static uint32_t cut(const shoali_work *w, double most, uint32_t *counts)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < w->unit_count; used++) {
        double sum = 0;
        uint32_t first = i;
        uint32_t spare = w->unit_count - i; /* leave a unit for each stage to come */
        while (i < w->unit_count && (i == first || sum + unit_s(w, i) <= most) &&
               (used + 1 >= w->stage_count || i == first || spare > w->stage_count - used - 1)) {
            sum += unit_s(w, i++);
            spare--;
        }
        if (counts != NULL && used < w->stage_count)
            counts[used] = i - first;
    }
    return used;
}

/* Layers: the cut whose largest stage is smallest. Blocks: as equal as they go, the first chunks
 * have one more; the scores join the last. */
static shoal_status count_chunks(shoali_work *w)
{
    uint32_t p = w->stage_count, n = p * w->q->desc.interleave, *counts = w->chunk_counts;
    if (w->q->language) {
        uint32_t blocks = w->unit_count - 1;
        for (uint32_t i = 0; i < n; i++)
            counts[i] = blocks / n + (i < blocks % n ? 1 : 0);
        counts[n - 1]++;
        return SHOAL_OK;
    }
    if (p > w->unit_count)
        return shoali_fail(SHOAL_EINVAL, "%u stages for %u layers", p, w->unit_count);
    double low = 0, high = 0;
    for (uint32_t i = 0; i < w->unit_count; i++)
        high += unit_s(w, i);
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(cut(w, middle, NULL) <= p ? &high : &low) = middle;
    }
    (void)cut(w, high, counts);
    return SHOAL_OK;
}

/* Units in the order of the model become units in the order of the stages, each with its chunks:
 * chunk c of stage i is number c p + i of the model. */
static shoal_status sort_units(shoali_work *w)
{
    uint32_t p = w->stage_count, n = p * w->q->desc.interleave, at = 0;
    uint32_t *first = shoali_arena_array(w->arena, n, sizeof *first);
    shoali_unit *sorted = shoali_arena_array(w->arena, w->unit_count, sizeof *sorted);
    if (first == NULL || sorted == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 1; i < n; i++)
        first[i] = first[i - 1] + w->chunk_counts[i - 1];
    for (uint32_t i = 0; i < p; i++) {
        w->stages[i].first = at;
        for (uint32_t chunk = i; chunk < n; chunk += p) {
            memcpy(sorted + at, w->units + first[chunk], w->chunk_counts[chunk] * sizeof *sorted);
            at += w->chunk_counts[chunk];
        }
        w->stages[i].count = at - w->stages[i].first;
    }
    w->units = sorted;
    return SHOAL_OK;
}

shoal_status shoali_work_stages(shoali_work *w)
{
    double longest = -1;
    w->stage_count = w->q->desc.pipeline;
    w->stages = shoali_arena_array(w->arena, w->stage_count, sizeof *w->stages);
    w->chunk_counts = shoali_arena_array(w->arena, (size_t)w->stage_count * w->q->desc.interleave,
                                         sizeof *w->chunk_counts);
    if (w->stages == NULL || w->chunk_counts == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(make_units(w));
    SHOALI_TRY(count_chunks(w));
    SHOALI_TRY(sort_units(w));
    for (uint32_t i = 0; i < w->stage_count; i++) {
        shoali_stage *s = &w->stages[i];
        for (uint32_t k = 0; k < s->count; k++)
            stage_add(s, &w->units[s->first + k].cost);
        double time = shoali_time_sum(shoali_stage_time(s));
        if (time > longest) {
            longest = time;
            w->busiest = i;
        }
    }
    return SHOAL_OK;
}

/* What a unit sends meanwhile goes half with either pass. */
double shoali_unit_forward_s(const shoali_block_cost *c)
{
    return shoali_time_sum(c->forward) + shoali_time_sum(c->context) +
           (shoali_time_sum(c->exchange) + shoali_time_sum(c->dispatch)) / 2;
}

double shoali_unit_backward_s(const shoali_block_cost *c)
{
    return shoali_time_sum(c->recompute) + shoali_time_sum(c->backward) +
           shoali_time_sum(c->context_back) + shoali_time_sum(c->context_again) +
           shoali_time_sum(c->exchange_again) + shoali_time_sum(c->dispatch_again) +
           (shoali_time_sum(c->exchange) + shoali_time_sum(c->dispatch)) / 2;
}

/* Passes of each chunk of the model over one microbatch, and a hop to the next stage with each. */
static void pass_times(const shoali_work *w, double hop_s, double *forward, double *backward)
{
    uint32_t p = w->stage_count;
    for (uint32_t i = 0; i < p; i++) {
        const shoali_unit *unit = w->units + w->stages[i].first;
        for (uint32_t c = 0; c < w->q->desc.interleave; c++) {
            uint32_t at = c * p + i;
            forward[at] = backward[at] = hop_s;
            for (uint32_t k = 0; k < w->chunk_counts[at]; k++, unit++) {
                double apart = shoali_time_sum(unit->cost.offload) / 2;
                forward[at] += shoali_unit_forward_s(&unit->cost) + apart;
                backward[at] += shoali_unit_backward_s(&unit->cost) + apart;
            }
        }
    }
}

shoal_status shoali_work_pipeline(const shoali_work *w, double hop_s, double *seconds_out)
{
    const shoal_predict_desc *d = &w->q->desc;
    size_t chunks = (size_t)d->pipeline * d->interleave;
    double *times = shoali_arena_array(w->arena, 2 * chunks, sizeof *times);
    if (times == NULL)
        return SHOAL_ENOMEM;
    pass_times(w, hop_s, times, times + chunks);
    const shoali_pipeline run = {d->pipeline, d->interleave, d->batch / d->microbatch, times,
                                 times + chunks};
    if (w->q->bound) {
        *seconds_out = shoali_pipeline_least(&run);
        return SHOAL_OK;
    }
    return shoali_pipeline_run(&run, w->arena, seconds_out);
}

/* ---------------------------------------------------------------- workers that differ */

double *shoali_work_times(const shoali_work *w)
{
    const shoali_question *q = w->q;
    double *times = shoali_arena_array(w->arena, q->desc.workers, sizeof *times);
    for (uint32_t i = 0; times != NULL && i < q->desc.workers; i++) {
        const shoali_host *host = &q->cluster->hosts[shoali_cluster_host_of(q->cluster, i)];
        shoali_work other = {.q = q, .arena = w->arena};
        other.accelerator = &q->cluster->accelerators[host->accelerator];
        times[i] = shoali_time_sum(shoali_stage_time(&w->stages[w->busiest]));
        if (i > host->first_worker) {
            times[i] = times[i - 1];
        } else if (other.accelerator != w->accelerator) {
            if (shoali_work_stages(&other) != SHOAL_OK)
                return NULL;
            times[i] = shoali_time_sum(shoali_stage_time(&other.stages[w->busiest]));
        }
    }
    return times;
}

double shoali_work_spread(const shoali_question *q, const double *times)
{
    double fastest = INFINITY, slowest = 0, expected = 1;
    for (uint32_t i = 0; i < q->desc.workers; i++) {
        double time = times[i] * shoali_cluster_slowdown(q->cluster, i, 0);
        fastest = fmin(fastest, time);
        slowest = fmax(slowest, time);
    }
    for (uint32_t i = 0; i < q->cluster->straggler_count; i++) {
        const shoali_straggler *g = &q->cluster->stragglers[i];
        double workers = g->worker == UINT32_MAX ? q->desc.workers : 1;
        if (g->probability > 0)
            expected += (g->slowdown - 1) * (1 - pow(1 - g->probability, workers));
    }
    return fastest > 0 ? slowest / fastest * expected : expected;
}
