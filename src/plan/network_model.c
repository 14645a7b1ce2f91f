/* SPDX-License-Identifier: Apache-2.0 */
/* A workload made from a model: one row per unit (layer or block) of the stage that computes
 * longest, with all its microbatches of a step together; rows for what is sent to the next stage
 * and for the optimiser. Computation and bytes are those of shoal predict (transformer.c,
 * layers.c); what exchanges take is the network's to say.
 *
 * A pipeline of p stages in v chunks fills and drains for (p - 1) / v microbatches more, as if all
 * stages took what this one does: its rows count for m + (p - 1) / v microbatches instead of m. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"
#include "plan/predict.h"

/* Rows under construction. */
typedef struct maker {
    const shoali_question *q;
    shoal_arena *arena;
    shoali_workload *out;
    double runs;    /* microbatches, those of filling and draining counted */
    double batches; /* without them */
} maker;

static shoali_workload_row *add_row(maker *m, const char *text, uint32_t number)
{
    char name[32];
    shoali_workload_row *row = &m->out->rows[m->out->row_count];
    snprintf(name, sizeof name, number < UINT32_MAX ? "%s%u" : "%s", text, number);
    char *copy = shoali_arena_alloc(m->arena, strlen(name) + 1);
    if (copy == NULL)
        return NULL;
    strcpy(copy, name);
    row->name = copy;
    m->out->row_count++;
    return row;
}

static double ns_of(double runs, shoali_time time)
{
    return 1e9 * runs * (shoali_time_sum(time) - time.network);
}

/* All-reduces that carry what replicas send of one unit's parameters (zero.c): 1 is W scattered and
 * W gathered. */
static double rounds_of(const maker *m)
{
    switch (m->q->desc.zero) {
    case 2:
        return (m->batches + 1) / 2;
    case 3:
        return 1.5 * m->batches;
    default:
        return 1;
    }
}

static void exchange(shoali_phase *phase, shoali_comm_kind kind, double bytes,
                     shoali_group_kind group)
{
    if (bytes > 0) {
        phase->comm = kind;
        phase->bytes = bytes;
        phase->group = group;
    }
}

/* Half of the backward pass are gradients of the inputs, half of the weights. */
static shoal_status add_unit(maker *m, const char *name, uint32_t number,
                             const shoali_block_cost *c)
{
    const shoali_question *q = m->q;
    shoali_workload_row *row = add_row(m, name, number);
    if (row == NULL)
        return SHOAL_ENOMEM;
    double sum = m->q->language ? q->desc.element_bytes : 4;
    double local = ns_of(m->runs, c->exchange) / 2, back = ns_of(m->runs, c->backward) / 2;
    shoali_phase *p = row->phase;
    p[SHOALI_PHASE_FORWARD].compute_ns = ns_of(m->runs, c->forward) + local;
    p[SHOALI_PHASE_INPUT_GRAD].compute_ns = ns_of(m->runs, c->recompute) + back + local;
    p[SHOALI_PHASE_WEIGHT_GRAD].compute_ns = back;
    exchange(&p[SHOALI_PHASE_FORWARD], SHOALI_COMM_ALL_REDUCE, m->runs * c->summed_bytes,
             SHOALI_GROUP_PHASE);
    exchange(&p[SHOALI_PHASE_INPUT_GRAD], SHOALI_COMM_ALL_REDUCE,
             m->runs * (c->summed_back_bytes + c->summed_again_bytes), SHOALI_GROUP_PHASE);
    bool apart = q->desc.experts > 1;
    exchange(&p[SHOALI_PHASE_WEIGHT_GRAD], SHOALI_COMM_ALL_REDUCE,
             rounds_of(m) * sum * (c->params - (apart ? c->expert_params : 0)), SHOALI_GROUP_PHASE);
    if (c->dispatch_bytes == 0)
        return SHOAL_OK;
    row = add_row(m, "experts", number);
    if (row == NULL)
        return SHOAL_ENOMEM;
    double again = q->desc.recompute == SHOAL_RECOMPUTE_FULL ? 2 : 1;
    exchange(&row->phase[SHOALI_PHASE_FORWARD], SHOALI_COMM_ALL_TO_ALL, m->runs * c->dispatch_bytes,
             SHOALI_GROUP_EXPERTS);
    exchange(&row->phase[SHOALI_PHASE_INPUT_GRAD], SHOALI_COMM_ALL_TO_ALL,
             m->runs * again * c->dispatch_bytes, SHOALI_GROUP_EXPERTS);
    exchange(&row->phase[SHOALI_PHASE_WEIGHT_GRAD], SHOALI_COMM_ALL_REDUCE,
             rounds_of(m) * sum * c->expert_params, SHOALI_GROUP_EXPERT_REPLICAS);
    return SHOAL_OK;
}

