/* SPDX-License-Identifier: Apache-2.0 */
/* One step: stages of units, the busiest of which sets the pace; the pipeline's filling; gradients
 * behind the last backward pass; the slowest worker. docs/predict.md. */
#include "plan/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* ---------------------------------------------------------------- answering */

static shoal_causes causes_of(shoali_time t)
{
    return (shoal_causes){t.matrix, t.vector, t.memory, t.network, t.fixed};
}

/* A measured step stands in for the tables where there is one: one worker, all layers. */
static void use_profile(const shoali_question *q, shoali_stage *s)
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
        {"tokens' way to experts", p->experts_s},
        {"keys' and values' way", p->context_s},
        {"the way to the host's memory", p->offload_s},
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
static shoal_status exchange_gradients(const shoali_work *w, const shoali_stage *s, double cores,
                                       shoal_prediction *out)
{
    const shoali_question *q = w->q;
    shoali_bucket_time *buckets;
    uint32_t count;
    bool single = q->desc.batch == q->desc.microbatch;
    double forward = single ? shoali_time_sum(s->forward) : 0;
    double backward = shoali_time_sum(s->backward);
    if (q->replicas < 2 || q->bound)
        return SHOAL_OK;
    if (q->desc.zero == 3)
        return shoali_zero_exchange(w, s, out);
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
    return q->desc.zero > 0 ? shoali_zero_exchange(w, s, out) : SHOAL_OK;
}

static shoali_time compute_of(const shoali_stage *s)
{
    shoali_time t = shoali_time_add(s->forward, 1, s->recompute);
    return shoali_time_add(t, 1, s->backward);
}

static shoal_status fill_pipeline(const shoali_work *w, const shoali_stage *s, double cores,
                                  shoal_prediction *out)
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
    double whole = 0;
    if (d->pipeline > 1)
        SHOALI_TRY(shoali_work_pipeline(w, hop, &whole));
    shoali_time others = {0};
    for (uint32_t i = 0; i < w->stage_count; i++)
        if (i != w->busiest)
            others = shoali_time_add(others, 1 / chunks, shoali_stage_time(&w->stages[i]));
    shoali_time own = shoali_stage_time(s);
    others.network += (w->stage_count - 1) * 2 * hop;
    out->pipeline_s = runs * chunks * 2 * hop;
    out->bubble_s = fmax(0, whole - runs * shoali_time_sum(own) - out->pipeline_s);
    double rest = shoali_time_sum(others);
    others = shoali_time_add((shoali_time){0}, rest > 0 ? out->bubble_s / rest : 0, others);
    out->forward_s = runs * shoali_time_sum(s->forward) * shared;
    out->backward_s = runs * shoali_time_sum(s->backward) * shared;
    out->recompute_s = runs * shoali_time_sum(s->recompute) * shared;
    out->tensor_s = runs * shoali_time_sum(s->exchange);
    out->tensor_again_s = runs * shoali_time_sum(s->again);
    out->experts_s = runs * (shoali_time_sum(s->dispatch) + shoali_time_sum(s->dispatch_again));
    out->context_s = runs * shoali_time_sum(s->context);
    double stream = shoali_offload_state_s(w, s);
    out->offload_s = runs * shoali_time_sum(s->offload) + stream;
    out->update_s = shoali_time_sum(s->update) * shared;
    out->other_s = w->q->cluster->overhead.step_s * shared;
    shoali_time all = shoali_time_add(others, runs, own);
    all = shoali_time_add(all, 1, s->update);
    all.network += out->pipeline_s;
    all.memory += stream;
    all.fixed += out->other_s;
    out->causes = causes_of(all);
    return SHOAL_OK;
}

