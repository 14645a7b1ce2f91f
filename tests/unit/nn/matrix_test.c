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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_entry_is_the_value_at_its_diagonal),
        CHECK_TEST(folding_is_the_mean_over_what_expanding_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
