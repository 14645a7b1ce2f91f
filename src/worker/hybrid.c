/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/hybrid.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "nn/exec.h"

/* ---------------------------------------------------------------- the input */

/* Whose samples of which split. A share that ends early is filled up with zeros, which count for
 * nothing: counts of what travels do not depend on how full the last batch of an epoch is. */
typedef struct source {
    const shoali_split *split;
    const shoali_crop *crop;
    shoali_share (*share)(shoal_train *train, uint64_t epoch, uint64_t step, uint32_t worker);
    uint64_t epoch, step;
} source;

static shoali_share train_share(shoal_train *train, uint64_t epoch, uint64_t step, uint32_t worker)
{
    return shoali_sampler_share(train->data.sampler, epoch, step, worker);
}

/* Test samples in order: worker r of step i takes [iNB + rB, + B). */
static shoali_share test_share(shoal_train *train, uint64_t epoch, uint64_t step, uint32_t worker)
{
    uint64_t share = train->hybrid->share, count = train->data.set->test.count;
    uint64_t first = (step * train->workers + worker) * share;
    uint32_t here = first >= count ? 0 : (uint32_t)(count - first < share ? count - first : share);
    (void)epoch;
    for (uint32_t i = 0; i < here; i++)
        train->hybrid->order[i] = (uint32_t)first + i;
    return (shoali_share){.indices = train->hybrid->order, .count = here, .total = 1};
}

/* One rank's share, cut to this worker's channels of the first stage. */
static void take_share(shoal_train *train, const source *from, uint32_t rank, float *rows,
                       size_t first, size_t width)
{
    struct shoali_hybrid *h = train->hybrid;
    size_t sample = (size_t)shoali_shape_elems(train->info.input);
    shoali_share share = from->share(train, from->epoch, from->step, rank);
    uint32_t scratch = rank == train->rank ? 0 : h->share; /* only the own labels count */
    shoali_dataset_fill(train->data.set, from->split, share.indices, share.count,
                        share.first_serial, from->crop, h->image, h->labels + scratch);
    memset(rows, 0, h->share * width * sizeof *rows);
    for (uint32_t i = 0; i < share.count; i++)
        memcpy(rows + i * width, h->image + i * sample + first, width * sizeof *rows);
}

static void fill_input(shoal_train *train, const source *from)
{
    shoali_stage *stage = &train->hybrid->stages[0];
    size_t sample = (size_t)shoali_shape_elems(train->info.input);
    size_t width = sample >> __builtin_popcount(stage->split);
    size_t first = width * shoali_hybrid_part(train->rank, stage->split);
    float *rows = stage->x;
    for (uint32_t rank = 0; rank < train->workers; rank++) {
        if ((rank & ~stage->split) != (train->rank & ~stage->split))
            continue;
        take_share(train, from, rank, rows, first, width);
        rows += train->hybrid->share * width;
    }
    stage->input = stage->x;
}

/* ---------------------------------------------------------------- forward */

/* A partial sum takes the bias from one worker only. */
static const float *run_stage(shoal_train *train, shoali_stage *stage)
{
    float *bias = train->params + stage->bias_offset;
    size_t bytes = (stage->split & train->rank) != 0 ? stage->bias_count * sizeof *bias : 0;
    if (stage->net == NULL)
        return stage->input;
    memcpy(stage->bias, bias, bytes);
    memset(bias, 0, bytes);
    const float *y = shoali_net_forward(stage->net, stage->input, stage->samples);
    memcpy(bias, stage->bias, bytes);
    return y;
}

