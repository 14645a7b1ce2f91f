/* SPDX-License-Identifier: Apache-2.0 */
#include "collective/feedback.h"

#include "support/check.h"

/* Three tensors of 3, 0, 4 and 2 elements; the third keeps nothing. */
static float first[3] = {1, 2, 3}, last[2] = {4, 5};
static float *residuals[] = {first, NULL, NULL, last};
static const shoal_tensor table[] = {{.offset = 0, .count = 3},
                                     {.offset = 3, .count = 0},
                                     {.offset = 3, .count = 4},
                                     {.offset = 7, .count = 2}};
static const shoali_feedback feedback = {table, 4, residuals};

static void finds_tensors(void **state)
{
    (void)state;
    static const uint32_t want[] = {0, 0, 0, 2, 2, 2, 2, 3, 3};
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(shoali_tensor_at(table, 4, i), want[i]);
}

static void adds_and_keeps(void **state)
{
    (void)state;
    float x[6] = {10, 10, 10, 10, 10, 10}; /* elements 2 .. 7 */
    const float decoded[6] = {12, 9, 9, 9, 9, 16};
    shoali_feedback_add(&feedback, 1, 2, 6, x);
    const float sums[6] = {13, 10, 10, 10, 10, 14};
    assert_memory_equal(x, sums, sizeof x);
    shoali_feedback_keep(&feedback, 2, 6, x, decoded);
    const float want_first[3] = {1, 2, 1}, want_last[2] = {-2, 5};
    assert_memory_equal(first, want_first, sizeof first);
    assert_memory_equal(last, want_last, sizeof last);
    float decayed[3] = {1, 1, 1};
    shoali_feedback_add(&feedback, 0.5f, 0, 3, decayed);
    const float want_decayed[3] = {1.5f, 2, 1.5f};
    assert_memory_equal(decayed, want_decayed, sizeof decayed);
    shoali_feedback_clear(&feedback);
    for (size_t i = 0; i < 3; i++)
        assert_true(first[i] == 0 && last[i % 2] == 0);
}

static const struct CMUnitTest tests[] = {
    CHECK_TEST(finds_tensors),
    CHECK_TEST(adds_and_keeps),
};

int main(void)
{
    return CHECK_RUN(tests);
}
