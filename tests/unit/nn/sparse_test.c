/* SPDX-License-Identifier: Apache-2.0 */
/* Linear models of sparse features against the same computed densely in double: scores, gradients
 * of both losses, rows that are listed. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "model/model_text.h"
#include "nn/exec.h"
#include "nn/nn.h"

enum { VOCAB = 9, OUT = 3, COUNT = 4, PAIRS = 4, ROWS = VOCAB + 1 };

/* Features that are none, behind the vocabulary; a sample without any. */
static const float pairs[COUNT][PAIRS][2] = {
    {{0, 0.5f}, {3, -2}, {8, 1.25f}, {-1, 7}},
    {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}},
    {{2, 1}, {3, 1}, {4, -0.5f}, {11, 3}},
    {{8, 0.75f}, {-1, 9}, {-1, 9}, {-1, 9}},
};
static const uint32_t labels[COUNT] = {2, 0, 1, 0};

static shoal_model *make_model(const char *loss)
{
    const char *const layers[] = {"sparse:vocab=9,out=3", loss};
    const shoali_model_text text = {.name = "linear",
                                    .input = {1, PAIRS, 2},
                                    .layers = layers,
                                    .layer_count = loss != NULL ? 2 : 1};
    shoal_model *model;
    assert_ok(shoali_model_build("linear", &text, false, &model));
    assert_true(model->pairs && model->hinge == (loss != NULL));
    return model;
}

/* The same sample with all its zeros, and a one for the bias. */
static void dense(size_t n, double x[ROWS])
{
    memset(x, 0, ROWS * sizeof *x);
    x[VOCAB] = 1;
    for (size_t i = 0; i < PAIRS && pairs[n][i][0] >= 0; i++)
        if (pairs[n][i][0] < VOCAB)
            x[(size_t)pairs[n][i][0]] += (double)pairs[n][i][1];
}

/* Slopes of a sample's scores, from the definitions. */
static double slopes(const double s[OUT], uint32_t label, bool hinge, double d[OUT])
{
    double sum = 0, most = -INFINITY;
    size_t rival = OUT;
    for (size_t k = 0; k < OUT; k++) {
        sum += exp(s[k]);
        d[k] = 0;
        if (k != label && s[k] > most) {
            most = s[k];
            rival = k;
        }
    }
    for (size_t k = 0; !hinge && k < OUT; k++)
        d[k] = exp(s[k]) / sum - (k == label);
    if (!hinge)
        return log(sum) - s[label];
    if (s[label] - most >= 1)
        return 0;
    d[label] = -1;
    d[rival] = 1;
    return 1 - (s[label] - most);
}

