/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of an ONNX file of images or vectors, for the model that the file is. */
#include <string.h>

#include "base/error.h"
#include "base/read_file.h"
#include "model/import_onnx.h"

enum { FLOAT = 1 }; /* TensorProto.DataType */

typedef struct weights {
    const shoal_model *model;
    float *params, *state;
    const char *what;
} weights;

static const char *name_of(const shoali_onnx_tensor *t)
{
    return t->name != NULL ? t->name : "";
}

/* Its values, in float32; NULL: they are not in the file, or are something else. */
static const float *values_of(const shoali_onnx_tensor *t, uint64_t count)
{
    if (t->has_data_type && t->data_type != FLOAT)
        return NULL;
    if (t->n_float_data == count)
        return t->float_data;
    if (t->has_raw_data && t->raw_data.len == count * sizeof(float))
        return (const float *)(const void *)t->raw_data.data; /* as memory allocated it: aligned */
    return NULL;
}

static uint64_t elems_of(const shoali_onnx_tensor *t)
{
    uint64_t elems = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] < 0 || (uint64_t)t->dims[i] > SHOALI_MODEL_ELEMS_MAX)
            return 0;
        elems *= (uint64_t)t->dims[i];
        if (elems > SHOALI_MODEL_ELEMS_MAX)
            return 0;
    }
    return elems;
}

/* Where a weight of that layer and role goes; NULL: the layer has none. */
static float *place_of(const weights *w, const shoali_onnx_taken *one, uint64_t *count_out,
                       uint64_t *rows_out)
{
    const shoali_layer *layer = &w->model->layers[one->layer];
    const uint64_t half = layer->state_count / 2;
    *rows_out = 1;
    if (strcmp(one->role, "mean") == 0 || strcmp(one->role, "variance") == 0) {
        *count_out = half;
        return half == 0 ? NULL : w->state + layer->state_offset + (one->role[0] == 'v' ? half : 0);
    }
    for (uint32_t i = layer->tensor_first; i < layer->tensor_first + layer->tensor_count; i++)
        if (strcmp(w->model->tensor_params[i].role, one->role) == 0) {
            *count_out = w->model->tensors[i].count;
            *rows_out = w->model->tensors[i].rows > 0 ? w->model->tensors[i].rows : 1;
            return w->params + w->model->tensors[i].offset;
        }
    return NULL;
}

static shoal_status check_one(const weights *w, const shoali_onnx_taken *one)
{
    uint64_t count = 0, rows;
    const shoali_layer *layer = &w->model->layers[one->layer];
    if (place_of(w, one, &count, &rows) == NULL)
        return shoali_fail(SHOAL_EINVAL, "%s: tensor '%.80s' has no place in layer %s (%s)",
                           w->what, name_of(one->tensor), layer->name, one->role);
    if (elems_of(one->tensor) != count)
        return shoali_fail(SHOAL_EINVAL,
                           "%s: tensor '%.80s' has %llu values, layer %s (%s) wants %llu", w->what,
                           name_of(one->tensor), (unsigned long long)elems_of(one->tensor),
                           layer->name, one->role, (unsigned long long)count);
    if (values_of(one->tensor, count) == NULL)
        return shoali_fail(
            SHOAL_EINVAL, "%s: tensor '%.80s' is not float32 inside the file (type %d, %zu bytes)",
            w->what, name_of(one->tensor), one->tensor->data_type, one->tensor->raw_data.len);
    return SHOAL_OK;
}

static void copy_one(const weights *w, const shoali_onnx_taken *one)
{
    uint64_t count = 0, rows;
    float *to = place_of(w, one, &count, &rows);
    const float *from = values_of(one->tensor, count);
    const uint64_t cols = count / rows;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            to[r * cols + c] = one->turned ? from[c * rows + r] : from[r * cols + c];
}

/* Every tensor of the model, and both halves of a batch norm's state, comes once. */
static shoal_status check_all(const weights *w, const shoali_onnx_takes *takes)
{
    uint64_t wanted = w->model->param_count + w->model->state_count, found = 0;
    for (size_t i = 0; i < takes->count; i++) {
        SHOALI_TRY(check_one(w, &takes->items[i]));
        found += elems_of(takes->items[i].tensor);
    }
    if (found == wanted)
        return SHOAL_OK;
    return shoali_fail(SHOAL_EINVAL, "%s: weights for %llu values, the model has %llu", w->what,
                       (unsigned long long)found, (unsigned long long)wanted);
}

static shoal_status check_model(const weights *w, const shoali_model_text *text)
{
    shoal_model *own = NULL;
    SHOALI_TRY(shoali_model_build(w->what, text, false, &own));
    bool same = own->layer_count == w->model->layer_count;
    for (uint32_t i = 0; same && i < own->layer_count; i++)
        same = own->layers[i].row == w->model->layers[i].row &&
               own->layers[i].param_count == w->model->layers[i].param_count &&
               shoali_shape_elems(own->layers[i].out) ==
                   shoali_shape_elems(w->model->layers[i].out);
    const uint32_t layers = own->layer_count;
    const bool described = own->described != NULL;
    shoal_model_close(own);
    if (described)
        return shoali_fail(
            SHOAL_ENOTSUP,
            "a graph of tokens, of which only its costs are read: weights come from a "
            "run folder, safetensors, or a folder of Hugging Face's");
    return same ? SHOAL_OK
                : shoali_fail(SHOAL_EINVAL,
                              "%s has other layers (%u) than model %s (%u): give the file as the "
                              "model, too",
                              w->what, layers, w->model->name, w->model->layer_count);
}

static shoal_status use(void *ctx, const shoali_model_text *text, const shoali_onnx_takes *takes)
{
    const weights *w = ctx;
    if (takes->other != NULL)
        return shoali_fail(SHOAL_EINVAL,
                           "node '%.48s' (%.32s): its layer computes something else, so weights "
                           "would not mean the same",
                           takes->other->name != NULL ? takes->other->name : "",
                           takes->other->op_type);
    SHOALI_TRY(check_model(w, text));
    SHOALI_TRY(check_all(w, takes));
    for (size_t i = 0; i < takes->count; i++)
        copy_one(w, &takes->items[i]);
    return SHOAL_OK;
}

shoal_status shoali_onnx_parse_weights(const char *what, const uint8_t *bytes, size_t len_bytes,
                                       const shoal_model *model, float *params, float *state)
{
    weights w = {.model = model, .params = params, .state = state, .what = what};
    shoali_model_text text;
    shoal_arena *arena = shoali_arena_create(1 << 16);
    if (arena == NULL)
        return SHOAL_ENOMEM;
    const shoal_status status = shoali_import_onnx_use(what, bytes, len_bytes, arena, &text, use,
                                                       &w);
    shoali_arena_destroy(arena);
    return status;
}

shoal_status shoali_onnx_read_weights(const char *path, const shoal_model *model, float *params,
                                      float *state)
{
    char *bytes;
    size_t len_bytes;
    SHOALI_TRY(shoali_read_file(path, SHOALI_ONNX_FILE_MAX, &bytes, &len_bytes));
    const shoal_status status = shoali_onnx_parse_weights(path, (const uint8_t *)bytes, len_bytes,
                                                          model, params, state);
    shoali_free(bytes);
    return status;
}
