/* SPDX-License-Identifier: Apache-2.0 */
/* The tableau has, per row, one slack column (inequalities) and one artificial column; the latter
 * stay to the end, because the objective row over them shows the rows' multipliers. Rows are scaled
 * to a largest coefficient of 1 before anything else, so one tolerance fits all. */
#include "plan/linear.h"

#include <math.h>
#include <string.h>

enum {
    VARS = SHOALI_LINEAR_VARS,
    ROWS = SHOALI_LINEAR_ROWS,
    COLUMNS = VARS + 2 * ROWS,
    PIVOTS_MAX = 10000
};
#define TINY 1e-10

typedef struct tableau {
    double a[ROWS][COLUMNS], right[ROWS];
    double reduced[COLUMNS]; /* objective row: gain still to be had per column */
    double sign[ROWS], scale[ROWS];
    uint32_t basis[ROWS];
    uint32_t vars, rows;
} tableau;

static uint32_t slack_of(const tableau *t, uint32_t row)
{
    return t->vars + row;
}

static uint32_t artificial_of(const tableau *t, uint32_t row)
{
    return t->vars + t->rows + row;
}

static double row_scale(const shoali_linear_row *row, uint32_t vars)
{
    double largest = 0;
    for (uint32_t v = 0; v < vars; v++)
        largest = fmax(largest, fabs(row->coef[v]));
    return largest > 0 ? 1 / largest : 1;
}

static void fill(tableau *t, uint32_t vars, const shoali_linear_row *rows, uint32_t count)
{
    memset(t, 0, sizeof *t);
    t->vars = vars;
    t->rows = count;
    for (uint32_t r = 0; r < count; r++) {
        t->scale[r] = row_scale(&rows[r], vars);
        t->sign[r] = rows[r].bound < 0 ? -1 : 1;
        double by = t->sign[r] * t->scale[r];
        for (uint32_t v = 0; v < vars; v++)
            t->a[r][v] = rows[r].coef[v] * by;
        t->a[r][slack_of(t, r)] = rows[r].equal ? 0 : t->sign[r];
        t->a[r][artificial_of(t, r)] = 1;
        t->right[r] = rows[r].bound * by;
        t->basis[r] = artificial_of(t, r);
    }
}

static void pivot(tableau *t, uint32_t row, uint32_t column, uint32_t columns)
{
    double by = 1 / t->a[row][column];
    for (uint32_t c = 0; c < columns; c++)
        t->a[row][c] *= by;
    t->right[row] *= by;
    for (uint32_t r = 0; r < t->rows; r++) {
        double times = t->a[r][column];
        if (r == row || times == 0)
            continue;
        for (uint32_t c = 0; c < columns; c++)
            t->a[r][c] -= times * t->a[row][c];
        t->right[r] = fmax(0, t->right[r] - times * t->right[row]);
        t->a[r][column] = 0;
    }
    double times = t->reduced[column];
    for (uint32_t c = 0; c < columns; c++)
        t->reduced[c] -= times * t->a[row][c];
    t->reduced[column] = 0;
    t->basis[row] = column;
}

/* The row that limits a column most; ties: the lowest basic variable (Bland). rows: none. */
static uint32_t limiting_row(const tableau *t, uint32_t column)
{
    uint32_t best = t->rows;
    double least = 0;
    for (uint32_t r = 0; r < t->rows; r++) {
        if (t->a[r][column] <= TINY)
            continue;
        double ratio = t->right[r] / t->a[r][column], room = TINY * (1 + fabs(ratio));
        bool first = best == t->rows || ratio < least - room;
        if (first || (ratio <= least + room && t->basis[r] < t->basis[best])) {
            least = best == t->rows ? ratio : fmin(least, ratio);
            best = r;
        }
    }
    return best;
}

/* Pivot while a column below `usable` gains. false: unbounded. */
static bool climb(tableau *t, uint32_t usable)
{
    uint32_t columns = t->vars + 2 * t->rows;
    for (uint32_t step = 0; step < PIVOTS_MAX; step++) {
        uint32_t column = 0;
        while (column < usable && t->reduced[column] <= TINY)
            column++;
        if (column == usable)
            return true;
        uint32_t row = limiting_row(t, column);
        if (row == t->rows)
            return false;
        pivot(t, row, column, columns);
    }
    return true;
}

/* Reduced gains of an objective, given over all columns, for the current basis. */
static void price_out(tableau *t, const double *gain)
{
    uint32_t columns = t->vars + 2 * t->rows;
    memcpy(t->reduced, gain, columns * sizeof *gain);
    for (uint32_t r = 0; r < t->rows; r++) {
        double times = gain[t->basis[r]];
        for (uint32_t c = 0; times != 0 && c < columns; c++)
            t->reduced[c] -= times * t->a[r][c];
    }
}

/* Artificial variables still basic (at 0) leave where another column can take their place. */
static void drive_out(tableau *t)
{
    uint32_t real = t->vars + t->rows;
    for (uint32_t r = 0; r < t->rows; r++) {
        if (t->basis[r] < real)
            continue;
        uint32_t column = 0;
        while (column < real && fabs(t->a[r][column]) <= 1e-7)
            column++;
        if (column < real)
            pivot(t, r, column, t->vars + 2 * t->rows);
    }
}

/* Multipliers: minus the reduced gain of the artificial column, whose own gain was `own`. */
static void read_prices(const tableau *t, double own, double *price)
{
    for (uint32_t r = 0; r < t->rows; r++)
        price[r] = (own - t->reduced[artificial_of(t, r)]) * t->sign[r] * t->scale[r];
}

