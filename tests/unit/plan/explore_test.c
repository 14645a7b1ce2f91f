/* SPDX-License-Identifier: Apache-2.0 */
/* The search on networks whose errors are a formula: what it should find is known beforehand. */
#include "support/check.h"

#include <math.h>

#include "shoal/explore.h"

/* An LSTM of 1024 cells over 512 values, projected to 512; a GRU of 1024. */
static const shoal_explore_matrix matrices[] = {{4096, 512}, {4096, 512}, {512, 1024}};

typedef struct world {
    double per_block;          /* points that each doubling of the blocks costs */
    double gru, input, output; /* points that these cost */
    uint32_t trained;
    shoal_status fails;
    bool gru_is_large;
} world;

static shoal_status count_weights(void *ctx, const shoal_explore_choice *c, uint64_t *count_out)
{
    const world *w = ctx;
    uint64_t in = 4096 * 512 / c->kx, recurrent = 4096 * 512 / c->k, out = 512 * 1024 / c->k;
    *count_out = c->gru && !w->gru_is_large ? (in + recurrent) * 3 / 4 : in + recurrent + out;
    *count_out += 512 * 40 / c->ky;
    return SHOAL_OK;
}

static shoal_status train(void *ctx, const shoal_explore_choice *c, double *error_out)
{
    world *w = ctx;
    w->trained++;
    *error_out = 20 + w->per_block * log2(c->k) + w->gru * c->gru + w->input * (c->kx > c->k) +
                 w->output * (c->ky > 1);
    return w->fails;
}

static shoal_explore_desc describe(world *w)
{
    shoal_explore_desc desc = SHOAL_EXPLORE_DESC_INIT;
    desc.limit = 0.3;
    desc.baseline = 20;
    desc.matrices = matrices;
    desc.matrix_count = 3;
    desc.weights = count_weights;
    desc.train = train;
    desc.ctx = w;
    return desc;
}

static shoal_explore_result search(world *w, const shoal_explore_desc *desc)
{
    shoal_explore_result r;
    assert_ok(shoal_explore(desc, &r));
    assert_int_equal(r.trial_count, w->trained);
    assert_true(r.trial_count <= (desc->trials > 0 ? desc->trials : 5));
    return r;
}

static void expect_choice(const shoal_explore_result *r, bool gru, uint32_t k, uint32_t kx,
                          uint32_t ky)
{
    assert_true(r->found);
    assert_int_equal(r->chosen.gru, gru);
    assert_int_equal(r->chosen.k, k);
    assert_int_equal(r->chosen.kx, kx);
    assert_int_equal(r->chosen.ky, ky);
}

/* 4.7 M weights of 12 bits in 0.8 of 10 Mbit: k = 8 is the first that fits. */
static void bounds_follow_from_memory_and_work(void **state)
{
    world w = {.per_block = 0.01};
    shoal_explore_desc desc = describe(&w);
    (void)state;
    desc.memory_bits = 10e6;
    shoal_explore_result r = search(&w, &desc);
    assert_int_equal(r.k_low, 8);
    assert_int_equal(r.k_high, 64); /* beyond it the cap */
    desc.k_most = 1024;
    w.trained = 0;
    r = search(&w, &desc);
    assert_int_equal(r.k_high, 128); /* worked out by hand from products and transforms */
    desc.memory_bits = 1e3;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
    assert_error_has("do not fit");
}

static void the_largest_block_that_holds_is_found(void **state)
{
    world w = {.per_block = 0.059, .gru = 1, .input = 1, .output = 1}; /* holds up to 2^5 */
    shoal_explore_desc desc = describe(&w);
    (void)state;
    desc.trials = 8;
    shoal_explore_result r = search(&w, &desc);
    assert_int_equal(r.k_low, 2);
    expect_choice(&r, false, 32, 32, 1);
    assert_false(r.blocks_cut || r.input_left_out || r.output_left_out);
    assert_true(fabs(r.error - 20.295) < 1e-9);
    w.trained = 0;
    desc.trials = 5; /* one for k_low, two for blocks, the GRU, the input */
    r = search(&w, &desc);
    assert_true(r.found && r.chosen.k == 32 && r.trial_count == 5);
    assert_true(r.blocks_cut && r.output_left_out && !r.input_left_out);
}

static void cells_and_edges_are_changed_where_they_hold(void **state)
{
    world w = {.per_block = 0.05, .gru = 0.01, .input = 0.03, .output = 0.03};
    shoal_explore_desc desc = describe(&w);
    (void)state;
    desc.memory_bits = 10e6;
    desc.trials = 9;
    desc.k_most = 16;
    shoal_explore_result r = search(&w, &desc); /* 0.2 at 16; 0.21, 0.24, 0.27 */
    expect_choice(&r, true, 16, 32, 32);
    for (uint32_t i = 0; i < r.trial_count; i++)
        assert_true(r.trials[i].holds && r.trials[i].kept);
    w = (world){.per_block = 0.05, .gru = 0.2, .input = 0.2, .output = 0.03};
    r = search(&w, &desc);
    expect_choice(&r, false, 16, 16, 32);
    w = (world){.per_block = 0.05, .gru_is_large = true, .input = 1, .output = 1};
    r = search(&w, &desc); /* a GRU that saves nothing is not tried */
    expect_choice(&r, false, 16, 16, 1);
    for (uint32_t i = 0; i < r.trial_count; i++)
        assert_int_not_equal(r.trials[i].step, SHOAL_EXPLORE_GRU);
}

static void a_miss_at_the_first_block_ends_it(void **state)
{
    world w = {.per_block = 0.4};
    shoal_explore_desc desc = describe(&w);
    (void)state;
    desc.baseline = (double)NAN;
    shoal_explore_result r = search(&w, &desc);
    assert_false(r.found);
    assert_int_equal(r.trial_count, 2);
    assert_int_equal(r.trials[0].step, SHOAL_EXPLORE_BASELINE);
    assert_true(r.baseline == 20 && r.trials[1].added > 0.3);
    w = (world){.per_block = (double)NAN};
    desc.baseline = 20;
    r = search(&w, &desc); /* what is no number holds no limit */
    assert_false(r.found);
}

static void wrong_questions_and_failures_come_back(void **state)
{
    world w = {.fails = SHOAL_EIO};
    shoal_explore_result r;
    shoal_explore_desc desc = describe(&w);
    (void)state;
    assert_status(shoal_explore(&desc, &r), SHOAL_EIO);
    desc.trials = 17;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
    desc.trials = 1;
    desc.baseline = (double)NAN;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
    assert_error_has("it takes 2");
    desc = describe(&w);
    desc.limit = -1;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
    desc = describe(&w);
    desc.train = NULL;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
    desc.size = 3;
    assert_status(shoal_explore(&desc, &r), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(bounds_follow_from_memory_and_work),
        CHECK_TEST(the_largest_block_that_holds_is_found),
        CHECK_TEST(cells_and_edges_are_changed_where_they_hold),
        CHECK_TEST(a_miss_at_the_first_block_ends_it),
        CHECK_TEST(wrong_questions_and_failures_come_back),
    };
    return CHECK_RUN(tests);
}
