/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of real models on made-up samples: how long, and when which gradients are final.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "model/model_text.h"
#include "nn/nn.h"
#include "nn/optim.h"

typedef struct step {
    shoali_net *net;
    shoali_optim *optim;
    shoali_batch batch;
    shoal_status status;
    uint64_t start_us;
    double update_us; /* sum over the calls */
    double *ready;    /* sums over the calls, back to front */
    uint32_t ready_count, calls;
} step;

static shoal_status on_ready(void *ctx, size_t offset, size_t count)
{
    step *s = ctx;
    (void)offset;
    (void)count;
    s->ready[s->ready_count++] += (double)(shoali_now_us() - s->start_us);
    return SHOAL_OK;
}

static void update(step *s)
{
    shoali_step change = {.count = shoali_net_count(s->net),
                          .params = shoali_net_params(s->net),
                          .grads = shoali_net_grads(s->net),
                          .params_out = shoali_net_params(s->net),
                          .lr = 1e-6f,
                          .grad_scale = 1};
    uint64_t start = shoali_now_us();
    shoali_optim_step(s->optim, &change);
    s->update_us += (double)(shoali_now_us() - start);
}

/* The optimiser follows the pass as in training: alone, it would find its arrays in the cache. */
static void pass(void *ctx)
{
    step *s = ctx;
    shoali_loss loss;
    s->start_us = shoali_now_us();
    s->ready_count = 0;
    s->calls++;
    if (s->status == SHOAL_OK)
        s->status = shoali_net_train(s->net, &s->batch, on_ready, s, &loss);
    if (s->status == SHOAL_OK)
        update(s);
}

static shoal_status time_step(shoal_calibration *c, step *s, shoali_profile *profile)
{
    double spread, both = shoali_calibrate_time(c, pass, s, &spread);
    SHOALI_TRY(s->status);
    profile->update_s = fmin(both / 2, 1e-6 * s->update_us / s->calls);
    profile->compute_s = both - profile->update_s;
    profile->spread = fmin(1, spread);
    profile->ready_count = s->ready_count;
    double *ready = shoali_arena_array(c->arena, (size_t)s->ready_count + 1, sizeof *ready);
    if (ready == NULL)
        return SHOAL_ENOMEM;
    for (uint32_t i = 0; i < s->ready_count; i++)
        ready[i] = fmin(profile->compute_s,
                        fmax(i > 0 ? ready[i - 1] : 0, 1e-6 * s->ready[i] / s->calls));
    profile->ready_s = ready;
    return SHOAL_OK;
}

static shoal_status fill(shoal_calibration *c, const shoal_model_info *info, step *s)
{
    size_t elements = (size_t)info->input.channels * info->input.height * info->input.width;
    float *x = shoali_arena_array(c->arena, elements * s->batch.count, sizeof *x);
    uint32_t *labels = shoali_arena_array(c->arena, s->batch.count, sizeof *labels);
    s->ready = shoali_arena_array(c->arena, (size_t)info->layer_count + 1, sizeof *s->ready);
    if (x == NULL || labels == NULL || s->ready == NULL)
        return SHOAL_ENOMEM;
    for (size_t i = 0; i < elements * s->batch.count; i++)
        x[i] = (float)shoali_rng_double(1, 3, i);
    for (uint32_t i = 0; i < s->batch.count; i++)
        labels[i] = i % info->classes;
    s->batch.x = x;
    s->batch.labels = labels;
    s->batch.weight = 1;
    return SHOAL_OK;
}

/* A net and an optimiser for s->batch.count made-up samples. */
static shoal_status prepare(shoal_calibration *c, const shoal_model *model, step *s)
{
    uint32_t tensors;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    SHOALI_TRY(shoal_model_describe(model, &info));
    const shoal_tensor *table = shoal_model_tensors(model, &tensors);
    SHOALI_TRY(shoali_net_create(model, s->batch.count, 1, &s->net));
    SHOALI_TRY(shoali_optim_create("sgd:momentum=0.9", table, tensors, &s->optim));
    return fill(c, &info, s);
}

