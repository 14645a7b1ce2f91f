/* SPDX-License-Identifier: Apache-2.0 */
/* add and concat on numbers that can be summed by hand: where each value and each gradient goes. */
#include "nn/exec.h"
#include "support/check.h"

extern const shoali_exec shoali_exec_add, shoali_exec_concat;

enum { COUNT = 2 };

static const shoali_pass pass = {.count = COUNT};

static void add_sums_and_hands_its_gradient_on(void **state)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, dy[] = {1, -1, 2, -2, 3, -3};
    float b[] = {10, 20, 30, 40, 50, 60}, dx[] = {7, 7, 7, 7, 7, 7};
    const shoali_layer layer = {.out = {3, 1, 1}};
    const shoali_node node = {.layer = &layer};
    const shoali_inputs in = {2, {a, b}, {3, 3}};
    (void)state;
    shoali_exec_add.join_forward(&node, &pass, &in, b); /* in place */
    for (int i = 0; i < 6; i++)
        assert_true(b[i] == 11.0f * (float)(i + 1));
    shoali_exec_add.join_backward(&node, &pass, &in, 0, dy, dx, false);
    assert_memory_equal(dx, dy, sizeof dx);
    shoali_exec_add.join_backward(&node, &pass, &in, 1, dy, dx, true);
    for (int i = 0; i < 6; i++)
        assert_true(dx[i] == 2 * dy[i]);
}

/* Two channels of 1 x 2 pixels, then one; sample by sample. */
static void concat_puts_channels_in_order_and_takes_them_apart(void **state)
{
    const float a[] = {1, 2, 3, 4, 5, 6, 7, 8}, b[] = {11, 12, 13, 14};
    const float expected[] = {1, 2, 3, 4, 11, 12, 5, 6, 7, 8, 13, 14};
    float y[12], da[8], db[4] = {100, 100, 100, 100};
    const shoali_layer layer = {.out = {3, 1, 2}};
    const shoali_node node = {.layer = &layer};
    const shoali_inputs in = {2, {a, b}, {2, 1}};
    (void)state;
    shoali_exec_concat.join_forward(&node, &pass, &in, y);
    assert_memory_equal(y, expected, sizeof y);
    shoali_exec_concat.join_backward(&node, &pass, &in, 0, y, da, false);
    assert_memory_equal(da, a, sizeof da);
    shoali_exec_concat.join_backward(&node, &pass, &in, 1, y, db, true);
    for (int i = 0; i < 4; i++)
        assert_true(db[i] == 100 + b[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(add_sums_and_hands_its_gradient_on),
        CHECK_TEST(concat_puts_channels_in_order_and_takes_them_apart),
    };
    return CHECK_RUN(tests);
}