static shoal_status add_others(maker *m, const shoali_stage *stage)
{
    const shoal_predict_desc *d = &m->q->desc;
    shoali_workload_row *row = add_row(m, "optimiser", UINT32_MAX);
    if (row == NULL)
        return SHOAL_ENOMEM;
    row->phase[SHOALI_PHASE_FORWARD].compute_ns = ns_of(1, stage->update);
    if (d->pipeline < 2)
        return SHOAL_OK;
    row = add_row(m, "next-stage", UINT32_MAX);
    if (row == NULL)
        return SHOAL_ENOMEM;
    double bytes = m->runs * d->interleave * stage->boundary_bytes /
                   (d->sequence || !d->no_scatter ? d->tensor : 1);
    exchange(&row->phase[SHOALI_PHASE_FORWARD], SHOALI_COMM_SEND, bytes, SHOALI_GROUP_STAGES);
    exchange(&row->phase[SHOALI_PHASE_INPUT_GRAD], SHOALI_COMM_SEND, bytes, SHOALI_GROUP_STAGES);
    return SHOAL_OK;
}

static shoal_status make_rows(const shoali_question *q, shoal_arena *scratch, maker *m)
{
    shoali_work w = {.q = q, .arena = scratch};
    w.accelerator = &q->cluster->accelerators[q->cluster->hosts[0].accelerator];
    SHOALI_TRY(shoali_work_stages(&w));
    shoali_stage *stage = &w.stages[w.busiest];
    stage->boundary_bytes = w.stages[0].boundary_bytes; /* the last one hands on nothing */
    m->out->rows = shoali_arena_array(m->arena, 2 * (size_t)stage->count + 2, sizeof *m->out->rows);
    if (m->out->rows == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < stage->count; i++) {
        const shoali_block_cost *c = &w.units[stage->first + i].cost;
        const bool head = q->language && w.busiest + 1 == w.stage_count && i + 1 == stage->count;
        SHOALI_TRY(add_unit(m,
                            head          ? "scores"
                            : q->language ? "block"
                                          : "layer",
                            head ? UINT32_MAX : i, c));
    }
    return add_others(m, stage);
}

static shoal_status make(const shoali_question *q, shoal_network *net, shoali_network_job *out)
{
    const shoal_predict_desc *d = &q->desc;
    double batches = (double)d->batch / d->microbatch;
    maker m = {.q = q,
               .arena = net->arena,
               .out = &out->workload,
               .runs = batches + (d->pipeline - 1.0) / d->interleave,
               .batches = batches};
    shoal_arena *scratch = shoali_arena_create(1 << 14);
    shoal_status status = scratch != NULL ? make_rows(q, scratch, &m) : SHOAL_ENOMEM;
    shoali_arena_destroy(scratch);
    if (status != SHOAL_OK)
        return status;
    out->workload.parallelism = "";
    out->split = (shoali_network_split){d->tensor, d->experts, q->data / d->experts, d->pipeline};
    return shoali_network_place(&out->split, net, &out->communicator);
}

shoal_status shoali_network_model(const shoal_predict_desc *desc, shoal_network *net,
                                  shoali_network_job *out)
{
    shoali_question q;
    if (desc->size != sizeof *desc || desc->model == NULL)
        return shoali_fail(SHOAL_EINVAL, "a job's model needs SHOAL_PREDICT_DESC_INIT and a model");
    if (desc->cluster == NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s needs a cluster file whose accelerator computes it",
                           desc->model);
    if (desc->plan != NULL || desc->sync != NULL || desc->collective != NULL ||
        desc->codec != NULL || desc->workers != 0 || desc->context > 1 || desc->offload != 0)
        return shoali_fail(
            SHOAL_EINVAL,
            "a network is designed for all of its accelerators and for collectives "
            "that match its dimensions, without codecs: leave plan, workers, context, offload, "
            "sync, collective and codec out");
    SHOALI_TRY(shoali_question_compute(desc, net->dimension, net->dims, &q));
    shoal_status status = make(&q, net, out);
    shoali_question_close(&q);
    return status;
}
