/* SPDX-License-Identifier: Apache-2.0 */
/* What the file computes is cli/onnx_test.py's to say, beside PyTorch. */
#include <math.h>

#include "model/export_onnx.h"
#include "support/check.h"
#include "support/onnx_file.h"

static const shoal_shape TOKENS = {1, 6, 1};

static void tokens_come_in_as_whole_numbers(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model(
        "lookup:vocab=9,width=4,frames;framewise:out=9,tied,bias=off", TOKENS);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const Shoal__Onnx__TensorType *in = file->graph->input[0]->type->tensor;
    assert_int_equal(in->elem_type, 7);
    assert_int_equal(in->shape->n_dim, 2);
    assert_int_equal(in->shape->dim[1]->value, 6);
    assert_int_equal(file->graph->output[0]->type->tensor->shape->n_dim, 3);
    assert_int_equal(file->graph->n_initializer, 1); /* the table, once */
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

/* Of four heads, two share a key: 0 0 1 1. Later frames are hidden from earlier ones. */
static void heads_share_keys_and_frames_look_back(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model(
        "lookup:vocab=9,width=8,frames;attention:heads=4,kv=2,causal,rope;framewise:out=3", TOKENS);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const int64_t want[4] = {0, 0, 1, 1};
    const Shoal__Onnx__Tensor *of = onnx_file_tensor(file, "attention1.key.shared.of");
    assert_non_null(of);
    assert_memory_equal(of->raw_data.data, want, sizeof want);
    const Shoal__Onnx__Tensor *mask = onnx_file_tensor(file, "attention1.mask");
    assert_int_equal(mask->raw_data.len, 36 * sizeof(float));
    for (size_t i = 0; i < 36; i++) {
        float value;
        memcpy(&value, mask->raw_data.data + i * sizeof value, sizeof value);
        assert_true(i % 6 > i / 6 ? value < -1e29f : value == 0);
    }
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

/* Point i of frame t is turned by t theta^(-2 i / dim). */
static void turns_are_those_of_rope(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model(
        "lookup:vocab=9,width=8,frames;attention:heads=2,causal,rope,theta=100;framewise:out=3",
        TOKENS);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const Shoal__Onnx__Tensor *sine = onnx_file_tensor(file, "attention1.sine");
    float value;
    memcpy(&value, sine->raw_data.data + (3 * 4 + 1) * sizeof value, sizeof value);
    assert_float_equal(value, (float)sin(3 * pow(100, -0.5)), 1e-7f);
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(tokens_come_in_as_whole_numbers),
                                       CHECK_TEST(heads_share_keys_and_frames_look_back),
                                       CHECK_TEST(turns_are_those_of_rope)};
    return CHECK_RUN(tests);
}
