/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker must hold. Sharing: Rajbhandari et al., "ZeRO: memory optimizations toward training
 * trillion parameter models", SC 2020, section 3 and figure 1: of N replicas each holds
 *
 *     0: W + G + S        1: W + G + S/N        2: W + (G + S)/N        3: (W + G + S)/N
 *
 * of weights, gradients and optimiser state. Microbatches under way on a stage: those of the
 * schedule (pipeline.c), the first stage has most. Activations of one: transformer.c, layers.c. */
#include <math.h>
#include <string.h>

#include "plan/predict.h"

/* Microbatches whose activations stage i keeps at once, in whole ones. */
static double under_way(const shoal_predict_desc *d, uint32_t i)
{
    double runs = (double)d->batch / d->microbatch, behind = d->pipeline - 1.0 - i;
    double chunks = d->interleave;
    if (chunks > 1)
        behind = runs == d->pipeline ? runs * chunks : 2 * behind + (chunks - 1) * d->pipeline;
    return fmin(runs * chunks, behind + 1) / chunks;
}

/* With ZeRO 3 two units' weights are whole at a time, the one at work and the next; with 2 and 3 a
 * unit's gradients until they are scattered. A boundary each to and from the neighbours. */
static double buffers_of(const shoali_work *w, const shoali_stage *s)
{
    const shoal_predict_desc *d = &w->q->desc;
    double bytes = s->dispatch_bytes;
    bytes += s->context_bytes;
    if (w->q->replicas > 1 && d->zero == 3)
        bytes += 2 * s->largest_unit * d->element_bytes;
    if (w->q->replicas > 1 && d->zero > 1)
        bytes += s->largest_unit * d->gradient_bytes;
    if (d->pipeline > 1)
        bytes += 2 * s->boundary_bytes / (d->sequence || !d->no_scatter ? d->tensor : 1);
    return bytes;
}

/* Of so many parameters of a stage, one replica's part. */
static double state_of(const shoali_work *w, double params)
{
    const shoal_predict_desc *d = &w->q->desc;
    return (d->zero >= 1 ? params / w->q->replicas : params) * d->state_bytes;
}

/* Down and up at the same time, beside the update. */
double shoali_offload_state_s(const shoali_work *w, const shoali_stage *s)
{
    if ((w->q->desc.offload & SHOAL_OFFLOAD_STATE) == 0)
        return 0;
    double way = state_of(w, s->params) / w->accelerator->host_bytes_per_s;
    return fmax(0, way - shoali_time_sum(s->update));
}

/* What stays here of state and activations when the host keeps them: two units', one at work and
 * one on its way. */
static void fill_offloaded(const shoali_work *w, const shoali_stage *s, shoal_prediction *out)
{
    const uint32_t offload = w->q->desc.offload;
    if ((offload & SHOAL_OFFLOAD_STATE) != 0)
        out->state_bytes = fmin(out->state_bytes, 2 * state_of(w, s->largest_unit));
    if ((offload & SHOAL_OFFLOAD_ACTIVATIONS) != 0)
        out->activation_bytes = fmin(out->activation_bytes, 2 * s->largest_kept + s->working_bytes);
}

static void fill_stage(const shoali_work *w, uint32_t i, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    const shoal_predict_desc *d = &q->desc;
    const shoali_stage *s = &w->stages[i];
    double all = s->params - s->expert_params, experts = s->expert_params;
    if (q->language && i == 0) /* the table of the embedding */
        all += q->transformer.vocab * q->transformer.hidden / d->tensor;
    double shared = all / q->replicas + experts / (q->data / d->experts), whole = all + experts;
    out->weight_bytes = (d->zero == 3 ? shared : whole) * d->element_bytes;
    out->gradient_bytes = (d->zero >= 2 ? shared : whole) * d->gradient_bytes;
    out->state_bytes = (d->zero >= 1 ? shared : whole) * d->state_bytes;
    out->activation_bytes = s->kept_bytes * under_way(d, i) + s->working_bytes;
    out->buffer_bytes = buffers_of(w, s);
    fill_offloaded(w, s, out);
}

static double sum_of(const shoal_prediction *p)
{
    return p->weight_bytes + p->gradient_bytes + p->state_bytes + p->activation_bytes +
           p->buffer_bytes;
}

void shoali_memory_fill(const shoali_work *w, shoal_prediction *out)
{
    const shoali_question *q = w->q;
    for (uint32_t i = 0; i < w->stage_count; i++) {
        shoal_prediction of = *out;
        fill_stage(w, i, &of);
        if (i == 0 || sum_of(&of) > sum_of(out))
            *out = of;
    }
    out->capacity_bytes = w->accelerator->memory_bytes;
    for (uint32_t i = 0; i < q->model->layer_count; i++)
        if (!q->desc.no_head || strcmp(q->model->layers[i].row->name, "transformer") == 0)
            out->params += (double)q->model->layers[i].param_count;
}
