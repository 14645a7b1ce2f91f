/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model_text.h"

#include <math.h>
#include <unistd.h>

#include "support/check.h"

/* Parameters, multiply-adds of one forward pass: computed by hand from the layers' sizes. */
static const struct {
    const char *name;
    uint64_t params;
    double forward_macs;
} zoo[] = {
    {"hdc", 784 * 500 + 500 + 3 * (500 * 500 + 500) + 500 * 10 + 10,
     784 * 500 + 3 * 500 * 500 + 5000},
    {"lenet", 20 * 25 + 20 + 50 * 500 + 50 + 800 * 500 + 500 + 5000 + 10,
     500.0 * 576 + 25000.0 * 64 + 800 * 500 + 5000},
    {"lenet-c", 20 * 25 + 20 + 50 * 500 + 50 + 800 * 500 + 500 + 5000 + 10,
     500.0 * 576 + 25000.0 * 64 + 800 * 500 + 5000},
    {"mlp", 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 10240 + 10, 784 * 1024 + 1024 * 1024 + 10240},
    {"mlp-small", 784 * 256 + 256 + 256 * 128 + 128 + 1280 + 10, 784 * 256 + 256 * 128 + 1280},
    {"cnn", 582026, 800.0 * 576 + 51200.0 * 64 + 1024 * 512 + 5120},
    {"cifarnet", 64 * 75 + 64 + 64 * 1600 + 64 + 2304 * 384 + 384 + 384 * 192 + 192 + 1920 + 10,
     4800.0 * 576 + 102400.0 * 144 + 2304 * 384 + 384 * 192 + 1920},
    {"vgg-mini",
     9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 256 * 256) + 2 * (64 + 128 + 256) +
         40970,
     9.0 * ((3 * 64 + 64 * 64) * 1024.0 + (64 * 128 + 128 * 128) * 256.0 +
            (128 * 256 + 256 * 256) * 64.0) +
         40960},
    {"alexnet-mini",
     9 * (3 * 64 + 64 * 128 + 128 * 256) + 448 + 4096 * 2048 + 2048 + 2048 * 2048 + 2048 + 20480 +
         10,
     9.0 * (3 * 64 * 1024.0 + 64 * 128 * 256.0 + 128 * 256 * 64.0) + 4096 * 2048 + 2048 * 2048 +
         20480},
};

/* MLPerf's NCF for MovieLens-20M has 31832577 parameters with one score; ours has two. */
static void recommenders_have_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t params;
    } sizes[] = {{"ncf", 31832577 + 129},
                 {"dlrm", 262144 * 16 + 341 * 512 + 512 + 512 * 256 + 256 + 514}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        shoal_model *model;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        assert_ok(shoal_model_open(sizes[i].name, &model));
        assert_ok(shoal_model_describe(model, &info));
        assert_int_equal(info.param_count, sizes[i].params);
        assert_false(info.described);
        shoal_model_close(model);
    }
}

static void zoo_has_the_sizes_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof zoo / sizeof zoo[0]; i++) {
        shoal_model *model;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        double macs = 0;
        assert_ok(shoal_model_open(zoo[i].name, &model));
        assert_ok(shoal_model_describe(model, &info));
        assert_int_equal(info.param_count, zoo[i].params);
        assert_int_equal(info.classes, 10);
        assert_false(info.described);
        for (uint32_t l = 0; l < info.layer_count; l++) {
            shoal_layer_info layer = SHOAL_LAYER_INFO_INIT;
            assert_ok(shoal_model_layer(model, l, &layer));
            macs += layer.param_count > 0 ? layer.forward_flops / 2 : 0;
        }
        if (!(fabs(macs - zoo[i].forward_macs) < 0.5))
            fail_msg("%s: %.0f multiply-adds, by hand %.0f", zoo[i].name, macs,
                     zoo[i].forward_macs);
        shoal_model_close(model);
    }
}

