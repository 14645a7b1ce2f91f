/* SPDX-License-Identifier: Apache-2.0 */
/* Setting up, the loop, and the certificate; the step is in convex_step.c. Everything is measured
 * in units of the starting point: x = b / start, times in its communication time. */
#include "plan/convex.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "plan/convex_step.h"

enum { DIMS = SHOALI_CONVEX_DIMS, STEPS_MAX = 80, ROUNDS_MAX = 12 };
#define GAP_ENOUGH 2e-14 /* of what can be influenced; a 50th of what is promised */
#define ROW_ROOM 1e-12   /* of a row's own size */
#define GAP_POOR 1e-12
#define NEAR 0.1 /* of the way back to the start */

double shoali_times_at(const shoali_times *times, const double *b)
{
    double total = times->constant;
    for (uint32_t j = 0; j < times->term_count; j++) {
        const shoali_piece *pieces = times->pieces + times->terms[j].first;
        double longest = 0;
        for (uint32_t r = 0; r < times->terms[j].count; r++) {
            double part = pieces[r].amount > 0 ? pieces[r].amount / b[pieces[r].dim] : 0;
            longest = fmax(longest, pieces[r].add + part);
        }
        total += longest;
    }
    return total;
}

static double value_at(const shoali_convex *p, const double *b, double time)
{
    double value = p->time_weight * time;
    for (uint32_t d = 0; d < p->times->dims; d++)
        value += p->price[d] * b[d];
    return value;
}

/* ---------------------------------------------------------------- certificate */

/* min over 0 <= b <= upper of pressure / b + price b */
static double least_of_dimension(double pressure, double price, double upper)
{
    if (upper == INFINITY)
        return price < 0 ? -INFINITY : 2 * sqrt(pressure * price);
    if (price > 0 && pressure <= price * upper * upper)
        return 2 * sqrt(pressure * price);
    return upper > 0 ? pressure / upper + price * upper : 0;
}

/* W (constant + sum mu add), with the pieces' multipliers made to sum to 1 in each term; adds what
 * weighs on each dimension to pressure. */
static double weigh_terms(const shoali_ipm *s, double weight, double *pressure)
{
    const shoali_times *times = s->problem->times;
    double fixed = times->constant;
    for (uint32_t j = 0; j < s->terms; j++) {
        const shoali_term *term = &times->terms[j];
        double sum = 0;
        for (uint32_t r = term->first; r < term->first + term->count; r++)
            sum += s->piece_side[r].price;
        for (uint32_t r = term->first; r < term->first + term->count; r++) {
            double mu = s->piece_side[r].price / sum;
            fixed += mu * times->pieces[r].add;
            pressure[times->pieces[r].dim] += weight * mu * times->pieces[r].amount;
        }
    }
    return weight * fixed;
}

/* What the current multipliers prove. */
static void certify(const shoali_ipm *s, shoali_optimum *out)
{
    const shoali_convex *p = s->problem;
    double y[DIMS];
    memcpy(y, p->price, sizeof y);
    memset(out->pressure, 0, sizeof out->pressure);
    bool limited = p->time_limit < INFINITY;
    out->time_price = limited ? s->late_side.price * s->unit_value / s->unit_t : 0;
    double bound = weigh_terms(s, p->time_weight + out->time_price, out->pressure);
    if (limited)
        bound -= out->time_price * p->time_limit;
    for (uint32_t r = 0; r < s->rows; r++) {
        out->row_price[r] = s->row_side[r].price * s->unit_value * s->row_unit[r];
        bound -= out->row_price[r] * p->rows[r].bound;
        for (uint32_t d = 0; d < s->dims; d++)
            y[d] += out->row_price[r] * p->rows[r].coef[d];
    }
    for (uint32_t d = 0; d < s->dims; d++)
        bound += least_of_dimension(out->pressure[d], y[d], p->upper[d]);
    out->bound = bound;
}

/* ---------------------------------------------------------------- set up */

