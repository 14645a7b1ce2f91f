/* SPDX-License-Identifier: Apache-2.0 */
/* One step of Mehrotra's method. The t's are eliminated term by term: a term leaves behind the
 * covariance of its pieces' slopes, computed around their mean, because the plain difference of
 * products would lose every digit near the optimum, where weights grow without bound. */
#include "plan/convex_step.h"

#include <math.h>
#include <string.h>

enum { DIMS = SHOALI_CONVEX_DIMS, ORDER_MAX = DIMS + DIMS + 1 };

/* The reduced system: one unknown per dimension, per equality, and one for the time limit. */
typedef struct reduced {
    double a[ORDER_MAX][ORDER_MAX + 1]; /* last column: right side */
    uint32_t order, late;               /* late: index of the time limit's unknown */
} reduced;

void shoali_ipm_sides(shoali_ipm *s, void (*f)(shoali_side *side, void *user), void *user)
{
    for (uint32_t r = 0; r < s->pieces; r++)
        f(&s->piece_side[r], user);
    for (uint32_t r = 0; r < s->rows; r++) {
        if (!s->row[r].equal)
            f(&s->row_side[r], user);
    }
    for (uint32_t d = 0; d < s->dims; d++)
        f(&s->low_side[d], user);
    if (s->time_limit < INFINITY)
        f(&s->late_side, user);
}

typedef struct total {
    double sum;
    uint32_t count;
} total;

static void add_product(shoali_side *side, void *user)
{
    total *sum = user;
    sum->sum += side->slack * side->price;
    sum->count++;
}

double shoali_ipm_complementarity(shoali_ipm *s, uint32_t *count_out)
{
    total sum = {0};
    shoali_ipm_sides(s, add_product, &sum);
    *count_out = sum.count;
    return sum.sum;
}

/* ---------------------------------------------------------------- the system */

/* By how much a piece and its slack miss t: 0 but for the bend of the last step. */
static double residual_of(const shoali_ipm *s, uint32_t j, uint32_t r)
{
    const shoali_scaled_piece *piece = &s->piece[r];
    double part = piece->amount > 0 ? piece->amount / s->x[piece->dim] : 0;
    return piece->add + part - s->term[j].t + s->piece_side[r].slack;
}

static double slope_of(const shoali_ipm *s, const shoali_scaled_piece *piece)
{
    double x = s->x[piece->dim];
    return piece->amount / (x * x);
}

/* What one term adds once its t is eliminated. */
static void add_term(shoali_ipm *s, uint32_t j, reduced *k)
{
    const shoali_term *range = &s->problem->times->terms[j];
    shoali_scaled_term *term = &s->term[j];
    double pull = s->time_weight + s->late_side.price, right[DIMS] = {0}, sum = 0;
    memset(term->mean, 0, sizeof term->mean);
    term->weight = 0;
    for (uint32_t r = range->first; r < range->first + range->count; r++) {
        double w = s->piece_side[r].price / s->piece_side[r].slack;
        term->weight += w;
        term->mean[s->piece[r].dim] += w * slope_of(s, &s->piece[r]);
    }
    for (uint32_t d = 0; d < s->dims; d++) {
        term->mean[d] /= term->weight;
        right[d] += term->mean[d] * pull;
    }
    for (uint32_t r = range->first; r < range->first + range->count; r++) {
        const shoali_scaled_piece *piece = &s->piece[r];
        const shoali_side *side = &s->piece_side[r];
        double w = side->price / side->slack, apart[DIMS];
        double goal = side->target / side->slack + w * residual_of(s, j, r);
        for (uint32_t d = 0; d < s->dims; d++)
            apart[d] = (d == piece->dim ? slope_of(s, piece) : 0) - term->mean[d];
        for (uint32_t d = 0; d < s->dims; d++) {
            for (uint32_t e = 0; e < s->dims; e++)
                k->a[d][e] += w * apart[d] * apart[e];
            right[d] += apart[d] * goal;
        }
        k->a[piece->dim][piece->dim] += side->price * 2 * slope_of(s, piece) / s->x[piece->dim];
        sum += goal;
    }
    term->right = sum - pull;
    for (uint32_t d = 0; d < s->dims; d++)
        k->a[d][k->order] += right[d];
    if (s->time_limit < INFINITY) {
        for (uint32_t d = 0; d < s->dims; d++) {
            k->a[d][k->late] -= term->mean[d];
            k->a[k->late][d] -= term->mean[d];
        }
        k->a[k->late][k->late] -= 1 / term->weight;
        k->a[k->late][k->order] -= term->right / term->weight;
    }
}