static shoal_status forward(shoal_train *train, const float **scores_out)
{
    struct shoali_hybrid *h = train->hybrid;
    const float *y = NULL;
    for (uint32_t i = 0; i < h->stage_count; i++) {
        shoali_stage *stage = &h->stages[i];
        if (i > 0 && shoali_border_is_open(&stage->border))
            stage->input = y;
        else if (i > 0) {
            SHOALI_TRY(shoali_border_forward(&stage->border, y, stage->x));
            stage->input = stage->x;
        }
        y = run_stage(train, stage);
    }
    *scores_out = y;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- backward */

/* Among those that have the same part of the weights; others compute meanwhile. */
static shoal_status start_sum(shoal_train *train, shoali_stage *stage)
{
    const struct shoali_hybrid *h = train->hybrid;
    uint32_t found = 0, *members = h->members;
    for (uint32_t rank = 0; rank < train->workers; rank++)
        if ((rank & stage->split) == (train->rank & stage->split))
            members[found++] = rank;
    if (found == 1 || stage->count == 0 || train->desc.no_exchange)
        return SHOAL_OK;
    shoal_tensor tensors[SHOALI_LAYER_TENSORS_MAX];
    for (uint32_t t = 0; t < stage->tensor_count; t++) {
        tensors[t] = h->tensors[stage->first_tensor + t];
        tensors[t].offset -= stage->offset;
    }
    shoal_op_desc desc = SHOAL_OP_DESC_INIT;
    desc.kind = SHOAL_ALL_REDUCE;
    desc.buf = train->grads + stage->offset;
    desc.count = stage->count;
    desc.tensors = tensors;
    desc.tensor_count = stage->tensor_count;
    desc.members = members;
    desc.member_count = found;
    desc.collective = train->desc.collective;
    desc.push_codec = train->desc.codec;
    desc.tos = train->desc.tos;
    desc.label = shoal_model_tensor_name(train->model, stage->whole_tensor);
    return shoal_op_start(train->comm, &desc, &stage->op);
}

static shoal_status backward(shoal_train *train, const float *slope)
{
    struct shoali_hybrid *h = train->hybrid;
    for (uint32_t i = h->stage_count; i-- > 0;) {
        shoali_stage *stage = &h->stages[i];
        if (stage->net != NULL) {
            slope = shoali_net_backward(stage->net, stage->input, stage->samples, i > 0);
            SHOALI_TRY(start_sum(train, stage));
        }
        if (i > 0) /* an open border copies: the next net wants its slope in its own memory */
            SHOALI_TRY(
                shoali_border_backward(&stage->border, slope, shoali_net_slope(stage[-1].net)));
    }
    return SHOAL_OK;
}

/* Every operation is waited for, also after one failed: it still has our gradients. */
static shoal_status finish_sums(shoal_train *train)
{
    struct shoali_hybrid *h = train->hybrid;
    shoal_status status = SHOAL_OK;
    shoal_error error;
    for (uint32_t i = h->stage_count; i-- > 0;) {
        shoal_op_stats stats = {.size = sizeof stats};
        uint64_t start = shoali_now_us();
        if (h->stages[i].op == NULL)
            continue;
        shoal_status one = shoal_op_wait(&h->stages[i].op, -1, &stats);
        if (one == SHOAL_OK)
            shoali_traffic_add(&h->traffic, &stats, shoali_now_us() - start);
        else if (status == SHOAL_OK) {
            status = one;
            shoali_error_get(&error);
        }
    }
    return status == SHOAL_OK ? SHOAL_OK : shoali_error_set(&error);
}

static void report(const shoal_train *train, shoali_step_times *times)
{
    const shoali_traffic *t = &train->hybrid->traffic;
    times->sync = (shoal_sync_stats){.size = sizeof times->sync,
                                     .wait_us = t->wait_us,
                                     .comm_us = t->comm_us,
                                     .encode_ns = t->encode_ns,
                                     .decode_ns = t->decode_ns,
                                     .sent_payload_bytes = t->sent_bytes,
                                     .received_payload_bytes = t->received_bytes,
                                     .sent_elems = t->sent_elems,
                                     .dense_elems = t->sent_elems};
}

shoal_status shoali_hybrid_compute(shoal_train *train, uint64_t epoch, uint64_t step,
                                   shoali_step_times *times)
{
    struct shoali_hybrid *h = train->hybrid;
    shoali_share own = shoali_sampler_share(train->data.sampler, epoch, step, train->rank);
    const source from = {&train->data.set->train, &train->data.crop, train_share, epoch, step};
    const shoali_stage *last = &h->stages[h->part_count];
    float *slope = last->net != NULL ? shoali_net_slope(last->net) : h->slope;
    size_t classes = train->info.classes;
    uint64_t start = shoali_now_us();
    const float *scores = NULL;
    double loss = 0;
    uint32_t correct = 0;
    h->traffic = (shoali_traffic){0};
    fill_input(train, &from);
    SHOALI_TRY(forward(train, &scores));
    memset(slope, 0, h->share * classes * sizeof *slope);
    if (own.count > 0) /* each sample weighs 1 / total, and sums over workers are the mean */
        shoali_class_loss_of(train->model)(
            scores, h->labels, own.count, (uint32_t)classes, train->desc.label_smoothing,
            (float)own.count / (float)own.total, slope, &loss, &correct);
    shoal_status status = backward(train, slope);
    times->compute_us = (double)(shoali_now_us() - start - h->traffic.wait_us);
    shoal_status sums = finish_sums(train);
    if (status != SHOAL_OK || sums != SHOAL_OK)
        return status != SHOAL_OK ? status : sums;
    report(train, times);
    times->samples = own.count;
    times->loss = own.count > 0 ? loss / own.count : 0;
    train->epoch.loss += loss;
    train->epoch.samples += own.count;
    train->epoch.total_samples += own.total;
    return SHOAL_OK;
}

static shoal_status evaluate(shoal_train *train, double sums[3])
{
    uint64_t whole = (uint64_t)train->hybrid->share * train->workers;
    uint64_t steps = (train->data.set->test.count + whole - 1) / whole;
    for (uint64_t step = 0; step < steps; step++) {
        const source from = {&train->data.set->test, &train->data.test_crop, test_share, 0, step};
        const float *scores = NULL;
        double loss = 0;
        uint32_t correct = 0;
        fill_input(train, &from);
        SHOALI_TRY(forward(train, &scores));
        uint32_t count = test_share(train, 0, step, train->rank).count;
        if (count == 0)
            continue;
        shoali_class_loss_of(train->model)(scores, train->hybrid->labels, count,
                                           train->info.classes, 0, 0.0f, NULL, &loss, &correct);
        sums[0] += loss;
        sums[1] += correct;
        sums[2] += count;
    }
    return SHOAL_OK;
}

shoal_status shoali_hybrid_evaluate(shoal_train *train, double sums[3])
{
    const shoali_traffic step = train->hybrid->traffic; /* what a step sends is told apart */
    shoal_status status = evaluate(train, sums);
    train->hybrid->traffic = step;
    return status;
}