static void scale(shoali_ipm *s)
{
    const shoali_convex *p = s->problem;
    double cost = 0;
    s->unit_t = shoali_times_at(p->times, p->start) - p->times->constant;
    if (!(s->unit_t > 0))
        s->unit_t = 1;
    for (uint32_t d = 0; d < s->dims; d++) {
        s->unit_b[d] = p->start[d] > 0 ? p->start[d] : 1;
        s->x[d] = 1;
        cost += p->price[d] * s->unit_b[d];
    }
    s->unit_value = p->time_weight * s->unit_t + cost;
    if (!(s->unit_value > 0))
        s->unit_value = 1;
    s->time_weight = p->time_weight * s->unit_t / s->unit_value;
    for (uint32_t d = 0; d < s->dims; d++)
        s->cost[d] = p->price[d] * s->unit_b[d] / s->unit_value;
    s->time_limit = (p->time_limit - p->times->constant) / s->unit_t;
}

static void scale_rows(shoali_ipm *s)
{
    for (uint32_t r = 0; r < s->rows; r++) {
        const shoali_linear_row *row = &s->problem->rows[r];
        double largest = 0, left = 0;
        for (uint32_t d = 0; d < s->dims; d++)
            largest = fmax(largest, fabs(row->coef[d]) * s->unit_b[d]);
        s->row_unit[r] = largest > 0 ? 1 / largest : 1;
        s->row[r] = (shoali_linear_row){.bound = row->bound * s->row_unit[r], .equal = row->equal};
        for (uint32_t d = 0; d < s->dims; d++) {
            s->row[r].coef[d] = row->coef[d] * s->unit_b[d] * s->row_unit[r];
            left += s->row[r].coef[d];
        }
        s->row_side[r].slack = s->row[r].bound - left;
    }
}

/* t a little above each term's longest piece, so that all slacks are positive. */
static void scale_terms(shoali_ipm *s)
{
    const shoali_times *times = s->problem->times;
    double room = fmin(
        1,
        s->time_limit - (shoali_times_at(times, s->problem->start) - times->constant) / s->unit_t);
    double margin = s->terms > 0 ? 0.5 * room / s->terms : 0;
    double all = 0;
    for (uint32_t j = 0; j < s->terms; j++) {
        const shoali_term *term = &times->terms[j];
        double longest = 0;
        for (uint32_t r = term->first; r < term->first + term->count; r++) {
            const shoali_piece *piece = &times->pieces[r];
            s->piece[r] = (shoali_scaled_piece){piece->add / s->unit_t,
                                                piece->amount / s->unit_b[piece->dim] / s->unit_t,
                                                piece->dim};
            longest = fmax(longest, s->piece[r].add + s->piece[r].amount);
        }
        s->term[j].t = longest + margin;
        all += s->term[j].t;
        for (uint32_t r = term->first; r < term->first + term->count; r++)
            s->piece_side[r].slack = s->term[j].t - s->piece[r].add - s->piece[r].amount;
    }
    s->late_side.slack = s->time_limit - all;
}

static void first_price(shoali_side *side, void *user)
{
    side->price = *(const double *)user / side->slack;
}

/* false: no step can be made, because the start touches a bound. */
static bool set_up(shoali_ipm *s)
{
    uint32_t count = 0;
    scale(s);
    scale_rows(s);
    scale_terms(s);
    for (uint32_t d = 0; d < s->dims; d++)
        s->low_side[d].slack = 1;
    (void)shoali_ipm_complementarity(s, &count);
    shoali_ipm_sides(s, first_price, &(double){1.0 / count});
    if (!(s->time_limit < INFINITY))
        s->late_side.price = 0;
    for (uint32_t r = 0; r < s->rows; r++) {
        if (!s->row[r].equal && !(s->row_side[r].slack > 0))
            return false;
    }
    return s->terms > 0;
}

/* ---------------------------------------------------------------- the loop */

/* Rounding may leave b a little too slow: go back towards the start, which is not. T is convex, so
 * this share of the way is far enough. */
static double keep_the_limit(const shoali_convex *p, double *b, double time)
{
    double start_time = shoali_times_at(p->times, p->start);
    if (!(time > p->time_limit && start_time < p->time_limit))
        return time;
    double share = fmin(1, (time - p->time_limit) / (time - start_time) * (1 + 1e-9) + 1e-16);
    for (uint32_t d = 0; d < p->times->dims; d++)
        b[d] += share * (p->start[d] - b[d]);
    return shoali_times_at(p->times, b);
}

