/* SPDX-License-Identifier: Apache-2.0 */
/* Small dense linear programs: what a set of linear constraints allows, where its inside is, and
 * which constraints contradict each other. Sizes are those of network design: a few dimensions, a
 * few dozen constraints. */
#ifndef SHOALI_PLAN_LINEAR_H
#define SHOALI_PLAN_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOALI_LINEAR_VARS = 9, SHOALI_LINEAR_ROWS = 40 };

/** coef . x <= bound, or == bound. */
typedef struct shoali_linear_row {
    double coef[SHOALI_LINEAR_VARS];
    double bound;
    bool equal;
} shoali_linear_row;

typedef enum {
    SHOALI_LINEAR_OPTIMAL,
    SHOALI_LINEAR_INFEASIBLE,
    SHOALI_LINEAR_UNBOUNDED
} shoali_linear_end;

typedef struct shoali_linear_answer {
    shoali_linear_end end;
    double x[SHOALI_LINEAR_VARS];
    double value;
    /* OPTIMAL: multipliers (>= 0 for <=). INFEASIBLE: Farkas' multipliers: rows whose entry is not
     * 0 contradict each other. */
    double price[SHOALI_LINEAR_ROWS];
} shoali_linear_answer;

/**
 * Maximise gain . x over x >= 0 and the rows: simplex on a dense tableau, Bland's rule.
 * @param vars, row_count at most SHOALI_LINEAR_VARS, SHOALI_LINEAR_ROWS
 */
void shoali_linear_solve(const double *gain, uint32_t vars, const shoali_linear_row *rows,
                         uint32_t row_count, shoali_linear_answer *out);

/**
 * A point well inside the rows: as far from every inequality, and from x >= 0, as it can be, with
 * x[v] measured in units of weight[v].
 * Inequalities that can only hold with equality are marked in rows (equal = true), and equalities
 * that follow from others are dropped, so that the rest has an inside.
 * @param weight          > 0, one per variable
 * @param rows, row_count changed as said; at most SHOALI_LINEAR_ROWS - 1
 * @param x_out           the point; vars entries
 * @return OPTIMAL or INFEASIBLE; then price_out[SHOALI_LINEAR_ROWS] names the culprits by index
 */
shoali_linear_end shoali_linear_inside(shoali_linear_row *rows, uint32_t *row_count, uint32_t vars,
                                       const double *weight, double *x_out, double *price_out);

#endif
