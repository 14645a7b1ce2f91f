/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix itself: what expand writes, what project takes back, and conventions, with numbers
 * written out by hand and round trips that must be exact. */
#include "support/check.h"

#include "base/arena.h"
#include "base/rng.h"
#include "kernel/circulant_shape.h"

static shoal_circulant_desc desc_of(uint32_t out, uint32_t in, uint32_t k, bool first_row)
{
    shoal_circulant_desc desc = SHOAL_CIRCULANT_DESC_INIT;
    desc.out = out;
    desc.in = in;
    desc.block = k;
    desc.first_row = first_row;
    return desc;
}

static void test_by_hand(void **state)
{
    (void)state;
    const float w[] = {1, 2, 3, 4, 5, 6};
    /* Two blocks of 3, the second cut to one column. */
    const float columns[] = {1, 3, 2, 4, 2, 1, 3, 5, 3, 2, 1, 6};
    const float rows[] = {1, 2, 3, 4, 3, 1, 2, 6, 2, 3, 1, 5};
    float dense[12];
    shoal_circulant_desc desc = desc_of(3, 4, 3, false);
    assert_int_equal(shoal_circulant_weights(&desc), 6);
    shoal_circulant_expand(&desc, w, dense);
    assert_memory_equal(dense, columns, sizeof dense);
    desc.first_row = true;
    shoal_circulant_expand(&desc, w, dense);
    assert_memory_equal(dense, rows, sizeof dense);
}

static void test_mean(void **state)
{
    (void)state;
    const float dense[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
    const float means[] = {16.0f / 3, (4 + 8 + 3) / 3.0f, (7 + 2 + 6) / 3.0f};
    float w[3], cut[2];
    shoal_circulant_desc desc = desc_of(3, 3, 3, false);
    shoal_circulant_project(&desc, dense, w);
    assert_memory_equal(w, means, sizeof w);
    /* 1 x 1 in a block of 2: the second weight stands for padding only. */
    desc = desc_of(1, 1, 2, false);
    shoal_circulant_project(&desc, dense, cut);
    assert_true(cut[0] == 1.0f && cut[1] == 0.0f);
}

/* Weights that stand for something come back to the bit, also through the other convention. */
static void check_round_trip(uint32_t out, uint32_t in, uint32_t k)
{
    shoal_circulant_desc desc = desc_of(out, in, k, false);
    const size_t count = shoal_circulant_weights(&desc), cells = (size_t)out * in;
    float *w = shoali_alloc_array(count, sizeof *w), *back = shoali_alloc_array(count, sizeof *w);
    float *dense = shoali_alloc_array(cells, sizeof *w),
          *same = shoali_alloc_array(cells, sizeof *w);
    for (size_t i = 0; i < count; i++)
        w[i] = (float)shoali_rng_double(check_seed(), 7, i) - 0.5f;
    shoal_circulant_expand(&desc, w, dense);
    shoal_circulant_project(&desc, dense, back);
    if (out % k == 0 && in % k == 0)
        assert_memory_equal(w, back, count * sizeof *w);
    shoal_circulant_convert(&desc, back);
    desc.first_row = true;
    shoal_circulant_expand(&desc, back, same);
    assert_memory_equal(dense, same, cells * sizeof *w);
    shoal_circulant_convert(&desc, back);
    desc.first_row = false;
    shoal_circulant_expand(&desc, back, same);
    assert_memory_equal(dense, same, cells * sizeof *w);
    shoali_free(w);
    shoali_free(back);
    shoali_free(dense);
    shoali_free(same);
}

static void test_round_trips(void **state)
{
    (void)state;
    check_round_trip(8, 8, 1);
    check_round_trip(8, 4, 2);
    check_round_trip(24, 16, 8);
    check_round_trip(15, 10, 5);
    check_round_trip(13, 9, 4);
    check_round_trip(70, 130, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(test_by_hand),
        CHECK_TEST(test_mean),
        CHECK_TEST(test_round_trips),
    };
    return CHECK_RUN(tests);
}
