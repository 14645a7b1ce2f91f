/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and gradients of a simulation's endpoints: the quadratic's, or a task's. With
 * problem = cost there are none, and all of this does nothing. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "driver/sim_parts.h"
#include "sync/finale.h"

static const double LIE_NOISE = 5;
static const float LIE_SCALE = 100;

shoal_status shoali_sim_numbers_open(shoal_sim *sim, uint32_t endpoint)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    const shoali_sync_row *row = sim->protocol.row;
    uint32_t slots = row->slots != NULL ? row->slots(&node->world) : 0;
    bool velocity = sim->problem != NULL, residual = sim->codec->error_feedback;
    node->accuracy = (double)NAN;
    if (!sim->numbers)
        return SHOAL_OK;
    float *params = shoali_alloc_array(sim->count, sizeof *params);
    float *grads = shoali_alloc_array(sim->count, sizeof *grads);
    shoal_status status = shoali_tensors_init(&node->tensors, params, grads, sim->count, slots);
    if (velocity)
        node->velocity = shoali_alloc_array(sim->count, sizeof *node->velocity);
    if (residual)
        node->residual = shoali_alloc_array(sim->count, sizeof *node->residual);
    if (status != SHOAL_OK || params == NULL || grads == NULL ||
        (velocity && node->velocity == NULL) || (residual && node->residual == NULL))
        return SHOAL_ENOMEM;
    if (sim->problem != NULL)
        shoali_problem_start(sim->problem, params);
    else
        sim->task.start(sim->task.ctx, params);
    return SHOAL_OK;
}

void *shoali_sim_transform_state(shoali_sim_node *node, size_t offset, size_t count, size_t bytes)
{
    const size_t held = node->transform_count;
    for (size_t i = 0; i < held; i++)
        if (node->transforms[i].offset == offset && node->transforms[i].count == count)
            return node->transforms[i].state;
    shoali_sim_transform *more = shoali_realloc(node->transforms, held * sizeof *more,
                                                (held + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    node->transforms = more;
    void *state = shoali_alloc(bytes);
    if (state != NULL)
        more[node->transform_count++] = (shoali_sim_transform){offset, count, bytes, state};
    return state;
}

void shoali_sim_transforms_clear(shoali_sim_node *node)
{
    for (size_t i = 0; i < node->transform_count; i++)
        memset(node->transforms[i].state, 0, node->transforms[i].bytes);
}

void shoali_sim_transforms_fini(shoali_sim_node *node)
{
    for (size_t i = 0; i < node->transform_count; i++)
        shoali_free(node->transforms[i].state);
    shoali_free(node->transforms);
    node->transforms = NULL;
    node->transform_count = 0;
}

/* A fault of the plan: the first element of this iteration's gradient. */
static void spoil(const shoal_sim *sim, uint32_t endpoint)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    for (uint32_t i = 0; i < sim->asked.faults.nan.count; i++)
        if (sim->asked.faults.nan.items[i].index == endpoint &&
            sim->asked.faults.nan.items[i].value == (double)node->iteration)
            memset(node->tensors.grads, 0xff, sizeof *node->tensors.grads);
}

/* Whether an operation carries this endpoint's gradient or update; not the final mean. */
static bool gives(const shoali_sync_op *op, uint32_t endpoint)
{
    if ((op->id & SHOALI_FINALE_OP) != 0 || op->tensor == SHOALI_PARAM)
        return false;
    return op->kind == SHOALI_SYNC_ALL_REDUCE ||
           (op->members != NULL && op->members[op->root] == endpoint);
}

void shoali_sim_lie(shoal_sim *sim, uint32_t endpoint, const shoali_sync_op *op)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    const int kind = (int)shoali_sim_lookup(&sim->asked.faults.lie, endpoint, 0);
    float *x = sim->numbers && kind > 0 && gives(op, endpoint)
                   ? shoali_tensor_memory(&node->tensors, op->tensor, op->offset, op->count)
                   : NULL;
    double square = 0;
    for (size_t i = 0; x != NULL && i < op->count; i++)
        square += (double)x[i] * (double)x[i];
    const double reach = LIE_NOISE * sqrt(3 * square / (double)op->count); /* of even draws */
    for (size_t i = 0; x != NULL && i < op->count; i++)
        if (kind == SHOALI_SIM_NOISE)
            x[i] = (float)(reach * (2 * shoali_rng_double(sim->seed, op->id, i) - 1));
        else
            x[i] *= kind == SHOALI_SIM_FLIP ? -1 : LIE_SCALE;
}

void shoali_sim_gradient(shoal_sim *sim, uint32_t endpoint, uint32_t tensor)
{
    const shoali_sim_node *node = &sim->nodes[endpoint];
    const shoal_tensor *t = &sim->tensors[tensor];
    if (!sim->numbers)
        return;
    if (sim->problem != NULL)
        shoali_problem_gradient(sim->problem, endpoint, node->iteration,
                                node->tensors.params + t->offset, t->offset, t->count,
                                node->tensors.grads + t->offset);
    else if (tensor + 1 == sim->tensor_count)
        shoali_sim_break(sim, sim->task.gradient(sim->task.ctx, endpoint, node->iteration,
                                                 node->tensors.params, node->tensors.grads));
    if (sim->task.made != NULL && tensor + 1 == sim->tensor_count)
        sim->nodes[endpoint].made = sim->task.made(sim->task.ctx);
    if (tensor == 0)
        spoil(sim, endpoint);
}

