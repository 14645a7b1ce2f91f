/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table: what comes out, and a gradient that is zero but in the rows of the batch,
 * against central differences of the loss. */
#include "support/check.h"

#include <math.h>

#include "model/model_text.h"
#include "nn/nn.h"

enum { FIELDS = 3, VOCAB = 11, WIDTH = 2, COUNT = 4 };

static const float ids[COUNT * FIELDS] = {0,  4,  10, 4,  4, 1,
                                          11, -1, 0,  10, 1, 0}; /* two are none */
static const uint32_t labels[COUNT] = {0, 1, 1, 0};

static shoal_model *make_model(void)
{
    static const char *const layers[] = {"lookup:vocab=11,width=2", "tanh", "dense:out=2"};
    const shoali_model_text text = {
        .name = "table", .input = {1, FIELDS, 1}, .layers = layers, .layer_count = 3};
    shoal_model *model;
    assert_ok(shoali_model_build("table", &text, false, &model));
    return model;
}

static double loss_of(shoali_net *net)
{
    const shoali_batch batch = {.x = ids, .labels = labels, .count = COUNT, .weight = 1};
    shoali_loss loss;
    assert_ok(shoali_net_evaluate(net, &batch, &loss));
    return loss.sum / COUNT;
}

static bool in_batch(size_t row)
{
    for (size_t i = 0; i < COUNT * FIELDS; i++)
        if (ids[i] == (float)row)
            return true;
    return false;
}

static void gradients_are_those_of_the_rows_used(void **state)
{
    shoal_model *model = make_model();
    shoali_net *net;
    shoali_loss loss;
    const shoali_batch batch = {.x = ids, .labels = labels, .count = COUNT, .weight = 1};
    (void)state;
    assert_ok(shoali_net_create(model, COUNT, 7, &net));
    float *params = shoali_net_params(net), *grads = shoali_net_grads(net);
    for (size_t i = 0; i < shoali_net_count(net); i++)
        grads[i] = 5; /* what was there counts for nothing */
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    for (size_t row = 0; row < VOCAB; row++)
        for (size_t k = 0; k < WIDTH; k++) {
            const size_t at = row * WIDTH + k;
            const float kept = params[at], step = 1e-2f, got = grads[at];
            if (!in_batch(row))
                assert_true(got == 0);
            params[at] = kept + step;
            const double above = loss_of(net);
            params[at] = kept - step;
            const double below = loss_of(net);
            params[at] = kept;
            assert_true(fabs((above - below) / (2 * (double)step) - (double)got) < 1e-4);
        }
    shoali_net_destroy(net);
    shoal_model_close(model);
}

/* Each row once, ascending; none of an empty batch. */
static void rows_used_are_listed(void **state)
{
    static const uint32_t used[] = {0, 1, 4, 10};
    shoal_model *model = make_model();
    shoali_net *net;
    shoali_loss loss;
    shoali_batch batch = {.x = ids, .labels = labels, .count = COUNT, .weight = 1};
    size_t count;
    (void)state;
    assert_ok(shoali_net_create(model, COUNT, 7, &net));
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    const uint32_t *rows = shoali_net_rows(net, 0, &count);
    assert_int_equal(count, 4);
    assert_memory_equal(rows, used, sizeof used);
    assert_null(shoali_net_rows(net, (size_t)VOCAB * WIDTH, &count));
    batch.count = 0;
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    assert_non_null(shoali_net_rows(net, 0, &count));
    assert_int_equal(count, 0);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void what_is_no_id_gives_nothing(void **state)
{
    static const char *const layers[] = {"lookup:vocab=3,width=2"};
    const shoali_model_text text = {
        .name = "table", .input = {1, 4, 1}, .layers = layers, .layer_count = 1};
    const float x[4] = {2, 3, -1, NAN};
    shoal_model *model;
    shoali_net *net;
    (void)state;
    assert_ok(shoali_model_build("table", &text, false, &model));
    assert_ok(shoali_net_create(model, 1, 7, &net));
    const float *y = shoali_net_forward(net, x, 1), *row = shoali_net_params(net) + 4;
    assert_true(y[0] == row[0] && y[1] == row[1]);
    for (size_t i = 2; i < 6; i++)
        assert_true(y[i] == 0);
    assert_true(isnan(y[6]) && isnan(y[7]));
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void images_are_refused(void **state)
{
    static const char *const layers[] = {"lookup"};
    const shoali_model_text text = {
        .name = "table", .input = {3, 8, 8}, .layers = layers, .layer_count = 1};
    shoal_model *model;
    (void)state;
    assert_status(shoali_model_build("table", &text, false, &model), SHOAL_EINVAL);
    assert_error_has("ids are 1 x fields x 1, not 3 x 8 x 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(gradients_are_those_of_the_rows_used),
        CHECK_TEST(rows_used_are_listed),
        CHECK_TEST(what_is_no_id_gives_nothing),
        CHECK_TEST(images_are_refused),
    };
    return CHECK_RUN(tests);
}
