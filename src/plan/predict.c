/* SPDX-License-Identifier: Apache-2.0 */
/* One step: stages of units, the busiest of which sets the pace; the pipeline's filling; gradients
 * behind the last backward pass; the slowest worker. docs/predict.md. */
#include "plan/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* What one stage does with one microbatch, by part. */
typedef struct stage {
    shoali_time forward, recompute, backward, exchange, again, update;
    double params, kept_bytes, working_bytes, boundary_bytes;
    uint32_t first, count; /* units */
} stage;

static shoali_time stage_time(const stage *s)
{
    shoali_time t = shoali_time_add(s->forward, 1, s->recompute);
    t = shoali_time_add(t, 1, s->backward);
    t = shoali_time_add(t, 1, s->exchange);
    return shoali_time_add(t, 1, s->again);
}

static void stage_add(stage *s, const shoali_block_cost *c)
{
    s->forward = shoali_time_add(s->forward, 1, c->forward);
    s->recompute = shoali_time_add(s->recompute, 1, c->recompute);
    s->backward = shoali_time_add(s->backward, 1, c->backward);
    s->exchange = shoali_time_add(s->exchange, 1, c->exchange);
    s->again = shoali_time_add(s->again, 1, c->exchange_again);
    s->update = shoali_time_add(s->update, 1, c->update);
    s->params += c->params;
    s->kept_bytes += c->kept_bytes;
    s->working_bytes = fmax(s->working_bytes, c->working_bytes);
    s->boundary_bytes = c->boundary_bytes;
}

/* ---------------------------------------------------------------- units and stages */

typedef struct work {
    const shoali_question *q;
    shoal_arena *arena;
    const shoali_accelerator *accelerator;
    shoali_unit *units;
    stage *stages;
    uint32_t unit_count, stage_count, busiest;
} work;

/* Blocks of a kind cost the same: only one that differs from the one before is counted anew. */
static void make_blocks(work *w)
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

static shoal_status make_units(work *w)
{
    const shoali_question *q = w->q;
    w->unit_count = q->language ? q->blocks + 1 : q->model->layer_count;
    w->units = shoali_arena_array(w->arena, w->unit_count, sizeof *w->units);
    w->stages = shoali_arena_array(w->arena, q->desc.pipeline, sizeof *w->stages);
    if (w->units == NULL || w->stages == NULL)
        return SHOAL_ENOMEM;
    w->stage_count = q->desc.pipeline;
    if (!q->language) {
        for (uint32_t i = 0; i < w->unit_count; i++)
            w->units[i].cost = shoali_layer_cost(q->cluster, w->accelerator, &q->model->layers[i],
                                                 &q->args);
        return SHOAL_OK;
    }
    make_blocks(w);
    w->units[w->unit_count - 1].cost = shoali_transformer_head(w->accelerator, &q->transformer,
                                                               &q->args);
    return SHOAL_OK;
}

static double unit_s(const work *w, uint32_t i)
{
    const shoali_block_cost *c = &w->units[i].cost;
    return shoali_time_sum(c->forward) + shoali_time_sum(c->backward) +
           shoali_time_sum(c->exchange);
}

/* Cut so that no stage exceeds `most`; the number of stages that takes. counts may be NULL. */
static uint32_t cut(const work *w, double most, uint32_t *counts)
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

/* Layers: the cut whose largest stage is smallest. Blocks: as equal as they go, the first stages
 * have one more; the scores join the last. */
