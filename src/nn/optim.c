/* SPDX-License-Identifier: Apache-2.0 */
/* SGD and Adam. All is element by element, so a range gives the same bits whoever updates it. */
#include "nn/optim.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/spec.h"

enum { SLOTS_MAX = 2 };

typedef struct optim_params {
    double momentum, decay, beta1, beta2, eps;
    bool nesterov;
} optim_params;

/* A part of a step that lies in one tensor. */
typedef struct span {
    size_t count;
    const float *w, *g;
    float *w_out;
    float *slots[SLOTS_MAX];
    float lr, grad_scale, decay;
    double time; /* steps so far, this one included */
} span;

typedef struct optim_row {
    const char *name, *about;
    shoali_schema schema;
    const char *slot_names[SLOTS_MAX];
    uint32_t (*slots)(const optim_params *params);
    shoal_status (*check)(const optim_params *params);
    void (*update)(const optim_params *params, const span *s);
} optim_row;

struct shoali_optim {
    const optim_row *row;
    optim_params params;
    char spec[160];
    shoal_tensor *tensors;
    uint32_t tensor_count;
    uint32_t slots;
    size_t count;
    float *state;
};

/* ---------------------------------------------------------------- sgd */

/* The convention of Sutskever's heirs (PyTorch): v = momentum v + g; w -= lr v, or lr (g + momentum
 * v) for Nesterov. */
static void update_sgd(const optim_params *p, const span *s)
{
    float momentum = (float)p->momentum;
    float *v = s->slots[0];
    for (size_t i = 0; v == NULL && i < s->count; i++)
        s->w_out[i] = s->w[i] - s->lr * (s->grad_scale * s->g[i] + s->decay * s->w[i]);
    for (size_t i = 0; v != NULL && i < s->count; i++) {
        float w = s->w[i], g = s->grad_scale * s->g[i] + s->decay * w;
        v[i] = momentum * v[i] + g;
        s->w_out[i] = w - s->lr * (p->nesterov ? g + momentum * v[i] : v[i]);
    }
}

static uint32_t sgd_slots(const optim_params *p)
{
    return p->momentum == 0 ? 0 : 1;
}

static shoal_status check_sgd(const optim_params *p)
{
    if (p->nesterov && p->momentum == 0)
        return shoali_fail(SHOAL_EINVAL, "optimiser 'sgd': nesterov needs a momentum above 0");
    return SHOAL_OK;
}

static const shoali_key sgd_keys[] = {
    {"momentum", SHOALI_KEY_FLOAT, offsetof(optim_params, momentum), 0, 0.9999, NULL, "0.9",
     "share of the last step"},
    {"decay", SHOALI_KEY_FLOAT, offsetof(optim_params, decay), 0, 1, NULL, "0",
     "weight decay; not of biases and norms"},
    {"nesterov", SHOALI_KEY_FLAG, offsetof(optim_params, nesterov), 0, 0, NULL, "off",
     "look ahead by one step"},
};

/* ---------------------------------------------------------------- adam */

/* Kingma, Ba, ICLR 2015, algorithm 1, with the two corrections folded into step and eps as in its
 * section 2. */
static void update_adam(const optim_params *p, const span *s)
{
    double correct1 = 1.0 - pow(p->beta1, s->time), correct2 = 1.0 - pow(p->beta2, s->time);
    float step = (float)(s->lr * sqrt(correct2) / correct1), eps = (float)(p->eps * sqrt(correct2));
    float beta1 = (float)p->beta1, beta2 = (float)p->beta2;
    float *m = s->slots[0], *v = s->slots[1];
    for (size_t i = 0; i < s->count; i++) {
        float w = s->w[i], g = s->grad_scale * s->g[i] + s->decay * w;
        m[i] = beta1 * m[i] + (1.0f - beta1) * g;
        v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
        s->w_out[i] = w - step * m[i] / (sqrtf(v[i]) + eps);
    }
}

static uint32_t adam_slots(const optim_params *p)
{
    (void)p;
    return 2;
}

static const shoali_key adam_keys[] = {
    {"beta1", SHOALI_KEY_FLOAT, offsetof(optim_params, beta1), 0, 0.9999, NULL, "0.9",
     "decay of the mean"},
    {"beta2", SHOALI_KEY_FLOAT, offsetof(optim_params, beta2), 0, 0.999999, NULL, "0.999",
     "decay of the square"},
    {"eps", SHOALI_KEY_FLOAT, offsetof(optim_params, eps), 1e-16, 1, NULL, "1e-8",
     "added to the root"},
    {"decay", SHOALI_KEY_FLOAT, offsetof(optim_params, decay), 0, 1, NULL, "0",
     "weight decay, added to the gradient; not of biases and norms"},
};

