/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of Muon against the authors' formula in double, by loops; and what falls to AdamW. */
#include "nn/optim.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "support/check.h"

enum { STEPS = 50, TENSORS = 8, COUNT = 236, SIDE = 12 };

/* A first layer; a wide, a square and a tall hidden matrix; and all that is none. */
static const shoal_tensor table[TENSORS] = {
    {1, 0, 30, 5, 6, 0, 1.0f},
    {2, 30, 24, 4, 6, 0, 1.0f},
    {3, 54, 25, 5, 5, 0, 0.5f},
    {4, 79, 84, 12, 7, 0, 1.0f},
    {5, 163, 12, 0, 0, SHOAL_TENSOR_BIAS, 1.0f},
    {6, 175, 36, 6, 6, SHOAL_TENSOR_ROWS, 1.0f},
    {7, 211, 9, 3, 3, SHOAL_TENSOR_CIRCULANT, 1.0f},
    {8, 220, 16, 4, 4, SHOAL_TENSOR_LAST, 1.0f},
};

static bool is_hidden(uint32_t t)
{
    return t >= 1 && t <= 3;
}

/* x <- a x + (b y + c y y) x with y = x x^T, x [rows][cols]. */
static void iterate(size_t rows, size_t cols, double *x)
{
    double y[SIDE][SIDE] = {{0}}, z[SIDE][SIDE], next[SIDE * SIDE];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            for (size_t k = 0; k < cols; k++)
                y[i][j] += x[i * cols + k] * x[j * cols + k];
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++) {
            z[i][j] = -4.7750 * y[i][j];
            for (size_t k = 0; k < rows; k++)
                z[i][j] += 2.0315 * y[i][k] * y[k][j];
        }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            next[i * cols + j] = 3.4445 * x[i * cols + j];
            for (size_t k = 0; k < rows; k++)
                next[i * cols + j] += z[i][k] * x[k * cols + j];
        }
    memcpy(x, next, rows * cols * sizeof *x);
}

/* The iteration is odd in x, so a tall matrix needs no turning over: only the sums are longer. */
static void textbook_matrix(const shoal_tensor *t, double *w, const double *g, double *m, double lr)
{
    double x[SIDE * SIDE], norm = 0;
    for (size_t i = 0; i < t->count; i++) {
        m[i] = 0.95 * m[i] + 0.05 * g[i];
        x[i] = 0.95 * m[i] + 0.05 * g[i];
        norm += x[i] * x[i];
    }
    for (size_t i = 0; i < t->count; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int i = 0; i < 5; i++)
        iterate(t->rows, t->cols, x);
    const double tall = (double)t->rows / (double)t->cols, scale = sqrt(tall > 1 ? tall : 1);
    for (size_t i = 0; i < t->count; i++)
        w[i] -= lr * scale * x[i];
}

static void textbook_rest(const shoal_tensor *t, double *w, const double *g, double *m, double *v,
                          double lr, double steps)
{
    for (size_t i = 0; i < t->count; i++) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
        const double mean = m[i] / (1 - pow(0.9, steps)), square = v[i] / (1 - pow(0.95, steps));
        w[i] -= 0.015 * lr * mean / (sqrt(square) + 1e-10);
    }
}

static void steps_match_the_authors_formula(void **state)
{
    (void)state;
    const uint64_t seed = check_seed();
    shoali_optim *optim;
    float w[COUNT], g[COUNT];
    double want[COUNT], wide[COUNT], m[COUNT] = {0}, v[COUNT] = {0}, first[COUNT];
    assert_ok(shoali_optim_create("muon", table, TENSORS, &optim));
    for (size_t i = 0; i < COUNT; i++)
        first[i] = want[i] = w[i] = (float)shoali_rng_normal(seed, 1, i);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < COUNT; i++) {
            g[i] = (float)shoali_rng_normal(seed, 2 + step, i);
            wide[i] = 0.5 * (double)g[i];
        }
        for (uint32_t t = 0; t < TENSORS; t++) {
            const size_t at = table[t].offset;
            const double lr = (double)(0.02f * table[t].lr_scale);
            if (is_hidden(t))
                textbook_matrix(&table[t], want + at, wide + at, m + at, lr);
            else
                textbook_rest(&table[t], want + at, wide + at, m + at, v + at, lr,
                              (double)step + 1);
        }
        shoali_optim_step(optim, &(shoali_step){0, COUNT, w, g, w, 0.02f, 0.5f, step});
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabs(want[i] - first[i]) > 1e-6); /* all of it moved */
        if (!(fabs((double)w[i] - want[i]) < 2e-4))
            fail_msg("value %zu: %.7f, the formula says %.7f", i, (double)w[i], want[i]);
    }
    shoali_optim_destroy(optim);
}

/* Decay is apart from the step, spares vectors unless told not to, and a gradient of zeros makes
 * none of the matrix NaN. */
static void decay_is_apart(void **state)
{
    (void)state;
    static const char *const specs[] = {"muon:decay=0.5", "muon:decay=0.5,decay_all"};
    for (size_t s = 0; s < 2; s++) {
        shoali_optim *optim;
        float w[COUNT], g[COUNT] = {0};
        for (size_t i = 0; i < COUNT; i++)
            w[i] = 1;
        assert_ok(shoali_optim_create(specs[s], table, TENSORS, &optim));
        shoali_optim_step(optim, &(shoali_step){0, COUNT, w, g, w, 0.1f, 1, 0});
        assert_true(fabs((double)w[35] - 0.95) < 1e-6);
        assert_true(fabs((double)w[0] - (1 - 0.015 * 0.05)) < 1e-6);
        assert_true(fabs((double)w[165] - (s == 0 ? 1 : 1 - 0.015 * 0.05)) < 1e-6);
        shoali_optim_destroy(optim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(steps_match_the_authors_formula),
                                       CHECK_TEST(decay_is_apart)};
    return CHECK_RUN(tests);
}
