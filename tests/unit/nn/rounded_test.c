/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/rounded.h"

#include <math.h>

#include "support/check.h"

static void values_go_to_the_nearest_even(void **state)
{
    (void)state;
    const float from[] = {1, 0x1.01p0f, 0x1.03p0f, 0x1.0101p0f, -0x1.ffp0f, 0, 0x1.fffffep127f},
                want[] = {1, 1, 0x1.04p0f, 0x1.02p0f, -0x1p1f, 0, INFINITY};
    float to[7];
    shoali_round(to, from, 7);
    for (size_t i = 0; i < 7; i++)
        assert_true(to[i] == want[i]);
    const float none = NAN;
    shoali_round(to, &none, 1);
    assert_true(isnan(to[0]));
}

/* Beside the definition in double, small and large, turned and not, with rows apart. */
static void products_are_those_of_rounded_operands(void **state)
{
    static const struct {
        bool turn_a, turn_b, add;
        int m, n, k;
    } cases[] = {{false, true, false, 3, 5, 7},      {true, false, true, 9, 4, 6},
                 {false, false, false, 70, 66, 80},  {false, true, true, 65, 70, 64},
                 {true, false, true, 128, 129, 130}, {true, true, false, 80, 96, 64}};
    enum { PAD = 3 };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int m = cases[i].m, n = cases[i].n, k = cases[i].k;
        const int a_rows = cases[i].turn_a ? k : m, a_cols = cases[i].turn_a ? m : k,
                  b_rows = cases[i].turn_b ? n : k, b_cols = cases[i].turn_b ? k : n;
        const size_t a_step = (size_t)a_cols + PAD, b_step = (size_t)b_cols + PAD,
                     c_step = (size_t)n + PAD;
        float *a = check_floats((size_t)a_rows * a_step, 3 * i),
              *b = check_floats((size_t)b_rows * b_step, 3 * i + 1),
              *c = check_floats((size_t)m * c_step, 3 * i + 2);
        float *before = malloc((size_t)m * c_step * sizeof *before);
        memcpy(before, c, (size_t)m * c_step * sizeof *before);
        const size_t bytes = shoali_rounded_bytes((size_t)m * (size_t)k + (size_t)k * (size_t)n);
        void *work = aligned_alloc(64, (bytes + 63) / 64 * 64);
        shoali_rounded_gemm(cases[i].turn_a, cases[i].turn_b, m, n, k, a, (int)a_step, b,
                            (int)b_step, cases[i].add, c, (int)c_step, work);
        shoali_round(a, a, (size_t)a_rows * a_step);
        shoali_round(b, b, (size_t)b_rows * b_step);
        for (size_t row = 0; row < (size_t)m; row++)
            for (size_t col = 0; col < c_step; col++) {
                double want = cases[i].add || col >= (size_t)n ? before[row * c_step + col] : 0;
                for (size_t j = 0; j < (size_t)k && col < (size_t)n; j++)
                    want += (double)a[cases[i].turn_a ? j * a_step + row : row * a_step + j] *
                            (double)b[cases[i].turn_b ? col * b_step + j : j * b_step + col];
                assert_true(fabs(c[row * c_step + col] - want) < 1e-5 * (k + fabs(want)));
            }
        free(a);
        free(b);
        free(c);
        free(before);
        free(work);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_to_the_nearest_even),
        cmocka_unit_test(products_are_those_of_rounded_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
