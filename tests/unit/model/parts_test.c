/* SPDX-License-Identifier: Apache-2.0 */
/* Described blocks as layers that train: as many parameters, and refusals by name. */
#include "model/model_text.h"
#include "support/check.h"

#define GPT "transformer:heads=4,ff=24"
#define BLOCK "transformer:heads=4,kv=2,ff=24,gated,bias=off"

static shoal_status take_apart(const char *const *layers, uint32_t count, int64_t vocab,
                               shoal_model **described, shoal_model **parts)
{
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text = {
        .name = "m", .input = {1, 9, 1}, .layers = layers, .layer_count = count};
    assert_non_null(arena);
    shoal_status status = vocab > 0 ? shoali_model_vocab("m", vocab, arena, &text) : SHOAL_OK;
    if (status == SHOAL_OK)
        assert_ok(shoali_model_build("m", &text, false, described));
    if (status == SHOAL_OK)
        status = shoali_model_parts("m", arena, &text);
    if (status == SHOAL_OK)
        assert_ok(shoali_model_build("m", &text, false, parts));
    else if (vocab == 0)
        shoal_model_close(*described);
    shoali_arena_destroy(arena);
    return status;
}

static void counts_stay(void **state)
{
    static const struct {
        const char *layers[4];
        int64_t vocab;
        uint32_t count;
    } cases[] = {
        {{"embedding:vocab=50,width=16", BLOCK, BLOCK, "unembedding:vocab=50,norm=1,tied=off"},
         0,
         1 + 2 * 6 + 2},
        {{"embedding:vocab=50,width=16", BLOCK ",dim=6", BLOCK, "unembedding:vocab=50,norm=1"},
         33,
         1 + 2 * 6 + 2},
        {{"embedding:vocab=50,width=16", BLOCK ",theta=500000,eps=1e-6", BLOCK,
          "unembedding:vocab=50,tied=off,bias"},
         0,
         1 + 2 * 6 + 1},
        {{"embedding:vocab=50,width=16,positions=9", GPT, GPT, "unembedding:vocab=50,norm=2"},
         0,
         1 + 2 * 8 + 2},
        {{"embedding:vocab=50,width=16,positions=12", GPT ",dim=6", GPT ",kv=2",
          "unembedding:vocab=50,norm=2,tied=off"},
         33,
         1 + 2 * 8 + 2},
        {{"embedding:vocab=50,width=16,positions=9,types=2,norm", GPT ",encoder", GPT ",encoder",
          "unembedding:vocab=50,transform,norm=2,bias"},
         0,
         2 + 2 * 8 + 5},
        {{"embedding:vocab=50,width=16,positions=9,types=3", GPT ",encoder,eps=1e-6",
          GPT ",encoder,dim=6", "unembedding:vocab=50,norm=2,tied=off,bias"},
         33,
         1 + 2 * 8 + 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *described, *parts;
        assert_ok(take_apart(cases[i].layers, 4, cases[i].vocab, &described, &parts));
        assert_non_null(described->described);
        assert_null(parts->described);
        assert_int_equal(parts->layer_count, cases[i].count);
        assert_int_equal(parts->param_count, described->param_count);
        shoal_model_close(described);
        shoal_model_close(parts);
    }
}

static void keys_reach_their_layers(void **state)
{
    static const char *const layers[] = {"embedding:vocab=50,width=16",
                                         BLOCK ",theta=500000,eps=1e-6,dim=6",
                                         "unembedding:vocab=50,norm=1,eps=0.01"};
    shoal_model *described, *parts;
    (void)state;
    assert_ok(take_apart(layers, 3, 33, &described, &parts));
    assert_string_equal(parts->layers[0].spec, "lookup:vocab=33,frames");
    assert_string_equal(parts->layers[1].spec, "rmsnorm:eps=1e-06");
    assert_string_equal(parts->layers[2].spec, "attention:kv=2,dim=6,theta=500000");
    assert_string_equal(parts->layers[7].spec, "rmsnorm:eps=0.01");
    assert_string_equal(parts->layers[8].spec, "framewise:out=33,bias=off,tied");
    shoal_model_close(described);
    shoal_model_close(parts);
}

static void dropout_stands_in_front_of_sums(void **state)
{
    static const struct {
        const char *layers[3], *specs[9];
    } cases[] = {
        {{"embedding:vocab=50,width=16,positions=9,drop=0.1", GPT ",drop=0.2,attdrop=0.3",
          "unembedding:vocab=50,norm=2"},
         {"dropout:rate=0.1", "layernorm", "attention:rope=off,bias,drop=0.3", "dropout:rate=0.2",
          "add:back=4", "layernorm", "framewise:out=24", "gelu:tanh", "framewise:out=16"}},
        {{"embedding:vocab=50,width=16,positions=9,types=2,norm,drop=0.1", GPT ",encoder,drop=0.2",
          "unembedding:vocab=50,norm=2"},
         {"layernorm", "dropout:rate=0.1", "attention:causal=off,rope=off,bias", "dropout:rate=0.2",
          "add:back=3", "layernorm", "framewise:out=24", "gelu", "framewise:out=16"}},
        {{"embedding:vocab=50,width=16,drop=0.1", BLOCK ",drop=0.2,attdrop=0.3",
          "unembedding:vocab=50,norm=1"},
         {"dropout:rate=0.1", "rmsnorm", "attention:kv=2,drop=0.3", "dropout:rate=0.2",
          "add:back=4", "rmsnorm", "swiglu:ff=24", "dropout:rate=0.2", "add:back=4"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shoal_model *described, *parts;
        assert_ok(take_apart(cases[i].layers, 3, 0, &described, &parts));
        assert_int_equal(parts->param_count, described->param_count);
        for (uint32_t k = 0; k < 9; k++)
            assert_string_equal(parts->layers[k + 1].spec, cases[i].specs[k]);
        assert_string_equal(parts->layers[10].spec, i == 0   ? "dropout:rate=0.2"
                                                    : i == 1 ? "dropout:rate=0.2"
                                                             : "rmsnorm");
        shoal_model_close(described);
        shoal_model_close(parts);
    }
}

static void assert_refused(const char *const layers[2], const char *says)
{
    shoal_model *described, *parts;
    assert_int_equal(take_apart(layers, 2, 0, &described, &parts), SHOAL_ENOTSUP);
    if (strstr(shoal_last_error()->text, says) == NULL)
        fail_msg("%s: said '%s'", layers[1], shoal_last_error()->text);
}

static void what_does_not_run_is_named(void **state)
{
    static const struct {
        const char *layer, *says;
    } cases[] = {
        {"transformer:heads=4,ff=24,bias=off", "gated is off"},
        {"transformer:heads=4,ff=24,gated", "bias is on"},
        {BLOCK ",qkvbias=1", "qkvbias="},
        {BLOCK ",experts=4", "experts="},
        {BLOCK ",headnorm", "headnorm"},
        {BLOCK ",norms=4", "norms="},
        {"transformer:heads=4,ff=24,gated,bias=off,kvrank=4,dim=4", "kvrank="},
        {"unembedding:norm=2", "norm=2"},
        {"branch:back=1", "counts layers"},
    };
    static const struct {
        const char *layer, *says;
    } behind_positions[] = {
        {"transformer:heads=4,ff=24,gated", "gated blocks behind learned positions"},
        {"transformer:heads=4,ff=24,bias=off", "bias is off"},
        {"transformer:heads=4,ff=24,other", "gpt2's (other)"},
        {"unembedding:norm=1", "norm=1"},
        {"unembedding:norm=2,transform", "(transform)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const layers[] = {"embedding:width=1024", cases[i].layer};
        assert_refused(layers, cases[i].says);
    }
    for (size_t i = 0; i < sizeof behind_positions / sizeof *behind_positions; i++) {
        const char *const layers[] = {"embedding:width=16,positions=9", behind_positions[i].layer};
        assert_refused(layers, behind_positions[i].says);
    }
}

static void others_have_no_blocks(void **state)
{
    shoal_model *model = NULL;
    (void)state;
    assert_int_equal(shoal_model_open("lenet:parts", &model), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->text, "no transformer layer"));
    assert_int_equal(shoal_model_open("lenet:vocab=4", &model), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->text, "no embedding"));
    assert_int_equal(shoal_model_open("gpt-3:parts", &model), SHOAL_EINVAL);
    assert_non_null(strstr(shoal_last_error()->text, "parameters exceed"));
    assert_ok(shoal_model_open("llama-nano:vocab=100,length=16", &model));
    assert_int_equal(model->param_count, 791936 - 2 * 128 * 157);
    assert_null(model->described);
    shoal_model_close(model);
}

/* gpt2, BERT base and BERT mini as published (bert-base-uncased and bert_uncased_L-4_H-256_A-4 as
 * BertModel, the first as BertForMaskedLM, too), and the smaller GPTs by hand. */
static void gpts_and_berts_have_their_parameters(void **state)
{
    static const struct {
        const char *name;
        uint64_t params;
    } all[] = {{"gpt2", 124439808},
               {"gpt-nano", 257 * 128 + 128 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128},
               {"gpt-mini", 257 * 384 + 256 * 384 + 6 * (12 * 384 * 384 + 13 * 384) + 2 * 384},
               {"gpt2:length=64", 124439808},
               {"bert-base:head=pooler", 109482240},
               {"bert-base:length=128", 109514298},
               {"bert-base:head=mean", 109482240 - 768 * 769},
               {"bert-mini:head=pooler", 11170560},
               {"bert-mini:head=masked", 11170560 + 2 * 256 + 30522}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        shoal_model *model;
        assert_ok(shoal_model_open(all[i].name, &model));
        assert_int_equal(model->param_count, all[i].params);
        assert_null(model->described);
        shoal_model_close(model);
    }
}

static void only_encoders_have_heads(void **state)
{
    static const char *const all[] = {"lenet:head=mean", "gpt-nano:head=masked", "gpt-3:head=mean"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        shoal_model *model = NULL;
        assert_int_equal(shoal_model_open(all[i], &model), SHOAL_EINVAL);
        assert_non_null(strstr(shoal_last_error()->text, "no blocks like BERT's"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_stay),
        CHECK_TEST(dropout_stands_in_front_of_sums),
        cmocka_unit_test(keys_reach_their_layers),
        cmocka_unit_test(what_does_not_run_is_named),
        cmocka_unit_test(others_have_no_blocks),
        cmocka_unit_test(gpts_and_berts_have_their_parameters),
        cmocka_unit_test(only_encoders_have_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
