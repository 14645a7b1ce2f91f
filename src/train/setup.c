/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/plain_file.h"
#include "comm/comm.h"
#include "data/augment.h"
#include "driver/driver.h"
#include "files/digest.h"
#include "folder/events.h"
#include "folder/run_file.h"
#include "model/model_text.h"
#include "shoal/job.h"
#include "trace/trace.h"
#include "train/train.h"
#include "train/uneven.h"
#include "worker/admm.h"
#include "worker/codec_choice.h"
#include "worker/hybrid.h"
#include "worker/simulated.h"

static shoal_status keep(shoal_arena *arena, const char **text, const char *fallback)
{
    const char *value = *text != NULL ? *text : fallback;
    if (value == NULL)
        return SHOAL_OK;
    *text = shoali_arena_strdup(arena, value);
    return *text != NULL ? SHOAL_OK
                         : shoali_fail(SHOAL_ENOMEM, "no memory for the training's options");
}

/* A plan says which model and, of all workers together, which batch. */
static shoal_status read_plan(shoal_train *train)
{
    shoal_train_desc *d = &train->desc;
    train->hybrid = shoali_arena_alloc(train->arena, sizeof *train->hybrid);
    if (train->hybrid == NULL)
        return SHOAL_ENOMEM;
    SHOALI_TRY(shoal_partition_open(d->plan, &train->hybrid->plan));
    const shoal_partition *plan = train->hybrid->plan;
    if (d->model != NULL && strcmp(d->model, plan->model) != 0)
        return shoali_fail(SHOAL_EINVAL, "the plan %s is for model %s, not %s", d->plan,
                           plan->model, d->model);
    d->model = plan->model;
    d->batch = d->batch != 0 ? d->batch : plan->batch >> plan->levels;
    return SHOAL_OK;
}

static shoal_status set_defaults(shoal_train *train)
{
    shoal_train_desc *d = &train->desc;
    SHOALI_TRY(shoali_run_file_complete(train));
    if (d->plan != NULL)
        SHOALI_TRY(read_plan(train));
    if (d->model == NULL || d->data == NULL)
        return shoali_fail(SHOAL_EINVAL, "training needs a model and a data directory");
    SHOALI_TRY(keep(train->arena, &d->model, NULL));
    SHOALI_TRY(keep(train->arena, &d->data, NULL));
    SHOALI_TRY(keep(train->arena, &d->out, NULL));
    SHOALI_TRY(keep(train->arena, &d->plan, NULL));
    SHOALI_TRY(keep(train->arena, &d->resume, NULL));
    SHOALI_TRY(keep(train->arena, &d->start, NULL));
    SHOALI_TRY(keep(train->arena, &d->admm, NULL));
    SHOALI_TRY(keep(train->arena, &d->augment, NULL));
    SHOALI_TRY(keep(train->arena, &d->admm_model, NULL));
    SHOALI_TRY(keep(train->arena, &d->dump_gradients, NULL));
    SHOALI_TRY(keep(train->arena, &d->options, NULL));
    SHOALI_TRY(keep(train->arena, &d->trace, NULL));
    SHOALI_TRY(keep(train->arena, &d->slow_random, NULL));
    SHOALI_TRY(keep(train->arena, &d->sync, "all_reduce"));
    SHOALI_TRY(keep(train->arena, &d->collective, "ring"));
    SHOALI_TRY(keep(train->arena, &d->codec, "identity"));
    SHOALI_TRY(keep(train->arena, &d->optimizer, "sgd:momentum=0.9"));
    SHOALI_TRY(keep(train->arena, &d->schedule, "constant"));
    d->lr = d->lr != 0 ? d->lr : 0.02;
    d->batch = d->batch != 0 ? d->batch : 64;
    d->epochs = d->epochs != 0 ? d->epochs : 1;
    d->seed = d->seed != 0 ? d->seed : 1;
    d->check_every = d->check_every != 0 ? d->check_every : 100;
    d->evaluate_every = d->evaluate_every != 0 ? d->evaluate_every : 1;
    d->slow = d->slow != 0 ? d->slow : 1;
    d->dump_every = d->dump_every != 0 ? d->dump_every : 100;
    if (!(d->clip_norm >= 0 && d->clip_norm < 1e30) ||
        !(d->label_smoothing >= 0 && d->label_smoothing < 1))
        return shoali_fail(
            SHOAL_EINVAL,
            "clip norm %g or label smoothing %g is out of range: it must be at least "
            "0, and smoothing below 1",
            d->clip_norm, d->label_smoothing);
    if (!(d->lr > 0 && d->lr < 1e6) || d->batch > 65536 || d->epochs > 1000000 || !(d->slow >= 1) ||
        !(d->compute_ms >= 0 && d->compute_ms < 3.6e6))
        return shoali_fail(SHOAL_EINVAL,
                           "lr %g, batch %u, epochs %u, slow %g or compute %g ms is out of range",
                           d->lr, d->batch, d->epochs, d->slow, d->compute_ms);
    return SHOAL_OK;
}

