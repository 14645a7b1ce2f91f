/* SPDX-License-Identifier: Apache-2.0 */
/* Circulant matrices: entries by their definition, and folding as the adjoint of expanding. */
#include "support/check.h"

#include <math.h>

#include "base/rng.h"
#include "nn/matrix.h"

enum { MOST = 64 };

static const uint32_t shapes[][3] = {{8, 8, 4}, {6, 10, 4}, {5, 3, 8}, {7, 9, 3}, {4, 6, 1}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void an_entry_is_the_value_at_its_diagonal(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        uint32_t rows = shapes[i][0], cols = shapes[i][1], k = shapes[i][2],
                 across = (cols + k - 1) / k;
        float values[4 * MOST], dense[2 * MOST];
        size_t count = (size_t)shoali_matrix_count(rows, cols, k);
        assert_true(count <= 4 * MOST && rows * cols <= 2 * MOST);
        for (size_t v = 0; v < count; v++)
            values[v] = (float)v;
        shoali_matrix_expand(values, rows, cols, k, dense);
        for (uint32_t a = 0; a < rows; a++)
            for (uint32_t b = 0; b < cols; b++) {
                size_t block = (size_t)(a / k) * across + b / k;
                long offset = ((long)(a % k) - (long)(b % k) + (long)k) % (long)k;
                assert_true(dense[(size_t)a * cols + b] == (float)(block * k + (size_t)offset));
            }
    }
}

/* <expand(w), d> = k <w, fold(d)> for all w and d. */
static void folding_is_the_mean_over_what_expanding_repeats(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        uint32_t rows = shapes[i][0], cols = shapes[i][1], k = shapes[i][2];
        float w[4 * MOST], folded[4 * MOST], dense[2 * MOST], d[2 * MOST];
        size_t count = (size_t)shoali_matrix_count(rows, cols, k);
        double left = 0, right = 0;
        for (size_t v = 0; v < count; v++)
            w[v] = (float)shoali_rng_normal(seed, 1, v);
        for (size_t v = 0; v < (size_t)rows * cols; v++)
            d[v] = (float)shoali_rng_normal(seed, 2, v);
        shoali_matrix_expand(w, rows, cols, k, dense);
        shoali_matrix_fold(d, rows, cols, k, folded);
        for (size_t v = 0; v < (size_t)rows * cols; v++)
            left += (double)dense[v] * (double)d[v];
        for (size_t v = 0; v < count; v++)
            right += k * (double)w[v] * (double)folded[v];
        assert_true(fabs(left - right) < 1e-4);
    }
}

/* Means of y x^T over the entries that a value stands for; the first pair counts twice. */
static void check_learned(uint32_t rows, uint32_t cols, uint32_t k, uint32_t count, const float *x,
                          size_t x_step, const float *y, size_t y_step, const float *grads)
{
    const uint32_t across = (cols + k - 1) / k;
    const size_t kept = (size_t)shoali_matrix_count(rows, cols, k);
    double *want = calloc(kept, sizeof *want), error = 0, norm = 0;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < cols; c++) {
            double *sum = want + ((size_t)(r / k) * across + c / k) * k + (r % k + k - c % k) % k;
            for (uint32_t n = 0; n < count; n++)
                *sum += (n == 0 ? 2.0 : 1.0) / k * (double)y[n * y_step + r] *
                        (double)x[n * x_step + c];
        }
    for (size_t i = 0; i < kept; i++) {
        error += pow((double)grads[i] - want[i], 2);
        norm += pow(want[i], 2);
    }
    assert_true(sqrt(error / norm) < 2e-6);
    free(want);
}

/* Vectors apart from each other and side by side, more of them than go at once. */
static void check_products(uint32_t rows, uint32_t cols, uint32_t k, uint32_t count, size_t gap,
                           bool add)
{
    const uint64_t seed = check_seed();
    const size_t kept = (size_t)shoali_matrix_count(rows, cols, k), all = (size_t)rows * cols;
    const size_t x_step = cols + gap, y_step = rows + gap;
    float *values = calloc(kept, sizeof *values), *grads = calloc(kept, sizeof *grads);
    float *dense = calloc(all, sizeof *dense), *x = calloc(count * x_step, sizeof *x);
    float *y = calloc(count * y_step, sizeof *y), *dx = calloc(count * x_step, sizeof *dx);
    float *scratch = calloc(shoali_matrix_scratch(rows, cols, k) + 1, sizeof *scratch);
    const float *params = values;
    float *more = grads, *next = scratch + 1; /* at any alignment */
    for (size_t i = 0; i < kept; i++)
        values[i] = (float)shoali_rng_normal(seed, 1, i);
    for (size_t i = 0; i < count * x_step; i++)
        x[i] = (float)shoali_rng_normal(seed, 2, i);
    shoali_matrix_expand(values, rows, cols, k, dense);
    shoali_matrix w = shoali_matrix_open(rows, cols, k, &params, &more, &next);
    assert_true((w.fast != NULL) == shoali_matrix_is_fast(rows, cols, k));
    assert_true(next <= scratch + 1 + shoali_matrix_scratch(rows, cols, k));
    shoali_matrix_apply(&w, count, x, x_step, y, y_step, false);
    shoali_matrix_back(&w, count, y, y_step, dx, x_step, false);
    if (add) {
        shoali_matrix_apply(&w, count, x, x_step, y, y_step, true);
        shoali_matrix_back(&w, count, y, y_step, dx, x_step, true);
    }
    shoali_matrix_learn(&w, count, y, y_step, x, x_step);
    shoali_matrix_learn(&w, 1, y, y_step, x, x_step); /* the first once more */
    shoali_matrix_close(&w);
    check_learned(rows, cols, k, count, x, x_step, y, y_step, grads);
    const double times = add ? 2 : 1; /* then y = 2 W x, dx = W^T (W x + 2 W x) */
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t r = 0; r < rows; r++) {
            double want = 0;
            for (uint32_t c = 0; c < cols; c++)
                want += times * (double)dense[(size_t)r * cols + c] * (double)x[n * x_step + c];
            assert_true(fabs((double)y[n * y_step + r] - want) < 1e-3);
        }
    for (uint32_t n = 0; n < count; n += 7)
        for (uint32_t c = 0; c < cols; c++) {
            double want = 0;
            for (uint32_t r = 0; r < rows; r++)
                want += (add ? 1.5 : 1) * (double)dense[(size_t)r * cols + c] *
                        (double)y[n * y_step + r];
            assert_true(fabs((double)dx[n * x_step + c] - want) < 0.03);
        }
    free(values), free(grads), free(dense), free(x), free(y), free(dx), free(scratch);
}

static void products_are_those_of_the_expanded_matrix(void **state)
{
    (void)state;
    check_products(20, 30, 4, 9, 3, true);
    check_products(128, 160, 8, 16, 5, true);
    check_products(136, 130, 4, 70, 0, false);
    check_products(256, 129, 16, 3, 1, true);
    assert_true(shoali_matrix_is_fast(1024, 256, 8));
    assert_false(shoali_matrix_is_fast(1024, 256, 3));
    assert_false(shoali_matrix_is_fast(1024, 39, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_entry_is_the_value_at_its_diagonal),
        CHECK_TEST(folding_is_the_mean_over_what_expanding_repeats),
        CHECK_TEST(products_are_those_of_the_expanded_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
