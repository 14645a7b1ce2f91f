/* SPDX-License-Identifier: Apache-2.0 */
/* Keys side and classes of a model: shapes by arithmetic, the same parameters where they should be,
 * and what cannot be is refused by name. */
#include "model/model.h"

#include "support/check.h"

static const shoali_layer *layer_of(const shoal_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0)
            return &model->layers[i];
    fail_msg("no layer %s", name);
    return NULL;
}

static void expect(const char *spec, uint64_t params, uint64_t classes)
{
    shoal_model *model = NULL;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    assert_ok(shoal_model_open(spec, &model));
    assert_ok(shoal_model_describe(model, &info));
    if (info.param_count != params || info.classes != classes)
        fail_msg("%s: %llu parameters, %u classes", spec, (unsigned long long)info.param_count,
                 info.classes);
    assert_false(info.described);
    shoal_model_close(model);
}

/* Behind a mean over the image nothing depends on its side; AlexNet's first dense layer does: 64
 * pixels are 14 behind conv1, 7, 3, 1 behind its pools, so 256 inputs in place of 9216. */
static void parameters_by_arithmetic(void **state)
{
    (void)state;
    expect("resnet-50:side=64", 25557032, 1000);
    expect("resnet-50:side=64,classes=10", 25557032 - 990 * 2049, 10);
    expect("googlenet:side=64", 6998552, 1000);
    expect("googlenet:classes=7", 6998552 - 993 * 1025, 7);
    expect("alexnet:side=64", 60965224 - (9216 - 256) * 4096, 1000);
    expect("alexnet:classes=10,side=64", 60965224 - (9216 - 256) * 4096 - 990 * 4097, 10);
    expect("resnet-8:side=48", 78042, 10);
    expect("sfc:classes=5", 140722176 - 5 * 8192, 5); /* without biases */
}

static void means_over_the_image_stay_so(void **state)
{
    static const struct {
        const char *spec;
        uint32_t side;
    } cases[] = {{"resnet-50:side=64", 2}, {"resnet-50:side=224", 7}, {"resnet-50:side=256", 8},
                 {"googlenet:side=64", 2}, {"googlenet:side=256", 8}, {"resnet-8:side=40", 10},
                 {"resnet-152:side=33", 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *model = NULL;
        assert_ok(shoal_model_open(cases[i].spec, &model));
        const shoali_layer *pool = layer_of(model, "avgpool1");
        if (pool->in.height != cases[i].side || pool->out.height != 1 || pool->out.width != 1)
            fail_msg("%s: a mean of %u pixels of %u", cases[i].spec, pool->out.height,
                     pool->in.height);
        shoal_model_close(model);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *spec, *says;
    } bad[] = {
        {"recommender:side=64", "no square image"},
        {"lstm-asr:side=64", "no square image"},
        {"lstm-asr:classes=4", "does not end in a dense layer"},
        {"svm:classes=4", "does not end in a dense layer"},
        {"sconv:classes=4", "does not end in a dense layer"},
        {"alexnet:side=30", "does not fit"},
        {"googlenet:side=-1", "side"},
        {"googlenet:side=65537", "side"},
        {"googlenet:classes=x", "classes"},
        {"gpt-3:classes=4", "does not end in a dense layer"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_model *model = NULL;
        if (shoal_model_open(bad[i].spec, &model) != SHOAL_EINVAL)
            fail_msg("%s was not refused", bad[i].spec);
        assert_error_has(bad[i].says);
    }
}

/* A head that gives a vector gets a layer of scores: 256 values and a bias each. */
static void vectors_get_scores(void **state)
{
    (void)state;
    expect("bert-mini:head=pooler,classes=4", 11170560 + 4 * 257, 4);
    expect("bert-mini:head=mean,classes=4", 11170560 - 256 * 257 + 4 * 257, 4);
}

static void memory_runs_out_cleanly(void **state)
{
    shoal_model *model = NULL;
    shoal_status status = SHOAL_ENOMEM;
    (void)state;
    for (size_t k = 1; status == SHOAL_ENOMEM; k++) {
        (void)shoali_alloc_fail_at(k);
        status = shoal_model_open("resnet-8:side=48,classes=7", &model);
    }
    (void)shoali_alloc_fail_at(0);
    assert_ok(status);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(parameters_by_arithmetic),  CHECK_TEST(means_over_the_image_stay_so),
        CHECK_TEST(what_cannot_be_is_refused), CHECK_TEST(vectors_get_scores),
        CHECK_TEST(memory_runs_out_cleanly),
    };
    return CHECK_RUN(tests);
}
