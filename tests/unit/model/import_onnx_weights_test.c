/* SPDX-License-Identifier: Apache-2.0 */
/* Files of PyTorch's are cli/onnx_test.py's. */
#include "model/import_model.h"
#include "support/check.h"
#include "support/onnx_file.h"

static const shoal_shape IMAGE = {2, 4, 4};
static const char LAYERS[] = "conv:out=3,kernel=3,pad=1;batchnorm;relu;flatten;dense:out=5";

/* Parse a file that was changed in memory. */
static shoal_status parsed(const Shoal__Onnx__Model *file, const shoal_model *model, float *params,
                           float *kept)
{
    const size_t len = shoal__onnx__model__get_packed_size(file);
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    shoal__onnx__model__pack(file, bytes);
    const shoal_status status = shoali_onnx_parse_weights("net.onnx", bytes, len, model, params,
                                                          kept);
    free(bytes);
    return status;
}

typedef struct fixture {
    shoal_model *model;
    Shoal__Onnx__Model *file;
    float *params, *kept;
} fixture;

static fixture made(void)
{
    fixture f = {.model = onnx_file_model(LAYERS, IMAGE)};
    f.file = onnx_file_of(f.model);
    f.params = shoali_alloc_array((size_t)f.model->param_count, sizeof *f.params);
    f.kept = shoali_alloc_array((size_t)f.model->state_count, sizeof *f.kept);
    assert_true(f.params != NULL && f.kept != NULL);
    memset(f.params, 0, (size_t)f.model->param_count * sizeof *f.params);
    return f;
}

static void ended(fixture *f)
{
    shoali_free(f->kept);
    shoali_free(f->params);
    shoal__onnx__model__free_unpacked(f->file, NULL);
    shoal_model_close(f->model);
}

static void all_come_back(void **state)
{
    (void)state;
    fixture f = made();
    assert_ok(parsed(f.file, f.model, f.params, f.kept));
    for (size_t i = 0; i < f.model->param_count; i++)
        assert_true(f.params[i] == (float)(i + 1));
    for (size_t i = 0; i < f.model->state_count; i++)
        assert_true(f.kept[i] == -(float)(i + 1));
    ended(&f);
}

/* [in][out] with another attribute is [out][in]: value (o, i) stands at i * out + o. */
static void what_is_turned_is_turned_back(void **state)
{
    (void)state;
    fixture f = made();
    Shoal__Onnx__Node *gemm = f.file->graph->node[f.file->graph->n_node - 1];
    Shoal__Onnx__Tensor *weight = onnx_file_tensor(f.file, "dense1.weight");
    assert_string_equal(gemm->attribute[0]->name, "transB");
    gemm->attribute[0]->i = 0;
    const int64_t out = weight->dims[0], in = weight->dims[1];
    float first, second;
    memcpy(&first, weight->raw_data.data, sizeof first);
    memcpy(&second, weight->raw_data.data + sizeof second, sizeof second);
    weight->dims[0] = in;
    weight->dims[1] = out;
    assert_ok(parsed(f.file, f.model, f.params, f.kept));
    const float *dense = f.params + f.model->layers[f.model->layer_count - 1].param_offset;
    assert_true(dense[0] == first && dense[in] == second);
    ended(&f);
}

static void what_does_not_fit_is_named_and_nothing_changes(void **state)
{
    (void)state;
    fixture f = made();
    Shoal__Onnx__Tensor *weight = onnx_file_tensor(f.file, "dense1.weight");
    weight->data_type = 10;
    assert_status(parsed(f.file, f.model, f.params, f.kept), SHOAL_EINVAL);
    assert_error_has("tensor 'dense1.weight' is not float32 inside the file (type 10");
    weight->data_type = 1;
    weight->raw_data.len -= 4;
    assert_status(parsed(f.file, f.model, f.params, f.kept), SHOAL_EINVAL);
    assert_error_has("tensor 'dense1.weight' is not float32 inside the file (type 1");
    weight->raw_data.len += 4;
    Shoal__Onnx__Tensor *mean = onnx_file_tensor(f.file, "batchnorm1.mean");
    mean->dims[0] = 2;
    assert_status(parsed(f.file, f.model, f.params, f.kept), SHOAL_EINVAL);
    assert_error_has("tensor 'batchnorm1.mean' has 2 values, layer batchnorm1 (mean) wants 3");
    for (size_t i = 0; i < f.model->param_count; i++)
        assert_true(f.params[i] == 0);
    ended(&f);
}

static void another_model_is_refused(void **state)
{
    (void)state;
    fixture f = made();
    shoal_model *other = onnx_file_model("conv:out=3,kernel=3,pad=1;relu;dense:out=5", IMAGE);
    assert_status(parsed(f.file, other, f.params, f.kept), SHOAL_EINVAL);
    assert_error_has("has other layers (5) than model net (3)");
    shoal_model_close(other);
    ended(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CHECK_TEST(all_come_back),
                                       CHECK_TEST(what_is_turned_is_turned_back),
                                       CHECK_TEST(what_does_not_fit_is_named_and_nothing_changes),
                                       CHECK_TEST(another_model_is_refused)};
    return CHECK_RUN(tests);
}
