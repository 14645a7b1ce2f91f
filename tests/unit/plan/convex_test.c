/* SPDX-License-Identifier: Apache-2.0 */
/* The convex solver against closed forms, against NLopt, and against its own certificate. */
#include "plan/convex.h"

#include <math.h>
#include <nlopt.h>

#include "base/rng.h"
#include "support/check.h"

enum { D = 4, J = 3, PIECES = D * J };

static const double even[] = {1, 1, 1, 1};

typedef struct fixture {
    shoali_piece pieces[PIECES];
    shoali_term terms[J];
    shoali_times times;
    shoali_linear_row rows[SHOALI_LINEAR_ROWS];
    uint32_t row_count;
    double start[SHOALI_LINEAR_VARS];
    shoali_convex problem;
} fixture;

static void set(fixture *f, uint32_t terms, const double (*amount)[D], double constant)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < terms; j++) {
        f->terms[j] = (shoali_term){n, 0};
        for (uint32_t d = 0; d < D; d++) {
            if (amount[j][d] > 0)
                f->pieces[n++] = (shoali_piece){0, amount[j][d], d};
        }
        f->terms[j].count = n - f->terms[j].first;
    }
    f->times = (shoali_times){constant, f->pieces, f->terms, n, terms, D};
}

static void limit_sum(fixture *f, double total)
{
    double price[SHOALI_LINEAR_ROWS];
    f->rows[f->row_count++] = (shoali_linear_row){{1, 1, 1, 1}, total, true};
    assert_int_equal(shoali_linear_inside(f->rows, &f->row_count, D, even, f->start, price),
                     SHOALI_LINEAR_OPTIMAL);
    f->problem = (shoali_convex){.times = &f->times,
                                 .rows = f->rows,
                                 .row_count = f->row_count,
                                 .time_weight = 1,
                                 .time_limit = INFINITY,
                                 .start = f->start};
    for (uint32_t d = 0; d < D; d++)
        f->problem.upper[d] = total;
}

static shoali_optimum solve(const fixture *f)
{
    shoali_optimum out;
    shoal_arena *scratch = shoali_arena_create(4096);
    assert_non_null(scratch);
    assert_ok(shoali_convex_solve(&f->problem, scratch, &out));
    shoali_arena_destroy(scratch);
    assert_true(out.bound <= out.value * (1 + 1e-15));
    return out;
}

static void one_group_has_a_closed_form(void **state)
{
    (void)state;
    const double m[1][D] = {{76508736, 22315048, 2390898, 772060.75}};
    fixture f = {.row_count = 0};
    set(&f, 1, m, 1095314);
    limit_sum(&f, 100);
    shoali_optimum o = solve(&f);
    double total = m[0][0] + m[0][1] + m[0][2] + m[0][3], want = 1095314 + total / 100;
    assert_true(fabs(o.time - want) <= 1e-12 * want);
    assert_true(o.value - o.bound <= 1e-12 * o.value);
    for (uint32_t d = 0; d < D; d++)
        assert_true(fabs(o.b[d] - 100 * m[0][d] / total) < 1e-6);
}

static void disjoint_groups_have_a_closed_form(void **state)
{
    (void)state;
    const double m[2][D] = {{8, 2, 0, 0}, {0, 0, 3, 1}};
    fixture f = {.row_count = 0};
    set(&f, 2, m, 7);
    limit_sum(&f, 5);
    shoali_optimum o = solve(&f);
    double want = 7 + pow(sqrt(10) + sqrt(4), 2) / 5;
    assert_true(fabs(o.time - want) <= 1e-12 * want);
    assert_true(o.value - o.bound <= 1e-12 * o.value);
}

/* ---------------------------------------------------------------- random problems */

static double sum_t(unsigned n, const double *x, double *grad, void *data)
{
    (void)data;
    double sum = 0;
    for (unsigned i = 0; i < n; i++) {
        sum += i >= D ? x[i] : 0;
        if (grad != NULL)
            grad[i] = i >= D;
    }
    return sum;
}

typedef struct constraint {
    const shoali_piece *piece;
    unsigned j;
} constraint;

static double too_long(unsigned n, const double *x, double *grad, void *data)
{
    const constraint *c = data;
    double b = x[c->piece->dim];
    for (unsigned i = 0; grad != NULL && i < n; i++)
        grad[i] = i == c->piece->dim ? -c->piece->amount / (b * b) : i == D + c->j ? -1 : 0;
    return c->piece->add + c->piece->amount / b - x[D + c->j];
}

static double off_total(unsigned n, const double *x, double *grad, void *data)
{
    double off = -*(double *)data;
    for (unsigned i = 0; i < n; i++) {
        off += i < D ? x[i] : 0;
        if (grad != NULL)
            grad[i] = i < D;
    }
    return off;
}

