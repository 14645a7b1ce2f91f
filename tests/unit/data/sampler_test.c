/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sampler.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

static const struct {
    uint32_t count, workers, batch;
} shapes[] = {{11, 4, 2},   {1, 3, 5},   {64, 4, 16}, {65, 4, 16},
              {1000, 7, 9}, {10, 1, 10}, {10, 1, 3}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void an_epoch_takes_every_sample_once(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        shoali_sampler *s;
        uint32_t count = shapes[i].count, *seen = calloc(count, sizeof *seen);
        assert_ok(shoali_sampler_create(count, shapes[i].workers, shapes[i].batch, seed, &s));
        for (uint64_t step = 0; step < shoali_sampler_steps(s); step++) {
            double weights = 0;
            uint32_t total = 0;
            for (uint32_t r = 0; r < shapes[i].workers; r++) {
                shoali_share share = shoali_sampler_share(s, 3, step, r);
                assert_true(share.count <= shapes[i].batch && share.total > 0);
                for (uint32_t k = 0; k < share.count; k++)
                    seen[share.indices[k]]++;
                assert_int_equal(share.first_serial,
                                 3 * (uint64_t)count +
                                     (step * shapes[i].workers + r) * shapes[i].batch);
                assert_true(fabs(share.weight -
                                 (double)shapes[i].workers * share.count / share.total) < 1e-6);
                weights += share.weight;
                total += share.count;
                if (r + 1 == shapes[i].workers)
                    assert_int_equal(total, share.total);
            }
            assert_true(fabs(weights - shapes[i].workers) < 1e-5);
        }
        for (uint32_t k = 0; k < count; k++)
            assert_int_equal(seen[k], 1);
        free(seen);
        shoali_sampler_destroy(s);
    }
}

/* However often the workers' parts change within an epoch, it takes every sample once, and means
 * stay weighted by samples. */
static void uneven_batches_lose_and_repeat_nothing(void **state)
{
    enum { COUNT = 1003, WORKERS = 4, BATCH = 16 };
    static const uint32_t parts[][WORKERS] = {
        {16, 16, 16, 16}, {20, 20, 20, 4}, {1, 61, 1, 1}, {0, 32, 32, 0}};
    const uint32_t wrong[WORKERS] = {16, 16, 16, 15};
    shoali_sampler *s;
    uint32_t seen[COUNT] = {0};
    (void)state;
    assert_ok(shoali_sampler_create(COUNT, WORKERS, BATCH, check_seed(), &s));
    assert_status(shoali_sampler_divide(s, wrong), SHOAL_EINVAL);
    assert_int_equal(shoali_sampler_steps(s), 16);
    for (uint64_t step = 0; step < shoali_sampler_steps(s); step++) {
        const uint32_t *part = parts[step % 4];
        double weights = 0;
        assert_ok(shoali_sampler_divide(s, part));
        for (uint32_t r = 0; r < WORKERS; r++) {
            shoali_share share = shoali_sampler_share(s, 2, step, r);
            assert_true(share.count <= part[r]);
            assert_true(step + 1 == shoali_sampler_steps(s) || share.count == part[r]);
            weights += (double)share.weight;
            assert_true(fabs((double)share.weight - 4.0 * share.count / share.total) < 1e-6);
            for (uint32_t k = 0; k < share.count; k++)
                seen[share.indices[k]]++;
        }
        assert_true(fabs(weights - WORKERS) < 1e-5);
    }
    for (uint32_t k = 0; k < COUNT; k++)
        assert_int_equal(seen[k], 1);
    shoali_sampler_destroy(s);
}

/* The permutation does not depend on workers, batch or history: only how it is cut does. */
static void the_order_depends_on_seed_and_epoch_only(void **state)
{
    enum { COUNT = 96 };
    uint64_t seed = check_seed();
    shoali_sampler *one, *four;
    uint32_t first[COUNT];
    (void)state;
    assert_ok(shoali_sampler_create(COUNT, 1, COUNT, seed, &one));
    assert_ok(shoali_sampler_create(COUNT, 4, 6, seed, &four));
    memcpy(first, shoali_sampler_share(one, 5, 0, 0).indices, sizeof first);
    for (uint64_t step = 0; step < 4; step++)
        for (uint32_t r = 0; r < 4; r++)
            assert_memory_equal(shoali_sampler_share(four, 5, step, r).indices,
                                first + (step * 4 + r) * 6, 6 * sizeof *first);
    assert_memory_not_equal(shoali_sampler_share(one, 6, 0, 0).indices, first, sizeof first);
    assert_memory_equal(shoali_sampler_share(one, 5, 0, 0).indices, first, sizeof first);
    shoali_sampler_destroy(one);
    shoali_sampler_destroy(four);
}