static void tensors_lie_without_gaps_under_unique_keys(void **state)
{
    (void)state;
    for (size_t i = 0; shoal_model_zoo_name(i) != NULL; i++) {
        shoal_model *model;
        shoal_model_info info = SHOAL_MODEL_INFO_INIT;
        uint32_t count;
        size_t next = 0;
        assert_ok(shoal_model_open(shoal_model_zoo_name(i), &model));
        assert_ok(shoal_model_describe(model, &info));
        const shoal_tensor *tensors = shoal_model_tensors(model, &count);
        uint32_t last = info.layer_count - 1;
        while (model->layers[last].param_count == 0)
            last--;
        for (uint32_t t = 0; t < count; t++) {
            assert_int_equal(tensors[t].offset, next);
            next += tensors[t].count;
            if (tensors[t].rows > 0)
                assert_int_equal((uint64_t)tensors[t].rows * tensors[t].cols, tensors[t].count);
            bool vector = (tensors[t].flags & (SHOAL_TENSOR_BIAS | SHOAL_TENSOR_NORM)) != 0;
            assert_int_equal(vector, tensors[t].rows == 0);
            assert_int_equal((tensors[t].flags & SHOAL_TENSOR_LAST) != 0,
                             t >= model->layers[last].tensor_first);
            for (uint32_t o = 0; o < t; o++)
                assert_true(tensors[o].key != tensors[t].key);
        }
        if (count > 0) /* language models count parameters without tensors */
            assert_int_equal(next, info.param_count);
        assert_int_equal(count, info.tensor_count);
        shoal_model_close(model);
    }
}

/* Keys are in checkpoints and on wires: this one must never change. */
static void keys_are_stable(void **state)
{
    shoal_model *model;
    uint32_t count;
    (void)state;
    assert_ok(shoal_model_open("lenet", &model));
    assert_string_equal(shoal_model_tensor_name(model, 2), "conv2.weight");
    assert_null(shoal_model_tensor_name(model, 8));
    assert_true(shoal_model_tensors(model, &count)[2].key == UINT64_C(0x2286CCB27A3595CF));
    assert_int_equal(count, 8);
    shoal_model_close(model);
}

static void a_saved_model_is_the_same_model(void **state)
{
    char path[] = "/tmp/shoal-model-XXXXXX";
    char file[64], spec[96];
    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/m.json", path);
    for (size_t i = 0; shoal_model_zoo_name(i) != NULL; i++) {
        shoal_model *model, *again;
        snprintf(spec, sizeof spec, "%s:init=xavier,act=tanh", shoal_model_zoo_name(i));
        assert_ok(shoal_model_open(spec, &model));
        assert_ok(shoal_model_save(model, file));
        assert_ok(shoal_model_open(file, &again));
        assert_string_equal(model->name, again->name);
        assert_int_equal(again->init, SHOALI_INIT_XAVIER);
        assert_int_equal(model->layer_count, again->layer_count);
        for (uint32_t l = 0; l < model->layer_count; l++) {
            assert_string_equal(model->layers[l].spec, again->layers[l].spec);
            assert_string_not_equal(model->layers[l].spec, "relu");
        }
        assert_memory_equal(model->tensors, again->tensors,
                            model->tensor_count * sizeof *model->tensors);
        shoal_model_close(model);
        shoal_model_close(again);
    }
    unlink(file);
    assert_status(shoal_model_open(file, (shoal_model *[1]){NULL}), SHOAL_EIO);
    rmdir(path);
}

