/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/admm.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/spec.h"
#include "worker/project.h"
#include "worker/worker.h"

/* One matrix under the constraint. */
typedef struct constraint {
    size_t offset; /* in the parameter arena */
    shoali_projection projection;
} constraint;

struct shoali_admm {
    shoal_admm params;
    constraint *constraints;
    uint32_t count;
    float *target, *dual; /* Z - U and U, beside the parameters */
    float *values, *sum;  /* scratch: kept values, and W + U, of the largest matrix; */
    float *room;          /* of one tap's */
    double gap;
};

static const shoali_key keys[] = {
    {"rho", SHOALI_KEY_FLOAT, offsetof(shoal_admm, rho), 1e-12, 1e6, NULL, "1e-4",
     "weight of the penalty in the first iteration"},
    {"factor", SHOALI_KEY_FLOAT, offsetof(shoal_admm, factor), 1, 1000, NULL, "3",
     "by which it grows per iteration"},
    {"iterations", SHOALI_KEY_INT, offsetof(shoal_admm, iterations), 1, 1000, NULL, "7",
     "how often the block-circulant matrices are chosen anew"},
    {"epochs", SHOALI_KEY_INT, offsetof(shoal_admm, epochs), 1, 100000, NULL, "1",
     "of training in one iteration"},
    {"dense", SHOALI_KEY_INT, offsetof(shoal_admm, dense), 0, 100000, NULL, "4",
     "epochs before the first, without a penalty"},
    {"lr", SHOALI_KEY_FLOAT, offsetof(shoal_admm, lr), 1e-6, 1000, NULL, "0.5",
     "learning rate of the iterations, as a part of the run's"},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof keys[0], sizeof(shoal_admm)};

shoal_status shoal_admm_parse(const char *spec, shoal_admm *admm_out)
{
    static const char *const names[] = {"admm"};
    size_t found;
    SHOALI_TRY(shoali_spec_find("training", spec, names, 1, &found));
    return shoali_spec_parse("training", spec, &schema, admm_out);
}

/* ---------------------------------------------------------------- creation */