static void release(step *s)
{
    if (s->optim != NULL)
        shoali_optim_destroy(s->optim);
    if (s->net != NULL)
        shoali_net_destroy(s->net);
}

static shoal_status measure(shoal_calibration *c, const shoal_model *model, step *s,
                            shoali_profile *profile)
{
    SHOALI_TRY(prepare(c, model, s));
    return time_step(c, s, profile);
}

shoal_status shoali_calibrate_model(shoal_calibration *c, const char *spec, uint32_t batch)
{
    shoal_model *model;
    step s = {.batch = {.count = batch}};
    if (c->cluster.profile_count == 256)
        return shoali_fail(SHOAL_EINVAL, "more than 256 models and batches");
    shoali_profile *profile = &c->cluster.profiles[c->cluster.profile_count];
    SHOALI_TRY(shoal_model_open(spec, &model));
    profile->model = shoali_arena_strdup(c->arena, spec);
    profile->batch = batch;
    shoal_status status = profile->model != NULL ? measure(c, model, &s, profile) : SHOAL_ENOMEM;
    release(&s);
    shoal_model_close(model);
    c->cluster.profile_count += status == SHOAL_OK;
    return status;
}

/* ---------------------------------------------------------------- convolutions */

/* Two 3 x 3 convolutions of as many channels in as out; the scores behind them are nothing beside.
 * A step has five operations of one size each: both forward, both gradients of weights, the
 * gradient of the second one's input. Largest first, as in a table. */
static const struct {
    uint32_t channels, side, batch;
} convolutions[] = {{64, 32, 2}, {32, 16, 8}, {32, 8, 4}, {16, 8, 4}, {8, 8, 2}};
enum { CONVOLUTIONS = sizeof convolutions / sizeof *convolutions };

static shoal_status open_convolution(int i, shoal_model **model_out)
{
    char conv[64], pool[64];
    const char *const layers[] = {conv, conv, pool, "flatten", "dense:out=2"};
    uint32_t side = convolutions[i].side;
    const shoali_model_text text = {.name = "convolution",
                                    .help = "",
                                    .input = {convolutions[i].channels, side, side},
                                    .layers = layers,
                                    .layer_count = 5};
    snprintf(conv, sizeof conv, "conv:out=%u,kernel=3,pad=1", convolutions[i].channels);
    snprintf(pool, sizeof pool, "avgpool:kernel=%u,stride=%u", side, side);
    return shoali_model_build("model 'convolution'", &text, false, model_out);
}

static shoal_status time_convolution(shoal_calibration *c, int i, double *flops_out,
                                     double *rate_out)
{
    shoal_model *model = NULL;
    step s = {.batch = {.count = convolutions[i].batch}};
    double side = convolutions[i].side, channels = convolutions[i].channels, spread;
    *flops_out = 2 * 9 * channels * channels * side * side * convolutions[i].batch;
    SHOALI_TRY(open_convolution(i, &model));
    shoal_status status = prepare(c, model, &s);
    if (status == SHOAL_OK)
        *rate_out = 5 * *flops_out / shoali_calibrate_time(c, pass, &s, &spread);
    if (status == SHOAL_OK)
        status = s.status;
    release(&s);
    shoal_model_close(model);
    return status;
}

shoal_status shoali_calibrate_convolutions(shoal_calibration *c)
{
    shoali_accelerator *a = &c->accelerator;
    shoali_efficiency *table = &a->tables[a->table_count];
    *table = (shoali_efficiency){.kind = "conv", .smooth = true, .count = CONVOLUTIONS};
    for (int i = 0; i < CONVOLUTIONS; i++) {
        double flops = 0, rate = 0;
        SHOALI_TRY(time_convolution(c, i, &flops, &rate));
        table->step[i].from = flops;
        table->step[i].share = fmin(1, rate / a->flops);
    }
    a->table_count++;
    return SHOAL_OK;
}
