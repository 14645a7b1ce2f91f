/* SPDX-License-Identifier: Apache-2.0 */
/* Least time * cost. The product is not convex in b, but g(c) = least time with a network of at
 * most c is convex in c, and each solved c brings a line below g: the dual bound as a function of
 * the budget, with the budget's multiplier as its slope. Between two solved budgets g lies above
 * both lines, c times a falling line is concave, so the least of c times the higher line is at an
 * end or where the lines cross: a certified bound for the interval. The interval with the lowest
 * bound is split until all bounds are close to the best product seen (planning.md 3.6). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/network.h"

enum { POINTS_MAX = 400 };
#define GAP_ENOUGH 2e-10 /* a fifth of what is promised */

/* A budget, and the best line there: time(c') >= height - slope c' for every budget c'. */
typedef struct point {
    double budget, height, slope;
} point;

typedef struct product {
    shoali_search *search;
    point at[POINTS_MAX]; /* by rising budget */
    uint32_t count;
    double least, fixed; /* budgets begin here; cost that is always paid */
    double unit[SHOALI_CONVEX_DIMS];
    shoali_optimum best;
} product;

static double cost_of(const product *p, const double *b)
{
    double cost = 0;
    for (uint32_t d = 0; d < p->search->network->dims; d++)
        cost += p->unit[d] * b[d];
    return cost;
}

/* The cheapest (sign -1) or dearest network that the rows allow; INFINITY: no end. */
static double extreme_cost(const product *p, double sign, double *b)
{
    const shoali_limits *limits = p->search->limits;
    double gain[SHOALI_LINEAR_VARS] = {0};
    shoali_linear_answer answer;
    for (uint32_t d = 0; d < p->search->network->dims; d++)
        gain[d] = sign * p->unit[d];
    shoali_linear_solve(gain, p->search->network->dims, limits->rows, limits->count, &answer);
    memcpy(b, answer.x, sizeof answer.x);
    return answer.end == SHOALI_LINEAR_OPTIMAL ? cost_of(p, answer.x) : INFINITY;
}

static void consider(product *p, const shoali_optimum *found)
{
    double value = (cost_of(p, found->b) + p->fixed) * found->time;
    if (found->time <= p->search->limits->time_limit && value < p->best.value) {
        p->best = *found;
        p->best.value = value;
    }
}

static double height_at(const point *line, double budget)
{
    return line->height - line->slope * budget;
}

static void raise(point *at, const point *line)
{
    if (height_at(line, at->budget) > height_at(at, at->budget)) {
        at->height = line->height;
        at->slope = line->slope;
    }
}

/* Every line holds for all budgets: each point has the one that is highest there, whether or not
 * solving it brought a good one. */
static void insert(product *p, point new)
{
    const point own = new;
    for (uint32_t k = 0; k < p->count; k++) {
        raise(&new, &p->at[k]);
        raise(&p->at[k], &own);
    }
    uint32_t i = p->count++;
    for (; i > 0 && p->at[i - 1].budget > new.budget; i--)
        p->at[i] = p->at[i - 1];
    p->at[i] = new;
}

/* Least time with at most this budget. */
static shoal_status solve_at(product *p, double budget)
{
    shoali_search inner = *p->search;
    const shoali_limits *limits = inner.limits;
    uint32_t dims = inner.network->dims;
    double price[SHOALI_LINEAR_ROWS];
    shoali_optimum found;
    inner.rows[0] = (shoali_linear_row){.bound = budget};
    memcpy(inner.rows[0].coef, p->unit, dims * sizeof *p->unit);
    memcpy(inner.rows + 1, limits->rows, limits->count * sizeof *inner.rows);
    inner.row_count = limits->count + 1;
    if (shoali_linear_inside(inner.rows, &inner.row_count, dims, inner.weight, inner.start,
                             price) != SHOALI_LINEAR_OPTIMAL ||
        inner.rows[0].equal) {
        /* so close to the least budget that rounding leaves no inside */
        insert(p, (point){budget, p->search->times->constant, 0});
        return SHOAL_OK;
    }
    shoali_arena_reset(inner.scratch);
    SHOALI_TRY(shoali_search_time(&inner, &found));
    p->search->solves = inner.solves;
    p->search->steps = inner.steps;
    double slope = fmax(0, found.row_price[0]);
    insert(p, (point){budget, found.bound + slope * budget, slope});
    consider(p, &found);
    return SHOAL_OK;
}

static double product_at(const product *p, const point *line, double budget)
{
    return (p->fixed + budget) * height_at(line, budget);
}

