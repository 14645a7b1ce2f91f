/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of what is hidden, from which numbers it follows, and the loss: against cross-entropy in
 * double of the same net without the masks. */
#include "nn/masked.h"

#include <math.h>

#include "model/model_text.h"
#include "support/check.h"

enum { FRAMES = 40, CLASSES = 11, SAMPLES = 4000, COUNT = 3 };

static const char *const layers[] = {"lookup:vocab=11,width=6,frames,positions=40,types=2,std=0.5",
                                     "layernorm",
                                     "attention:heads=2,bias,rope=off,causal=off",
                                     "add:back=2",
                                     "framewise:out=11,tied,bias=off",
                                     "bias",
                                     "masked"};

static shoal_model *open_model(uint32_t count)
{
    const shoali_model_text text = {
        .name = "m", .input = {1, FRAMES, 1}, .layers = layers, .layer_count = count};
    shoal_model *model;
    assert_ok(shoali_model_build("m", &text, false, &model));
    return model;
}

static const shoali_layer *last(const shoal_model *model)
{
    return &model->layers[model->layer_count - 1];
}

/* 15 %, and of them 80 to the mask (the last), 10 to any of 11, the mask and itself among them. */
static void shares_are_as_published(void **state)
{
    shoal_model *model = open_model(7);
    float x[FRAMES], hidden[FRAMES];
    uint32_t labels[FRAMES];
    double asked = 0, masked = 0, kept = 0;
    (void)state;
    for (uint32_t t = 0; t < FRAMES; t++)
        x[t] = (float)(t % 10 + (t % 2) * CLASSES); /* every second one of the other segment */
    for (uint64_t n = 0; n < SAMPLES; n++) {
        shoali_mask(last(model), x, FRAMES, check_seed(), n, hidden, labels);
        for (uint32_t t = 0; t < FRAMES; t++) {
            if (labels[t] == SHOALI_NOT_ASKED) {
                assert_true(hidden[t] == x[t]);
                continue;
            }
            const uint32_t seen = (uint32_t)hidden[t];
            assert_int_equal(labels[t], t % 10);
            assert_int_equal(seen / CLASSES, t % 2);
            asked++;
            masked += seen % CLASSES == CLASSES - 1;
            kept += hidden[t] == x[t];
        }
    }
    const double all = (double)SAMPLES * FRAMES; /* deviations: 0.0009, and 0.0026 of 24000 */
    assert_true(fabs(asked / all - 0.15) < 0.0045);
    assert_true(fabs(masked / asked - (0.8 + 0.1 / CLASSES)) < 0.013);
    assert_true(fabs(kept / asked - (0.1 + 0.1 / CLASSES)) < 0.011);
    shoal_model_close(model);
}

static void one_is_asked_where_there_is_one(void **state)
{
    shoal_model *model = open_model(7);
    (void)state;
    for (uint64_t n = 0; n < 200; n++) {
        const float x[3] = {-1, NAN, 4};
        float hidden[3];
        uint32_t labels[3];
        shoali_mask(last(model), x, 3, check_seed(), n, hidden, labels);
        assert_int_equal(labels[0], SHOALI_NOT_ASKED);
        assert_int_equal(labels[1], SHOALI_NOT_ASKED);
        assert_int_equal(labels[2], 4);
        assert_true(isnan(hidden[1]));
    }
    shoal_model_close(model);
}

/* The bits are of the seed and the sample's number, in training; of its tokens, in tests. */
static void the_same_sample_is_asked_the_same(void **state)
{
    shoal_model *model = open_model(7);
    float x[2][FRAMES];
    (void)state;
    for (uint32_t t = 0; t < FRAMES; t++)
        x[0][t] = x[1][t] = (float)(t % 10);
    const shoali_batch two = {.x = x[0], .count = 2, .first_serial = 5};
    const shoali_batch one = {.x = x[1], .count = 1, .first_serial = 6};
    assert_int_equal(shoali_mask_stream(last(model), &two, 1, true),
                     shoali_mask_stream(last(model), &one, 0, true));
    assert_int_not_equal(shoali_mask_stream(last(model), &two, 0, true),
                         shoali_mask_stream(last(model), &two, 1, true));
    assert_int_equal(shoali_mask_stream(last(model), &two, 0, false),
                     shoali_mask_stream(last(model), &two, 1, false));
    x[1][3] = 7;
    assert_int_not_equal(shoali_mask_stream(last(model), &two, 0, false),
                         shoali_mask_stream(last(model), &two, 1, false));
    shoal_model_close(model);
}