static shoal_status find_constraints(const shoal_train *train, const shoal_model *to,
                                     shoali_admm *a)
{
    size_t largest = 0, most_values = 0;
    if (to->tensor_count != train->tensor_count)
        return shoali_fail(SHOAL_EINVAL, "models %s and %s have %u and %u tensors",
                           train->model->name, to->name, train->tensor_count, to->tensor_count);
    for (uint32_t i = 0; i < train->tensor_count; i++) {
        constraint *c = &a->constraints[a->count];
        SHOALI_TRY(shoali_projection_of(train->model, to, i, &c->projection));
        if (c->projection.block == 1)
            continue;
        c->offset = train->tensors[i].offset;
        size_t whole = train->tensors[i].count, values = c->projection.count;
        largest = whole > largest ? whole : largest;
        most_values = values > most_values ? values : most_values;
        a->count++;
    }
    if (a->count == 0)
        return shoali_fail(SHOAL_EINVAL,
                           "ADMM: model %s has no more block-circulant matrices than "
                           "model %s",
                           to->name, train->model->name);
    a->values = shoali_arena_array(train->arena, most_values, sizeof *a->values);
    a->sum = shoali_arena_array(train->arena, largest, sizeof *a->sum);
    a->room = shoali_arena_array(train->arena, largest, sizeof *a->room);
    return a->values != NULL && a->sum != NULL && a->room != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static shoal_status check(const shoal_train *train)
{
    const shoal_train_desc *d = &train->desc;
    if (d->admm_model == NULL)
        return shoali_fail(SHOAL_EINVAL, "ADMM needs a block-circulant model to train towards");
    return SHOAL_OK;
}

static shoal_status allocate(shoal_train *train, shoali_admm **admm_out)
{
    shoali_admm *a = shoali_arena_alloc(train->arena, sizeof *a);
    if (a == NULL)
        return SHOAL_ENOMEM;
    *a = (shoali_admm){.gap = (double)NAN};
    a->constraints = shoali_arena_array(train->arena, train->tensor_count, sizeof *a->constraints);
    a->target = shoali_arena_array(train->arena, train->param_count, sizeof *a->target);
    a->dual = shoali_arena_array(train->arena, train->param_count, sizeof *a->dual);
    if (a->constraints == NULL || a->target == NULL || a->dual == NULL)
        return shoali_fail(SHOAL_ENOMEM, "no memory for ADMM of %zu parameters",
                           train->param_count);
    *admm_out = a;
    return SHOAL_OK;
}

/* Z <- Proj(W + U), U <- (W + U - Z) / factor; target is Z - U. Adds |W - Z|^2 and |W|^2. */
static void renew(const shoali_admm *a, const constraint *c, const float *params, float factor,
                  double norms[2])
{
    const float *w = params + c->offset;
    float *target = a->target + c->offset, *dual = a->dual + c->offset;
    const size_t count = shoali_projection_whole(&c->projection);
    for (size_t i = 0; i < count; i++)
        a->sum[i] = w[i] + dual[i];
    shoali_project(&c->projection, a->sum, a->room, a->values);
    shoali_unfold(&c->projection, a->values, a->room, target);
    for (size_t i = 0; i < count; i++) {
        double away = (double)w[i] - (double)target[i];
        norms[0] += away * away;
        norms[1] += (double)w[i] * (double)w[i];
        dual[i] = (a->sum[i] - target[i]) / factor;
        target[i] -= dual[i];
    }
}

shoal_status shoali_admm_create(shoal_train *train)
{
    shoal_model *to = NULL;
    shoali_admm *a = NULL;
    double norms[2] = {0, 0};
    if (train->desc.admm == NULL)
        return SHOAL_OK;
    SHOALI_TRY(check(train));
    SHOALI_TRY(allocate(train, &a));
    SHOALI_TRY(shoal_admm_parse(train->desc.admm, &a->params));
    SHOALI_TRY(shoal_model_open(train->desc.admm_model, &to));
    shoal_status status = find_constraints(train, to, a);
    shoal_model_close(to);
    if (status != SHOAL_OK)
        return status;
    for (uint32_t i = 0; i < a->count; i++) {
        const constraint *c = &a->constraints[i];
        renew(a, c, train->params, 1, norms);
        for (size_t j = 0; j < shoali_projection_whole(&c->projection); j++) {
            a->target[c->offset + j] += a->dual[c->offset + j]; /* U is 0: Z alone */
            a->dual[c->offset + j] = 0;
        }
    }
    train->admm = a;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- a step */

/* Iterations complete after so many steps. */
static uint64_t iterations_after(const shoal_train *train, uint64_t steps)
{
    return steps * (uint64_t)train->admm->params.iterations / train->steps;
}

void shoali_admm_pull(shoal_train *train, float grad_scale)
{
    const shoali_admm *a = train->admm;
    if (a == NULL)
        return;
    double rho = a->params.rho *
                 pow(a->params.factor, (double)iterations_after(train, train->step));
    float pull = (float)(rho / (double)grad_scale);
    for (uint32_t i = 0; i < a->count; i++) {
        const constraint *c = &a->constraints[i];
        const float *w = train->params + c->offset, *target = a->target + c->offset;
        float *grads = train->grads + c->offset;
        for (size_t j = 0; j < shoali_projection_whole(&c->projection); j++)
            grads[j] += pull * (w[j] - target[j]);
    }
}

shoal_status shoali_admm_turn(shoal_train *train)
{
    shoali_admm *a = train->admm;
    double norms[2] = {0, 0};
    if (a == NULL ||
        iterations_after(train, train->step) == iterations_after(train, train->step - 1))
        return SHOAL_OK;
    for (uint32_t i = 0; i < a->count; i++)
        renew(a, &a->constraints[i], train->params, (float)a->params.factor, norms);
    a->gap = norms[1] > 0 ? sqrt(norms[0] / norms[1]) : 0;
    return SHOAL_OK;
}

double shoali_admm_gap(const shoal_train *train)
{
    return train->admm != NULL ? train->admm->gap : (double)NAN;
}

float *shoali_admm_state(const shoal_train *train, float **dual_out)
{
    *dual_out = train->admm != NULL ? train->admm->dual : NULL;
    return train->admm != NULL ? train->admm->target : NULL;
}
