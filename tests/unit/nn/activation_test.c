/* SPDX-License-Identifier: Apache-2.0 */
/* gelu and the functions that it is made of, against libm in double over all that float32 tells
 * apart; what is no number stays so. Other activations: net_test. */
#include "nn/squash.h"
#include "support/check.h"

#include <math.h>

#include "model/model.h"
#include "nn/exec.h"

static void the_normal_distribution_keeps_its_digits(void **state)
{
    (void)state;
    for (int i = -130000; i <= 130000; i++) {
        const float x = (float)i * 1e-4f;
        const double fall = exp(-0.5 * (double)x * x), below = 0.5 * erfc(-(double)x / sqrt(2));
        const double got = (double)shoali_normal_below(x, shoali_normal_fall(x));
        assert_true(fabs(got - below) <= 2e-7 && fabs(got - below) <= 6e-6 * below);
        assert_true(fabs((double)shoali_normal_fall(x) - fall) <= 6e-6 * fall);
    }
    assert_true(shoali_normal_below(-INFINITY, shoali_normal_fall(-INFINITY)) < 1e-37f);
    assert_true(shoali_normal_below(INFINITY, shoali_normal_fall(INFINITY)) == 1.0f);
    assert_true(isnan(shoali_normal_below(NAN, shoali_normal_fall(NAN))));
}

/* The op's values and slopes, whole and by tanh: x P(x), P + x p; x s(2 u). */
static void gelu_is_as_published(void **state)
{
    extern const shoali_exec shoali_exec_gelu;
    enum { COUNT = 4001 };
    static float x[COUNT], y[COUNT], dy[COUNT], dx[COUNT];
    const double root = sqrt(2 / acos(-1));
    (void)state;
    for (int by_tanh = 0; by_tanh < 2; by_tanh++) {
        const shoali_gelu_params params = {.tanh = by_tanh != 0};
        const shoali_layer layer = {.params = &params, .out = {COUNT, 1, 1}};
        const shoali_node node = {.layer = &layer};
        const shoali_pass pass = {.count = 1};
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)(i - COUNT / 2) * 4e-3f;
            dy[i] = 2;
        }
        shoali_exec_gelu.forward(&node, &pass, x, y);
        shoali_exec_gelu.backward(&node, &pass, x, y, dy, dx);
        for (int i = 0; i < COUNT; i++) {
            const double v = (double)x[i],
                         s = 1 / (1 + exp(-2 * root * (v + 0.044715 * v * v * v)));
            const double p = by_tanh ? s : 0.5 * erfc(-v / sqrt(2));
            const double slope = by_tanh ? s * (1 - s) * 2 * root * (1 + 3 * 0.044715 * v * v)
                                         : exp(-v * v / 2) / sqrt(2 * acos(-1));
            assert_true(fabs((double)y[i] - v * p) <= 1e-5 * fabs(v * p) + 1e-30);
            assert_true(fabs((double)dx[i] - 2 * (p + v * slope)) <= 2e-6);
        }
        x[0] = NAN;
        shoali_exec_gelu.forward(&node, &pass, x, y);
        shoali_exec_gelu.backward(&node, &pass, x, y, dy, dx);
        assert_true(isnan(y[0]) && isnan(dx[0]) && !isnan(y[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(the_normal_distribution_keeps_its_digits),
                                       CHECK_TEST(gelu_is_as_published)};
    return CHECK_RUN(tests);
}