static bool find_start(tableau *t)
{
    double gain[COLUMNS] = {0}, left = 0, total = 0;
    for (uint32_t r = 0; r < t->rows; r++) {
        gain[artificial_of(t, r)] = -1;
        total += t->right[r];
    }
    price_out(t, gain);
    (void)climb(t, t->vars + t->rows);
    for (uint32_t r = 0; r < t->rows; r++)
        left += t->basis[r] >= t->vars + t->rows ? t->right[r] : 0;
    return left <= 1e-9 * (1 + total);
}

void shoali_linear_solve(const double *gain, uint32_t vars, const shoali_linear_row *rows,
                         uint32_t row_count, shoali_linear_answer *out)
{
    tableau t;
    double all[COLUMNS] = {0};
    *out = (shoali_linear_answer){.end = SHOALI_LINEAR_INFEASIBLE};
    fill(&t, vars, rows, row_count);
    if (!find_start(&t)) {
        read_prices(&t, -1, out->price);
        return;
    }
    drive_out(&t);
    memcpy(all, gain, vars * sizeof *gain);
    price_out(&t, all);
    out->end = climb(&t, vars + row_count) ? SHOALI_LINEAR_OPTIMAL : SHOALI_LINEAR_UNBOUNDED;
    for (uint32_t r = 0; r < row_count; r++) {
        if (t.basis[r] < vars)
            out->x[t.basis[r]] = t.right[r];
    }
    for (uint32_t v = 0; v < vars; v++)
        out->value += gain[v] * out->x[v];
    read_prices(&t, 0, out->price);
}

/* ---------------------------------------------------------------- the inside */

/* The rows over (x / weight - z, z): maximise the distance z to everything that may be left. */
static void with_distance(const shoali_linear_row *row, uint32_t vars, const double *weight,
                          shoali_linear_row *out)
{
    double sum = 0, size = 0;
    *out = (shoali_linear_row){.bound = row->bound, .equal = row->equal};
    for (uint32_t v = 0; v < vars; v++) {
        out->coef[v] = row->coef[v] * weight[v];
        sum += out->coef[v];
        size += fabs(out->coef[v]);
    }
    out->coef[vars] = row->equal ? sum : sum + size;
}

/* Drop equalities that the others imply (Gauss with pivoting over the equalities). */
static void drop_implied(shoali_linear_row *rows, uint32_t *count, uint32_t vars)
{
    double basis[ROWS][VARS];
    uint32_t rank = 0, kept = 0, lead[ROWS];
    for (uint32_t r = 0; r < *count; r++) {
        bool keep = true;
        if (rows[r].equal) {
            double by = row_scale(&rows[r], vars), rest[VARS];
            for (uint32_t v = 0; v < vars; v++)
                rest[v] = rows[r].coef[v] * by;
            for (uint32_t i = 0; i < rank; i++) {
                double times = rest[lead[i]];
                for (uint32_t v = 0; v < vars; v++)
                    rest[v] -= times * basis[i][v];
            }
            uint32_t at = 0;
            for (uint32_t v = 1; v < vars; v++)
                at = fabs(rest[v]) > fabs(rest[at]) ? v : at;
            keep = rank < vars && fabs(rest[at]) > 1e-9;
            for (uint32_t v = 0; keep && v < vars; v++)
                basis[rank][v] = rest[v] / rest[at];
            if (keep)
                lead[rank++] = at;
        }
        if (keep)
            rows[kept++] = rows[r];
    }
    *count = kept;
}

/* Mark inequalities with a multiplier as equalities. */
static bool mark_tight(shoali_linear_row *rows, uint32_t count, const double *price)
{
    bool any = false;
    for (uint32_t r = 0; r < count; r++) {
        if (!rows[r].equal && price[r] > 1e-9)
            any = rows[r].equal = true;
    }
    return any;
}

static void unshift(const shoali_linear_answer *answer, uint32_t vars, const double *weight,
                    double *x_out)
{
    for (uint32_t v = 0; v < vars; v++)
        x_out[v] = weight[v] * (answer->x[v] + answer->x[vars]);
}

shoali_linear_end shoali_linear_inside(shoali_linear_row *rows, uint32_t *row_count, uint32_t vars,
                                       const double *weight, double *x_out, double *price_out)
{
    shoali_linear_row wide[ROWS];
    shoali_linear_answer answer;
    double gain[VARS] = {0}, largest = 1;
    gain[vars] = 1;
    for (uint32_t round = 0; round <= ROWS; round++) {
        uint32_t count = *row_count;
        for (uint32_t r = 0; r < count; r++) {
            with_distance(&rows[r], vars, weight, &wide[r]);
            largest = fmax(largest, fabs(wide[r].bound) * row_scale(&wide[r], vars));
        }
        wide[count] = (shoali_linear_row){.bound = largest}; /* where nothing else ends z */
        wide[count].coef[vars] = 1;
        shoali_linear_solve(gain, vars + 1, wide, count + 1, &answer);
        if (answer.end == SHOALI_LINEAR_INFEASIBLE)
            break;
        unshift(&answer, vars, weight, x_out);
        if (answer.x[vars] > 1e-9 * largest || !mark_tight(rows, count, answer.price)) {
            drop_implied(rows, row_count, vars);
            return SHOALI_LINEAR_OPTIMAL;
        }
    }
    memcpy(price_out, answer.price, sizeof answer.price);
    return SHOALI_LINEAR_INFEASIBLE;
}
