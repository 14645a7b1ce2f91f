/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of real models on made-up samples: how long, and when which gradients are final.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "nn/nn.h"
#include "nn/optim.h"
#include "train/calibrate.h"

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

static shoal_status measure(shoal_calibration *c, const shoal_model *model, step *s,
                            shoali_profile *profile)
{
    uint32_t tensors;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    SHOALI_TRY(shoal_model_describe(model, &info));
    const shoal_tensor *table = shoal_model_tensors(model, &tensors);
    SHOALI_TRY(shoali_net_create(model, s->batch.count, 1, &s->net));
    SHOALI_TRY(shoali_optim_create("sgd:momentum=0.9", table, tensors, &s->optim));
    SHOALI_TRY(fill(c, &info, s));
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
    if (s.optim != NULL)
        shoali_optim_destroy(s.optim);
    if (s.net != NULL)
        shoali_net_destroy(s.net);
    shoal_model_close(model);
    c->cluster.profile_count += status == SHOAL_OK;
    return status;
}