void shoali_sim_optimise(shoal_sim *sim, uint32_t endpoint, uint64_t iteration, size_t offset,
                         size_t count, const float *grads, float scale, float *params_out)
{
    shoali_sim_node *node = &sim->nodes[endpoint];
    const shoali_task_step step = {.endpoint = endpoint,
                                   .iteration = iteration,
                                   .offset = offset,
                                   .count = count,
                                   .params = node->tensors.params + offset,
                                   .grads = grads,
                                   .params_out = params_out,
                                   .scale = scale};
    if (sim->problem != NULL)
        shoali_problem_step(sim->problem, node->velocity, step.params, grads, scale, offset, count,
                            params_out);
    else if (sim->numbers)
        sim->task.step(sim->task.ctx, &step);
}

/* ---------------------------------------------------------------- what came out */

static bool lives(const shoal_sim *sim, uint32_t worker)
{
    return sim->nodes[worker].end != SHOAL_SIM_DEAD;
}

/* The mean model of all workers but the dead; NULL: no memory, or nobody lives. */
static float *mean_model(const shoal_sim *sim)
{
    enum { BLOCK = 1024 };
    double sums[BLOCK];
    uint32_t living = 0;
    for (uint32_t i = 0; i < sim->workers; i++)
        living += lives(sim, i);
    float *mean = living > 0 ? shoali_alloc_array(sim->count, sizeof *mean) : NULL;
    for (size_t at = 0; mean != NULL && at < sim->count; at += BLOCK) {
        size_t count = sim->count - at < BLOCK ? sim->count - at : BLOCK;
        memset(sums, 0, sizeof sums);
        for (uint32_t i = 0; i < sim->workers; i++)
            for (size_t j = 0; lives(sim, i) && j < count; j++)
                sums[j] += (double)sim->nodes[i].tensors.params[at + j];
        for (size_t j = 0; j < count; j++)
            mean[at + j] = (float)(sums[j] / living);
    }
    return mean;
}

void shoali_sim_test_worker(shoal_sim *sim, uint32_t worker)
{
    shoali_sim_node *node = &sim->nodes[worker];
    bool equal = (sim->protocol.traits & SHOALI_SYNC_EXACT) != 0;
    if (sim->task.ctx != NULL && !equal && worker < sim->workers)
        shoali_sim_break(sim, sim->task.test_worker(sim->task.ctx, worker, node->tensors.params,
                                                    &node->accuracy));
}

/* Workers that the end of the run (until_s) found on their way. */
static shoal_status test_the_rest(shoal_sim *sim)
{
    for (uint32_t i = 0; i < sim->workers; i++)
        if (sim->nodes[i].phase != SHOALI_SIM_ENDED && isnan(sim->nodes[i].accuracy))
            shoali_sim_test_worker(sim, i);
    return sim->status == SHOAL_OK ? SHOAL_OK : shoali_error_set(&sim->error);
}

shoal_status shoali_sim_test(shoal_sim *sim)
{
    shoal_sim_results *r = &sim->report.results;
    if (!sim->numbers)
        return SHOAL_OK;
    SHOALI_TRY(test_the_rest(sim));
    float *mean = mean_model(sim);
    if (mean == NULL)
        return SHOAL_OK;
    shoal_status status = SHOAL_OK;
    if (sim->problem != NULL)
        r->excess = shoali_problem_excess(sim->problem, mean);
    else
        status = sim->task.test(sim->task.ctx, mean, r);
    for (uint32_t i = sim->report.curve_count; i > 0 && isnan(r->train_loss); i--)
        r->train_loss = sim->problem == NULL ? sim->report.curve[i - 1].loss : (double)NAN;
    shoali_free(mean);
    return status;
}

static double consensus(const shoal_sim *sim, const float *mean)
{
    double away = 0;
    uint32_t living = 0;
    for (uint32_t i = 0; i < sim->workers; i++) {
        const float *params = sim->nodes[i].tensors.params;
        living += lives(sim, i);
        for (size_t j = 0; lives(sim, i) && j < sim->count; j++) {
            double x = (double)params[j] - (double)mean[j];
            away += x * x;
        }
    }
    return away / living;
}

void shoali_sim_measure(shoal_sim *sim, shoal_sim_point *point)
{
    point->loss = point->consensus = (double)NAN;
    float *mean = sim->numbers ? mean_model(sim) : NULL;
    if (mean == NULL)
        return;
    point->loss = sim->problem != NULL ? shoali_problem_excess(sim->problem, mean)
                                       : sim->task.loss(sim->task.ctx);
    point->consensus = consensus(sim, mean);
    shoali_free(mean);
}
