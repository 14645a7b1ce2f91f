/* SPDX-License-Identifier: Apache-2.0 */
/* The best shapes of a space: bounds for all, the most promising ones solved first, until no bound
 * is better than what was found. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/network_shapes.h"

enum { DIMS = SHOALI_CONVEX_DIMS };
#define PRODUCT_SCALE 1e-10 /* of time * cost, as in shoal_network_solve */

/* ---------------------------------------------------------------- bounds */

/* (sum of sqrt(W_d a_d))^2, so that T >= constant + this / e where a . b <= e: pieces of a term are
 * weighed by what they would need of a. */
static double pull(const shoali_times *t, const double *a)
{
    double sent[DIMS] = {0}, root = 0;
    for (uint32_t j = 0; j < t->term_count; j++) {
        const shoali_piece *piece = t->pieces + t->terms[j].first;
        double all = 0;
        for (uint32_t r = 0; r < t->terms[j].count; r++)
            all += piece[r].amount * a[piece[r].dim];
        for (uint32_t r = 0; r < t->terms[j].count && all > 0; r++)
            sent[piece[r].dim] += piece[r].amount * piece[r].amount * a[piece[r].dim] / all;
    }
    for (uint32_t d = 0; d < t->dims; d++)
        root += sqrt(sent[d] * a[d]);
    return root * root;
}

/* The row as a . b <= e with a >= 0; false: it is none. */
static bool covers(const shoali_linear_row *row, uint32_t dims, double *a, double *e)
{
    const double sign = row->equal && row->bound < 0 ? -1 : 1;
    *e = sign * row->bound;
    for (uint32_t d = 0; d < dims; d++) {
        a[d] = sign * row->coef[d];
        if (a[d] < 0)
            return false;
    }
    return *e > 0;
}

/* Each dimension as fast as the rows that name no other allow. */
static double capped_time(const shoali_times *t, const double *cap)
{
    double sum = t->constant;
    for (uint32_t j = 0; j < t->term_count; j++) {
        const shoali_piece *piece = t->pieces + t->terms[j].first;
        double longest = 0;
        for (uint32_t r = 0; r < t->terms[j].count; r++)
            longest = fmax(longest, piece[r].add + piece[r].amount / cap[piece[r].dim]);
        sum += longest;
    }
    return sum;
}

static double time_bound(const shoal_network *net, const shoali_limits *limits)
{
    const shoali_times *t = &net->times;
    double cap[DIMS], best = t->constant;
    for (uint32_t d = 0; d < net->dims; d++)
        cap[d] = INFINITY;
    for (uint32_t r = 0; r < limits->count; r++) {
        double a[DIMS] = {0}, e;
        uint32_t named = 0, last = 0;
        if (!covers(&limits->rows[r], net->dims, a, &e))
            continue;
        for (uint32_t d = 0; d < net->dims; d++) {
            named += a[d] > 0;
            last = a[d] > 0 ? d : last;
        }
        if (named == 1)
            cap[last] = fmin(cap[last], e / a[last]);
        best = fmax(best, t->constant + pull(t, a) / e);
    }
    return fmax(best, capped_time(t, cap));
}

/* The least cost, without the fixed part, that the linear rows allow; infinite: they allow none. */
static double cost_bound(const shoal_network *net, const shoali_limits *limits)
{
    shoali_linear_answer answer;
    double gain[SHOALI_LINEAR_VARS] = {0};
    for (uint32_t d = 0; d < net->dims; d++)
        gain[d] = -net->npus * net->unit_cost[d];
    shoali_linear_solve(gain, net->dims, limits->rows, limits->count, &answer);
    return answer.end == SHOALI_LINEAR_OPTIMAL ? fmax(0, -answer.value) : INFINITY;
}

double shoali_shape_bound(const shoal_network *net, const shoali_limits *limits,
                          shoal_network_objective objective)
{
    const double time = time_bound(net, limits), fixed = net->fixed_cost, k = net->times.constant;
    double price[DIMS] = {0};
    if (time > limits->time_limit)
        return INFINITY;
    if (objective == SHOAL_NETWORK_PERF)
        return time;
    for (uint32_t d = 0; d < net->dims; d++)
        price[d] = net->npus * net->unit_cost[d];
    const double least = cost_bound(net, limits), reach = pull(&net->times, price);
    if (objective == SHOAL_NETWORK_COST)
        return fixed + fmax(least, reach / (limits->time_limit - k));
    /* (k + reach / c) (fixed + c) is least at sqrt(reach fixed / k), or as near as c may come */
    const double c = fmax(least, k > 0 ? sqrt(reach * fixed / k) : least);
    const double product = c > 0 ? (k + reach / c) * (fixed + c) : k * fixed + reach;
    return PRODUCT_SCALE * fmax(time * (fixed + least), least < INFINITY ? product : INFINITY);
}