/* Place of sample 0 over many epochs: chi-square with 15 degrees of freedom, bound at p = 1e-6. */
static void places_are_uniform(void **state)
{
    enum { COUNT = 16, EPOCHS = 4000 };
    shoali_sampler *s;
    double places[COUNT] = {0}, chi = 0;
    (void)state;
    assert_ok(shoali_sampler_create(COUNT, 1, COUNT, check_seed(), &s));
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const uint32_t *order = shoali_sampler_share(s, epoch, 0, 0).indices;
        for (int k = 0; k < COUNT; k++)
            places[k] += order[k] == 0;
    }
    for (int k = 0; k < COUNT; k++)
        chi += pow(places[k] - (double)EPOCHS / COUNT, 2) / ((double)EPOCHS / COUNT);
    assert_true(chi < 56.5);
    shoali_sampler_destroy(s);
}

static void nothing_to_sample_is_refused(void **state)
{
    shoali_sampler *s;
    (void)state;
    assert_status(shoali_sampler_create(0, 1, 1, 1, &s), SHOAL_EINVAL);
    assert_status(shoali_sampler_create(1, 0, 1, 1, &s), SHOAL_EINVAL);
    assert_status(shoali_sampler_create(1, 1, 0, 1, &s), SHOAL_EINVAL);
}

/* Workers change in the middle of epochs, again and again: still each sample once. */
static void other_workers_lose_and_repeat_nothing(void **state)
{
    enum { SAMPLES = 1013, BATCH = 7 };
    (void)state;
    for (uint32_t trial = 0; trial < 50; trial++) {
        shoali_rng rng = {check_seed(), trial, 0};
        uint32_t workers = 1 + (uint32_t)(shoali_rng_next(&rng) % 6), seen[2][SAMPLES] = {{0}};
        shoali_sampler *sampler;
        assert_ok(shoali_sampler_create(SAMPLES, workers, BATCH, 3, &sampler));
        for (uint64_t epoch = 0, step = 0; epoch < 2;) {
            if (shoali_rng_next(&rng) % 5 == 0) {
                uint32_t taken = shoali_sampler_taken(sampler, epoch, step);
                workers = 1 + (uint32_t)(shoali_rng_next(&rng) % 6);
                assert_ok(shoali_sampler_reshard(sampler, workers, epoch, taken));
                step = 0;
            }
            for (uint32_t w = 0; w < workers; w++) {
                shoali_share share = shoali_sampler_share(sampler, epoch, step, w);
                for (uint32_t i = 0; i < share.count; i++)
                    seen[epoch][share.indices[i]]++;
            }
            if (++step == shoali_sampler_steps_of(sampler, epoch)) {
                epoch++;
                step = 0;
            }
        }
        for (uint32_t i = 0; i < 2 * SAMPLES; i++)
            assert_int_equal(seen[i / SAMPLES][i % SAMPLES], 1);
        assert_status(shoali_sampler_reshard(sampler, 0, 0, 0), SHOAL_EINVAL);
        assert_status(shoali_sampler_reshard(sampler, 1, 0, SAMPLES + 1), SHOAL_EINVAL);
        shoali_sampler_destroy(sampler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(an_epoch_takes_every_sample_once),
        CHECK_TEST(uneven_batches_lose_and_repeat_nothing),
        CHECK_TEST(the_order_depends_on_seed_and_epoch_only),
        CHECK_TEST(places_are_uniform),
        CHECK_TEST(nothing_to_sample_is_refused),
        CHECK_TEST(other_workers_lose_and_repeat_nothing),
    };
    return CHECK_RUN(tests);
}
