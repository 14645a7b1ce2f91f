/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sim_problem.h"

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"

typedef struct params {
    double lr, momentum, noise, spread, condition;
} params;

static const shoali_key keys[] = {
    {"lr", SHOALI_KEY_FLOAT, offsetof(params, lr), 0, 100, NULL, "0.1", "learning rate"},
    {"momentum", SHOALI_KEY_FLOAT, offsetof(params, momentum), 0, 0.999, NULL, "0", "of SGD"},
    {"noise", SHOALI_KEY_FLOAT, offsetof(params, noise), 0, 1e6, NULL, "0",
     "standard deviation of each gradient element"},
    {"spread", SHOALI_KEY_FLOAT, offsetof(params, spread), 0, 1e6, NULL, "1",
     "standard deviation of the workers' minima around their mean"},
    {"condition", SHOALI_KEY_FLOAT, offsetof(params, condition), 1, 1e6, NULL, "4",
     "largest over smallest curvature"},
};
static const shoali_schema schema = {keys, sizeof keys / sizeof *keys, sizeof(params)};

enum { STREAM_CURVE = 1, STREAM_CENTRE, STREAM_START, STREAM_NOISE };

struct shoali_problem {
    params p;
    bool mixing; /* one random gradient at iteration 0, then none */
    uint32_t workers;
    size_t count;
    uint64_t seed;
    float *curve;   /* [count] a_j in 1/condition .. 1 */
    float *centres; /* [workers][count] c_ij */
    float *best;    /* [count] mean of the centres */
};

static shoal_status fill(shoali_problem *problem)
{
    size_t count = problem->count, floats;
    if (__builtin_mul_overflow(count, (size_t)problem->workers, &floats))
        return shoali_fail(SHOAL_ENOMEM, "%u workers with %zu elements are too many",
                           problem->workers, count);
    problem->curve = shoali_alloc_array(count, sizeof(float));
    problem->centres = shoali_alloc_array(floats, sizeof(float));
    problem->best = shoali_alloc_array(count, sizeof(float));
    if (problem->curve == NULL || problem->centres == NULL || problem->best == NULL)
        return SHOAL_ENOMEM;
    for (size_t j = 0; j < count; j++) {
        double low = 1 / problem->p.condition, sum = 0;
        problem->curve[j] = (float)(low +
                                    (1 - low) * shoali_rng_double(problem->seed, STREAM_CURVE, j));
        for (uint32_t i = 0; i < problem->workers; i++) {
            uint64_t stream = shoali_mix(STREAM_CENTRE, i);
            float *c = &problem->centres[i * count + j];
            *c = (float)(problem->p.spread * shoali_rng_normal(problem->seed, stream, j));
            sum += (double)*c;
        }
        problem->best[j] = (float)(sum / problem->workers);
    }
    return SHOAL_OK;
}

shoal_status shoali_problem_open(const char *spec, uint32_t workers, size_t count, uint64_t seed,
                                 shoali_problem **problem_out)
{
    static const char *const names[] = {"cost", "quadratic", "mixing"};
    static const shoali_schema none = {NULL, 0, 0};
    params p = {.lr = 1, .condition = 1};
    size_t len = shoali_spec_name_len(spec);
    if (len == 4 && memcmp(spec, names[0], len) == 0) {
        SHOALI_TRY(shoali_spec_parse("problem", spec, &none, NULL));
        *problem_out = NULL;
        return SHOAL_OK;
    }
    bool mixing = len == 6 && memcmp(spec, names[2], len) == 0;
    if (!mixing && (len != 9 || memcmp(spec, names[1], len) != 0))
        return shoali_spec_unknown("problem", spec, names, 3);
    SHOALI_TRY(shoali_spec_parse("problem", spec, mixing ? &none : &schema, mixing ? NULL : &p));
    shoali_problem *problem = shoali_alloc(sizeof *problem);
    if (problem == NULL)
        return SHOAL_ENOMEM;
    problem->p = p;
    problem->mixing = mixing;
    problem->workers = workers;
    problem->count = count;
    problem->seed = seed;
    shoal_status status = fill(problem);
    if (status != SHOAL_OK) {
        shoali_problem_close(problem);
        return status;
    }
    *problem_out = problem;
    return SHOAL_OK;
}

void shoali_problem_close(shoali_problem *problem)
{
    if (problem == NULL)
        return;
    shoali_free(problem->curve);
    shoali_free(problem->centres);
    shoali_free(problem->best);
    shoali_free(problem);
}

void shoali_problem_start(const shoali_problem *problem, float *params_out)
{
    for (size_t j = 0; j < problem->count; j++)
        params_out[j] = problem->mixing
                            ? 0
                            : (float)(4 * shoali_rng_normal(problem->seed, STREAM_START, j));
}

void shoali_problem_gradient(const shoali_problem *problem, uint32_t worker, uint64_t iteration,
                             const float *x, size_t offset, size_t count, float *grads_out)
{
    const float *centre = problem->centres + worker * problem->count;
    uint64_t stream = shoali_mix(shoali_mix(STREAM_NOISE, worker), iteration);
    if (problem->mixing) {
        for (size_t j = offset; j < offset + count; j++)
            grads_out[j - offset] = iteration == 0
                                        ? (float)shoali_rng_normal(problem->seed, stream, j)
                                        : 0;
        return;
    }
    for (size_t j = offset; j < offset + count; j++)
        grads_out[j - offset] = problem->curve[j] * (x[j - offset] - centre[j]);
    if (problem->p.noise <= 0)
        return;
    for (size_t j = offset; j < offset + count; j++)
        grads_out[j - offset] += (float)(problem->p.noise *
                                         shoali_rng_normal(problem->seed, stream, j));
}

void shoali_problem_step(const shoali_problem *problem, float *velocity, const float *x,
                         const float *grads, float scale, size_t offset, size_t count,
                         float *params_out)
{
    const float momentum = (float)problem->p.momentum, lr = (float)problem->p.lr;
    float *v = velocity + offset;
    for (size_t j = 0; j < count; j++) {
        v[j] = momentum * v[j] + scale * grads[j];
        params_out[j] = x[j] - lr * v[j];
    }
}

double shoali_problem_excess(const shoali_problem *problem, const float *x)
{
    double sum = 0;
    for (size_t j = 0; j < problem->count; j++) {
        double away = (double)x[j] - (double)problem->best[j];
        sum += 0.5 * (double)problem->curve[j] * away * away;
    }
    return sum;
}
