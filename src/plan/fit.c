/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration from measured steps: factors on a cluster's parts by least squares of the relative
 * errors of whole predictions. A step is no sum of its causes (arithmetic hides memory, exchanges
 * hide behind computation), so each set of factors is tried on the cluster and every row is
 * predicted anew: damped Gauss-Newton on logarithms, then a search along the axes, because
 * predictions have kinks. */
#include "plan/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/rng.h"
#include "plan/predict.h"

enum { STEPS = 40, AXIS_ROUNDS = 60, MANY_ROWS = 8, FOLDS = 4, STREAM_FOLDS = 0x666f };

#define DEPENDS 0.01 /* of a step, and more, goes with the factor */

typedef struct fit {
    shoal_arena *arena;
    const double *seconds;
    shoali_question *rows; /* opened, their clusters prepared and at `at` */
    bool *held;
    uint32_t count, opened;
    bool
        lone[SHOALI_FACTORS]; /* of many rows one alone depends on it, or none to speak of: it would
                                  take errors that are of something else, and stays 1 */
    double at[SHOALI_FACTORS], low[SHOALI_FACTORS]; /* factors, not logarithms */
    double *error, *trial;                          /* [count] */
    double *slope;                                  /* [count][SHOALI_FACTORS] */
    const uint32_t *fold; /* [count] rows of fold `now` are held; NULL: by the descriptor's share */
    uint32_t now;
    double *score; /* [count] of rows that were held, where it is asked for */
} fit;

/* Relative errors of all rows, or of those that are fitted, with these factors. */
static shoal_status predict_rows(fit *f, const double *factors, bool all, double *error)
{
    for (uint32_t i = 0; i < f->count; i++) {
        shoal_prediction p;
        shoali_fit_scale(f->rows[i].cluster, f->at, factors);
        if (f->held[i] && !all)
            continue;
        SHOALI_TRY(shoali_question_answer(&f->rows[i], &p));
        error[i] = p.iteration_s / f->seconds[i] - 1;
    }
    memcpy(f->at, factors, sizeof f->at);
    return SHOAL_OK;
}

static double squares(const fit *f, const double *error)
{
    double sum = 0;
    for (uint32_t i = 0; i < f->count; i++)
        sum += f->held[i] ? 0 : error[i] * error[i];
    return sum;
}

static void move(const fit *f, const double *from, const double *by, double *to)
{
    for (int c = 0; c < SHOALI_FACTORS; c++)
        to[c] = f->lone[c] ? 1 : fmin(fmax(from[c] * exp(by[c]), f->low[c]), SHOALI_FACTOR_MAX);
}

/* Where a step of by[] along these axes brings an error; the factors are kept if it is less. */
static shoal_status try_move(fit *f, double *factors, const double *by, double *error, double *best,
                             bool *better)
{
    double to[SHOALI_FACTORS];
    double *trial = f->trial;
    move(f, factors, by, to);
    SHOALI_TRY(predict_rows(f, to, false, trial));
    double sum = squares(f, trial);
    *better = sum < *best;
    if (*better) {
        memcpy(factors, to, sizeof to);
        memcpy(error, trial, f->count * sizeof *error);
        *best = sum;
    }
    return SHOAL_OK;
}