static shoal_status join_workers(shoal_train *train, shoal_comm *comm)
{
    shoal_view view = {.size = sizeof view};
    train->workers = train->desc.simulate > 0 ? train->desc.simulate : 1;
    if (train->desc.simulate > 0 && comm != NULL)
        return shoali_fail(SHOAL_EINVAL, "simulated workers need no communicator");
    if (comm != NULL) {
        SHOALI_TRY(shoal_comm_view(comm, &view));
        train->comm = comm;
        train->rank = view.rank;
        train->workers = view.workers;
        train->server = view.rank >= view.workers;
        train->members.epoch = view.epoch;
    }
    train->members.ranks = shoali_arena_array(train->arena, train->workers,
                                              sizeof *train->members.ranks);
    if (train->members.ranks == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %u workers", train->workers);
    train->epoch.worker_accuracy = shoali_arena_array(train->arena, train->workers,
                                                      sizeof *train->epoch.worker_accuracy);
    if (train->epoch.worker_accuracy == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for %u workers", train->workers);
    train->members.count = train->workers;
    train->members.place = train->rank;
    train->totals.began_us = shoali_now_us();
    for (uint32_t i = 0; i < train->workers; i++) {
        train->members.ranks[i] = i;
        train->epoch.worker_accuracy[i] = 0;
    }
    return SHOAL_OK;
}

/* The token that hides others is to be none of the texts' own, unless it is named. */
static shoal_status fit_masked(const shoal_train *train)
{
    const shoali_dataset *data = train->data.set;
    if (!train->model->masked)
        return SHOAL_OK;
    const shoali_masked_params *p = train->model->layers[train->model->layer_count - 1].params;
    if (!data->tokens)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s is trained to tell hidden tokens, the data in %s have none "
                           "(shoal data text makes some)",
                           train->info.name, train->desc.data);
    if (train->hybrid != NULL)
        return shoali_fail(SHOAL_ENOTSUP,
                           "model %s is trained to tell hidden tokens, which plans cannot hide",
                           train->info.name);
    if (p->mask < 0 && train->info.classes == data->classes)
        return shoali_fail(SHOAL_EINVAL,
                           "model %s hides tokens behind its last one, %u, which the data in %s "
                           "use: say vocab=%u behind the model, or masked:mask= in its file",
                           train->info.name, data->classes - 1, train->desc.data,
                           data->classes + 1);
    return SHOAL_OK;
}

/* The model's input may be a cut-out of the images (cifarnet: 24 x 24 of 32 x 32), at random places
 * in training. */
static shoal_status fit_crop(shoal_train *train)
{
    const shoali_dataset *data = train->data.set;
    shoal_shape in = train->info.input;
    bool flat = in.height == 1 && in.width == 1 &&
                in.channels == data->channels * data->height * data->width;
    SHOALI_TRY(shoali_net_runs(train->model));
    if (data->pairs || train->model->pairs)
        SHOALI_TRY(shoali_train_fit_pairs(train));
    else if (data->sequences || train->model->sequence)
        SHOALI_TRY(shoali_train_fit_sequences(train));
    else if (!flat &&
             (in.channels != data->channels || in.height > data->height || in.width > data->width))
        return shoali_fail(SHOAL_EINVAL,
                           "model %s takes %u x %u x %u inputs, the data in %s are %u x %u x %u",
                           train->info.name, in.channels, in.height, in.width, train->desc.data,
                           data->channels, data->height, data->width);
    if (train->info.classes < data->classes)
        return shoali_fail(SHOAL_EINVAL, "model %s has %u classes, the data in %s have %u",
                           train->info.name, train->info.classes, train->desc.data, data->classes);
    SHOALI_TRY(fit_masked(train));
    if (train->desc.label_smoothing > 0 && train->model->hinge && train->hybrid != NULL)
        return shoali_fail(SHOAL_EINVAL, "the hinge loss of model %s has no labels to smooth",
                           train->info.name);
    if (train->desc.augment != NULL && (data->sequences || data->ids > 0))
        return shoali_fail(SHOAL_EINVAL, "--augment is for images, the data in %s are %s",
                           train->desc.data, data->sequences ? "sequences" : "ids");
    if (data->sequences)
        return SHOAL_OK;
    uint32_t height = flat ? data->height : in.height, width = flat ? data->width : in.width;
    bool smaller = !data->pairs && (height < data->height || width < data->width);
    train->data.test_crop = (shoali_crop){.height = height, .width = width};
    train->data.crop = (shoali_crop){.height = height,
                                     .width = width,
                                     .random = smaller,
                                     .mirror = data->natural && smaller,
                                     .seed = train->desc.seed};
    return train->desc.augment != NULL
               ? shoali_augment_parse(train->desc.augment, &train->data.crop)
               : SHOAL_OK;
}

static void say_precision(const shoal_train *train)
{
    if (train->rank == 0 && shoali_net_rounds_slowly(train->model))
        shoali_log(WARN,
                   "this CPU multiplies no bfloat16: products of %s are made in float32 of "
                   "rounded operands, which takes longer than --precision float32",
                   train->desc.model);
}

static shoal_status open_net(shoal_train *train)
{
    say_precision(train);
    const shoal_train_desc *d = &train->desc;
    uint32_t most = d->batch_auto ? SHOALI_UNEVEN_MOST * d->batch : d->batch;
    train->data.test_batch = train->data.set->sequences ? most
                                                        : shoali_net_samples(train->model, most);
    SHOALI_TRY(shoali_net_create(train->model, train->data.test_batch, d->seed, &train->net));
    SHOALI_TRY(shoali_net_smooth(train->net, d->label_smoothing));
    SHOALI_TRY(shoali_optim_create(d->optimizer, train->tensors, train->tensor_count,
                                   &train->update.optim));
    train->params = shoali_net_params(train->net);
    train->grads = shoali_net_grads(train->net);
    train->param_count = shoali_net_count(train->net);
    train->pass.ranges = shoali_arena_array(train->arena, train->tensor_count + 1,
                                            sizeof *train->pass.ranges);
    if (train->pass.ranges == NULL)
        return SHOAL_ENOMEM;
    return shoali_train_make_batch(train);
}

/* The same by a plan. Each worker has an optimiser for its own parts. */
static shoal_status open_stages(shoal_train *train)
{
    say_precision(train);
    SHOALI_TRY(shoali_hybrid_create(train));
    train->update.owner_used = true;
    return shoali_optim_create(train->desc.optimizer, train->hybrid->tensors,
                               train->hybrid->tensor_count, &train->update.optim);
}

static shoal_status open_inputs(shoal_train *train)
{
    const shoal_train_desc *d = &train->desc;
    SHOALI_TRY(train->folder.model_json != NULL
                   ? shoali_model_from_json(d->model, train->folder.model_json, &train->model)
                   : shoal_model_open(d->model, &train->model));
    train->info = (shoal_model_info)SHOAL_MODEL_INFO_INIT;
    SHOALI_TRY(shoal_model_describe(train->model, &train->info));
    train->tensors = shoal_model_tensors(train->model, &train->tensor_count);
    SHOALI_TRY(shoali_dataset_open(d->data, &train->data.set));
    SHOALI_TRY(fit_crop(train));
    if (train->data.set->train.count == 0)
        return shoali_fail(SHOAL_EINVAL, "no training samples in %s", d->data);
    SHOALI_TRY(shoali_sampler_create(train->data.set->train.count, train->workers, d->batch,
                                     d->seed, &train->data.sampler));
    SHOALI_TRY(shoali_lr_create(d->schedule, &train->update.lr));
    return train->hybrid != NULL ? open_stages(train) : open_net(train);
}

static shoal_status plan_steps(shoal_train *train)
{
    shoali_train_plan_steps(train);
    double per_sample = train->info.forward_flops + train->info.backward_flops;
    train->pace = (shoali_pace){.slow = train->desc.slow,
                                .usual = train->desc.slow,
                                .deadline_us = train->desc.compute_ms * 1e3,
                                .total_flops = per_sample};
    return shoali_pace_chance(&train->pace, train->desc.slow_random);
}

/* A server's file of a finished step is due once the first gradient of the next one is complete.
 * Workers whose replicas differ write one checkpoint, when they have become one. */
static shoal_status save_before(shoal_train *train, uint64_t iteration)
{
    if (!train->server || iteration == train->update.owner_iteration || train->loose)
        return SHOAL_OK;
    uint64_t done = train->update.owner_iteration + 1;
    if (train->update.owner_saved == done || !train->update.owner_used ||
        !shoali_checkpoint_due(train, done))
        return SHOAL_OK;
    train->update.owner_saved = done;
    return shoali_checkpoint_save_owner(train, done);
}

/* The optimiser step of a parameter server, for the range whose gradient sum is complete. */
static shoal_status owner_step(void *user, float *sum_in_weights_out, size_t offset, size_t count,
                               uint64_t iteration, float scale)
{
    shoal_train *train = user;
    SHOALI_TRY(save_before(train, iteration));
    train->update.owner_used = true;
    train->update.owner_iteration = iteration;
    shoali_step step = {
        .offset = offset,
        .count = count,
        .params = shoali_net_params(train->net) + offset,
        .grads = sum_in_weights_out,
        .params_out = sum_in_weights_out,
        .lr = (float)shoali_lr_at(train->update.lr, train->desc.lr, iteration, train->steps),
        .grad_scale = scale,
        .iteration = iteration};
    shoali_optim_step(train->update.optim, &step);
    return SHOAL_OK;
}

static void note_bucket(void *user, const shoali_sync_bucket *b)
{
    const uint64_t took_us = b->ended_us - b->started_us;
    shoali_trace_add(
        user, (shoali_trace_event){
                  .start_us = b->started_us,
                  .took_us = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX,
                  .step = b->iteration,
                  .offset = b->offset,
                  .sent_bytes = b->sent_bytes < UINT32_MAX ? (uint32_t)b->sent_bytes : UINT32_MAX,
                  .encode_us = (uint32_t)(b->encode_ns / 1000),
                  .decode_us = (uint32_t)(b->decode_ns / 1000),
                  .kind = SHOALI_TRACE_EXCHANGE});
}

shoal_status shoali_train_start_sync(shoal_train *train)
{
    if (train->comm == NULL || train->desc.no_exchange)
        return train->server
                   ? shoali_fail(SHOAL_EINVAL,
                                 "a dedicated server has nothing to do without an exchange")
                   : SHOAL_OK;
    if (train->hybrid != NULL) /* it moves gradients itself, by layers */
        return SHOAL_OK;
    shoal_sync_desc desc = SHOAL_SYNC_DESC_INIT;
    desc.sync = train->desc.sync;
    desc.collective = train->desc.collective;
    desc.codec = shoal_train_codec(train);
    desc.params = shoali_net_params(train->net);
    desc.grads = shoali_net_grads(train->net);
    desc.count = shoali_net_count(train->net);
    desc.tensors = train->tensors;
    desc.tensor_count = train->tensor_count;
    desc.bucket_bytes = train->desc.bucket_bytes;
    desc.nonfinite = train->desc.nonfinite;
    desc.iteration = train->step;
    desc.tos = train->desc.tos;
    SHOALI_TRY(shoali_sync_create_row(train->comm, &desc, NULL, &train->sync));
    shoali_sync_set_owner(train->sync, owner_step, train);
    if (train->trace != NULL)
        shoali_sync_set_watcher(train->sync, note_bucket, train->trace);
    if (train->choice != NULL)
        SHOALI_TRY(shoali_sync_set_codec(train->sync, desc.codec));
    train->loose = !shoali_sync_is_exact(train->sync);
    shoali_trace_reform(train);
    train->folder.apart.able = train->loose && shoali_sync_is_apart(train->sync);
    if (train->state.carried != NULL)
        shoali_sync_carry(train->sync, train->state.carried);
    return SHOAL_OK;
}

/* Waits for no view, so that even a refusal that every rank makes alone is the same everywhere. */
static shoal_status check_job(const shoal_train *train)
{
    shoal_job job = SHOAL_JOB_INIT;
    shoal_train_job(&train->desc, train->workers, &job);
    return shoal_job_check(&job);
}

/* Both limits hold, so each that stands in the way is named. */
static void advise_more(const shoal_train *train)
{
    char steps[64] = "", epochs[96] = "";
    const unsigned long long done = train->step, each = train->steps_per_epoch;
    const bool few_steps = train->desc.max_steps > 0 && train->desc.max_steps <= done;
    const uint32_t more = train->desc.epochs + 1;
    unsigned long long least = each > 0 ? done / each + 1 : more;
    if (few_steps)
        snprintf(steps, sizeof steps, "--steps above %llu%s", done,
                 train->desc.epochs < least ? " and " : "");
    if (!few_steps || train->desc.epochs < least) {
        least = least > train->desc.epochs ? least : more;
        snprintf(epochs, sizeof epochs, "--epochs %llu or more, of %llu steps each", least, each);
    }
    shoali_error_advice("To go on, ask for %s%s; `shoal eval --from %s` tells how good it is.",
                        steps, epochs, train->desc.resume);
}

static shoal_status all_done(const shoal_train *train)
{
    if (train->rank == 0 && train->desc.out != NULL && train->folder.saved.step == train->steps &&
        shoali_folder_goes_on(train))
        SHOALI_TRY(shoali_checkpoint_conclude(train->desc.out, train->folder.saved));
    const unsigned long long done = train->step, most = train->desc.max_steps;
    const unsigned long long end = train->desc.epochs * train->steps_per_epoch;
    if (most > 0 && most < done)
        (void)shoali_fail(SHOAL_EINVAL, "%s is at step %llu already, and --steps %llu counts all",
                          train->desc.resume, done, most);
    else if (end < done)
        (void)shoali_fail(SHOAL_EINVAL, "%s is at step %llu already, and --epochs %u ends at %llu",
                          train->desc.resume, done, train->desc.epochs, end);
    else
        (void)shoali_fail(SHOAL_EINVAL, "%s has already done %llu of %llu steps",
                          train->desc.resume, done, (unsigned long long)train->steps);
    advise_more(train);
    return SHOAL_EINVAL;
}

static shoal_status set_up(shoal_train *train, shoal_comm *comm)
{
    SHOALI_TRY(set_defaults(train));
    SHOALI_TRY(join_workers(train, comm));
    SHOALI_TRY(check_job(train));
    SHOALI_TRY(shoali_stop_check(train));
    SHOALI_TRY(open_inputs(train));
    if (train->rank == 0 && (train->desc.out != NULL || train->desc.resume != NULL))
        SHOALI_TRY(shoali_digest_of_data(train->data.set, train->folder.data_sha256));
    SHOALI_TRY(shoali_choice_create(train));
    SHOALI_TRY(plan_steps(train));
    if (train->comm != NULL) /* another training's on it: a checkpoint brings its own */
        shoali_comm_forget_residuals(train->comm);
    SHOALI_TRY(shoali_gradients_begin(train)); /* not a thousand steps on */
    SHOALI_TRY(shoali_folder_enter(train));
    SHOALI_TRY(shoali_events_open(train));
    const bool is_first = train->members.epoch == 0; /* else others have the state */
    if (train->desc.resume != NULL && is_first)
        SHOALI_TRY(shoali_checkpoint_choose(train));
    if (train->desc.start != NULL && train->folder.saved.step == 0 && is_first)
        SHOALI_TRY(shoali_checkpoint_start(train));
    SHOALI_TRY(shoali_admm_create(train));
    shoali_optim_begin(train->update.optim, train->params);
    if (train->folder.saved.step > 0)
        SHOALI_TRY(shoali_checkpoint_load(train));
    if (train->members.epoch > 0 && train->desc.reform) {
        bool exact;
        SHOALI_TRY(shoali_sync_asks(train->desc.sync, &exact, &train->state.carries));
        train->loose = !exact;
        SHOALI_TRY(shoali_train_take_state(train));
    } else if (train->step >= train->steps)
        return all_done(train);
    SHOALI_TRY(shoali_uneven_create(train));
    SHOALI_TRY(shoali_folder_undo(train));
    SHOALI_TRY(shoali_metrics_open(train));
    if (train->members.epoch > 0)
        SHOALI_TRY(shoali_metrics_reform(train, 0));
    SHOALI_TRY(shoali_straggler_open(train));
    SHOALI_TRY(shoali_trace_open(train));
    SHOALI_TRY(train->desc.simulate > 0 ? shoali_simulated_create(train)
                                        : shoali_train_start_sync(train));
    shoali_stop_begin(train);
    return shoali_events_begin(train);
}

/* One with nothing in it yet; NULL: no memory. */
static shoal_train *empty(const shoal_train_desc *desc)
{
    shoal_train *train = shoali_alloc(sizeof *train);
    if (train == NULL)
        return NULL;
    train->desc = *desc;
    train->epoch.train_loss = train->epoch.test_loss = train->epoch.test_accuracy = (double)NAN;
    train->epoch.symbol_error_rate = train->epoch.bits_per_byte = (double)NAN;
    train->arena = shoali_arena_create(1 << 16);
    if (train->arena != NULL)
        return train;
    shoali_free(train);
    return NULL;
}

static shoal_status hand_over(shoal_train *train, shoal_status status, shoal_train **train_out)
{
    if (status == SHOAL_OK)
        *train_out = train;
    else {
        shoali_folder_give_up(train);
        shoal_train_destroy(train);
    }
    return status;
}

shoal_status shoali_train_create_as(shoal_comm *comm, const shoal_train_desc *desc,
                                    const char *model_json, shoal_train **train_out)
{
    if (desc == NULL || desc->size != sizeof *desc)
        return shoali_fail(
            SHOAL_EINVAL, "shoal_train_desc: size is not sizeof; start from SHOAL_TRAIN_DESC_INIT");
    shoal_train *train = empty(desc);
    if (train == NULL)
        return SHOAL_ENOMEM;
    train->folder.model_json = model_json;
    shoal_status status = keep(train->arena, &train->folder.model_json, NULL);
    return hand_over(train, status == SHOAL_OK ? set_up(train, comm) : status, train_out);
}

shoal_status shoal_train_create(shoal_comm *comm, const shoal_train_desc *desc,
                                shoal_train **train_out)
{
    return shoali_train_create_as(comm, desc, NULL, train_out);
}

const char *shoal_train_model(const shoal_train *train)
{
    return train->desc.model;
}

static shoal_status set_up_alone(shoal_train *train, uint32_t workers)
{
    train->desc.simulate = workers;
    SHOALI_TRY(set_defaults(train));
    SHOALI_TRY(join_workers(train, NULL));
    SHOALI_TRY(open_inputs(train));
    SHOALI_TRY(plan_steps(train));
    return SHOAL_OK;
}

shoal_status shoali_train_open_alone(const shoal_train_desc *desc, uint32_t workers,
                                     shoal_train **train_out)
{
    shoal_train *train = empty(desc);
    if (train == NULL)
        return SHOAL_ENOMEM;
    return hand_over(train, set_up_alone(train, workers), train_out);
}

void shoal_train_destroy(shoal_train *train)
{
    if (train == NULL)
        return;
    shoal_error error;
    shoali_error_get(&error); /* leaving must not cover what went wrong */
    shoal_sync_destroy(train->sync);
    shoali_simulated_destroy(train);
    shoali_choice_destroy(train);
    shoali_trace_close(train);
    shoali_metrics_close(train);
    shoali_events_close(train);
    shoali_gradients_end(train);
    shoali_digest_end(&train->folder.marks.digest);
    shoali_lr_destroy(train->update.lr);
    shoali_optim_destroy(train->update.optim);
    shoali_sampler_destroy(train->data.sampler);
    shoali_hybrid_destroy(train);
    shoali_net_destroy(train->net);
    shoali_dataset_close(train->data.set);
    shoal_model_close(train->model);
    shoali_arena_destroy(train->arena);
    shoali_folder_release(train);
    shoali_free(train->lost.them);
    shoali_free(train->folder.apart.written);
    shoali_free(train);
    shoali_error_set(&error);
}
