/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter counts against those that are published with the weights. */
#include "base/read_file.h"
#include "model/model_text.h"
#include "support/check.h"

#define SIZES                                                                     \
    "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, " \
    "\"intermediate_size\": 128, \"vocab_size\": 100, \"max_position_embeddings\": 32, "
#define LLAMA SHOAL_SOURCE_DIR "/tests/fuzz/corpus/model/hf_llama31_8b"
#define BASE "{\"model_type\": \"llama\", " SIZES
#define MIXTURE                                                                                 \
    "{\"model_type\": \"qwen3_moe\", " SIZES "\"num_experts\": 4, \"num_experts_per_tok\": 2, " \
    "\"moe_intermediate_size\": 32, "

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
    if (strchr(name, ':') != NULL) {
        assert_ok(shoal_model_open(path, &model));
    } else {
        assert_ok(shoali_read_file(path, 1 << 20, &bytes, &len));
        assert_ok(build(bytes, &model));
        shoali_free(bytes);
    }
    uint64_t params = model->param_count;
    shoal_model_close(model);
    return params;
}

/* Totals of the safetensors files as Hugging Face's hub shows them for these models, and what the
 * papers call them. DeepSeek-V3: 671 B, table of its README ("main model weights"). */
static void published_counts(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t params;
    } known[] = {
        {"hf_llama", UINT64_C(6738415616)},             /* meta-llama/Llama-2-7b-hf */
        {"hf_llama31_8b", UINT64_C(8030261248)},        /* meta-llama/Llama-3.1-8B */
        {"hf_mixtral", UINT64_C(46702792704)},          /* mistralai/Mixtral-8x7B-v0.1 */
        {"hf_gpt2", UINT64_C(124439808)},               /* openai-community/gpt2 */
        {"hf_gemma_2b", UINT64_C(2506172416)},          /* google/gemma-2b */
        {"hf_gemma2_2b", UINT64_C(2614341888)},         /* google/gemma-2-2b */
        {"hf_gemma3_1b", UINT64_C(999885952)},          /* google/gemma-3-1b-pt */
        {"hf_phi2", UINT64_C(2779683840)},              /* microsoft/phi-2 */
        {"hf_phi3_mini", UINT64_C(3821079552)},         /* microsoft/Phi-3-mini-4k-instruct */
        {"hf_qwen25_7b", UINT64_C(7615616512)},         /* Qwen/Qwen2.5-7B */
        {"hf_qwen3_8b", UINT64_C(8190735360)},          /* Qwen/Qwen3-8B */
        {"hf_qwen3_30b_a3b", UINT64_C(30532122624)},    /* Qwen/Qwen3-30B-A3B */
        {"hf_bert_base", UINT64_C(109482240)},          /* google-bert/bert-base-uncased, its net */
        {"hf_minilm_l6", UINT64_C(22713216)},           /* sentence-transformers/all-MiniLM-L6-v2 */
        {"hf_deepseek_v2_lite", UINT64_C(15706484224)}, /* deepseek-ai/DeepSeek-V2-Lite */
        {"hf_deepseek_v3", UINT64_C(671026419200)},     /* deepseek-ai/DeepSeek-V3 */
        /* meta-llama/Llama-4-*: 109 and 400 B of its model cards have the encoder of pictures, too,
           0.87 B (34 blocks of 1408, and what joins it); these are without, from the shapes */
        {"hf_llama4_scout:length=4096", UINT64_C(107769861120)},
        {"hf_llama4_maverick:length=4096", UINT64_C(400711848960)},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t got = params_of(known[i].file);
        if (got != known[i].params)
            fail_msg("%s: %llu parameters, published are %llu", known[i].file,
                     (unsigned long long)got, (unsigned long long)known[i].params);
    }
}

/* What a token meets: DeepSeek-V3 37 B (its abstract, with the table that the scores use), Qwen3
 * 3.3 B; twice that is its arithmetic, beside the scores of attention. */