/* d error / d ln(factor), by a step upwards: downwards there may be a bound. */
static shoal_status find_slopes(fit *f, const double *factors, const double *error)
{
    const double h = 1e-4;
    double *moved = f->trial;
    for (int c = 0; c < SHOALI_FACTORS; c++) {
        double to[SHOALI_FACTORS];
        memcpy(to, factors, sizeof to);
        to[c] *= exp(h);
        SHOALI_TRY(predict_rows(f, to, false, moved));
        for (uint32_t i = 0; i < f->count; i++)
            f->slope[i * SHOALI_FACTORS + c] = f->held[i] ? 0 : (moved[i] - error[i]) / h;
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- normal equations */

typedef struct normal {
    double m[SHOALI_FACTORS][SHOALI_FACTORS + 1];
    bool free[SHOALI_FACTORS];
} normal;

/* Factors that nothing depends on, or that want to go where their bound is, stand still. */
static normal normal_of(const fit *f, const double *factors, const double *error)
{
    normal n = {0};
    for (uint32_t i = 0; i < f->count; i++) {
        const double *row = &f->slope[i * SHOALI_FACTORS];
        for (int r = 0; r < SHOALI_FACTORS && !f->held[i]; r++) {
            for (int c = 0; c < SHOALI_FACTORS; c++)
                n.m[r][c] += row[r] * row[c];
            n.m[r][SHOALI_FACTORS] -= row[r] * error[i];
        }
    }
    for (int c = 0; c < SHOALI_FACTORS; c++) {
        bool below = factors[c] <= f->low[c] * (1 + 1e-9) && n.m[c][SHOALI_FACTORS] < 0;
        n.free[c] = n.m[c][c] > 1e-12 && !below && !f->lone[c];
    }
    return n;
}

/* Solve for the free ones, each diagonal entry raised by `damping` of itself; returns the smallest
 * pivot by its diagonal entry: how much a factor is told apart from the others. */
static double solve(normal n, double damping, double *by)
{
    double least = 1, whole[SHOALI_FACTORS];
    for (int i = 0; i < SHOALI_FACTORS; i++) {
        by[i] = 0;
        n.m[i][i] *= 1 + damping;
        whole[i] = n.m[i][i];
    }
    for (int i = 0; i < SHOALI_FACTORS; i++) {
        if (!n.free[i])
            continue;
        least = fmin(least, n.m[i][i] / whole[i]);
        if (!(n.m[i][i] > 1e-14 * whole[i]))
            return 0;
        for (int r = 0; r < SHOALI_FACTORS; r++) {
            double factor = n.m[r][i] / n.m[i][i];
            for (int c = 0; n.free[r] && r != i && c <= SHOALI_FACTORS; c++)
                n.m[r][c] -= factor * n.m[i][c];
        }
    }
    for (int i = 0; i < SHOALI_FACTORS; i++)
        if (n.free[i])
            by[i] = fmin(fmax(n.m[i][SHOALI_FACTORS] / n.m[i][i], -2), 2);
    return least;
}

/* ---------------------------------------------------------------- descent */

static shoal_status descend(fit *f, double *factors, double *error, double *best)
{
    double damping = 1e-3;
    for (int step = 0; step < STEPS && damping < 1e6; step++) {
        double by[SHOALI_FACTORS], before = *best;
        bool better = false;
        SHOALI_TRY(find_slopes(f, factors, error));
        const normal n = normal_of(f, factors, error);
        while (!better && damping < 1e6) {
            (void)solve(n, damping, by);
            SHOALI_TRY(try_move(f, factors, by, error, best, &better));
            damping *= better ? 1 : 10;
        }
        damping = fmax(damping * 0.1, 1e-9);
        if (!better || before - *best <= 1e-14 * before + 1e-20)
            break;
    }
    return SHOAL_OK;
}

/* Along the axes, with steps that become smaller, until they are too small to matter. */
static shoal_status search_axes(fit *f, double *factors, double *error, double *best)
{
    double step = 0.1;
    for (int round = 0; round < AXIS_ROUNDS && step > 1e-4; round++) {
        bool any = false;
        for (int c = 0; c < 2 * SHOALI_FACTORS; c++) {
            double by[SHOALI_FACTORS] = {0};
            bool better;
            by[c / 2] = c % 2 == 0 ? step : -step;
            SHOALI_TRY(try_move(f, factors, by, error, best, &better));
            any = any || better;
        }
        step *= any ? 1 : 0.5;
    }
    return SHOAL_OK;
}

/* From one start: the factors and sum of squares where it ends. */
static shoal_status fit_from(fit *f, const double *start, double *factors, double *best)
{
    static const double still[SHOALI_FACTORS] = {0};
    double *error = f->error;
    move(f, start, still, factors);
    SHOALI_TRY(predict_rows(f, factors, false, error));
    *best = squares(f, error);
    SHOALI_TRY(descend(f, factors, error, best));
    if (*best < 1e-12 * f->count)
        return SHOAL_OK;
    SHOALI_TRY(search_axes(f, factors, error, best));
    return descend(f, factors, error, best);
}

static const double starts[][SHOALI_FACTORS] = {
    {1, 1, 1, 1}, {2, 2, 1, 1}, {1, 2, 2, 4}, {1, 1, 4, 1}};
enum { STARTS = sizeof starts / sizeof *starts };

/* How many rows depend on each factor to speak of, from any start. */
static shoal_status find_lone(fit *f)
{
    uint32_t fitted = 0, rows[SHOALI_FACTORS] = {0};
    bool *seen = shoali_arena_array(f->arena, (size_t)f->count * SHOALI_FACTORS, sizeof *seen);
    if (seen == NULL)
        return SHOAL_ENOMEM;
    for (size_t s = 0; s < STARTS; s++) {
        SHOALI_TRY(predict_rows(f, starts[s], false, f->error));
        SHOALI_TRY(find_slopes(f, starts[s], f->error));
        for (size_t i = 0; i < (size_t)f->count * SHOALI_FACTORS; i++)
            seen[i] = seen[i] || fabs(f->slope[i]) > DEPENDS;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        fitted += !f->held[i];
        for (int c = 0; c < SHOALI_FACTORS; c++)
            rows[c] += seen[i * SHOALI_FACTORS + c];
    }
    for (int c = 0; c < SHOALI_FACTORS; c++)
        f->lone[c] = fitted >= MANY_ROWS && rows[c] <= 1;
    return SHOAL_OK;
}

/* Kinks make valleys: what one start finds may not be the lowest. */
static shoal_status fit_factors(fit *f, double *factors)
{
    double best = INFINITY;
    for (size_t i = 0; i < STARTS; i++) {
        double found[SHOALI_FACTORS], sum;
        SHOALI_TRY(fit_from(f, starts[i], found, &sum));
        if (sum < best) {
            best = sum;
            memcpy(factors, found, sizeof found);
        }
        if (best < 1e-6 * f->count)
            break;
    }
    return SHOAL_OK;
}

/* ---------------------------------------------------------------- rows in, errors out */

/* So many rows are held out, each as likely as any other. */
static void choose_held(fit *f, const shoal_fit_desc *desc)
{
    uint32_t left = (uint32_t)(desc->hold * (double)desc->count + 0.5);
    for (uint32_t i = 0; f->fold != NULL && i < f->count; i++)
        f->held[i] = f->fold[i] == f->now;
    if (f->fold != NULL)
        return;
    left = left < f->count ? left : f->count - 1;
    for (uint32_t i = 0; i < f->count; i++) {
        f->held[i] = shoali_rng_below(desc->seed, 0, i, f->count - i) < left;
        left -= f->held[i];
    }
}

static shoal_status open_rows(fit *f, const shoal_fit_desc *desc)
{
    const shoali_scale none = SHOALI_SCALE_NONE;
    for (; f->opened < f->count; f->opened++) {
        shoal_predict_desc row = desc->rows[f->opened];
        double seconds = desc->seconds[f->opened];
        if (!(seconds > 0) || !isfinite(seconds))
            return shoali_fail(SHOAL_EINVAL, "row %u: a measured step of %g s", f->opened, seconds);
        row.cluster = desc->cluster;
        SHOALI_TRY(shoali_question_open(&row, &none, &f->rows[f->opened]));
        shoal_status status = shoali_fit_prepare(f->rows[f->opened].cluster);
        if (status != SHOAL_OK) {
            shoali_question_close(&f->rows[f->opened]);
            return status;
        }
    }
    shoali_fit_bounds(f->rows[0].cluster, f->low);
    return SHOAL_OK;
}

static void sum_errors(const fit *f, const double *error, shoal_fit *out)
{
    for (uint32_t i = 0; i < f->count; i++) {
        bool held = f->held[i];
        double size = fabs(error[i]);
        *(held ? &out->held : &out->fitted) += 1;
        *(held ? &out->held_mean_error : &out->mean_error) += size;
        *(held ? &out->held_rms_error : &out->rms_error) += size * size;
        double *worst = held ? &out->held_worst_error : &out->worst_error;
        *worst = fmax(*worst, size);
    }
    out->mean_error /= fmax(1, out->fitted);
    out->rms_error = sqrt(out->rms_error / fmax(1, out->fitted));
    out->held_mean_error /= fmax(1, out->held);
    out->held_rms_error = sqrt(out->held_rms_error / fmax(1, out->held));
}

/* What the factors are worth: which no row determines, and which end at their bounds. */
static shoal_status judge(fit *f, double *factors, shoal_fit *out)
{
    double by[SHOALI_FACTORS];
    SHOALI_TRY(predict_rows(f, factors, false, f->error));
    SHOALI_TRY(find_slopes(f, factors, f->error));
    const normal n = normal_of(f, factors, f->error);
    if (solve(n, 0, by) < 1e-9)
        return shoali_fail(SHOAL_EINVAL,
                           "the measured rows do not tell the causes apart: measure more unlike "
                           "ones");
    for (int c = 0; c < SHOALI_FACTORS; c++) {
        out->not_seen[c] = n.m[c][c] <= 1e-12 || f->lone[c];
        out->at_bound[c] = !out->not_seen[c] && !n.free[c];
        if (out->not_seen[c])
            factors[c] = 1;
    }
    return SHOAL_OK;
}

/* By which spread the interval that shoal_predict makes of one just reaches what was measured. */
static shoal_status score_held(fit *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        shoal_prediction p;
        shoali_cluster *c = f->rows[i].cluster;
        if (!f->held[i])
            continue;
        for (uint32_t k = 0; k < c->accelerator_count; k++)
            c->accelerators[k].spread = 1;
        SHOALI_TRY(shoali_question_predict(&f->rows[i], &p));
        f->score[i] = fabs(f->seconds[i] - p.iteration_s) / (p.high_s - p.iteration_s);
    }
    return SHOAL_OK;
}

static shoal_status run(fit *f, const shoal_fit_desc *desc, shoal_fit *out)
{
    double factors[SHOALI_FACTORS] = {1, 1, 1, 1};
    f->rows = shoali_arena_array(f->arena, f->count, sizeof *f->rows);
    f->held = shoali_arena_array(f->arena, f->count, sizeof *f->held);
    f->error = shoali_arena_array(f->arena, f->count, sizeof *f->error);
    f->trial = shoali_arena_array(f->arena, f->count, sizeof *f->trial);
    f->slope = shoali_arena_array(f->arena, (size_t)f->count * SHOALI_FACTORS, sizeof *f->slope);
    if (f->rows == NULL || f->held == NULL || f->error == NULL || f->trial == NULL ||
        f->slope == NULL)
        return SHOAL_ENOMEM;
    choose_held(f, desc);
    SHOALI_TRY(open_rows(f, desc));
    SHOALI_TRY(find_lone(f));
    SHOALI_TRY(fit_factors(f, factors));
    SHOALI_TRY(judge(f, factors, out));
    SHOALI_TRY(predict_rows(f, factors, true, f->error));
    out->factors = (shoal_fit_factors){factors[0], factors[1], factors[2], factors[3]};
    sum_errors(f, f->error, out);
    return f->score != NULL ? score_held(f) : SHOAL_OK;
}

static shoal_status open_fit(const shoal_fit_desc *desc, fit *f)
{
    if (desc == NULL || desc->size != sizeof *desc || desc->cluster == NULL)
        return shoali_fail(SHOAL_EINVAL, "a fit needs a cluster, rows and a place for the answer");
    if (desc->count == 0 || desc->count > SHOALI_FIT_ROWS_MAX)
        return shoali_fail(SHOAL_EINVAL, "%zu measured rows; a fit takes 1 .. %d", desc->count,
                           SHOALI_FIT_ROWS_MAX);
    if (!(desc->hold >= 0 && desc->hold <= 0.9))
        return shoali_fail(SHOAL_EINVAL, "a share of %g held out; it must be 0 .. 0.9", desc->hold);
    *f = (fit){.arena = shoali_arena_create(1 << 16),
               .seconds = desc->seconds,
               .count = (uint32_t)desc->count,
               .at = {1, 1, 1, 1}};
    return f->arena != NULL ? SHOAL_OK : SHOAL_ENOMEM;
}

static void close_fit(fit *f)
{
    for (uint32_t i = 0; i < f->opened; i++)
        shoali_question_close(&f->rows[i]);
    shoali_arena_destroy(f->arena);
}

shoal_status shoal_calibrate_fit(const shoal_fit_desc *desc, shoal_fit *fit_out, bool *held_out)
{
    shoal_fit found = SHOAL_FIT_INIT;
    fit f;
    if (fit_out == NULL || fit_out->size != sizeof *fit_out)
        return shoali_fail(SHOAL_EINVAL, "a fit needs a cluster, rows and a place for the answer");
    SHOALI_TRY(open_fit(desc, &f));
    const shoal_status status = run(&f, desc, &found);
    if (status == SHOAL_OK) {
        *fit_out = found;
        if (held_out != NULL)
            memcpy(held_out, f.held, f.count * sizeof *held_out);
    }
    close_fit(&f);
    return status;
}

/* ---------------------------------------------------------------- the interval of what comes */

/* Rows of one fold, predicted from a fit to the others. */
static shoal_status score_fold(const shoal_fit_desc *desc, const uint32_t *fold, uint32_t now,
                               double *score)
{
    shoal_fit found = SHOAL_FIT_INIT;
    fit f;
    SHOALI_TRY(open_fit(desc, &f));
    f.fold = fold;
    f.now = now;
    f.score = score;
    const shoal_status status = run(&f, desc, &found);
    close_fit(&f);
    return status;
}

/* Each row is in one fold, the folds are as equal as can be, and the seed deals. */
static void deal(uint64_t seed, uint32_t count, uint32_t folds, uint32_t *fold)
{
    for (uint32_t i = 0; i < count; i++)
        fold[i] = i % folds;
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t other = (uint32_t)shoali_rng_below(seed, STREAM_FOLDS, i, i + 1);
        const uint32_t kept = fold[i];
        fold[i] = fold[other];
        fold[other] = kept;
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The smallest rank of sorted scores below which, two to one, nine of ten further ones lie: that of
 * which a draw of so many has no more below it than with this probability. */
static uint32_t rank_of(uint32_t count)
{
    double term = pow(0.9, count), above = term; /* binomial, from all downwards */
    uint32_t rank = count;
    while (rank > 1) {
        term *= rank / (count - rank + 1.0) / 9;
        if (above + term > 1.0 / 3)
            break;
        above += term;
        rank--;
    }
    return rank;
}

double shoali_fit_spread(double *score, uint32_t count)
{
    /* Student's t, 95 % one-sided, of 1 to 8 degrees of freedom: from a table. */
    static const double student[] = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860};
    enum { FEW = sizeof student / sizeof *student };
    double squares = 0;
    if (count == 0)
        return 0;
    if (count > FEW) {
        qsort(score, count, sizeof *score, by_size);
        return score[rank_of(count) - 1];
    }
    for (uint32_t i = 0; i < count; i++)
        squares += score[i] * score[i];
    return student[count - 1] * sqrt(squares / count);
}

shoal_status shoal_calibrate_spread(const shoal_fit_desc *desc, double *spread_out)
{
    if (desc == NULL || desc->size != sizeof *desc || spread_out == NULL || desc->count == 0 ||
        desc->count > SHOALI_FIT_ROWS_MAX)
        return shoali_fail(SHOAL_EINVAL, "a spread needs a fit's rows and a place for the answer");
    const uint32_t count = (uint32_t)desc->count;
    const uint32_t folds = count > 2 * FOLDS ? FOLDS : count;
    double *score = shoali_alloc_array(count, sizeof *score);
    uint32_t *fold = shoali_alloc_array(count, sizeof *fold), scored = 0;
    shoal_status status = score != NULL && fold != NULL ? SHOAL_OK : SHOAL_ENOMEM;
    if (status == SHOAL_OK)
        deal(desc->seed, count, folds, fold);
    for (uint32_t i = 0; status == SHOAL_OK && i < count; i++)
        score[i] = -1;
    for (uint32_t now = 0; status == SHOAL_OK && folds > 1 && now < folds; now++) {
        status = score_fold(desc, fold, now, score);
        if (status == SHOAL_EINVAL)
            status = SHOAL_OK; /* too few rows are left to tell the causes apart */
    }
    for (uint32_t i = 0; status == SHOAL_OK && i < count; i++)
        if (score[i] >= 0)
            score[scored++] = score[i];
    if (status == SHOAL_OK)
        *spread_out = scored > 0 ? shoali_fit_spread(score, scored) : (double)NAN;
    shoali_free(score);
    shoali_free(fold);
    return status;
}
