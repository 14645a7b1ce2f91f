/* SPDX-License-Identifier: Apache-2.0 */
/* The table of optimisers, and a step cut at the borders of tensors. */
#include "nn/optim.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "nn/optim_rows.h"

static const shoali_optim_row *const rows[] = {&shoali_optim_sgd, &shoali_optim_adam,
                                               &shoali_optim_adamw, &shoali_optim_muon};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

struct shoali_optim {
    const shoali_optim_row *row;
    shoali_optim_params params;
    char spec[200];
    shoal_tensor *tensors;
    uint32_t tensor_count;
    uint32_t slots; /* the row's, and the average behind them */
    size_t count;
    float *state, *average, *scratch; /* average: in state; NULL: none */
};

bool shoali_optim_listed(size_t i, shoali_listed *out)
{
    if (i < ROW_COUNT)
        *out = (shoali_listed){rows[i]->name, rows[i]->about, &rows[i]->schema};
    return i < ROW_COUNT;
}

/* ---------------------------------------------------------------- the handle */

static shoal_status find_row(const char *spec, const shoali_optim_row **row_out)
{
    const char *names[ROW_COUNT];
    size_t found;
    for (size_t i = 0; i < ROW_COUNT; i++)
        names[i] = rows[i]->name;
    SHOALI_TRY(shoali_spec_find("optimiser", spec, names, ROW_COUNT, &found));
    *row_out = rows[found];
    return SHOAL_OK;
}

static shoal_status parse(const char *spec, const shoali_optim_row **row_out,
                          shoali_optim_params *params_out)
{
    SHOALI_TRY(find_row(spec, row_out));
    SHOALI_TRY(shoali_spec_parse("optimiser", spec, &(*row_out)->schema, params_out));
    return (*row_out)->check != NULL ? (*row_out)->check(params_out) : SHOAL_OK;
}

shoal_status shoali_optim_ask(const char *spec, uint32_t *traits_out)
{
    const shoali_optim_row *row = NULL;
    shoali_optim_params params = {0};
    SHOALI_TRY(parse(spec, &row, &params));
    *traits_out = row->traits | (params.ema > 0 ? SHOALI_OPTIM_AVERAGES : 0) |
                  (row->slots(&params) > 0 ? SHOALI_OPTIM_REMEMBERS : 0);
    return SHOAL_OK;
}

static size_t scratch_of(const shoali_optim_row *row, const shoal_tensor *tensors, uint32_t count)
{
    return row->scratch != NULL ? row->scratch(tensors, count) : 0;
}

shoal_status shoali_optim_bytes(const char *spec, const shoal_tensor *tensors,
                                uint32_t tensor_count, uint64_t *bytes_out)
{
    const shoali_optim_row *row = NULL;
    shoali_optim_params params = {0};
    SHOALI_TRY(parse(spec, &row, &params));
    const shoal_tensor none = {0}, *last = tensor_count > 0 ? &tensors[tensor_count - 1] : &none;
    const uint64_t slots = row->slots(&params) + (params.ema > 0);
    *bytes_out = sizeof(float) * (slots * (last->offset + last->count) +
                                  (tensor_count > 0 ? scratch_of(row, tensors, tensor_count) : 0));
    return SHOAL_OK;
}

static shoal_status fill(shoali_optim *optim, const char *spec, const shoal_tensor *tensors,
                         uint32_t tensor_count)
{
    SHOALI_TRY(parse(spec, &optim->row, &optim->params));
    shoali_spec_format(optim->row->name, &optim->row->schema, &optim->params, optim->spec,
                       sizeof optim->spec);
    const shoal_tensor *last = &tensors[tensor_count - 1];
    const uint32_t own = optim->row->slots(&optim->params);
    const size_t scratch = scratch_of(optim->row, tensors, tensor_count);
    optim->count = last->offset + last->count;
    optim->slots = own + (optim->params.ema > 0);
    optim->tensors = shoali_alloc_array(tensor_count, sizeof *tensors);
    optim->state = shoali_alloc_array(optim->count, optim->slots * sizeof(float));
    optim->scratch = shoali_alloc_array(scratch, sizeof(float));
    if (optim->tensors == NULL || optim->state == NULL || optim->scratch == NULL)
        return SHOAL_ENOMEM;
    optim->average = optim->params.ema > 0 ? optim->state + own * optim->count : NULL;
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
    shoali_free(optim->scratch);
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
    if (slot >= optim->slots)
        return NULL;
    return optim->average != NULL && slot + 1 == optim->slots ? SHOALI_OPTIM_AVERAGE
                                                              : optim->row->slot_names[slot];
}

void shoali_optim_begin(shoali_optim *optim, const float *params)
{
    if (optim->average != NULL)
        memcpy(optim->average, params, optim->count * sizeof *params);
}

float *shoali_optim_average(const shoali_optim *optim)
{
    return optim->average;
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

static void step_on(shoali_optim *optim, const shoali_step *step, uint32_t t, size_t at,
                    size_t count)
{
    const shoal_tensor *tensor = &optim->tensors[t];
    const bool spared = (tensor->flags & (SHOAL_TENSOR_BIAS | SHOAL_TENSOR_NORM)) != 0;
    shoali_optim_span s = {.tensor = tensor,
                           .count = count,
                           .w = step->params + (at - step->offset),
                           .g = step->grads + (at - step->offset),
                           .w_out = step->params_out + (at - step->offset),
                           .lr = step->lr * tensor->lr_scale,
                           .grad_scale = step->grad_scale,
                           .time = (double)step->iteration + 1.0,
                           .first = t == 0,
                           .scratch = optim->scratch};
    s.decay = !spared || optim->params.decay_all ? (float)optim->params.decay : 0.0f;
    const uint32_t own = optim->slots - (optim->average != NULL);
    for (uint32_t k = 0; k < own; k++)
        s.slots[k] = optim->state + k * optim->count + at;
    optim->row->update(&optim->params, &s);
    const float keep = (float)optim->params.ema;
    for (size_t i = 0; optim->average != NULL && i < count; i++)
        optim->average[at + i] = keep * optim->average[at + i] + (1 - keep) * s.w_out[i];
}

void shoali_optim_step(shoali_optim *optim, const shoali_step *step)
{
    size_t at = step->offset, end = step->offset + step->count;
    for (uint32_t t = tensor_at(optim, at); at < end && t < optim->tensor_count; t++) {
        const size_t last = optim->tensors[t].offset + optim->tensors[t].count,
                     stop = last < end ? last : end;
        step_on(optim, step, t, at, stop - at);
        at = stop;
    }
}

float shoali_clip_scale(const float *grads, size_t count, float grad_scale, double most)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)grads[i] * (double)grads[i];
    const double norm = sqrt(sum) * fabs((double)grad_scale), share = most / (norm + 1e-6);
    return share < 1 ? (float)(grad_scale * share) : grad_scale;
}
