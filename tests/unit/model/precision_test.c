/* SPDX-License-Identifier: Apache-2.0 */
/* Key precision: which layers take it, and which models have none. */
#include "model/precision.h"
#include "support/check.h"

static void products_get_it_and_nothing_else(void **state)
{
    static const char *const layers[] = {
        "conv:out=4,kernel=3", "batchnorm",         "relu",        "flatten",        "dense:out=8",
        "add:back=1",          "attention:heads=2", "swiglu:ff=4", "framewise:out=3"};
    static const char *const want[] = {"conv:out=4,precision=bf16",
                                       "batchnorm",
                                       "relu",
                                       "flatten",
                                       "dense:out=8,precision=bf16",
                                       "add:back=1",
                                       "attention:heads=2,precision=bf16",
                                       "swiglu:ff=4,precision=bf16",
                                       "framewise:out=3,precision=bf16"};
    enum { LAYERS = sizeof layers / sizeof *layers };
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text = {.name = "m", .layers = layers, .layer_count = LAYERS};
    (void)state;
    assert_ok(shoali_model_round("m", true, arena, &text));
    for (size_t i = 0; i < LAYERS; i++)
        assert_string_equal(text.layers[i], want[i]);
    assert_ok(shoali_model_round("m", false, arena, &text));
    for (size_t i = 0; i < LAYERS; i++)
        assert_null(strstr(text.layers[i], "precision"));
    shoali_arena_destroy(arena);
}

static void models_keep_it(void **state)
{
    static const char *const specs[] = {"lenet:precision=bf16", "resnet-18:precision=bf16",
                                        "gpt-nano:precision=bf16", "llama-nano:precision=bf16",
                                        "bert-mini:precision=bf16"};
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        shoal_model *model = NULL;
        uint32_t rounded = 0;
        assert_ok(shoal_model_open(specs[i], &model));
        for (uint32_t k = 0; k < model->layer_count; k++)
            rounded += strstr(model->layers[k].spec, "precision=bf16") != NULL;
        assert_true(rounded >= 4);
        shoal_model_close(model);
    }
}

static void who_has_other_products_is_refused_by_name(void **state)
{
    static const struct {
        const char *spec, *names;
    } cases[] = {{"lstm-asr:precision=bf16", "lstm"},
                 {"gru-asr:precision=bf16", "gru"},
                 {"mlp:circulant=8,precision=bf16", "circulant:block=8"},
                 {"gpt-3:precision=bf16", "embedding"},
                 {"dlrm:precision=bf16", "dots"},
                 {"svm:precision=bf16", "sparse"},
                 {"mlp:precision=fp8", "float32"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *model = NULL;
        assert_int_not_equal(shoal_model_open(cases[i].spec, &model), SHOAL_OK);
        assert_error_has(cases[i].names);
    }
    shoal_model *model = NULL;
    assert_ok(shoal_model_open("lstm-asr:precision=float32", &model));
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_get_it_and_nothing_else),
        cmocka_unit_test(models_keep_it),
        cmocka_unit_test(who_has_other_products_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