static shoal_status count_stages(const work *w, uint32_t *counts)
{
    uint32_t p = w->stage_count;
    if (w->q->language) {
        uint32_t blocks = w->unit_count - 1;
        for (uint32_t i = 0; i < p; i++)
            counts[i] = blocks / p + (i < blocks % p ? 1 : 0);
        counts[p - 1]++;
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

static shoal_status make_stages(work *w)
{
    uint32_t *counts = shoali_arena_array(w->arena, w->stage_count, sizeof *counts), first = 0;
    double longest = -1;
    if (counts == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(count_stages(w, counts));
    for (uint32_t i = 0; i < w->stage_count; i++) {
        stage *s = &w->stages[i];
        s->first = first;
        s->count = counts[i];
        for (uint32_t k = 0; k < counts[i]; k++)
            stage_add(s, &w->units[first + k].cost);
        first += counts[i];
        double time = shoali_time_sum(stage_time(s));
        if (time > longest) {
            longest = time;
            w->busiest = i;
        }
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- workers that differ */

/* Seconds of one microbatch on the busiest stage, by worker, each on its own accelerator with
 * nothing that slows it down; NULL: no memory. */
static double *time_of_workers(const work *w)
{
    const shoali_question *q = w->q;
    double *times = shoali_arena_array(w->arena, q->desc.workers, sizeof *times);
    for (uint32_t i = 0; times != NULL && i < q->desc.workers; i++) {
        const shoali_host *host = &q->cluster->hosts[shoali_cluster_host_of(q->cluster, i)];
        work other = {.q = q, .arena = w->arena};
        other.accelerator = &q->cluster->accelerators[host->accelerator];
        times[i] = shoali_time_sum(stage_time(&w->stages[w->busiest]));
        if (i > host->first_worker) {
            times[i] = times[i - 1];
        } else if (other.accelerator != w->accelerator) {
            if (make_units(&other) != SHOAL_OK || make_stages(&other) != SHOAL_OK)
                return NULL;
            times[i] = shoali_time_sum(stage_time(&other.stages[w->busiest]));
        }
    }
    return times;
}

/* The slowest worker's time by the fastest's. Time of random stragglers enters as the expected
 * slowdown of the worst of all workers. */
static double spread_of_workers(const shoali_question *q, const double *times)
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

/* ---------------------------------------------------------------- answering */

static shoal_causes causes_of(shoali_time t)
{
    return (shoal_causes){t.matrix, t.vector, t.memory, t.network, t.fixed};
}

/* A measured step stands in for the tables where there is one: one worker, all layers. */
static void use_profile(const shoali_question *q, stage *s)
{
    const shoali_profile *profile = shoali_cluster_profile(q->cluster, q->desc.model,
                                                           q->desc.batch);
    if (profile == NULL || q->desc.tensor > 1 || q->desc.pipeline > 1)
        return;
    double scale = (double)q->desc.microbatch / profile->batch;
    double compute = shoali_time_sum(s->forward) + shoali_time_sum(s->backward);
    double factor = compute > 0 ? profile->compute_s * scale / compute : 1;
    s->forward = shoali_time_add((shoali_time){0}, factor, s->forward);
    s->backward = shoali_time_add((shoali_time){0}, factor, s->backward);
    s->update = (shoali_time){.memory = profile->update_s};
}

static void fill_memory(const work *w, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    const shoal_predict_desc *d = &q->desc;
    const stage *s = &w->stages[w->busiest];
    double runs = (double)d->batch / d->microbatch;
    double flying = fmin(runs, d->pipeline);
    double params = s->params;
    if (q->language && d->pipeline == 1)
        params += q->transformer.vocab * q->transformer.hidden / d->tensor;
    if (d->interleave > 1)
        flying *= 1 + (d->pipeline - 1.0) / ((double)d->interleave * d->pipeline);
    out->weight_bytes = params * d->element_bytes;
    out->gradient_bytes = params * 4;
    out->state_bytes = params * d->state_bytes / (d->shard_state ? q->data : 1);
    out->activation_bytes = s->kept_bytes * flying + s->working_bytes;
    out->capacity_bytes = w->accelerator->memory_bytes;
    for (uint32_t i = 0; i < q->model->layer_count; i++)
        if (!d->no_head || strcmp(q->model->layers[i].row->name, "transformer") == 0)
            out->params += (double)q->model->layers[i].param_count;
}

typedef struct part {
    const char *name;
    double seconds;
} part;

/* The largest parts and what binds the computation, in words and shares. */
static void fill_words(shoal_prediction *p)
{
    const part parts[] = {
        {"computation", p->forward_s + p->backward_s + p->recompute_s},
        {"the gradients' exchange", p->exposed_s},
        {"tensor parallelism's exchange", p->tensor_s + p->tensor_again_s},
        {"sending between stages", p->pipeline_s},
        {"the pipeline's bubble", p->bubble_s},
        {"waiting for the slowest worker", p->straggler_s},
        {"the optimiser", p->update_s},
        {"overhead per step", p->other_s},
    };
    enum { COUNT = sizeof parts / sizeof *parts };
    size_t first = 0, second = 1;
    for (size_t i = 1; i < COUNT; i++)
        if (parts[i].seconds > parts[first].seconds) {
            second = first;
            first = i;
        } else if (i != first && (second == first || parts[i].seconds > parts[second].seconds)) {
            second = i;
        }
    const char *of = p->causes.memory > p->causes.matrix + p->causes.vector ? "memory traffic"
                     : p->causes.vector > p->causes.matrix ? "element-wise arithmetic"
                                                           : "matrix products and convolutions";
    double whole = p->iteration_s > 0 ? p->iteration_s : 1;
    snprintf(p->bottleneck, sizeof p->bottleneck, "%s, %.0f %% of the step%s%s%s; then %s, %.0f %%",
             parts[first].name, 100 * parts[first].seconds / whole, first == 0 ? " (mostly " : "",
             first == 0 ? of : "", first == 0 ? ")" : "", parts[second].name,
             100 * parts[second].seconds / whole);
}

/* Gradients of the busiest stage behind its last backward pass. */
static shoal_status exchange_gradients(const work *w, const stage *s, double cores,
                                       shoal_prediction *out)
{
    const shoali_question *q = w->q;
    shoali_bucket_time *buckets;
    uint32_t count;
    bool single = q->desc.batch == q->desc.microbatch;
    double forward = single ? shoali_time_sum(s->forward) : 0;
    double backward = shoali_time_sum(s->backward);
    if (q->data < 2 || q->no_exchange)
        return SHOAL_OK;
    SHOALI_TRY(shoali_gradient_buckets(q, w->units + s->first, s->count, forward, backward,
                                       w->arena, &buckets, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (q->desc.no_overlap)
            buckets[i].ready_s = forward + backward;
        else if (q->perfect_overlap)
            buckets[i].ready_s = 0;
        out->codec_s += buckets[i].codec_s;
        out->sent_bytes += buckets[i].sent_bytes;
    }
    shoali_overlap overlap = shoali_overlap_run(buckets, count, forward + backward, cores,
                                                q->cluster->overhead.busy_share);
    out->exposed_s = overlap.exposed_s;
    out->hidden_s = overlap.hidden_s;
    return SHOAL_OK;
}

static shoali_time compute_of(const stage *s)
{
    shoali_time t = shoali_time_add(s->forward, 1, s->recompute);
    return shoali_time_add(t, 1, s->backward);
}

static void fill_pipeline(const work *w, const stage *s, double cores, shoal_prediction *out)
{
    const shoal_predict_desc *d = &w->q->desc;
    double runs = (double)d->batch / d->microbatch, shared = 1 / fmin(1, cores);
    double chunks = d->interleave, hop = 0;
    if (d->pipeline > 1) {
        shoali_group next = {d->workers / d->pipeline, 2};
        bool sliced = d->sequence || !d->no_scatter;
        double bytes = w->stages[0].boundary_bytes / (sliced ? d->tensor : 1);
        hop = shoali_cost_exchange_s(w->q->cluster, next, SHOALI_EXCHANGE_P2P, bytes);
    }
    shoali_time others = {0};
    for (uint32_t i = 0; i < w->stage_count; i++)
        if (i != w->busiest)
            others = shoali_time_add(others, 1 / chunks, stage_time(&w->stages[i]));
    shoali_time own = stage_time(s);
    others.network += (w->stage_count - 1) * 2 * hop;
    double odd = fmod(runs, d->pipeline);
    if (odd != 0 && chunks > 1)
        others = shoali_time_add(others, (chunks - 1) * (d->pipeline - odd) / chunks, own);
    out->bubble_s = shoali_time_sum(others);
    out->forward_s = runs * shoali_time_sum(s->forward) * shared;
    out->backward_s = runs * shoali_time_sum(s->backward) * shared;
    out->recompute_s = runs * shoali_time_sum(s->recompute) * shared;
    out->tensor_s = runs * shoali_time_sum(s->exchange);
    out->tensor_again_s = runs * shoali_time_sum(s->again);
    out->pipeline_s = runs * chunks * 2 * hop;
    out->update_s = shoali_time_sum(s->update) * shared;
    out->other_s = w->q->cluster->overhead.step_s * shared;
    shoali_time all = shoali_time_add(others, runs, own);
    all = shoali_time_add(all, 1, s->update);
    all.network += out->pipeline_s;
    all.fixed += out->other_s;
    out->causes = causes_of(all);
}

static double parts_sum(const shoal_prediction *p)
{
    return p->forward_s + p->backward_s + p->recompute_s + p->update_s + p->tensor_s +
           p->tensor_again_s + p->pipeline_s + p->exposed_s + p->bubble_s + p->straggler_s +
           p->other_s;
}

/* The causes of a shared machine's computation are those of the tables, stretched; what overlaps
 * is network. */
static void close_causes(shoal_prediction *p)
{
    shoal_causes *c = &p->causes;
    c->network += p->exposed_s;
    double table = c->matrix + c->vector + c->memory;
    double rest = p->iteration_s - c->network - c->fixed;
    double factor = table > 0 ? fmax(rest, 0) / table : 1;
    c->matrix *= factor;
    c->vector *= factor;
    c->memory *= factor;
}

static shoal_status answer(work *w, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    double cores = q->cluster->cores > 0 ? (double)q->cluster->cores / q->desc.workers : INFINITY;
    SHOALI_TRY(make_units(w));
    SHOALI_TRY(make_stages(w));
    stage *s = &w->stages[w->busiest];
    use_profile(q, s);
    fill_pipeline(w, s, cores, out);
    double *times = time_of_workers(w);
    if (times == NULL)
        return SHOAL_ENOMEM;
    double runs = (double)q->desc.batch / q->desc.microbatch / fmin(1, cores);
    out->straggler_s = (spread_of_workers(q, times) - 1) * runs * shoali_time_sum(compute_of(s));
    SHOALI_TRY(exchange_gradients(w, s, cores, out));
    for (uint32_t i = 0; i < q->desc.workers; i++)
        times[i] *= runs;
    if (q->desc.sync != NULL)
        SHOALI_TRY(shoali_predict_protocol(q, times, w->arena, out));
    fill_memory(w, out);
    if (q->plan != NULL) {
        out->by_data_s = parts_sum(out);
        SHOALI_TRY(shoali_predict_planned(q, w->accelerator, w->arena, out));
    }
    out->memory_bytes = out->weight_bytes + out->gradient_bytes + out->state_bytes +
                        out->activation_bytes;
    out->iteration_s = parts_sum(out);
    close_causes(out);
    out->samples_per_s = (double)q->desc.batch * q->data / out->iteration_s;
    out->workers = q->desc.workers;
    out->data = q->data;
    out->tensor = q->desc.tensor;
    out->pipeline = q->desc.pipeline;
    fill_words(out);
    return SHOAL_OK;
}

shoal_status shoali_question_answer(const shoali_question *question, shoal_prediction *out)
{
    work w = {.q = question, .arena = shoali_arena_create(1 << 14)};
    const shoali_cluster *cluster = question->cluster;
    *out = (shoal_prediction){.size = sizeof *out};
    if (w.arena == NULL)
        return SHOAL_ENOMEM;
    w.accelerator = &cluster->accelerators[cluster->hosts[0].accelerator];
    shoal_status status = answer(&w, out);
    shoali_arena_destroy(w.arena);
    return status;
}

/* ---------------------------------------------------------------- the interval */

/* Two standard deviations of what was measured; compute and links are independent. */
static void interval_of_spread(const shoali_question *q, double spread, shoal_prediction *p)
{
    double link = 0;
    for (uint32_t i = 0; i < q->cluster->link_count; i++)
        link = fmax(link, q->cluster->links[i].spread);
    double network = p->exposed_s + p->tensor_s + p->tensor_again_s + p->pipeline_s;
    double compute = p->iteration_s - network;
    double sigma = hypot(spread * compute, fmax(link, spread) * network);
    p->low_s = fmax(0, p->iteration_s - 2 * sigma);
    p->high_s = p->iteration_s + 2 * sigma;
}

static shoal_status bound(shoali_question *q, bool best, double *out)
{
    shoal_prediction p;
    for (uint32_t i = 0; i < q->cluster->accelerator_count; i++)
        q->cluster->accelerators[i].additive = !best;
    q->perfect_overlap = best;
    q->desc.no_overlap = !best;
    SHOALI_TRY(shoali_question_answer(q, &p));
    *out = p.iteration_s;
    return SHOAL_OK;
}

static shoal_status fill_interval(shoali_question *q, shoal_prediction *p)
{
    const shoali_profile *profile = shoali_cluster_profile(q->cluster, q->desc.model,
                                                           q->desc.batch);
    double spread = q->cluster->accelerators[q->cluster->hosts[0].accelerator].spread;
    if (profile != NULL)
        spread = fmax(spread, profile->spread);
    if (spread > 0) {
        interval_of_spread(q, spread, p);
        return SHOAL_OK;
    }
    SHOALI_TRY(bound(q, true, &p->low_s));
    SHOALI_TRY(bound(q, false, &p->high_s));
    p->low_s = fmin(p->low_s, p->iteration_s);
    p->high_s = fmax(p->high_s, p->iteration_s);
    return SHOAL_OK;
}

shoal_status shoal_predict(const shoal_predict_desc *desc, shoal_prediction *prediction_out)
{
    shoali_question q;
    shoal_prediction p;
    const shoali_scale none = SHOALI_SCALE_NONE;
    if (prediction_out == NULL || prediction_out->size != sizeof *prediction_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_predict needs a prediction of this version's size");
    SHOALI_TRY(shoali_question_open(desc, &none, &q));
    shoal_status status = shoali_question_answer(&q, &p);
    if (status == SHOAL_OK)
        status = fill_interval(&q, &p);
    shoali_question_close(&q);
    if (status == SHOAL_OK)
        *prediction_out = p;
    return status;
}
