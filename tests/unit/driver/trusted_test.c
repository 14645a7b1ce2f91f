/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/trusted.h"

#include <math.h>

#include "support/check.h"

enum { WORKERS = 4, COUNT = 2, FIRST = SHOALI_SLOT + 1 };

/* The sum of these updates, into slot 0. */
static shoal_status sum(float (*updates)[COUNT], float *sum_out, uint64_t *times_out)
{
    static float params[COUNT], grads[COUNT];
    shoali_mix_term terms[WORKERS];
    shoali_tensors tensors;
    assert_ok(shoali_tensors_init(&tensors, params, grads, COUNT, 1 + WORKERS));
    for (uint32_t w = 0; w < WORKERS; w++) {
        terms[w] = (shoali_mix_term){FIRST + w, 1};
        memcpy(shoali_tensor_memory(&tensors, FIRST + w, 0, COUNT), updates[w], sizeof *updates);
    }
    const shoali_action mix = {.kind = SHOALI_ACT_MIX,
                               .mix = {.dst = SHOALI_SLOT,
                                       .terms = terms,
                                       .term_count = WORKERS,
                                       .count = COUNT,
                                       .judged = true,
                                       .first = FIRST}};
    shoal_status status = shoali_tensors_mix(&tensors, &mix);
    memcpy(sum_out, shoali_tensor_memory(&tensors, SHOALI_SLOT, 0, COUNT), COUNT * sizeof *sum_out);
    memcpy(times_out, tensors.refused->times, WORKERS * sizeof *times_out);
    shoali_trusted_tell(&tensors);
    shoali_tensors_fini(&tensors);
    return status;
}

static void equal_updates_add_up(void **state)
{
    (void)state;
    float updates[WORKERS][COUNT] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
    float total[COUNT];
    uint64_t times[WORKERS];
    assert_ok(sum(updates, total, times));
    assert_true(total[0] == 4 && total[1] == 8);
    assert_int_equal(times[0] + times[1] + times[2] + times[3], 0);
}

/* Whatever one of four sends, the sum is what four like the others make. */
static void one_of_four_decides_nothing(void **state)
{
    (void)state;
    static const float lies[][COUNT] = {
        {(float)NAN, 1}, {-(float)INFINITY, 0}, {3e38f, 3e38f}, {-1, -2}, {1e6f, 0}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        float updates[WORKERS][COUNT] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}}, total[COUNT];
        uint64_t times[WORKERS];
        memcpy(updates[2], lies[i], sizeof lies[i]);
        assert_ok(sum(updates, total, times));
        assert_float_equal(total[0], 4, 1e-5);
        assert_float_equal(total[1], 8, 1e-5);
        assert_true(times[0] == 0 && times[1] == 0 && times[2] == 1 && times[3] == 0);
    }
}

static void nobody_is_left(void **state)
{
    (void)state;
    float updates[WORKERS][COUNT] = {
        {(float)NAN, 0}, {(float)NAN, 0}, {(float)NAN, 0}, {(float)NAN, 0}};
    float total[COUNT];
    uint64_t times[WORKERS];
    assert_ok(sum(updates, total, times));
    assert_true(total[0] == 0 && total[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(equal_updates_add_up),
        CHECK_TEST(one_of_four_decides_nothing),
        CHECK_TEST(nobody_is_left),
    };
    return CHECK_RUN(tests);
}
