/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and multiply-adds of published networks, from their papers and model collections. */
#include "model/model.h"

#include <math.h>

#include "support/check.h"

/* weights: without biases, HyPar's totals (specs/planning.md 1.5). gmacs 0: not published alike. */
static const struct {
    const char *name;
    uint64_t params, weights;
    double gmacs, gmacs_off;
    bool described;
} published[] = {
    {"sfc", 140722176, 140722176, 0.140722, 1e-5, false},
    {"sconv", 100500, 100500, 0, 0, false},
    {"cifar-c", 145376, 145376, 0, 0, false},
    {"alexnet-hypar", 16624656, 16624656, 0, 0, false},
    {"lenet-c", 431080, 430500, 0, 0, false},
    {"vgg-a", 132863336, 132851392, 7.609, 1e-3, false},
    {"vgg-b", 133047848, 133035712, 11.308, 1e-3, false},
    {"vgg-c", 133638952, 133625536, 11.771, 1e-3, false},
    {"vgg-d", 138357544, 138344128, 15.470, 1e-3, false},
    {"vgg-e", 143667240, 143652544, 19.632, 1e-3, false},
    {"alexnet", 60965224, 0, 0.714, 0.02, false},    /* Caffe's bvlc_alexnet, 714 M */
    {"googlenet", 6998552, 0, 1.58, 0.03, false},    /* Caffe's bvlc_googlenet without aux */
    {"resnet-50", 25557032, 0, 4.09, 0.02, false},   /* torchvision */
    {"resnet-152", 60192808, 0, 11.51, 0.03, false}, /* torchvision */
    {"resnet-18", 11173962, 0, 0.556, 0.002, false}, /* as commonly used for CIFAR-10 */
};

static uint64_t weights_of(const shoal_model *model)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < model->tensor_count; t++)
        sum += model->tensors[t].rows > 0 ? model->tensors[t].count : 0;
    return sum;
}

static double gmacs_of(const shoal_model *model)
{
    double sum = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        sum += model->layers[i].tensor_count > 0 && model->layers[i].state_count == 0
                   ? model->layers[i].forward_flops / 2e9
                   : 0;
    return sum;
}

/* He et al., section 4.2, n = 1: 16, 32, 64 channels, by arithmetic. A convolution k x k from a to
 * b channels has k k a b weights and a norm behind it 2 b. */
static void the_small_resnet_has_its_parameters(void **state)
{
    shoal_model *model;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    uint64_t sum = 9 * 3 * 16 + 2 * 16, last = 16;
    (void)state;
    for (uint64_t width = 16; width <= 64; width *= 2) {
        sum += 9 * last * width + 2 * width + 9 * width * width + 2 * width;
        sum += last != width ? last * width + 2 * width : 0;
        last = width;
    }
    sum += 64 * 10 + 10;
    assert_int_equal(sum, 78042);
    assert_ok(shoal_model_open("resnet-8", &model));
    assert_ok(shoal_model_describe(model, &info));
    assert_int_equal(info.param_count, sum);
    assert_false(info.described);
    shoal_model_close(model);
}

static void published_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        shoal_model *model;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        assert_ok(shoal_model_open(published[i].name, &model));
        assert_ok(shoal_model_describe(model, &info));
        if (info.param_count != published[i].params)
            fail_msg("%s: %llu parameters, published %llu", published[i].name,
                     (unsigned long long)info.param_count, (unsigned long long)published[i].params);
        if (published[i].weights > 0)
            assert_int_equal(weights_of(model), published[i].weights);
        if (published[i].gmacs > 0 &&
            !(fabs(gmacs_of(model) - published[i].gmacs) <= published[i].gmacs_off))
            fail_msg("%s: %g GMAC, published %g", published[i].name, gmacs_of(model),
                     published[i].gmacs);
        assert_int_equal(info.described, published[i].described);
        shoal_model_close(model);
    }
}

/* Parameters per Calculon's count plus a final norm; FLOPs by 72 B s l h^2 (1 + s/6h + V/12lh). */
static void language_models(void **state)
{
    static const struct {
        const char *name;
        double width, blocks, vocab, positions, about;
    } rows[] = {{"gpt-3", 12288, 96, 50257, 2048, 175e9},
                {"turing-nlg", 4256, 78, 50257, 1024, 17.2e9},
                {"msft-1t", 24576, 128, 51200, 2048, 930e9},
                {"megatron-22b", 6144, 48, 51200, 2048, 22e9},
                {"megatron-175b", 12288, 96, 51200, 2048, 175e9},
                {"megatron-530b", 20480, 105, 51200, 2048, 530e9},
                {"megatron-1t", 25600, 128, 51200, 2048, 1008e9}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shoal_model *model;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        double h = rows[i].width, l = rows[i].blocks, v = rows[i].vocab, s = rows[i].positions;
        double block = 12 * h * h + 13 * h;
        double tables = (v + s) * h + 2 * h;
        double flops = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
        assert_ok(shoal_model_open(rows[i].name, &model));
        assert_ok(shoal_model_describe(model, &info));
        assert_true(info.described);
        assert_int_equal(info.classes, (int)v);
        assert_true((double)info.param_count == l * block + tables);
        assert_true(fabs((double)info.param_count / rows[i].about - 1) < 0.03);
        double all = info.forward_flops + info.backward_flops;
        if (!(fabs(all / flops - 1) < 1e-4))
            fail_msg("%s: %g FLOPs, by formula %g", rows[i].name, all, flops);
        shoal_model_close(model);
    }
}

/* Shapes at the joints: what a wrong back= would spoil. */
static void graphs_join_what_they_should(void **state)
{
    shoal_model *model;
    (void)state;
    assert_ok(shoal_model_open("googlenet", &model));
    for (uint32_t i = 0, seen = 0; i < model->layer_count; i++) {
        static const uint32_t channels[9] = {256, 480, 512, 512, 512, 528, 832, 832, 1024};
        if (strcmp(model->layers[i].row->name, "concat") == 0)
            assert_int_equal(model->layers[i].out.channels, channels[seen++]);
    }
    shoal_model_close(model);
    assert_ok(shoal_model_open("resnet-50", &model));
    assert_int_equal(model->layers[model->layer_count - 3].in.channels, 2048);
    assert_int_equal(model->layers[model->layer_count - 3].in.height, 7);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(the_small_resnet_has_its_parameters),
        CHECK_TEST(published_sizes),
        CHECK_TEST(language_models),
        CHECK_TEST(graphs_join_what_they_should),
    };
    return CHECK_RUN(tests);
}
