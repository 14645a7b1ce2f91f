/* SPDX-License-Identifier: Apache-2.0 */
/* The convex program behind network design, and a proof of its answer.
 *
 *     minimise    time_weight T(b) + price . b
 *     subject to  linear rows in b, b >= 0, T(b) <= time_limit
 *     where       T(b) = constant + sum over terms j of
 *                        max over pieces r of j of (add_r + amount_r / b_dim(r))
 *
 * A primal-dual interior-point method finds b; its multipliers, mended so that they are exactly
 * dual feasible, give a lower bound that holds whatever the method did (weak duality): */
/*     bound = W (constant + sum mu_r add_r) + sum over d of min over 0 <= b <= upper_d of
 *             (W_d / b + Y_d b) - nu time_limit - lambda . e,
 *     with W = time_weight + nu, sum of mu_r over a term = 1, W_d = W sum of mu_r amount_r over the
 *     pieces on d, Y = price + A' lambda. The inner minimum is 2 sqrt(W_d Y_d) where that lies
 *     below upper_d (planning.md 3.7). */
#ifndef SHOALI_PLAN_CONVEX_H
#define SHOALI_PLAN_CONVEX_H

#include "base/arena.h"
#include "plan/linear.h"
#include "shoal/status.h"

enum { SHOALI_CONVEX_DIMS = SHOALI_LINEAR_VARS - 1 };

/** add + amount / b[dim]: a time of one collective's share of one dimension. */
typedef struct shoali_piece {
    double add, amount;
    uint32_t dim;
} shoali_piece;

/** Pieces first .. first + count - 1, whose largest counts. */
typedef struct shoali_term {
    uint32_t first, count;
} shoali_term;

typedef struct shoali_times {
    double constant;
    const shoali_piece *pieces;
    const shoali_term *terms;
    uint32_t piece_count, term_count, dims;
} shoali_times;

typedef struct shoali_convex {
    const shoali_times *times;
    const shoali_linear_row *rows; /* with an inside and independent: shoali_linear_inside */
    uint32_t row_count;
    double time_weight, price[SHOALI_CONVEX_DIMS];
    double time_limit;                /* INFINITY: none */
    const double *start;              /* strictly inside, also of time_limit */
    double upper[SHOALI_CONVEX_DIMS]; /* what the rows allow at most; INFINITY: not known */
} shoali_convex;

typedef struct shoali_optimum {
    double b[SHOALI_CONVEX_DIMS];
    double time, value;                   /* value: what was minimised */
    double bound;                         /* no feasible b has a smaller value */
    double row_price[SHOALI_LINEAR_ROWS]; /* lambda: multipliers of the rows */
    double time_price;                    /* nu: of time_limit */
    double pressure[SHOALI_CONVEX_DIMS];  /* W_d; 0: time does not depend on this dimension */
    uint32_t steps;
} shoali_optimum;

/** T(b). Infinite where a dimension with traffic has no bandwidth. */
double shoali_times_at(const shoali_times *times, const double *b);

/**
 * Solve. Always gives a feasible b and a valid bound; how close they are says value - bound.
 * @return SHOAL_OK | ENOMEM
 */
SHOAL_MUST_USE shoal_status shoali_convex_solve(const shoali_convex *problem, shoal_arena *scratch,
                                                shoali_optimum *out);

#endif