static void wrong_specs_say_what_is_known(void **state)
{
    static const struct {
        const char *spec, *says;
    } wrong[] = {{"lenett", "lenet"},           {"", "known"},
                 {"lenet:init=zero", "xavier"}, {"lenet:colour=red", "act"},
                 {"./nothing.json", "nothing"}, {"nothing.json", "nothing.json"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        shoal_model *model = NULL;
        assert_true(shoal_model_open(wrong[i].spec, &model) != SHOAL_OK);
        assert_null(model);
        assert_error_has(wrong[i].says);
    }
}

/* ---------------------------------------------------------------- hostile files */

static shoal_status parse(const char *json)
{
    shoali_model_text text;
    shoal_model *model;
    shoal_arena *arena = shoali_arena_create(1024);
    shoal_status status = shoali_model_parse_json("t.json", json, strlen(json), arena, &text);
    if (status == SHOAL_OK)
        status = shoali_model_build("t.json", &text, false, &model);
    if (status == SHOAL_OK)
        shoal_model_close(model);
    shoali_arena_destroy(arena);
    return status;
}

static void bad_files_get_a_reason(void **state)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"", "t.json"},
        {"[]", "object"},
        {"{\"input\":[4],\"layers\":[\"dense\"],\"layer\":1}", "unknown key \"layer\""},
        {"{\"layers\":[\"dense\"]}", "input"},
        {"{\"input\":[4,4],\"layers\":[\"dense\"]}", "input"},
        {"{\"input\":[0],\"layers\":[\"dense\"]}", "input"},
        {"{\"input\":[4.5],\"layers\":[\"dense\"]}", "input"},
        {"{\"input\":[99999999999],\"layers\":[\"dense\"]}", "input"},
        {"{\"input\":[65536,65536,65536],\"layers\":[\"dense\"]}", "input"},
        {"{\"name\":\"a b\",\"input\":[4],\"layers\":[\"dense\"]}", "name"},
        {"{\"name\":\"\",\"input\":[4],\"layers\":[\"dense\"]}", "name"},
        {"{\"name\":7,\"input\":[4],\"layers\":[\"dense\"]}", "name"},
        {"{\"init\":\"lecun\",\"input\":[4],\"layers\":[\"dense\"]}", "xavier"},
        {"{\"input\":[4]}", "layers"},
        {"{\"input\":[4],\"layers\":[]}", "layers"},
        {"{\"input\":[4],\"layers\":[5]}", "\"layers\"[0]"},
        {"{\"input\":[4],\"layers\":[\"dens\"]}", "Did you mean 'dense'?"},
        {"{\"input\":[4],\"layers\":[\"dense\",\"conv:out=2,kernel=3\"]}",
         "layer 2 'conv:out=2,kernel=3'"},
        {"{\"input\":[1,4,4],\"layers\":[\"conv:out=2,kernel=3,pad=3\"]}", "pad"},
        {"{\"input\":[1,4,4],\"layers\":[\"conv:out=2,kernel=3,stride=0\"]}", "stride"},
        {"{\"input\":[1,2,2],\"layers\":[\"maxpool:kernel=3\"]}", "window of 3"},
        {"{\"input\":[65536,1,1],\"layers\":[\"dense:out=16777216\"]}", "parameters exceed"},
        {"{\"input\":[1,65536,1024],\"layers\":[\"conv:out=65536,kernel=1\"]}", "too large"},
        {"{\"input\":[4],\"layers\":[\"dropout:rate=1\"]}", "rate"},
        {"{\"input\":[4],\"layers\":[\"add:back=2\"]}", "beyond the model's input"},
        {"{\"input\":[4],\"layers\":[\"dense\",\"add:back=2\"]}", "cannot add 4"},
        {"{\"input\":[4],\"layers\":[\"concat:back=1/x\"]}", "back=1/x"},
        {"{\"input\":[4],\"layers\":[\"concat:back=99999999999999999999\"]}", "back="},
        {"{\"input\":[1,4,4],\"layers\":[\"maxpool\",\"concat:back=2\"]}", "beside"},
        {"{\"input\":[3,8,8],\"layers\":[\"conv:out=4,kernel=3,groups=2\"]}", "2 groups"},
        {"{\"input\":[1,8,8],\"layers\":[\"embedding\"]}", "no sequence"},
        {"{\"input\":[2,8,1],\"layers\":[\"embedding\"]}", "2 channels"},
        {"{\"input\":[1,8,1],\"layers\":[\"embedding:positions=7\"]}", "7 positions"},
        {"{\"input\":[10,8,1],\"layers\":[\"transformer:heads=3\"]}", "3 heads"},
        {"{\"input\":[12,8,1],\"layers\":[\"transformer:heads=3,kv=2\"]}", "key-value"},
        {"{\"input\":[12,8,1],\"layers\":[\"transformer:heads=3,active=1\"]}", "experts"},
        {"{\"input\":[1048576,8,1],\"layers\":[\"transformer:heads=65536,dim=65536,"
         "ff=16777216,experts=65536\"]}",
         "description may have"},
        {"{\"input\":[1,1048576,1],\"layers\":[\"embedding:width=1048576\",\"dense\"]}",
         "too large"},
        {"{\"input\":[1,1048576,1],\"layers\":[\"embedding:width=1048576\",\"flatten\"]}",
         "too many"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        shoal_status status = parse(bad[i].json);
        if (status != SHOAL_ECORRUPT && status != SHOAL_EINVAL)
            fail_msg("%s gave %s", bad[i].json, shoal_status_name(status));
        assert_error_has(bad[i].says);
        assert_error_has("t.json");
    }
    assert_ok(parse("{\"input\":[4],\"layers\":[\"dense\"]}"));
}

static void too_many_layers_are_refused(void **state)
{
    enum { MANY = SHOALI_MODEL_LAYERS_MAX + 1 };
    static char json[MANY * 8 + 64];
    size_t len = (size_t)sprintf(json, "{\"input\":[4],\"layers\":[\"tanh\"");
    (void)state;
    for (int i = 1; i < MANY; i++)
        len += (size_t)sprintf(json + len, ",\"tanh\"");
    sprintf(json + len, "]}");
    assert_status(parse(json), SHOAL_ECORRUPT);
    assert_error_has("1024");
}

