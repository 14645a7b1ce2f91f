/* SPDX-License-Identifier: Apache-2.0 */
/* Files in tests/fuzz/corpus/onnx were written by the onnx package (IR versions 8 and 3), those of
 * transformers and activations by PyTorch 1.13 (torch.onnx.export), their weights left out. */
#include "base/read_file.h"
#include "model/import_model.h"
#include "support/check.h"

static shoal_status import(const char *name, shoal_arena *arena, shoali_model_text *text)
{
    char path[256], *bytes = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/onnx/%s", SHOAL_SOURCE_DIR, name);
    assert_ok(shoali_read_file(path, 1 << 20, &bytes, &len));
    shoal_status status = shoali_import_onnx(path, (const uint8_t *)bytes, len, arena, text);
    shoali_free(bytes);
    return status;
}

static void a_chain(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text;
    shoal_model *model = NULL;
    assert_ok(import("lenet", arena, &text));
    assert_ok(shoali_model_build("lenet", &text, false, &model));
    assert_int_equal(model->param_count, 431080);
    assert_int_equal(model->input.height, 28);
    assert_null(model->described); /* it could be trained */
    /* a product and its sum with a vector are one layer; softmax belongs to the loss */
    assert_string_equal(model->layers[model->layer_count - 1].row->name, "dense");
    assert_int_equal(model->layers[model->layer_count - 1].param_count, 5010);
    shoal_model_close(model);
    shoali_arena_destroy(arena);
}

static void branches_and_joins(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text;
    shoal_model *model = NULL;
    assert_ok(import("residual", arena, &text));
    assert_ok(shoali_model_build("residual", &text, false, &model));
    /* 7*7*3*64 + 128 + 64*256 * 2 + 320*1000 + 1000 */
    assert_int_equal(model->param_count, 9408 + 128 + 2 * 16384 + 321000);
    assert_string_equal(text.layers[6], "branch:back=3");
    assert_string_equal(text.layers[8], "add:back=3");
    assert_string_equal(text.layers[11], "concat:back=2");
    assert_int_equal(model->layers[model->layer_count - 1].in.channels, 320);
    shoal_model_close(model);
    shoali_arena_destroy(arena);
}

typedef struct counts {
    uint64_t params;
    double matrices, scores; /* FLOP of one sample */
    uint32_t norms, gelus, silus, sigmoids, products;
} counts;

static counts count(const char *file)
{
    counts c = {0};
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text;
    shoal_model *model = NULL;
    assert_ok(import(file, arena, &text));
    assert_ok(shoali_model_build(file, &text, false, &model));
    bool trains = strcmp(file, "conv_activations") == 0; /* of kinds that all have executors */
    assert_true(trains == (model->described == NULL));
    c.params = model->param_count;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const shoali_layer *layer = &model->layers[i];
        const char *kind = layer->row->name;
        c.matrices += strcmp(kind, "linear") == 0 ? layer->forward_flops : 0;
        c.scores += strcmp(kind, "product") == 0 ? layer->forward_flops : 0;
        c.norms += strcmp(kind, "layernorm") == 0;
        c.gelus += strcmp(kind, "gelu") == 0;
        c.silus += strcmp(kind, "silu") == 0;
        c.sigmoids += strcmp(kind, "sigmoid") == 0;
        c.products += strcmp(kind, "product") == 0;
    }
    shoal_model_close(model);
    shoali_arena_destroy(arena);
    return c;
}

/* Of a decoder of two blocks: 16 tokens of 64 values, 4 heads, 100 words. What numel() says of the
 * module's parameters, and products by hand. */