static void active_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        double met;
    } known[] = {{"hf_deepseek_v3", 37e9},
                 {"hf_qwen3_30b_a3b", 3.3e9},
                 {"hf_mixtral", 12.9e9},
                 {"hf_llama4_scout", 17e9},
                 {"hf_llama4_maverick", 17e9}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char spec[300];
        shoal_model *model = NULL;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        snprintf(spec, sizeof spec, "%s/tests/fuzz/corpus/model/%s:length=1", SHOAL_SOURCE_DIR,
                 known[i].file);
        assert_ok(shoal_model_open(spec, &model));
        assert_ok(shoal_model_describe(model, &info));
        double table = (double)model->layers[0].param_count; /* looked up, not multiplied */
        double got = info.forward_flops / 2 + table;
        assert_true(got > 0.98 * known[i].met && got < 1.03 * known[i].met);
        shoal_model_close(model);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    shoal_model *model = NULL;
    static const struct {
        const char *json, *error;
    } bad[] = {
        {"{\"model_type\": \"mamba\"}", "mamba"},
        {"{\"model_type\": 7}", "\"model_type\" is an integer"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 8}", "num_hidden_layers|n_layer"},
        {"{\"model_type\": \"llama\", \"hidden_size\": 99999999}", "99999999"},
        {BASE "\"mlp_bias\": true}", "\"mlp_bias\" is true"},
        {MIXTURE "\"mlp_only_layers\": [2]}",
         "\"mlp_only_layers\" must be numbers of blocks, 0 .. 1"},
        {MIXTURE "\"moe_layers\": [\"0\"]}", "\"moe_layers\" must be"},
        {MIXTURE "\"moe_layers\": [-1]}", "\"moe_layers\" must be"},
        {MIXTURE "\"decoder_sparse_step\": 0}", "\"decoder_sparse_step\""},
        {"{\"model_type\": \"llama4\", \"text_config\": {}}", "\"text_config\" as a file"},
        {"{\"model_type\": \"deepseek_v3\", " SIZES "\"q_lora_rank\": null}", "kv_lora_rank"},
        {"{\"model_type\": \"deepseek_v2\", " SIZES "\"attention_bias\": true}",
         "latent attention has no biases"}};
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
    /* what a model bears is not what is trained on */
    assert_status(shoal_model_open(LLAMA, &model), SHOAL_EINVAL);
    assert_error_has("bears 131072 tokens");
    assert_error_has("hf_llama31_8b:length=4096");
    assert_ok(shoal_model_open(LLAMA ":length=8192", &model));
    assert_int_equal(model->input.height, 8192);
    shoal_model_close(model);
}

/* GPT-2's three words, BERT's two, llama's one; a rate that is none is refused. */
static void dropout_reaches_the_blocks(void **state)
{
    static const struct {
        const char *json, *embedding, *block;
    } cases[] = {
        {"{\"model_type\": \"gpt2\", " SIZES
         "\"embd_pdrop\": 0.1, \"resid_pdrop\": 0.2, \"attn_pdrop\": 0.3}",
         "drop=0.1", "drop=0.2,attdrop=0.3"},
        {"{\"model_type\": \"bert\", " SIZES
         "\"hidden_dropout_prob\": 0.1, \"attention_probs_dropout_prob\": 0.3}",
         "drop=0.1", "drop=0.1,attdrop=0.3"},
        {BASE "\"attention_dropout\": 0.3}", NULL, "attdrop=0.3"},
        {BASE "\"attention_dropout\": 0.0}", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *model = NULL;
        assert_ok(build(cases[i].json, &model));
        const char *first = model->layers[0].spec, *second = model->layers[1].spec;
        assert_true(cases[i].embedding != NULL ? strstr(first, cases[i].embedding) != NULL
                                               : strstr(first, "drop=") == NULL);
        assert_true(cases[i].block != NULL ? strstr(second, cases[i].block) != NULL
                                           : strstr(second, "drop=") == NULL);
        shoal_model_close(model);
    }
    shoal_model *model = NULL;
    assert_true(build("{\"model_type\": \"gpt2\", " SIZES "\"attn_pdrop\": 1.5}", &model) !=
                SHOAL_OK);
    assert_error_has("attdrop");
}

/* 2 x 64 more for the biases of queries, keys, values and outputs of each block. */
static void biases_as_the_file_says(void **state)
{
    (void)state;
    shoal_model *plain = NULL, *biased = NULL;
    assert_ok(build(BASE "\"attention_bias\": false}", &plain));
    assert_ok(build(BASE "\"attention_bias\": true}", &biased));
    assert_true(biased->param_count == plain->param_count + 2 * 4 * 64);
    shoal_model_close(plain);
    shoal_model_close(biased);
}

/* Which of the two blocks are mixtures, in every way that files say it: 4 experts of 3 x 64 x 32
 * and a router of 4 x 64, or 3 x 64 x 128. */
static void which_blocks_are_mixtures(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int mixtures;
    } known[] = {{MIXTURE "\"decoder_sparse_step\": 1}", 2},
                 {MIXTURE "\"decoder_sparse_step\": 2}", 1},
                 {MIXTURE "\"decoder_sparse_step\": 3}", 0},
                 {MIXTURE "\"moe_layer_freq\": 2}", 1},
                 {MIXTURE "\"moe_layer_freq\": 2, \"first_k_dense_replace\": 1}", 0},
                 {MIXTURE "\"mlp_only_layers\": [0]}", 1},
                 {MIXTURE "\"mlp_only_layers\": [1], \"decoder_sparse_step\": 2}", 0},
                 {MIXTURE "\"moe_layers\": [1, 0]}", 2},
                 {MIXTURE "\"moe_layers\": [0], \"interleave_moe_layer_step\": 2}", 1}};
    uint64_t both = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        shoal_model *model = NULL;
        assert_ok(build(known[i].json, &model));
        both = i == 0 ? model->param_count : both;
        const uint64_t less = 4 * 3 * 64 * 32 + 4 * 64 - 3 * 64 * 128;
        assert_true(model->param_count == both - (uint64_t)(2 - known[i].mixtures) * less);
        shoal_model_close(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(published_counts),           CHECK_TEST(active_parameters),
        CHECK_TEST(which_blocks_are_mixtures),  CHECK_TEST(biases_as_the_file_says),
        CHECK_TEST(dropout_reaches_the_blocks), CHECK_TEST(what_is_refused),
        CHECK_TEST(the_length_of_a_sample)};
    return CHECK_RUN(tests);
}
