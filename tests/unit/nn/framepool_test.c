/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by hand; gradients are op_test.c's. */
#include "support/check.h"

#include "model/model_text.h"
#include "nn/nn.h"

static const float x[2][3][2] = {{{1, -2}, {3, 4}, {5, 10}}, {{-1, 0}, {0, 0.5f}, {4, 1}}};

static void check(const char *spec, const float want[2][2])
{
    const shoali_model_text text = {
        .name = "m", .input = {1, 3, 2}, .layers = &spec, .layer_count = 1};
    shoal_model *model;
    shoali_net *net;
    float none = 0;
    assert_ok(shoali_model_build("m", &text, false, &model));
    assert_int_equal(model->layers[0].out.channels, 2);
    assert_int_equal(model->layers[0].out.height, 1);
    assert_ok(shoali_net_create_part(model, 2, &none, &none, &net));
    const float *y = shoali_net_forward(net, &x[0][0][0], 2);
    for (size_t i = 0; i < 4; i++)
        assert_float_equal(y[i], (&want[0][0])[i], 1e-6);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void the_first_frame_or_the_mean(void **state)
{
    (void)state;
    check("framepool", (const float[2][2]){{1, -2}, {-1, 0}});
    check("framepool:by=mean", (const float[2][2]){{3, 4}, {1, 0.5f}});
}

static void sequences_of_planners_are_described(void **state)
{
    const char *spec = "framepool:by=mean";
    const shoali_model_text text = {
        .name = "m", .input = {7, 3, 1}, .layers = &spec, .layer_count = 1};
    shoal_model *model;
    (void)state;
    assert_ok(shoali_model_build("m", &text, false, &model));
    assert_ptr_equal(model->described, &model->layers[0]);
    assert_int_equal(model->layers[0].out.channels, 7);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_first_frame_or_the_mean),
        CHECK_TEST(sequences_of_planners_are_described),
    };
    return CHECK_RUN(tests);
}