static void transformers_of_pytorch(void **state)
{
    (void)state;
    enum { T = 16, D = 64, V = 100, L = 2 };
    static const char *const gpts[] = {"gpt_opset14", "gpt_opset17", "gpt_any_batch"};
    for (int i = 0; i < 3; i++) {
        counts c = count(gpts[i]);
        assert_int_equal(c.params, 113920);
        assert_true(c.matrices == 2.0 * T * (L * (4 * D * D + 2 * D * 256) + D * V));
        assert_true(c.scores == L * 4.0 * T * T * D);
        assert_true(c.norms == 2 * L + 1 && c.gelus == L && c.products == 2 * L);
    }
    counts c = count("llama"); /* norms in pieces, a gate of its own sigmoid; no biases */
    assert_int_equal(c.params, 2 * V * D + L * (4 * D * D + 3 * D * 176 + 2 * D) + D);
    assert_true(c.matrices == 2.0 * T * (L * (4 * D * D + 3 * D * 176) + D * V));
    assert_true(c.scores == L * 4.0 * T * T * D);
    assert_true(c.norms == 2 * L + 1 && c.silus == L && c.sigmoids == 0);
    /* nn.TransformerEncoderLayer between two linear layers: 9 tokens of 12, 32 wide, mean, 10 */
    c = count("encoder");
    assert_int_equal(c.params, 9290);
    assert_true(c.matrices == 2.0 * 9 * (12 * 32 + 4 * 32 * 32 + 2 * 32 * 64) + 2.0 * 32 * 10);
    assert_true(c.scores == 4.0 * 9 * 9 * 32 && c.gelus == 1 && c.norms == 2);
}

static void activations_of_pytorch(void **state)
{
    (void)state;
    counts c = count("activations"); /* gelu by tanh */
    assert_int_equal(c.params, 1957);
    assert_true(c.gelus == 1 && c.silus == 1 && c.sigmoids == 1 && c.norms == 1);
    assert_true(c.matrices == 2.0 * (20 * 32 + 32 * 32 + 32 * 5));
    c = count("conv_activations");
    assert_int_equal(c.params, 5938);
    assert_true(c.gelus == 1 && c.silus == 1 && c.sigmoids == 1);
}

static void what_is_refused(void **state)
{
    (void)state;
    shoal_arena *arena = shoali_arena_create(4096);
    shoali_model_text text;
    assert_status(import("unknown", arena, &text), SHOAL_ECORRUPT);
    assert_error_has("operator 'Einsum' is not known; known: Conv");
    assert_status(shoali_import_onnx("x.onnx", (const uint8_t *)"hello", 5, arena, &text),
                  SHOAL_ECORRUPT);
    assert_error_has("x.onnx: not an ONNX model");
    assert_status(shoali_import_onnx_file("/no/such.onnx", arena, &text), SHOAL_EIO);
    shoali_arena_destroy(arena);
}

/* Nodes of two bytes, which take a hundred each once unpacked. */
static void memory_is_bounded(void **state)
{
    (void)state;
    enum { NODES = 10 << 20, BYTES = 2 * NODES };
    shoal_arena *arena = shoali_arena_create(4096);
    uint8_t *bytes = malloc(BYTES + 6);
    shoali_model_text text;
    assert_non_null(bytes);
    bytes[0] = 7 << 3 | 2; /* graph */
    for (int i = 0; i < 5; i++)
        bytes[1 + i] = (uint8_t)(((uint32_t)BYTES >> 7 * i & 127) | (i < 4 ? 128 : 0));
    for (size_t i = 0; i < NODES; i++) {
        bytes[6 + 2 * i] = 1 << 3 | 2;
        bytes[7 + 2 * i] = 0;
    }
    assert_status(shoali_import_onnx("bomb", bytes, BYTES + 6, arena, &text), SHOAL_ECORRUPT);
    assert_error_has("bomb: a graph that takes more than 296 MB of memory");
    free(bytes);
    shoali_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(a_chain),
                                       CHECK_TEST(branches_and_joins),
                                       CHECK_TEST(transformers_of_pytorch),
                                       CHECK_TEST(activations_of_pytorch),
                                       CHECK_TEST(what_is_refused),
                                       CHECK_TEST(memory_is_bounded)};
    return CHECK_RUN(tests);
}
