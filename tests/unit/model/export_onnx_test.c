/* SPDX-License-Identifier: Apache-2.0 */
/* What the file computes is cli/onnx_test.py's to say, beside PyTorch. */
#include "model/export_onnx.h"
#include "support/check.h"
#include "support/onnx_file.h"

static const shoal_shape IMAGE = {3, 8, 8};

static void inputs_and_outputs_are_named_and_shaped(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model("conv:out=4,kernel=3;relu;flatten;dense:out=5", IMAGE);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    assert_int_equal(file->opset_import[0]->version, 17);
    assert_string_equal(file->graph->input[0]->name, "input");
    assert_string_equal(file->graph->output[0]->name, "scores");
    assert_int_equal(file->graph->input[0]->type->tensor->shape->n_dim, 4);
    assert_int_equal(file->graph->output[0]->type->tensor->shape->n_dim, 2);
    assert_int_equal(file->graph->output[0]->type->tensor->shape->dim[1]->value, 5);
    assert_int_equal(onnx_file_count(file, "Conv"), 1);
    assert_int_equal(onnx_file_count(file, "Flatten"), 1);
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

/* A 2 x 4 matrix of circulant blocks of 2 with first columns (1, 2) and (3, 4). */
static void circulant_matrices_are_written_out(void **state)
{
    (void)state;
    static const float want[8] = {1, 2, 3, 4, 2, 1, 4, 3};
    shoal_model *model = onnx_file_model("circulant:out=2,block=2", (shoal_shape){4, 1, 1});
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const Shoal__Onnx__Tensor *weight = onnx_file_tensor(file, "circulant1.weight");
    assert_non_null(weight);
    assert_int_equal(weight->raw_data.len, sizeof want);
    assert_memory_equal(weight->raw_data.data, want, sizeof want);
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

/* A last, partial window is padding at the end: 8 by windows of 3 each 2 needs one more. */
static void partial_windows_are_padding(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model("maxpool:kernel=3,stride=2,ceil;dense:out=2", IMAGE);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const Shoal__Onnx__Node *node = file->graph->node[0];
    assert_string_equal(node->op_type, "MaxPool");
    assert_string_equal(node->attribute[2]->name, "pads");
    const int64_t want[4] = {0, 0, 1, 1};
    assert_memory_equal(node->attribute[2]->ints, want, sizeof want);
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

/* Statistics are the state's: all means, then all variances. */
static void batch_norm_has_its_state(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model("conv:out=2,kernel=1;batchnorm;dense:out=2", IMAGE);
    Shoal__Onnx__Model *file = onnx_file_of(model);
    const float mean[2] = {-1, -2}, variance[2] = {-3, -4};
    assert_memory_equal(onnx_file_tensor(file, "batchnorm1.mean")->raw_data.data, mean, 8);
    assert_memory_equal(onnx_file_tensor(file, "batchnorm1.variance")->raw_data.data, variance, 8);
    shoal__onnx__model__free_unpacked(file, NULL);
    shoal_model_close(model);
}

static void what_has_no_form_is_named(void **state)
{
    (void)state;
    shoal_model *model = onnx_file_model("lstm:out=4;framewise:out=3", (shoal_shape){1, 6, 5});
    assert_status(shoali_onnx_write("/nowhere/x.onnx", model, NULL, NULL, NULL), SHOAL_EINVAL);
    assert_error_has("layer lstm1 (lstm:out=4) has no form in ONNX");
    shoal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK_TEST(inputs_and_outputs_are_named_and_shaped),
        CHECK_TEST(circulant_matrices_are_written_out), CHECK_TEST(partial_windows_are_padding),
        CHECK_TEST(batch_norm_has_its_state), CHECK_TEST(what_has_no_form_is_named)};
    return CHECK_RUN(tests);
}