static void memory_runs_out_cleanly(void **state)
{
    shoal_model *model = NULL;
    shoal_status status = SHOAL_ENOMEM;
    (void)state;
    for (size_t k = 1; status == SHOAL_ENOMEM; k++) {
        (void)shoali_alloc_fail_at(k);
        status = shoal_model_open("googlenet", &model);
    }
    (void)shoali_alloc_fail_at(0);
    assert_ok(status);
    shoal_model_close(model);
}

static void expect_params(const char *spec, uint64_t want)
{
    shoal_model *model = NULL;
    shoal_model_info info = SHOAL_MODEL_INFO_INIT;
    assert_ok(shoal_model_open(spec, &model));
    assert_ok(shoal_model_describe(model, &info));
    assert_int_equal(info.param_count, want);
    shoal_model_close(model);
}

/* The counts of specs/block-circulant.md, 6.4; the last layer stays dense. */
static void circulant_layers_replace_hidden_ones(void **state)
{
    (void)state;
    shoal_model *model = NULL;
    expect_params("mlp", 1863690);
    expect_params("mlp:circulant=4", 475146);
    expect_params("mlp:circulant=8", 243722);
    expect_params("mlp:circulant=16", 128010);
    expect_params("cnn", 582026);
    expect_params("cnn:circulant=8,circulant_conv=4", 84874);
    expect_params("cnn:circulant=16,circulant_conv=8", 45706);
    assert_status(shoal_model_open("cnn:circulant_conv=64", &model), SHOAL_EINVAL);
    assert_error_has("smaller block");
    assert_status(shoal_model_open("alexnet:circulant_conv=0,circulant=2000", &model),
                  SHOAL_EINVAL);
    assert_status(shoal_model_open("sconv:circulant=8", &model), SHOAL_EINVAL);
    assert_error_has("no hidden dense layer");
}

/* Blocks of a matrix times their side. Framewise layers follow circulant_y only. */
static void circulant_cells_replace_whole_ones(void **state)
{
    const uint64_t bias = 4 * 256, peephole = 3 * 256, scores = 256 * 40 + 40;
    const uint64_t x8 = 128 * 5 * 8, r8 = 128 * 32 * 8, x4 = 256 * 10 * 4, r16 = 64 * 16 * 16;
    (void)state;
    expect_params("lstm-asr:circulant=8", 2 * (x8 + r8 + bias + peephole) + scores);
    expect_params("lstm-asr:circulant=16,circulant_x=4", 2 * (x4 + r16 + bias + peephole) + scores);
    expect_params("lstm-asr:circulant_r=16,circulant_y=8",
                  2 * (1024 * 39 + r16 + bias + peephole) + 5 * 32 * 8 + 40);
    expect_params("gru-asr:circulant=8", 2 * (96 * 5 * 8 + 96 * 32 * 8 + 3 * 256) + scores);
    expect_params("lstm-asr-3:circulant=8",
                  39 * 512 + 512 + 2 * (128 * 64 * 8 + 5 * r8 + 3 * (bias + peephole)) + scores);
    expect_params("gru-asr-3", 39 * 512 + 512 + 2 * 768 * (512 + 5 * 256 + 3) + scores);
    expect_params("lstm-google:circulant=8,circulant_y=16",
                  512 * 20 * 8 + 512 * 64 * 8 + 32 * 64 * 16 + 7 * 1024 + /* the first */
                      512 * 64 * 8 + 512 * 64 * 8 + 32 * 64 * 16 + 7 * 1024 + 4 * 32 * 16 + 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(zoo_has_the_sizes_of_the_table),
        CHECK_TEST(recommenders_have_published_sizes),
        CHECK_TEST(tensors_lie_without_gaps_under_unique_keys),
        CHECK_TEST(keys_are_stable),
        CHECK_TEST(a_saved_model_is_the_same_model),
        CHECK_TEST(wrong_specs_say_what_is_known),
        CHECK_TEST(bad_files_get_a_reason),
        CHECK_TEST(too_many_layers_are_refused),
        CHECK_TEST(memory_runs_out_cleanly),
        CHECK_TEST(circulant_layers_replace_hidden_ones),
        CHECK_TEST(circulant_cells_replace_whole_ones),
    };
    return CHECK_RUN(tests);
}
