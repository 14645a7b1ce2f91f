/* SPDX-License-Identifier: Apache-2.0 */
#include "nn/optim.h"

#include <math.h>

#include "base/rng.h"
#include "support/check.h"

enum { COUNT = 37, STEPS = 25 };

/* Three tensors: a weight, a bias (not decayed), a weight at half the rate. */
static const shoal_tensor table[] = {{1, 0, 20, 4, 5, 0, 1.0f},
                                     {2, 20, 5, 0, 0, SHOAL_TENSOR_BIAS, 1.0f},
                                     {3, 25, 12, 3, 4, SHOAL_TENSOR_LAST, 0.5f}};

typedef struct rule {
    const char *spec;
    double momentum, decay;
    bool nesterov, adam, apart, all; /* decay apart from the gradient; of biases, too */
    uint64_t freeze;                 /* steps of the square; 0: all */
} rule;

static const rule rules[] = {
    {.spec = "sgd:momentum=0"},
    {.spec = "sgd", .momentum = 0.9},
    {.spec = "sgd:decay=0.01,momentum=0.5", .momentum = 0.5, .decay = 0.01},
    {.spec = "sgd:momentum=0.8,decay=0.02,nesterov",
     .momentum = 0.8,
     .decay = 0.02,
     .nesterov = true},
    {.spec = "sgd:decay=0.2,decay_all", .momentum = 0.9, .decay = 0.2, .all = true},
    {.spec = "adam", .adam = true},
    {.spec = "adam:decay=0.1", .decay = 0.1, .adam = true},
    {.spec = "adam:freeze=2", .adam = true, .freeze = 2},
    {.spec = "adamw", .decay = 0.01, .adam = true, .apart = true},
    {.spec = "adamw:decay=0.1", .decay = 0.1, .adam = true, .apart = true},
    {.spec = "adamw:decay=0.3,decay_all", .decay = 0.3, .adam = true, .apart = true, .all = true},
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* The textbook, one value at a time, in double. */
static double textbook(const rule *r, double w, double g, double lr, double *a, double *b,
                       uint64_t iteration)
{
    if (r->adam) {
        *a = 0.9 * *a + 0.1 * g;
        const bool frozen = r->freeze > 0 && iteration >= r->freeze;
        *b = frozen ? *b : 0.999 * *b + 0.001 * g * g;
        const double settled = frozen ? (double)r->freeze : (double)iteration + 1;
        double mean = *a / (1 - pow(0.9, (double)iteration + 1)),
               square = *b / (1 - pow(0.999, settled));
        return w - lr * mean / (sqrt(square) + 1e-8);
    }
    *a = r->momentum * *a + g;
    return w - lr * (r->nesterov ? g + r->momentum * *a : *a);
}

static const shoal_tensor *tensor_of(size_t i)
{
    return &table[i < 20 ? 0 : i < 25 ? 1 : 2];
}

static void steps_match_the_textbook(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    for (size_t r = 0; r < RULES; r++) {
        shoali_optim *optim;
        float w[COUNT], g[COUNT];
        double want[COUNT], a[COUNT] = {0}, b[COUNT] = {0};
        assert_ok(shoali_optim_create(rules[r].spec, table, 3, &optim));
        for (size_t i = 0; i < COUNT; i++)
            want[i] = w[i] = (float)shoali_rng_normal(seed, 1, i);
        for (uint64_t t = 0; t < STEPS; t++) {
            float lr = 0.05f / (float)(t + 1);
            for (size_t i = 0; i < COUNT; i++)
                g[i] = (float)shoali_rng_normal(seed, 2 + t, i);
            for (size_t i = 0; i < COUNT; i++) {
                const shoal_tensor *tensor = tensor_of(i);
                bool spared = (tensor->flags & SHOAL_TENSOR_BIAS) != 0 && !rules[r].all;
                double decay = spared ? 0 : rules[r].decay, rate = (double)lr * tensor->lr_scale;
                double in_gradient = rules[r].apart ? 0 : decay * want[i],
                       apart = rules[r].apart ? rate * decay * want[i] : 0;
                want[i] = textbook(&rules[r], want[i], 0.25 * g[i] + in_gradient, rate, &a[i],
                                   &b[i], t) -
                          apart;
            }
            shoali_optim_step(optim, &(shoali_step){0, COUNT, w, g, w, lr, 0.25f, t});
        }
        for (size_t i = 0; i < COUNT; i++)
            if (!(fabs(w[i] - want[i]) < 2e-5))
                fail_msg("%s, value %zu: %g, textbook %g", rules[r].spec, i, w[i], want[i]);
        shoali_optim_destroy(optim);
    }
}

/* Shards of any borders, weights left in the gradient's place: the same bits as one step over all.
 */
static void ranges_give_the_same_bits(void **state)
{
    static const size_t cuts[] = {0, 1, 13, 21, 22, 31, COUNT};
    uint64_t seed = check_seed();
    (void)state;
    for (size_t r = 0; r < RULES; r++) {
        shoali_optim *whole, *parts;
        float w[COUNT], v[COUNT], g[COUNT], h[COUNT];
        assert_ok(shoali_optim_create(rules[r].spec, table, 3, &whole));
        assert_ok(shoali_optim_create(rules[r].spec, table, 3, &parts));
        for (size_t i = 0; i < COUNT; i++)
            v[i] = w[i] = (float)shoali_rng_normal(seed, 1, i);
        for (uint64_t t = 0; t < 3; t++) {
            for (size_t i = 0; i < COUNT; i++)
                h[i] = g[i] = (float)shoali_rng_normal(seed, 2 + t, i);
            shoali_optim_step(whole, &(shoali_step){0, COUNT, w, g, w, 0.1f, 0.5f, t});
            for (size_t c = 0; c + 1 < sizeof cuts / sizeof cuts[0]; c++)
                shoali_optim_step(parts, &(shoali_step){cuts[c], cuts[c + 1] - cuts[c], v + cuts[c],
                                                        h + cuts[c], h + cuts[c], 0.1f, 0.5f, t});
            memcpy(v, h, sizeof v);
            assert_memory_equal(v, w, sizeof v);
        }
        uint32_t slots, same;
        const float *a = shoali_optim_state(whole, &slots), *b = shoali_optim_state(parts, &same);
        assert_int_equal(slots, same);
        assert_int_equal(slots, rules[r].adam ? 2 : rules[r].momentum > 0 ? 1 : 0);
        if (slots > 0)
            assert_memory_equal(a, b, slots * COUNT * sizeof *a);
        assert_true((shoali_optim_slot_name(whole, 0) != NULL) == (slots > 0));
        shoali_optim_destroy(whole);
        shoali_optim_destroy(parts);
    }
}

/* The average starts with the first weights, and is the last array of the state. */
static void the_average_follows_the_weights(void **state)
{
    uint64_t seed = check_seed();
    (void)state;
    shoali_optim *optim, *plain;
    float w[COUNT], v[COUNT], g[COUNT];
    double want[COUNT];
    uint32_t slots = 0, traits = 0;
    assert_ok(shoali_optim_create("adam:ema=0.75", table, 3, &optim));
    assert_ok(shoali_optim_create("adam", table, 3, &plain));
    assert_null(shoali_optim_average(plain));
    for (size_t i = 0; i < COUNT; i++)
        want[i] = v[i] = w[i] = (float)shoali_rng_normal(seed, 1, i);
    shoali_optim_begin(optim, w);
    for (uint64_t t = 0; t < STEPS; t++) {
        for (size_t i = 0; i < COUNT; i++)
            g[i] = (float)shoali_rng_normal(seed, 2 + t, i);
        shoali_optim_step(optim, &(shoali_step){0, COUNT, w, g, w, 0.1f, 1, t});
        shoali_optim_step(plain, &(shoali_step){0, COUNT, v, g, v, 0.1f, 1, t});
        for (size_t i = 0; i < COUNT; i++)
            want[i] = 0.75 * want[i] + 0.25 * (double)w[i];
    }
    assert_memory_equal(v, w, sizeof v); /* the weights know nothing of it */
    const float *average = shoali_optim_average(optim), *all = shoali_optim_state(optim, &slots);
    assert_int_equal(slots, 3);
    assert_string_equal(shoali_optim_slot_name(optim, 2), "average");
    assert_null(shoali_optim_slot_name(optim, 3));
    assert_ptr_equal(average, all + (size_t)2 * COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs((double)average[i] - want[i]) < 1e-5);
    shoali_optim_destroy(optim);
    shoali_optim_destroy(plain);
    assert_ok(shoali_optim_ask("adam:ema=0.75", &traits));
    assert_int_equal(traits, SHOALI_OPTIM_AVERAGES | SHOALI_OPTIM_REMEMBERS);
    assert_ok(shoali_optim_ask("muon", &traits));
    assert_int_equal(traits, SHOALI_OPTIM_WHOLE | SHOALI_OPTIM_REMEMBERS);
    assert_ok(shoali_optim_ask("sgd:momentum=0", &traits));
    assert_int_equal(traits, 0);
}

/* The norm is of what the step applies: the sum times grad_scale. */
static void the_norm_is_clipped(void **state)
{
    (void)state;
    const float g[] = {6, -8, 0, 24};             /* 26 */
    const double at_two = 26.0 / 4, small = 1e-6; /* PyTorch adds that to the norm */
    assert_true(fabs((double)shoali_clip_scale(g, 4, 0.25f, 2) - 0.25 * 2 / (at_two + small)) <
                1e-7);
    assert_true(shoali_clip_scale(g, 4, 0.25f, 6.6) == 0.25f);
    const float none[] = {0, 0};
    assert_true(shoali_clip_scale(none, 2, 0.5f, 1e-3) == 0.5f);
}

static void specs_are_checked(void **state)
{
    shoali_optim *optim;
    shoali_lr *lr;
    (void)state;
    assert_status(shoali_optim_create("sdg", table, 3, &optim), SHOAL_EINVAL);
    assert_error_has("sgd");
    assert_status(shoali_optim_create("sgd:beta1=0.5", table, 3, &optim), SHOAL_EINVAL);
    assert_status(shoali_optim_create("sgd:momentum=0,nesterov", table, 3, &optim), SHOAL_EINVAL);
    assert_status(shoali_optim_create("adamw:ema=1", table, 3, &optim), SHOAL_EINVAL);
    assert_status(shoali_optim_create("muon:steps=0", table, 3, &optim), SHOAL_EINVAL);
    assert_status(shoali_lr_create("poly:power=0", &lr), SHOAL_EINVAL);
    assert_status(shoali_lr_create("cosinus", &lr), SHOAL_EINVAL);
    assert_error_has("cosine");
    assert_status(shoali_lr_create("step:at=0.5/0.2", &lr), SHOAL_EINVAL);
    assert_status(shoali_lr_create("step:at=0.5/x", &lr), SHOAL_EINVAL);
    assert_status(shoali_lr_create("step:at=1.5", &lr), SHOAL_EINVAL);
    assert_ok(shoali_optim_create("sgd:decay=5e-4", table, 3, &optim));
    assert_string_equal(shoali_optim_spec(optim), "sgd:decay=0.0005");
    shoali_optim_destroy(optim);
}

static void schedules_have_their_shapes(void **state)
{
    static const struct {
        const char *spec;
        uint64_t iteration;
        double rate; /* of a base of 2 in 1000 iterations */
    } points[] = {{"constant", 0, 2},
                  {"constant", 999, 2},
                  {"constant:warmup=9", 0, 0.2},
                  {"constant:warmup=9", 8, 1.8},
                  {"constant:warmup=9", 9, 2},
                  {"cosine", 0, 2},
                  {"cosine", 500, 1},
                  {"cosine", 250, 1 + 0.70710678118},
                  {"cosine", 1000, 0},
                  {"cosine:floor=0.5", 1000, 1},
                  {"cosine:warmup=200", 600, 1},
                  {"poly", 0, 2},
                  {"poly", 250, 1.5},
                  {"poly", 1000, 0},
                  {"poly:power=2,floor=0.1", 500, 2 * (0.1 + 0.9 * 0.25)},
                  {"poly:power=0.5,warmup=200", 800, 1},
                  {"step", 499, 2},
                  {"step", 500, 0.2},
                  {"step", 750, 0.02},
                  {"step:at=0.1/0.2/0.3,factor=0.5", 350, 0.25},
                  {"step:at=0.1,factor=0.5,warmup=500", 549, 2},
                  {"step:at=0.1,factor=0.5,warmup=500", 550, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        shoali_lr *lr;
        assert_ok(shoali_lr_create(points[i].spec, &lr));
        double rate = shoali_lr_at(lr, 2, points[i].iteration, 1000);
        if (!(fabs(rate - points[i].rate) < 1e-9))
            fail_msg("%s at %zu: %g, wanted %g", points[i].spec, (size_t)points[i].iteration, rate,
                     points[i].rate);
        shoali_lr_destroy(lr);
    }
}

/* A square that stands still at 0 divides nothing: signs that a codec makes up move no weight. */
static void what_had_no_slope_stays_frozen(void **state)
{
    shoali_optim *optim;
    float w[COUNT] = {0}, g[COUNT] = {0};
    (void)state;
    assert_ok(shoali_optim_create("adam:freeze=2", table, 3, &optim));
    for (uint64_t t = 0; t < 4; t++) {
        for (size_t i = 0; i < COUNT; i++)
            g[i] = i % 2 == 0 || t >= 2 ? 1 : 0;
        const shoali_step step = {.count = COUNT,
                                  .params = w,
                                  .grads = g,
                                  .params_out = w,
                                  .lr = 0.1f,
                                  .grad_scale = 1,
                                  .iteration = t};
        shoali_optim_step(optim, &step);
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_true(i % 2 == 0 ? w[i] < -0.1f : w[i] == 0);
    shoali_optim_destroy(optim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(steps_match_the_textbook),    CHECK_TEST(what_had_no_slope_stays_frozen),
        CHECK_TEST(ranges_give_the_same_bits),   CHECK_TEST(the_average_follows_the_weights),
        CHECK_TEST(the_norm_is_clipped),         CHECK_TEST(specs_are_checked),
        CHECK_TEST(schedules_have_their_shapes),
    };
    return CHECK_RUN(tests);
}