static double parts_sum(const shoal_prediction *p)
{
    return p->forward_s + p->backward_s + p->recompute_s + p->update_s + p->tensor_s +
           p->tensor_again_s + p->experts_s + p->context_s + p->offload_s + p->pipeline_s +
           p->exposed_s + p->bubble_s + p->straggler_s + p->other_s;
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

/* Sums over the workers' accelerators; 0 if one of them does not say. */
static double sum_of_workers(const shoali_question *q, bool watts)
{
    double sum = 0;
    uint32_t left = q->desc.workers;
    for (uint32_t i = 0; left > 0; i++) {
        const shoali_host *host = &q->cluster->hosts[i];
        uint32_t used = host->workers < left ? host->workers : left;
        const shoali_accelerator *a = &q->cluster->accelerators[host->accelerator];
        const double one = watts ? a->watts : a->price;
        if (one == 0)
            return 0;
        sum += used * one;
        left -= used;
    }
    return sum;
}

static shoal_status answer(shoali_work *w, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    double cores = q->cluster->cores > 0 ? (double)q->cluster->cores / q->desc.workers : INFINITY;
    SHOALI_TRY(shoali_work_stages(w));
    shoali_stage *s = &w->stages[w->busiest];
    use_profile(q, s);
    SHOALI_TRY(fill_pipeline(w, s, cores, out));
    double *times = shoali_work_times(w);
    if (times == NULL)
        return SHOAL_ENOMEM;
    double runs = (double)q->desc.batch / q->desc.microbatch / fmin(1, cores);
    out->straggler_s = (shoali_work_spread(q, times) - 1) * runs * shoali_time_sum(compute_of(s));
    SHOALI_TRY(exchange_gradients(w, s, cores, out));
    for (uint32_t i = 0; i < q->desc.workers; i++)
        times[i] *= runs;
    out->all_reduce_s = q->desc.sync != NULL ? parts_sum(out) : 0;
    if (q->desc.sync != NULL)
        SHOALI_TRY(shoali_predict_protocol(q, times, w->arena, out));
    shoali_memory_fill(w, out);
    if (q->plan != NULL) {
        out->by_data_s = parts_sum(out);
        SHOALI_TRY(shoali_predict_planned(q, w->accelerator, w->arena, out));
    }
    out->memory_bytes = out->weight_bytes + out->gradient_bytes + out->state_bytes +
                        out->activation_bytes + out->buffer_bytes;
    out->iteration_s = parts_sum(out);
    close_causes(out);
    out->samples_per_s = (double)q->desc.batch * q->data / out->iteration_s;
    out->workers = q->desc.workers;
    out->data = q->data;
    out->tensor = q->desc.tensor;
    out->pipeline = q->desc.pipeline;
    out->context = q->desc.context;
    out->price = sum_of_workers(q, false);
    out->watts = sum_of_workers(q, true);
    fill_words(out);
    return SHOAL_OK;
}

shoal_status shoali_question_answer(const shoali_question *question, shoal_prediction *out)
{
    shoali_work w = {.q = question, .arena = shoali_arena_create(1 << 14)};
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
    double network = p->exposed_s + p->tensor_s + p->tensor_again_s + p->experts_s + p->context_s +
                     p->pipeline_s;
    double compute = p->iteration_s - network;
    double sigma = hypot(spread * compute, fmax(link, spread) * network);
    p->low_s = fmax(0, p->iteration_s - 2 * sigma);
    p->high_s = p->iteration_s + 2 * sigma;
}

/* With the question's cluster, which may be others', as it was. */
static shoal_status bound(const shoali_question *question, bool best, double *out)
{
    shoal_prediction p;
    shoali_question q = *question;
    shoali_cluster cluster = *question->cluster;
    const size_t bytes = cluster.accelerator_count * sizeof *cluster.accelerators;
    cluster.accelerators = shoali_alloc(bytes);
    if (cluster.accelerators == NULL)
        return SHOAL_ENOMEM;
    memcpy(cluster.accelerators, question->cluster->accelerators, bytes);
    for (uint32_t i = 0; i < cluster.accelerator_count; i++)
        cluster.accelerators[i].additive = !best;
    q.cluster = &cluster;
    q.perfect_overlap = best;
    q.desc.no_overlap = !best;
    const shoal_status status = shoali_question_answer(&q, &p);
    shoali_free(cluster.accelerators);
    *out = p.iteration_s;
    return status;
}

static shoal_status fill_interval(const shoali_question *q, shoal_prediction *p)
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

shoal_status shoali_question_predict(const shoali_question *q, shoal_prediction *out)
{
    SHOALI_TRY(shoali_question_answer(q, out));
    return fill_interval(q, out);
}

shoal_status shoal_predict(const shoal_predict_desc *desc, shoal_prediction *prediction_out)
{
    shoali_question q;
    shoal_prediction p;
    const shoali_scale none = SHOALI_SCALE_NONE;
    if (prediction_out == NULL || prediction_out->size != sizeof *prediction_out)
        return shoali_fail(SHOAL_EINVAL, "shoal_predict needs a prediction of this version's size");
    SHOALI_TRY(shoali_question_open(desc, &none, &q));
    shoal_status status = shoali_question_remember(&q, q.cluster->arena);
    if (status == SHOAL_OK)
        status = shoali_question_predict(&q, &p);
    shoali_question_close(&q);
    if (status == SHOAL_OK)
        *prediction_out = p;
    return status;
}