static const optim_row rows[] = {
    {"sgd",
     "stochastic gradient descent with momentum as PyTorch has it (Sutskever et al., ICML 2013)",
     {sgd_keys, 3, sizeof(optim_params)},
     {"momentum"},
     sgd_slots,
     check_sgd,
     update_sgd},
    {"adam",
     "Kingma and Ba, ICLR 2015, algorithm 1",
     {adam_keys, 4, sizeof(optim_params)},
     {"mean", "square"},
     adam_slots,
     NULL,
     update_adam},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

bool shoali_optim_listed(size_t i, shoali_listed *out)
{
    if (i < ROW_COUNT)
        *out = (shoali_listed){rows[i].name, rows[i].about, &rows[i].schema};
    return i < ROW_COUNT;
}

/* ---------------------------------------------------------------- the handle */

static shoal_status find_row(const char *spec, const optim_row **row_out)
{
    const char *names[ROW_COUNT];
    size_t found;
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i].name;
    SHOALI_TRY(shoali_spec_find("optimiser", spec, names, ROW_COUNT, &found));
    *row_out = &rows[found];
    return SHOAL_OK;
}

static shoal_status fill(shoali_optim *optim, const char *spec, const shoal_tensor *tensors,
                         uint32_t tensor_count)
{
    SHOALI_TRY(find_row(spec, &optim->row));
    SHOALI_TRY(shoali_spec_parse("optimiser", spec, &optim->row->schema, &optim->params));
    if (optim->row->check != NULL)
        SHOALI_TRY(optim->row->check(&optim->params));
    shoali_spec_format(optim->row->name, &optim->row->schema, &optim->params, optim->spec,
                       sizeof optim->spec);
    const shoal_tensor *last = &tensors[tensor_count - 1];
    optim->count = last->offset + last->count;
    optim->slots = optim->row->slots(&optim->params);
    optim->tensors = shoali_alloc_array(tensor_count, sizeof *tensors);
    optim->state = shoali_alloc_array(optim->count, optim->slots * sizeof(float));
    if (optim->tensors == NULL || optim->state == NULL)
        return SHOAL_ENOMEM;
    memcpy(optim->tensors, tensors, tensor_count * sizeof *tensors);
    optim->tensor_count = tensor_count;
    return SHOAL_OK;
}

shoal_status shoali_optim_create(const char *spec, const shoal_tensor *tensors,
                                 uint32_t tensor_count, shoali_optim **optim_out)
{
    if (tensor_count == 0)
        return shoali_fail(SHOAL_EINVAL, "an optimiser needs at least one tensor");
    shoali_optim *optim = shoali_alloc(sizeof *optim);
    if (optim == NULL)
        return SHOAL_ENOMEM;
    shoal_status status = fill(optim, spec, tensors, tensor_count);
    if (status != SHOAL_OK)
        shoali_optim_destroy(optim);
    else
        *optim_out = optim;
    return status;
}

void shoali_optim_destroy(shoali_optim *optim)
{
    if (optim == NULL)
        return;
    shoali_free(optim->tensors);
    shoali_free(optim->state);
    shoali_free(optim);
}

const char *shoali_optim_spec(const shoali_optim *optim)
{
    return optim->spec;
}

float *shoali_optim_state(shoali_optim *optim, uint32_t *slots_out)
{
    *slots_out = optim->slots;
    return optim->slots > 0 ? optim->state : NULL;
}

const char *shoali_optim_slot_name(const shoali_optim *optim, uint32_t slot)
{
    return slot < optim->slots ? optim->row->slot_names[slot] : NULL;
}

/* ---------------------------------------------------------------- a step */

/* The first tensor that reaches beyond offset. */
static uint32_t tensor_at(const shoali_optim *optim, size_t offset)
{
    uint32_t low = 0, high = optim->tensor_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (optim->tensors[middle].offset + optim->tensors[middle].count <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void shoali_optim_step(shoali_optim *optim, const shoali_step *step)
{
    size_t at = step->offset, end = step->offset + step->count;
    for (uint32_t t = tensor_at(optim, at); at < end && t < optim->tensor_count; t++) {
        const shoal_tensor *tensor = &optim->tensors[t];
        size_t stop = tensor->offset + tensor->count < end ? tensor->offset + tensor->count : end;
        bool decays = (tensor->flags & (SHOAL_TENSOR_BIAS | SHOAL_TENSOR_NORM)) == 0;
        span s = {.count = stop - at,
                  .w = step->params + (at - step->offset),
                  .g = step->grads + (at - step->offset),
                  .w_out = step->params_out + (at - step->offset),
                  .lr = step->lr * tensor->lr_scale,
                  .grad_scale = step->grad_scale,
                  .decay = decays ? (float)optim->params.decay : 0.0f,
                  .time = (double)step->iteration + 1.0};
        for (uint32_t k = 0; k < optim->slots; k++)
            s.slots[k] = optim->state + k * optim->count + at;
        optim->row->update(&optim->params, &s);
        at = stop;
    }
}
