/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by hand; gradients are op_test.c's. */
#include "support/check.h"

#include "model/model_text.h"
#include "nn/nn.h"

static shoal_status open(shoal_shape input, shoal_model **model_out)
{
    const char *spec = "bias";
    const shoali_model_text text = {.name = "m", .input = input, .layers = &spec, .layer_count = 1};
    return shoali_model_build("m", &text, false, model_out);
}

static void a_value_per_value_of_a_frame(void **state)
{
    const float x[6] = {1, 2, 3, 4, 5, 6}, want[6] = {1.5f, 1, 3.5f, 3, 5.5f, 5};
    float params[2] = {0.5f, -1}, grads[2];
    shoal_model *model;
    shoali_net *net;
    (void)state;
    assert_ok(open((shoal_shape){1, 3, 2}, &model));
    assert_ok(shoali_net_create_part(model, 1, params, grads, &net));
    assert_memory_equal(shoali_net_forward(net, x, 1), want, sizeof want);
    memcpy(shoali_net_slope(net), x, sizeof x);
    const float *dx = shoali_net_backward(net, x, 1, true);
    assert_memory_equal(dx, x, sizeof x);
    assert_float_equal(grads[0], 9, 0);
    assert_float_equal(grads[1], 12, 0);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void images_are_refused(void **state)
{
    shoal_model *model;
    (void)state;
    assert_status(open((shoal_shape){2, 3, 2}, &model), SHOAL_EINVAL);
    assert_error_has("2 x 3 x 2 is no sequence");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(a_value_per_value_of_a_frame),
        CHECK_TEST(images_are_refused),
    };
    return CHECK_RUN(tests);
}