/* Rounding in steps that are badly scaled may leave a row. */
static bool keeps_rows(const shoali_convex *p, const double *b)
{
    for (uint32_t r = 0; r < p->row_count; r++) {
        const shoali_linear_row *row = &p->rows[r];
        double over = -row->bound, size = fabs(row->bound);
        for (uint32_t d = 0; d < p->times->dims; d++) {
            over += row->coef[d] * b[d];
            size += fabs(row->coef[d] * b[d]);
        }
        if ((row->equal ? fabs(over) : over) > ROW_ROOM * size)
            return false;
    }
    return true;
}

/* Keep the best b and, by itself, the best bound. */
static void keep_better(const shoali_ipm *s, shoali_optimum *out)
{
    const shoali_convex *p = s->problem;
    shoali_optimum now = *out;
    double b[DIMS] = {0};
    for (uint32_t d = 0; d < s->dims; d++)
        b[d] = s->x[d] * s->unit_b[d];
    double time = keep_the_limit(p, b, shoali_times_at(p->times, b));
    double value = value_at(p, b, time);
    if (value < out->value && time <= p->time_limit && keeps_rows(p, b)) {
        memcpy(out->b, b, sizeof b);
        out->time = time;
        out->value = value;
    }
    certify(s, &now);
    if (now.bound > out->bound) {
        out->bound = now.bound;
        out->time_price = now.time_price;
        memcpy(out->row_price, now.row_price, sizeof out->row_price);
        memcpy(out->pressure, now.pressure, sizeof out->pressure);
    }
}

static bool close_enough(const shoali_convex *p, const shoali_optimum *out)
{
    double movable = out->value - p->time_weight * p->times->constant;
    return out->value - out->bound <= GAP_ENOUGH * movable;
}

static shoal_status make(const shoali_convex *problem, shoal_arena *scratch, shoali_ipm **out)
{
    shoali_ipm *s = shoali_arena_alloc(scratch, sizeof *s);
    if (s == NULL)
        return SHOAL_ENOMEM;
    s->problem = problem;
    s->dims = problem->times->dims;
    s->terms = problem->times->term_count;
    s->pieces = problem->times->piece_count;
    s->rows = problem->row_count;
    s->term = shoali_arena_array(scratch, s->terms, sizeof *s->term);
    s->piece = shoali_arena_array(scratch, s->pieces, sizeof *s->piece);
    s->piece_side = shoali_arena_array(scratch, s->pieces, sizeof *s->piece_side);
    if (s->term == NULL || s->piece == NULL || s->piece_side == NULL)
        return SHOAL_ENOMEM;
    *out = s;
    return SHOAL_OK;
}

/* Steps from the problem's start until they bring no more; false: the start is no inside. */
static bool walk(shoali_ipm *s, shoali_optimum *out)
{
    uint32_t idle = 0, steps = 0;
    if (!set_up(s))
        return false;
    for (; steps < STEPS_MAX && idle < 4 && !close_enough(s->problem, out); steps++) {
        double before = out->value - out->bound;
        if (!shoali_ipm_step(s))
            break;
        keep_better(s, out);
        idle = out->value - out->bound < 0.9 * before || steps < 19 ? 0 : idle + 1;
    }
    out->steps += steps;
    return true;
}

shoal_status shoali_convex_solve(const shoali_convex *problem, shoal_arena *scratch,
                                 shoali_optimum *out)
{
    shoali_ipm *s;
    shoali_convex again = *problem;
    double start[DIMS] = {0};
    SHOALI_TRY(make(&again, scratch, &s));
    *out = (shoali_optimum){.bound = -INFINITY};
    memcpy(out->b, problem->start, s->dims * sizeof *out->b);
    out->time = shoali_times_at(problem->times, out->b);
    out->value = value_at(problem, out->b, out->time);
    memcpy(start, problem->start, s->dims * sizeof *start);
    again.start = start;
    /* A start that is orders of magnitude from the optimum measures it in unfit units: again from
     * near to what was found, which lies inside as the start does. */
    for (uint32_t round = 0; round < ROUNDS_MAX && walk(s, out); round++) {
        if (out->value - out->bound <= GAP_POOR * out->value)
            break;
        for (uint32_t d = 0; d < s->dims; d++)
            start[d] = out->b[d] + NEAR * (start[d] - out->b[d]);
    }
    return SHOAL_OK;
}
