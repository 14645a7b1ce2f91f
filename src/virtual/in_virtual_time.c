/* SPDX-License-Identifier: Apache-2.0 */
/* The task of a simulation (driver/sim_task.h): the networks, samples and optimisers of a training
 * run, computed at once whenever a worker's backward pass begins in virtual time. One net serves
 * all workers: parameters and statistics of batch norm are put into it first. Each has its own
 * optimiser, and its own sampler, since workers may be in different epochs. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "driver/sim_task.h"
#include "train/train.h"

typedef struct task {
    const shoal_train_desc *desc; /* until it is open */
    shoal_train *train;
    uint32_t workers, endpoints;
    shoali_optim **optims;     /* [endpoints] */
    shoali_sampler **samplers; /* [workers] */
    float *states;             /* [workers][state_count] */
    size_t state_count;
    double loss_sum, loss_count; /* since shoali_task.loss */
    shoali_task_made made;
} task;

static void close_task(void *ctx)
{
    task *t = ctx;
    for (uint32_t i = 0; t->optims != NULL && i < t->endpoints; i++)
        shoali_optim_destroy(t->optims[i]);
    for (uint32_t i = 0; t->samplers != NULL && i < t->workers; i++)
        shoali_sampler_destroy(t->samplers[i]);
    shoali_free(t->optims);
    shoali_free(t->samplers);
    shoali_free(t->states);
    shoal_train_destroy(t->train);
    shoali_free(t);
}

static void start(void *ctx, float *params_out)
{
    const shoal_train *train = ((task *)ctx)->train;
    memcpy(params_out, train->params, train->param_count * sizeof *params_out);
}

static void put(const task *t, const float *params, uint32_t worker)
{
    size_t count;
    memcpy(t->train->params, params, t->train->param_count * sizeof *params);
    float *state = shoali_net_state(t->train->net, &count);
    if (count > 0)
        memcpy(state, t->states + worker * count, count * sizeof *state);
}

static shoal_status gradient(void *ctx, uint32_t worker, uint64_t iteration, const float *params,
                             float *grads_out)
{
    task *t = ctx;
    shoal_train *train = t->train;
    uint64_t epoch = iteration / train->steps_per_epoch;
    shoali_share share = shoali_sampler_share(t->samplers[worker], epoch,
                                              iteration % train->steps_per_epoch, worker);
    shoali_loss loss;
    put(t, params, worker);
    SHOALI_TRY(shoali_train_pass(train, &share, NULL, NULL, &loss));
    memcpy(grads_out, train->grads, train->param_count * sizeof *grads_out);
    if (t->state_count > 0)
        memcpy(t->states + worker * t->state_count, shoali_net_state(train->net, &t->state_count),
               t->state_count * sizeof *t->states);
    t->loss_sum += loss.sum;
    t->loss_count += loss.count;
    t->made = (shoali_task_made){
        .loss = loss.count > 0 ? loss.sum / loss.count : (double)NAN,
        .lr = shoali_lr_at(train->update.lr, train->desc.lr, iteration, train->steps),
        .samples = share.count,
        .total = share.total,
        .first = share.first_serial,
        .step_first = epoch * train->data.set->train.count +
                      shoali_sampler_taken(t->samplers[worker], epoch,
                                           iteration % train->steps_per_epoch),
        .steps_per_epoch = train->steps_per_epoch};
    return SHOAL_OK;
}

static shoali_task_made made(void *ctx)
{
    return ((const task *)ctx)->made;
}

static void step(void *ctx, const shoali_task_step *s)
{
    const task *t = ctx;
    const shoal_train *train = t->train;
    const shoali_step own = {
        .offset = s->offset,
        .count = s->count,
        .params = s->params,
        .grads = s->grads,
        .params_out = s->params_out,
        .lr = (float)shoali_lr_at(train->update.lr, train->desc.lr, s->iteration, train->steps),
        .grad_scale = shoali_train_clip(train, s->grads, s->scale),
        .iteration = s->iteration};
    shoali_optim_step(t->optims[s->endpoint], &own);
}

static void adopt(void *ctx, uint32_t from, uint32_t to)
{
    const task *t = ctx;
    uint32_t slots = 0;
    const float *theirs = shoali_optim_state(t->optims[from], &slots);
    float *mine = shoali_optim_state(t->optims[to], &slots);
    size_t floats = (size_t)slots * t->train->param_count;
    if (floats > 0)
        memcpy(mine, theirs, floats * sizeof *mine);
    if (t->state_count > 0)
        memcpy(t->states + to * t->state_count, t->states + from * t->state_count,
               t->state_count * sizeof *mine);
}

static double mean_loss(void *ctx)
{
    task *t = ctx;
    double mean = t->loss_count > 0 ? t->loss_sum / t->loss_count : (double)NAN;
    t->loss_sum = t->loss_count = 0;
    return mean;
}

static shoal_status test_worker(void *ctx, uint32_t worker, const float *params,
                                double *accuracy_out)
{
    const task *t = ctx;
    float accuracy = NAN;
    if (t->train->desc.no_evaluation)
        return SHOAL_OK;
    put(t, params, worker);
    SHOALI_TRY(shoali_train_evaluate_alone(t->train, &accuracy));
    *accuracy_out = (double)accuracy;
    return SHOAL_OK;
}