static void add_row(const shoali_ipm *s, uint32_t r, uint32_t *equal, reduced *k)
{
    const double *coef = s->row[r].coef;
    const shoali_side *side = &s->row_side[r];
    if (s->row[r].equal) {
        double off = -s->row[r].bound;
        for (uint32_t d = 0; d < s->dims; d++) {
            k->a[d][*equal] = k->a[*equal][d] = coef[d];
            k->a[d][k->order] -= coef[d] * side->price;
            off += coef[d] * s->x[d];
        }
        k->a[*equal][k->order] = -off;
        ++*equal;
        return;
    }
    double w = side->price / side->slack, goal = side->target / side->slack;
    for (uint32_t d = 0; d < s->dims; d++) {
        for (uint32_t e = 0; e < s->dims; e++)
            k->a[d][e] += w * coef[d] * coef[e];
        k->a[d][k->order] -= coef[d] * goal;
    }
}

static double sum_of_t(const shoali_ipm *s)
{
    double sum = 0;
    for (uint32_t j = 0; j < s->terms; j++)
        sum += s->term[j].t;
    return sum;
}

static void build(shoali_ipm *s, reduced *k)
{
    uint32_t equal = s->dims;
    memset(k, 0, sizeof *k);
    k->order = s->dims;
    for (uint32_t r = 0; r < s->rows; r++)
        k->order += s->row[r].equal;
    k->late = k->order;
    k->order += s->time_limit < INFINITY;
    for (uint32_t d = 0; d < s->dims; d++) {
        const shoali_side *low = &s->low_side[d];
        k->a[d][d] += low->price / low->slack;
        k->a[d][k->order] += low->target / low->slack - s->cost[d];
    }
    for (uint32_t r = 0; r < s->rows; r++)
        add_row(s, r, &equal, k);
    if (s->time_limit < INFINITY) {
        const shoali_side *late = &s->late_side;
        k->a[k->late][k->late] = -late->slack / late->price;
        k->a[k->late][k->order] = s->time_limit - sum_of_t(s) - late->target / late->price;
    }
    for (uint32_t j = 0; j < s->terms; j++)
        add_term(s, j, k);
}

/* Gauss with partial pivoting; the solution replaces the right side. */
static bool eliminate(reduced *k)
{
    for (uint32_t c = 0; c < k->order; c++) {
        uint32_t best = c;
        for (uint32_t r = c + 1; r < k->order; r++)
            best = fabs(k->a[r][c]) > fabs(k->a[best][c]) ? r : best;
        if (!(fabs(k->a[best][c]) > 0))
            return false;
        for (uint32_t e = c; best != c && e <= k->order; e++) {
            double kept = k->a[c][e];
            k->a[c][e] = k->a[best][e];
            k->a[best][e] = kept;
        }
        for (uint32_t r = 0; r < k->order; r++) {
            double times = r == c ? 0 : k->a[r][c] / k->a[c][c];
            for (uint32_t e = c; times != 0 && e <= k->order; e++)
                k->a[r][e] -= times * k->a[c][e];
        }
    }
    for (uint32_t c = 0; c < k->order; c++)
        k->a[c][k->order] /= k->a[c][c];
    return true;
}

/* ---------------------------------------------------------------- steps */

static void price_follows(shoali_side *side)
{
    side->price_step = (side->target - side->price * side->slack_step) / side->slack - side->price;
}

static void step_terms(shoali_ipm *s)
{
    double late = s->time_limit < INFINITY ? s->late_side.price_step : 0, all = 0;
    for (uint32_t j = 0; j < s->terms; j++) {
        const shoali_term *range = &s->problem->times->terms[j];
        shoali_scaled_term *term = &s->term[j];
        double along = 0, own = (term->right - late) / term->weight;
        for (uint32_t d = 0; d < s->dims; d++)
            along += term->mean[d] * s->x_step[d];
        term->t_step = own - along;
        all += term->t_step;
        for (uint32_t r = range->first; r < range->first + range->count; r++) {
            const shoali_scaled_piece *piece = &s->piece[r];
            shoali_side *side = &s->piece_side[r];
            side->slack_step = slope_of(s, piece) * s->x_step[piece->dim] - along + own -
                               residual_of(s, j, r);
            price_follows(side);
        }
    }
    s->late_side.slack_step = s->time_limit - sum_of_t(s) - s->late_side.slack - all;
}

