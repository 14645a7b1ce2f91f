/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a net's memory, beside what a net takes. */
#include "support/check.h"

#include "nn/nn.h"

enum { BATCH = 5 };

/* Chains, branches, sequences, embeddings; with work that oneDNN alone knows the size of. */
static const char *const models[] = {"mlp",       "lenet",          "vgg-mini", "resnet-8",
                                     "resnet-18", "llama-nano",     "gpt-nano", "lstm-asr",
                                     "dlrm",      "mlp:circulant=8"};

static void a_net_takes_what_was_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        shoal_model *model = NULL;
        shoali_net *net = NULL;
        shoal_model_memory m = SHOAL_MODEL_MEMORY_INIT;
        assert_ok(shoal_model_open(models[i], &model));
        assert_ok(shoal_model_memory_of(model, BATCH, "sgd", &m));
        assert_int_equal(m.samples, shoali_net_samples(model, BATCH));
        assert_ok(shoali_net_create(model, m.samples, 1, &net));
        const double said = (double)(m.total - m.input - m.optimizer),
                     taken = (double)shoali_net_bytes(net);
        if (said > taken || taken > 1.02 * said + 65536) /* tables, and the loss's own buffers */
            fail_msg("%s: %.0f bytes said, %.0f taken", models[i], said, taken);
        shoali_net_destroy(net);
        shoal_model_close(model);
    }
}

static void optimisers_count_by_what_they_keep(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint64_t arrays;
    } cases[] = {{"sgd:momentum=0", 0}, {NULL, 1}, {"sgd:momentum=0.9,ema=0.9", 2}, {"adamw", 2}};
    shoal_model *model = NULL;
    assert_ok(shoal_model_open("lenet", &model));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shoal_model_memory m = SHOAL_MODEL_MEMORY_INIT;
        assert_ok(shoal_model_memory_of(model, 64, cases[i].spec, &m));
        assert_int_equal(m.optimizer, cases[i].arrays * UINT64_C(431080) * 4);
    }
    shoal_model_close(model);
}

static void the_test_takes_no_more_than_its_bound(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t batch, samples;
    } cases[] = {
        {"lenet", 64, 221}, {"lenet", 300, 300}, {"resnet-18", 16, 16}, {"gpt-nano", 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shoal_model *model = NULL;
        assert_ok(shoal_model_open(cases[i].model, &model));
        assert_int_equal(shoali_net_samples(model, cases[i].batch), cases[i].samples);
        shoal_model_close(model);
    }
}

static void what_cannot_train_is_refused(void **state)
{
    (void)state;
    shoal_model *model = NULL;
    shoal_model_memory m = SHOAL_MODEL_MEMORY_INIT;
    assert_ok(shoal_model_open("gpt-3", &model));
    assert_int_equal(shoal_model_memory_of(model, 1, NULL, &m), SHOAL_ENOTSUP);
    shoal_model_close(model);
    assert_ok(shoal_model_open("lenet", &model));
    assert_int_equal(shoal_model_memory_of(model, 0, NULL, &m), SHOAL_EINVAL);
    assert_int_equal(shoal_model_memory_of(model, (1u << 20) + 1, NULL, &m), SHOAL_EINVAL);
    assert_int_equal(shoal_model_memory_of(model, 1, "sgdd", &m), SHOAL_EINVAL);
    assert_int_equal(shoal_model_memory_of(NULL, 1, NULL, &m), SHOAL_EINVAL);
    m.size = 1;
    assert_int_equal(shoal_model_memory_of(model, 1, NULL, &m), SHOAL_EINVAL);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_net_takes_what_was_said),
        cmocka_unit_test(optimisers_count_by_what_they_keep),
        cmocka_unit_test(the_test_takes_no_more_than_its_bound),
        cmocka_unit_test(what_cannot_train_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
