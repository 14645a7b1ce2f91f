/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files: a model within its bounds, or refused with a reason; its weights, or so. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "model/import_model.h"

enum { VALUES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* Of a model that is small enough to have them in memory. */
static void read_weights(const uint8_t *bytes, size_t len_bytes, const shoal_model *model)
{
    float *values = calloc((size_t)(model->param_count + model->state_count) + 1, sizeof *values);
    const shoal_status status = shoali_onnx_parse_weights("fuzz.onnx", bytes, len_bytes, model,
                                                          values, values + model->param_count);
    if (status != SHOAL_OK && shoal_last_error()->status != status)
        abort();
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
    shoali_model_text text;
    shoal_model *model = NULL;
    shoal_arena *arena = shoali_arena_create(1024);
    shoal_status status = shoali_import_onnx("fuzz.onnx", bytes, len_bytes, arena, &text);
    if (status == SHOAL_OK)
        status = shoali_model_build("fuzz", &text, false, &model);
    if (status != SHOAL_OK && (model != NULL || shoal_last_error()->status != status))
        abort();
    if (model != NULL && model->param_count > SHOALI_DESCRIBED_ELEMS_MAX)
        abort();
    if (model != NULL && model->described == NULL &&
        model->param_count + model->state_count < VALUES_MAX)
        read_weights(bytes, len_bytes, model);
    shoal_model_close(model);
    shoali_arena_destroy(arena);
    return 0;
}