/* The same epigraph form by NLopt's SLSQP; INFINITY where that gives up. */
static double by_nlopt(const fixture *f, double total)
{
    double x[D + J], low[D + J], value = 0;
    constraint c[PIECES];
    nlopt_opt opt = nlopt_create(NLOPT_LD_SLSQP, D + f->times.term_count);
    for (uint32_t i = 0; i < D + f->times.term_count; i++) {
        low[i] = i < D ? 1e-6 * total : 0;
        x[i] = i < D ? total / D : 1e3;
    }
    nlopt_set_lower_bounds(opt, low);
    nlopt_set_min_objective(opt, sum_t, NULL);
    nlopt_add_equality_constraint(opt, off_total, &total, 1e-12);
    for (uint32_t j = 0; j < f->times.term_count; j++) {
        for (uint32_t r = 0; r < f->terms[j].count; r++) {
            uint32_t at = f->terms[j].first + r;
            c[at] = (constraint){&f->pieces[at], j};
            nlopt_add_inequality_constraint(opt, too_long, &c[at], 1e-12);
        }
    }
    nlopt_set_xtol_rel(opt, 1e-13);
    nlopt_set_maxeval(opt, 3000);
    nlopt_result result = nlopt_optimize(opt, x, &value);
    nlopt_destroy(opt);
    return result > 0 || result == NLOPT_ROUNDOFF_LIMITED ? shoali_times_at(&f->times, x)
                                                          : INFINITY;
}

/* Random terms over shared dimensions, with offsets as overlap gives them. */
static void random_terms(fixture *f, shoali_rng *rng)
{
    double m[J][D];
    for (int j = 0; j < J; j++) {
        for (int d = 0; d < D; d++)
            m[j][d] = shoali_rng_next_double(rng) < 0.3 && d != j
                          ? 0
                          : pow(10, 3 * shoali_rng_next_double(rng));
    }
    set(f, J, (const double(*)[D])m, 3);
    for (uint32_t r = 0; r < f->times.piece_count; r++)
        f->pieces[r].add = r % 3 == 1 ? 2 * shoali_rng_next_double(rng) : 0;
}

static void random_problems_agree_with_nlopt(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed()};
    int agreed = 0;
    for (int trial = 0; trial < 60; trial++) {
        fixture f = {.row_count = 0};
        random_terms(&f, &rng);
        limit_sum(&f, 10);
        shoali_optimum o = solve(&f);
        double other = by_nlopt(&f, 10);
        assert_true(o.value - o.bound <= 1e-12 * o.value);
        if (!(o.time <= other * (1 + 1e-9)))
            fail_msg("trial %d: ours %.12g, NLopt %.12g", trial, o.time, other);
        agreed += fabs(other - o.time) <= 1e-6 * o.time;
    }
    assert_true(agreed >= 45); /* SLSQP stops early now and then; ours is proved each time */
}

static void nothing_nearby_is_better(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed(), .stream = 1};
    fixture f = {.row_count = 0};
    random_terms(&f, &rng);
    limit_sum(&f, 10);
    shoali_optimum o = solve(&f);
    for (int trial = 0; trial < 200000; trial++) {
        double b[D], sum = 0, size = pow(10, -6 * shoali_rng_next_double(&rng));
        for (int d = 0; d < D; d++) {
            b[d] = o.b[d] * exp(size * shoali_rng_next_normal(&rng));
            sum += b[d];
        }
        for (int d = 0; d < D; d++)
            b[d] *= 10 / sum;
        assert_true(shoali_times_at(&f.times, b) >= o.time * (1 - 1e-12));
    }
}

static void a_limit_on_time_is_kept(void **state)
{
    (void)state;
    const double m[2][D] = {{8, 2, 1, 0}, {0, 1, 3, 1}};
    fixture f = {.row_count = 0};
    set(&f, 2, m, 7);
    limit_sum(&f, 50);
    f.rows[0].equal = false;
    f.problem.time_weight = 0;
    f.problem.time_limit = 12;
    for (uint32_t d = 0; d < D; d++) {
        f.problem.price[d] = 1 + d;
        f.start[d] = 12;
    }
    shoali_optimum o = solve(&f);
    assert_true(o.time <= 12 && o.time > 12 * (1 - 1e-9));
    assert_true(o.value - o.bound <= 1e-12 * o.value && o.time_price > 0);
}

/* Whatever multipliers there are after few steps, the bound must hold. */
static void bounds_hold_with_rows_of_every_kind(void **state)
{
    (void)state;
    shoali_rng rng = {.seed = check_seed(), .stream = 2};
    for (int trial = 0; trial < 300; trial++) {
        fixture f = {.row_count = 3};
        random_terms(&f, &rng);
        f.rows[0] = (shoali_linear_row){{-1, 1, 0, 0}, 0, false};
        f.rows[1] = (shoali_linear_row){{0, 0, 1, 1}, 2 + 2 * shoali_rng_next_double(&rng), true};
        f.rows[2] = (shoali_linear_row){{0, 0, 0, -1}, -shoali_rng_next_double(&rng), false};
        limit_sum(&f, 10);
        shoali_optimum o = solve(&f);
        assert_true(o.value - o.bound <= 5e-11 * o.value);
        assert_true(o.b[1] <= o.b[0] * (1 + 1e-12));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(one_group_has_a_closed_form),
                                       CHECK_TEST(disjoint_groups_have_a_closed_form),
                                       CHECK_TEST(random_problems_agree_with_nlopt),
                                       CHECK_TEST(nothing_nearby_is_better),
                                       CHECK_TEST(a_limit_on_time_is_kept),
                                       CHECK_TEST(bounds_hold_with_rows_of_every_kind)};
    return CHECK_RUN(tests);
}
