/* SPDX-License-Identifier: Apache-2.0 */
/* Epoch and step of it, for every step of a run, beside a walk through all epochs one by one; also
 * behind a change of workers within an epoch. */
#include "support/check.h"

#include "worker/together.h"

enum { EPOCHS = 4 };

/* All of the run: each step is where the walk is, and it ends with the last epoch. */
static void walk(const shoal_train *train)
{
    uint64_t step = train->from.step;
    for (uint64_t epoch = train->from.epoch; epoch < EPOCHS; epoch++)
        for (uint64_t i = 0; i < shoali_sampler_steps_of(train->data.sampler, epoch); i++) {
            uint64_t of, in;
            shoali_train_place(train, step++, &of, &in);
            assert_int_equal(of, epoch);
            assert_int_equal(in, i);
        }
    assert_int_equal(step, train->steps);
}

static void every_step_has_its_place(void **state)
{
    static const uint32_t counts[] = {1, 7, 24, 25};
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint32_t workers = 1; workers <= 4; workers++) {
            shoal_train train = {.desc = {.epochs = EPOCHS}};
            assert_ok(shoali_sampler_create(counts[c], workers, 3, 1, &train.data.sampler));
            shoali_train_plan_steps(&train);
            walk(&train);
            shoali_sampler_destroy(train.data.sampler);
        }
}

/* Three workers end before step 2 of epoch 1, of which 12 samples are taken; two go on. */
static void those_who_go_on_count_from_there(void **state)
{
    (void)state;
    shoal_train train = {.desc = {.epochs = EPOCHS}, .from.step = 8, .from.epoch = 1};
    assert_ok(shoali_sampler_create(31, 3, 2, 1, &train.data.sampler));
    assert_ok(shoali_sampler_reshard(train.data.sampler, 2, 1, 12));
    shoali_train_plan_steps(&train);
    walk(&train);
    assert_int_equal(train.steps_per_epoch, 8);   /* 31 samples by 4 */
    assert_int_equal(train.steps, 8 + 5 + 2 * 8); /* 19 of them are left */
    shoali_sampler_destroy(train.data.sampler);
}

static void a_limit_of_steps_ends_it_before(void **state)
{
    (void)state;
    shoal_train train = {.desc = {.epochs = EPOCHS, .max_steps = 5}};
    assert_ok(shoali_sampler_create(10, 1, 4, 1, &train.data.sampler));
    shoali_train_plan_steps(&train);
    assert_int_equal(train.steps, 5);
    train.desc.max_steps = 100;
    shoali_train_plan_steps(&train);
    assert_int_equal(train.steps, 12);
    train.from.epoch = EPOCHS; /* the others were through */
    train.from.step = 12;
    shoali_train_plan_steps(&train);
    assert_int_equal(train.steps, 12);
    shoali_sampler_destroy(train.data.sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(every_step_has_its_place),
                                       CHECK_TEST(those_who_go_on_count_from_there),
                                       CHECK_TEST(a_limit_of_steps_ends_it_before)};
    return CHECK_RUN(tests);
}
