/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's batch, of images or of sequences. */
#include "base/clock.h"
#include "base/error.h"
#include "model/model.h"
#include "trace/trace.h"
#include "train/train.h"

static uint32_t frames_of(const shoal_train *train)
{
    return train->data.set->sequences ? train->info.input.height : 1;
}

/* Sequences are as long as they are; the model says how long they may be. */
shoal_status shoali_train_fit_sequences(const shoal_train *train)
{
    const shoali_dataset *data = train->data.set;
    shoal_shape in = train->info.input;
    if (data->sequences != train->model->sequence)
        return shoali_fail(SHOAL_EINVAL, "model %s takes %s, the data in %s are %s",
                           train->info.name, train->model->sequence ? "sequences" : "images",
                           train->desc.data, data->sequences ? "sequences" : "images");
    if (train->hybrid != NULL)
        return shoali_fail(SHOAL_ENOTSUP, "layers over sequences are not divided among workers");
    if (in.channels != 1 || in.width != data->width)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s takes %u x %u x %u inputs, the data in %s are frames of %u "
                           "values",
                           train->info.name, in.channels, in.height, in.width, train->desc.data,
                           data->width);
    if (in.height < data->height) {
        (void)shoali_fail(SHOAL_EINVAL,
                          "model %s takes sequences of %u frames, the longest in %s has %u",
                          train->info.name, in.height, train->desc.data, data->height);
        shoali_error_advice("Let it take longer ones: --model %s:length=%u", train->info.name,
                            data->height);
        return SHOAL_EINVAL;
    }
    return SHOAL_OK;
}

/* Samples have as few pairs as they have; the model says how many it takes, and of which. */
shoal_status shoali_train_fit_pairs(const shoal_train *train)
{
    const shoali_dataset *data = train->data.set;
    const shoali_sparse_params *p = train->model->layers[0].params;
    if (data->pairs != train->model->pairs)
        return shoali_fail(
            SHOAL_EINVAL, "model %s takes %s, the data in %s are %s", train->info.name,
            train->model->pairs ? "features and their values" : "other data", train->desc.data,
            data->pairs       ? "features and their values"
            : data->sequences ? "sequences"
                              : "images or ids");
    if (train->hybrid != NULL)
        return shoali_fail(SHOAL_ENOTSUP, "sparse layers are not divided among workers");
    if (train->info.input.height >= data->height && (uint64_t)p->vocab >= data->ids)
        return SHOAL_OK;
    (void)shoali_fail(
        SHOAL_EINVAL,
        "model %s takes %u of %lld features in a sample, the data in %s have %u of %u",
        train->info.name, train->info.input.height, (long long)p->vocab, train->desc.data,
        data->height, data->ids);
    shoali_error_advice("Make it as large: --model %s:vocab=%u,length=%u", train->info.name,
                        data->ids, data->height);
    return SHOAL_EINVAL;
}

shoal_status shoali_train_make_batch(shoal_train *train)
{
    size_t input = (size_t)train->info.input.channels * train->info.input.height *
                   train->info.input.width;
    size_t labels = (size_t)train->data.test_batch * frames_of(train);
    train->data.x = shoali_arena_array(train->arena, train->data.test_batch * input,
                                       sizeof *train->data.x);
    train->data.labels = shoali_arena_array(train->arena, labels, sizeof *train->data.labels);
    train->data.order = shoali_arena_array(train->arena, train->data.test_batch,
                                           sizeof *train->data.order);
    if (train->data.set->sequences) {
        train->data.lengths = shoali_arena_array(train->arena, train->data.test_batch,
                                                 sizeof *train->data.lengths);
        if (train->data.lengths == NULL)
            return SHOAL_ENOMEM;
    }
    if (train->data.x == NULL || train->data.labels == NULL || train->data.order == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for a batch of %u", train->data.test_batch);
    return SHOAL_OK;
}

/* A slow machine's forward pass takes its part of the emulated time, too. */
static void turn(void *ctx)
{
    shoal_train *train = ctx;
    shoali_pace_layer(&train->pace, train->info.forward_flops);
    shoali_trace_note(train, SHOALI_TRACE_FORWARD, train->pass.times.made_us);
    train->pass.times.turned_us = shoali_now_us();
}

shoal_status shoali_train_pass(shoal_train *train, const shoali_share *share,
                               shoali_grads_ready ready, void *ctx, shoali_loss *loss_out)
{
    shoali_pass_times *pass = &train->pass.times;
    pass->began_us = shoali_now_us();
    shoali_train_fill(train, &train->data.set->train, share->indices, share->count,
                      share->first_serial, &train->data.crop);
    shoali_trace_note(train, SHOALI_TRACE_DATA, pass->began_us);
    pass->made_us = pass->turned_us = shoali_now_us();
    shoali_net_at_turn(train->net, ready != NULL ? turn : NULL, train);
    const shoali_batch batch = {.x = train->data.x,
                                .labels = train->data.labels,
                                .count = share->count,
                                .first_serial = share->first_serial,
                                .weight = share->weight,
                                .lengths = train->data.lengths};
    return shoali_net_train(train->net, &batch, ready, ctx, loss_out);
}

void shoali_train_fill(shoal_train *train, const shoali_split *split, const uint32_t *indices,
                       uint32_t count, uint64_t first_serial, const shoali_crop *crop)
{
    if (train->data.set->sequences)
        shoali_dataset_fill_sequences(train->data.set, split, indices, count, frames_of(train),
                                      train->data.x, train->data.labels, train->data.lengths);
    else
        shoali_dataset_fill(train->data.set, split, indices, count, first_serial, crop,
                            train->data.x, train->data.labels);
}