/* Mean over a sample's asked frames, then over samples. */
static double loss_of(const float *scores, const uint32_t *labels)
{
    double all = 0;
    for (uint32_t n = 0; n < COUNT; n++) {
        double sum = 0, asked = 0;
        for (uint32_t t = 0; t < FRAMES; t++) {
            const size_t at = (size_t)n * FRAMES + t;
            double total = 0;
            if (labels[at] == SHOALI_NOT_ASKED)
                continue;
            for (uint32_t c = 0; c < CLASSES; c++)
                total += exp((double)scores[at * CLASSES + c]);
            sum += log(total) - (double)scores[at * CLASSES + labels[at]];
            asked++;
        }
        all += sum / asked / COUNT;
    }
    return all;
}

static void the_loss_is_of_what_is_hidden(void **state)
{
    shoal_model *model = open_model(7), *plain = open_model(6);
    shoali_net *net, *bare;
    float x[COUNT * FRAMES], hidden[COUNT * FRAMES], zero_scores;
    uint32_t labels[COUNT * FRAMES], next[COUNT * FRAMES] = {0};
    shoali_loss loss, other;
    (void)state;
    for (uint32_t i = 0; i < COUNT * FRAMES; i++)
        x[i] = (float)(i * i % 10);
    const shoali_batch batch = {
        .x = x, .labels = next, .count = COUNT, .first_serial = 9, .weight = 1};
    assert_ok(shoali_net_create(model, COUNT, 3, &net));
    assert_ok(shoali_net_create(plain, COUNT, 3, &bare));
    assert_ok(shoali_net_train(net, &batch, NULL, NULL, &loss));
    for (uint32_t n = 0; n < COUNT; n++)
        shoali_mask(last(model), x + n * FRAMES, FRAMES, 3,
                    shoali_mask_stream(last(model), &batch, n, true), hidden + n * FRAMES,
                    labels + n * FRAMES);
    const shoali_batch shown = {.x = hidden, .labels = next, .count = COUNT, .weight = 1};
    assert_ok(shoali_net_evaluate(bare, &shown, &other));
    const float *scores = shoali_net_scores(bare);
    assert_float_equal(loss.sum / COUNT, loss_of(scores, labels), 1e-5);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < COUNT * FRAMES; i++)
        asked += labels[i] != SHOALI_NOT_ASKED;
    assert_int_equal(loss.labels, asked);
    /* the gradient, by the last layer's: a score's slope is what the loss gains by it */
    for (uint32_t c = 0; c < CLASSES; c++) {
        double sides[2];
        float *of = shoali_net_params(bare) + plain->layers[5].param_offset + c;
        const float kept = *of;
        for (int side = 0; side < 2; side++) {
            *of = kept + (side == 0 ? 0x1p-8f : -0x1p-8f);
            assert_ok(shoali_net_evaluate(bare, &shown, &other));
            sides[side] = loss_of(shoali_net_scores(bare), labels);
        }
        *of = kept;
        zero_scores = shoali_net_grads(net)[plain->layers[5].param_offset + c];
        assert_float_equal(zero_scores, (sides[0] - sides[1]) / 0x1p-7, 1e-3);
    }
    shoali_net_destroy(net);
    shoali_net_destroy(bare);
    shoal_model_close(model);
    shoal_model_close(plain);
}

static void what_has_no_tokens_is_refused(void **state)
{
    static const char *const frames[] = {"framewise:out=5", "masked"};
    static const char *const inside[] = {"lookup:vocab=5,width=4,frames", "masked",
                                         "framewise:out=5"};
    static const char *const large[] = {"lookup:vocab=5,width=4,frames", "framewise:out=5",
                                        "masked:mask=5"};
    const struct {
        shoal_shape input;
        const char *const *layers;
        uint32_t count;
        const char *says;
    } cases[] = {{{1, 4, 3}, frames, 2, "has no tokens to hide"},
                 {{1, 4, 1}, inside, 3, "a loss stands at the end"},
                 {{1, 4, 1}, large, 3, "token 5, which is to hide others, is none of 5"}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const shoali_model_text text = {.name = "m",
                                        .input = cases[i].input,
                                        .layers = cases[i].layers,
                                        .layer_count = cases[i].count};
        shoal_model *model;
        assert_status(shoali_model_build("m", &text, false, &model), SHOAL_EINVAL);
        assert_error_has(cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(shares_are_as_published),           CHECK_TEST(one_is_asked_where_there_is_one),
        CHECK_TEST(the_same_sample_is_asked_the_same), CHECK_TEST(the_loss_is_of_what_is_hidden),
        CHECK_TEST(what_has_no_tokens_is_refused),
    };
    return CHECK_RUN(tests);
}