/* Lower bound over [budget before i, budget i]; split_out: where to look next. */
static double interval_bound(const product *p, uint32_t i, double *split_out)
{
    const point *right = &p->at[i], *left = i > 0 ? &p->at[i - 1] : right;
    double from = i > 0 ? left->budget : p->least, to = right->budget;
    double bound = fmin(product_at(p, left, from), product_at(p, right, to));
    *split_out = (from + to) / 2;
    if (i == 0)
        return fmin(bound, product_at(p, right, from));
    double cross = (left->height - right->height) / (left->slope - right->slope);
    if (!(cross > from && cross < to))
        return fmin(bound, fmin(fmax(product_at(p, left, from), product_at(p, right, from)),
                                fmax(product_at(p, left, to), product_at(p, right, to))));
    double room = 0.05 * (to - from);
    *split_out = fmin(fmax(cross, from + room), to - room);
    return fmin(bound, product_at(p, left, cross));
}

static double lowest(const product *p, double *split_out)
{
    double least = INFINITY, split;
    for (uint32_t i = 0; i < p->count; i++) {
        double bound = interval_bound(p, i, &split);
        if (bound < least) {
            least = bound;
            *split_out = split;
        }
    }
    return least;
}

/* Budgets beyond which the product is larger than what is known already. */
static shoal_status find_ends(product *p, double *most_out)
{
    shoali_search *search = p->search;
    shoali_optimum cheap;
    double b[SHOALI_LINEAR_VARS];
    p->least = extreme_cost(p, -1, b) * (1 - 1e-12); /* a rounding on the safe side */
    if (search->limits->time_limit < INFINITY) {
        SHOALI_TRY(shoali_search_cost(search, &cheap));
        p->least = fmax(p->least, cheap.bound);
        consider(p, &cheap);
    }
    double most = extreme_cost(p, 1, b) * (1 + 1e-12), first = 2 * cost_of(p, search->start);
    if (p->least <= 1e-12 * first && p->fixed <= 0)
        return shoali_fail(SHOAL_EINVAL,
                           "time * cost has no minimum: ever less bandwidth is ever better; add "
                           "'sum == ..', 'time <= ..' or a cost that is always paid");
    if (most == INFINITY) {
        SHOALI_TRY(solve_at(p, fmax(first, 2 * p->least)));
        most = p->best.value / search->times->constant;
    }
    if (!(most < INFINITY))
        return shoali_fail(SHOAL_EINVAL, "nothing ends the bandwidth, and the workload computes "
                                         "nothing; add 'sum == ..'");
    *most_out = most;
    return SHOAL_OK;
}

/* All networks within the limits cost the same: the fastest of them. */
static shoal_status solve_the_only(product *p, double *bound_out)
{
    shoali_optimum found;
    SHOALI_TRY(shoali_search_time(p->search, &found));
    consider(p, &found);
    *bound_out = (p->fixed + p->least) * found.bound;
    return SHOAL_OK;
}

/* The cheapest network: no budget so near to it has an inside. */
static void consider_the_cheapest(product *p)
{
    shoali_optimum cheapest = p->best;
    double b[SHOALI_LINEAR_VARS];
    if (!(extreme_cost(p, -1, b) < INFINITY))
        return;
    memcpy(cheapest.b, b, sizeof cheapest.b);
    cheapest.time = shoali_times_at(p->search->times, b);
    if (cheapest.time < INFINITY)
        consider(p, &cheapest);
}

/* Budgets between the least and this one. */
static shoal_status solve_all(product *p, double most, double *bound_out)
{
    double split = 0;
    if (most - p->least <= 0.1 * GAP_ENOUGH * most)
        return solve_the_only(p, bound_out);
    SHOALI_TRY(solve_at(p, most));
    consider_the_cheapest(p);
    while (p->count < POINTS_MAX) {
        *bound_out = lowest(p, &split);
        if (p->best.value - *bound_out <= GAP_ENOUGH * p->best.value)
            break;
        SHOALI_TRY(solve_at(p, split));
    }
    return SHOAL_OK;
}

shoal_status shoali_search_product(shoali_search *search, shoali_optimum *out)
{
    product *p = shoali_alloc(sizeof *p);
    double most = 0, bound = 0;
    if (p == NULL)
        return SHOAL_ENOMEM;
    *p = (product){.search = search, .fixed = search->network->fixed_cost};
    p->best.value = INFINITY;
    for (uint32_t d = 0; d < search->network->dims; d++)
        p->unit[d] = search->network->npus * search->network->unit_cost[d];
    shoal_status status = find_ends(p, &most);
    if (status == SHOAL_OK)
        status = solve_all(p, most, &bound);
    *out = p->best;
    out->bound = bound;
    shoali_free(p);
    return status;
}