/* With the mean of the workers' statistics of batch norm. */
static shoal_status test(void *ctx, const float *params, shoal_sim_results *results)
{
    const task *t = ctx;
    shoal_train *train = t->train;
    put(t, params, 0);
    float *state = shoali_net_state(train->net, &(size_t){0});
    for (size_t j = 0; j < t->state_count; j++) {
        float sum = 0;
        for (uint32_t w = 0; w < t->workers; w++)
            sum += t->states[w * t->state_count + j];
        state[j] = sum / (float)t->workers;
    }
    SHOALI_TRY(shoali_train_evaluate(train, true));
    results->test_loss = train->epoch.test_loss;
    results->test_accuracy = train->epoch.test_accuracy;
    return SHOAL_OK;
}

static shoal_status copy_states(task *t)
{
    const float *state = shoali_net_state(t->train->net, &t->state_count);
    if (t->state_count == 0)
        return SHOAL_OK;
    t->states = shoali_alloc_array(t->state_count * t->workers, sizeof *t->states);
    if (t->states == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t w = 0; w < t->workers; w++)
        memcpy(t->states + w * t->state_count, state, t->state_count * sizeof *state);
    return SHOAL_OK;
}

static shoal_status open_task(void *ctx, uint32_t workers, uint32_t endpoints,
                              uint64_t *iterations_inout)
{
    task *t = ctx;
    t->workers = workers;
    t->endpoints = endpoints;
    SHOALI_TRY(shoali_train_open_alone(t->desc, workers, &t->train));
    shoal_train *train = t->train;
    const shoal_train_desc *d = &train->desc;
    if (*iterations_inout > 0)
        train->steps = *iterations_inout;
    *iterations_inout = train->steps;
    t->optims = shoali_alloc_array(t->endpoints, sizeof(shoali_optim *));
    t->samplers = shoali_alloc_array(t->workers, sizeof(shoali_sampler *));
    if (t->optims == NULL || t->samplers == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < t->endpoints; i++)
        SHOALI_TRY(
            shoali_optim_create(d->optimizer, train->tensors, train->tensor_count, &t->optims[i]));
    for (uint32_t i = 0; i < t->workers; i++)
        SHOALI_TRY(shoali_sampler_create(train->data.set->train.count, t->workers, d->batch,
                                         d->seed, &t->samplers[i]));
    return copy_states(t);
}

/* The world, with what the training says about the job. */
static shoal_sim_desc merge(const shoal_sim_desc *world, const shoal_train_desc *d)
{
    shoal_sim_desc merged = *world;
    merged.sync = d->sync;
    merged.collective = d->collective;
    merged.codec = d->codec;
    merged.model = d->model;
    merged.tensors = NULL;
    merged.tensor_count = 0;
    merged.bucket_bytes = d->bucket_bytes;
    merged.nonfinite = d->nonfinite;
    merged.seed = d->seed;
    return merged;
}

/* What the optimiser asks of the protocol; nobody tests the average of one endpoint here. */
static shoal_status check_steps(const shoal_train_desc *desc, uint32_t workers)
{
    shoal_job job = SHOAL_JOB_INIT;
    uint32_t traits = 0;
    if (desc->optimizer != NULL)
        SHOALI_TRY(shoali_optim_ask(desc->optimizer, &traits));
    if ((traits & SHOALI_OPTIM_AVERAGES) != 0)
        return shoali_fail(
            SHOAL_EINVAL,
            "optimiser '%s': in virtual time the workers' weights are tested, not an "
            "average; leave ema out",
            desc->optimizer);
    shoal_train_job(desc, workers, &job);
    return shoal_job_check(&job);
}

shoal_status shoal_train_in_virtual_time(const shoal_train_desc *desc, const shoal_sim_desc *world,
                                         shoal_sim **sim_out)
{
    task *t;
    if (desc == NULL || world == NULL || sim_out == NULL || desc->size != sizeof *desc ||
        world->size != sizeof *world)
        return shoali_fail(SHOAL_EINVAL, "start from SHOAL_TRAIN_DESC_INIT and _SIM_DESC_INIT");
    if (desc->model == NULL || desc->plan != NULL || desc->resume != NULL || desc->batch_auto ||
        desc->simulate > 0 || desc->trace != NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "in virtual time there is a model, and neither a plan, nor "
                           "resume, nor batch auto, nor simulate, nor a trace");
    SHOALI_TRY(check_steps(desc, world->workers));
    if ((t = shoali_alloc(sizeof *t)) == NULL)
        return SHOAL_ENOMEM;
    t->desc = desc;
    const shoali_task given = {.ctx = t,
                               .open = open_task,
                               .start = start,
                               .gradient = gradient,
                               .made = made,
                               .step = step,
                               .adopt = adopt,
                               .loss = mean_loss,
                               .test_worker = test_worker,
                               .test = test,
                               .close = close_task};
    const shoal_sim_desc merged = merge(world, desc);
    return shoali_sim_create_task(&merged, &given, sim_out);
}
