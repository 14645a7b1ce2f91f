/* SPDX-License-Identifier: Apache-2.0 */
#include "train/uneven.h"

#include "support/check.h"

#include "base/rng.h"

enum { WORKERS_MAX = 40 };

static void a_fourth_of_the_speed_is_a_fourth_of_the_samples(void **state)
{
    const float rates[4] = {100, 100, 100, 25};
    uint32_t batches[4];
    (void)state;
    shoali_uneven_divide(rates, 4, 65, batches);
    for (uint32_t w = 0; w < 4; w++)
        assert_int_equal(batches[w], w == 3 ? 20 : 80);
}

/* Whatever the rates: no sample is lost, nobody has none or too many, and no sample moved elsewhere
 * would make the step shorter. */
static void nothing_is_lost_and_nothing_better_is_left(void **state)
{
    shoali_rng rng = {check_seed(), 7, 0};
    (void)state;
    for (uint32_t trial = 0; trial < 500; trial++) {
        float rates[WORKERS_MAX];
        uint32_t batches[WORKERS_MAX], sum = 0;
        uint32_t workers = 1 + (uint32_t)(shoali_rng_next(&rng) % WORKERS_MAX);
        uint32_t batch = 1 + (uint32_t)(shoali_rng_next(&rng) % 100);
        double longest = 0, next = 1e30;
        for (uint32_t w = 0; w < workers; w++)
            rates[w] = (float)(1 + 1000 * shoali_rng_next_double(&rng));
        if (trial % 5 == 0)
            rates[0] = 1e7f; /* one that would take everything */
        shoali_uneven_divide(rates, workers, batch, batches);
        for (uint32_t w = 0; w < workers; w++) {
            sum += batches[w];
            assert_true(batches[w] >= 1 && batches[w] <= SHOALI_UNEVEN_MOST * batch);
            if (batches[w] > 1 && (double)batches[w] / (double)rates[w] > longest)
                longest = (double)batches[w] / (double)rates[w];
            double more = (double)(batches[w] + 1) / (double)rates[w];
            if (batches[w] < SHOALI_UNEVEN_MOST * batch && more < next)
                next = more;
        }
        assert_int_equal(sum, workers * batch);
        assert_true(longest <= next * (1 + 1e-9));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_fourth_of_the_speed_is_a_fourth_of_the_samples),
        CHECK_TEST(nothing_is_lost_and_nothing_better_is_left),
    };
    return CHECK_RUN(tests);
}