static void compare(const char *loss_layer)
{
    shoal_model *model = make_model(loss_layer);
    shoali_net *net;
    shoali_loss loss;
    double sum = 0, want[ROWS * OUT] = {0}, x[ROWS], s[OUT], d[OUT];
    const shoali_batch batch = {
        .x = &pairs[0][0][0], .labels = labels, .count = COUNT, .weight = 1};
    assert_ok(shoali_net_create(model, COUNT, 7, &net));
    assert_int_equal(shoali_net_count(net), ROWS * OUT);
    float *w = shoali_net_params(net), *grads = shoali_net_grads(net);
    for (size_t i = 0; i < (size_t)ROWS * OUT; i++) {
        assert_true(w[i] == 0);
        w[i] = 0.3f * (float)((i * 7) % 11) - 1;
        grads[i] = 5; /* what was there counts for nothing */
    }
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    for (size_t n = 0; n < COUNT; n++) {
        dense(n, x);
        for (size_t k = 0; k < OUT; k++) {
            s[k] = 0;
            for (size_t row = 0; row < ROWS; row++)
                s[k] += x[row] * (double)w[row * OUT + k];
        }
        sum += slopes(s, labels[n], loss_layer != NULL, d);
        for (size_t i = 0; i < (size_t)ROWS * OUT; i++)
            want[i] += x[i / OUT] * d[i % OUT] / COUNT;
    }
    assert_true(fabs(loss.sum - sum) < 1e-5);
    for (size_t i = 0; i < (size_t)ROWS * OUT; i++)
        assert_true(fabs((double)grads[i] - want[i]) < 1e-6);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

static void logistic_is_what_it_is_densely(void **state)
{
    (void)state;
    compare(NULL);
}

static void svm_is_what_it_is_densely(void **state)
{
    (void)state;
    compare("hinge");
}

static void rows_used_are_listed(void **state)
{
    static const uint32_t used[] = {0, 2, 3, 4, 8, 9};
    shoal_model *model = make_model(NULL);
    shoali_net *net;
    shoali_loss loss;
    const shoali_batch batch = {
        .x = &pairs[0][0][0], .labels = labels, .count = COUNT, .weight = 1};
    size_t count;
    (void)state;
    assert_ok(shoali_net_create(model, COUNT, 7, &net));
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    const uint32_t *rows = shoali_net_rows(net, 0, &count);
    assert_int_equal(count, 6);
    assert_memory_equal(rows, used, sizeof used);
    shoali_net_destroy(net);
    shoal_model_close(model);
}

/* At a margin of 1 nothing is lost; what is no number must not look like a good score. */
static void hinge_at_its_edges(void **state)
{
    static const float scores[4][2] = {{1, 0}, {0.25f, 0}, {0, 0}, {0, NAN}};
    static const double want[] = {0, 0.75, 1};
    const uint32_t label = 0;
    float d[2];
    double sum;
    uint32_t correct;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        shoali_hinge_loss(scores[i], &label, 1, 2, 0, 2, d, &sum, &correct);
        assert_true(i == 3 ? isnan(sum) && isnan(d[0]) && isnan(d[1]) : sum == want[i]);
        if (i < 3)
            assert_true(d[0] == (i == 0 ? 0 : -2) && d[1] == -d[0]);
    }
}

static void refused(const char *const *layers, uint32_t count, shoal_shape in, const char *why)
{
    const shoali_model_text text = {
        .name = "linear", .input = in, .layers = layers, .layer_count = count};
    shoal_model *model;
    assert_status(shoali_model_build("linear", &text, false, &model), SHOAL_EINVAL);
    assert_error_has(why);
}

static void what_cannot_be_is_refused(void **state)
{
    static const char *const early[] = {"sparse:vocab=9", "hinge", "dense:out=2"};
    static const char *const one[] = {"sparse:vocab=9,out=1", "hinge"};
    shoal_model *model;
    shoali_net *net;
    (void)state;
    refused(early, 1, (shoal_shape){3, 8, 8}, "pairs of a feature and its value");
    refused(early, 3, (shoal_shape){1, 4, 2}, "a loss stands at the end");
    refused(one, 2, (shoal_shape){1, 4, 2}, "two scores or more");
    model = make_model("hinge");
    assert_ok(shoali_net_create(model, 1, 7, &net));
    assert_status(shoali_net_smooth(net, 0.1), SHOAL_EINVAL);
    assert_error_has("has no label to smooth");
    shoali_net_destroy(net);
    shoal_model_close(model);
}

/* Keys that the data decide, and the loss of another model. */
static void keys_say_what_the_data_are(void **state)
{
    shoal_model *model;
    (void)state;
    assert_ok(shoal_model_open("svm:vocab=47236,length=1224", &model));
    assert_true(model->input.height == 1224 && model->param_count == 2 * 47237 && model->hinge);
    shoal_model_close(model);
    assert_ok(shoal_model_open("logistic:loss=hinge", &model));
    assert_true(model->hinge && model->pairs);
    shoal_model_close(model);
    assert_ok(shoal_model_open("mlp-small:loss=hinge", &model));
    assert_true(model->hinge && !model->pairs);
    shoal_model_close(model);
    assert_status(shoal_model_open("mlp-small:vocab=5", &model), SHOAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(logistic_is_what_it_is_densely), CHECK_TEST(svm_is_what_it_is_densely),
        CHECK_TEST(rows_used_are_listed),           CHECK_TEST(hinge_at_its_edges),
        CHECK_TEST(what_cannot_be_is_refused),      CHECK_TEST(keys_say_what_the_data_are),
    };
    return CHECK_RUN(tests);
}
