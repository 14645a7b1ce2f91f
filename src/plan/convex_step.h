/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the convex solver: its state, scaled by the starting point, and one step. Only convex.c
 * and convex_step.c include this. */
#ifndef SHOALI_PLAN_CONVEX_STEP_H
#define SHOALI_PLAN_CONVEX_STEP_H

#include "plan/convex.h"

/** One inequality: slack > 0, multiplier > 0, the step of both, and what their product should
 *  become. */
typedef struct shoali_side {
    double slack, price, slack_step, price_step, target;
} shoali_side;

/** One scaled piece: add + amount / x[dim] <= t of its term. */
typedef struct shoali_scaled_piece {
    double add, amount;
    uint32_t dim;
} shoali_scaled_piece;

/** One term: its t, the mean slope of its pieces weighted by price / slack, that weight's sum. */
typedef struct shoali_scaled_term {
    double t, t_step, weight, right, mean[SHOALI_CONVEX_DIMS];
} shoali_scaled_term;

/** b = unit_b x; T = constant + unit_t sum t; value in unit_value. */
typedef struct shoali_ipm {
    const shoali_convex *problem;
    uint32_t dims, terms, pieces, rows;
    double unit_b[SHOALI_CONVEX_DIMS], unit_t, unit_value;
    double row_unit[SHOALI_LINEAR_ROWS]; /* scaled row = row_unit times the row over x */
    shoali_linear_row row[SHOALI_LINEAR_ROWS];
    double time_weight, cost[SHOALI_CONVEX_DIMS], time_limit;
    double x[SHOALI_CONVEX_DIMS], x_step[SHOALI_CONVEX_DIMS];
    shoali_scaled_term *term;
    shoali_scaled_piece *piece;
    shoali_side *piece_side;
    shoali_side row_side[SHOALI_LINEAR_ROWS]; /* equalities use price and price_step only */
    shoali_side low_side[SHOALI_CONVEX_DIMS]; /* x >= 0 */
    shoali_side late_side;                    /* the time limit, if there is one */
} shoali_ipm;

/** Call f on every inequality's side. */
void shoali_ipm_sides(shoali_ipm *s, void (*f)(shoali_side *side, void *user), void *user);
/** Sum of slack times price, and how many there are. */
double shoali_ipm_complementarity(shoali_ipm *s, uint32_t *count_out);
/** One predictor and corrector step; false when it cannot move any more. */
bool shoali_ipm_step(shoali_ipm *s);

#endif
