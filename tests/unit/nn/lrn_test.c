/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by hand, and what is no number; gradients are op_test.c's. */
#include "support/check.h"

#include <math.h>

#include "model/model_text.h"
#include "nn/nn.h"

enum { CHANNELS = 6, PIXELS = 2, VALUES = CHANNELS * PIXELS };

typedef struct alone {
    shoal_model *model;
    shoali_net *net;
} alone;

static void open_alone(const char *spec, alone *a)
{
    const shoali_model_text text = {
        .name = "m", .input = {CHANNELS, 1, PIXELS}, .layers = &spec, .layer_count = 1};
    assert_ok(shoali_model_build("m", &text, false, &a->model));
    assert_ok(shoali_net_create_part(a->model, 2, NULL, NULL, &a->net));
}

static void close_alone(alone *a)
{
    shoali_net_destroy(a->net);
    shoal_model_close(a->model);
}

/* One channel of 2, the others 0: k + alpha / size * 4 is 4 where the window holds it, so y is
 * 2 / 4^beta there. Windows of 3 hold one neighbour on either side, those of 2 the next only. */
static void a_window_by_hand(void **state)
{
    static const struct {
        const char *spec;
        double want;
    } cases[] = {{"lrn:size=3,alpha=2.25,beta=0.5,k=1", 1},
                 {"lrn:size=3,alpha=2.25,k=1", 0.70710678},
                 {"lrn:size=2,alpha=1,beta=1,k=2", 0.5}};
    float x[2 * VALUES] = {0};
    alone a;
    (void)state;
    x[VALUES + 3 * PIXELS] = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        open_alone(cases[i].spec, &a);
        const float *y = shoali_net_forward(a.net, x, 2);
        for (size_t k = 0; k < 2 * VALUES; k++)
            assert_float_equal(y[k], k == VALUES + 3 * PIXELS ? cases[i].want : 0, 1e-6);
        close_alone(&a);
    }
}

/* All ones: the edges see fewer. Of size 4 a window is 1 before, itself, and 2 behind. */
static void edges_see_fewer(void **state)
{
    static const int seen[CHANNELS] = {3, 4, 4, 4, 3, 2};
    float x[VALUES];
    alone a;
    (void)state;
    for (size_t i = 0; i < VALUES; i++)
        x[i] = 1;
    open_alone("lrn:size=4,alpha=4,beta=1,k=1", &a);
    const float *y = shoali_net_forward(a.net, x, 1);
    for (size_t c = 0; c < CHANNELS; c++)
        assert_float_equal(y[c * PIXELS + 1], 1 / (1 + (double)seen[c]), 1e-6);
    close_alone(&a);
}

/* The power of square roots is the power of powf. */
static void both_powers_agree(void **state)
{
    float x[VALUES], kept[VALUES];
    alone a;
    (void)state;
    for (size_t i = 0; i < VALUES; i++)
        x[i] = (float)i - 5.5f;
    open_alone("lrn:alpha=0.5,k=2", &a);
    memcpy(kept, shoali_net_forward(a.net, x, 1), sizeof kept);
    close_alone(&a);
    open_alone("lrn:alpha=0.5,beta=0.7500001,k=2", &a);
    const float *y = shoali_net_forward(a.net, x, 1);
    for (size_t i = 0; i < VALUES; i++)
        assert_float_equal(y[i], kept[i], 2e-6 * fabsf(kept[i]) + 1e-9);
    close_alone(&a);
}

/* What is no number stays so, in its window and in its pixel alone, on the way back, too. */
static void no_number_is_lost(void **state)
{
    float x[VALUES];
    alone a;
    (void)state;
    for (size_t i = 0; i < VALUES; i++)
        x[i] = 1;
    x[1 * PIXELS] = NAN;
    open_alone("lrn:size=3", &a);
    const float *y = shoali_net_forward(a.net, x, 1);
    for (size_t i = 0; i < VALUES; i++)
        assert_true(isnan(y[i]) == (i % PIXELS == 0 && i / PIXELS <= 2));
    for (size_t i = 0; i < VALUES; i++)
        shoali_net_slope(a.net)[i] = 1;
    const float *dx = shoali_net_backward(a.net, x, 1, true);
    for (size_t i = 0; i < VALUES; i++)
        assert_true(isnan(dx[i]) == (i % PIXELS == 0 && i / PIXELS <= 3));
    close_alone(&a);
}

static void keys_have_ranges(void **state)
{
    static const char *const bad[] = {"lrn:size=0",   "lrn:size=256", "lrn:k=0",
                                      "lrn:alpha=-1", "lrn:beta=nan", "lrn:gamma=1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_model *model = NULL;
        const shoali_model_text text = {
            .name = "m", .input = {3, 1, 1}, .layers = &bad[i], .layer_count = 1};
        assert_status(shoali_model_build("m", &text, false, &model), SHOAL_EINVAL);
        assert_error_has("lrn");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_window_by_hand),  CHECK_TEST(edges_see_fewer),  CHECK_TEST(both_powers_agree),
        CHECK_TEST(no_number_is_lost), CHECK_TEST(keys_have_ranges),
    };
    return CHECK_RUN(tests);
}
