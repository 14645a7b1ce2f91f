/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter counts against those that are published with the weights. */
#include "base/read_file.h"
#include "model/model.h"
#include "support/check.h"

static shoal_status build(const char *json, shoal_model **model)
{
    shoali_model_text text;
    shoal_arena *arena = shoali_arena_create(4096);
    shoal_status status = shoali_model_parse_json("config.json", json, strlen(json), arena, &text);
    if (status == SHOAL_OK)
        status = shoali_model_build("config.json", &text, false, model);
    shoali_arena_destroy(arena);
    return status;
}

static uint64_t params_of(const char *name)
{
    char path[256], *bytes = NULL;
    size_t len = 0;
    shoal_model *model = NULL;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/model/%s", SHOAL_SOURCE_DIR, name);
    assert_ok(shoali_read_file(path, 1 << 20, &bytes, &len));
    assert_ok(build(bytes, &model));
    shoali_free(bytes);
    uint64_t params = model->param_count;
    shoal_model_close(model);
    return params;
}

static void published_counts(void **state)
{
    (void)state;
    assert_true(params_of("hf_llama") == UINT64_C(6738415616));    /* Llama 2, 7B */
    assert_true(params_of("hf_mixtral") == UINT64_C(46702792704)); /* Mixtral 8x7B */
    assert_true(params_of("hf_gpt2") == UINT64_C(124439808));
}

static void what_is_refused(void **state)
{
    (void)state;
    shoal_model *model = NULL;
    static const struct {
        const char *json, *error;
    } bad[] = {{"{\"model_type\": \"mamba\"}", "mamba"},
               {"{\"model_type\": 7}", "\"model_type\" is an integer"},
               {"{\"model_type\": \"llama\", \"hidden_size\": 8}", "num_hidden_layers|n_layer"},
               {"{\"model_type\": \"llama\", \"hidden_size\": 99999999}", "99999999"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        shoal_status status = build(bad[i].json, &model);
        assert_true(status == SHOAL_ECORRUPT || status == SHOAL_EINVAL);
        assert_error_has(bad[i].error);
    }
}

static void the_length_of_a_sample(void **state)
{
    (void)state;
    shoal_model *model = NULL;
    assert_ok(shoal_model_open("gpt-3:length=512", &model));
    assert_int_equal(model->input.height, 512);
    shoal_model_close(model);
    assert_status(shoal_model_open("lenet:length=512", &model), SHOAL_EINVAL);
    assert_error_has("no sequence");
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(published_counts), CHECK_TEST(what_is_refused),
                                       CHECK_TEST(the_length_of_a_sample)};
    return CHECK_RUN(tests);
}