/* ---------------------------------------------------------------- one question */

typedef struct ranked {
    double bound;
    uint64_t index;
} ranked;

/* A question on its way through the shapes. */
typedef struct hunt {
    const shoal_network_shapes *shapes;
    const shoal_network_question *question;
    shoali_network_job *jobs;
    const char *limits[SHOALI_LINEAR_ROWS];
    char caps[DIMS][40];
    shoal_network_shape *best;
    uint32_t most, found;
    shoal_network_choice *choice;
} hunt;

/* The question about one shape: its blocks' rates are limits, too. */
static shoal_network_question question_of(hunt *h, const shoali_shape *shape)
{
    shoal_network_question q = *h->question;
    memcpy(h->limits, q.limits, q.limit_count * sizeof *h->limits);
    for (uint32_t d = 0; d < shape->dims; d++) {
        double rate = h->shapes->blocks[shape->block[d]].rate;
        if (rate <= 0)
            continue;
        snprintf(h->caps[d], sizeof h->caps[d], "b%u <= %.17g", d, rate);
        h->limits[q.limit_count++] = h->caps[d];
    }
    q.limits = h->limits;
    return q;
}

static int by_bound(const void *a_in, const void *b_in)
{
    const ranked *a = a_in, *b = b_in;
    if (a->bound != b->bound)
        return a->bound < b->bound ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static shoal_status rank(hunt *h, ranked *order)
{
    for (uint64_t i = 0; i < h->shapes->count; i++) {
        shoal_network net;
        shoali_limits limits;
        shoali_shape_network(h->shapes, &h->shapes->shapes[i], h->jobs, &net);
        shoal_network_question q = question_of(h, &h->shapes->shapes[i]);
        SHOALI_TRY(shoali_limits_parse(&net, &q, &limits));
        order[i] = (ranked){shoali_shape_bound(&net, &limits, q.objective), i};
    }
    qsort(order, h->shapes->count, sizeof *order, by_bound);
    return SHOAL_OK;
}

/* Whether a shape without an answer has none because of the limits, and not because the question
 * has none: linear rows that nothing meets, or a limit on time (with an end to bandwidth). */
static bool is_beyond(const shoal_network *net, const shoal_network_question *q)
{
    shoali_limits limits;
    shoali_linear_answer answer;
    double gain[SHOALI_LINEAR_VARS] = {0};
    if (shoali_limits_parse(net, q, &limits) != SHOAL_OK)
        return false;
    shoali_linear_solve(gain, net->dims, limits.rows, limits.count, &answer);
    if (answer.end == SHOALI_LINEAR_INFEASIBLE)
        return true;
    for (uint32_t d = 0; d < net->dims && q->objective == SHOAL_NETWORK_PERF; d++) {
        memset(gain, 0, sizeof gain);
        gain[d] = 1;
        shoali_linear_solve(gain, net->dims, limits.rows, limits.count, &answer);
        if (answer.end == SHOALI_LINEAR_UNBOUNDED)
            return false;
    }
    return limits.time_limit < INFINITY;
}

static void enter(hunt *h, const shoal_network *net, const shoal_network_answer *answer)
{
    uint32_t at = h->found < h->most ? h->found++ : h->most - 1;
    for (; at > 0 && answer->objective < h->best[at - 1].answer.objective; at--)
        h->best[at] = h->best[at - 1];
    shoal_network_shape *out = &h->best[at];
    *out = (shoal_network_shape){.dims = net->dims, .answer = *answer};
    for (uint32_t d = 0; d < net->dims; d++) {
        out->topology[d] = shoali_topology_name(net->dimension[d].topology);
        out->members[d] = net->dimension[d].size;
        out->unit_cost[d] = net->unit_cost[d];
    }
}

static bool is_full_of_better(const hunt *h, double objective)
{
    return h->found == h->most && objective >= h->best[h->most - 1].answer.objective;
}

static shoal_status solve(hunt *h, const shoali_shape *shape)
{
    shoal_network net;
    shoal_network_answer answer = {.size = sizeof answer};
    shoal_error why;
    shoali_shape_network(h->shapes, shape, h->jobs, &net);
    shoal_network_question q = question_of(h, shape);
    shoal_status status = shoal_network_solve(&net, &q, &answer);
    shoali_error_get(&why);
    if (status == SHOAL_EINVAL && is_beyond(&net, &q)) {
        h->choice->beyond++;
        return SHOAL_OK;
    }
    if (status != SHOAL_OK)
        return shoali_error_set(&why);
    h->choice->solved++;
    h->choice->bound = fmin(h->choice->bound, answer.bound);
    if (!is_full_of_better(h, answer.objective))
        enter(h, &net, &answer);
    return SHOAL_OK;
}

static shoal_status go(hunt *h, ranked *order)
{
    const uint64_t count = h->shapes->count;
    uint64_t i = 0;
    SHOALI_TRY(rank(h, order));
    for (; i < count && order[i].bound < INFINITY && !is_full_of_better(h, order[i].bound); i++)
        SHOALI_TRY(solve(h, &h->shapes->shapes[order[i].index]));
    for (; i < count; i++) {
        const bool none = order[i].bound == INFINITY;
        h->choice->beyond += none;
        h->choice->excluded += !none;
        h->choice->bound = fmin(h->choice->bound, order[i].bound);
    }
    if (h->found == 0)
        return shoali_fail(SHOAL_EINVAL, "none of the %llu shapes is within the limits",
                           (unsigned long long)count);
    h->choice->objective = h->best[0].answer.objective;
    h->choice->bound = fmin(h->choice->bound, h->choice->objective);
    h->choice->gap = (h->choice->objective - h->choice->bound) / h->choice->objective;
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- asking */

/* b0 of one shape is not b0 of another. */
static bool names_dimension(const char *limit)
{
    for (const char *at = limit; *at != '\0'; at++)
        if (*at == 'b' && isdigit((unsigned char)at[1]))
            return true;
    return false;
}

static shoal_status check(const shoal_network_shapes *shapes,
                          const shoal_network_question *question)
{
    if (question->limit_count > SHOALI_LINEAR_ROWS - 4 - DIMS)
        return shoali_fail(SHOAL_EINVAL, "%u limits; at most %d where shapes are looked for",
                           question->limit_count, SHOALI_LINEAR_ROWS - 4 - DIMS);
    for (uint32_t i = 0; i < question->limit_count; i++)
        if (names_dimension(question->limits[i]))
            return shoali_fail(SHOAL_EINVAL,
                               "limit '%.64s' names a dimension, and each shape has others: say "
                               "rate=GB/s of a block",
                               question->limits[i]);
    if (question->objective != SHOAL_NETWORK_PERF && !shapes->has_cost)
        return shoali_fail(SHOAL_EINVAL, "this objective needs costs: cost= of the blocks");
    return SHOAL_OK;
}

shoal_status shoal_network_shapes_best(const shoal_network_shapes *shapes,
                                       const shoal_network_question *question,
                                       shoal_network_shape *best, uint32_t most, uint32_t *found,
                                       shoal_network_choice *choice)
{
    if (shapes == NULL || question == NULL || best == NULL || most == 0 || found == NULL ||
        choice == NULL || question->size < sizeof *question || choice->size < sizeof *choice)
        return shoali_fail(SHOAL_EINVAL, "shoal_network_shapes_best needs shapes, a question, room "
                                         "for answers and a choice, with their sizes set");
    SHOALI_TRY(check(shapes, question));
    hunt h = {shapes, question, .best = best, .most = most, .choice = choice};
    *choice = (shoal_network_choice){.size = sizeof *choice,
                                     .shapes = shapes->count,
                                     .misfits = shapes->misfits,
                                     .bound = INFINITY};
    ranked *order = shoali_alloc_array(shapes->count, sizeof *order);
    h.jobs = shoali_alloc_array(shapes->base->job_count, sizeof *h.jobs);
    shoal_status status = order != NULL && h.jobs != NULL ? go(&h, order) : SHOAL_ENOMEM;
    shoali_free(order);
    shoali_free(h.jobs);
    *found = h.found;
    return status;
}