/* Solve for the targets that stand in the sides. */
static bool direction(shoali_ipm *s)
{
    reduced k;
    uint32_t equal = s->dims;
    build(s, &k);
    if (!eliminate(&k))
        return false;
    for (uint32_t d = 0; d < s->dims; d++) {
        s->x_step[d] = k.a[d][k.order];
        s->low_side[d].slack_step = s->x_step[d];
        price_follows(&s->low_side[d]);
    }
    for (uint32_t r = 0; r < s->rows; r++) {
        shoali_side *side = &s->row_side[r];
        if (s->row[r].equal) {
            side->price_step = k.a[equal++][k.order];
            continue;
        }
        side->slack_step = 0;
        for (uint32_t d = 0; d < s->dims; d++)
            side->slack_step -= s->row[r].coef[d] * s->x_step[d];
        price_follows(side);
    }
    if (s->time_limit < INFINITY)
        s->late_side.price_step = k.a[k.late][k.order];
    step_terms(s);
    return true;
}

static void shorten(shoali_side *side, void *user)
{
    double *length = user;
    if (side->slack_step < 0)
        *length = fmin(*length, -side->slack / side->slack_step);
    if (side->price_step < 0)
        *length = fmin(*length, -side->price / side->price_step);
}

typedef struct move {
    double length, target;
} move;

static void aim(shoali_side *side, void *user)
{
    side->target = ((const move *)user)->target;
}

static void aim_corrected(shoali_side *side, void *user)
{
    side->target = ((const move *)user)->target - side->slack_step * side->price_step;
}

static void predict(shoali_side *side, void *user)
{
    move *m = user;
    m->target += (side->slack + m->length * side->slack_step) *
                 (side->price + m->length * side->price_step);
}

static void take(shoali_side *side, void *user)
{
    double length = ((const move *)user)->length;
    side->slack += length * side->slack_step;
    side->price += length * side->price_step;
}

/* The pieces bend towards t: where one is longer than its tangent said, t is raised, so that slacks
 * are true ones. Without this, products of slack and price fall far ahead of what is left of the
 * bend, and steps become short. */
static void raise_to_fit(shoali_ipm *s, uint32_t j)
{
    const shoali_term *range = &s->problem->times->terms[j];
    double missing = 0;
    for (uint32_t r = range->first; r < range->first + range->count; r++)
        missing = fmax(missing, residual_of(s, j, r));
    s->term[j].t += missing;
    for (uint32_t r = range->first; r < range->first + range->count; r++) {
        double room = s->piece_side[r].slack - residual_of(s, j, r);
        if (room > 1.001 * s->piece_side[r].slack)
            s->piece_side[r].slack = room;
    }
}

static void advance(shoali_ipm *s, double length)
{
    for (uint32_t j = 0; j < s->terms; j++)
        s->term[j].t += length * s->term[j].t_step;
    for (uint32_t d = 0; d < s->dims; d++)
        s->x[d] += length * s->x_step[d];
    for (uint32_t r = 0; r < s->rows; r++) {
        if (s->row[r].equal)
            s->row_side[r].price += length * s->row_side[r].price_step;
    }
    shoali_ipm_sides(s, take, &(move){.length = length});
    for (uint32_t j = 0; j < s->terms; j++)
        raise_to_fit(s, j);
}

/* Where 1 / x is near its tangent: not below a part of x at once. */
static double longest_for_x(const shoali_ipm *s)
{
    double length = 1;
    for (uint32_t d = 0; d < s->dims; d++) {
        if (s->x_step[d] < 0)
            length = fmin(length, -0.6 * s->x[d] / s->x_step[d]);
    }
    return length;
}

bool shoali_ipm_step(shoali_ipm *s)
{
    uint32_t count;
    double now = shoali_ipm_complementarity(s, &count), length = 1;
    move m = {.target = 0};
    shoali_ipm_sides(s, aim, &m);
    if (!direction(s))
        return false;
    shoali_ipm_sides(s, shorten, &length);
    m = (move){.length = length, .target = 0};
    shoali_ipm_sides(s, predict, &m);
    double ratio = fmin(1, fmax(0, m.target / now));
    m.target = ratio * ratio * ratio * now / count;
    shoali_ipm_sides(s, aim_corrected, &m);
    if (!direction(s))
        return false;
    length = 1 / 0.995;
    shoali_ipm_sides(s, shorten, &length);
    length = fmin(0.995 * length, longest_for_x(s));
    if (!(length > 1e-12))
        return false;
    advance(s, length);
    return true;
}
